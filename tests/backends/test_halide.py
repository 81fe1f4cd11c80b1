"""The halide backend against the interpreter: meanings, errors, memory, threads, autoschedulers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tc
from tc import pipeline, registry
from tc.errors import BackendError, BoundsError, InternalError, Source
from tc.halide.builtins import FUNCTIONS
from tc.lang.builtins import BUILTINS

Array = np.ndarray[Any, Any]
SCHEDULERS = ("Mullapudi2016", "Adams2019", "Li2018")

pytestmark = pytest.mark.filterwarnings("ignore::tc.Warning")


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


# ---- programs


def test_matmul() -> None:
    same(MATMUL, small(5, 7), small(7, 6))


def test_sgemm_updates_the_caller_s_buffer() -> None:
    source = (
        "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) "
        "{ C(i,j) = b * C(i,j)  C(i,j) += a * A(i,k) * B(k,j) }"
    )
    same(source, 2.0, 3.0, small(5, 7), small(7, 6), out=small(5, 6))
    c = small(5, 6)
    result = tc.compile(source, backend="halide")(2.0, 3.0, small(5, 7), small(7, 6), out=c)
    assert result is c


def test_strided_convolution() -> None:
    same(CONV, small(2, 3, 9, 11), small(4, 3, 3, 2))


def test_soft_max() -> None:
    close(SOFTMAX, small(4, 9), rtol=1e-6)


def test_a_triangular_condition_cuts_the_domain() -> None:
    same(TRIANGLE, small(6, 6))
    same(
        "def f(float(N,N) A) -> (O) { O(i,j) = -1.0 where i in 0:N, j in 0:N  O(i,j) = A(i,j) where j <= i }",
        small(6, 6),
    )
    same("def f(float(N,N) A) -> (O) { O(i) +=! A(i,j) where j <= i, i < 4, 1 < j }", small(6, 6))


def test_lower_bounds_other_than_zero() -> None:
    same("def f(float(I) B) -> (A) { A(i) = B(10-i) }", small(4))
    same("def f(float(I) B) -> (A, C) { A(i) = B(i-3)  C(i) = A(i+1) + A(i) }", small(7))


def test_redefinition_keeps_what_was_read_before() -> None:
    same(
        "def f(float(N,M) A) -> (O, P) { T(i) +=! A(i,j) O(i) = T(i) T(i) max=! A(i,j) P(i) = T(i) + O(i) }",
        small(5, 6),
    )


def test_a_result_is_read_from_the_caller_before_it_is_written() -> None:
    source = (
        "def f(float(N) A) -> (float(N) C) { T(i) = C(i) + A(i)  C(i) = A(i) * 2  "
        "C(i) += T(i) + T(N-1-i) where i in 0:N }"
    )
    same(source, small(6), out=small(6, seed=1))


def test_a_part_of_the_own_tensor_is_moved() -> None:
    same("def f(float(N) A) -> (a) { a(i) = A(i) a(i) = a(i+10) * A(i) where i in 0:10 }", small(20))
    same(
        "def f(float(N,M) A) -> (a) { a(i,j) = A(i,j) a(i,j) = a(i,j+3) + 1 where i in 0:2, j in 0:3 }",
        small(4, 6),
    )


def test_concat() -> None:
    same("def f(float(N,A) X, float(N,B) Y) -> (Z) { Z = concat(X, Y) }", small(3, 4), small(3, 2))


PRODUCTION = """
def 2LUT(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1, O2) {
  O1(i,j) +=! LUT1(I1(i,k),j)
  O2(i,j) +=! LUT2(I2(i,k),j)
}
def MLP1(float(B,M) I, float(O,N) W1, float(O) B1) -> (O1) {
  O1(b,n) = B1(n)
  O1(b,n) += I(b,m) * W1(n,m)
  O1(b,n) = fmaxf(O1(b,n), 0)
}
def prodModel(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2, float(B,WX) I3, float(WY,WX) W,
              float(N,M) W1, float(N) B1) -> (C1, C2, C3, I, O1) {
  (C1, C2) = 2LUT(LUT1, I1, LUT2, I2)
  C3(b,wy) +=! I3(b,wxx) * W(wy,wxx)
  I        = concat(C1, C2, C3)
  O1       = MLP1(I, W1, B1)
}
"""


def test_calls_between_defs() -> None:
    i1, i2 = small(4, 3, dtype="uint8").astype("i4"), small(4, 5, dtype="uint8").astype("i4")
    same(
        PRODUCTION,
        small(10, 8), i1, small(6, 8), i2, small(4, 6), small(7, 6), small(9, 23), small(9),
    )  # fmt: skip


def test_guarded_and_clamped_reads() -> None:
    same("def f(float(N) A) -> (O) { O(i) = (i-2 >= 0) ? A(i-2) : 0.0 where i in 0:N }", small(6))
    same("def f(float(N) A) -> (O) { O(i) = A(max(min(i-2, N-1), 0)) where i in 0:9 }", small(6))
    same("def f(float(N) A) -> (O) { O(i) = A(i%N) + A(i/2) where i in 0:N }", small(7))
    same(
        "def f(float(N) A, int(N) J) -> (O) { O(i) = (J(i) >= 0) ? A(J(i)) : -1.0 }",
        small(5),
        np.array([4, -7, 0, -1, 2], "i4"),
    )


@pytest.mark.parametrize("shapes", [((3, 0), (0, 4)), ((0, 3), (3, 4)), ((3, 2), (2, 0))])
def test_zero_extents(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    same(MATMUL, small(*shapes[0]), small(*shapes[1]))


def test_zero_extents_of_every_kind() -> None:
    same("def f(float(N) A) -> (O, P, Q) { O max=! A(i) P *=! A(i) Q +=! A(i) }", small(0))
    same(LUT, small(5, 3), small(2, 0, dtype="int32"), small(5, 3), small(2, 1, dtype="uint8").astype("i4"))
    same("def f(float(N) A, int(M) J) -> (O) { O(i) = A(J(i)) }", small(0), small(0, dtype="int32"))


def test_no_dimensions() -> None:
    same("def f(float(N) A) -> (s, t) { s +=! A(i) t = s * 2 }", small(20))
    same("def f(float A) -> (s) { s = A * 2 }", 3.0)


def test_eight_dimensions() -> None:
    letters = "a,b,c,d,e,f,g,h"
    a = small(2, 1, 3, 2, 1, 2, 2, 3)
    same(
        f"def t(float({letters.upper()}) X) -> (Y, S) "
        f"{{ Y(h,g,f,e,d,c,b,a) = X({letters}) S +=! X({letters}) }}",
        a,
    )


def test_long_index_arithmetic_does_not_overflow() -> None:
    a = small(70_000)
    same("def f(float(N) A) -> (O) { O(i) = A(i * i / 70000) where i in 0:N }", a)


# ---- element types

INTEGERS = [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64", "bool"])
def test_copies_keep_their_type(dtype: str) -> None:
    same(f"def f({dtype}(N,M) A) -> (O) {{ O(j,i) = A(i,j) }}", small(5, 7, dtype=dtype))


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64"])
def test_reductions(dtype: str) -> None:
    same(
        f"def f({dtype}(N,M) A) -> (O, P, Q, R) "
        "{ O(i) +=! A(i,j) P(i) max=! A(i,j) Q(i) min=! A(i,j) R(i) *=! A(i,j) }",
        small(5, 7, dtype=dtype),
    )


def test_bfloat16() -> None:
    import ml_dtypes

    a, b = (small(6, 5, seed=k).astype(ml_dtypes.bfloat16) for k in (0, 1))
    same(
        "def f(bfloat16(N,M) A, bfloat16(N,M) B) -> (O, S) "
        "{ O(i,j) = A(i,j) * B(i,j) + 0.3 S(i) +=! A(i,j) }",
        a,
        b,
    )


def edges(dtype: str) -> tuple[Array, Array]:
    """Pairs of integers with the ends of their type, 0 and -1 among them."""
    rng = np.random.default_rng(3)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    a = rng.integers(low, high, 64, dtype=dtype, endpoint=True)
    b = rng.integers(low, high, 64, dtype=dtype, endpoint=True)
    special = [low, high, 0, 1, 5, (low + 1 if low else 2)]
    pairs = [(p, q) for p in special for q in [*special, *([-1, -3] if low else [3])]]
    a[: len(pairs)], b[: len(pairs)] = [p for p, _ in pairs], [q for _, q in pairs]
    return a, b


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_and_divide_to_floor(dtype: str) -> None:
    a, b = edges(dtype)
    same(
        f"def f({dtype}(N) A, {dtype}(N) B) -> (O, P, Q, R, S, T, U, V) {{ O(i) = A(i) + B(i) "
        "P(i) = A(i) - B(i) Q(i) = A(i) * B(i) R(i) = A(i) / B(i) S(i) = A(i) % B(i) "
        "T(i) = min(A(i), B(i)) U(i) = max(A(i), B(i)) V(i) = abs(A(i)) }",
        a,
        b,
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_comparisons_see_wrapped_values(dtype: str) -> None:
    a, b = edges(dtype)
    same(
        f"def f({dtype}(N) A, {dtype}(N) B) -> (O, P) {{ O(i) = (A(i) + 1 > A(i)) ? 1 : 0 "
        "P(i) = (A(i) - B(i) <= A(i)) ? 1 : 0 }",
        a,
        b,
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_conversions(dtype: str) -> None:
    ends = [2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64)]
    values = [300, np.nan, -1.7, 0.5, 1e30, -1e30, np.inf, -np.inf, 127.9, -128.9, 255.9, -0.9, *ends]
    values += [-v for v in ends] + [v - 1 for v in ends] + [-v - 1 for v in ends]
    doubles = np.array(values)
    same(
        f"def f(float(N) A, double(N) B) -> (O, P) {{ O(i) = {dtype}(A(i)) P(i) = {dtype}(B(i)) }}",
        doubles.astype("f4"),
        doubles,
    )
    a, _ = edges(dtype)
    same(
        f"def f({dtype}(N) A) -> (O, P, Q, R, S, T) {{ O(i) = float(A(i)) P(i) = double(A(i)) "
        "Q(i) = int8(A(i)) R(i) = uint16(A(i)) S(i) = int64(A(i)) T(i) = uint64(A(i)) }",
        a,
    )


NANS = np.array([1, np.nan, 2, np.nan, -np.inf, 0.0, -0.0, np.inf], "f4")


def test_nan() -> None:
    other = np.array([np.nan, 1, 3, np.nan, 2, -0.0, 0.0, np.nan], "f4")
    same(
        "def f(float(N) A, float(N) B) -> (O, P, Q, R) "
        "{ O(i) = min(A(i), B(i)) P(i) = max(A(i), B(i)) Q(i) = fmin(A(i), B(i)) R(i) = fmax(A(i), B(i)) }",
        NANS,
        other,
    )
    same(
        "def f(float(N) A, float(N) B) -> (O, P, Q, R, S, T) { O(i) = (A(i) < B(i)) ? 1 : 0 "
        "P(i) = (A(i) <= B(i)) ? 1 : 0 Q(i) = (A(i) > B(i)) ? 1 : 0 R(i) = (A(i) >= B(i)) ? 1 : 0 "
        "S(i) = (A(i) == B(i)) ? 1 : 0 T(i) = !(A(i) <= B(i)) ? 1 : 0 }",
        NANS,
        other,
    )


def test_reductions_propagate_nan() -> None:
    a = np.array([[1, np.nan, 2], [-0.0, 0.0, -1], [np.inf, 1, 2], [np.nan, np.nan, 0]], "f4")
    same("def f(float(N,M) A) -> (O, P) { O(i) max=! A(i,j) P(i) min=! A(i,j) }", a)


def test_no_identity_that_floats_do_not_have_is_used() -> None:
    a = np.array([1, np.nan, np.inf, -0.0, 1e-40], "f4")
    b = np.array([1e9, 1, np.nan, 0.0, 1], "f4")
    got = tc.compile(
        "def f(float(N) A, float(N) B) -> (O, P, Q, R, S) { O(i) = A(i) - A(i) P(i) = A(i) * 0.0 "
        "Q(i) = A(i) / A(i) R(i) = (A(i) + B(i)) - B(i) S(i) = A(i) + 0.0 }",
        backend="halide",
    )(a, b)
    with np.errstate(all="ignore"):
        want = (a - a, a * np.float32(0), a / a, (a + b) - b, a + np.float32(0))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(np.signbit(g)[~np.isnan(w)], np.signbit(w)[~np.isnan(w)])


def test_bool() -> None:
    a, b = small(9, dtype="bool"), small(9, dtype="bool", seed=1)
    same(
        "def f(bool(N) A, bool(N) B) -> (O, P, Q) "
        "{ O(i) = A(i) && !B(i) || A(i) == B(i) P(i) = A(i) + B(i) Q(i) +=! A(j) ? 1 : 0 where i in 0:2 }",
        a,
        b,
    )


# ---- built-ins

# Arguments on which each function is finite and well conditioned; the rest take (-3, 3).
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "rcbrt", "pow", "cbrt"}
UNIT = {"acos", "asin", "atanh"}
NEAR_ZERO = {"log1p", "expm1"}


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"abs", "fma"}))
def test_builtins(name: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    t = np.dtype("f4" if dtype == "float" else "f8")
    arity = BUILTINS[name].arity
    args = [rng.uniform(-3, 3, 400) for _ in range(arity)]
    if name in POSITIVE:
        args = [np.abs(a) + 0.01 for a in args]
    elif name in UNIT:
        args = [a / 3.1 for a in args]
    elif name in NEAR_ZERO:
        args = [a * 10.0 ** rng.uniform(-12, -1, 400) for a in args]
    elif name == "acosh":
        args = [np.abs(a) + 1.01 for a in args]
    params = ", ".join(f"{dtype}(N) A{k}" for k in range(arity))
    call = f"{name}({', '.join(f'A{k}(i)' for k in range(arity))})"
    ulps = 16 if name in {"tan", "cospi", "sinpi"} else 8
    close(
        f"def f({params}) -> (O) {{ O(i) = {call} }}",
        *(a.astype(t) for a in args),
        rtol=ulps * np.finfo(t).eps,
    )


SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    1e-310,
    -1e-310,
    5e-324,
    1e308,
    709.0,
]


@pytest.mark.parametrize(
    "name",
    [
        "round",
        "trunc",
        "floor",
        "ceil",
        "fabs",
        "cbrt",
        "logb",
        "log1p",
        "expm1",
        "sinpi",
        "cospi",
        "sigmoid",
        "rsqrt",
    ],
)
def test_builtins_at_the_edges(name: str) -> None:
    args = np.array([-2.0 if name == "log1p" and v == -1e308 else v for v in SPECIAL])
    ((got, want),) = both(f"def f(double(N) A) -> (O) {{ O(i) = {name}(A(i)) }}", args)
    np.testing.assert_allclose(got, want, rtol=4e-15, atol=0)
    exact = ~np.isnan(want) & (want == 0)
    np.testing.assert_array_equal(np.signbit(got)[exact], np.signbit(want)[exact])


@pytest.mark.parametrize("name", ["copysign", "fdim", "hypot", "nextafter", "fmin", "fmax"])
def test_builtins_of_two_arguments_at_the_edges(name: str) -> None:
    pairs = np.array([(p, q) for p in SPECIAL for q in SPECIAL])
    close(
        f"def f(double(N) A, double(N) B) -> (O) {{ O(i) = {name}(A(i), B(i)) }}",
        *map(np.ascontiguousarray, pairs.T),
        rtol=1e-15,
    )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_fma_rounds_once(dtype: str) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.uniform(-3, 3, 500).astype(dtype) for _ in range(2))
    c = np.where(np.arange(500) < 250, -(a * b), rng.uniform(-3, 3, 500)).astype(dtype)  # half cancel
    source = "def f({t}(N) A, {t}(N) B, {t}(N) C) -> (O) {{ O(i) = fma(A(i), B(i), C(i)) }}"
    kernel = tc.compile(source.format(t="float" if dtype == "f4" else "double"), backend="halide")
    exact = [
        Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(a, b, c, strict=True)
    ]
    np.testing.assert_allclose(kernel(a, b, c), np.array([float(e) for e in exact]), rtol=np.finfo(dtype).eps)
    if dtype == "f8":
        large = np.array([1e200])
        assert kernel(large, large, np.array([0.0]))[0] == np.inf


# ---- errors


def test_a_subscript_out_of_range_raises_and_reads_nothing() -> None:
    kernel = tc.compile(LUT, backend="halide")
    i1, i2 = small(4, 3, dtype="uint8").astype("i4"), small(4, 2, dtype="uint8").astype("i4")
    i2[3, 1] = -9
    with pytest.raises(
        BoundsError, match=r"index -9 is out of range .* of 'LUT2' \(0 to 5\), at i = 3, j = 0, k = 1"
    ):
        kernel(small(9, 8), i1, small(6, 8), i2)
    i2[3, 1] = 5
    got = kernel(small(9, 8), i1, small(6, 8), i2)
    np.testing.assert_array_equal(got[1], small(6, 8)[i2].sum(1))


@pytest.mark.parametrize("index", [2**31, -(2**31) - 1, 2**40, 2**63 - 1])
def test_a_subscript_that_int32_cannot_hold_is_out_of_range(index: int) -> None:
    kernel = tc.compile("def f(float(N) A, int64(M) J) -> (O) { O(i) = A(J(i)) }", backend="halide")
    with pytest.raises(BoundsError, match=f"index {index} is out of range"):
        kernel(small(5), np.array([0, index], "i8"))


def test_a_check_under_a_guard_counts_only_where_the_guard_holds() -> None:
    kernel = tc.compile(
        "def f(float(N) A, int(M) J) -> (O) { O(i) = (J(i) < 100) ? A(J(i)) : 7.0 }", backend="halide"
    )
    np.testing.assert_array_equal(kernel(np.arange(5, dtype="f4"), np.array([3, 100, 4], "i4")), [3, 7, 4])
    with pytest.raises(BoundsError, match="index 99"):
        kernel(small(5), np.array([3, 99, 4], "i4"))


def test_unchecked_subscripts_read_nothing_foreign() -> None:
    kernel = tc.compile(
        "def f(float(N) A, int(M) J) -> (O) { O(i) = A(J(i)) }", backend="halide", checks="none"
    )
    assert kernel(np.arange(5, dtype="f4"), np.array([2, 2_000_000_000], "i4"))[0] == 2


def specialized(source: str, **sizes: int) -> Any:
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant())
    return pipeline.specialize(built, sizes, {})


def test_symbolic_sizes_are_refused() -> None:
    with pytest.raises(InternalError, match="not specialised: N"):
        registry.get("halide").compile(specialized(MATMUL, M=2, K=3), None)


def test_what_halide_lacks_is_refused_by_name() -> None:
    with pytest.raises(BackendError, match="the built-in 'erfinv'") as caught:
        tc.compile("def f(float(N) A) -> (O) { O(i) = erfinv(A(i)) }", backend="halide")(small(3))
    assert caught.value.code == "TC0805"


def test_every_stage_can_be_seen(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tc.compile(MATMUL, backend="halide").specialize(M=3, K=4, N=5).compiled
    assert "every Func is computed whole" in compiled.artifact("schedule")
    assert "produce tc_C" in compiled.artifact("loops")
    assert "_argv" in compiled.artifact("llvm") and "_argv:" in compiled.artifact("asm")
    with pytest.raises(BackendError, match="no stage 'mapped'") as caught:
        compiled.artifact("mapped")
    assert caught.value.code == "TC0804"
    assert capfd.readouterr() == ("", "")


# ---- memory and threads


def odd(a: Array) -> Array:
    """A copy whose first element lies 4 bytes off a multiple of 64."""
    room = np.zeros(a.nbytes + 68, "u1")
    start = -room.ctypes.data % 64 + 4
    view = room[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


@pytest.mark.parametrize("scheduler", [None, *SCHEDULERS])
def test_arrays_need_not_be_aligned(scheduler: str | None) -> None:
    # Halide 21 loads masked vectors as if every buffer were aligned: without the copies the process dies.
    script = f"""
