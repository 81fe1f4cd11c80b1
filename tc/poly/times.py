"""When the instances of a program with sequential loops run.

A time is a vector of positions and counters in turn: the position of a statement, or of its loop, in the
block that holds it, then the counter of that loop, and so on, padded with zeros.  Times are in lexicographic
order.  Instances of one statement in one iteration of all loops around it have the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tc.ir.program import Stage
from tc.poly.affine import OUT, SET
from tc.poly.scop import Scop, Statement
from tc.transforms.program.segments import positions


def execution_times(scop: Scop, stages: Sequence[Stage]) -> Mapping[str, isl.Map]:
    """For each statement the map from its instances to their times.  `scop` has the counters of loops as the
    first variables of its domains (`tc.transforms.program.segments.in_domains`); `stages` are its stages with
    their loops."""
    depth = max((len(s.loops) for s in stages), default=0)
    return {
        s.name: _times(s, place, stage, depth)
        for s, place, stage in zip(scop.statements, positions(stages), stages, strict=True)
    }


def _times(s: Statement, place: tuple[int, ...], stage: Stage, depth: int) -> isl.Map:
    space = s.domain.get_space()
    local = isl.LocalSpace.from_space(space)
    zero = isl.Aff.zero_on_domain(local)
    affs = zero.set_constant_val(place[0]).to_list()
    for d in range(depth):
        if d < len(stage.loops):
            affs = affs.add(isl.Aff.var_on_domain(local, SET, d)).add(zero.set_constant_val(place[d + 1]))
        else:
            affs = affs.add(zero).add(zero)
    out = space.from_domain().add_dims(OUT, 2 * depth + 1)
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(out, affs)).intersect_domain(s.domain)
