"""Axes of dynamic extent: their cache tiles, and the register tiles in one with their remainder.

The main loop has no guards.  The remainder of an axis runs as one register tile, with code for each length;
or as register tiles of descending powers of two, each at most once (along the lanes: powers of two of
vectors, then a vector under a mask).  The latter limits code size where several axes have remainders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tc.ir.expr import EQ, GE, GT, ZERO, Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Variable
from tc.ir.loops import For, If, LoopKind, Stmt
from tc.ir.simplify import simplify
from tc.poly.tile_plan import Axis, CacheTile
from tc.poly.tiles.builder import Builder, Span, axis_span, block, named

EXACT = 8  # points of a register tile, at most, for code of its own for each length of a remainder

Name = tuple[str, Expr]


@dataclass(frozen=True, slots=True)
class Tiles:
    """The cache tiles of an axis: `loop` is the iterator and the number of tiles (None: one tile), `before`
    are named values computed once, `inside` those computed in each tile."""

    span: Span
    loop: Name | None = None
    before: tuple[Name, ...] = ()
    inside: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """Tiles of equal length, one for each of `tasks`: a multiple of `step` points, at most `most`."""

    tasks: Expr
    step: int
    most: int | None = None


def cache_tiles(builder: Builder, a: Axis, size: int | Share) -> Tiles:
    """The cache tiles, of `size` points, of an axis whose extent or tile length is dynamic."""
    if size == CacheTile.WHOLE:
        return Tiles(axis_span(a))
    var = builder.name(a.name)
    if size == 1:
        return Tiles(Span(Variable(var), 1, 1), (var, a.points))
    before: list[Name] = []
    length: Expr = IntImm(0)
    if isinstance(size, Share):
        tile = builder.name("tile")
        before.append((tile, _share(a.points, size)))
        length = Variable(tile)
    else:
        length = IntImm(size)
    number, points = builder.name("tiles"), builder.name("points")
    before.append((number, ceil_div(a.points, length)))
    origin = Mul(Variable(var), length)
    left = simplify(Sub(a.points, origin), exact=True)
    bound = size if isinstance(size, int) else size.most or 0
    span = Span(origin, bound, 0, None, Variable(points))
    return Tiles(span, (var, Variable(number)), tuple(before), ((points, Min(length, left)),))


def ceil_div(a: Expr, b: Expr) -> Expr:
    """`a / b` rounded up."""
    return a if b == IntImm(1) else FloorDiv(simplify(Sub(Add(a, b), IntImm(1)), exact=True), b)


def _share(total: Expr, s: Share) -> Expr:
    """The length of a tile that is a share of `total` points."""
    step = IntImm(s.step)
    whole = Mul(ceil_div(ceil_div(total, s.tasks), step), step) if s.step > 1 else ceil_div(total, s.tasks)
    return Max(whole, step) if s.most is None else Min(Max(whole, step), IntImm(s.most))


def vectors(builder: Builder, lane: str, count: Expr, lanes: int, body: Stmt) -> Stmt:
    """`for lane in [0, count)` in vectors of `lanes`, the last under a mask."""
    var, number = builder.name(lane.split(".")[0]), builder.name("vectors")
    low = Mul(Variable(var), IntImm(lanes))
    whole = For(lane, low, Add(low, IntImm(lanes)), 1, LoopKind.VECTOR, body)
    start = Mul(Variable(number), IntImm(lanes))
    tail = For(lane, start, count, 1, LoopKind.VECTOR, body, lanes)
    parts = [For(var, ZERO, Variable(number), 1, LoopKind.SERIAL, whole), If(GT(count, start), tail)]
    return named(number, FloorDiv(count, IntImm(lanes)), block(parts))


@dataclass(frozen=True, slots=True)
class Part:
    """A register tile of an axis: `size` points from `start` on in its cache tile, of which with `active`
    only that many run.  `split`: `start` as a number of whole register tiles and the points after these."""

    start: Expr
    size: int
    active: Expr | None = None
    split: tuple[Expr, Expr] | None = field(default=None)


def share_tiles(builder: Builder, a: Axis, points: Expr, size: int, body: Callable[[Part], Stmt]) -> Stmt:
    """The register tiles of a share of an axis of constant extent: whole ones, and at the end of the axis a
    remainder of constant length."""
    var, number = builder.name(a.name), builder.name("whole")
    whole = body(Part(Mul(Variable(var), IntImm(size)), size))
    parts: list[Stmt] = [For(var, ZERO, Variable(number), 1, LoopKind.SERIAL, whole)]
    short = a.typical_extent % size
    if short:
        start = Mul(Variable(number), IntImm(size))
        parts.append(If(GT(points, start), body(Part(start, short))))
    return named(number, FloorDiv(points, IntImm(size)), block(parts))


def register_tiles(
    builder: Builder,
    name: str,
    points: Expr,
    size: int,
    lanes: int,
    alone: bool,
    body: Callable[[Part], Stmt],
) -> Stmt:
    """The register tiles of `size` points, then the remainder of `points`; `lanes` points are one vector.

    `alone`: no other axis of the nest has such remainders.
    """
    var = builder.name(name)
    whole = body(Part(Mul(Variable(var), IntImm(size)), size))
    number = builder.name("whole")
    loop = For(var, ZERO, Variable(number), 1, LoopKind.SERIAL, whole)
    count = FloorDiv(points, IntImm(size))
    if size == 1:
        return For(var, ZERO, points, 1, LoopKind.SERIAL, whole)
    first = Mul(Variable(number), IntImm(size))
    left = builder.name("left")
    parts: list[Stmt] = [loop]
    if lanes == 1 and alone and size <= EXACT:
        parts += [If(EQ(Variable(left), IntImm(n)), body(Part(first, n))) for n in range(1, size)]
        return named(number, count, named(left, simplify(Sub(points, first), exact=True), block(parts)))
    step = lanes << max(0, (size // lanes - 1).bit_length() - 1)
    while step >= lanes and size > lanes:
        parts.append(_power_of_two(builder, first, number, left, step, body))
        step //= 2
    if lanes > 1:
        parts.append(_tail(builder, first, number, left, lanes, body))
    rest = named(left, simplify(Sub(points, first), exact=True), block(parts))
    return named(number, count, rest)


def _power_of_two(
    builder: Builder, first: Expr, number: str, left: str, step: int, body: Callable[[Part], Stmt]
) -> Stmt:
    """A register tile of `step` points of the remainder `left`, if its binary form has `step`."""
    at, offset = builder.name("at"), builder.name("from")
    inside = FloorMod(Variable(left), IntImm(2 * step))
    before = Sub(Variable(left), inside)
    part = Part(Variable(at), step, None, (Variable(number), Variable(offset)))
    s = named(offset, before, named(at, Add(first, Variable(offset)), body(part)))
    return If(GE(inside, IntImm(step)), s)


def _tail(
    builder: Builder, first: Expr, number: str, left: str, lanes: int, body: Callable[[Part], Stmt]
) -> Stmt:
    """The last points, fewer than a vector, under a mask."""
    at, offset, active = builder.name("at"), builder.name("from"), builder.name("active")
    part = Part(Variable(at), lanes, Variable(active), (Variable(number), Variable(offset)))
    s = named(at, Add(first, Variable(offset)), body(part))
    s = If(GT(Variable(active), ZERO), named(offset, Sub(Variable(left), Variable(active)), s))
    return named(active, FloorMod(Variable(left), IntImm(lanes)), s)
