"""Loops of sums of products of narrow integers, which dot product instructions compute."""

from __future__ import annotations

from collections.abc import Mapping

from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Mul, Sub, Variable, substitute
from tc.ir.loops import Array, Compute, For, LoopKind, Stmt
from tc.ir.simplify import simplify
from tc.poly.bodies import zero_based
from tc.poly.tile_plan import Axis, Dot, Pack, Phase, PhaseTile
from tc.poly.tiles.builder import block
from tc.poly.tiles.dots import Shift, zero_of
from tc.poly.tiles.prefetch import prefetch_next_reads
from tc.poly.tiles.register_tile import RegisterTile


def dot_loop(tile: RegisterTile, p: Phase, last: Axis, t: PhaseTile, dot: Dot, at: dict[str, Expr]) -> Stmt:
    """The loop of a sum of products, `dot.size` points at a time; the last group may have fewer."""
    total = tile.extent(last)
    assert isinstance(total, int) and p.statements == (dot.statement,)
    whole, rest = divmod(total, dot.size)
    inside = tile.builder.name(last.name)

    def group(number: Expr, points: int) -> Stmt:
        point = simplify(Add(Mul(number, IntImm(dot.size)), Variable(inside)), exact=True)

        def innermost(offsets: dict[str, Expr]) -> Stmt:
            s = tile.instance(dot.statement, offsets, {**at, last.name: point}, None)
            return For(inside, ZERO, IntImm(points), 1, LoopKind.DOT, s)

        return tile.each_point(dot.statement, innermost)

    parts: list[Stmt] = []
    for count, start, extent in (
        (whole // t.unroll, None, t.unroll), (1, whole - whole % t.unroll, whole % t.unroll)
    ):  # fmt: skip
        if not count or not extent:
            continue
        var, u = tile.builder.name(last.name), tile.builder.name(last.name)
        base: Expr = Mul(Variable(var), IntImm(t.unroll)) if start is None else IntImm(start)
        point = Mul(base, IntImm(dot.size))
        once, _ = prefetch_next_reads(tile, p, last, at, point, point, 1)
        s = For(u, ZERO, IntImm(extent), 1, LoopKind.UNROLLED, group(Add(base, Variable(u)), dot.size))
        s = block([*once, s])
        parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
    if rest:
        parts.append(group(IntImm(whole), rest))
    return block(parts)


def dot_vectors(
    tile: RegisterTile, p: Phase, last: Axis, at: dict[str, Expr], base: Expr, extent: int, t: PhaseTile,
    dot: Dot, partial: Mapping[str, Array],
) -> Stmt:  # fmt: skip
    """`extent` points of the vector axis from `base` on, `dot.size` of them in each lane; what is left over
    has one point in each lane."""
    x, size = dot.statement, dot.size * t.lanes
    whole = extent // size
    u, lane, inside = (tile.builder.name(last.name) for _ in range(3))
    parts: list[Stmt] = []
    if whole:
        place = Add(Mul(Variable(u), IntImm(size)), Mul(Variable(lane), IntImm(dot.size)))
        offset = simplify(Add(base, Add(place, Variable(inside))), exact=True)
        where = Variable(u), Variable(lane), partial.get(x)
        s = tile.points(x, {**at, last.name: offset}, where, lane, t.lanes, t.lanes, (inside, dot.size))
        parts.append(For(u, ZERO, IntImm(whole), 1, LoopKind.UNROLLED, s))
    for start in range(whole * size, extent, t.lanes):
        offset = simplify(Add(Add(base, IntImm(start)), Variable(lane)), exact=True)
        where = ZERO, Variable(lane), partial.get(x)
        lanes = min(t.lanes, extent - start)
        parts.append(tile.points(x, {**at, last.name: offset}, where, lane, lanes, t.lanes))
    return block(parts)


def subtract_shift(tile: RegisterTile, x: Pack, shift: Shift) -> Stmt:
    """Subtract from the results the amount that products with a shifted pack are too large by."""
    stage = tile.builder.stages[x.statement]
    buffer = tile.builder.func_buffers[stage.func]

    def make(offsets: dict[str, Expr]) -> Stmt:
        still = {a.name: ZERO for p in tile.nest.phases for a in p.axes}
        place = tile.inside(x.statement, offsets, still)
        point = tile.point(x.statement, offsets, still)
        subscripts = zero_based((substitute(e, point) for e in stage.args), tile.builder.boxes[buffer])
        where = tuple(simplify(place[n], exact=True) for n in shift.axes)
        t = shift.array.dtype
        value = Sub(zero_of(t), Load(shift.array.name, where, t))
        return Compute(f"{x.statement}.shift", buffer, subscripts, "+", value, (), stage.text)

    return tile.each_point(x.statement, make)
