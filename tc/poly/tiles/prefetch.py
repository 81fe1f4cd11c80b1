"""Prefetches of a register tile: of what the next tile reads and writes, and of gathered rows ahead.

The next tile lies one step further along the axis that a `PrefetchHint` names.  A prefetch is emitted for
each cache line, not for each element.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tc.ir.expr import (
    ZERO,
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Min,
    Mul,
    Sub,
    Variable,
    inline_lets,
    substitute,
    variables,
    walk,
)
from tc.ir.loops import Prefetch, Stmt
from tc.ir.simplify import linear_terms, simplify
from tc.poly.bodies import zero_based
from tc.poly.tile_plan import Axis, Phase, PrefetchHint
from tc.poly.tiles.builder import ALIGNMENT, loads
from tc.poly.tiles.innermost import InnermostLoop
from tc.poly.tiles.register_tile import RegisterTile


def prefetch_next_reads(
    loop: InnermostLoop, base: Expr, offset: Expr, count: int
) -> tuple[list[Stmt], list[Stmt]]:
    """Prefetches of what the next register tile, or the next block of the phase, reads: those emitted once
    for the `count` unrolled points from `base` on, and those emitted for each of these points (`offset`).

    They are emitted once where the points are contiguous in memory.  The data go to the second cache, as a
    whole tile runs before they are used and the first cache has no room for two tiles.
    """
    tile = loop.tile
    once: list[Stmt] = []
    each: list[Stmt] = []
    for x in tile.tiling.prefetches:
        if x.statement not in loop.phase.statements or x.read is None:
            continue
        load = loads(tile.builder.bodies[x.statement])[x.read]
        steps = _element_strides(tile, x.statement, load)
        if abs(steps[loop.axis.name]) * load.dtype.itemsize < ALIGNMENT:
            end = simplify(Add(base, IntImm(count - 1)), exact=True)
            first = end if _continues_line(tile, x, load, steps) else base
            once += _prefetch_lines(tile, x, load, steps, loop.point(first))
        else:
            each += _prefetch_lines(tile, x, load, steps, loop.point(offset))
    return once, each


def prefetch_reads_without_loops(tile: RegisterTile, p: Phase) -> Iterator[Stmt]:
    """Prefetches of what a later register tile reads, in a phase without loops."""
    for x in tile.tiling.prefetches:
        if x.statement in p.statements and x.read is not None:
            load = loads(tile.builder.bodies[x.statement])[x.read]
            yield from _prefetch_lines(tile, x, load, _element_strides(tile, x.statement, load), {})


def prefetch_reads_of_vectors(loop: InnermostLoop, base: Expr, extent: int) -> list[Stmt]:
    """Prefetches of what a later register tile reads at `extent` points of the vector axis from `base` on."""
    tile = loop.tile
    out: list[Stmt] = []
    for x in tile.tiling.prefetches:
        if x.statement not in loop.phase.statements or x.read is None:
            continue
        load = loads(tile.builder.bodies[x.statement])[x.read]
        steps = _element_strides(tile, x.statement, load)
        size = abs(steps[loop.axis.name]) * load.dtype.itemsize
        for point in range(0, extent, max(1, ALIGNMENT // max(size, 1))):
            place = simplify(Add(base, IntImm(point)), exact=True)
            out += _prefetch_lines(tile, x, load, steps, loop.point(place))
    return out


def prefetch_next_results(tile: RegisterTile, loop: tuple[Expr, int] | None = None) -> list[Stmt]:
    """Prefetches of the elements that the next register tile writes; `loop` is a loop's variable and trip
    count, and the result is then the share of one of its iterations.

    They are spread over a loop since a core stalls once more lines are requested than it has fill buffers.
    """
    out: list[Stmt] = []
    for x in tile.tiling.prefetches:
        if x.read is None:
            stage = tile.builder.stages[x.statement]
            buffer = tile.builder.func_buffers[stage.func]
            if buffer in tile.builder.nontemporal:  # its stores read no lines
                continue
            subscripts = zero_based(stage.args, tile.builder.boxes[buffer])
            element = Load(buffer, subscripts, tile.builder.dtypes[buffer])
            still = {a.name: ZERO for p in tile.nest.phases for a in p.axes}
            out += _prefetch_lines(
                tile, x, element, _element_strides(tile, x.statement, element), still, loop
            )
    return out


def longest_phase(tile: RegisterTile) -> Phase | None:
    """The phase with most iterations among those that have a loop of constant trip count around others."""
    found: list[Phase] = []
    for p, t in zip(tile.nest.phases, tile.tiling.phases, strict=True):
        outer = next((a for a in p.axes if a.name != t.vector), None)
        if len(p.axes) > 1 and outer is not None and isinstance(tile.extent(outer), int):
            found.append(p)
    return max(found, key=lambda p: math.prod(a.typical_extent for a in p.axes), default=None)


def prefetch_gathered_rows(loop: InnermostLoop, offset: Expr, distance: int) -> list[Stmt]:
    """Prefetches of gathered rows, whose subscripts are loaded, `distance` iterations ahead of `offset`.

    Past the last iteration they are the rows of the next register tile.
    """
    tile, total = loop.tile, loop.extent
    later = Add(offset, IntImm(distance))
    next_tile: tuple[Axis, Expr] | None = None
    if isinstance(total, int):
        after = _next_tile_axis(tile)
        if after is not None and total >= distance:
            next_tile = after, FloorDiv(later, IntImm(total))
            later = FloorMod(later, IntImm(total))
        else:
            later = Min(later, IntImm(total - 1))
    else:
        later = Min(later, Sub(total, IntImm(1)))
    out: list[Stmt] = []
    for statement in loop.phase.statements:
        for load in loads(tile.builder.bodies[statement]):
            is_gather = any(
                isinstance(x, Load) and loop.axis.vars[statement] in variables(x)
                for e in load.subscripts
                for x in walk(e)
            )
            if not is_gather:
                continue

            def hint(offsets: dict[str, Expr], load: Load = load, statement: str = statement) -> Stmt:
                if next_tile is not None and next_tile[0].name in offsets:
                    a, further = next_tile
                    step = Mul(further, IntImm(tile.extents[a.name]))
                    end = Sub(
                        IntImm(a.typical_extent - 1), Add(tile.spans[a.name].origin, tile.local[a.name])
                    )
                    offsets = {**offsets, a.name: Min(Add(offsets[a.name], step), end)}
                env = dict(tile.point(statement, offsets, loop.point(later)))
                return Prefetch(load.buffer, tuple(substitute(e, env) for e in load.subscripts))

            out.append(tile.each_point(statement, hint))
    return out


def _next_tile_axis(tile: RegisterTile) -> Axis | None:
    """The axis along which the next register tile lies, if it has no lanes and a constant extent."""
    for n in reversed(tile.tiling.inner):
        a = next(a for a in tile.nest.axes if a.name == n)
        if a.size is not None or n in tile.parts:
            return None
        if tile.spans[n].extent > tile.extents[n]:
            return a if tile.tiling.tiles[n].lanes == 1 else None
    return None


def _prefetch_lines(
    tile: RegisterTile,
    x: PrefetchHint,
    element: Load,
    steps: Mapping[str, int],
    at: Mapping[str, Expr],
    loop: tuple[Expr, int] | None = None,
) -> Iterator[Stmt]:
    """A prefetch for each cache line that the next register tile along the axis of `hint` has of `element`.

    `at` are the points of the phase's axes, `steps` the strides of `element` in elements.  With a `loop`
    (variable and trip count) the result is the share of one iteration: the lines along the axis that has most
    of them are divided.
    """
    size = element.dtype.itemsize

    def places(n: str) -> range:
        extent = tile.extents[n]
        if not steps[n]:
            return range(1)
        line = max(1, ALIGNMENT // (abs(steps[n]) * size))
        first = (extent - 1) % line if n == x.axis and _continues_line(tile, x, element, steps) else 0
        return range(first, extent, line)

    names = [a.name for a in tile.nest.axes if x.statement in a.vars]
    longest = max(names, key=lambda n: len(places(n))) if loop is not None else None

    def level(names: Sequence[str], offsets: dict[str, Expr]) -> Iterator[Stmt]:
        if names:
            n = names[0]
            here: Iterable[Expr] = map(IntImm, places(n))
            if loop is not None and n == longest:
                here = _share(places(n), *loop)
            for i in here:
                yield from level(names[1:], {**offsets, n: i})
            return
        further, then = dict(offsets), dict(at)
        if x.axis in further:
            further[x.axis] = Add(further[x.axis], IntImm(x.tiles * tile.extents[x.axis]))
        else:
            then[x.axis] = Add(then[x.axis], IntImm(tile.cut[x.axis].extent))
        env = dict(tile.point(x.statement, further, then))
        where = tuple(substitute(e, env) for e in element.subscripts)
        yield Prefetch(element.buffer, where, x.level, x.read is None)

    return level(names, {})


def _continues_line(tile: RegisterTile, x: PrefetchHint, load: Load, steps: Mapping[str, int]) -> bool:
    """Whether the next tile's elements follow this tile's in memory, less than a line apart.

    This tile then has the line of the first of them, so the line of the last is prefetched.
    """
    return 0 < abs(steps[x.axis]) * load.dtype.itemsize < ALIGNMENT


def _element_strides(tile: RegisterTile, statement: str, load: Load) -> dict[str, int]:
    """The stride of a read along each axis, in elements."""
    box = tile.builder.boxes[load.buffer]
    out: dict[str, int] = {}
    axes = (*tile.nest.axes, *(a for p in tile.nest.phases for a in p.axes))
    names = {a.vars[statement]: a.name for a in axes if statement in a.vars}
    step = 1
    for e, r in zip(reversed(load.subscripts), reversed(box), strict=True):
        for term, factor in linear_terms(inline_lets(e))[0].items():
            if isinstance(term, Variable) and term.name in names:
                out[names[term.name]] = out.get(names[term.name], 0) + factor * step
        step *= r.extent.value if isinstance(r.extent, IntImm) else 1
    return {n: out.get(n, 0) for n in names.values()}


def _share(places: range, iteration: Expr, iterations: int) -> Iterator[Expr]:
    """The places for one of `iterations` iterations; several have the same if the numbers do not divide."""
    each = -(-len(places) // iterations)
    for k in range(each):
        if each == 1:
            i: Expr = FloorDiv(Mul(iteration, IntImm(len(places))), IntImm(iterations))
        else:
            i = Min(Add(Mul(iteration, IntImm(each)), IntImm(k)), IntImm(len(places) - 1))
        yield simplify(Add(Mul(i, IntImm(places.step)), IntImm(places.start)), exact=True)
