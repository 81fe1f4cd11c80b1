"""pow, roots and norms."""

from __future__ import annotations

from fractions import Fraction

from tc.codegen.vector_math.builder import Body, Value
from tc.codegen.vector_math.exponential import EXP2_64, LOG2, evaluate, near_scale, scale
from tc.codegen.vector_math.formats import DOUBLE, SINGLE, Format, rounded, split
from tc.codegen.vector_math.logarithm import decompose

_LOG2_64 = (  # log2(1 + f) / f, relative error 2^-35.8
    1.4426950409106614, -0.721347520831591, 0.4808983326336038, -0.36067365344592345, 0.288540428601058,
    -0.24045841958932906, 0.20605684460261678, -0.18000358676231584, 0.16050313519565007,
    -0.1492087165134997, 0.13879373580685275, -0.10204018888070865, 0.03798873848746048,
)  # fmt: skip
EXP2_SHORT = (  # 2^r, relative error 2^-29
    1.0000000005547882, 0.6931472057553297, 0.24022646887880073, 0.055503287390902524, 0.009618489093052825,
    0.0013399945983820017, 0.00015345812742239678,
)  # fmt: skip


def _pow_cases(b: Body, f: Format, x: Value, y: Value, magnitude: Value) -> Value:
    """Sign and special cases (C99, F.9.4.4), where `magnitude` is 2^(y log2|x|) with log2 0 = -inf."""
    inf = float("inf")
    half = y * 0.5
    integer = b.intrinsic("trunc", y).eq(y)
    odd = integer & b.intrinsic("trunc", half).ne(half)
    sign = odd.select(x.bits() & (1 << (f.bits - 1)), b.constant(0, f.integer))
    r = (magnitude.bits() | sign).float()
    outside = x.lt(0.0) & x.gt(-inf) & ~integer & ~y.is_nan()
    r = outside.select(float("nan"), r)
    one = x.eq(1.0) | y.eq(0.0) | (x.eq(-1.0) & y.abs().eq(inf))
    return one.select(1.0, r)


def pow32(b: Body, f: Format, x: Value, y: Value) -> Value:
    """In float64: 2^(y (k + log2 m)); the last conversion makes subnormal numbers and infinities."""
    a = x.abs()
    k, m = decompose(b, f, a)
    r = (m - 1.0).convert("fpext", "double")
    if not b.target.avx512:
        k = a.eq(0.0).select(float("-inf"), a.lt(float("inf")).select(k, a))
    log2 = b.mad(r, b.horner(r, _LOG2_64), k.convert("fpext", "double"))
    t = (y.convert("fpext", "double") * log2).at_most(256.0).at_least(-256.0)
    shifted = t + DOUBLE.magic
    rest = t - (shifted - DOUBLE.magic)
    # A NaN is not to be scaled by bits: it comes back by addition.
    p = near_scale(DOUBLE, b.horner(rest, EXP2_SHORT), shifted.bits()) + (t - t)
    return _pow_cases(b, f, x, y, p.convert("fptrunc", "float"))


_R64 = (  # (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in s^2
    0.39999999999999725, 0.28571428571577284, 0.22222222191257965, 0.18181821524914782, 0.15384406708986373,
    0.1334114284138742, 0.11592381173334788, 0.12571305460789836,
)  # fmt: skip


def _log2_pair(b: Body, f: Format, k: Value, m: Value) -> tuple[Value, Value]:
    """k + log2 m in two parts, good to about 2^-66: log m = 2 s + 2/3 s^3 + … with s = (m - 1) / (m + 1), the
    first two terms in twice the precision (the scheme of Tang, 1990, and Muller, 2016, 11.5)."""
    r = m - 1.0
    d, d_low = b.two_sum(m, b.constant(1.0, f.element))
    s = r / d
    p, p_low = b.two_product(f, s, d)
    s_low = ((r - p) - p_low - s * d_low) / d
    z, z_low = b.two_product(f, s, s)
    z_low = z_low + 2.0 * (s * s_low)
    cube, cube_low = b.two_product(f, z, s)
    cube_low = cube_low + (z_low * s + z * s_low)
    high, low = split(Fraction(2, 3), 53, 53)
    t, t_low = b.two_product(f, cube, high)
    t_low = t_low + (cube * low + cube_low * high)
    tail = z * cube * b.series(z, _R64)
    log, log_low = b.fast_two_sum(s + s, t)
    log_low = log_low + ((s_low + s_low + t_low) + tail)
    log, log_low = b.fast_two_sum(log, log_low)
    high, low = split(1 / LOG2, 53, 53)
    q, q_low = b.two_product(f, log, high)
    q_low = q_low + (log * low + log_low * high)
    total, error = b.fast_two_sum(k, q)
    return b.fast_two_sum(total, error + q_low)


