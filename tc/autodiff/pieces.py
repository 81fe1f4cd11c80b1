"""Contributions to an adjoint that are parts of it: a definition each, in place of one that masks them all.

The gates of a recurrent cell read the quarters of a row, a concatenation the halves of a tensor:

    d_a(j) = (j < H ? p : 0) + (H <= j && j < 2*H ? q : 0)
    d_a(j) = 0 where j in 0:G    d_a(j) = p where j in 0:H    d_a(j) = q where j in H:2*H
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tc.autodiff.contributions import Term, added_up
from tc.autodiff.index_conditions import conjunction, reduced
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    ONE,
    TRUE,
    Add,
    Expr,
    IntImm,
    Max,
    Min,
    Not,
    Sub,
    Variable,
    substitute,
    variables,
)
from tc.ir.program import Box, Domain, IterVar, Range
from tc.ir.simplify import linear_terms, simplify

Reduced = Callable[[Sequence[Expr], Sequence[IterVar]], "tuple[Expr, ...] | None"]


def pieces(
    terms: Sequence[Term], box: Box, sizes: Sequence[str], facts: Sequence[Expr]
) -> tuple[list[Term], bool] | None:
    """The terms with ranges for their conditions, if each has only elements that no other has, and whether
    they are all elements of `box`; None if some share elements, or a condition is not of one variable."""

    def left(conditions: Sequence[Expr], ranges: Sequence[IterVar]) -> tuple[Expr, ...] | None:
        return reduced(conditions, ranges, sizes, facts)

    if len(terms) < 2 or any(t.reduces or t.scatters for t in terms):
        return None
    whole = tuple(IterVar(f"{k}", r, "pure") for k, r in enumerate(box))
    found: dict[tuple[Expr, ...], list[Term]] = {}  # by their elements
    for t in terms:
        cut = _cut(t, left)
        if cut is None:
            return None
        found.setdefault(_elements(cut), []).append(cut)
    if len(found) < 2:
        return None
    for k, a in enumerate(found):
        if any(left([*a, *b], whole) is not None for b in list(found)[:k]):
            return None
    covers = left([Not(conjunction(e)) for e in found], whole) is None
    return [added_up(same) for same in found.values()], covers


def _elements(t: Term) -> tuple[Expr, ...]:
    """The conditions under which the element whose coordinates are `0`, `1`, … is one of a term."""
    out: list[Expr] = []
    ranges = {v.name: v.range for v in t.domain.vars}
    for k, a in enumerate(t.args):
        at = Variable(f"{k}")
        if isinstance(a, Variable) and a.name in ranges:
            r = ranges[a.name]
            out += [GE(at, r.min), LT(at, simplify(r.end, exact=True))]
        else:
            out.append(EQ(at, a))
    return tuple(out)


def _cut(t: Term, left: Reduced) -> Term | None:
    """A term whose conditions are ranges of its variables."""
    ranges = {v.name: (v.range.min, simplify(v.range.end, exact=True)) for v in t.domain.vars}
    for c in t.domain.conditions:
        if c == TRUE:
            continue
        found = _bound(c, ranges)
        if found is None:
            return None
        name, low, end = found
        first, last = ranges[name]
        if low is not None:
            first = _larger(low, first, left)
        if end is not None:
            last = _smaller(end, last, left)
        ranges[name] = first, last
    made = tuple(
        replace(v, range=Range(first, simplify(Sub(last, first), exact=True)))
        for v, (first, last) in zip(t.domain.vars, ranges.values(), strict=True)
    )
    return replace(t, domain=Domain(made))


def _bound(c: Expr, ranges: Mapping[str, object]) -> tuple[str, Expr | None, Expr | None] | None:
    """The variable that a condition bounds, from below by a first or from above by an end."""
    if not isinstance(c, (LT, LE, GT, GE)):
        return None
    low, high = (c.a, c.b) if isinstance(c, (LT, LE)) else (c.b, c.a)
    slack = Sub(high, low) if isinstance(c, (LE, GE)) else Sub(Sub(high, low), ONE)  # at least 0
    terms, _ = linear_terms(slack)
    own = [t for t in terms if isinstance(t, Variable) and t.name in ranges and terms[t]]
    if len(own) != 1 or any(variables(t) & ranges.keys() for t in terms if t not in own):
        return None
    (v,) = own
    if abs(terms[v]) != 1:
        return None
    rest = simplify(substitute(slack, {v.name: IntImm(0)}), exact=True)
    if terms[v] == 1:
        return v.name, simplify(Sub(IntImm(0), rest), exact=True), None
    return v.name, None, simplify(Add(rest, ONE), exact=True)


def _larger(a: Expr, b: Expr, left: Reduced) -> Expr:
    if left([LT(a, b)], ()) is None:
        return a
    return b if left([LT(b, a)], ()) is None else Max(a, b)


def _smaller(a: Expr, b: Expr, left: Reduced) -> Expr:
    if left([LT(b, a)], ()) is None:
        return a
    return b if left([LT(a, b)], ()) is None else Min(a, b)
