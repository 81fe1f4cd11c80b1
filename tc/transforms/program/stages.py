"""Stages with other values of variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tc.ir.expr import Expr, Sub, substitute
from tc.ir.program import Domain, Range, Stage
from tc.ir.simplify import simplify


def stage_at(s: Stage, values: Mapping[str, Expr]) -> Stage:
    """A stage of which variables have other values, in all of its parts but its loops."""

    def of(e: Expr) -> Expr:
        return simplify(substitute(e, dict(values)), exact=True)

    ranges = (replace(v, range=Range(of(v.range.min), of(v.range.extent))) for v in s.domain.vars)
    return replace(
        s,
        args=tuple(map(of, s.args)),
        value=substitute(s.value, dict(values)),
        domain=Domain(tuple(ranges), tuple(map(of, s.domain.conditions))),
    )


def range_between(low: Expr, end: Expr) -> Range:
    """The range from `low` on, before `end`."""
    low = simplify(low, exact=True)
    return Range(low, simplify(Sub(end, low), exact=True))