def pow64(b: Body, f: Format, x: Value, y: Value) -> Value:
    a = x.abs()
    inf = float("inf")
    k, m = decompose(b, f, a)
    high, low = _log2_pair(b, f, k, m)
    limited = y.at_most(2.0**70).at_least(-(2.0**70))
    t, t_low = b.two_product(f, limited, high)
    t_low = t_low + limited * low
    usual = a.gt(0.0) & a.lt(inf) & y.abs().lt(inf)  # and none is a NaN
    t = usual.select(t, y * a.eq(0.0).select(-inf, a - 1.0))
    t_low = t.abs().lt(1100.0).select(t_low, 0.0)
    t = t.at_most(1100.0).at_least(-1100.0)
    n = (t + f.magic) - f.magic
    p = evaluate(b, f, (t - n) + t_low, EXP2_64.polynomial)
    return _pow_cases(b, f, x, y, scale(b, f, p, n))


_CBRT = {  # m^(-1/3) on [3/4, 3/2)
    24: (1.697080373764038, -1.1886621713638306, 0.6217675805091858, -0.13028262555599213),
    53: (1.838088035583496, -1.721248984336853, 1.3608647584915161, -0.5771965384483337, 0.09945506602525711),
}
_ROOT2 = Fraction(0x1428A2F98D728AE223DDAB715BE250D0C288F102, 2**156)  # 2^(1/3)


def cbrt(b: Body, f: Format, x: Value) -> Value:
    """m = 8^-q |x|; y = m^(-1/3) by a polynomial and one step of the binomial series in 1 - m y^3, then
    c = m y^2 corrected by one step of Newton's method."""
    a = x.abs()
    k, m = decompose(b, f, a)
    q = (k * rounded(Fraction(1, 3), f.precision) + f.magic) - f.magic
    rest = k - 3.0 * q
    y = b.horner(m, _CBRT[f.precision])
    up, down = rest.gt(0.0), rest.lt(0.0)
    root = rounded(_ROOT2, f.precision)
    y = up.select(y * rounded(1 / _ROOT2, f.precision), down.select(y * root, y))
    m = up.select(m + m, down.select(m * 0.5, m))
    square = y * y
    e = 1.0 - m * (square * y)
    p = f.precision
    series = [rounded(Fraction(1, 3), p), rounded(Fraction(2, 9), p), rounded(Fraction(14, 81), p)]
    y = b.mad(y * e, b.horner(e, series[: 2 if f is SINGLE else 3]), y)
    square = y * y
    c = m * square
    c = b.mad(b.mad(-(c * c), c, m), square * rounded(Fraction(1, 3), p), c)
    result = (c * b.power(f, q)).copysign(x)
    return (a.gt(0.0) & a.lt(float("inf"))).select(result, x)


def rcbrt(b: Body, f: Format, x: Value) -> Value:
    return 1.0 / cbrt(b, f, x)


def hypot(b: Body, f: Format, x: Value, y: Value) -> Value:
    """float32 in float64; float64 scaled by a power of two.  An infinite operand wins over a NaN."""
    inf = float("inf")
    ax, ay = x.abs(), y.abs()
    infinite = ax.eq(inf) | ay.eq(inf)
    if f is SINGLE:
        u, v = x.convert("fpext", "double"), y.convert("fpext", "double")
        return infinite.select(inf, b.mad(u, u, v * v).sqrt().convert("fptrunc", "float"))
    greater = ax.gt(ay).select(ax, ay)
    large, small = greater.gt(2.0**500), greater.lt(2.0**-400)
    one = b.constant(1.0, f.element)
    factor = large.select(2.0**-600, small.select(2.0**600, one))
    back = large.select(2.0**600, small.select(2.0**-600, one))
    u, v = ax * factor, ay * factor
    return infinite.select(inf, b.mad(u, u, v * v).sqrt() * back)
