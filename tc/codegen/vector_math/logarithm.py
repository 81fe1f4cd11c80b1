"""log and its relatives.

x = 2^k m with m in [3/4, 3/2) and f = m - 1, exact.  log(1 + f) = f + t(f), where f enters unrounded and t,
which is small, comes from a polynomial (float32) or, with s = f / (2 + f), from t = s (f^2/2 + R(s^2))
- f^2/2 (float64).  log(2) comes in two parts of which the first times k is exact (Muller, "Elementary
Functions", 3rd ed., 2016, 11.4).
"""

from __future__ import annotations

from tc.codegen.vector_math.builder import Body, Value
from tc.codegen.vector_math.exponential import LOG2, LOG2_10, LOG10
from tc.codegen.vector_math.formats import SINGLE, Format, split

_P32 = (
    -0.5, 0.3333345055580139, -0.2500010132789612, 0.19990810751914978, -0.16647063195705414,
    0.14478568732738495, -0.13163721561431885, 0.10467487573623657, -0.04509889334440231,
)  # fmt: skip
_P64 = (
    0.6666666666667274, 0.3999999999615159, 0.2857142939674207, 0.22222138401502378, 0.1818635964141568,
    0.15250124825343614, 0.1536864093319521,
)  # fmt: skip
_LOG2 = {24: split(LOG2, 15, 24), 53: split(LOG2, 41, 53)}
_LOG10_2 = {24: split(1 / LOG2_10, 14, 24), 53: split(1 / LOG2_10, 40, 53)}
_LOG2_E = {24: split(1 / LOG2, 24, 24), 53: split(1 / LOG2, 53, 53)}
_LOG2_E_SHORT = {24: split(1 / LOG2, 12, 24), 53: split(1 / LOG2, 26, 53)}
_LOG10_E_SHORT = {24: split(1 / LOG10, 12, 24), 53: split(1 / LOG10, 26, 53)}
_LOG10_E = {24: split(1 / LOG10, 24, 24), 53: split(1 / LOG10, 53, 53)}


def decompose(b: Body, f: Format, x: Value) -> tuple[Value, Value]:
    """k as a floating number, and m in [3/4, 3/2).  What zeros, infinities, NaN and negative
    numbers give comes out right by itself with AVX-512, and is left to `specials` without."""
    if b.target.avx512:
        m = b.getmant(x)
        return b.getexp(x) - b.getexp(m), m
    tiny = x.lt(f.least_normal)
    scaled = tiny.select(x * 2.0**f.fraction, x).bits()
    above = scaled - f.bits_of(0.75)
    m = (scaled - (above & -(1 << f.fraction))).float()
    if f is SINGLE:
        k = above.ashr(f.fraction).convert("sitofp", f.element)
    else:  # AVX2 has neither that shift nor that conversion: the biased k as the low bits of 2^52
        biased = (above + (f.bias << f.fraction)) >> f.fraction
        k = (biased | f.bits_of(2.0**f.fraction)).float() - (2.0**f.fraction + f.bias)
    return k - tiny.select(float(f.fraction), b.constant(0.0, f.element)), m


def specials(b: Body, x: Value, result: Value) -> Value:
    """`result`, which is log x, also for zeros, infinity, NaN and negative numbers."""
    result = x.lt(float("inf")).select(result, x)
    result = x.eq(0.0).select(float("-inf"), result)
    return x.lt(0.0).select(float("nan"), result)


def _special(b: Body, x: Value, result: Value) -> Value:
    return result if b.target.avx512 else specials(b, x, result)


def _tail(b: Body, f: Format, r: Value) -> Value:
    """log(1 + r) - r."""
    if f is SINGLE:
        return r * r * b.horner(r, _P32)
    s = r / (r + 2.0)
    z = s * s
    half = r * r * 0.5
    return b.mad(s, b.mad(z, b.estrin(z, _P64), half), -half)


def log(b: Body, f: Format, x: Value) -> Value:
    k, m = decompose(b, f, x)
    return _special(b, x, _sum(b, f, k, m - 1.0))


def _sum(b: Body, f: Format, k: Value, r: Value) -> Value:
    high, low = _LOG2[f.precision]
    y = b.mad(k, low, r)
    if f is SINGLE:
        y = b.mad(r * r, b.horner(r, _P32), y)
    else:
        y = _tail(b, f, r) + y
    return b.mad(k, high, y)


def log1p(b: Body, f: Format, x: Value) -> Value:
    """k and m from 1 + x, rounded; with s = 2^-k, then, f = s x + (s - 1), in which only the last operation
    rounds.  s would be subnormal at the end, so four times it times x/4."""
    k, _ = decompose(b, f, x + 1.0)
    if b.target.avx512:
        s = b.scalef(b.constant(4.0, f.element), -k)
    else:
        s = b.power(f, 2.0 - k)
    r = b.mad(x * 0.25, s, b.mad(s, 0.25, -1.0))
    result = specials(b, x + 1.0, _sum(b, f, k, r))
    return x.abs().lt(2.0 ** -(f.precision + 1)).select(x, result)


def _scaled(b: Body, f: Format, r: Value, factor: list[float]) -> Value:
    """log(1 + r) times a constant in two parts; the product of r and the first dominates."""
    return b.mad(r, factor[0], b.mad(_tail(b, f, r), factor[0], r * factor[1]))


def _parts(b: Body, f: Format, r: Value, short: list[float], factor: float) -> tuple[Value, Value]:
    """The same without FMA, in an exact product of short factors and the rest: a rounded product would cost
    digits when k, of the other sign, is added."""
    top = (r.bits() & -(1 << (f.precision + 1) // 2)).float()
    return top * short[0], _tail(b, f, r) * factor + r * short[1] + (r - top) * short[0]


def log2(b: Body, f: Format, x: Value) -> Value:
    k, m = decompose(b, f, x)
    r = m - 1.0
    if b.target.fma:
        return _special(b, x, _scaled(b, f, r, _LOG2_E[f.precision]) + k)
    exact, rest = _parts(b, f, r, _LOG2_E_SHORT[f.precision], _LOG2_E[f.precision][0])
    return _special(b, x, (k + exact) + rest)


def log10(b: Body, f: Format, x: Value) -> Value:
    k, m = decompose(b, f, x)
    r = m - 1.0
    high, low = _LOG10_2[f.precision]
    if b.target.fma:
        y = b.fma(k, low, _scaled(b, f, r, _LOG10_E[f.precision]))
        return _special(b, x, b.fma(k, high, y))
    exact, rest = _parts(b, f, r, _LOG10_E_SHORT[f.precision], _LOG10_E[f.precision][0])
    return _special(b, x, (k * high + exact) + (k * low + rest))
