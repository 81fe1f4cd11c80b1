"""Axes along which accesses are contiguous, a stride of one element."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tc.ir.expr import Variable, inline_lets, variables
from tc.ir.simplify import linear_terms
from tc.poly.scop import Access, Scop
from tc.poly.tile_plan import Axis, Nest


def contiguous_axis(scop: Scop, nest: Nest, statements: Sequence[str] | None = None) -> Axis | None:
    """The axis along which most of the elements that statements access are contiguous."""
    votes: dict[str, int] = {}
    axes = (*nest.axes, *(a for p in nest.phases for a in p.axes))
    for name in nest.statements if statements is None else statements:
        extents = {a.vars[name]: a.typical_extent for a in axes if name in a.vars}
        for access in scop.statement(name).accesses:
            used = {v for e in access.subscripts for v in variables(inline_lets(e))}
            elements = math.prod(n for v, n in extents.items() if v in used)
            found = _contiguous_variables(access)
            for a in axes:
                if a.vars.get(name) in found:
                    votes[a.name] = votes.get(a.name, 0) + elements
    if not votes:
        return None
    best = max(votes, key=votes.__getitem__)
    return next(a for a in axes if a.name == best)


def is_contiguous_along(access: Access, variable: str | None) -> bool:
    """Whether an access is contiguous along a variable."""
    return variable in _contiguous_variables(access)


def _contiguous_variables(access: Access) -> set[str]:
    """The variables along which an access is contiguous."""
    if not access.subscripts:
        return set()
    terms, _ = linear_terms(inline_lets(access.subscripts[-1]))
    return {e.name for e, k in terms.items() if isinstance(e, Variable) and abs(k) == 1}