import sys; sys.path.insert(0, {os.getcwd()!r})
import tc
from tests.backends.test_halide import TRIANGLE, MATMUL, CONV, odd, small
import numpy as np
options = tc.Options(autoschedule={scheduler!r})
a, o = odd(small(131, 131)), odd(np.zeros(131, "f4"))
kernel = tc.compile(TRIANGLE, backend="halide", options=options)
for _ in range(20): kernel(a, out=o)
assert (o == np.tril(small(131, 131)).sum(1)).all()
a, b, c = odd(small(67, 45)), odd(small(45, 83)), odd(np.zeros((67, 83), "f4"))
tc.compile(MATMUL, backend="halide", options=options)(a, b, out=c)
assert (c == a @ b).all()
print("alive")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_the_calling_convention() -> None:
    compiled = registry.get("halide").compile(
        specialized("def f(float s, float(N) A) -> (C) { C(i) = C(i) * s + A(i) }", N=5), None
    )
    assert compiled.address and compiled.workspace == 64 and not compiled.release_gil
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(compiled.address)
    scalar, a, c = np.array(3.0, "f4"), small(5), small(5, seed=1)
    error, room = np.zeros(32, "i8"), np.zeros(128, "u1")
    want = c * 3 + a
    workspace = room.ctypes.data + -room.ctypes.data % 64
    args = (ctypes.c_void_p * 5)(*(v.ctypes.data for v in (scalar, a, c, error)), workspace)
    assert kernel(ctypes.addressof(args)) == 0
    np.testing.assert_array_equal(c, want)


