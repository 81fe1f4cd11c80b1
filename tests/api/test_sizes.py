"""`sizes=` for several sizes, and `dynamic=True`."""

from __future__ import annotations

import numpy as np
import pytest

import tc

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
OUTER = {
    MM: ("M",),
    "def f(float(N) x) -> (y) { y(i) = x(i) }": ("N",),
    "def f(float(B,T,D) x, float(D) w) -> (y) { y(b,t) +=! x(b,t,d) * w(d) }": ("B",),
    "def f(float(N,N) x) -> (y) { y(i) +=! x(i,j) }": (),
    "def f(float(N,3) x, int(N) k) -> (y) { y(i,j) = x(i,j) * k(i) }": ("N",),
    "def f(float s) -> (y) { y = s }": (),
}


@pytest.mark.parametrize("source", OUTER)
def test_all_outer_sizes_are_dynamic(source: str) -> None:
    assert tuple(tc.compile(source, backend="reference", dynamic=True).dynamic) == OUTER[source]
    assert tuple(tc.compile(source, backend="reference", dynamic=False).dynamic) == ()


def test_one_kernel_serves_every_batch() -> None:
    kernel = tc.compile(MM, backend="cpu", dynamic=True)
    b = np.arange(12, dtype=np.float32).reshape(4, 3)
    for m in (1, 2, 7, 64):
        a = np.arange(4 * m, dtype=np.float32).reshape(m, 4) % 5
        np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_several_sizes() -> None:
    kernel = tc.compile(MM, backend="reference", sizes=[{"M": 2, "K": 3, "N": 4}, {"M": 3, "K": 3, "N": 4}])
    assert kernel(np.ones((3, 3), np.float32), np.ones((3, 4), np.float32)).shape == (3, 4)
    with pytest.raises(tc.ArgumentError, match="sizes is of type int, not a mapping"):
        tc.compile(MM, backend="reference", sizes=[3])  # type: ignore[list-item]
    with pytest.raises(tc.ArgumentError, match="no value for the size K"):
        tc.compile(MM, backend="reference", sizes=[{"M": 2, "N": 4}])
