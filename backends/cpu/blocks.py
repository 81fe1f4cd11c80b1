"""Blocks of deep reductions, of which packs hold one at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tc.poly.plan import Nest, Phase, PhaseTile, Tile

from .machine import Machine
from .work import Ref

_DEPTH = 1024  # points of a block of a deep reduction, about
_WIDTH = 4  # vectors


def packed_depth(nest: Nest, packed: Sequence[Ref], phases: Sequence[PhaseTile]) -> int:
    """Points of a reduction in a pack, at most."""
    inner = {a.name: a.extent for p in nest.phases for a in p.axes}
    inner |= {p.axes[0].name: t.block for p, t in zip(nest.phases, phases, strict=True) if t.block}
    return max(math.prod(inner[a] for a in r.strides if a in inner and r.strides[a]) for r in packed)


def too_deep(depth: int, packed: Sequence[Ref], vector: str, lanes: Tile, machine: Machine) -> bool:
    """Whether the packs of a register tile take more than a quarter of the second cache; where neighbours are
    packed, those of four vectors, as less than that of a row is slow to read."""
    width = lanes.register
    if any(r.strides.get(vector, 0) == 1 for r in packed):
        width = max(width, _WIDTH * lanes.lanes)
    return depth * width * max(r.itemsize for r in packed) > machine.l2 // 4


def blocks_of(nest: Nest, phases: Sequence[PhaseTile], packed: Sequence[Ref]) -> tuple[PhaseTile, ...]:
    """Blocks of the outermost loop of a deep reduction, of about a thousand points with the loops inside."""
    depth = packed_depth(nest, packed, phases)

    def blocked(p: Phase, t: PhaseTile) -> PhaseTile:
        moved = [r for r in packed if r.statement in p.statements]
        if not p.axes or not moved or not all(r.strides.get(p.axes[0].name, 0) for r in moved):
            return t
        extent = p.axes[0].extent
        inside = math.prod(a.extent for a in p.axes[1:])
        if extent * inside < depth or extent == 1:
            return t
        points = math.ceil(extent / math.ceil(extent * inside / _DEPTH))
        return replace(t, block=math.ceil(points / 16) * 16 if inside == 1 else points)

    return tuple(blocked(p, t) for p, t in zip(nest.phases, phases, strict=True))
