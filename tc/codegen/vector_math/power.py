"""pow, roots and norms."""

from __future__ import annotations

from tc.codegen.vector_math.builder import DOUBLE, Body, Format, Value
from tc.codegen.vector_math.exponential import near_scale
from tc.codegen.vector_math.logarithm import decompose

_LOG2_64 = (  # log2(1 + f) / f, relative error 2^-35.8
    1.4426950409106614, -0.721347520831591, 0.4808983326336038, -0.36067365344592345, 0.288540428601058,
    -0.24045841958932906, 0.20605684460261678, -0.18000358676231584, 0.16050313519565007, -0.1492087165134997,
    0.13879373580685275, -0.10204018888070865, 0.03798873848746048,
)  # fmt: skip
_EXP2_64 = (  # 2^r, relative error 2^-29
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
    p = near_scale(DOUBLE, b.horner(rest, _EXP2_64), shifted.bits()) + (t - t)
    return _pow_cases(b, f, x, y, p.convert("fptrunc", "float"))
