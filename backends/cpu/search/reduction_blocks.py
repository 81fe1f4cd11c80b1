"""Blocking of reductions: the outermost loop of a reduction runs block by block, each over a whole cache
tile.

Packs of a deep reduction hold one block each.  Arrays that are not packed are read in blocks, too.  A few
rows of a matrix at a time, each read to its end, are streams that the hardware prefetcher follows.  Where a
register tile does more with each vector, a block has as many rows as the first cache holds of a few vectors
each, while the next few vectors are prefetched; that needs no copy, which many rows of results pay for and
few do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.poly.tile_plan import Axis, Nest, Phase, PhaseTile

from ..cost.cache_lines import STREAM_STRIDE, USABLE_SHARE, contiguous_reads, set_occupancy, single_pass_reads
from ..cost.pack_sizes import pack_depth
from ..cost.register_tile import Candidate, lane_axis
from ..cost.work import NestContext, Ref, footprint
from ..target import LINE, Machine
from .prefetch import is_cheap

_DEPTH = 1024  # points of a packed block of a deep reduction, about
_PACK_VECTORS = 4  # vectors of a packed row, at least
_DYNAMIC_DEPTH = 512  # points of a block of a reduction of dynamic length
STREAMS = 8  # rows of an array that are read side by side: more may share a set of the first cache
_CACHED_ROWS = 64  # rows of which a register tile reads some vectors each


def blocking_candidates(
    context: NestContext, c: Candidate, label: str, pack: bool
) -> list[tuple[Candidate, str]]:
    """The candidate with the blocks that suit its reductions; and, unless the option `pack` asks for packs,
    the candidate that reads in place the contiguous arrays that this one packs."""
    nest, machine = context.nest, context.machine
    vector = lane_axis(c.tiles)
    if vector is None:
        return [(c, label)]
    packed = [r for r in context.refs if (r.statement, r.read) in c.packs]
    if not packed:
        return [_with_row_blocks(context, c, label, vector)]
    out = [(replace(c, phases=_pack_blocks(nest, c, packed, vector, machine)), label)]
    if (both := _with_both_packed(context, c, packed, vector)) is not None:
        out.append((both, label.replace(f"{len(packed)} packed", f"{len(both.packs)} packed")))
    if not pack and not any(p.dot for p in c.phases) and all(r.strides[vector] == 1 for r in packed):
        label = label.replace(f", {len(packed)} packed", "")
        near = _with_row_blocks(context, replace(c, packs=frozenset()), label, vector)
        if near[0].phases != c.phases:
            out.append(near)
    return out


def _with_row_blocks(context: NestContext, c: Candidate, label: str, vector: str) -> tuple[Candidate, str]:
    """A candidate without packs, in blocks of rows.  Only one phase can have blocks: where several should,
    none has."""
    pairs = zip(context.nest.phases, c.phases, strict=True)
    phases = tuple(_row_block(context, p, t, vector, c) if p.axes else t for p, t in pairs)
    points = [t.block for t in phases if t.block is not None]
    if len(points) != 1:
        return c, label
    return replace(c, phases=phases), f"{label}, {points[0]} rows at a time"


# Blocks of packs.


def _with_both_packed(
    context: NestContext, c: Candidate, packed: Sequence[Ref], vector: str
) -> Candidate | None:
    """The candidate that packs the other factor, too, if each step of the reduction reads part of another
    line of it; else None.  These lines map to few sets, and are fetched again for each register tile."""
    nest = context.nest
    phases = [p for p in nest.phases if p.axes]
    if len(phases) != 1 or len(phases[0].axes) != 1 or any(t.dot for t in c.phases):
        return None
    along = phases[0].axes[0]
    if along.size is not None or not all(r.strides.get(along.name, 0) for r in packed):
        return None
    others = [
        r
        for s in phases[0].statements
        for r in context.work[s].refs
        if not r.written and r.plain and not r.windows and r not in packed and not r.strides.get(vector, 0)
        and abs(r.strides.get(along.name, 0)) * r.itemsize >= LINE
    ]  # fmt: skip
    rows = {n for r in others for n, t in c.tiles.items() if r.strides.get(n, 0) == 1 and t.register > 1}
    axes = {a.name: a for a in nest.axes}
    if not others or len(rows) != 1 or any(axes[n].size is not None for n in rows):
        return None
    (row,) = rows
    enough = (
        axes[vector].typical_extent >= 4 * c.tiles[vector].register
        and axes[row].typical_extent >= 4 * c.tiles[row].register
    )
    if not enough or not all(r.strides.get(row, 0) == 1 for r in others):
        return None
    depth = min(
        along.typical_extent, max(64, context.machine.l2 // 4 // (max(r.pack_itemsize for r in others) * 128))
    )
    blocks = -(-along.typical_extent // depth)
    points = math.ceil(along.typical_extent / blocks / 16) * 16
    tiles = tuple(
        replace(t, block=points) if p.axes and blocks > 1 else t
        for p, t in zip(nest.phases, c.phases, strict=True)
    )
    # Blocks of a pack are whole register tiles.
    whole = {**c.tiles, row: replace(c.tiles[row], even=False)}
    return replace(c, tiles=whole, phases=tiles, packs=c.packs | {(r.statement, r.read) for r in others})


def _pack_blocks(
    nest: Nest, c: Candidate, packed: Sequence[Ref], vector: str, machine: Machine
) -> tuple[PhaseTile, ...]:
    """The phases in blocks of about a thousand packed points, where the pack is deep or has a
    dynamic length."""
    dynamic = {a.name for p in nest.phases for a in p.axes if a.size is not None}
    if any(r.strides[a] for r in packed for a in r.strides if a in dynamic):
        return tuple(
            replace(t, block=_DYNAMIC_DEPTH) if any(a.name in dynamic for a in p.axes) else t
            for p, t in zip(nest.phases, c.phases, strict=True)
        )
    depth = pack_depth(nest, packed, c.phases)
    if not _too_deep(depth, packed, vector, c, machine):
        return c.phases

    def blocked(p: Phase, t: PhaseTile) -> PhaseTile:
        moved = [r for r in packed if r.statement in p.statements]
        if not p.axes or not moved or not all(r.strides.get(p.axes[0].name, 0) for r in moved):
            return t
        extent = p.axes[0].typical_extent
        inside = math.prod(a.typical_extent for a in p.axes[1:])
        if extent * inside < depth or extent == 1:
            return t
        points = math.ceil(extent / math.ceil(extent * inside / _DEPTH))
        return replace(t, block=math.ceil(points / 16) * 16 if inside == 1 else points)

    return tuple(blocked(p, t) for p, t in zip(nest.phases, c.phases, strict=True))


def _too_deep(depth: int, packed: Sequence[Ref], vector: str, c: Candidate, machine: Machine) -> bool:
    """Whether the packs of a register tile take more than a quarter of the second cache.  Where contiguous
    arrays are packed, the packs of four vectors count, as less than that of a row is slow to read."""
    lanes = c.tiles[vector]
    width = lanes.register
    if any(r.strides.get(vector, 0) == 1 for r in packed):
        width = max(width, _PACK_VECTORS * lanes.lanes)
    return depth * width * max(r.pack_itemsize for r in packed) > machine.l2 // 4


# Blocks of rows that are read in place.


def _row_block(context: NestContext, p: Phase, t: PhaseTile, vector: str, c: Candidate) -> PhaseTile:
    """The phase in blocks of rows, or as it is.

    A block has as many rows as the first cache holds of some vectors each, if the next vectors of each row
    can be prefetched beside the operations on these; else a few rows, if they are of a large array that is
    read once.
    """
    nest, work, machine = context.nest, context.work, context.machine
    first, *others = p.axes
    axes = {a.name: a for a in nest.axes}
    found = [
        r for r in contiguous_reads(p, work, vector) if not r.windows and r.elements * r.itemsize > machine.l1
    ]
    if not found or t.vector is not None:
        return t
    inside = math.prod(a.typical_extent for a in others)
    enough = (
        first.size is None and inside <= _CACHED_ROWS and first.typical_extent * inside >= 2 * _CACHED_ROWS
    )
    if enough and all(is_cheap(r, p, c.tiles, axes) for r in found):
        at = {n: min(x.register, axes[n].typical_extent) for n, x in c.tiles.items()}
        at |= {a.name: a.typical_extent for a in others}
        return replace(t, block=_cached_rows(first, inside, found, at, machine))
    looped = [a.name for a in nest.axes if a.typical_extent > c.tiles[a.name].register]
    pieces = single_pass_reads(context, p, vector) and vector in looped
    single = pieces or any(
        abs(r.strides.get(first.name, 0)) * r.itemsize >= STREAM_STRIDE
        and r.elements * r.itemsize > machine.l2
        and all(r.strides.get(n, 0) or n in r.indirect for n in looped)
        for r in found
    )
    streams = single and not others and first.typical_extent >= 2 * STREAMS
    return replace(t, block=STREAMS) if streams else t


def _cached_rows(
    first: Axis, inside: int, found: Sequence[Ref], at: Mapping[str, int], machine: Machine
) -> int:
    """Points of the first loop in a block, for each of which a register tile (`at`) reads `inside` rows."""
    # These vectors and the next, each of which takes part of one more line.
    each = sum(footprint(r, at) + inside * LINE for r in found)
    points = max(1, min(_CACHED_ROWS // inside, int(USABLE_SHARE * machine.l1 / 2 / each)))
    while points > STREAMS and any(
        set_occupancy(r, {**at, first.name: points}, machine.l2, machine.l2_ways) > 1 for r in found
    ):
        points //= 2
    if inside == 1 and points > STREAMS:
        points -= points % STREAMS
    # Blocks of equal length need no code for a remainder.
    equal = [n for n in range(-(-3 * points // 4), points + 1) if first.typical_extent % n == 0]
    equal = [n for n in equal if inside > 1 or n % 4 == 0]
    return equal[-1] if equal else points
