"""Values without what the ranges of their variables settle: conditions on indices that hold at all points, or
at none, and the remainders, minima and maxima of boundary modes along dimensions that stay inside."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tc.autodiff.index_conditions import conjunction, conjuncts, implied, index_formula, within
from tc.autodiff.loops import Loop, facts
from tc.ir.expr import (
    GE,
    LE,
    LT,
    Add,
    And,
    Expr,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Not,
    Sub,
    rebuild,
    walk,
)
from tc.ir.program import Domain


def settled(e: Expr, domain: Domain, sizes: Collection[str], loops: Sequence[Loop] = ()) -> Expr:
    """An expression that is equal in a domain within sequential loops."""
    if not any(isinstance(x, IfThenElse | FloorMod | Min | Max) for x in walk(e)):
        return e
    conditions = [f for c in domain.conditions if (f := index_formula(c)) is not None]
    counted = (*sizes, *(loop.name for loop in loops))
    return _settled(e, [*within(domain.vars), *conditions, *facts(loops)], counted)


def _settled(e: Expr, facts: Sequence[Expr], sizes: Collection[str]) -> Expr:
    if isinstance(e, IfThenElse):
        return _choice(e, facts, sizes)
    e = rebuild(e, lambda c: _settled(c, facts, sizes))
    if not isinstance(e, FloorMod | Min | Max) or not e.dtype.is_int:
        return e

    def always(condition: Expr) -> bool:
        formula = index_formula(condition)
        return formula is not None and implied(formula, facts, sizes)

    if isinstance(e, FloorMod):
        zero = IntImm(0, e.dtype)
        if always(And(GE(e.a, zero), LT(e.a, e.b))):
            return e.a
        for beside in (Add(e.a, e.b), Sub(e.a, e.b)):
            if always(And(GE(beside, zero), LT(beside, e.b))):
                return beside
        return e
    first, second = (e.a, e.b) if isinstance(e, Min) else (e.b, e.a)
    if always(LE(first, second)):
        return e.a
    return e.b if always(LE(second, first)) else e


def _choice(e: IfThenElse, facts: Sequence[Expr], sizes: Collection[str]) -> Expr:
    """A choice by what is left of its condition, each value settled where the condition holds, or not."""
    left: list[Expr] = []
    formulas: list[Expr] = []
    for part in conjuncts(e.condition):
        formula = index_formula(part)
        if formula is None:
            left.append(_settled(part, facts, sizes))
            continue
        given = [*facts, *formulas]
        if implied(Not(formula), given, sizes):
            return _settled(e.else_value, facts, sizes)
        if not implied(formula, given, sizes):
            left.append(part)
            formulas.append(formula)
    then = _settled(e.then_value, [*facts, *formulas], sizes)
    if not left:
        return then
    otherwise = facts
    if len(left) == len(formulas):
        otherwise = [*facts, Not(conjunction(formulas))]
    return IfThenElse(conjunction(left), then, _settled(e.else_value, otherwise, sizes))
