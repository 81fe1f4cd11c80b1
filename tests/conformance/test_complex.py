"""Complex numbers (docs/language.md, "Complex numbers") on every backend: the meaning is NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.running import BACKENDS

Array = np.ndarray[Any, Any]


def whole(*shape: int, dtype: Any = np.complex64) -> Array:
    """Small whole numbers, of which sums and products are exact."""
    g = np.random.default_rng(len(shape))
    return (g.integers(-3, 4, shape) + 1j * g.integers(-3, 4, shape)).astype(dtype)


def uneven(*shape: int, dtype: Any = np.complex64) -> Array:
    g = np.random.default_rng(len(shape))
    return (g.standard_normal(shape) + 1j * g.standard_normal(shape)).astype(dtype)


def results(backend: str, source: str, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        if backend == "interpret":
            return tc.interpret(source, *args)
        return tc.compile(source, backend=backend, **options)(*args)


A, B, V, W = whole(9, 7), whole(7, 11), whole(7), whole(9)
U = uneven(33)
NONZERO = np.where(whole(7) == 0, 1 + 2j, whole(7)).astype(np.complex64)
I = np.arange(7, dtype=np.float32) - 3  # noqa: E741
# What is computed of whole numbers without rounding: (source, arguments, what NumPy makes of them).
EXACT: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "product of matrices": (
        "def f(complex64(M,K) A, complex64(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", (A, B), A @ B,
    ),
    "of rows": (
        "def f(complex64(M,K) A, complex64(N,K) B) -> (C) { C(m,n) +=! conj(A(m,k)) * B(n,k) }",
        (A, B.T.copy()), A.conj() @ B,
    ),
    "adjoint": (
        "def f(complex64(K,M) A, complex64(K,N) B) -> (C) { C(m,n) +=! 2j * conj(A(k,m)) * conj(B(k,n)) }",
        (A.T.copy(), B), 2j * A.conj() @ B.conj(),
    ),
    "vector of rows": (
        "def f(complex64(M,K) A, complex64(K) x) -> (y) { y(m) +=! A(m,k) * x(k) }", (A, V), A @ V,
    ),
    "conjugate of rows": (
        "def f(complex64(M,K) A, complex64(K) x) -> (y) { y(m) +=! conj(A(m,k)) * conj(x(k)) * (1 - 2j) }",
        (A, V), (A.conj() @ V.conj()) * (1 - 2j),
    ),
    "vector of columns": (
        "def f(cfloat(M) x, cfloat(M,K) A) -> (y) { y(k) +=! x(m) * A(m,k) }", (W, A), W @ A,
    ),
    "dot": ("def f(cfloat(K) x, cfloat(K) y) -> (s) { s +=! conj(x(k)) * y(k) }", (V, NONZERO),
            np.vdot(V, NONZERO)),
    "sum": ("def f(cfloat(M,K) A) -> (s) { s(m) +=! A(m,k) }", (A,), A.sum(1)),
    "product": ("def f(cfloat(M,K) A) -> (p) { p(m) *=! A(m,k) where k in 0:5 }", (A,), A[:, :5].prod(1)),
    "product of all": ("def f(cfloat(K) x) -> (p) { p *=! x(k) where k in 2:6, k < 5 }", (V,), V[2:5].prod()),
    "arithmetic": (
        "def f(cfloat(K) x, cfloat(K) y) -> (z) { z(k) = -x(k) * y(k) + 2 * y(k) - (1 + 2j) + 0.5 * x(k) }",
        (V, NONZERO), -V * NONZERO + 2 * NONZERO - (1 + 2j) + 0.5 * V,
    ),
    "with a real tensor": (
        "def f(cfloat(K) x, float(K) r) -> (z) { z(k) = x(k) * r(k) - r(k) + 1j * r(k) }",
        (V, I), V * I - I + 1j * I,
    ),
    "of doubles": (
        "def f(cfloat(K) x, double(K) r) -> (z) { z(k) = x(k) * r(k) }",
        (V, I.astype(np.float64)), V * I.astype(np.float64),
    ),
    "halves and integers": (
        "def f(cfloat(K) x, half(K) r) -> (z) { z(k) = x(k) * r(k) + int(r(k)) + k }",
        (V, I.astype(np.float16)), (V * I + I + np.arange(7)).astype(np.complex64),
    ),
    "equality": (
        "def f(cfloat(K) x, cfloat(K) y) -> (e, n) { e(k) = x(k) == y(k) n(k) = x(k) != real(y(k)) }",
        (V, NONZERO), (V == NONZERO, NONZERO.real != V),
    ),
    "parts": (
        "def f(cfloat(K) x, float(K) r) -> (a, b, c, d, e) { a(k) = real(x(k)) b(k) = imag(x(k)) "
        "c(k) = conj(x(k)) d(k) = conj(r(k)) + real(r(k)) e(k) = imag(r(k)) }",
        (V, I), (V.real, V.imag, V.conj(), 2 * I, 0 * I),
    ),
    "ternary": (
        "def f(cfloat(K) x) -> (z) { z(k) = real(x(k)) > 0 ? x(k) * x(k) : (k > 2 ? 3 : conj(x(k))) }",
        (V,), np.where(V.real > 0, V * V, np.where(np.arange(7) > 2, 3, V.conj())),
    ),
    "select": (
        "def f(cfloat(K) x) -> (z) { z(k) = select(k > 2, x(k), 1j) }",
        (V,), np.where(np.arange(7) > 2, V, 1j),
    ),
    "lets": (
        "def f(cfloat(K) x) -> (z) { z(k) = a * a + b where a = x(k) + 1j, b = imag(a) }",
        (V,), (V + 1j) ** 2 + (V + 1j).imag,
    ),
    "scalar": (
        "def f(cfloat(K) x, cfloat s, float t) -> (z) { z(k) = s * x(k) + t }",
        (V, 2 - 1j, 3), (2 - 1j) * V + 3,
    ),
    "boundaries": (
        "def f(cfloat(K) x) -> (z) { X(i) = x(i) z(i) = X[fill=2j](i-1) + X[wrap](i+2) + x[clamp](i+1) "
        "where i in 0:K }",
        (V,), np.r_[2j, V[:-1]] + np.roll(V, -2) + np.r_[V[1:], V[-1]],
    ),
    "pieces": (
        "def f(cfloat(K) x) -> (z) { z(i) = x(i) where i in 0:2 z(i) = 1j * x(i) where i in 2:K }",
        (V,), np.r_[V[:2], 1j * V[2:]],
    ),
    "call": (
        "def g(cfloat(N) a, cfloat c) -> (b) { b(i) = a(i) * c } def f(cfloat(K) x) -> (z) "
        "{ y = g(x, 2j) z(k) = y(k) + x(k) }", (V,), 2j * V + V,
    ),
    "loop": (
        "def f(cfloat(K) x) -> (z) { z(0) = x(0) for t in 1:K { z(t) = z(t-1) * 1j + x(t) } }", (V,),
        np.array([sum(1j ** (t - s) * V[s] for s in range(t + 1)) for t in range(7)]),
    ),
    "redefined": (
        "def f(cfloat(K) x, cfloat(K) y) -> (z) { t(k) = x(k) t(k) = t(k) * y(k) t(k) *= t(k) "
        "t(k) += conj(t(k)) * 1j z(k) = t(k) }", (V, NONZERO),
        (V * NONZERO) ** 2 + ((V * NONZERO) ** 2).conj() * 1j,
    ),
    "scaled by its own parts": (
        "def f(cfloat(K) x) -> (z) { z(k) = x(k) z(k) = z(k) * real(z(k)) z(k) += z(k) * imag(z(k)) }",
        (V,), V * V.real * (1 + V.real * V.imag),
    ),
    "cast": (
        "def f(cdouble(K) x, int(K) i) -> (a, b) { a(k) = complex64(x(k)) b(k) = cdouble(i(k)) * 1j }",
        (V.astype(np.complex128), I.astype(np.int32)), (V, I.astype(np.complex128) * 1j),
    ),
    "of 128 bits": (
        "def f(cdouble(M,K) A, cdouble(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        (A.astype(np.complex128), B.astype(np.complex128)), A.astype(np.complex128) @ B,
    ),
    "addresses": (
        "def f(cfloat(K) x) -> (z) { z(k) = x(clamped) where clamped = int(max(min(real(x(k)), 6), 0)) }",
        (V,), V[np.clip(V.real, 0, 6).astype(int)],
    ),
    "empty": ("def f(cfloat(K) x) -> (z) { z(k) = x(k) * x(k) }", (V[:0],), V[:0]),
}  # fmt: skip


@pytest.mark.share(108)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXACT)
def test_whole_numbers(name: str, backend: str) -> None:
    source, args, expected = EXACT[name]
    if backend == "halide" and ("*=!" in source or "for " in source):
        with pytest.raises(tc.BackendError, match="sequential loop") as caught:
            results(backend, source, *args)
        assert caught.value.code == "TC0805"
        return
    found = results(backend, source, *args)
    several = isinstance(expected, tuple)
    for a, b in zip(found if several else (found,), expected if several else (expected,), strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_array_equal(a, b)


def test_the_types_of_results() -> None:
    source = """def f(cfloat(K) x, double(K) r) -> (a, b, c, d) {
      a(k) = x(k) * r(k)
      b(k) = abs(x(k))
      c(k) = 1j where k in 0:K
      d(k) = x(k) + 1
    }"""
    made = results("reference", source, V, I.astype(np.float64))
    assert [a.dtype.name for a in made] == ["complex128", "float32", "complex64", "complex64"]


MATHEMATICS = """def f(cfloat(K) x, cfloat(K) y) -> (a, b, c, d, e, g) {
  a(k) = x(k) / y(k)
  b(k) = abs(x(k))
  c(k) = arg(x(k))
  d(k) = exp(x(k))
  e(k) = sqrt(x(k))
  g(k) = polar(abs(x(k)), arg(x(k)))
}"""


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", BACKENDS)
def test_functions(backend: str) -> None:
    with np.errstate(all="ignore"):
        expected = (U / U[::-1], np.abs(U), np.angle(U), np.exp(U), np.sqrt(U), U)
    for found, right in zip(results(backend, MATHEMATICS, U, U[::-1].copy()), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
def test_functions_at_their_edges(backend: str) -> None:
    """Large and small parts neither overflow nor vanish, branches are cut along the negative axis, and a
    quotient by 0 is what NumPy has."""
    x = np.array(
        [3e38 + 1e38j, 1e-30 + 2e-30j, -4 + 0j, -4 - 0j, 0, -1e30j, np.inf, complex(0, np.inf)], "c8"
    )
    x[3] = complex(-4.0, -0.0)
    y = np.array([2e38 - 1e38j, 3e-30 + 1e-30j, 2j, -2j, 1, 1e30, 2, 3], np.complex64)
    a, b, c, _, e, _ = results(backend, MATHEMATICS, x, y)
    wide = x.astype("c16")
    with np.errstate(all="ignore"):
        right = [np.divide(wide, y), np.abs(wide), np.angle(x), np.sqrt(wide)]
    for found, expected in zip((a, b, c, e), right, strict=True):
        keep = np.isfinite(expected.astype(found.dtype)) if found is not e else slice(None)
        np.testing.assert_allclose(found[keep], expected[keep], rtol=1e-6)
    zero = results(backend, "def f(cfloat(K) x) -> (z) { z(k) = x(k) / (x(k) - x(k)) }", V)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(zero, V / (V - V))


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fourier_transform_by_one_reduction(backend: str) -> None:
    source = """def dft(complex64(N) x) -> (y) {
      y(k) +=! x(n) * exp(-2j * float(pi) * float(k * n % N) / float(N)) where k in 0:N
    }"""
    np.testing.assert_allclose(results(backend, source, U), np.fft.fft(U), rtol=1e-4, atol=1e-4)


# Decimation in frequency with the same geometry in each stage (Pease, 1968): the order of bits is reversed.
FFT = """def fft(complex64(N) x, complex64(S,H) w, int(N) place) -> (z) {
  y(i) = x(i)
  for s in 0:w.0 {
    t(i) = y(i)
    y(i) = i % 2 == 0 ? t(i/2) + t(i/2 + H) : (t(i/2) - t(i/2 + H)) * w(s, i/2) where i in 0:N
  }
  z(i) = y(place(i))
}"""


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "halide"])
def test_a_fast_fourier_transform_by_a_loop(backend: str) -> None:
    stages = 6
    n = 1 << stages
    x = uneven(n)
    j = np.arange(n // 2)
    w = np.array([np.exp(-2j * np.pi * (j >> s << s) / n) for s in range(stages)], np.complex64)
    place = np.array([int(f"{i:0{stages}b}"[::-1], 2) for i in range(n)], np.int32)
    np.testing.assert_allclose(results(backend, FFT, x, w, place), np.fft.fft(x), rtol=1e-5, atol=1e-5)


def test_parts_are_stored_as_the_libraries_store_them() -> None:
    f = tc.compile("def f(cdouble(N,M) x) -> (y) { y(m,n) = x(n,m) * 1j }", backend="cpu")
    x = uneven(6, 10, dtype=np.complex128)
    np.testing.assert_array_equal(f(x), 1j * x.T)
    np.testing.assert_array_equal(f(x[::-2, 1::3]), 1j * x[::-2, 1::3].T)
    out = np.zeros((20, 6), np.complex128)
    found = f(x, out=out[::2])
    assert found.base is out and not out[1::2].any()
    np.testing.assert_array_equal(out[::2], 1j * x.T)


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
def test_results_of_the_caller(backend: str) -> None:
    """Updates in place read both parts of what they overwrite."""
    source = """def f(complex64(N) x, complex64(N,N) A) -> (complex64(N) y, complex64(N,N) B) {
      y(i) = y(i) * x(i) + conj(y(i))
      y(i) += A(i,j) * x(j)
      for k in 0:N { B(i,j) += -B(i,k) * B(k,j) / B(k,k) where i in 0:N, j in 0:N, i > k, j > k }
    }"""
    x, a, y = V, whole(7, 7), whole(7)[::-1].copy()
    b = uneven(7, 7) + 9 * np.eye(7, dtype=np.complex64)
    expected = y * x + y.conj() + a @ x
    eliminated = b.astype(np.complex128)
    for k in range(7):
        rest = slice(k + 1, None)
        eliminated[rest, rest] -= np.outer(eliminated[rest, k], eliminated[k, rest]) / eliminated[k, k]
    f = tc.interpret if backend == "interpret" else tc.compile(source, backend=backend)
    found = f(*((source,) if backend == "interpret" else ()), x, a, out=(y, b))  # type: ignore[operator]
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_allclose(found[1], eliminated, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
def test_scatter_and_subscripts_out_of_range(backend: str) -> None:
    source = """def f(complex64(N) x, int(N) b) -> (h) {
      h(k) = 0 where k in 0:4
      h(b(i)) += x(i) * x(i)
    }"""
    b = np.array([0, 3, 1, 3, 0, 2, 3], np.int32)
    expected = np.zeros(4, np.complex64)
    np.add.at(expected, b, V * V)
    np.testing.assert_array_equal(results(backend, source, V, b), expected)
    b[4] = 7
    with pytest.raises(
        tc.BoundsError, match="7 .*'h'" if backend == "interpret" else r"index 7 .*'h' \(0 to 3\)"
    ):
        results(backend, source, V, b)
    read = "def f(complex64(N) x, int(M) b) -> (y) { y(i) = x(b(i)) * x(b(i)) }"
    with pytest.raises(
        tc.BoundsError, match="7 .*'x'" if backend == "interpret" else r"'x' \(0 to 6\), at i = 4"
    ):
        results(backend, read, V, b)


def test_calls_speak_of_the_tensors_of_the_source() -> None:
    source = "def f(complex64(M,K) A, complex64(K,N) B, cfloat s) -> (C) { C(m,n) +=! s * A(m,k) * B(k,n) }"
    f = tc.compile(source, backend="cpu")
    assert f.output_shapes(M=2, K=3, N=4) == {"C": (2, 4)}
    assert len(f.ranges["C"]) == 2 and len(f.ranges["A"]) == 2
    assert str(f.__signature__).startswith("(A: 'complex64[M, K]', B: 'complex64[K, N]', s: 'complex64'")
    with pytest.raises(tc.DTypeError, match="A: expected complex64, found float32") as caught:
        f(A.real.copy(), B, 1)
    assert caught.value.help == "A.astype(np.complex64)"
    with pytest.raises(tc.ArgumentError, match="size K is 7"):
        f(A, A, 1)
    with pytest.raises(tc.ArgumentError, match="s is a scalar of type complex64"):
        f(A, B, "1j")
    for s in (2, 2.5, 1 - 2j, np.complex64(1j), np.complex128(3), np.float32(2), True, np.array(2j)):
        for _ in range(2):  # the second call goes another way
            np.testing.assert_array_equal(f(A, B, s), np.complex64(s) * (A @ B))
    real = tc.compile("def f(float(N) x, float s) -> (y) { y(i) = s * x(i) }", backend="cpu")
    with pytest.raises(tc.ArgumentError, match="s is float32, and 1j is complex"):
        real(I, 1j)


def test_a_product_of_matrices_is_one_of_real_ones() -> None:
    """The parts of neighbouring results are neighbours in memory, and so lanes."""
    f = tc.compile(
        "def f(complex64(M,K) A, complex64(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", backend="cpu"
    )
    loops = f.inspect("loops", M=32, K=32, N=32)
    assert "C_sums[32, 2, 64]" in loops
    text = f.inspect("complex", M=32, K=32, N=32)
    assert "complex64" not in text


@pytest.mark.share(12)
@pytest.mark.parametrize("dynamic", [True, ("M",)])
def test_dynamic_sizes(dynamic: Any) -> None:
    source = (
        "def f(complex64(M,K) A, complex64(K,N) B) -> (C, p) { C(m,n) +=! A(m,k) * B(k,n) p(m) *=! A(m,k) }"
    )
    f = tc.compile(source, backend="cpu", dynamic=dynamic)
    for m in (1, 9, 40):
        a = whole(m, 7)
        c, p = f(a, B)
        np.testing.assert_array_equal(c, a @ B)
        np.testing.assert_array_equal(p, a.prod(1))


def test_type_variables() -> None:
    source = "def f<T>(T(M,K) A, T(K,N) B) -> (C) { C(m,n) +=! A(m,k) * conj(T(B(k,n))) }"
    f = tc.compile(source, backend="reference")
    np.testing.assert_array_equal(f(A, B), A @ B.conj())
    np.testing.assert_array_equal(f(A.real, B.real), A.real @ B.real)
    g = "def f<T: complex>(T(N) x) -> (y) { y(i) = x(i) * 1j }"
    np.testing.assert_array_equal(tc.compile(g, backend="reference")(V), V * 1j)
    assert tc.compile(g, backend="reference", types={"T": "cdouble"}).ranges
    with pytest.raises(
        tc.DTypeError, match="the type variable T is float32 by x, and must be complex"
    ) as caught:
        tc.compile(g, backend="reference")(I)
    assert caught.value.code == "TC0409"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("y(i) = x(i) < 1j ? 1 : 2", "TC0412"),
        ("y(i) = max(x(i), 1)", "TC0412"),
        ("y max=! x(i)", "TC0412"),
        ("y(i) min= x(i)", "TC0412"),
        ("y argmax=! x(i)", "TC0412"),
        ("y(i) = x(i) % 2", "TC0413"),
        ("y(i) = sin(x(i))", "TC0413"),
        ("y(i) = fmax(x(i), 1j)", "TC0413"),
        ("y(i) = polar(x(i), 1)", "TC0413"),
        ("y(i) = float(x(i))", "TC0413"),
        ("y(i) = bool(x(i)) ? 1 : 2", "TC0413"),
        ("y(i) = x(i) ? 1 : 2", "TC0402"),
        ("y(i) = x(x(i))", "TC0401"),
        ("y(i) = r(i) + x(i) t(i) = real(y(i)) r(i) = y(i)", "TC0220"),
        ("y(i) = x(i) where i in 0:1j", "TC0212"),
        ("y(i) = x(i) where i == 1j", "TC0214"),
        ("y(i) = r[fill=1j](i) where i in 0:N", ""),
    ],
)
def test_what_complex_numbers_do_not_have(statement: str, code: str) -> None:
    source = f"def f(complex64(N) x, float(N) r) -> (y) {{ {statement} }}"
    if not code:
        tc.compile(source, backend="reference")
        return
    with pytest.raises(tc.Error) as caught:
        tc.compile(source, backend="reference")
    assert (caught.value.code, bool(caught.value.help)) == (code, True)
    assert caught.value.span is not None


def test_a_complex_number_is_not_narrowed() -> None:
    with pytest.raises(
        tc.DTypeError, match="complex64 stored in 'y' of type float32 would be narrowed"
    ) as caught:
        tc.compile("def f(complex64(N) x) -> (float(N) y) { y(i) = x(i) }", backend="reference")
    assert caught.value.help == "write real(x(i)), imag(x(i)) or abs(x(i))"
    with pytest.raises(tc.DTypeError, match="the literal 2j is complex and does not adapt to float32"):
        tc.compile("def f(float(N) x) -> (float(N) y) { y(i) = 2j where i in 0:N }", backend="reference")


def test_the_sac_notation_has_none() -> None:
    from tc.cli.translate import to_sac
    from tc.errors import Source
    from tc.pipeline.front import front

    for source, what in (
        ("def f(complex64(N) x) -> (y) { y(i) = x(i) }", "complex64"),
        ("def f(float(N) w) -> (y) { y(i) = abs(w(i) * 1j) }", "a complex number"),
    ):
        with pytest.raises(tc.SemanticError, match=f"{what} has no counterpart") as caught:
            to_sac(front(Source(source)))
        assert caught.value.code == "TC0267"


@pytest.mark.parametrize("name", ["product", "update", "vector", "elements"])
def test_what_the_pass_makes(name: str, golden: Callable[[str, str], None]) -> None:
    sources = {
        "product": "def f(cfloat(M,K) A, cfloat(K,N) B, cfloat s) -> (C) "
        "{ C(m,n) +=! s * A(m,k) * conj(B(k,n)) }",
        "update": "def f(cfloat(M,K) A) -> (p, q) { p(m) *=! A(m,k) q(m) = p(m) * 2 q(m) = q(m) * p(m) }",
        "vector": "def f(cfloat(M,K) A, cfloat(K) x) -> (y) { y(m) +=! A(m,k) * x(k) }",
        "elements": "def f(cfloat(M) x, float(M) r) -> (y, z) { y(m) = x(m) * r(m) z(m) = x(m) / y(m) }",
    }
    kernel = tc.compile(sources[name], backend="reference")
    golden(f"complex/{name}.txt", kernel.inspect("complex", **dict.fromkeys(kernel.front.checked.sizes, 16)))


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
def test_extremes_of_numbers_beside_complex_ones_are_real(backend: str) -> None:
    source = """def f(cfloat(N) x) -> (y) {
      y(n) = x(n) * max(2.0, n > 1 ? 0.5 : 3.5) + complex64(-fmin(n > 2 ? 0.5 : 3.5, 1)) + (n > 0 ? 5 : 3) % 2
    }"""
    n = np.arange(7)
    wanted = V * np.where(n > 1, 2.0, 3.5) - np.where(n > 2, 0.5, 1) + 1
    np.testing.assert_array_equal(results(backend, source, V), wanted.astype(np.complex64))


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu"])
@pytest.mark.parametrize("dtype", ["float", "double", "cfloat", "half"])
def test_remainders_of_numbers_beside_floats_are_whole(dtype: str, backend: str) -> None:
    source = f"def f({dtype}(N) x) -> (y) {{ y(n) = x(n) * ((n > 0 ? 5 : 3) % (n > 1 ? 2 : 3)) }}"
    x = np.ones(4, {"float": "f4", "double": "f8", "cfloat": "c8", "half": "f2"}[dtype])
    found = results(backend, source, x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, [0, 2, 1, 1])
