"""The loops of a phase inside of a register tile: serial, unrolled, and in lanes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tc.ir.expr import GT, ZERO, Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Variable
from tc.ir.loops import Array, For, If, LoopKind, Stmt
from tc.ir.simplify import simplify
from tc.poly.tile_plan import Axis, Phase, PhaseTile
from tc.poly.tiles.builder import block, named
from tc.poly.tiles.dot_loops import dot_loop, dot_vectors, subtract_shift
from tc.poly.tiles.partial_results import combine_partial, declare_partial, initialize_partial
from tc.poly.tiles.prefetch import (
    longest_phase,
    prefetch_gathered_rows,
    prefetch_next_reads,
    prefetch_next_results,
    prefetch_reads_of_vectors,
    prefetch_reads_without_loops,
)
from tc.poly.tiles.register_tile import RegisterTile

REMAINDER_UNROLL = 2  # unroll factor, at most, in register tiles that are not whole


def phase_loops(tile: RegisterTile, p: Phase, t: PhaseTile) -> Stmt:
    """All points of a phase in a register tile: the loops `t`, and what initializes and combines partial
    results around them."""
    if not p.axes:
        return block(
            [*prefetch_reads_without_loops(tile, p), *(tile.points(s, {}, None) for s in p.statements)]
        )
    vector = next((a for a in p.axes if a.name == t.vector), None)
    partial = {
        s: declare_partial(tile, s, t) for s in p.statements if vector is not None and s in vector.reductions
    }
    before = [initialize_partial(tile, s, a, t) for s, a in partial.items()]
    after = [combine_partial(tile, s, a, t) for s, a in partial.items()]
    # The vector axis runs innermost, else the last axis.
    axes = [a for a in p.axes if a is not vector]
    last = vector if vector is not None else axes.pop()
    before += [subtract_shift(tile, x, packed.shift) for x, packed in tile.packs.items()
               if packed.shift is not None and x.statement in p.statements]  # fmt: skip
    return block([*before, _loops(tile, p, t, axes, last, {}, partial), *after])


def _loops(
    tile: RegisterTile,
    p: Phase,
    t: PhaseTile,
    axes: Sequence[Axis],
    last: Axis,
    at: dict[str, Expr],
    partial: Mapping[str, Array],
) -> Stmt:
    """The loops over `axes`, with the loop over `last` innermost; `at` are the points of the loops around,
    `partial` the arrays of partial results by statement."""
    if axes:
        a = axes[0]
        var = tile.builder.name(a.name)
        inner = _loops(tile, p, t, axes[1:], last, {**at, a.name: Variable(var)}, partial)
        extent = tile.extent(a)
        if not at and p is longest_phase(tile) and isinstance(extent, int):
            inner = block([*prefetch_next_results(tile, (Variable(var), extent)), inner])
        count = IntImm(extent) if isinstance(extent, int) else extent
        return For(var, ZERO, count, 1, LoopKind.SERIAL, inner)
    if t.dot is not None and t.vector is None:
        return dot_loop(tile, p, last, t, t.dot, at)
    if t.vector is None:
        return _unrolled(tile, p, last, t, at)
    step = t.lanes * t.accumulators * (1 if t.dot is None else t.dot.size)
    extent = tile.extent(last)
    if not isinstance(extent, int):
        return _dynamic_vectors(tile, p, last, extent, at, t, partial)
    whole, rest = divmod(extent, step)
    parts: list[Stmt] = []
    if whole:
        var = tile.builder.name(last.name)
        s = _vectors(tile, p, last, at, Mul(Variable(var), IntImm(step)), step, t, partial)
        parts.append(For(var, ZERO, IntImm(whole), 1, LoopKind.SERIAL, s))
    if rest:
        parts.append(_vectors(tile, p, last, at, IntImm(whole * step), rest, t, partial))
    return block(parts)


def _dynamic_vectors(
    tile: RegisterTile, p: Phase, last: Axis, extent: Expr, at: dict[str, Expr], t: PhaseTile,
    partial: Mapping[str, Array],
) -> Stmt:  # fmt: skip
    """Loops over a vector axis of dynamic extent: over all accumulators, over single vectors, and a vector
    under a mask."""
    builder = tile.builder
    step = t.lanes * t.accumulators
    several, vectors = builder.name("whole"), builder.name("vectors")
    var = builder.name(last.name)
    s = _vectors(tile, p, last, at, Mul(Variable(var), IntImm(step)), step, t, partial)
    parts: list[Stmt] = [For(var, ZERO, Variable(several), 1, LoopKind.SERIAL, s)]
    if t.accumulators > 1:
        var = builder.name(last.name)
        s = _vectors(tile, p, last, at, Mul(Variable(var), IntImm(t.lanes)), t.lanes, t, partial)
        low = Mul(Variable(several), IntImm(t.accumulators))
        parts.append(For(var, low, Variable(vectors), 1, LoopKind.SERIAL, s))
    if t.lanes > 1:
        lane, active, start = builder.name(last.name), builder.name("active"), builder.name("at")
        offset = simplify(Add(Variable(start), Variable(lane)), exact=True)
        tail = block(
            tile.points(
                x, {**at, last.name: offset}, (ZERO, Variable(lane), partial.get(x)), lane,
                Variable(active), t.lanes,
            )
            for x in p.statements
        )  # fmt: skip
        tail = named(start, Mul(Variable(vectors), IntImm(t.lanes)), tail)
        tail = If(GT(Variable(active), ZERO), tail)
        parts.append(named(active, FloorMod(extent, IntImm(t.lanes)), tail))
    rest = named(vectors, FloorDiv(extent, IntImm(t.lanes)), block(parts))
    return named(several, FloorDiv(extent, IntImm(step)), rest)


def _vectors(
    tile: RegisterTile, p: Phase, last: Axis, at: dict[str, Expr], base: Expr, extent: int, t: PhaseTile,
    partial: Mapping[str, Array],
) -> Stmt:  # fmt: skip
    """`extent` points of the vector axis from `base` on: whole vectors, then a shorter one."""
    if t.dot is not None:
        return dot_vectors(tile, p, last, at, base, extent, t, t.dot, partial)
    parts: list[Stmt] = []
    q, r = divmod(extent, t.lanes)
    u, lane = tile.builder.name(last.name), tile.builder.name(last.name)
    for count, start, lanes in ((q, None, t.lanes), (1 if r else 0, q, r)):
        if not count:
            continue
        number: Expr = Variable(u) if start is None else IntImm(start)
        offset = simplify(Add(Add(base, Mul(number, IntImm(t.lanes))), Variable(lane)), exact=True)
        s: Stmt = block(
            tile.points(
                x,
                {**at, last.name: offset},
                (number, Variable(lane), partial.get(x)),
                lane,
                lanes,
                t.lanes,
            )
            for x in p.statements
        )
        parts.append(For(u, ZERO, IntImm(count), 1, LoopKind.UNROLLED, s) if start is None else s)
    return block([*prefetch_reads_of_vectors(tile, p, last, at, base, extent), *parts])


def _unrolled(tile: RegisterTile, p: Phase, last: Axis, t: PhaseTile, at: dict[str, Expr]) -> Stmt:
    # Remainders have code of their own, which runs seldom: it is unrolled less, to be short.
    tiles = tile.tiling.tiles
    partial = any(e < tiles[n].register - tiles[n].even for n, e in tile.extents.items())
    unroll = (
        min(t.unroll, REMAINDER_UNROLL) if partial and math.prod(tile.extents.values()) >= 8 else t.unroll
    )
    total = tile.extent(last)
    if not isinstance(total, int):
        return _dynamic_unrolled(tile, p, last, total, t, at)
    whole, rest = divmod(total, unroll)
    parts: list[Stmt] = []
    for count, start, extent in ((whole, None, unroll), (1 if rest else 0, whole * unroll, rest)):
        if not count:
            continue
        var = tile.builder.name(last.name)
        base: Expr = Mul(Variable(var), IntImm(unroll)) if start is None else IntImm(start)
        s = _iterations(tile, p, last, t, at, base, extent)
        parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
    return block(parts)


def _dynamic_unrolled(
    tile: RegisterTile, p: Phase, last: Axis, total: Expr, t: PhaseTile, at: dict[str, Expr]
) -> Stmt:
    """A last loop of dynamic extent: unrolled iterations, then the rest one at a time."""
    var = tile.builder.name(last.name)
    if t.unroll == 1:
        s = _iterations(tile, p, last, t, at, Variable(var), 1)
        return For(var, ZERO, total, 1, LoopKind.SERIAL, s)
    whole, single = tile.builder.name("whole"), tile.builder.name(last.name)
    s = _iterations(tile, p, last, t, at, Mul(Variable(var), IntImm(t.unroll)), t.unroll)
    first = For(var, ZERO, Variable(whole), 1, LoopKind.SERIAL, s)
    s = _iterations(tile, p, last, t, at, Variable(single), 1)
    rest = For(single, Mul(Variable(whole), IntImm(t.unroll)), total, 1, LoopKind.SERIAL, s)
    return named(whole, FloorDiv(total, IntImm(t.unroll)), block([first, rest]))


def _iterations(
    tile: RegisterTile, p: Phase, last: Axis, t: PhaseTile, at: dict[str, Expr], base: Expr, count: int
) -> Stmt:
    """`count` unrolled iterations of the last loop of a phase, from `base` on, with their prefetches."""
    u = tile.builder.name(last.name)
    offset = simplify(Add(base, Variable(u)), exact=True) if count > 1 else base
    hints = prefetch_gathered_rows(tile, p, last, at, offset, t.prefetch) if t.prefetch else []
    once, each = prefetch_next_reads(tile, p, last, at, base, offset, count)
    points = (tile.points(x, {**at, last.name: offset}, None) for x in p.statements)
    s = block([*hints, *each, *points])
    if count > 1:
        s = For(u, ZERO, IntImm(count), 1, LoopKind.UNROLLED, s)
    return block([*once, s])
