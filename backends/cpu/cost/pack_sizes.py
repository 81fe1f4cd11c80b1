"""The sizes of packs: the depth and the width of the copy that a cache tile fills (Goto and van de Geijn,
2008)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tc.poly.tile_plan import Nest, PhaseTile

from ..target import Machine
from .balance import TASKS_PER_CORE, even_width
from .register_tile import Candidate, lane_axis
from .work import NestContext, Ref, Work

_ROW_BYTES = 256  # bytes of a row that a pack takes along axes without lanes


def pack_depth(nest: Nest, packed: Sequence[Ref], phases: Sequence[PhaseTile]) -> int:
    """Points of the reduction in a pack, at most."""
    inner = {a.name: a.typical_extent for p in nest.phases for a in p.axes}
    inner |= {p.axes[0].name: t.block for p, t in zip(nest.phases, phases, strict=True) if t.block}
    return max(math.prod(inner[a] for a in r.strides if a in inner and r.strides[a]) for r in packed)


def row_axis(work: Mapping[str, Work], c: Candidate) -> str | None:
    """The axis along which a factor that all lanes share is packed; None where none is."""
    vector = lane_axis(c.tiles) or ""
    packed = [r for w in work.values() for r in w.refs if (r.statement, r.read) in c.packs]
    found = (n for r in packed if not r.strides.get(vector, 0) for n in c.tiles if r.strides.get(n, 0) == 1)
    return next(found, None)


def pack_columns(register: int, each: int, machine: Machine) -> int:
    """Points along the lanes, of `each` bytes, whose packs fill half of the second cache; a whole number of
    register tiles."""
    return max(register, machine.l2 // 2 // each // register * register)


def pack_bytes(nest: Nest, packed: Sequence[Ref], phases: Sequence[PhaseTile]) -> int:
    """Bytes of a pack for each point along the lanes, or of a row axis, at most."""
    return pack_depth(nest, packed, phases) * max(r.pack_itemsize for r in packed)


def row_tile(extent: int, register: int, each: int, machine: Machine) -> int:
    """The points of a row axis, of `each` bytes, in a cache tile: an equal part for each core, with packs in
    at most three eighths of the second cache."""
    most = max(1, 3 * machine.l2 // 8 // (each * register)) * register
    parts = -(-extent // (most * machine.cores)) * machine.cores
    return min(extent, -(-extent // (parts * register)) * register)


def row_tiles(
    nest: Nest, packed: Sequence[Ref], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> dict[str, int]:
    """Points of a cache tile along axes that are contiguous in a packed array beyond the second cache, though
    neither lanes nor a reduction run along them.

    If each pack took one element of a line, the line would be fetched again for each of the next packs.  So a
    pack takes some lines of each row, as far as a quarter of the second cache has room.
    """
    vector = lane_axis(c.tiles) or ""
    out: dict[str, int] = {}
    inner = {a.name: a.typical_extent for p in nest.phases for a in p.axes}
    dynamic = {a.name for a in nest.axes if a.size is not None}
    for r in packed:
        if r.strides.get(vector, 0) in (0, 1) or r.elements * r.itemsize <= machine.l2:
            continue
        size = pack_bytes(nest, [r], c.phases) * c.tiles[vector].register
        size *= math.prod(
            out.get(n, t.register) for n, t in c.tiles.items() if n != vector and r.strides.get(n, 0)
        )
        run = 1  # elements of a row, so far
        for n, stride in sorted(r.strides.items(), key=lambda x: abs(x[1])):
            if not stride:
                continue
            if abs(stride) != run or n == vector or n in dynamic or run * r.itemsize >= _ROW_BYTES:
                break
            if n in inner:
                run *= inner[n]
                continue
            step, have = c.tiles[n].register, out.get(n, c.tiles[n].register)
            most = min(_ROW_BYTES // (run * r.itemsize), machine.l2 // 4 * have // size)
            points = max(have, most // step * step)
            if points >= extents[n]:
                points = -(-extents[n] // step) * step
            size = size // have * points
            out[n] = points
            run *= extents[n] if points >= extents[n] else _ROW_BYTES
    return {n: points for n, points in out.items() if points > c.tiles[n].register}


def pack_width(
    context: NestContext,
    packed: Sequence[Ref],
    c: Candidate,
    order: Sequence[str],
    *,
    shared: bool,
    row: str | None = None,
) -> int:
    """Points along the lanes for which packs exist at a time.

    Half of the second cache holds the packs.  If cores share the loops of `order` (`shared`), there are packs
    enough for all cores, with about as much for each.
    """
    nest, machine = context.nest, context.machine
    vector = lane_axis(c.tiles)
    assert vector is not None
    extents = {a.name: a.typical_extent for a in nest.axes}
    register = c.tiles[vector].register
    rows = row_tiles(nest, packed, c, extents, machine)
    each = pack_bytes(nest, packed, c.phases) * math.prod(rows.values())
    width = pack_columns(register, each, machine)
    others = math.prod(
        math.ceil(extents[n] / (c.tiles[n].cache if n == row else rows.get(n, c.tiles[n].register)))
        for n in order
        if n != vector and any(r.strides.get(n, 0) for r in packed)
    )
    if not shared:
        return min(width, -(-extents[vector] // register) * register)
    fewest = max(-(-extents[vector] // width), 2 * machine.cores // others, 1)
    parts = range(fewest, max(fewest, TASKS_PER_CORE * machine.cores // others) + 1)
    return even_width(extents[vector], register, parts, others, machine.cores)
