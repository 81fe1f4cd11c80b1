"""Software prefetch: which rows a nest prefetches before it needs them.

The hardware prefetcher follows streams of contiguous lines.  It follows neither gathers nor the short rows of
a tile (a window of an image, a few pixels of every channel), where each row is a miss that nothing hides; and
where many streams are read side by side, it learns each of them anew on every page.  It also stops while a
row that has arrived is read again: a normalisation would wait for memory in the first of its loops over a
row, and leave memory idle in the others.  Such reads are prefetched while an earlier tile is computed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tc.poly.tile_plan import Axis, Phase, PhaseTile, PrefetchHint, Tile, one_block

from ..cost.cache_lines import (
    PREFETCH_STREAMS,
    STREAM_STRIDE,
    comes_from_memory,
    is_contiguous,
    rows_share_page,
    set_occupancy,
    single_pass_reads,
)
from ..cost.register_tile import lane_axis
from ..cost.work import NestContext, Ref, Work, footprint, reread_arrays, row_bytes, rows
from ..target import LINE, PAGE

GATHER_DISTANCE = 12  # iterations from the prefetch of a gathered row to its use
_MIN_PAGES = 8  # pages of a register tile's results, at least, that are prefetched
# Lines of a register tile's results, at least, that are prefetched where they come from memory.
_MIN_LINES = 4
_STREAM_BYTES = 8192  # bytes in a row, two pages, from which on the hardware prefetcher follows
# Prefetch distance, in bytes, of rows from memory: a few hundred cycles ahead is too late
# (docs/experiments/prefetching.md).
_DISTANCE_BYTES = 16 << 10
# Rows side by side on a page stall wherever they come from, and prefetching them costs nothing: they are
# prefetched in arrays smaller by this factor, too.
_NEARER_FACTOR = 4

# The references that are streams, at least, as a share of all: a stencil waits for its loads, and prefetches
# of its results took 1 to 2 % of its time.
_STREAMED_SHARE = 0.25

_OPERATIONS_PER_PREFETCH = 8  # vector operations for each prefetch, at least


def is_gather(p: Phase, work: Mapping[str, Work], near_bytes: int) -> bool:
    """Whether the last loop of a phase gathers from an array of more than `near_bytes`.  The indices
    themselves are read at every point, not prefetched."""
    refs = [r for s in p.statements for r in work[s].refs]
    return (
        bool(p.axes)
        and any(p.axes[-1].name in r.indirect and r.elements * r.itemsize > near_bytes for r in refs)
        and all(r.plain or r.indirect or r.written for r in refs)
    )


@dataclass(frozen=True, slots=True)
class TileTraversal:
    """A nest as the sequence of its register tiles.

    `axes` are those of the nest; a cache tile has `extents` points of each, a register tile `register`.
    `looped` are the loops over register tiles with more than one iteration, outermost first.  Arrays of at
    most `near_bytes` stay in a cache.
    """

    context: NestContext
    tiles: Mapping[str, Tile]
    near_bytes: int
    axes: Mapping[str, Axis]
    extents: Mapping[str, int]
    register: Mapping[str, int]
    looped: tuple[str, ...]

    def is_far(self, r: Ref, nearer: int = 1) -> bool:
        """Whether an array is larger than `near_bytes`, or than that divided by `nearer`."""
        return r.elements * r.itemsize > self.near_bytes // nearer

    def comes_from_memory(self, r: Ref) -> bool:
        """Whether an array comes from memory; every array does if `near_bytes` is 0."""
        return not self.near_bytes or comes_from_memory(r, self.context.machine)

    def conflicts(self, r: Ref, extents: Mapping[str, int]) -> bool:
        """Whether the rows of a read conflict in their sets of the cache into which they are prefetched."""
        m = self.context.machine
        size, ways = (m.l1, m.l1_ways) if m.prefetch_level == 1 else (m.l2, m.l2_ways)
        return set_occupancy(r, extents, size, ways) > 1

    def is_prefetched(self, r: Ref, phase: Mapping[str, int]) -> bool:
        """Whether the hardware prefetcher follows what a register tile reads or writes in a phase of these
        extents: one long row, or a few that the next tiles continue."""
        reached = {**self.register, **phase}
        count, length = rows(r, reached)
        side_by_side = math.prod(
            e for n, e in self.register.items() if abs(r.strides.get(n, 0)) * r.itemsize >= LINE
        )
        for n in reversed(self.looped if side_by_side <= PREFETCH_STREAMS else ()):
            if count > 1 or length >= _STREAM_BYTES:
                break
            reached[n] = self.extents[n]
            count, length = rows(r, reached)
        return length >= _STREAM_BYTES


def tile_traversal(
    context: NestContext, tiles: Mapping[str, Tile], inner: Sequence[str], near_bytes: int
) -> TileTraversal:
    """The traversal of a nest with the loops `inner` over register tiles.  A cache tile of dynamic length
    (CacheTile.WHOLE, CacheTile.SHARE) counts as long as the axis typically is."""
    axes = {a.name: a for a in context.nest.axes}
    whole = {n: a.typical_extent for n, a in axes.items()}
    extents = {n: min(t.cache, whole[n]) if t.is_bounded else whole[n] for n, t in tiles.items()}
    at = {n: min(t.register, whole[n]) for n, t in tiles.items()}
    looped = tuple(n for n in inner if extents[n] > tiles[n].register)
    return TileTraversal(context, tiles, near_bytes, axes, extents, at, looped)


def row_prefetches(
    w: TileTraversal, phases: Sequence[PhaseTile], packed: frozenset[tuple[str, int]], unshared: bool
) -> tuple[PrefetchHint, ...]:
    """Prefetches of reads in phases with loops, each along the loop over register tiles whose next iteration
    reads new rows.

    They are the far reads whose rows are short; and the reads of rows in lanes that are read several times,
    if the rows come from memory, or if several share a page and no other nest has just written them
    (`unshared`: the nest shares no loops).
    """
    out: list[PrefetchHint] = []
    reread = reread_arrays(w.context.nest, w.context.work)
    for phase, t in zip(w.context.nest.phases, phases, strict=True):
        if not phase.axes:
            continue
        extents = {a.name: a.typical_extent for a in one_block(phase, t).axes}
        places: set[tuple[str, int, tuple[tuple[str, int], ...]]] = set()
        for r in (r for s in phase.statements for r in w.context.work[s].refs):
            side_by_side = (
                unshared and t.vector is not None and r.buffer in reread and rows_share_page(r, w.register)
            )
            far = w.is_far(r, _NEARER_FACTOR if side_by_side else 1)
            moving = any(r.strides.get(n, 0) for n in extents)
            if not (far and moving) or r.written or not r.plain or (r.statement, r.read) in packed:
                continue
            if t.vector is not None:
                reread_from_memory = r.buffer in reread and w.comes_from_memory(r)
                if not (w.context.machine.prefetch_rereads and (side_by_side or reread_from_memory)):
                    continue
            elif w.is_prefetched(r, extents) or not is_cheap(r, phase, w.tiles, w.axes):
                continue
            along = _axis_of_new_rows(w, r, extents, check_conflicts=t.vector is None)
            place = (r.buffer, r.offset, tuple(sorted(r.strides.items())))
            if along is not None and place not in places:  # an element that is read twice is prefetched once
                places.add(place)
                distance = (
                    1 if t.vector is None else -(-_DISTANCE_BYTES // footprint(r, {**w.register, **extents}))
                )
                out.append(PrefetchHint(r.statement, r.read, along, distance))
    return tuple(out)


def _axis_of_new_rows(
    w: TileTraversal, r: Ref, phase: Mapping[str, int], check_conflicts: bool
) -> str | None:
    """The loop over register tiles whose next iteration reads new rows of a read, in a phase of these
    extents: the outermost loop of which one iteration leaves room in the second cache for the rows of two.
    None if the rows of two iterations would conflict in their sets, those of one not (`check_conflicts`)."""
    these = {**w.register, **phase}
    room = not w.conflicts(r, these)
    refs = [x for s in w.context.nest.statements for x in w.context.work[s].refs]
    for i, n in enumerate(w.looped):
        if not r.strides.get(n, 0):
            continue
        if check_conflicts and room and w.conflicts(r, {**these, n: 2 * w.register[n]}):
            return None
        inside = {m: w.extents[m] if m in w.looped[i + 1 :] else w.tiles[m].register for m in w.axes}
        if sum(footprint(x, {**inside, **phase}) for x in refs) <= w.context.machine.l2 // 2:
            return n
    return None


def stencil_prefetches(w: TileTraversal) -> tuple[PrefetchHint, ...]:
    """Prefetches of reads outside of reductions that read several rows of an array from memory side by side,
    such as those above and below a point: some rows ahead, the rows that no other read has fetched before."""
    vector = lane_axis(w.tiles)
    groups: dict[tuple[str, tuple[tuple[str, int], ...]], list[Ref]] = {}
    for s in (s for p in w.context.nest.phases if not p.axes for s in p.statements):
        for r in w.context.work[s].refs:
            far = w.comes_from_memory(r)
            if far and not r.written and not r.indirect and 0 < _stride_bytes(r, vector) < LINE:
                groups.setdefault((r.buffer, tuple(sorted(r.strides.items()))), []).append(r)
    out: list[PrefetchHint] = []
    for group in groups.values():
        one = group[0]
        along = next((n for n in reversed(w.looped) if _stride_bytes(one, n) >= LINE), None)
        if along is None:
            continue
        row = one.strides[along] * w.register[along]
        offsets = sorted({r.offset for r in group})
        if offsets[-1] - offsets[0] < abs(row) // 2:  # one row, which the hardware prefetcher follows
            continue
        tiles_ahead = max(1, _DISTANCE_BYTES // (abs(row) * one.itemsize))
        prefetched: list[int] = []
        for r in group:
            close = LINE // r.itemsize
            behind = any(_is_multiple(o - r.offset, row, close) for o in offsets)
            if not behind and all(abs(o - r.offset) >= close for o in prefetched):
                prefetched.append(r.offset)
                out.append(PrefetchHint(r.statement, r.read, along, tiles_ahead))
    return tuple(out)


def _stride_bytes(r: Ref, axis: str | None) -> int:
    """Bytes between a read's neighbours along an axis; 0 without an axis."""
    return abs(r.strides.get(axis, 0)) * r.itemsize if axis is not None else 0


