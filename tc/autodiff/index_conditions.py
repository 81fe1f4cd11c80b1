"""Conditions on indices: which of them say something, and whether they can hold at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tc.autodiff.arithmetic import literal
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
    Cast,
    Compare,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    UIntImm,
    Variable,
    variables,
)
from tc.ir.program import IterVar
from tc.ir.simplify import simplify
from tc.poly.implication import implied

_NEGATED: dict[type, type[Compare]] = {LT: GE, LE: GT, GT: LE, GE: LT, EQ: NE, NE: EQ}


def conjuncts(e: Expr) -> Iterator[Expr]:
    """Conditions that hold together where `e` does."""
    match e:
        case And():
            yield from conjuncts(e.a)
            yield from conjuncts(e.b)
        case Not(a=Not(a=inner)):
            yield from conjuncts(inner)
        case Not(a=Or(a=a, b=b)):
            yield from conjuncts(Not(a))
            yield from conjuncts(Not(b))
        case Not(a=LT() | LE() | GT() | GE() | EQ() | NE() as c) if c.a.dtype.is_int:
            yield _NEGATED[type(c)](c.a, c.b)
        case _:
            yield e


def conjunction(parts: Sequence[Expr]) -> Expr:
    """All of some conditions, as they are written."""
    total = TRUE
    for p in parts:
        total = p if total == TRUE else And(total, p)
    return total


def index_formula(e: Expr) -> Expr | None:
    """A condition on index arithmetic in exact integers; None for one on data."""
    match e:
        case UIntImm() if e.dtype.is_bool:
            return e
        case And() | Or():
            a, b = index_formula(e.a), index_formula(e.b)
            return None if a is None or b is None else type(e)(a, b)
        case Not():
            inner = index_formula(e.a)
            return None if inner is None else Not(inner)
        case LT() | LE() | GT() | GE() | EQ() | NE():
            a, b = _exact(e.a), _exact(e.b)
            return None if a is None or b is None else simplify(type(e)(a, b), exact=True)
        case _:
            return None


def unguarded(e: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """A product without factors that are 0 where a condition on indices does not hold, and these conditions,
    without which there is nothing to add.  As conditions of a domain they are exact integers."""
    match e:
        case Mul():
            (a, of_a), (b, of_b) = unguarded(e.a), unguarded(e.b)
            return (type(e)(a, b), (*of_a, *of_b)) if of_a or of_b else (e, ())
        case IfThenElse():
            where = index_formula(e.condition)
            if where is None or literal(e.else_value) != 0:
                return e, ()
            inner, more = unguarded(e.then_value)
            return inner, (*conjuncts(where), *more)
        case _:
            return e, ()


def _exact(e: Expr) -> Expr | None:
    """Integer arithmetic on variables and sizes, in exact integers."""
    match e:
        case IntImm():
            return IntImm(e.value)
        case Variable():
            return Variable(e.name) if e.dtype == INDEX else None
        case Cast() if e.dtype.is_int:
            return _exact(e.value)
        case Add() | Sub() | Mul() | FloorDiv() | FloorMod() | Min() | Max() if e.dtype.is_int:
            a, b = _exact(e.a), _exact(e.b)
            return None if a is None or b is None else type(e)(a, b)
        case _:
            return None


def reduced(
    conditions: Sequence[Expr],
    ranges: Sequence[IterVar],
    sizes: Collection[str],
    known: Sequence[Expr] = (),
) -> tuple[Expr, ...] | None:
    """The conditions that neither others, nor ranges of variables, nor what is `known` of sizes imply; None:
    they never all hold.

    A negated conjunction loses the parts that hold anyway.
    """
    facts = [*within(ranges), *known]
    kept = list(dict.fromkeys(p for c in conditions for p in conjuncts(c) if p != TRUE))
    # Among too many facts the solver misses what needs none.
    if implied(FALSE, kept, sizes) or implied(FALSE, [*facts, *kept], sizes):
        return None
    for c in list(kept):
        others = [x for x in kept if x is not c]
        # A bound that follows only from conditions on more variables stays: it is what shows the reader, and
        # range inference, that a subscript is in bounds.
        own = variables(c)
        if implied(c, [*facts, *(x for x in others if variables(x) <= own)], sizes):
            kept = others
            continue
        if isinstance(c, Not) and isinstance(c.a, And):
            given = [*facts, *others]
            left = [p for p in conjuncts(c.a) if not implied(p, given, sizes)]
            kept[kept.index(c)] = next(conjuncts(Not(conjunction(left))))
    return tuple(kept)


def within(ranges: Sequence[IterVar]) -> list[Expr]:
    """That variables are in their ranges."""
    return [c for v in ranges for c in (GE(Variable(v.name), v.range.min), LT(Variable(v.name), v.range.end))]
