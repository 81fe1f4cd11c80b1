"""Contributions to an adjoint that are parts of it: a definition each, in place of one that masks them all.

The gates of a recurrent cell read the quarters of a row, a concatenation the halves of a tensor:

    d_a(j) = (j < H ? p : 0) + (H <= j && j < 2*H ? q : 0)
    d_a(j) = 0 where j in 0:G    d_a(j) = p where j in 0:H    d_a(j) = q where j in H:2*H
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tc.autodiff.contributions import Term, added_up
from tc.autodiff.cut_ranges import cut
from tc.autodiff.index_conditions import conjunction, reduced
from tc.ir.expr import (
    EQ,
    GE,
    LT,
    Expr,
    Not,
    Variable,
)
from tc.ir.program import Box, IterVar
from tc.ir.simplify import simplify


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
        domain = cut(t.domain, left, may_be_empty=True)
        if domain.conditions:
            return None
        t = replace(t, domain=domain)
        found.setdefault(_elements(t), []).append(t)
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
