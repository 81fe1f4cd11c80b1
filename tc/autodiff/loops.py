"""Sequential loops around the definitions of a tape.

Definitions with the same loops that follow each other are in one block; no two loops of a tape have the same
name and direction.  A counter counts from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tc.errors import SemanticError
from tc.ir.expr import (
    GE,
    INDEX,
    LT,
    ONE,
    ZERO,
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Variable,
    variables,
)
from tc.ir.printer import text
from tc.ir.program import Domain, IterVar, Range
from tc.ir.simplify import linear_terms, simplify


@dataclass(frozen=True, slots=True)
class Loop:
    """`name` counts from 0 to `trips` (exclusive), or `down` from `trips - 1` to 0."""

    name: str
    trips: Expr
    down: bool = False

    @property
    def at(self) -> Variable:
        return Variable(self.name, INDEX)


def counters(loops: Sequence[Loop]) -> tuple[Expr, ...]:
    return tuple(loop.at for loop in loops)


def ranges(loops: Sequence[Loop], around: Sequence[Loop] = ()) -> tuple[Range, ...]:
    """The ranges of counters, independent of each other: those of all iterations of loops around, of which
    `around` come first."""
    return tuple(Range(ZERO, hull(loop.trips, (*around, *loops[:k]))) for k, loop in enumerate(loops))


def hull(e: Expr, around: Sequence[Loop], least: bool = False) -> Expr:
    """A bound of an expression in all iterations of loops: not less than its greatest value there, or not
    greater than its `least`.  It is exact where counters are in it once each."""
    found = simplify(e, exact=True)
    for loop in reversed(around):
        found = simplify(_bound(found, loop, not least), exact=True)
    return found


def _bound(e: Expr, loop: Loop, upper: bool) -> Expr:
    if loop.name not in variables(e):
        return e
    match e:
        case Variable():
            return Sub(loop.trips, ONE) if upper else ZERO
        case Min() | Max():
            return type(e)(_bound(e.a, loop, upper), _bound(e.b, loop, upper))
        case FloorDiv(b=IntImm(value=n)):
            return FloorDiv(_bound(e.a, loop, upper == (n > 0)), e.b)
        case FloorMod(b=IntImm(value=n)):
            return IntImm((n - 1 if n > 0 else 0) if upper else (0 if n > 0 else n + 1))
        case Add() | Sub() | Mul(b=IntImm()) | Mul(a=IntImm()):
            terms, offset = linear_terms(e)
            bounds = {t: _bound(t, loop, upper == (c > 0)) for t, c in terms.items()}
            total: Expr = IntImm(offset)
            for t, c in terms.items():
                total = Add(total, Mul(IntImm(c), bounds[t]))
            return total
        case _:
            raise SemanticError(
                f"how '{loop.name}' decides {text(e)} is beyond the gradient of a loop",
                code="TC0242",
                help="write the backward loop yourself, and pass it as backward=",
            )


def boxed(domain: Domain, loops: Sequence[Loop]) -> Domain:
    """A domain whose ranges do not name the counters of `loops`: these cut it by conditions."""
    names = {loop.name for loop in loops}
    made: list[IterVar] = []
    conditions: list[Expr] = []
    for v in domain.vars:
        low, end = v.range.min, v.range.end
        if not (variables(low) | variables(end)) & names:
            made.append(v)
            continue
        first, last = hull(low, loops, least=True), hull(simplify(end, exact=True), loops)
        made.append(replace(v, range=Range(first, simplify(Sub(last, first), exact=True))))
        conditions += [GE(Variable(v.name), low), LT(Variable(v.name), simplify(end, exact=True))]
    return Domain(tuple(made), (*domain.conditions, *conditions))


def as_variables(
    loops: Sequence[Loop], around: Sequence[Loop]
) -> tuple[tuple[IterVar, ...], tuple[Expr, ...]]:
    """Counters of loops as variables of a domain, and the conditions under which they are an iteration."""
    found = tuple(
        IterVar(loop.name, r, "reduction") for loop, r in zip(loops, ranges(loops, around), strict=True)
    )
    own = tuple(
        LT(loop.at, loop.trips)
        for loop, v in zip(loops, found, strict=True)
        if simplify(loop.trips, exact=True) != simplify(v.range.extent, exact=True)
    )
    return found, own


def facts(loops: Sequence[Loop]) -> tuple[Expr, ...]:
    """What holds of counters in an iteration."""
    return tuple(c for loop in loops for c in (GE(loop.at, ZERO), LT(loop.at, loop.trips)))


def reverse(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    return tuple(Loop(loop.name, loop.trips, not loop.down) for loop in loops)


def following(at: Expr) -> Expr:
    """The iteration after one."""
    return simplify(Add(at, ONE), exact=True)
