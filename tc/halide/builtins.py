"""The built-in functions as Halide expressions; what is missing here is excluded by name (`limits`).

A function whose argument is float32 is computed in double where that saves care (`_wide`).  Halide's own
functions are the C library's in scalar code; in vectorised code its `exp`, `log` and `pow` of float32 are
approximations of a few units in the last place.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tc.dtypes import UINT64, DType
from tc.halide import arithmetic
from tc.halide.binding import HlExpr, hl, literal
from tc.ir.expr import Sub

Function = Callable[..., HlExpr]  # (arguments…, type) -> value


def _direct(f: Callable[..., HlExpr]) -> Function:
    return lambda *args: f(*args[:-1])


def _wide(f: Callable[..., HlExpr]) -> Function:
    """A function of doubles, also for float32: computed in double, rounded once."""

    def apply(*args: HlExpr) -> HlExpr:
        dtype: DType = args[-1]
        out = f(*(hl.f64(a) for a in args[:-1]))
        return out if dtype.bits == 64 else hl.f32(out)

    return apply


def _c(value: float) -> HlExpr:
    return hl.f64(value)


def _bits(e: HlExpr) -> HlExpr:
    return hl.reinterpret(hl.UInt(64), e)


def _double(bits: HlExpr) -> HlExpr:
    return hl.reinterpret(hl.Float(64), bits)


_SIGN = 1 << 63
_MAGNITUDE = _SIGN - 1


def _u64(value: int) -> HlExpr:
    return literal(value, UINT64)


def _fabs(x: HlExpr, dtype: DType) -> HlExpr:
    """Halide's `abs` leaves the sign of -0."""
    if dtype.bits == 32:
        bits = hl.reinterpret(hl.UInt(32), x)
        return hl.reinterpret(hl.Float(32), bits & hl.u32(0x7FFFFFFF))
    return _double(_bits(x) & _u64(_MAGNITUDE))


def _copysign(x: HlExpr, y: HlExpr) -> HlExpr:
    return _double((_bits(x) & _u64(_MAGNITUDE)) | (_bits(y) & _u64(_SIGN)))


def _round(x: HlExpr) -> HlExpr:
    """Half away from zero; `x - trunc(x)` is exact."""
    whole = hl.trunc(x)
    return hl.select(hl.abs(x - whole) < _c(0.5), whole, whole + _copysign(_c(1.0), x))


def _log1p(x: HlExpr) -> HlExpr:
    """Goldberg, What every computer scientist should know, 1991, theorem 4: the error of 1 + x cancels."""
    u = _c(1.0) + x
    edge = (u == _c(1.0)) | (u == _c(math.inf))
    safe = hl.select(edge, _c(2.0), u)
    return hl.select(edge, x, hl.log(safe) * (x / (safe - _c(1.0))))


def _expm1(x: HlExpr) -> HlExpr:
    """Kahan's companion of `_log1p`: (u - 1) x / log u, u = exp x (Higham, Accuracy and stability)."""
    u = hl.exp(x)
    edge = (u == _c(1.0)) | (u == _c(0.0)) | hl.is_inf(u)
    safe = hl.select(edge, _c(2.0), u)
    value = (safe - _c(1.0)) * (x / hl.log(safe))
    return hl.select(u == _c(1.0), x, hl.select(u == _c(0.0), _c(-1.0), hl.select(hl.is_inf(u), u, value)))


def _cbrt(x: HlExpr) -> HlExpr:
    """A power and one Newton step; zeros, infinities and NaN are their own roots.

    Subnormals are scaled by 2^54 = (2^18)^3, so that the cube in the step keeps its digits.
    """
    size = hl.abs(x)
    edge = (x == _c(0.0)) | hl.is_inf(x) | hl.is_nan(x)
    tiny = size < _c(2.0**-1000)
    huge = size > _c(2.0**1000)
    scaled = hl.select(tiny, size * _c(2.0**108), hl.select(huge, size * _c(2.0**-108), size))
    scaled = hl.select(edge, _c(1.0), scaled)
    y = hl.pow(scaled, _c(1.0 / 3.0))
    y = y - (y - scaled / (y * y)) / _c(3.0)
    y = hl.select(tiny, y * _c(2.0**-36), hl.select(huge, y * _c(2.0**36), y))
    return hl.select(edge, x, _copysign(y, x))


def _logb(x: HlExpr) -> HlExpr:
    """The exponent; subnormals are scaled first."""
    size = hl.abs(x)
    small = size < _c(2.0**-1022)
    bits = _bits(hl.select(small, size * _c(2.0**54), size))
    exponent = hl.f64(hl.i64(bits >> _u64(52))) - hl.select(small, _c(1077.0), _c(1023.0))
    zero = hl.select(x == _c(0.0), _c(-math.inf), exponent)
    return hl.select(hl.is_inf(x) | hl.is_nan(x), x * x, zero)


def _sinpi(x: HlExpr) -> HlExpr:
    """Reduced exactly to [-1/2, 1/2]; integers give a zero of the sign of x (IEEE 754-2019, 9.2)."""
    r = x - _c(2.0) * hl.round(x / _c(2.0))
    r = hl.select(r > _c(0.5), _c(1.0) - r, hl.select(r < _c(-0.5), _c(-1.0) - r, r))
    return hl.select(r == _c(0.0), _copysign(_c(0.0), x), hl.sin(_c(math.pi) * r))


def _cospi(x: HlExpr) -> HlExpr:
    r = hl.abs(x - _c(2.0) * hl.round(x / _c(2.0)))
    near = hl.sin(_c(math.pi) * (_c(0.5) - r))
    return hl.select(r < _c(0.25), hl.cos(_c(math.pi) * r), near)


