"""How large packs are: the depth and the width of what a cache tile copies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tc.poly.plan import Nest, PhaseTile

from ..machine import Machine
from .balance import TASKS, even_width
from .register_tile import Candidate, along_lanes
from .work import Ref, Work


def packed_depth(nest: Nest, packed: Sequence[Ref], phases: Sequence[PhaseTile]) -> int:
    """Points of a reduction in a pack, at most."""
    inner = {a.name: a.extent for p in nest.phases for a in p.axes}
    inner |= {p.axes[0].name: t.block for p, t in zip(nest.phases, phases, strict=True) if t.block}
    return max(math.prod(inner[a] for a in r.strides if a in inner and r.strides[a]) for r in packed)


def row_axis(work: Mapping[str, Work], c: Candidate) -> str | None:
    """The axis along which a factor is packed that all lanes share."""
    vector = along_lanes(c.tiles) or ""
    packed = [r for w in work.values() for r in w.refs if (r.statement, r.read) in c.packs]
    found = (n for r in packed if not r.strides.get(vector, 0) for n in c.tiles if r.strides.get(n, 0) == 1)
    return next(found, None)


def packed_columns(register: int, each: int, machine: Machine) -> int:
    """Points along the lanes, of so many bytes `each`, of which half of the second cache holds packs."""
    return max(register, machine.l2 // 2 // each // register * register)


def packed_bytes(nest: Nest, packed: Sequence[Ref], phases: Sequence[PhaseTile]) -> int:
    """Bytes of a pack for each point along the lanes, or of a row axis, at most."""
    return packed_depth(nest, packed, phases) * max(r.wide for r in packed)


def row_share(extent: int, register: int, each: int, machine: Machine) -> int:
    """The points of a row axis, of so many bytes `each`, that a cache tile has: an equal part for each
    processor, as many as three eighths of the second cache hold packs of."""
    most = max(1, 3 * machine.l2 // 8 // (each * register)) * register
    parts = -(-extent // (most * machine.cores)) * machine.cores
    return min(extent, -(-extent // (parts * register)) * register)


def packed_width(
    nest: Nest,
    packed: Sequence[Ref],
    c: Candidate,
    order: Sequence[str],
    shared: bool,
    machine: Machine,
    row: str | None = None,
) -> int:
    """Points along the lanes that there are packs for at a time: half of the second cache holds them, and if
    processors share the loops of `order`, there are enough for all, with about as much for each."""
    vector = along_lanes(c.tiles)
    assert vector is not None
    extents = {a.name: a.extent for a in nest.axes}
    register = c.tiles[vector].register
    each = packed_bytes(nest, packed, c.phases)
    width = packed_columns(register, each, machine)
    others = math.prod(
        math.ceil(extents[n] / (c.tiles[n].cache if n == row else c.tiles[n].register))
        for n in order
        if n != vector and any(r.strides.get(n, 0) for r in packed)
    )
    if not shared:
        return min(width, -(-extents[vector] // register) * register)
    fewest = max(-(-extents[vector] // width), 2 * machine.cores // others, 1)
    parts = range(fewest, max(fewest, TASKS * machine.cores // others) + 1)
    return even_width(extents[vector], register, parts, others, machine.cores)
