"""Loops of sums of products of narrow integers, which dot product instructions compute."""

from __future__ import annotations

from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Mul, Sub, Variable, substitute
from tc.ir.loops import Compute, For, LoopKind, Stmt
from tc.ir.simplify import simplify
from tc.poly.bodies import zero_based
from tc.poly.tile_plan import Dot, Pack
from tc.poly.tiles.builder import block
from tc.poly.tiles.dots import Shift, zero_of
from tc.poly.tiles.innermost import InnermostLoop
from tc.poly.tiles.prefetch import prefetch_next_reads
from tc.poly.tiles.register_tile import RegisterTile


def dot_loop(loop: InnermostLoop, dot: Dot) -> Stmt:
    """The loop of a sum of products, `dot.size` points at a time; the last group may have fewer."""
    tile, t, total = loop.tile, loop.plan, loop.extent
    assert isinstance(total, int) and loop.phase.statements == (dot.statement,)
    whole, rest = divmod(total, dot.size)
    inside = loop.name()

    def group(number: Expr, points: int) -> Stmt:
        point = simplify(Add(Mul(number, IntImm(dot.size)), Variable(inside)), exact=True)

        def innermost(offsets: dict[str, Expr]) -> Stmt:
            s = tile.instance(dot.statement, offsets, loop.point(point), None)
            return For(inside, ZERO, IntImm(points), 1, LoopKind.DOT, s)

        return tile.each_point(dot.statement, innermost)

    parts: list[Stmt] = []
    for count, start, extent in (
        (whole // t.unroll, None, t.unroll), (1, whole - whole % t.unroll, whole % t.unroll)
    ):  # fmt: skip
        if not count or not extent:
            continue
        var, u = loop.name(), loop.name()
        base: Expr = Mul(Variable(var), IntImm(t.unroll)) if start is None else IntImm(start)
        point = Mul(base, IntImm(dot.size))
        once, _ = prefetch_next_reads(loop, point, point, 1)
        s = For(u, ZERO, IntImm(extent), 1, LoopKind.UNROLLED, group(Add(base, Variable(u)), dot.size))
        s = block([*once, s])
        parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
    if rest:
        parts.append(group(IntImm(whole), rest))
    return block(parts)


def dot_vectors(loop: InnermostLoop, dot: Dot, base: Expr, extent: int) -> Stmt:
    """`extent` points of the vector axis from `base` on, `dot.size` of them in each lane; what is left over
    has one point in each lane."""
    tile, lanes, x = loop.tile, loop.plan.lanes, dot.statement
    size = dot.size * lanes
    whole = extent // size
    u, lane, inside = (loop.name() for _ in range(3))
    parts: list[Stmt] = []
    if whole:
        place = Add(Mul(Variable(u), IntImm(size)), Mul(Variable(lane), IntImm(dot.size)))
        offset = simplify(Add(base, Add(place, Variable(inside))), exact=True)
        where = Variable(u), Variable(lane), loop.partial.get(x)
        s = tile.points(x, loop.point(offset), where, lane, lanes, lanes, (inside, dot.size))
        parts.append(For(u, ZERO, IntImm(whole), 1, LoopKind.UNROLLED, s))
    for start in range(whole * size, extent, lanes):
        offset = simplify(Add(Add(base, IntImm(start)), Variable(lane)), exact=True)
        where = ZERO, Variable(lane), loop.partial.get(x)
        parts.append(tile.points(x, loop.point(offset), where, lane, min(lanes, extent - start), lanes))
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
