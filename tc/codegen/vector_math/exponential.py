"""exp and its relatives.

All reduce x = n log 2 + r, |r| <= log(2)/2, with the constant in two parts of which the first times n is
exact (Cody and Waite, Software Manual for the Elementary Functions, 1980, ch. 6), and evaluate a polynomial.
The polynomials are weighted minimax fits made for this file (Lawson's iteration at 180 bits, coefficients
rounded one after the other and the rest fitted again).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tc.codegen.vector_math.builder import Body, Value
from tc.codegen.vector_math.formats import SINGLE, Format, rounded, split

LOG2 = Fraction(0xB17217F7D1CF79ABC9E3B39803F2F6AF, 2**128)
LOG2_10 = Fraction(0xD49A784BCD1B8AFE492BF6FF4DAFDB4C, 2**126)
LOG10 = LOG2 * LOG2_10


@dataclass(frozen=True, slots=True)
class _Base:
    """b^x: n is rounded from x `slope`, r = x - n `step`."""

    slope: float
    step: tuple[float, ...]
    most: float  # from here on the result is infinite
    least: float  # and here zero
    polynomial: tuple[float, ...]  # of b^r, lowest coefficient first


_EXPM1_Q32 = (
    0.5,
    0.16666541993618011,
    0.04166644811630249,
    0.008366718888282776,
    0.0013936568284407258,
)
_EXPM1_Q64 = (
    0.5, 0.16666666666666677, 0.041666666666666616, 0.008333333333321416, 0.0013888888888919744,
    0.00019841269886694549, 2.480158724585603e-05, 2.7557243606702385e-06, 2.755734569313402e-07,
    2.5109258480729218e-08, 2.08917398113834e-09,
)  # fmt: skip
_EXP32 = _Base(
    rounded(1 / LOG2, 24), tuple(split(LOG2, 15, 24)), 89.0, -104.0,
    (1.0, 1.0, 0.4999999403953552, 0.1666651964187622, 0.04166824370622635, 0.0083688423037529,
     0.0013823012122884393),
)  # fmt: skip
EXP64 = _Base(
    rounded(1 / LOG2, 53), tuple(split(LOG2, 41, 53)), 710.0, -746.0,
    (1.0, 1.0, 0.5000000000000011, 0.1666666666666642, 0.04166666666652625, 0.00833333333349006,
     0.0013888888944664285, 0.00019841269517273903, 2.480149200864815e-05, 2.7557575666699382e-06,
     2.763064578429218e-07, 2.500383730190315e-08),
)  # fmt: skip
_EXP2_32 = _Base(
    1.0, (1.0,), 129.0, -151.0,
    (1.0, 0.6931471824645996, 0.24022647738456726, 0.05550358444452286, 0.009618493728339672,
     0.001339149777777493, 0.0001533203321741894),
)  # fmt: skip
_EXP10_32 = _Base(
    rounded(LOG2_10, 24), tuple(split(1 / LOG2_10, 14, 24)), 38.625, -45.5,
    (1.0, 2.3025851249694824, 2.6509487628936768, 2.0346555709838867, 1.1712931394577026,
     0.5418506860733032, 0.20626677572727203),
)  # fmt: skip
EXP2_64 = _Base(
    1.0, (1.0,), 1025.0, -1076.0,
    (1.0, 0.6931471805599453, 0.24022650695910114, 0.05550410866482176, 0.009618129107599557,
     0.001333355814653003, 0.00015403530451442722, 1.525273365495985e-05, 1.321543770420481e-06,
     1.0178149748665244e-07, 7.073418264966995e-09, 4.4405833090564404e-10),
)  # fmt: skip
_EXP10_64 = _Base(
    rounded(LOG2_10, 53), tuple(split(1 / LOG2_10, 40, 53)), 308.5, -324.0,
    (1.0, 2.302585092994046, 2.650949055239204, 2.034678592293319, 1.1712551489086644, 0.5393829292301094,
     0.20699584948337477, 0.06808936189473318, 0.01959762160619272, 0.005014055897307271,
     0.001157531702220451, 0.00024002956550029942),
)  # fmt: skip


def reduce(b: Body, f: Format, x: Value, base: _Base, offset: int = 0) -> tuple[Value, Value, Value]:
    """The integer n, also (plus an even offset) as the low bits of an integer, and the rest r."""
    magic = f.magic + offset
    shifted = b.mad(x, base.slope, magic) if base.slope != 1.0 else x + magic
    n = shifted - magic
    r = x
    for part in base.step:
        r = b.mad(n, -part, r) if part != 1.0 else r - n
    return n, shifted.bits(), r


def scale(b: Body, f: Format, x: Value, n: Value) -> Value:
    """x 2^n, rounded once, for x from 1/2 to 2 and n that may lead beyond the ends.  No operation has a
    subnormal result, for which processors take a hundred cycles and more."""
    normal = n.at_least(_least_normal(f))
    if b.target.avx512:
        usual = b.scalef(x, normal)
    else:
        # In two steps, of which the first is exact: each half of n plus twice the bias, in the low bits, is
        # the exponent of a factor.
        low = (normal + (f.magic + 2 * f.bias)).bits()
        half = low >> 1
        usual = x * (half << f.fraction).float() * ((low - half) << f.fraction).float()
    return or_subnormal(b, f, x, n, usual)


def scale_down(b: Body, f: Format, x: Value, n: Value) -> Value:
    """The same for n <= 0, which never leads beyond the upper end."""
    return or_subnormal(b, f, x, n, down(b, f, x, n))


def down(b: Body, f: Format, x: Value, n: Value) -> Value:
    """x 2^n for n <= 0 where the result is a normal number; else another normal number."""
    normal = n.at_least(_least_normal(f))
    return b.scalef(x, normal) if b.target.avx512 else x * _power(f, normal)


def _power(f: Format, n: Value) -> Value:
    """2^n, a normal number; of a NaN anything."""
    return (((n + f.magic).bits() << f.fraction) + (f.bias << f.fraction)).float()


def or_subnormal(b: Body, f: Format, x: Value, n: Value, usual: Value, where: Value | None = None) -> Value:
    """`usual`, but (`where` that holds) x 2^n for n so low that the result is subnormal, or near that.  Its
    bits are those of an integer, the multiple of the least number, and it is rounded as such."""
    low = n.lt(_least_normal(f))
    low = low if where is None else low & where
    up = float(f.bias + f.fraction - 1)  # the least number is 2^-up
    if b.target.avx512:
        multiple = b.scalef(x, n + up)
    else:
        multiple = near_scale(f, x, (n + (f.magic + up)).bits())
    multiple = b.intrinsic("rint", multiple)
    if f is SINGLE or b.target.avx512:
        bits = multiple.convert("fptosi", f.integer)
    else:  # no instruction for that: up to 2^fraction a sum has the bits, and then the number itself
        first = 2.0**f.fraction
        bits = multiple.ge(first).select(multiple.bits() + (1 << f.fraction), (multiple + first).bits())
        bits = bits - ((f.bias + f.fraction) << f.fraction)
    return low.select(bits.float(), usual)


def _least_normal(f: Format) -> float:
    """The n from which on x 2^n is a normal number, for x from 1/2 on."""
    return float(2 - f.bias)


def scale_far(b: Body, f: Format, x: Value, n: Value) -> Value:
    """x 2^n for any positive x, rounded twice where the result is subnormal, and slow there."""
    if b.target.avx512:
        return b.scalef(x, n)
    low = (n + (f.magic + 2 * f.bias)).bits()
    half = low >> 1
    return x * (half << f.fraction).float() * ((low - half) << f.fraction).float()


def near_scale(f: Format, x: Value, low: Value) -> Value:
    """x 2^n where x and the result are normal numbers."""
    return (x.bits() + (low << f.fraction)).float()


def evaluate(b: Body, f: Format, r: Value, coefficients: tuple[float, ...]) -> Value:
    """1 + r (c1 + …): the last steps in Horner's order, whose errors count, the others in parallel."""
    if f is SINGLE:
        return b.horner(r, coefficients)
    tail = b.estrin(r, coefficients[3:])
    return b.mad(b.mad(b.mad(tail, r, coefficients[2]), r, coefficients[1]), r, coefficients[0])


