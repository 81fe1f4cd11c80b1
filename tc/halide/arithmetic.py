"""The language's arithmetic as Halide expressions, where Halide's own means something else.

* Halide treats overflow of signed 32- and 64-bit integers as undefined and simplifies by it: sums,
  differences and products go through the unsigned type, which wraps.
* Its `/` and `%` are Euclidean, and the machine's division traps on INT_MIN / -1: the divisor is made safe
  first, the quotient corrected to floor.
* Its float to integer conversion is undefined out of range: the value is clamped to the range first.
* Its `min` and `max` drop NaN: a comparison and a `select` keep it.
* It simplifies `a <= b` to `!(b < a)`, also of floating values and also when told to be strict, which makes
  NaN less than everything: `<=` and `>=` are spelled out.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping

from tc.dtypes import FLOAT32, INT32, DType
from tc.halide import halves
from tc.halide.binding import HlExpr, element, hl, literal
from tc.ir import expr as x


def _wrapping(f: Callable[[HlExpr, HlExpr], HlExpr]) -> Callable[[HlExpr, HlExpr, DType], HlExpr]:
    def apply(a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
        if not dtype.is_signed:
            return f(a, b)
        unsigned = hl.UInt(dtype.bits)
        return hl.cast(element(dtype), f(hl.cast(unsigned, a), hl.cast(unsigned, b)))

    return apply


def _euclid(a: HlExpr, b: HlExpr, dtype: DType) -> tuple[HlExpr, HlExpr, HlExpr, HlExpr]:
    """Euclidean quotient and remainder by a divisor that is neither 0 nor -1, and where it was either."""
    zero, one = literal(0, dtype), literal(1, dtype)
    none = b == zero
    minus = b == literal(-1, dtype) if dtype.is_signed else hl.cast(hl.UInt(1), hl.i32(0))
    safe = hl.select(none | minus, one, b)
    return a / safe, a % safe, none, minus


def floor_div(a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    """`a / b` towards minus infinity; 0 for b = 0; INT_MIN / -1 wraps."""
    quotient, remainder, none, minus = _euclid(a, b, dtype)
    zero = literal(0, dtype)
    if dtype.is_signed:
        below = (b < zero) & (remainder != zero)
        quotient = hl.select(below, _sub(quotient, literal(1, dtype), dtype), quotient)
        quotient = hl.select(minus, _sub(zero, a, dtype), quotient)
    return hl.select(none, zero, quotient)


def floor_mod(a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    """`a - floor_div(a, b) * b`, and 0 for b = 0."""
    _, remainder, none, minus = _euclid(a, b, dtype)
    zero = literal(0, dtype)
    if dtype.is_signed:
        below = (b < zero) & (remainder != zero)
        remainder = hl.select(below, _add(remainder, b, dtype), remainder)
    return hl.select(none | minus, zero, remainder)


def minimum(a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    """The lesser, or a NaN."""
    return hl.select((a < b) | hl.is_nan(a), a, b) if dtype.is_float else _by_select(hl.min, a, b, dtype)


def maximum(a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    """The greater, or a NaN."""
    return hl.select((a > b) | hl.is_nan(a), a, b) if dtype.is_float else _by_select(hl.max, a, b, dtype)


def _by_select(f: Callable[[HlExpr, HlExpr], HlExpr], a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    if not dtype.is_bool:
        return f(a, b)
    return a & b if f is hl.min else a | b


def less_equal(a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    """`a <= b`, false for NaN."""
    return (a < b) | (a == b) if dtype.is_float else a <= b


def _plain(f: Callable[[HlExpr, HlExpr], HlExpr]) -> Callable[[HlExpr, HlExpr, DType], HlExpr]:
    return lambda a, b, dtype: f(a, b)


_add = _wrapping(lambda a, b: a + b)
_sub = _wrapping(lambda a, b: a - b)
_mul = _wrapping(lambda a, b: a * b)

# IR node -> (a, b, type of the operands) -> Halide expression.
BINARY: Mapping[type, Callable[[HlExpr, HlExpr, DType], HlExpr]] = {
    x.Add: _add,
    x.Sub: _sub,
    x.Mul: _mul,
    x.Div: _plain(lambda a, b: a / b),
    x.FloorDiv: floor_div,
    x.FloorMod: floor_mod,
    x.Min: minimum,
    x.Max: maximum,
    x.EQ: _plain(lambda a, b: a == b),
    x.NE: _plain(lambda a, b: a != b),
    x.LT: _plain(lambda a, b: a < b),
    x.LE: less_equal,
    x.GT: _plain(lambda a, b: a > b),
    x.GE: lambda a, b, dtype: less_equal(b, a, dtype),
    x.And: _plain(lambda a, b: a & b),
    x.Or: _plain(lambda a, b: a | b),
}  # fmt: skip

# Subscripts, bounds and conditions fit int32 (see `limits`), in which Halide infers bounds: no wrapping.
INDEX: Mapping[type, Callable[[HlExpr, HlExpr], HlExpr]] = {
    x.Add: lambda a, b: a + b,
    x.Sub: lambda a, b: a - b,
    x.Mul: lambda a, b: a * b,
    x.FloorDiv: lambda a, b: floor_div(a, b, INT32),
    x.FloorMod: lambda a, b: floor_mod(a, b, INT32),
    x.Min: hl.min,
    x.Max: hl.max,
    **{k: (lambda f: lambda a, b: f(a, b, INT32))(BINARY[k]) for k in (
        x.EQ, x.NE, x.LT, x.LE, x.GT, x.GE, x.And, x.Or,
    )},
}  # fmt: skip


def convert(e: HlExpr, source: DType, target: DType) -> HlExpr:
    """A conversion by the language's rules; halves go in and out as their 16 bits."""
    if source == target:
        return e
    if source.is_half:
        return convert(halves.to_float32(e, source), FLOAT32, target)
    if target.is_half:
        if source.is_float and source.bits == 64:
            return halves.from_float64(e, target)
        if source.is_int and source.bits >= 32:
            return halves.from_integer(e, source, target)
        return halves.from_float32(convert(e, source, FLOAT32), target)
    if target.is_bool:
        return e != literal(0, source)
    if source.is_float and target.is_int:
        return _saturate(e, source, target)
    return hl.cast(element(target), e)


def _saturate(e: HlExpr, source: DType, target: DType) -> HlExpr:
    """Truncation; the type's ends beyond them, 0 for NaN.

    A value is inside if it is less than 2^n and more than min - 1.  Where the mantissa cannot tell
    min - 1 from min, min itself counts as outside, which gives min as well.
    """
    end = literal(2.0 ** (target.bits - int(target.is_signed)), source)
    start = literal(float(target.min) - 1.0, source)
    inside = (e > start) & (e < end)
    whole = hl.cast(element(target), hl.select(inside, e, literal(0.0, source)))
    outside = hl.select(
        less_equal(end, e, source),
        literal(int(target.max), target),
        hl.select(less_equal(e, start, source), literal(int(target.min), target), whole),
    )
    return outside


def combine(op: str, a: HlExpr, b: HlExpr, dtype: DType) -> HlExpr:
    """`a <op> b` of a reduction."""
    return {"+": _add, "*": _mul, "min": minimum, "max": maximum}[op](a, b, dtype)
