"""Inverse trigonometric and hyperbolic functions.

atan: t = y / x or (y - x) / (y + x), so that |t| <= tan(pi/8), and a polynomial; asin and acos: a polynomial
up to 1/2, beyond it asin x = pi/2 - 2 asin sqrt((1 - x) / 2) (Cody and Waite, Software Manual for the
Elementary Functions, 1980, ch. 10 and 11).  The hyperbolic ones are log1p of something (Abramowitz and Stegun
4.6), float32 in float64.
"""

from __future__ import annotations

from fractions import Fraction

from tc.codegen.vector_math.builder import Body, Value
from tc.codegen.vector_math.exponential import LOG2
from tc.codegen.vector_math.formats import Format, split
from tc.codegen.vector_math.logarithm import log1p
from tc.codegen.vector_math.trigonometric import PI

_ATAN = {
    24: (-0.33333316445350647, 0.19998528063297272, -0.14244382083415985, 0.10599023103713989,
         -0.06089485064148903),
    53: (-0.3333333333333319, 0.19999999999952364, -0.14285714280083683, 0.11111110778186521,
         -0.09090897614232502, 0.0769205777757691, -0.06663077406886433, 0.058477018235376294,
         -0.05038483995944817, 0.03804422886210758, -0.017885434243891992),
}  # fmt: skip
_ASIN = {
    24: (0.16666752099990845, 0.074953094124794, 0.045469172298908234, 0.024184539914131165,
         0.04215892776846886),
    53: (0.16666666666665408, 0.07500000000337116, 0.044642856828251164, 0.030381959139992663,
         0.02237175798015469, 0.017359705800494517, 0.01388522538351532, 0.01216927704668414,
         0.0065276948201981625, 0.019529028526908764, -0.016225447339539897, 0.03191308823338878),
}  # fmt: skip


def _pi(f: Format, part: Fraction) -> list[float]:
    return split(PI * part, f.precision, f.precision)


def _octant(b: Body, f: Format, num: Value, den: Value) -> tuple[Value, Value]:
    """atan(num / den), 0 <= num <= den, in two parts to be added."""
    middle = num.gt(den * 0.4140625)
    t = middle.select(num - den, num) / middle.select(num + den, den)
    z = t * t
    high, low = _pi(f, Fraction(1, 4))
    zero = b.constant(0.0, f.element)
    rest = b.mad(t * z, b.series(z, _ATAN[f.precision]), middle.select(low, zero))
    return middle.select(high, zero), rest + t


def atan(b: Body, f: Format, x: Value) -> Value:
    a = x.abs()
    steep = a.gt(1.0)
    base, t = _octant(b, f, steep.select(1.0, a), steep.select(a, 1.0))
    high, low = _pi(f, Fraction(1, 2))
    y = steep.select((high - base) + (low - t), base + t)
    return y.copysign(x)


def atan2(b: Body, f: Format, y: Value, x: Value) -> Value:
    """Large operands are scaled by 1/4, so that their sum does not overflow; 0/0 and inf/inf count as 0/1 and
    1/1."""
    inf = float("inf")
    ay, ax = y.abs(), x.abs()
    steep = ay.gt(ax)
    num, den = steep.select(ax, ay), steep.select(ay, ax)
    both = num.eq(inf)
    factor = den.gt(2.0**100).select(0.25, b.constant(1.0, f.element))
    num = both.select(1.0, num * factor)
    den = (both | den.eq(0.0)).select(1.0, den * factor)
    base, t = _octant(b, f, num, den)
    half, half_low = _pi(f, Fraction(1, 2))
    pi, pi_low = _pi(f, Fraction(1))
    # steep: pi/2 - v; then, for negative x, pi - v: +-v plus a multiple of pi/2.
    behind = (x.bits() >> (f.bits - 1)).ne(0)
    zero = b.constant(0.0, f.element)
    minus = steep ^ behind
    high = steep.select(half, behind.select(pi, zero))
    low = steep.select(half_low, behind.select(pi_low, zero))
    base, t = minus.select(-base, base), minus.select(-t, t)
    high, error = b.fast_two_sum(high, base)  # 3 pi/4 is longer than its terms
    r = high + (error + (low + t))
    # r is NaN where num or den is; the comparison above loses one of y and x where the other is not.
    r = (y.is_nan() | x.is_nan()).select(float("nan"), r)
    return r.copysign(y)


def _arc(b: Body, f: Format, a: Value) -> tuple[Value, Value, Value]:
    """Whether a > 1/2, and asin of a or of sqrt((1 - a) / 2) in two parts to be added."""
    large = a.gt(0.5)
    z = large.select(b.mad(a, -0.5, 0.5), a * a)
    s = large.select(z.sqrt(), a)
    return large, s, s * z * b.series(z, _ASIN[f.precision])


def asin(b: Body, f: Format, x: Value) -> Value:
    a = x.abs()
    large, s, t = _arc(b, f, a)
    high, low = _pi(f, Fraction(1, 2))
    folded = high - (2.0 * s - (low - 2.0 * t))
    return large.select(folded, s + t).copysign(x)


def acos(b: Body, f: Format, x: Value) -> Value:
    a = x.abs()
    large, s, t = _arc(b, f, a)
    negative = x.lt(0.0)
    high, low = _pi(f, Fraction(1, 2))
    pi, pi_low = _pi(f, Fraction(1))
    near = high - (negative.select(-s, s) - (low - negative.select(-t, t)))
    twice, rest = s + s, t + t
    far = negative.select(pi - (twice - (pi_low - rest)), twice + rest)
    return large.select(far, near)


def _asinh64(b: Body, f: Format, x: Value) -> Value:
    a = x.abs()
    large = a.gt(2.0**60)
    limited = large.select(1.0, a)
    square = limited * limited
    t = a + square / ((square + 1.0).sqrt() + 1.0)
    y = log1p(b, f, large.select(a, t)) + large.select(float(LOG2), b.constant(0.0, f.element))
    return y.copysign(x)


def _acosh64(b: Body, f: Format, x: Value) -> Value:
    large = x.gt(2.0**60)
    t = large.select(1.0, x) - 1.0
    t = t + b.mad(t, t, t + t).sqrt()
    y = log1p(b, f, large.select(x, t)) + large.select(float(LOG2), b.constant(0.0, f.element))
    return x.lt(1.0).select(float("nan"), y)


def _atanh64(b: Body, f: Format, x: Value) -> Value:
    a = x.abs()
    return (log1p(b, f, (a + a) / (1.0 - a)) * 0.5).copysign(x)


def asinh(b: Body, f: Format, x: Value) -> Value:
    return b.in_double(f, _asinh64, x)


def acosh(b: Body, f: Format, x: Value) -> Value:
    return b.in_double(f, _acosh64, x)


def atanh(b: Body, f: Format, x: Value) -> Value:
    return b.in_double(f, _atanh64, x)