def power_of(b: Body, f: Format, x: Value, base: _Base) -> Value:
    x = x.at_most(base.most).at_least(base.least)
    n, _, r = reduce(b, f, x, base)
    return scale(b, f, evaluate(b, f, r, base.polynomial), n)


# 2^(j/16), rounded, and what follows 1 + r in e^r, divided by r^2, for |r| <= log(2)/32.
_SIXTEENTHS = (
    1.0, 1.0442737340927124, 1.0905077457427979, 1.1387885808944702,
    1.1892070770263672, 1.2418577671051025, 1.2968395948410034, 1.3542555570602417,
    1.4142135381698608, 1.4768261909484863, 1.5422108173370361, 1.610490322113037,
    1.6817928552627563, 1.7562521696090698, 1.8340080976486206, 1.9152065515518188,
)  # fmt: skip
_SHORT = (0.5000162124633789, 0.16667057573795319)
_SIXTEENTH_MAGIC = 1.5 * 2.0**19


def _by_table(b: Body, x: Value) -> tuple[Value, Value]:
    """e^x = y 2^n for float32 with AVX-512, as y and n, a multiple of 1/16 to be rounded down.  The power of
    its fraction is looked up in a register, and the polynomial is shorter by two steps, as r is at most
    log(2)/32 (after Tang, ACM TOMS 15, 1989)."""
    shifted = b.fma(x, _EXP32.slope, _SIXTEENTH_MAGIC)
    n = shifted - _SIXTEENTH_MAGIC
    r = x
    for part in _EXP32.step:
        r = b.fma(n, -part, r)
    power = b.looked_up(_SIXTEENTHS, shifted.bits())
    slope = b.fma(r, b.fma(r, _SHORT[1], _SHORT[0]), 1.0)
    return b.fma(slope, r * power, power), n


