"""Simplification: constant folding and identities that hold for every value.

Nothing here changes a NaN, the sign of a zero, a wrapped integer or which elements are read.  With
`exact` the integers of the expression are exact (boxes, subscripts and conditions before they are
compiled): then nothing wraps, and division may be simplified through sums.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import replace

from tc.dtypes import BOOL, FLOAT32, FLOAT64, DType
from tc.errors import unreachable
from tc.ir.expr import (
    EQ,
    FALSE,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    TRUE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
    constant,
    imm,
    rebuild,
    substitute,
    walk,
)


def floor_div(a: int, b: int) -> int:
    """The language's integer division: floor, and 0 for b = 0."""
    return a // b if b else 0


def floor_mod(a: int, b: int) -> int:
    """`a - floor_div(a, b) * b`, and 0 for b = 0."""
    return a % b if b else 0


def round_to(dtype: DType, value: float) -> float:
    """`value` rounded to float32 or float64 (half types round where they are stored)."""
    if dtype == FLOAT32 and math.isfinite(value):
        try:
            return struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    return value


def to_integer(dtype: DType, value: float) -> int:
    """A float as an integer type: truncated, saturated, 0 for NaN."""
    if math.isnan(value):
        return 0
    low, high = int(dtype.min), int(dtype.max)
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(math.trunc(value), low), high)


def is_pure(e: Expr) -> bool:
    """Whether dropping `e` cannot be noticed: it holds no access that is checked when the kernel runs."""
    return not any(isinstance(x, (Call, Load)) and x.checked for x in walk(e))


def simplify(e: Expr, *, exact: bool = False) -> Expr:
    """An expression of the same value, type and accesses, usually smaller."""
    if isinstance(e, (IntImm, UIntImm, FloatImm, Variable)):
        return e
    e = rebuild(e, lambda c: simplify(c, exact=exact))
    return _node(e, exact and not _reads_data(e))


def _reads_data(e: Expr) -> bool:
    """Whether data enters: what is computed with it wraps, also in a subscript."""
    match e:
        case FloorDiv() | FloorMod() | Min() | Max() | EQ() | NE() | LT() | LE() | GT() | GE():
            return any(isinstance(x, (Call, Load)) for x in walk(e))
        case _:
            return False


def _literal(value: int | float, dtype: DType, exact: bool) -> Expr:
    if exact and dtype == INDEX:
        return IntImm(int(value))
    return imm(value, dtype)


def _node(e: Expr, exact: bool) -> Expr:
    if isinstance(e, Cast | Add | Sub | Mul | Div | EQ | NE) and _of_complex(e):
        return e.value if isinstance(e, Cast) and e.value.dtype == e.dtype else e
    match e:
        case Call(name="abs", kind="intrinsic", args=(IntImm() as a,)) if e.dtype.is_int:
            return _literal(e.dtype.wrap(abs(a.value)), e.dtype, exact)
        case IntImm() | UIntImm() | FloatImm() | Variable() | Call() | Load():
            return e
        case Cast():
            return _cast(e, exact)
        case Add() | Sub() | Mul():
            return _ring(e, exact)
        case Div():
            a, b = constant(e.a), constant(e.b)
            if a is not None and b is not None:
                return FloatImm(_float_div(a, b, e.dtype), e.dtype)
            return e.a if b == 1 else e
        case FloorDiv() | FloorMod():
            return _division(e, exact)
        case Min() | Max():
            return _extremum(e, exact)
        case EQ() | NE() | LT() | LE() | GT() | GE():
            return _compare(e, exact)
        case And() | Or():
            return _logical(e)
        case Not():
            match e.a:
                case UIntImm():
                    return FALSE if e.a.value else TRUE
                case Not():
                    return e.a.a
                case _:
                    return e
        case Select():
            if isinstance(e.condition, UIntImm):
                kept, dropped = e.true_value, e.false_value
                if not e.condition.value:
                    kept, dropped = dropped, kept
                return kept if is_pure(dropped) else e
            return e.true_value if _same(e.true_value, e.false_value) and is_pure(e.condition) else e
        case IfThenElse():
            if isinstance(e.condition, UIntImm):
                return e.then_value if e.condition.value else e.else_value
            return e.then_value if _same(e.then_value, e.else_value) and is_pure(e.condition) else e
        case Let():
            if isinstance(e.value, (IntImm, UIntImm, FloatImm, Variable)) and not _captures(e):
                return simplify(substitute(e.body, {e.name: e.value}), exact=exact)
            return e
        case _:
            unreachable(e)