def _is_multiple(distance: int, step: int, close: int) -> bool:
    """Whether a distance is one or more steps, up to less than `close`."""
    times = round(distance / step)
    return times >= 1 and abs(distance - times * step) < close


def result_prefetches(w: TileTraversal) -> tuple[PrefetchHint, ...]:
    """Prefetches of the far results of reductions whose rows are short.  Rows on many pages are prefetched
    along the innermost loop over register tiles that goes to other pages; several rows of an array that comes
    from memory, along the innermost that goes to other lines."""
    at, looped = w.register, w.looped
    iterations = min(
        (math.prod(a.typical_extent for a in p.axes) for p in w.context.nest.phases if p.axes), default=0
    )
    vectors = math.prod(math.ceil(e / w.tiles[n].lanes) for n, e in at.items())
    out: dict[str, PrefetchHint] = {}
    for r in w.context.accumulators.values():
        strides = {n: abs(r.strides.get(n, 0)) * r.itemsize for n in at}
        pages = math.prod(e for n, e in at.items() if strides[n] >= PAGE)
        lines = math.prod(
            e if strides[n] >= LINE else max(1, math.ceil(e * strides[n] / LINE)) for n, e in at.items()
        )
        if not w.is_far(r) or _OPERATIONS_PER_PREFETCH * lines > vectors * iterations:
            continue
        if pages >= _MIN_PAGES:
            along = next((n for n in reversed(looped) if strides[n] * at[n] >= PAGE), None)
            inside = looped[looped.index(along) + 1 :] if along is not None else ()
            reached = row_bytes(r, {m: w.extents[m] if m in inside else at[m] for m in w.axes})
            along = along if reached < PAGE else None
        elif (
            lines >= _MIN_LINES
            and w.comes_from_memory(r)
            and any(s % LINE for s in strides.values() if s > LINE)
            and not w.is_prefetched(r, {})
        ):
            along = next((n for n in reversed(looped) if strides[n] * at[n] >= 2 * LINE), None)
        else:
            continue
        if along is not None:
            out.setdefault(r.buffer, PrefetchHint(r.statement, None, along))
    return tuple(out.values())


