"""From a register tile to cache tiles, their order, packs and threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.ir.expr import Expr
from tc.options import Options
from tc.poly.tile_plan import SHARE, WHOLE, Ahead, Nest, Pack, PhaseTile, Tile, Tiling

from ..cost import dot
from ..cost.balance import BUSY, TASKS, even, even_width
from ..cost.cache_lines import blocked_rows, inner_order, outer_order, rows_together
from ..cost.pack_sizes import packed_bytes, packed_width, row_axis, row_share, row_tiles
from ..cost.register_tile import Candidate, along_lanes
from ..cost.work import Ref, Work, footprint, held_buffers
from ..target import Machine
from . import prefetch
from .reduction_blocks import STREAMS
from .shares import number_of_tasks, shares

_SUMS = 1024  # sums of the rows of a factor that are kept, where there is no saying how many rows there are
TASK = 8000.0  # cycles that a task should have at least
_TURNS = 4  # tasks for each processor, at least, that even out what they have to do
_FILLING = 0.05  # elements of packs, of all tasks, for each cycle of a nest
_FILLED = 0.5  # cycles for each of them
_SERIAL = 16000.0  # cycles below which one thread is faster


def tiling(
    nest: Nest,
    work: Mapping[str, Work],
    c: Candidate,
    machine: Machine,
    given: Mapping[str, int],
    cycles: float,
    options: Options,
) -> Tiling:
    """Cache tiles, their order, and which of them run in parallel."""
    tiles = {n: replace(t, cache=given.get(n, t.cache)) for n, t in c.tiles.items()}
    axes = {a.name: a for a in nest.axes}
    refs = [r for w in work.values() for r in w.refs]
    packed = [r for r in refs if (r.statement, r.read) in c.packs]
    free = [n for n in axes if n not in given and not axes[n].reductions]
    order = [n for n in outer_order(nest, work, machine) if n in free]
    near = 0 if options.prefetch else machine.l2  # bytes of arrays of which nothing is asked for early
    phases = c.phases
    vector = along_lanes(tiles)
    rows: str | None = None
    if packed and vector is not None:
        depends = {n for r in packed for n in r.strides if n in axes and r.strides[n]}
        order = [n for n in order if n in depends] + [n for n in order if n not in depends]
        row = row_axis(work, c)
        if row in given:
            row = None
        if row is not None:
            each = packed_bytes(nest, packed, c.phases)
            share = row_share(axes[row].extent, tiles[row].register, each, machine)
            tiles[row] = replace(tiles[row], cache=share)
        elif not given and options.tile is None and options.order is None and options.parallel is not False:
            rows = _rows(nest, refs, packed, tiles, cycles, machine)
        if rows is not None:
            order = [rows, *(n for n in order if n != rows)]
            tiles[rows] = replace(tiles[rows], cache=_share(axes[rows].extent, tiles[rows], machine))
        whole = row_tiles(nest, packed, c, {n: a.extent for n, a in axes.items()}, machine)
        for n in order:
            if n in depends and n not in (vector, row):
                tiles[n] = replace(tiles[n], cache=whole.get(n, tiles[n].register))
        if vector in order:
            shared = cycles > _SERIAL and rows is None
            width = packed_width(nest, packed, replace(c, tiles=tiles), order, shared, machine, row)
            tiles[vector] = replace(tiles[vector], cache=width)
    elif vector is not None and (streamed := blocked_rows(nest, work, tiles, phases, c.packs)):
        along = {n for r in streamed for n in r.strides if r.strides[n]}
        order = sorted(order, key=lambda n: n not in along)
        for n in order:  # each point has rows of its own
            if n != vector and all(r.strides.get(n, 0) for r in streamed):
                tiles[n] = replace(tiles[n], cache=tiles[n].register)
        tiles[vector] = replace(tiles[vector], cache=_revisited(nest, work, tiles, vector, machine))
    if options.prefetch is not False:
        phases = tuple(
            replace(x, prefetch=prefetch.POINTED) if prefetch.pointed(p, work, near) else x
            for p, x in zip(nest.phases, phases, strict=True)
        )
    order = _ordered(nest, order, options)
    parallel = 0
    shared_tasks: Expr | None = None
    inside = [a for p in nest.phases for a in p.axes]
    dynamic = {n for n in order if axes[n].size is not None}
    fixed = {n for r in packed for n in r.strides if r.strides[n]} if packed else set[str]()
    if options.tile is not None:
        for a, points in zip(nest.axes, options.tile, strict=False):
            if a.name not in given:
                t = tiles[a.name]
                tiles[a.name] = replace(t, cache=-(-min(points, a.extent) // t.register) * t.register)
                fixed.add(a.name)
        parallel = 0 if given else len(order)
    elif not given and (dynamic or any(a.size is not None for a in inside)):
        many = round(_parallel_tasks(packed, phases, machine))
        # Each task fills its packs.
        filled = sum(_filled(r, nest, tiles) for r in packed)
        shared_tasks = number_of_tasks(nest.axes, inside, cycles, max(TASK, 4 * filled), many)
        made = [n for n in order if n in fixed and n not in dynamic]
        have = math.prod(math.ceil(axes[n].extent / tiles[n].cache) for n in made)
        shared = [n for n in order if n in fixed] if packed and have >= machine.cores else order
        tiles, parallel = shares(nest, shared, tiles, frozenset(fixed), many)
    elif rows is not None:
        parallel = 1
    elif not given and cycles > _SERIAL:
        wanted = min(cycles / TASK, _parallel_tasks(packed, phases, machine))
        tasks, busy = 1, False
        for i, n in enumerate(order):
            extent, t = axes[n].extent, tiles[n]
            have = math.ceil(extent / t.cache)
            if n not in fixed and tasks * have < wanted and t.cache > t.register:
                least = math.ceil(wanted / tasks)
                most = max(least, math.floor(min(2 * wanted, cycles / TASK) / tasks))
                dearer = 0.0
                if packed:  # each of these tasks fills packs of its own
                    filled = sum(_filled(r, nest, tiles) for r in packed)
                    turns = max(1, round(_FILLING * cycles / filled / machine.cores))
                    # Of a triangle, tasks as long as others have less to do: more of them even that out.
                    if busy and (turns < _TURNS or not any(w.guards & axes.keys() for w in work.values())):
                        break
                    least = min(least, math.ceil(turns * machine.cores / tasks))
                    dearer = _FILLED * filled * tasks / machine.cores * (tasks * extent / cycles)
                parts = range(least, most + 1)
                cache = even_width(extent, t.register, parts, tasks, machine.cores, dearer)
                tiles[n] = replace(t, cache=max(t.register, cache))
                have = math.ceil(extent / tiles[n].cache)
            busy = even(extent, tiles[n].cache, tasks, machine.cores)
            tasks *= have
            parallel = i + 1
            if tasks >= wanted:
                break
    sums = dot.summed(nest, c.phases, work) - fixed - given.keys()
    most: int | None = None
    for n in dynamic - fixed:
        step = tiles[n].register
        points = max(step, _SUMS // step * step) if n in sums else WHOLE
        if tiles[n].cache != SHARE:
            tiles[n] = replace(tiles[n], cache=points)
        elif n in sums:
            most = points
    if options.parallel is False:
        parallel = 0
    inner = inner_order(nest, work, tiles, c.phases, c.packs, held_buffers(nest, work), machine)
    lanes = along_lanes(tiles) or ""
    packs = tuple(Pack(r.statement, r.read, rows_together(r, lanes, machine)) for r in packed)
    early: tuple[Ahead, ...] = ()
    if options.prefetch is not False:
        walk = prefetch.walk(nest, work, tiles, inner, machine, near)
        early = prefetch.next_rows(walk, phases, c.packs, alone=not given)
        early += prefetch.later_rows(walk) + prefetch.next_results(walk)
        if not packed:
            early += prefetch.next_block(walk, phases, early)
    return Tiling(tiles, tuple(order), inner, phases, packs, parallel, shared_tasks, early, most)


def _ordered(nest: Nest, order: Sequence[str], options: Options) -> list[str]:
    """Loops over cache tiles in the order that is wanted; those that are not named follow."""
    named = [a.name for i in options.order or () for a in nest.axes[i : i + 1]]
    return [n for n in named if n in order] + [n for n in order if n not in named]


def _rows(
    nest: Nest,
    refs: Sequence[Ref],
    packed: Sequence[Ref],
    tiles: Mapping[str, Tile],
    cycles: float,
    machine: Machine,
) -> str | None:
    """The axis of which each processor had better have a part, that of the rows of a result, though each
    fills all packs then.

    Processors that have parts of the same rows wait for lines that others wrote the last time, and those
    beside them: for 128 KiB 15 us where a processor with its own writes them in 4.  A result that leaves the
    second caches in between has no such lines.
    """
    if any(a.size is not None for a in (*nest.axes, *(a for p in nest.phases for a in p.axes))):
        return None
    result = max((r for r in refs if r.written), key=lambda r: r.elements)
    best = max(nest.axes, key=lambda a: abs(result.strides.get(a.name, 0)))
    filled = sum(_filled(r, nest, tiles) for r in packed)
    small = result.elements * result.itemsize <= machine.l2 * machine.cores
    worth = filled < result.elements and 2 * filled * machine.cores <= cycles
    moves = any(r.strides.get(best.name, 0) for r in packed)
    share = _share(best.extent, tiles[best.name], machine)
    enough = best.extent >= BUSY * machine.cores * share and cycles >= TASK * machine.cores
    return best.name if small and worth and enough and not moves and not best.reductions else None


def _share(extent: int, t: Tile, machine: Machine) -> int:
    """The points of an axis that each processor has, whole register tiles."""
    return -(-extent // (machine.cores * t.register)) * t.register


def _revisited(
    nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile], vector: str, machine: Machine
) -> int:
    """The points of the vector axis of which the results stay in the second cache from block to block."""
    t = tiles[vector]
    extents = {a.name: min(a.extent, tiles[a.name].cache) for a in nest.axes}
    held = [footprint(r, extents) for r in held_buffers(nest, work).values() if r.strides.get(vector, 0)]
    parts = max(1.0, sum(held) / (machine.l2 / 2))
    return min(t.cache, max(t.register, math.ceil(extents[vector] / parts / t.register) * t.register))


def _filled(r: Ref, nest: Nest, tiles: Mapping[str, Tile]) -> int:
    """Elements of the pack of a cache tile."""
    extents = {a.name: min(a.extent, tiles[a.name].cache) for a in nest.axes}
    extents |= {a.name: a.extent for p in nest.phases for a in p.axes}
    return math.prod(e for n, e in extents.items() if r.strides.get(n, 0))


def _parallel_tasks(packed: Sequence[Ref], phases: Sequence[PhaseTile], machine: Machine) -> float:
    """The most tasks to make: few where long rows are streamed side by side, the more of them the fewer."""
    rows = 0 if packed else max((p.block for p in phases if p.block is not None), default=0)
    return (float(TASKS) if not rows else 2.0 if rows <= STREAMS else 1.0) * machine.cores