def exp(b: Body, f: Format, x: Value) -> Value:
    if f is SINGLE and b.target.avx512:
        y, n = _by_table(b, x.at_most(_EXP32.most).at_least(_EXP32.least))
        return scale(b, f, y, n)
    return power_of(b, f, x, _EXP32 if f is SINGLE else EXP64)


def exp2(b: Body, f: Format, x: Value) -> Value:
    return power_of(b, f, x, _EXP2_32 if f is SINGLE else EXP2_64)


def exp10(b: Body, f: Format, x: Value) -> Value:
    return power_of(b, f, x, _EXP10_32 if f is SINGLE else _EXP10_64)


def exp_nonpositive(b: Body, f: Format, x: Value) -> Value:
    """exp for x <= 0 or NaN, without an upper end.  Where the result would be subnormal, or near that, it is
    0: these are shares of a sum that has a 1, and products with them would be slow."""
    least = -87.25 if f is SINGLE else -708.375
    none = x.lt(least)
    some = none.select(least, x)
    if f is SINGLE and b.target.avx512:
        y, n = _by_table(b, some)
        return none.select(0.0, b.scalef(y, n))
    base = _EXP32 if f is SINGLE else EXP64
    n, _, r = reduce(b, f, some, base)
    # No power rather than no result: so no register has to keep which lanes these are.
    power = none.select(0.0, _power(f, n))
    return evaluate(b, f, r, base.polynomial) * power


def exp_moderate(b: Body, f: Format, x: Value) -> Value:
    """exp where the result is a normal number; a NaN gives anything."""
    base = _EXP32 if f is SINGLE else EXP64
    _, low, r = reduce(b, f, x, base)
    return near_scale(f, evaluate(b, f, r, base.polynomial), low)


