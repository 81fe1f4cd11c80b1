"""Cache tiles: from a register tile to cache tiles, their order, packs, prefetches and threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.ir.expr import Expr
from tc.options import Options
from tc.poly.tile_plan import CacheTile, Nest, Pack, PhaseTile, PrefetchHint, Tile, Tiling

from ..cost import dot
from ..cost.balance import MIN_BUSY, TASK_CYCLES, TASKS_PER_CORE, even_width, keeps_busy
from ..cost.cache_lines import blocked_rows, inner_order, outer_order, transposed_rows
from ..cost.pack_sizes import pack_bytes, pack_width, row_axis, row_tile, row_tiles
from ..cost.register_tile import Candidate, lane_axis
from ..cost.work import NestContext, Ref, footprint
from ..target import Machine
from . import prefetch
from .reduction_blocks import STREAMS
from .shares import number_of_tasks, shares

_KEPT_SUMS = 1024  # rows of a factor whose sums are kept, where the number of rows is dynamic
_TRIANGLE_TASKS = 4  # tasks for each core, at least, that even out a triangle
_PACK_SHARE = 0.05  # elements of all tasks' packs for each cycle of a nest, at most
_PACK_ELEMENT_CYCLES = 0.5  # cycles to fill an element of a pack
_SERIAL_CYCLES = 16000.0  # cycles below which one thread is faster


def tiling(
    context: NestContext, c: Candidate, given: Mapping[str, int], cycles: float, options: Options
) -> Tiling:
    """The tiling of a nest with a candidate: cache tiles, their order, and which of them run in parallel.
    `given` are the tiles of the region's axes, `cycles` the candidate's predicted cycles."""
    nest, work, machine = context.nest, context.work, context.machine
    tiles = {n: replace(t, cache=given.get(n, t.cache)) for n, t in c.tiles.items()}
    axes = {a.name: a for a in nest.axes}
    packed = [r for r in context.refs if (r.statement, r.read) in c.packs]
    free = [n for n in axes if n not in given and not axes[n].reductions]
    # Threads first share axes that do not move with sequential loops, so that each has the same elements in
    # every iteration.
    order = sorted((n for n in outer_order(context) if n in free), key=lambda n: n in context.moving)
    near_bytes = 0 if options.prefetch else machine.l2  # arrays of at most so many bytes are not prefetched
    phases = c.phases
    vector = lane_axis(tiles)
    rows: str | None = None
    if packed and vector is not None:
        depends = {n for r in packed for n in r.strides if n in axes and r.strides[n]}
        order = [n for n in order if n in depends] + [n for n in order if n not in depends]
        row = row_axis(work, c)
        if row in given:
            row = None
        if row is not None:
            each = pack_bytes(nest, packed, c.phases)
            share = row_tile(axes[row].typical_extent, tiles[row].register, each, machine)
            tiles[row] = replace(tiles[row], cache=share)
        elif not given and options.tile is None and options.order is None and options.parallel is not False:
            rows = _row_split_axis(context, packed, tiles, cycles)
        if rows is not None:
            order = [rows, *(n for n in order if n != rows)]
            tiles[rows] = replace(
                tiles[rows], cache=_share_per_core(axes[rows].typical_extent, tiles[rows], machine)
            )
        whole = row_tiles(nest, packed, c, {n: a.typical_extent for n, a in axes.items()}, machine)
        for n in order:
            if n in depends and n not in (vector, row):
                tiles[n] = replace(tiles[n], cache=whole.get(n, tiles[n].register))
        if vector in order:
            shared = cycles > _SERIAL_CYCLES and rows is None
            width = pack_width(context, packed, replace(c, tiles=tiles), order, shared=shared, row=row)
            tiles[vector] = replace(tiles[vector], cache=width)
    elif vector is not None and (in_place := blocked_rows(context, tiles, phases, c.packs)):
        along = {n for r in in_place for n in r.strides if r.strides[n]}
        order = sorted(order, key=lambda n: n not in along)
        for n in order:  # each point has rows of its own
            if n != vector and all(r.strides.get(n, 0) for r in in_place):
                tiles[n] = replace(tiles[n], cache=tiles[n].register)
        tiles[vector] = replace(tiles[vector], cache=_revisited_points(context, tiles, vector))
    if options.prefetch is not False:
        phases = tuple(
            replace(x, prefetch=prefetch.GATHER_DISTANCE) if prefetch.is_gather(p, work, near_bytes) else x
            for p, x in zip(nest.phases, phases, strict=True)
        )
    order = _in_given_order(nest, order, options)
    parallel = 0
    shared_tasks: Expr | None = None
    inside = [a for p in nest.phases for a in p.axes]
    dynamic = {n for n in order if axes[n].size is not None}
    fixed = {n for r in packed for n in r.strides if r.strides[n]} if packed else set[str]()
    if options.tile is not None:
        for a, points in zip(nest.axes, options.tile, strict=False):
            if a.name not in given:
                t = tiles[a.name]
                tiles[a.name] = replace(t, cache=-(-min(points, a.typical_extent) // t.register) * t.register)
                fixed.add(a.name)
        parallel = 0 if given else len(order)
    elif not given and (dynamic or any(a.size is not None for a in inside)):
        many = round(_max_tasks(packed, phases, machine))
        # Each task fills its packs.
        filled = sum(_pack_elements(r, nest, tiles) for r in packed)
        shared_tasks = number_of_tasks(nest.axes, inside, cycles, max(TASK_CYCLES, 4 * filled), many)
        made = [n for n in order if n in fixed and n not in dynamic]
        have = math.prod(math.ceil(axes[n].typical_extent / tiles[n].cache) for n in made)
        shared = [n for n in order if n in fixed] if packed and have >= machine.cores else order
        tiles, parallel = shares(nest, shared, tiles, frozenset(fixed), many)
    elif rows is not None:
        parallel = 1
    elif not given and cycles > _SERIAL_CYCLES:
        wanted = min(cycles / TASK_CYCLES, _max_tasks(packed, phases, machine))
        tasks, busy = 1, False
        for i, n in enumerate(order):
            extent, t = axes[n].typical_extent, tiles[n]
            have = math.ceil(extent / t.cache)
            if n not in fixed and tasks * have < wanted and t.cache > t.register:
                least = math.ceil(wanted / tasks)
                most = max(least, math.floor(min(2 * wanted, cycles / TASK_CYCLES) / tasks))
                part_cost = 0.0
                if packed:  # each of these tasks fills packs of its own
                    filled = sum(_pack_elements(r, nest, tiles) for r in packed)
                    turns = max(1, round(_PACK_SHARE * cycles / filled / machine.cores))
                    # In a triangle, tasks of equal length have unequal work: more of them even that out.
                    if busy and (
                        turns < _TRIANGLE_TASKS or not any(w.guards & axes.keys() for w in work.values())
                    ):
                        break
                    least = min(least, math.ceil(turns * machine.cores / tasks))
                    part_cost = (
                        _PACK_ELEMENT_CYCLES * filled * tasks / machine.cores * (tasks * extent / cycles)
                    )
                parts = range(least, most + 1)
                cache = even_width(extent, t.register, parts, tasks, machine.cores, part_cost)
                tiles[n] = replace(t, cache=max(t.register, cache))
                have = math.ceil(extent / tiles[n].cache)
            busy = keeps_busy(extent, tiles[n].cache, tasks, machine.cores)
            tasks *= have
            parallel = i + 1
            if tasks >= wanted:
                break
    sums = dot.shifted_sum_axes(nest, c.phases, work) - fixed - given.keys()
    most: int | None = None
    for n in dynamic - fixed:
        step = tiles[n].register
        points = max(step, _KEPT_SUMS // step * step) if n in sums else CacheTile.WHOLE
        if tiles[n].cache != CacheTile.SHARE:
            tiles[n] = replace(tiles[n], cache=points)
        elif n in sums:
            most = points
    if options.parallel is False:
        parallel = 0
    inner = inner_order(context, tiles, c.phases, c.packs)
    lanes = lane_axis(tiles) or ""
    packs = tuple(Pack(r.statement, r.read, transposed_rows(r, lanes, machine)) for r in packed)
    prefetches: tuple[PrefetchHint, ...] = ()
    if options.prefetch is not False:
        traversal = prefetch.tile_traversal(context, tiles, inner, near_bytes)
        prefetches = prefetch.row_prefetches(traversal, phases, c.packs, unshared=not given)
        prefetches += prefetch.stencil_prefetches(traversal) + prefetch.result_prefetches(traversal)
        prefetches += prefetch.stream_prefetches(traversal, prefetches)
        if not packed:
            prefetches += prefetch.block_prefetches(traversal, phases, prefetches)
    return Tiling(tiles, tuple(order), inner, phases, packs, parallel, shared_tasks, prefetches, most)


def _in_given_order(nest: Nest, order: Sequence[str], options: Options) -> list[str]:
    """The loops over cache tiles in the order of the option; loops that it does not name follow."""
    named = [a.name for i in options.order or () for a in nest.axes[i : i + 1]]
    return [n for n in named if n in order] + [n for n in order if n not in named]


def _row_split_axis(
    context: NestContext, packed: Sequence[Ref], tiles: Mapping[str, Tile], cycles: float
) -> str | None:
    """The axis, that of the rows of a result, of which each core should have one part, though each core then
    fills all packs; None where that does not pay.

    Cores that have parts of the same rows wait for lines that other cores wrote the last time, and for
    adjacent lines: for 128 KiB 15 us, where a core with rows of its own writes them in 4 us.  A result that
    leaves the second caches in between has no such lines.
    """
    nest, machine = context.nest, context.machine
    if any(a.size is not None for a in (*nest.axes, *(a for p in nest.phases for a in p.axes))):
        return None
    result = max((r for r in context.refs if r.written), key=lambda r: r.elements)
    best = max(nest.axes, key=lambda a: abs(result.strides.get(a.name, 0)))
    filled = sum(_pack_elements(r, nest, tiles) for r in packed)
    small = result.elements * result.itemsize <= machine.l2 * machine.cores
    worth = filled < result.elements and 2 * filled * machine.cores <= cycles
    moves = any(r.strides.get(best.name, 0) for r in packed)
    share = _share_per_core(best.typical_extent, tiles[best.name], machine)
    enough = best.typical_extent >= MIN_BUSY * machine.cores * share and cycles >= TASK_CYCLES * machine.cores
    return best.name if small and worth and enough and not moves and not best.reductions else None


def _share_per_core(extent: int, t: Tile, machine: Machine) -> int:
    """The points of an axis that each core has, a whole number of register tiles."""
    return -(-extent // (machine.cores * t.register)) * t.register


def _revisited_points(context: NestContext, tiles: Mapping[str, Tile], vector: str) -> int:
    """The points of the vector axis whose results stay in the second cache from block to block."""
    t = tiles[vector]
    extents = {a.name: min(a.typical_extent, tiles[a.name].cache) for a in context.nest.axes}
    results = [footprint(r, extents) for r in context.accumulators.values() if r.strides.get(vector, 0)]
    parts = max(1.0, sum(results) / (context.machine.l2 / 2))
    return min(t.cache, max(t.register, math.ceil(extents[vector] / parts / t.register) * t.register))


def _pack_elements(r: Ref, nest: Nest, tiles: Mapping[str, Tile]) -> int:
    """Elements of the pack of a cache tile."""
    extents = {a.name: min(a.typical_extent, tiles[a.name].cache) for a in nest.axes}
    extents |= {a.name: a.typical_extent for p in nest.phases for a in p.axes}
    return math.prod(e for n, e in extents.items() if r.strides.get(n, 0))


def _max_tasks(packed: Sequence[Ref], phases: Sequence[PhaseTile], machine: Machine) -> float:
    """The most tasks to make: few where long rows are streamed side by side, the fewer the more of them."""
    rows = 0 if packed else max((p.block for p in phases if p.block is not None), default=0)
    return (TASKS_PER_CORE if not rows else machine.stream_tasks if rows <= STREAMS else 1.0) * machine.cores
