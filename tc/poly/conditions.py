"""Conditions, minima and maxima over iteration variables that a statement's iteration domain decides.

A read with a boundary mode compares each of its subscripts with both ends of the tensor, though most
subscripts are iteration variables with exactly that range.  A body that is inlined into another statement
keeps the tests of its own range. isl decides which comparisons hold at all points where they are evaluated,
and which at none: these points are the ones of the iteration domain at which the conditions around the
comparison have the values that lead to it.

A remaining comparison that is no sum of variables (it contains a let or a quotient) is replaced by
comparisons of sums, if isl finds such a form: `(h + 1) / 2 - 1 >= 0` is `h >= 1`.  Loop unswitching needs
this form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import islpy as isl

from tc.ir.expr import (
    EQ,
    FALSE,
    GE,
    GT,
    LE,
    LT,
    NE,
    TRUE,
    ZERO,
    And,
    Compare,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Let,
    Max,
    Min,
    Not,
    Or,
    Select,
    UIntImm,
    Variable,
    children,
    inline_lets,
    rebuild,
    variables,
    walk,
)
from tc.ir.program import Program, Stage
from tc.ir.simplify import conjunction, from_terms, is_pure, simplify
from tc.poly.affine import PARAM, SET, Affine
from tc.poly.context import GaveUp, given_up_after, isl_context
from tc.poly.scop import Domains

_OPERATIONS = (
    1_000_000  # operations of isl for one statement; a statement that needs more keeps its conditions
)
_MOST = 2  # comparisons that replace one, at most

_Lets = Mapping[str, Expr]


def decide(program: Program) -> Program:
    """`program` without conditions, minima and maxima in values that hold at all points where they are
    evaluated, or at none."""
    chosen = [s for s in program.stages if _undecided(s)]
    if not chosen:
        return program
    with isl_context():
        domains = Domains.of(program)
        stages = tuple(_decided(s, domains) if s in chosen else s for s in program.stages)
    return program if stages == program.stages else replace(program, stages=stages)


def _undecided(s: Stage) -> bool:
    return any(isinstance(e, IfThenElse | Select | Min | Max) and _of_integers(e) for e in walk(s.value))


def _of_integers(e: IfThenElse | Select | Min | Max) -> bool:
    if isinstance(e, Min | Max):
        return e.dtype.is_int
    return any(isinstance(c, Compare) and c.a.dtype.is_int for c in walk(e.condition))


def _decided(s: Stage, domains: Domains) -> Stage:
    affine, where, _ = domains.of_stage(s)
    try:
        with given_up_after(_OPERATIONS):
            value = _Decider(affine, where.coalesce()).value(s.value, {}, where)
    except GaveUp:
        return s
    return s if value == s.value else replace(s, value=value)


@dataclass(frozen=True, slots=True)
class _Decider:
    """`affine` turns expressions over the variables of `domain` into sets."""

    affine: Affine
    domain: isl.Set

    def value(self, e: Expr, lets: _Lets, where: isl.Set) -> Expr:
        """An expression that is evaluated at the points `where`."""
        match e:
            case Let():
                value = self.value(e.value, lets, where)
                inner = {**lets, e.name: inline_lets(value, dict(lets))}
                body = self.value(e.body, inner, where)
                if e.name not in variables(body) and is_pure(value):  # only conditions read it
                    return body
                return replace(e, value=value, body=body)
            case IfThenElse():
                condition = self.condition(e.condition, lets, where)
                then = self.value(e.then_value, lets, self.cut(where, condition, True, lets))
                otherwise = self.value(e.else_value, lets, self.cut(where, condition, False, lets))
                if isinstance(condition, UIntImm):
                    return then if condition.value else otherwise
                return IfThenElse(condition, then, otherwise)
            case Select():
                condition = self.condition(e.condition, lets, where)
                then, otherwise = (
                    self.value(e.true_value, lets, where),
                    self.value(e.false_value, lets, where),
                )
                if isinstance(condition, UIntImm):
                    kept, dropped = (then, otherwise) if condition.value else (otherwise, then)
                    if is_pure(dropped):
                        return kept
                return Select(condition, then, otherwise)
            case Min() | Max() if e.dtype.is_int:
                a, b = self.value(e.a, lets, where), self.value(e.b, lets, where)
                order = self.decided(LE(a, b) if isinstance(e, Min) else GE(a, b), lets, where)
                if order in (TRUE, FALSE) and is_pure(e):
                    return a if order == TRUE else b
                return replace(e, a=a, b=b)
            case _ if e.dtype.is_bool and children(e):
                return self.condition(e, lets, where)
            case _:
                return rebuild(e, lambda c: self.value(c, lets, where))

    def condition(self, e: Expr, lets: _Lets, where: isl.Set) -> Expr:
        """A condition that is evaluated at the points `where`."""
        match e:
            case And() | Or():
                a = self.condition(e.a, lets, where)
                b = self.condition(e.b, lets, self.cut(where, a, isinstance(e, And), lets))
                return simplify(replace(e, a=a, b=b))
            case Not():
                return simplify(Not(self.condition(e.a, lets, where)))
            case LT() | LE() | GT() | GE() | EQ() | NE() if e.a.dtype.is_int and not e.a.dtype.is_bool:
                return self.decided(e, lets, where)
            case _ if children(e):
                return rebuild(e, lambda c: self.value(c, lets, where))
            case _:
                return e

    def cut(self, where: isl.Set, condition: Expr, value: bool, lets: _Lets) -> isl.Set:
        """The points at which a condition may have a value."""
        found, _ = self.affine.holds(inline_lets(condition, dict(lets)), value)
        return where.intersect(found)

    def decided(self, e: Compare, lets: _Lets, where: isl.Set) -> Expr:
        """A comparison, or the constant or the simpler condition that equals it at all the points `where`."""
        plain = inline_lets(e, dict(lets))
        holds, exact = self.affine.holds(plain)
        if not exact:
            return e
        if where.is_subset(holds):
            return TRUE
        if where.is_disjoint(holds):
            return FALSE
        if plain == e and not any(isinstance(x, FloorDiv | FloorMod) for x in walk(e)):
            return e
        return self.as_sums(holds.gist(where)) or e

    def as_sums(self, s: isl.Set) -> Expr | None:
        """A set as comparisons of sums of variables with 0; None if it is more than a few of them."""
        basic = s.coalesce().get_basic_sets()
        if len(basic) != 1 or basic[0].dim(isl.dim_type.div):
            return None
        found = basic[0].get_constraints()
        if not 0 < len(found) <= _MOST:
            return None
        return conjunction([self.comparison(c) for c in found])

    def comparison(self, c: isl.Constraint) -> Expr:
        terms: dict[Expr, int] = {}
        for name, position in self.affine.positions.items():
            terms[Variable(name)] = _number(c.get_coefficient_val(SET, position))
        for position, e in enumerate(self.affine.parameters.values.values()):
            terms[e] = _number(c.get_coefficient_val(PARAM, position))
        total = from_terms({e: k for e, k in terms.items() if k}, _number(c.get_constant_val()))
        return (EQ if c.is_equality() else GE)(total, ZERO)


def _number(v: isl.Val) -> int:
    return int(v.to_python())