def _norm(*args: HlExpr) -> HlExpr:
    """Scaled by a power of two near the largest magnitude: exact, and nothing overflows or vanishes.

    An infinity wins over NaN, as in C's `hypot`.
    """
    sizes = [hl.abs(a) for a in args]
    infinite = hl.is_inf(sizes[0])
    largest = sizes[0]
    for s in sizes[1:]:
        infinite = infinite | hl.is_inf(s)
        largest = hl.select(s > largest, s, largest)
    up, down = largest > _c(2.0**500), largest < _c(2.0**-500)
    scale = hl.select(up, _c(2.0**-700), hl.select(down, _c(2.0**700), _c(1.0)))
    back = hl.select(up, _c(2.0**700), hl.select(down, _c(2.0**-700), _c(1.0)))
    total = (sizes[0] * scale) * (sizes[0] * scale)
    for s in sizes[1:]:
        total = total + (s * scale) * (s * scale)
    return hl.select(infinite, _c(math.inf), hl.sqrt(total) * back)


def _fma(a: HlExpr, b: HlExpr, c: HlExpr) -> HlExpr:
    """a b + c with the product's rounding error added back: Veltkamp's split, Dekker's product and Knuth's
    sum (Ogita, Rump and Oishi, Accurate sum and dot product, 2005).  Where the split overflows, unfused."""

    def split(v: HlExpr) -> tuple[HlExpr, HlExpr]:
        t = _c(134217729.0) * v
        high = t - (t - v)
        return high, v - high

    p = a * b
    ah, al = split(a)
    bh, bl = split(b)
    e = al * bl - (((p - ah * bh) - al * bh) - ah * bl)
    s = p + c
    z = s - p
    rest = ((p - (s - z)) + (c - z)) + e
    return hl.select(hl.is_finite(rest), s + rest, s)


def _nextafter(x: HlExpr, y: HlExpr, dtype: DType) -> HlExpr:
    """The neighbour of x towards y, in the precision of the type: the bits as an integer, one further."""
    unsigned = hl.UInt(dtype.bits)
    one = hl.cast(unsigned, hl.i32(1))
    zero = literal(0.0, dtype)
    bits = hl.reinterpret(unsigned, x)
    further = (x < y) == (x > zero)
    step = hl.reinterpret(hl.Float(dtype.bits), hl.select(further, bits + one, bits - one))
    least = hl.reinterpret(hl.Float(dtype.bits), one)
    least = hl.select(y > zero, least, least * literal(-1.0, dtype))
    moved = hl.select(x == y, y, hl.select(x == zero, least, step))
    return hl.select(hl.is_nan(x) | hl.is_nan(y), x + y, moved)


def _sigmoid(x: HlExpr) -> HlExpr:
    """With the exponential of a negative number only, which cannot overflow."""
    e = hl.exp(_c(0.0) - hl.abs(x))
    return hl.select(x < _c(0.0), e, _c(1.0)) / (_c(1.0) + e)


def _drop_nan(wins: Callable[[HlExpr, HlExpr], HlExpr]) -> Function:
    return lambda a, b, dtype: hl.select(hl.is_nan(a), b, hl.select(hl.is_nan(b) | wins(a, b), a, b))


def _fdim(a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    zero = literal(0.0, dtype)
    return hl.select(hl.is_nan(a) | hl.is_nan(b), a + b, hl.select(a > b, a - b, zero))


def _abs(a: HlExpr, dtype: DType) -> HlExpr:
    zero = literal(0, dtype)
    return hl.select(a < zero, arithmetic.BINARY[Sub](zero, a, dtype), a)


_DIRECT = (
    "acos acosh asin asinh atan atanh ceil cos cosh exp floor log sin sinh sqrt tan tanh trunc atan2 pow"
)

FUNCTIONS: Mapping[str, Function] = {
    **{name: _direct(getattr(hl, name)) for name in _DIRECT.split()},
    "abs": _abs,
    "fabs": _fabs,
    "exp2": _wide(lambda x: hl.pow(_c(2.0), x)),
    "exp10": _wide(lambda x: hl.pow(_c(10.0), x)),
    "log2": _wide(lambda x: hl.log(x) / _c(math.log(2.0))),
    "log10": _wide(lambda x: hl.log(x) / _c(math.log(10.0))),
    "log1p": _wide(_log1p),
    "expm1": _wide(_expm1),
    "cbrt": _wide(_cbrt),
    "rcbrt": _wide(lambda x: _c(1.0) / _cbrt(x)),
    "rsqrt": _wide(lambda x: _c(1.0) / hl.sqrt(x)),
    "sigmoid": _wide(_sigmoid),
    "round": _wide(_round),
    "logb": _wide(_logb),
    "sinpi": _wide(_sinpi),
    "cospi": _wide(_cospi),
    "copysign": _wide(_copysign),
    "fdim": _fdim,
    "fmax": _drop_nan(lambda a, b: a > b),
    "fmin": _drop_nan(lambda a, b: a < b),
    "fdivide": _direct(lambda a, b: a / b),
    "fma": _wide(_fma),
    "nextafter": _nextafter,
    "hypot": _wide(_norm),
    "norm3d": _wide(_norm),
    "norm4d": _wide(_norm),
    "rhypot": _wide(lambda *a: _c(1.0) / _norm(*a)),
    "rnorm3d": _wide(lambda *a: _c(1.0) / _norm(*a)),
    "rnorm4d": _wide(lambda *a: _c(1.0) / _norm(*a)),
}
