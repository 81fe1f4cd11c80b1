"""Conditions on an iteration domain that are ranges of one of its variables: `i in 0:N` where `i >= 3` is
`i in 3:N`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tc.ir.expr import (
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
    Sub,
    Variable,
    substitute,
    variables,
)
from tc.ir.program import Domain, IterVar, Range
from tc.ir.simplify import linear_terms, simplify

# What is left of conditions, and of what is known besides; None: they never hold.
Reduced = Callable[[Sequence[Expr], Sequence[IterVar]], "tuple[Expr, ...] | None"]


def cut(domain: Domain, left: Reduced, may_be_empty: bool = False) -> Domain:
    """The domain with ranges for those of its conditions that bound one variable by what is the same in all
    iterations.  `may_be_empty`: sizes can leave a range no points; it ends where it begins then, inside of
    the range that it had."""
    ranges = {v.name: (v.range.min, simplify(v.range.end, exact=True)) for v in domain.vars}
    others: list[Expr] = []
    cut_first: set[str] = set()
    cut_last: set[str] = set()
    for c in domain.conditions:
        found = _bound(c, ranges) if c != TRUE else None
        if found is None:
            others += [c] if c != TRUE else []
            continue
        name, low, end = found
        first, last = ranges[name]
        if low is not None:
            first = _larger(low, first, left)
            cut_first.add(name)
        if end is not None:
            last = _smaller(end, last, left)
            cut_last.add(name)
        ranges[name] = first, last
    made: list[IterVar] = []
    for v in domain.vars:
        first, last = ranges[v.name]
        if may_be_empty and v.name in cut_last:
            last = _larger(last, v.range.min, left)
        if may_be_empty and v.name in cut_first:
            first = _smaller(first, last, left)
        made.append(replace(v, range=Range(first, simplify(Sub(last, first), exact=True))))
    return Domain(tuple(made), tuple(others))


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
    if isinstance(b, Min):  # of min(a, b, c) those that may be the least
        rest = [x for x in (b.a, b.b) if left([LT(x, a)], ()) is not None]
        b = Min(*rest) if len(rest) == 2 else rest[0] if rest else a
    if left([LT(b, a)], ()) is None:
        return a
    return b if left([LT(a, b)], ()) is None else Min(a, b)