def _of_complex(e: Cast | Add | Sub | Mul | Div | EQ | NE) -> bool:
    return e.dtype.is_complex if isinstance(e, Cast) else e.a.dtype.is_complex


def _same(a: Expr, b: Expr) -> bool:
    """Equal, and not by 0.0 == -0.0."""
    return a == b and not any(isinstance(x, FloatImm) and x.value == 0 for x in walk(a))


def _captures(e: Let) -> bool:
    """Whether putting the value into the body would move a variable under a let of its name."""
    return isinstance(e.value, Variable) and any(
        isinstance(x, Let) and x.name == e.value.name for x in walk(e.body)
    )


def _cast(e: Cast, exact: bool) -> Expr:
    source, target = e.value.dtype, e.dtype
    if source == target:
        return e.value
    value = constant(e.value)
    if value is None or target.is_half or source.is_half:
        return e
    if target.is_bool:
        return UIntImm(int(value != 0), BOOL)
    if target.is_float:
        if isinstance(value, int) and int(float(value)) != value and target != FLOAT64:
            return e  # it would round twice on its way through float64
        return FloatImm(round_to(target, float(value)), target)
    if isinstance(value, float):
        return imm(to_integer(target, value), target)
    return _literal(value, target, exact)


def _float_div(a: float, b: float, dtype: DType) -> float:
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return round_to(dtype, a / b)


_RING: dict[type, Callable[[int | float, int | float], int | float]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
}


def _ring(e: Add | Sub | Mul, exact: bool) -> Expr:
    a, b = constant(e.a), constant(e.b)
    dtype = e.dtype
    if dtype.is_float:
        if a is not None and b is not None:
            # float64 is wide enough that rounding its result to float32 rounds once (Figueroa, 1995).
            return FloatImm(round_to(dtype, float(_RING[type(e)](a, b))), dtype)
        if isinstance(e, Mul):
            return e.a if b == 1 else e.b if a == 1 else e
        if isinstance(e, Sub):
            return e.a if b == 0 and math.copysign(1.0, b) > 0 else e
        if b == 0 and math.copysign(1.0, b) < 0:
            return e.a
        return e.b if a == 0 and math.copysign(1.0, a) < 0 else e
    if a is not None and b is not None:
        return _literal(_RING[type(e)](a, b), dtype, exact)
    if isinstance(e, Mul):
        if a == 1:
            return e.b
        if b == 1:
            return e.a
        if (a == 0 and is_pure(e.b)) or (b == 0 and is_pure(e.a)):
            return _literal(0, dtype, exact)
    if dtype == INDEX:
        return _collect(e, exact)
    if b == 0 and not isinstance(e, Mul):
        return e.a
    if a == 0 and isinstance(e, Add):
        return e.b
    return e


def linear_terms(e: Expr) -> tuple[dict[Expr, int], int]:
    """A sum of integers as `{term: coefficient}` and a constant, terms in order of appearance."""
    terms: dict[Expr, int] = {}
    offset = 0

    def visit(x: Expr, factor: int) -> None:
        nonlocal offset
        match x:
            case IntImm() | UIntImm():
                offset += factor * x.value
            case Add():
                visit(x.a, factor)
                visit(x.b, factor)
            case Sub():
                visit(x.a, factor)
                visit(x.b, -factor)
            case Mul(a=IntImm() as k, b=y) | Mul(a=y, b=IntImm() as k):
                visit(y, factor * k.value)
            case _:
                terms[x] = terms.get(x, 0) + factor

    visit(e, 1)
    return terms, offset


def from_terms(terms: dict[Expr, int], offset: int) -> Expr:
    """The sum of `linear_terms`, positive terms first, without zero terms."""
    live = [(t, c) for t, c in terms.items() if c]
    live.sort(key=lambda t: t[1] < 0)
    if not live:
        return IntImm(offset)
    total: Expr | None = None
    for term, factor in live:
        size = abs(factor)
        scaled: Expr = term if size == 1 else Mul(IntImm(size), term)
        if total is None:
            total = scaled if factor > 0 else None
            if total is None:  # no positive term to subtract from
                total = Sub(IntImm(offset), scaled)
                offset = 0
        else:
            total = Add(total, scaled) if factor > 0 else Sub(total, scaled)
    assert total is not None
    if offset:
        total = Add(total, IntImm(offset)) if offset > 0 else Sub(total, IntImm(-offset))
    return total


