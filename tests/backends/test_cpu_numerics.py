"""Numerics of vector code and of its tails: what docs/language.md promises holds in every lane, and lanes
beyond the domain change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fuzz.memory import arranged
from tc.lang.builtins import BUILTINS
from tests.backends.cpu_cases import Array, compiled, interpreted, isas, results
from tests.backends.hard_values import HARD, INF, INTEGERS, NAN, agree

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31, 33, 40)
ROOT = Path(__file__).parents[2]


def hard(shape: tuple[int, ...], dtype: str, seed: int, among: list[float] = HARD) -> Array:
    rng = np.random.default_rng(seed)
    return np.array(among)[rng.integers(0, len(among), shape)].astype(dtype)


# --- min and max.

EXTREMA = """def f({t}(N,M) A, {t}(N,M) B) -> (P, Q, R, S, T, U) {{
  P(i) min=! A(i,j)
  Q(i) max=! A(i,j)
  R(i,j) = min(A(i,j), B(i,j))
  S(i,j) = max(A(i,j), B(i,j))
  T(i,j) = fmin(A(i,j), B(i,j))
  U(i,j) = fmax(A(i,j), B(i,j))
}}"""


@pytest.mark.share(36)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("vector", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extrema_of_special_values(dtype: str, vector: int, isa: str) -> None:
    """`min` and `max` give NaN if an operand is NaN, `fmin` and `fmax` the other operand."""
    source = EXTREMA.format(t=dtype)
    for n, m in ((3, 13), (17, 5), (16, 16), (1, 40)):
        agree(source, hard((n, m), dtype, n), hard((n, m), dtype, m), isa=isa, vector=vector)


@pytest.mark.parametrize("isa", isas())
def test_a_nan_in_any_lane_reaches_a_reduction(isa: str) -> None:
    source = "def f(float(N,M) A) -> (P, Q, S) { P(i) min=! A(i,j)\nQ(i) max=! A(i,j)\nS(i) +=! A(i,j) }"
    for m in (1, 7, 16, 37):
        a = np.ones((m, m), np.float32)
        np.fill_diagonal(a, np.nan)
        for vector in (-1, 0):
            for g in results(compiled(source, isa=isa, vector=vector)(a)):
                assert np.isnan(g).all(), (m, vector)
            agree(source, np.where(np.isnan(a), np.float32(-INF), a), isa=isa, vector=vector)


@pytest.mark.share(24)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", INTEGERS)
def test_extrema_of_integers_start_from_the_ends(dtype: str, isa: str) -> None:
    info = np.iinfo(dtype)
    source = f"def f({dtype}(N,M) A) -> (P, Q) {{ P(i) min=! A(i,j)\nQ(i) max=! A(i,j) }}"
    for value in (info.min, info.max):
        for m in (0, 1, 5, 19):
            agree(source, np.full((3, m), value, dtype), isa=isa)


# --- Lanes beyond the domain.

# With data such that what a masked lane holds would show: 0 · inf, 0 / 0, log 0, the maximum of negative
# numbers, the minimum and the product of others.
INACTIVE = [
    "S(i) +=! A(i,j) * s",
    "S(i) +=! s * A(i,j) * B(j)",
    "S(i) +=! A(i,j) / B(j)",
    "S(i) +=! log(A(i,j))",
    "S(i) max=! -A(i,j)",
    "S(i) max=! log(A(i,j)) - 9",
    "S(i) min=! A(i,j)",
    "S(i) min=! 1 / A(i,j)",
    "S(i) *=! A(i,j) * B(j)",
    "S(i) *=! B(j) + A(i,j)",
    "S(i) +=! exp(A(i,j)) * s",
    "S(i) +=! A(i,j) * s where j <= i",
    "S(i) max=! -A(i,j) where j <= i",
]


@pytest.mark.share(54)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("statement", INACTIVE)
def test_lanes_beyond_the_domain_hold_neutral_elements(statement: str, isa: str) -> None:
    source = f"def f(float s, float(N,M) A, float(M) B) -> (S) {{ {statement} }}"
    for n, m in ((3, 5), (17, 1), (2, 19), (21, 9)):
        a, b = np.full((n, m), 1, np.float32), np.full(m, 2, np.float32)
        for vector in (-1, 0):
            (got,) = results(compiled(source, isa=isa, vector=vector)(INF, a, b))
            (want,) = interpreted(source, INF, a, b)
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=f"{n} {m} {vector}")


@pytest.mark.share(12)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("op", ["+=!", "*=!", "min=!", "max=!"])
def test_empty_reductions_give_the_neutral_element(op: str, isa: str) -> None:
    for t in ("float32", "float64", "float16", "int8", "uint16", "int64"):
        agree(f"def f({t}(N,M) A) -> (S) {{ S(i) {op} A(i,j) }}", np.ones((19, 0), t), isa=isa)


@pytest.mark.parametrize("isa", isas())
def test_guards_protect_lanes(isa: str) -> None:
    """A branch that is not taken reads nothing, and what it would compute does not matter."""
    source = """def f(float(N) A, float(N) B) -> (O, P, Q) {
      O(i) = B(i) != 0 ? A(i) / B(i) : 7
      P(i) = i >= 3 ? A(i-3) : -1 where i in 0:N
      Q(i) = A(i) > 0 ? log(A(i)) - log(A(i)) : A(i)
    }"""
    for n in LENGTHS[2:]:
        a, b = hard((n,), "float32", n, [0.0, 1.0, 2.0, -3.0]), hard((n,), "float32", 1, [0.0, 1.0, 0.5])
        agree(source, a, b, isa=isa)


PADDED = """def f({t}(N,C,X) I, {t}(F,C,K) W) -> (O, P) {{
  O(n,f,x) +=! (x >= k && x - k < X ? I(n,c,x-k) : {pad}) * W(f,c,k) where x in 0:X+K-1
  P(n,c,x) max=! (c + d == 0 || c + d > C ? {pad} : I(n,c+d-1,x)) where d in 0:3, x in 0:X
}}"""


@pytest.mark.share(30)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint64"])
def test_padded_edges_read_nothing_beyond_the_array(dtype: str, isa: str) -> None:
    """An element or a constant, the same for all lanes, takes no branch; beyond the array are protected
    pages."""
    rng = np.random.default_rng(0)
    t = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for pad, n, c, f, x, layout in (
        (0, 2, 3, 17, 9, "start"),
        (2, 1, 3, 33, 5, "end"),
        (0, 2, 13, 16, 6, "end"),
    ):
        source = PADDED.format(t=dtype, pad=pad)
        i, w = (arranged(rng.integers(0, 3, s).astype(t), layout) for s in ((n, c, x), (f, c, 3)))
        agree(source, i, w, isa=isa)
        agree(source, i, w, isa=isa, register_tile=(1, 16, 4), vector=1)
        agree(source, i, w, isa=isa, register_tile=(1, 2, 8), vector=2)


@pytest.mark.skipif("avx512" not in isas(), reason="this processor has no AVX-512")
@pytest.mark.parametrize(("m", "op", "masked"), [(41, "*", True), (3, "+", False)])
def test_an_array_that_a_condition_never_reads_may_be_shorter(m: int, op: str, masked: bool) -> None:
    """No q and k meet the condition, so `A` may have fewer elements than n has values: then no address that
    does not depend on q and k is inside of it."""
    source = f"""def f(float(M) A, float(N,P) B, float(Q,K) W) -> (O) {{
      O(q,p) +=! ((q {op} k) % 4 == 5 ? A(n) : 2) * B(n,p) * W(q,k)
    }}"""
    rng = np.random.default_rng(0)
    shapes = ((m,), (41, 16), (8, 3))
    a, b, w = (arranged(rng.integers(0, 3, s).astype("float32"), "end") for s in shapes)
    options: dict[str, Any] = {"vector": 1, "register_tile": (4, 16), "isa": "avx512"}
    options["machine"] = (("fma_units", 2),)  # with one, the choice would be made once, before the reduction
    agree(source, a, b, w, **options)
    text = compiled(source, **options).inspect("llvm", M=m, N=41, P=16, Q=8, K=3)
    assert ("select <16 x i1>" in text) == masked


# --- Denormals, infinities.


@pytest.mark.share(12)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(("dtype", "least"), [("float32", 1e-45), ("float64", 5e-324)])
def test_denormals_are_numbers(dtype: str, least: float, isa: str) -> None:
    body = "O(i) = A(i) * B(i)\nP(i) = A(i) / 4\nS +=! A(i)"
    source = f"def f({dtype}(N) A, {dtype}(N) B) -> (O, P, S) {{ {body} }}"
    for n in LENGTHS:
        a = (np.arange(1, n + 1) * 8 * least).astype(dtype)
        agree(source, a, np.full(n, 0.5, dtype), isa=isa)


@pytest.mark.parametrize("isa", isas())
def test_infinities_in_products_of_matrices(isa: str) -> None:
    source = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    rng = np.random.default_rng(0)
    for m, n, k in ((5, 17, 3), (19, 5, 9)):
        a, b = (rng.integers(-2, 3, s).astype(np.float32) for s in ((m, k), (k, n)))
        a[2, 1], b[0, n - 1], b[2, 0] = INF, NAN, -INF
        agree(source, a, b, isa=isa)
        agree(source, a, b, isa=isa, vector=-1)


# --- Built-in functions.

POSITIVE = (
    "log",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "y0",
    "y1",
    "tgamma",
    "lgamma",
    "logb",
    "rcbrt",
    "log1p",
    "digamma",
)
DOMAINS = {
    **dict.fromkeys(POSITIVE, (0.1, 8.0)),
    "acosh": (1.0, 9.0), "erfcinv": (0.05, 1.95), "normcdfinv": (0.05, 0.95),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), (-0.95, 0.95)),
}  # fmt: skip
# Called lane by lane in libm or our own: tests/runtime/test_math.py has the bounds of the latter.
LIBM = {
    "tgamma", "lgamma", "j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1", "erfcinv", "erfcx",
    "erfinv", "normcdfinv", "normcdf", "sinpi", "cospi", "norm3d", "norm4d", "rnorm3d", "rnorm4d", "rhypot",
    "fmod", "remainder", "digamma", "trigamma",
}  # fmt: skip
MATH = sorted(b.name for b in BUILTINS.values() if b.kind == "math" and b.name != "nextafter")
GROUPS = [MATH[k : k + 9] for k in range(0, len(MATH), 9)]


def ulps(got: Array, want: Array) -> Array:
    t = got.dtype.type
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(want.astype(t))).astype(np.float64)
        gap = np.abs(got.astype(np.float64) - want.astype(np.float64)) / unit
    return np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, gap)


@pytest.mark.share(54)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_built_in_functions_stay_within_their_bounds(group: int, dtype: str, isa: str) -> None:
    names = GROUPS[group]
    rng = np.random.default_rng(group)
    params, body = [], []
    for k, name in enumerate(names):
        arity = BUILTINS[name].arity
        params += [f"{dtype}(N) A{k}_{j}" for j in range(arity)]
        body.append(f"O{k}(i) = {name}({', '.join(f'A{k}_{j}(i)' for j in range(arity))})")
    outs = ", ".join(f"O{k}" for k in range(len(names)))
    source = f"def f({', '.join(params)}) -> ({outs}) {{\n" + "\n".join(body) + "\n}"
    first = isas().index(isa) + group
    for n in (LENGTHS[first % len(LENGTHS)], LENGTHS[(first * 5 + 7) % len(LENGTHS)], 21):
        args: list[Array] = []
        for name in names:
            low, high = DOMAINS.get(name, (-2.5, 2.5) if BUILTINS[name].arity == 1 else (0.2, 3.0))
            args += [rng.uniform(low, high, n).astype(dtype) for _ in range(BUILTINS[name].arity)]
        with np.errstate(all="ignore"):
            want = interpreted(source, *args, exact=True)
        for name, w, g in zip(names, want, results(compiled(source, isa=isa)(*args))):
            # The interpreter's own functions are within a few units of float64.
            bound = 2.0 if dtype == "float32" else 6.0
            if name in LIBM:
                rtol, atol = (3e-6, 1e-6) if dtype == "float32" else (1e-11, 1e-13)
                np.testing.assert_allclose(g, w, rtol=rtol, atol=atol, err_msg=name)
            else:
                worst = ulps(g, w.astype(np.float64) if dtype == "float64" else w).max(initial=0)
                assert worst <= bound, f"{name} of {n}: {worst:.2f} ulp"


# --- Nothing is read or written beside an array.


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("isa", isas()[:2])
def test_nothing_beside_an_array_is_accessed(isa: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(ROOT / "tests/backends/guarded_pages.py"), isa],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TC_VERIFY": "0", "TC_CACHE": "0"},
        cwd=ROOT,
        timeout=300,
    )
    where = done.stdout.splitlines()[-1:]
    assert done.stdout.endswith("done\n"), f"{done.returncode} in {where}\n{done.stderr[-2000:]}"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("parts", "norm"),
    [((3e200, 4e200, 0.0), 5e200), ((3e-200, 0.0, 4e-200), 5e-200), ((NAN, 8.0, -INF), INF)],
)
def test_norms_of_infinities_and_nan(parts: tuple[float, ...], norm: float) -> None:
    """As in C an infinity prevails over NaN; the interpreter agrees."""
    source = """def f(double(N) A, double(N) B, double(N) C) -> (O, R) {
      O(i) = norm3d(A(i), B(i), C(i))
      R(i) = rnorm3d(A(i), B(i), C(i))
    }"""
    args = [np.full(3, x) for x in parts]
    for o, r in (interpreted(source, *args), results(compiled(source)(*args))):
        np.testing.assert_allclose(o, norm, rtol=1e-15)
        np.testing.assert_allclose(r, 1 / norm, rtol=1e-15)


@pytest.mark.share(12)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("t", ["float", "double"])
def test_products_as_multiply_adds_are_the_same_products(t: str, isa: str) -> None:
    """To the bit, zeros of either sign, infinities, NaN and subnormal numbers included: one term a result."""
    source = f"def f({t}(I,K) A, {t}(I,J) B, {t}(I,K) C, {t}(I) D) -> (O) {{" + (
        " O(i,j) *=! 1.0\n O(i,j) += D(i) * A(i,k) * (B(i,j) * C(i,k)) }"
    )
    dtype, shapes = "f4" if t == "float" else "f8", [(97, 1), (97, 19), (97, 1), (97,)]
    args = [hard(s, dtype, n) for n, s in enumerate(shapes)]
    with np.errstate(all="ignore"):
        a, b = (
            np.asarray(compiled(source, isa=isa, machine=(("fused_products", n),))(*args)) for n in (1, 0)
        )
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    a, b = (np.where(np.isnan(x), 0, x) for x in (a, b))
    np.testing.assert_array_equal(a.view("u1"), b.view("u1"))
    sizes = {"I": 97, "K": 9, "J": 64}
    fused, plain = (
        compiled(source, isa=isa, machine=(("fused_products", n),)).inspect("llvm", **sizes) for n in (1, 0)
    )
    assert "0x8000000000000000" not in plain
    assert ("0x8000000000000000" in fused) == (isa != "sse4.2")  # which has no multiply-adds


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(("t", "ulps"), [("float", 2.0), ("double", 4.0)])
def test_exponentials_of_exponents_that_are_never_positive(t: str, ulps: float, isa: str) -> None:
    """Of a softmax: all exponents, numbers near where the result would be subnormal, which are 0."""
    source = f"def f({t}(N,D) I) -> (O,M) {{ M(n) max=! I(n,d)\n O(n,d) = exp(I(n,d) - M(n)) }}"
    dtype, least, last = ("f4", -104.0, -87.25) if t == "float" else ("f8", -746.0, -708.375)
    rng = np.random.default_rng(4)
    spread = -np.exp2(rng.uniform(-140, 10, 60_000))
    near = rng.uniform(least - 2, least + 40, 20_000), rng.uniform(-3, 0, 20_000)
    ends = [0.0, -0.0, -INF, least, last, np.nextafter(np.dtype(dtype).type(last), -INF), -1e30]
    x = np.concatenate([ends, spread, *near]).astype(dtype)[None]
    kernel = compiled(source, isa=isa)
    assert "exp_nonpositive" in kernel.inspect("loops", **kernel.sizes_of(x))
    got = np.asarray(kernel(x)[0])
    with np.errstate(all="ignore"):
        want = np.where(x < last, 0, np.exp(x.astype(np.longdouble)))
        unit = np.spacing(np.maximum(want.astype(dtype), np.finfo(dtype).tiny)).astype(np.longdouble)
    assert not got[x < last].any()
    assert (np.abs(got.astype(np.longdouble) - want) / unit).max() <= ulps
    rows = np.array([[1.0, INF, 2.0], [-INF, -INF, -INF], [NAN, 1.0, 2.0], [3.0, -INF, 3.0]], dtype)
    # NaN of all signs and payloads, which are no exponents.
    bits = np.full(300, NAN, dtype).view(f"u{rows.itemsize}") | np.arange(300, dtype=f"u{rows.itemsize}")
    signs = np.where(np.arange(300) % 2, -1, 1).astype(dtype)
    payloads = np.copysign(bits.view(dtype), signs)[:, None] * np.ones((1, 19), dtype)
    assert np.isnan(np.asarray(kernel(payloads)[0])).all()
    with np.errstate(all="ignore"):
        agree(source, rows, isa=isa)
