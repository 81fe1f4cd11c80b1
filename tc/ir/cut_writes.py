"""Statements whose writes only their conditions keep inside the tensor: `y(i - 1) += x(i) where i >= 1`.

Such a statement iterates over the coordinates of the tensor instead.  The ends of its own range become
conditions.  No later pass meets a write outside the tensor, at whatever part of a box it computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import Box, Domain, IterVar, Stage
from tc.ir.simplify import simplify


def over_coordinates(
    stage: Stage, box: Box, offsets: Mapping[int, Expr | None]
) -> tuple[Stage, Mapping[str, Expr]]:
    """The stage with the variables of some dimensions replaced by the tensor's coordinates there, and these
    variables in terms of the new ones.

    `offsets`: for each dimension the amount that is added to its variable, None for no change.
    """
    axes = {v.name: v for v in stage.domain.vars}
    at: dict[str, Expr] = {}
    conditions: list[Expr] = []
    places: dict[int, Expr] = {}
    for d, offset in offsets.items():
        own = next(v for v in axes.values() if v.name in x.variables(stage.args[d]))
        place = x.Variable(own.name)
        low = own.range.min if offset is None else simplify(x.Add(own.range.min, offset), exact=True)
        conditions += [x.GE(place, low), x.LT(place, simplify(x.Add(low, own.range.extent), exact=True))]
        at[own.name] = place if offset is None else x.Sub(place, offset)
        axes[own.name] = IterVar(own.name, box[d], own.kind)
        places[d] = place
    kept = tuple(simplify(x.substitute(c, at), exact=True) for c in stage.domain.conditions)
    domain = Domain(tuple(axes.values()), (*conditions, *kept))
    args = tuple(places.get(d, x.substitute(a, at)) for d, a in enumerate(stage.args))
    return replace(stage, args=args, value=x.substitute(stage.value, at), domain=domain), at