def _collect(e: Add | Sub | Mul, exact: bool) -> Expr:
    terms, offset = linear_terms(e)
    if any(c == 0 and not is_pure(t) for t, c in terms.items()):
        return e
    if not exact:
        # Modulo 2^64 the ring identities hold just as well.
        terms, offset = {t: INDEX.wrap(c) for t, c in terms.items()}, INDEX.wrap(offset)
        if any(c == INDEX.min for c in terms.values()) or offset == INDEX.min:
            return e
    return from_terms(terms, offset)


def _division(e: FloorDiv | FloorMod, exact: bool) -> Expr:
    a, b = constant(e.a), constant(e.b)
    quotient = isinstance(e, FloorDiv)
    if isinstance(a, int) and isinstance(b, int):
        return _literal((floor_div if quotient else floor_mod)(a, b), e.dtype, exact)
    if b == 1:
        return e.a if quotient else (imm(0, e.dtype) if is_pure(e.a) else e)
    if (a == 0 and is_pure(e.b)) or (b == 0 and is_pure(e.a)):
        return imm(0, e.dtype)
    if exact and isinstance(b, int) and e.dtype == INDEX:
        terms, offset = linear_terms(e.a)
        whole = {t: c for t, c in terms.items() if c % b == 0}
        if whole:
            rest = from_terms({t: c for t, c in terms.items() if c % b}, offset % b)
            if quotient:
                base = from_terms({t: c // b for t, c in whole.items()}, offset // b)
                return simplify(Add(base, FloorDiv(rest, IntImm(b))), exact=True)
            if all(is_pure(t) for t in whole):
                return simplify(FloorMod(rest, IntImm(b)), exact=True)
    return e


def _extremum(e: Min | Max, exact: bool) -> Expr:
    a, b = constant(e.a), constant(e.b)
    if a is not None and b is not None:
        if math.isnan(a) or math.isnan(b):
            return FloatImm(math.nan, e.dtype)
        if a == b == 0 and e.dtype.is_float:  # as IEEE 754-2019 has it: -0 is less than +0
            return e.a if (math.copysign(1.0, a) < 0) == isinstance(e, Min) else e.b
        return e.a if (a <= b) == isinstance(e, Min) else e.b
    if _same(e.a, e.b) and is_pure(e.a):
        return e.a
    if exact and e.dtype == INDEX:
        # min(x + 2, x + 5) and the like: the difference is known.
        terms, offset = linear_terms(Sub(e.a, e.b))
        if not any(terms.values()):
            return e.a if (offset <= 0) == isinstance(e, Min) else e.b
    return e


_COMPARE: dict[type, Callable[[int | float, int | float], bool]] = {
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}


def _compare(e: EQ | NE | LT | LE | GT | GE, exact: bool) -> Expr:
    a, b = constant(e.a), constant(e.b)
    if a is None or b is None:
        if not exact or e.a.dtype != INDEX:
            return e
        terms, offset = linear_terms(Sub(e.a, e.b))
        if any(terms.values()):
            return e
        a, b = offset, 0
    return TRUE if _COMPARE[type(e)](a, b) else FALSE


def _logical(e: And | Or) -> Expr:
    absorbing = 0 if isinstance(e, And) else 1
    for this, other in ((e.a, e.b), (e.b, e.a)):
        if isinstance(this, UIntImm):
            if this.value != absorbing:
                return other
            if is_pure(other):
                return this
    return e.a if e.a == e.b and is_pure(e.a) else e


def conjunction(parts: list[Expr] | tuple[Expr, ...]) -> Expr:
    """All of the conditions; true for none."""
    total: Expr = TRUE
    for p in parts:
        total = simplify(And(total, p), exact=True)
    return total


def substitute_typed(e: Expr, values: dict[str, int | float]) -> Expr:
    """`e` with variables replaced by literals of the variables' own types; let-bound names shadow."""
    match e:
        case Variable():
            return imm(values[e.name], e.dtype) if e.name in values else e
        case Let():
            inner = {k: v for k, v in values.items() if k != e.name}
            return replace(e, value=substitute_typed(e.value, values), body=substitute_typed(e.body, inner))
        case _:
            return rebuild(e, lambda c: substitute_typed(c, values))
