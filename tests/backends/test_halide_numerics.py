"""Element types, conversions, NaN and built-ins on the halide backend, against the interpreter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tc
from tc.halide.builtins import FUNCTIONS
from tc.lang.builtins import BUILTINS
from tests.backends.halide_cases import Array, both, close, same, small

pytestmark = pytest.mark.filterwarnings("ignore::tc.Warning")

INTEGERS = [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64", "bool"])
def test_copies_keep_their_type(dtype: str) -> None:
    same(f"def f({dtype}(N,M) A) -> (O) {{ O(j,i) = A(i,j) }}", small(5, 7, dtype=dtype))


@pytest.mark.share(18)
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


@pytest.mark.share(18)
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


@pytest.mark.share(18)
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


@pytest.mark.share(36)
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
