"""Double buffering: asynchronous copies to shared memory one tile ahead (NVIDIA from Ampere on).

A footprint has two buffers in turn: while threads compute on one tile, the next one is copied.  One barrier a
tile is enough: it ensures that the copies are complete, and that no thread still uses the tile before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tc.ir.expr import IntImm, variables
from tc.poly.gpu.coordinates import of_statement, relation
from tc.poly.gpu.mapping import AxisMap, Unit, bounded, isolated, several
from tc.poly.gpu.shared import Shared, size_of
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis

_SIZES = (4, 8, 16)  # bytes that can be copied asynchronously


def with_double_buffers(
    scop: Scop, unit: Unit, shared_reads: Sequence[Shared], budget: int
) -> tuple[Shared, ...]:
    """The reads of a unit from shared memory, those whose footprints move along the unit's loop over tiles
    with two buffers.

    That needs one such loop, with the same tiles for all points of a block, and `budget` bytes for all
    copies.
    """
    # If tiles are distributed over blocks, the next tile is another block's.
    if len(unit.looped) != 1 or unit.looped[0][1].block is not None:
        return tuple(shared_reads)
    ((axis, m),) = unit.looped
    moving = [x for x in shared_reads if axis.name in x.moves]
    if (
        not moving
        or not all(_steady(scop, unit, s, axis, m) for s in unit.statements)
        or axis.size is not None
        or axis.first is not None
    ):
        return tuple(shared_reads)
    if any(x.indirect is not None or x.buffer.dtype.itemsize * x.rows.width not in _SIZES for x in moving):
        return tuple(shared_reads)
    indices = {x.indirect.index.array.name for x in shared_reads if x.indirect is not None}
    if indices & {x.array.name for x in moving}:
        return tuple(shared_reads)
    if sum({x.array.name: x.bytes for x in shared_reads}.values()) + _more(moving) > budget:
        return tuple(shared_reads)
    return tuple(_double_buffered(x, axis.name) if x in moving else x for x in shared_reads)


def _steady(scop: Scop, unit: Unit, statement: str, axis: Axis, m: AxisMap) -> bool:
    """Whether the tiles of a loop in which a statement has instances are consecutive."""
    if not bounded(scop, unit, statement) and not isolated(scop, unit, statement):
        return False
    s = scop.statement(statement)
    if not any(axis.vars.get(statement) in variables(c) for c in s.stage.domain.conditions):
        return True
    t = of_statement(scop, statement, (a for a, _ in (*unit.axes, *unit.own)))
    outer = [t.tile(a, n) for a, n in unit.axes if several(a, n) and statement in a.vars]
    run = relation(scop.ctx, t, [*outer, t.tile(axis, m)], "tiles").intersect_domain(s.domain).range()
    names = [f"d{i}" for i in range(len(outer))]
    between = isl.Map.read_from_str(
        scop.ctx,
        f"{{ tiles[{', '.join([*names, 'q'])}] -> tiles[{', '.join([*names, 'r'])}] : q <= r }}",
    )
    return run.apply(between).intersect(run.apply(between.reverse())).is_subset(run)


def _more(moving: Sequence[Shared]) -> int:
    return sum({x.array.name: size_of(x.array) for x in moving}.values())


def _double_buffered(x: Shared, axis: str) -> Shared:
    return replace(x, array=replace(x.array, shape=(IntImm(2), *x.array.shape)), alternates_over=axis)