def test_large_work_releases_the_interpreter_lock() -> None:
    assert registry.get("halide").compile(specialized(MATMUL, M=50, K=50, N=50), None).release_gil


def test_temporaries_do_not_live_on_the_stack() -> None:
    n = 3_000_000  # 12 MB, more than a thread's stack
    a = small(n)
    same(
        "def f(float(N) A) -> (O) { T(i) = A(i) + 1 U(i) = T(N-1-i) * 2 where i in 0:N O(i) = U(i) + T(i) }",
        a,
    )


def test_several_threads_call_and_compile() -> None:
    kernel = tc.compile(LUT, backend="halide")
    tables = small(9, 8)

    def work(k: int) -> bool:
        index = np.random.default_rng(k).integers(0, 9, (4, 3)).astype("i4")
        bad = index.copy()
        bad[k % 4, k % 3] = 9 + k
        got = kernel(tables, index, tables, index)
        try:
            kernel(tables, bad, tables, index)
        except BoundsError as error:
            ok = f"index {9 + k} is" in error.message
        else:
            ok = False
        n = 3 + k % 5
        product = tc.compile(MATMUL, backend="halide")(small(n, 4), small(4, n))
        return (
            ok
            and bool((got[0] == tables[index].sum(1)).all())
            and bool((product == small(n, 4) @ small(4, n)).all())
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))


