"""Cache lines: which lines a register tile fetches from the second cache, and which conflict in their sets.

A register tile reads some lines of each array.  If all of them fit the first cache, the next tile fetches
only the lines that are new to it; else it fetches all of its own.  Lines whose addresses agree in the bits
that select the set compete for the ways of a few sets: those of rows a power of two bytes apart do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tc.poly.tile_plan import Phase, PhaseTile, Tile, one_block

from ..target import LINE, PAGE, Machine
from .register_tile import lane_axis
from .work import NestContext, Ref, Work, footprint, rows

STREAM_STRIDE = 2048  # bytes between rows from which on each is a stream of its own for the prefetcher
_TLB_ENTRIES = 64  # pages that a core translates at once, at least (Zen 2, Zen 3)
_MAX_PAGES = 8.0  # pages between rows from which on they do not share a line of the page table either
PREFETCH_STREAMS = 8  # rows of a larger array that the hardware prefetcher follows
_SAME_STREAM = 256  # bytes between rows up to which they are one stream
_MEMORY_SHARE = 0.375  # of the last cache: arrays from this size on come from memory each time
_RESULT_PAGES = 48  # pages of results, about, on which the prefetcher follows a row each
USABLE_SHARE = 0.75  # of the first cache, that a tile's lines may fill
_UNPREDICTED_LINE = 2.0  # time factor of a line of which one element is used and that no prefetcher predicts
L2_MISS_FACTOR = 10.0  # time factor of a line that the second cache has no room for either
_LARGER = 4  # times the results: an array that is far larger
# Share of the lines of the usual order that another order may fetch, at most, to be preferred.
_ORDER_GAIN = 0.9


@lru_cache(4096)
def rows_per_set(stride: int, itemsize: int, rows: int, cache: int, ways: int) -> float:
    """How many of these rows, `stride` elements apart, map to each set of a cache that any of them map to."""
    lines_apart, rest = divmod(abs(stride) * itemsize, LINE)
    if rows < 2 or rest or not lines_apart:
        return 1.0
    sets = max(1, cache // (LINE * ways))
    return max(1.0, rows * math.gcd(lines_apart, sets) / sets)


def set_occupancy(r: Ref, extents: Mapping[str, int], cache: int, ways: int) -> float:
    """How many times the ways of a set the rows of a reference fill, approximately; above 1 they conflict."""
    total = 1.0
    for n, stride in r.strides.items():
        e = extents.get(n, 1)
        if e > 1 and stride:
            total *= rows_per_set(stride, r.itemsize, e, cache, ways)
    return total / ways


def aliased(stride: int, itemsize: int, rows: int, machine: Machine) -> bool:
    """Whether rows this far apart map to too few sets of the first cache to stay in it together."""
    return rows_per_set(stride, itemsize, rows, machine.l1, machine.l1_ways) > machine.l1_ways


def transposed_rows(r: Ref, vector: str, machine: Machine) -> int:
    """How many rows of a packed array are transposed at a time; 0: as many as a vector has lanes.

    The hardware prefetcher follows at most eight rows of a larger array.  And of more rows than a set has
    ways, the lines that two blocks share are evicted before the second block.
    """
    stride = r.strides.get(vector, 0)
    far = r.elements * r.itemsize > machine.l2
    return PREFETCH_STREAMS if far or aliased(stride, r.itemsize, 2 * PREFETCH_STREAMS, machine) else 0


def blocked_rows(
    context: NestContext,
    tiles: Mapping[str, Tile],
    phases: Sequence[PhaseTile],
    packs: frozenset[tuple[str, int]],
) -> list[Ref]:
    """The reads of blocks of rows that are read in place."""
    vector = lane_axis(tiles)
    if vector is None:
        return []
    blocked = [p for p, t in zip(context.nest.phases, phases, strict=True) if t.block is not None]
    return [
        r
        for p in blocked
        for r in contiguous_reads(p, context.work, vector)
        if (r.statement, r.read) not in packs
    ]


def is_contiguous(r: Ref, w: Work, vector: str) -> bool:
    """Whether a read is contiguous along `vector`, and no condition or check excludes single elements.  It
    may leave out whole rows, such as those after the last of a part."""
    free = not (r.written or r.indirect or r.checks) and (r.plain or vector not in w.guards)
    return free and r.strides.get(vector, 0) == 1


def contiguous_reads(phase: Phase, work: Mapping[str, Work], vector: str) -> list[Ref]:
    """The reads of a phase that are contiguous along `vector`, in rows of their own along the phase's first
    loop."""
    return [
        r
        for s in phase.statements
        for r in work[s].refs
        if is_contiguous(r, work[s], vector)
        and abs(r.strides.get(phase.axes[0].name, 0)) * r.itemsize >= _SAME_STREAM
    ]


def single_pass_reads(context: NestContext, phase: Phase, vector: str) -> list[Ref]:
    """The reads that are contiguous along `vector` in rows of less than half a page, from beyond the second
    cache, each row once: a tile of whole rows reads memory sequentially, a tile of parts reads a piece of
    every row.  None if cores can only share the columns of the rows."""
    nest, work, machine = context.nest, context.work, context.machine
    tasks = math.prod(a.typical_extent for a in nest.axes if a.name != vector)
    if len(phase.axes) != 1 or tasks < machine.cores:
        return []
    axes = [a.name for a in nest.axes if a.typical_extent > 1]
    return [
        r
        for s in phase.statements
        for r in work[s].refs
        if is_contiguous(r, work[s], vector)
        and _SAME_STREAM <= abs(r.strides.get(phase.axes[0].name, 0)) * r.itemsize < STREAM_STRIDE
        and r.elements * r.itemsize > machine.l2
        and all(r.strides.get(n, 0) for n in axes)
    ]


def collides(r: Ref, tile: Mapping[str, int], inner: Mapping[str, int], machine: Machine) -> bool:
    """Whether the rows that a reduction (`inner`) reads for one point of the tile evict those that it reads
    for other points."""
    ways = machine.l1_ways
    own, each = (set_occupancy(r, e, machine.l1, ways) for e in (tile, inner))
    return own * ways > 1 and own * each * ways > 2


@dataclass(frozen=True, slots=True)
class LineTraffic:
    """The lines that a register tile reads of one array: their number, the cycles to fetch them all, the
    cycles that arithmetic stalls for them in any case, whether the array is packed, and how many times they
    fill the ways of a set."""

    ref: Ref
    lines: float
    cycles: float
    stalls: float
    packed: bool
    occupancy: float


def line_traffic(
    context: NestContext,
    phase: Phase,
    packs: frozenset[tuple[str, int]],
    extents: Mapping[str, int],
    vector: str | None,
) -> list[LineTraffic]:
    """The lines that a register tile with these extents, and lanes along `vector`, reads in the loops of a
    phase."""
    machine = context.machine
    inner = {a.name: a.typical_extent for a in phase.axes}
    each = LINE / machine.l2_bandwidth
    out: list[LineTraffic] = []
    gathers: set[tuple[str, int, tuple[tuple[str, int], ...]]] = set()
    for name in phase.statements:
        own = {a.name: extents[a.name] for a in context.nest.axes if name in a.vars}
        points = {**own, **inner}
        for r in context.work[name].refs:
            if (
                r.written
                or r.buffer in context.accumulators
                or not any(r.strides.get(n, 0) for n in inner)
                or (r.indirect and (not r.gathered_rows or r.indirect & inner.keys()))
            ):
                continue
            if r.indirect:
                # Gathers from one array choose among the same rows.
                key = r.buffer, r.offset, tuple(sorted(r.strides.items()))
                if key not in gathers:
                    count, run = rows(r, points)
                    lines = min(count * max(1.0, run / LINE), float(r.elements))
                    cycles = lines * LINE / _rate(r, machine)
                    out.append(LineTraffic(r, lines, cycles, 0.0, False, 0.0))
                gathers.add(key)
                continue
            if (name, r.read) in packs:
                lines = footprint(r, points) * r.pack_itemsize / r.itemsize / LINE
                out.append(LineTraffic(r, lines, each * lines, 0.0, True, 0.0))
                continue
            count, run = rows(r, points)
            lines = count * max(1.0, run / LINE)
            lines = min(lines, float(r.elements))
            occupancy = set_occupancy(r, points, machine.l1, machine.l1_ways)
            # A line that is used whole is not missed afterwards.
            factor = 1.0 if run >= LINE else min(max(1.0, occupancy), machine.conflict_miss_factor)
            factor *= _UNPREDICTED_LINE if run <= r.itemsize else 1.0
            size = r.elements * r.itemsize
            # No prefetcher predicts the next of lines that are read element by element.
            single = run == LINE and r.strides.get(vector or "", 0) != 1 and 2 * size > machine.l3
            missed = set_occupancy(r, points, machine.l2, machine.l2_ways) > 1 and size > machine.l2
            if (run < LINE or single) and missed:
                factor = max(factor, L2_MISS_FACTOR)
            reload = _reload_factor(r, own, phase, machine)
            if reload > 1:
                factor = max(factor, min(max(1.0, occupancy), machine.conflict_miss_factor))
            stalls = count * reload * _page_stride_stalls(r, points, run, machine)
            out.append(LineTraffic(r, lines, each * factor * reload * lines, stalls, False, occupancy))
    return out


def _rate(r: Ref, machine: Machine) -> float:
    """Bytes a cycle from the nearest cache that keeps the whole array, or from memory."""
    size = r.elements * r.itemsize
    if size <= USABLE_SHARE * machine.l2:
        return machine.l2_bandwidth
    return machine.l3_bandwidth if size <= machine.l3 else machine.bandwidth


def _page_stride_stalls(r: Ref, points: Mapping[str, int], run: int, machine: Machine) -> float:
    """Cycles that arithmetic stalls for a row of an array, of which it reads `run` bytes: most rows lie on
    pages of their own, and there are more of these than a core translates at once."""
    if 2 * r.elements * r.itemsize <= machine.l2:  # of a larger one nothing else would stay in it
        return 0.0
    steps = {n: abs(s) * r.itemsize for n, s in r.strides.items() if points.get(n, 1) > 1}
    rows = [n for n, s in steps.items() if s > run]
    stride = min((steps[n] for n in rows), default=0)
    if 4 * stride < 3 * PAGE or math.prod(points[n] for n in rows) <= _TLB_ENTRIES:
        return 0.0
    return machine.page_stride_penalty * min(stride / PAGE, _MAX_PAGES)


def _reload_factor(r: Ref, own: Mapping[str, int], phase: Phase, machine: Machine) -> float:
    """How often each line is fetched where the loop along which elements are neighbours is not the last of
    the phase: once for each of its elements, if the inner loops evict it."""
    out = 1.0
    for i, a in enumerate(phase.axes[:-1]):
        stride = abs(r.strides.get(a.name, 0)) * r.itemsize
        if not 0 < stride < LINE:
            continue
        inside = {b.name: b.typical_extent for b in phase.axes[i + 1 :]} | dict(own)
        count, run = rows(r, inside)
        if (
            count * max(1.0, run / LINE) * LINE > USABLE_SHARE * machine.l1
            or set_occupancy(r, inside, machine.l1, machine.l1_ways) > 1
        ):
            out *= min(a.typical_extent, LINE // stride)
    return out


def fit_l1(found: Sequence[LineTraffic], machine: Machine, along: str | None = None) -> bool:
    """Whether the lines of a register tile stay in the first cache together; with `along` those of all tiles
    along that axis which a gather chooses among."""

    def lines(b: LineTraffic) -> float:
        return b.lines * (b.ref.gathered_rows if along in b.ref.indirect else 1)

    return all(b.occupancy <= 1 for b in found) and sum(map(lines, found)) * LINE <= USABLE_SHARE * machine.l1


def new_line_cycles(
    found: Sequence[LineTraffic], phase: Phase, tiles: Mapping[str, Tile], along: str | None, machine: Machine
) -> tuple[float, float]:
    """Cycles to fetch the lines that a register tile reads and its predecessor along an axis did not, and the
    cycles that arithmetic stalls for them."""
    if along is None or not fit_l1(found, machine, along):
        new = [1.0 for _ in found]
    else:
        new = [_new_share(b, phase, along, tiles[along]) for b in found]
    pairs = list(zip(found, new, strict=True))
    return sum(b.cycles * n for b, n in pairs), sum(b.stalls * n for b, n in pairs)


def conflict_reload_cycles(found: Sequence[LineTraffic], along: str, machine: Machine) -> float:
    """Cycles that arithmetic stalls for lines which the previous tile along an axis read, too, and which
    conflict in their sets."""
    reread = [b for b in found if b.occupancy > 1 and not b.ref.strides.get(along, 0)]
    return machine.conflict_reload_penalty * sum(b.lines * (1 - 1 / b.occupancy) for b in reread)


def _new_share(b: LineTraffic, phase: Phase, axis: str, tile: Tile) -> float:
    """The share of lines that are new after a step along an axis."""
    stride, step = abs(b.ref.strides.get(axis, 0)), tile.register
    if axis in b.ref.indirect:  # each row is new once
        return min(1.0, b.ref.gathered_rows * step / tile.cache) if tile.is_bounded else 0.0
    if not stride:
        return 0.0
    if b.packed:
        return 1.0
    # A sliding window keeps the elements that it shares with the last one.
    extents = {a.name: a.typical_extent for a in phase.axes}
    window = {n for pair in b.ref.windows if axis in pair for n in pair if n in extents}
    reach = sum((extents[n] - 1) * abs(b.ref.strides.get(n, 0)) for n in window)
    return min(1.0, stride * step * b.ref.itemsize / LINE) * step * stride / (step * stride + reach)


def partial_line_cycles(r: Ref, extents: Mapping[str, int], machine: Machine) -> float:
    """Cycles to move the lines of a large result of which a register tile stores a part each, where the first
    cache evicts them before the next part is stored."""
    along = max((e for n, e in extents.items() if r.strides.get(n, 0) == 1), default=1)
    large = r.elements * r.itemsize > machine.l2
    if not large or along * r.itemsize >= LINE or set_occupancy(r, extents, machine.l1, machine.l1_ways) <= 1:
        return 0.0
    rows = math.prod(e for n, e in extents.items() if abs(r.strides.get(n, 0)) > 1)
    return 2 * rows * LINE / machine.l2_bandwidth


def store_conflict_cycles(r: Ref, extents: Mapping[str, int], machine: Machine) -> float:
    """Cycles that each row of a register tile's results waits to be stored: for the other rows in its set of
    the first cache, and where the rows lie on more pages than the prefetcher follows."""
    occupancy = set_occupancy(r, extents, machine.l1, machine.l1_ways)
    pages = math.prod(e for n, e in extents.items() if abs(r.strides.get(n, 0)) * r.itemsize >= PAGE)
    return (machine.set_conflict_store_penalty * occupancy if occupancy > 1 else 0.0) + (
        machine.many_pages_penalty if pages > _RESULT_PAGES else 0.0
    )


def comes_from_memory(r: Ref, machine: Machine) -> bool:
    """Whether the last cache does not keep an array until it is needed again."""
    return r.elements * r.itemsize >= _MEMORY_SHARE * machine.l3


def rows_share_page(r: Ref, extents: Mapping[str, int]) -> bool:
    """Whether a register tile reads several rows side by side that share a page without being adjacent.  The
    hardware prefetcher follows one of them, and learns the next one on every page."""
    strides = (abs(r.strides.get(n, 0)) * r.itemsize for n, e in extents.items() if e > 1)
    return any(_SAME_STREAM <= x < PAGE for x in strides)


def unprefetched_rows(r: Ref, extents: Mapping[str, int], machine: Machine) -> float:
    """The rows of a register tile's results that the hardware prefetcher does not follow, in an array that
    does not stay in the second cache beside what is read.  It follows one row on each page, and few pages:
    not followed are those beside another on its page, and the lines on too many pages."""
    if 2 * r.elements * r.itemsize <= machine.l2:
        return 0.0
    rows = pages = 1.0
    run = float(r.itemsize)
    for stride, e in sorted((abs(r.strides.get(n, 0)) * r.itemsize, e) for n, e in extents.items() if e > 1):
        if stride and (stride <= run or stride < _SAME_STREAM):
            run = stride * e
        elif stride:
            rows *= e
            pages *= max(1.0, e * min(1.0, stride / PAGE))
    return rows - pages + (pages * min(1.0, run / LINE) if pages > _RESULT_PAGES else 0.0)


def outer_order(context: NestContext) -> tuple[str, ...]:
    """The axes in the order of the results in memory.  But if an array is read that is far larger, and too
    large for the second cache, the order of that array, with the axes along which it is read again last."""
    refs = context.refs
    place = {
        a.name: max((abs(r.strides.get(a.name, 0)) for r in refs if r.written), default=0)
        for a in context.nest.axes
    }
    written = max((r.elements * r.itemsize for r in refs if r.written), default=0)
    read = max(
        (r for r in refs if not r.written and not r.indirect),
        key=lambda r: r.elements * r.itemsize,
        default=None,
    )
    first = dict.fromkeys(place, 0)
    if read is not None and read.elements * read.itemsize > max(context.machine.l2, _LARGER * written):
        first = {n: abs(read.strides.get(n, 0)) for n in place}
    return tuple(sorted(place, key=lambda n: (-first[n], -place[n])))


def inner_order(
    context: NestContext,
    tiles: Mapping[str, Tile],
    phases: Sequence[PhaseTile],
    packs: frozenset[tuple[str, int]],
) -> tuple[str, ...]:
    """The order of the loops over register tiles, outermost first.

    It is the order of the results in memory, but another loop is innermost where that fetches fewer lines.
    Loops along which rows of a block are read in place come first.
    """
    nest, machine = context.nest, context.machine
    order = sorted(outer_order(context), key=lambda n: tiles[n].lanes > 1)
    along = {n for r in blocked_rows(context, tiles, phases, packs) for n in r.strides if r.strides[n]}
    if along:
        return tuple(sorted(order, key=lambda n: n not in along))
    looped = [n for n in order if not (tiles[n].is_bounded and tiles[n].cache <= tiles[n].register)]
    far = [r for r in context.refs if r.elements * r.itemsize > machine.l2]
    if len(looped) < 2 or any(abs(r.strides.get(looped[-1], 0)) == 1 for r in far):
        return tuple(order)  # contiguous rows of large arrays are best read and written sequentially
    at = {a.name: min(tiles[a.name].register, a.typical_extent) for a in nest.axes}
    cut = [one_block(p, t) for p, t in zip(nest.phases, phases, strict=True) if p.axes]
    vector = lane_axis(tiles)
    found = [(p, line_traffic(context, p, packs, at, vector)) for p in cut]
    if not found or not all(fit_l1(x, machine) for _, x in found):
        return tuple(order)

    def cycles(along: str) -> float:
        read = sum(sum(new_line_cycles(x, p, tiles, along, machine)) for p, x in found)
        return read + sum(_result_cycles(r, at, along, machine) for r in context.accumulators.values())

    best = min(looped, key=cycles)
    if cycles(best) >= _ORDER_GAIN * cycles(looped[-1]):
        return tuple(order)
    return (*(n for n in order if n != best), best)


def _result_cycles(r: Ref, at: Mapping[str, int], along: str, machine: Machine) -> float:
    """Cycles to move the lines of a result.  A line of which the next tile along an axis stores the rest
    stays until then."""
    strides = {n: abs(r.strides.get(n, 0)) * r.itemsize for n in at}
    rows = math.prod(e for n, e in at.items() if strides[n] >= LINE)
    run = max((e * strides[n] for n, e in at.items() if 0 < strides[n] < LINE), default=r.itemsize)
    shared = 0 < strides[along] < LINE
    return 2 * rows * (run / LINE if shared else max(1.0, run / LINE)) * LINE / machine.l2_bandwidth
