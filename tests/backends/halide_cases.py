"""Data, comparison with the interpreter, and programs that several tests of the halide backend use."""

from __future__ import annotations

from typing import Any

import numpy as np

import tc

Array = np.ndarray[Any, Any]


def small(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Small integers: sums and products of them are exact in any order."""
    low = 0 if np.dtype(dtype).kind in "ub" else -4
    return np.random.default_rng(seed).integers(low, 2 if dtype == "bool" else 5, shape).astype(dtype)


def both(
    source: str, *args: Any, out: Any = None, options: Any = None, entry: str | None = None
) -> list[tuple[Array, Array]]:
    """Every result: the backend's and the interpreter's."""
    kernel = tc.compile(source, backend="halide", entry=entry, options=options)
    given = {} if out is None else {"out": out.copy()}
    got = kernel(*args, **given)
    want = tc.interpret(source, *args, entry=entry, **({} if out is None else {"out": out.copy()}))
    if not isinstance(got, tuple):
        got, want = (got,), (want,)
    return list(zip(got, want, strict=True))


def same(source: str, *args: Any, **rest: Any) -> None:
    for got, want in both(source, *args, **rest):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def close(source: str, *args: Any, rtol: float, **rest: Any) -> None:
    for got, want in both(source, *args, **rest):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=0)


MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
CONV = (
    "def conv(float(N,C,H,W) I, float(M,C,KH,KW) W1) -> (O) "
    "{ O(n,m,h,w) +=! I(n,c,2*h+kh,3*w+kw) * W1(m,c,kh,kw) }"
)
SOFTMAX = (
    "def softmax(float(N,D) I) -> (O) { tmp(n) max=! I(n,d) O(n,d) = exp(I(n,d)-tmp(n)) tmp(n) +=! O(n,d) "
    "O(n,d) = O(n,d)/tmp(n) }"
)
LUT = (
    "def 2LUT(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1, O2) "
    "{ O1(i,j) +=! LUT1(I1(i,k),j) O2(i,j) +=! LUT2(I2(i,k),j) }"
)
TRIANGLE = "def f(float(N,N) A) -> (O) { O(i) +=! A(i,j) where j <= i }"


def odd(a: Array) -> Array:
    """A copy whose first element lies 4 bytes off a multiple of 64."""
    room = np.zeros(a.nbytes + 68, "u1")
    start = -room.ctypes.data % 64 + 4
    view = room[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view