def stream_prefetches(w: TileTraversal, others: Collection[PrefetchHint]) -> tuple[PrefetchHint, ...]:
    """Prefetches, for writing, of the results that a nest without reductions streams, and of what it streams
    into them, without those of `others`: of lines that the next register tiles along the lanes continue,
    where half of the second cache does not hold all that the nest reads and writes.

    Arrays that are read at several places are left to the hardware prefetcher and to `stencil_prefetches`.
    """
    ahead, along = w.context.machine.stream_prefetch, "".join(w.looped[-1:])
    if not ahead or along != lane_axis(w.tiles) or any(p.axes for p in w.context.nest.phases):
        return ()
    whole = {n: a.typical_extent for n, a in w.axes.items()}
    touched: dict[str, int] = {}
    for r in w.context.refs:
        touched[r.buffer] = max(touched.get(r.buffer, 0), footprint(r, whole))
    if sum(touched.values()) <= w.context.machine.l2 // 2:
        return ()
    prefetched = {(x.statement, x.read) for x in others}
    out: list[PrefetchHint] = []
    for p in w.context.nest.phases:
        refs = [r for s in p.statements for r in w.context.work[s].refs]
        places = Counter(r.buffer for r in refs)
        streams = [r for r in refs if r.plain and r.strides.get(along) == 1 and places[r.buffer] == 1]
        if len(streams) < _STREAMED_SHARE * len(refs) or all(r.read >= 0 for r in streams):
            continue
        for r in streams:
            read = r.read if r.read >= 0 else None
            if (r.statement, read) not in prefetched:
                distance = max(1, ahead // (w.register[along] * r.itemsize))
                out.append(PrefetchHint(r.statement, read, along, distance, level=1))
    return tuple(out)


def block_prefetches(
    w: TileTraversal, phases: Sequence[PhaseTile], others: Collection[PrefetchHint]
) -> tuple[PrefetchHint, ...]:
    """Prefetches of the far reads of a blocked phase whose rows are streams that end with their part of the
    tile, without those of `others`; none where the hardware prefetches them."""
    followed = w.context.machine.prefetch_blocks  # 0: all rows, 1: none, else those of so many bytes
    if not followed:
        return ()
    prefetched = {(x.statement, x.read) for x in others}
    out: list[PrefetchHint] = []
    vector = lane_axis(w.tiles) or ""
    for phase, tile in zip(w.context.nest.phases, phases, strict=True):
        if tile.block is None:
            continue
        axis = phase.axes[0].name
        pieces = single_pass_reads(w.context, phase, vector)
        out += [
            PrefetchHint(r.statement, r.read, axis)
            for s in phase.statements
            for r in w.context.work[s].refs
            if is_contiguous(r, w.context.work[s], vector)
            and (s, r.read) not in prefetched
            and w.is_far(r)
            and (r in pieces or _stride_bytes(r, axis) >= STREAM_STRIDE)
            and (followed == 1 or _stride_bytes(r, axis) < followed)
        ]
    return tuple(out)


def is_cheap(r: Ref, phase: Phase, tiles: Mapping[str, Tile], axes: Mapping[str, Axis]) -> bool:
    """Whether there are few prefetches beside the operations of an iteration of the phase."""
    lines = vectors = 1
    for n, t in tiles.items():
        size = min(t.register, axes[n].typical_extent)
        vectors *= math.ceil(size / t.lanes)
        step = abs(r.strides.get(n, 0)) * r.itemsize
        if step:
            lines *= math.ceil(size * step / LINE) if step < LINE else size
    last = phase.axes[-1]
    if abs(r.strides.get(last.name, 0)) * r.itemsize < LINE:
        vectors *= min(last.typical_extent, 4)
    return _OPERATIONS_PER_PREFETCH * lines <= vectors * 2