# ---- autoschedulers


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_autoschedulers(scheduler: str, capfd: pytest.CaptureFixture[str]) -> None:
    options = tc.Options(autoschedule=scheduler)
    same(MATMUL, small(67, 45), small(45, 83), options=options)
    same(CONV, small(2, 3, 19, 31), small(4, 3, 3, 2), options=options)
    close(SOFTMAX, small(37, 91), rtol=1e-5, options=options)
    # Stencils: a schedule computes points beyond the tensors they read.
    same(
        "def f(float(N,M) A) -> (O) { T(i,j) = A(i,j) + A(i,j+1)  U(i,j) = T(i+1,j) * 2 + T(i,j)  "
        "O(i,j) = U(i,j+2) + U(i,j) }",
        small(61, 77),
        options=options,
    )
    same(MATMUL, small(3, 0), small(0, 5), options=options)
    compiled = tc.compile(MATMUL, backend="halide", options=options).specialize(M=67, K=45, N=83).compiled
    assert ".parallel(" in compiled.artifact("schedule") and "tc_C" in compiled.artifact("schedule")
    assert capfd.readouterr() == ("", "")


def test_fast_math_stays_near() -> None:
    close(SOFTMAX, small(4, 90), rtol=1e-5, options=tc.Options(fast_math=True))
    same(MATMUL, small(5, 7), small(7, 6), options=tc.Options(fast_math=True))


