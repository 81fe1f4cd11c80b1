"""The loops of a phase inside of a register tile: serial, unrolled, and in lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tc.ir.expr import GT, ZERO, Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Variable
from tc.ir.loops import For, If, LoopKind, Stmt
from tc.ir.simplify import simplify
from tc.poly.tile_plan import Axis, Phase, PhaseTile
from tc.poly.tiles.builder import block, named
from tc.poly.tiles.dot_loops import dot_loop, dot_vectors, subtract_shift
from tc.poly.tiles.innermost import InnermostLoop
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
    loop = InnermostLoop(tile, p, t, vector if vector is not None else axes.pop(), {}, partial)
    before += [subtract_shift(tile, x, packed.shift) for x, packed in tile.packs.items()
               if packed.shift is not None and x.statement in p.statements]  # fmt: skip
    return block([*before, _loops(loop, axes), *after])


def _loops(loop: InnermostLoop, axes: Sequence[Axis]) -> Stmt:
    """The loops over `axes`, with the innermost one inside of them."""
    tile, t = loop.tile, loop.plan
    if axes:
        a = axes[0]
        var = tile.builder.name(a.name)
        inner = _loops(replace(loop, at={**loop.at, a.name: Variable(var)}), axes[1:])
        extent = tile.extent(a)
        if not loop.at and loop.phase is longest_phase(tile) and isinstance(extent, int):
            inner = block([*prefetch_next_results(tile, (Variable(var), extent)), inner])
        count = IntImm(extent) if isinstance(extent, int) else extent
        return For(var, ZERO, count, 1, LoopKind.SERIAL, inner)
    if t.dot is not None and t.vector is None:
        return dot_loop(loop, t.dot)
    if t.vector is None:
        return _unrolled(loop)
    step = t.lanes * t.accumulators * (1 if t.dot is None else t.dot.size)
    extent = loop.extent
    if not isinstance(extent, int):
        return _dynamic_vectors(loop, extent)
    whole, rest = divmod(extent, step)
    parts: list[Stmt] = []
    if whole:
        var = loop.name()
        s = _vectors(loop, Mul(Variable(var), IntImm(step)), step)
        parts.append(For(var, ZERO, IntImm(whole), 1, LoopKind.SERIAL, s))
    if rest:
        parts.append(_vectors(loop, IntImm(whole * step), rest))
    return block(parts)


def _dynamic_vectors(loop: InnermostLoop, extent: Expr) -> Stmt:
    """Loops over a vector axis of dynamic extent: over all accumulators, over single vectors, and a vector
    under a mask."""
    builder, t = loop.tile.builder, loop.plan
    step = t.lanes * t.accumulators
    several, vectors = builder.name("whole"), builder.name("vectors")
    var = loop.name()
    s = _vectors(loop, Mul(Variable(var), IntImm(step)), step)
    parts: list[Stmt] = [For(var, ZERO, Variable(several), 1, LoopKind.SERIAL, s)]
    if t.accumulators > 1:
        var = loop.name()
        s = _vectors(loop, Mul(Variable(var), IntImm(t.lanes)), t.lanes)
        low = Mul(Variable(several), IntImm(t.accumulators))
        parts.append(For(var, low, Variable(vectors), 1, LoopKind.SERIAL, s))
    if t.lanes > 1:
        lane, active, start = loop.name(), builder.name("active"), builder.name("at")
        offset = simplify(Add(Variable(start), Variable(lane)), exact=True)
        tail = block(
            loop.tile.points(
                x, loop.point(offset), (ZERO, Variable(lane), loop.partial.get(x)), lane,
                Variable(active), t.lanes,
            )
            for x in loop.phase.statements
        )  # fmt: skip
        tail = named(start, Mul(Variable(vectors), IntImm(t.lanes)), tail)
        tail = If(GT(Variable(active), ZERO), tail)
        parts.append(named(active, FloorMod(extent, IntImm(t.lanes)), tail))
    rest = named(vectors, FloorDiv(extent, IntImm(t.lanes)), block(parts))
    return named(several, FloorDiv(extent, IntImm(step)), rest)


def _vectors(loop: InnermostLoop, base: Expr, extent: int) -> Stmt:
    """`extent` points of the vector axis from `base` on: whole vectors, then a shorter one."""
    t = loop.plan
    if t.dot is not None:
        return dot_vectors(loop, t.dot, base, extent)
    parts: list[Stmt] = []
    q, r = divmod(extent, t.lanes)
    u, lane = loop.name(), loop.name()
    for count, start, lanes in ((q, None, t.lanes), (1 if r else 0, q, r)):
        if not count:
            continue
        number: Expr = Variable(u) if start is None else IntImm(start)
        offset = simplify(Add(Add(base, Mul(number, IntImm(t.lanes))), Variable(lane)), exact=True)
        s: Stmt = block(
            loop.tile.points(
                x, loop.point(offset), (number, Variable(lane), loop.partial.get(x)), lane, lanes, t.lanes
            )
            for x in loop.phase.statements
        )
        parts.append(For(u, ZERO, IntImm(count), 1, LoopKind.UNROLLED, s) if start is None else s)
    return block([*prefetch_reads_of_vectors(loop, base, extent), *parts])


def _unrolled(loop: InnermostLoop) -> Stmt:
    # Remainders have code of their own, which runs seldom: it is unrolled less, to be short.
    extents, tiles, unroll = loop.tile.extents, loop.tile.tiling.tiles, loop.plan.unroll
    if any(e < tiles[n].register - tiles[n].even for n, e in extents.items()):
        unroll = min(unroll, REMAINDER_UNROLL) if math.prod(extents.values()) >= 8 else unroll
    total = loop.extent
    if not isinstance(total, int):
        return _dynamic_unrolled(loop, total)
    whole, rest = divmod(total, unroll)
    parts: list[Stmt] = []
    for count, start, extent in ((whole, None, unroll), (1 if rest else 0, whole * unroll, rest)):
        if not count:
            continue
        var = loop.name()
        base: Expr = Mul(Variable(var), IntImm(unroll)) if start is None else IntImm(start)
        s = _iterations(loop, base, extent)
        parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
    return block(parts)


def _dynamic_unrolled(loop: InnermostLoop, total: Expr) -> Stmt:
    """A last loop of dynamic extent: unrolled iterations, then the rest one at a time."""
    unroll = loop.plan.unroll
    var = loop.name()
    if unroll == 1:
        return For(var, ZERO, total, 1, LoopKind.SERIAL, _iterations(loop, Variable(var), 1))
    whole, single = loop.tile.builder.name("whole"), loop.name()
    s = _iterations(loop, Mul(Variable(var), IntImm(unroll)), unroll)
    first = For(var, ZERO, Variable(whole), 1, LoopKind.SERIAL, s)
    s = _iterations(loop, Variable(single), 1)
    rest = For(single, Mul(Variable(whole), IntImm(unroll)), total, 1, LoopKind.SERIAL, s)
    return named(whole, FloorDiv(total, IntImm(unroll)), block([first, rest]))


def _iterations(loop: InnermostLoop, base: Expr, count: int) -> Stmt:
    """`count` unrolled iterations of the last loop of a phase, from `base` on, with their prefetches."""
    u = loop.name()
    offset = simplify(Add(base, Variable(u)), exact=True) if count > 1 else base
    distance = loop.plan.prefetch
    hints = prefetch_gathered_rows(loop, offset, distance) if distance else []
    once, each = prefetch_next_reads(loop, base, offset, count)
    points = (loop.tile.points(x, loop.point(offset), None) for x in loop.phase.statements)
    s = block([*hints, *each, *points])
    if count > 1:
        s = For(u, ZERO, IntImm(count), 1, LoopKind.UNROLLED, s)
    return block([*once, s])