def expm1(b: Body, f: Format, x: Value) -> Value:
    """The zero's sign is lost on the way."""
    base = _EXP32 if f is SINGLE else EXP64
    return _expm1(b, f, x.at_most(base.most).at_least(-18.0 if f is SINGLE else -38.0)).copysign(x)


def _expm1(b: Body, f: Format, x: Value) -> Value:
    """2^n p + (2^n - 1) with p = e^r - 1, halved, since 2^n overflows before the result does."""
    _, low, r = reduce(b, f, x, _EXP32 if f is SINGLE else EXP64, f.bias - 1)
    q = b.series(r, _EXPM1_Q32 if f is SINGLE else _EXPM1_Q64)
    p = b.mad(r * r, q, r)
    power = (low << f.fraction).float()
    halved = b.mad(power, p, power - 0.5)
    return halved + halved


def sigmoid(b: Body, f: Format, x: Value) -> Value:
    """1 / (1 + e^-|x|) or, for negative x, e^x times that: the exponential never overflows.  The rounding
    error of the sum is put back, to first order and with 1 / (1 + e) within an eighth of 1 - e/2."""
    base = _EXP32 if f is SINGLE else EXP64
    a = (-x.abs()).at_least(base.least)
    n, _, r = reduce(b, f, a, base)
    # r enters unrounded.
    high, rest = b.mad(n, -base.step[0], a), n * -base.step[1]
    y = high + b.mad(r * r, b.series(r, base.polynomial[2:]), rest) + 1.0
    e = down(b, f, y, n)
    total = e + 1.0
    error = e - (total - 1.0)
    q = x.lt(0.0).select(e, 1.0) / total
    return or_subnormal(b, f, y, n, q - q * error * b.mad(e, -0.5, 1.0), x.lt(0.0))


_TANH_Q32 = (
    -0.3333328068256378, 0.13331416249275208, -0.053737934678792953, 0.020634090527892113,
    -0.005700042471289635,
)  # fmt: skip


def tanh(b: Body, f: Format, x: Value) -> Value:
    """float32: x + x^3 Q(x^2) up to 0.625, then 1 - 2 / (e^2|x| + 1), where e^2|x| need not be exact to the
    end.  float64: from e^2|x| - 1."""
    a = x.abs()
    if f is not SINGLE:
        t = _expm1(b, f, (a + a).at_most(40.0))
        return (t / (t + 2.0)).copysign(x)
    square = x * x
    near = b.mad(a * square, b.horner(square, _TANH_Q32), a)
    e = exp_moderate(b, f, (a + a).at_most(20.0))
    return a.ge(0.625).select(1.0 - 2.0 / (e + 1.0), near).copysign(x)


_SINH_Q = {
    24: (0.1666671633720398, 0.008330274373292923, 0.00020372842845972627),
    53: (0.16666666666666669, 0.008333333333332945, 0.000198412698415568, 2.75573191210101e-06,
         2.5052128483616773e-08, 1.6056865314072367e-10, 7.770214746702313e-13),
}  # fmt: skip


def _half_exp(b: Body, f: Format, a: Value) -> Value:
    """e^a / 2, which overflows only where sinh and cosh do."""
    base = _EXP32 if f is SINGLE else EXP64
    n, _, r = reduce(b, f, a.at_most(90.0 if f is SINGLE else 711.0), base)
    return scale_far(b, f, evaluate(b, f, r, base.polynomial) * 0.5, n)


def sinh(b: Body, f: Format, x: Value) -> Value:
    """x + x^3 Q(x^2) up to 1, then h - 1 / (4 h) with h = e^|x| / 2."""
    a = x.abs()
    square = x * x
    near = b.mad(a * square, b.series(square, _SINH_Q[f.precision]), a)
    h = _half_exp(b, f, a)
    return a.ge(1.0).select(h - 0.25 / h, near).copysign(x)


def cosh(b: Body, f: Format, x: Value) -> Value:
    h = _half_exp(b, f, x.abs())
    return h + 0.25 / h