@pytest.mark.parametrize("scheduler", SCHEDULERS[:2])
def test_checks_in_scheduled_and_parallel_code(scheduler: str, capfd: pytest.CaptureFixture[str]) -> None:
    kernel = tc.compile(LUT, backend="halide", options=tc.Options(autoschedule=scheduler))
    i1 = np.random.default_rng(0).integers(0, 50, (41, 3)).astype("i4")
    i2 = np.random.default_rng(1).integers(0, 60, (41, 5)).astype("i4")
    t1, t2 = small(50, 19), small(60, 19)
    got = kernel(t1, i1, t2, i2)
    np.testing.assert_array_equal(got[0], t1[i1].sum(1))
    i1[3, 1] = 50
    with pytest.raises(BoundsError, match=r"index 50 is out of range .* at i = 3, j = \d+, k = 1"):
        kernel(t1, i1, t2, i2)
    assert capfd.readouterr() == ("", "")


def test_a_schedule_that_halide_cannot_compile_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    # Li2018 makes the sum atomic; Halide 21 then builds a loop around the check that LLVM refuses.
    source = "def f(float(M,D) L, uint8(N,M) J) -> (S, v) { S(n) +=! L(r_m, int32(J(n,r_m))) v min=! S(r_n) }"
    kernel = tc.compile(source, backend="halide", options=tc.Options(autoschedule="Li2018"))
    with pytest.raises(BackendError, match=r"Li2018 .*verifyFunction") as caught:
        kernel(small(5, 6), small(9, 5, dtype="uint8"))
    assert caught.value.code == "TC0806"
    assert capfd.readouterr() == ("", "")


def test_the_registry_has_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backend = registry.get("halide")
    assert isinstance(backend, registry.Backend) and backend.available().ok
