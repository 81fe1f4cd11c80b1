"""Partial results of reductions in lanes: an element of several accumulators for each lane.

They are filled with the neutral element before the loop of the reduction, and combined after it.
"""

from __future__ import annotations

from collections.abc import Callable

from tc.dtypes import accumulator
from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Variable, substitute
from tc.ir.loops import Array, Compute, For, LoopKind, Stmt
from tc.ir.lower import neutral
from tc.poly.bodies import zero_based
from tc.poly.tile_plan import PhaseTile
from tc.poly.tiles.builder import block
from tc.poly.tiles.register_tile import RegisterTile


def declare_partial(tile: RegisterTile, statement: str, t: PhaseTile) -> Array:
    """The array of a statement's partial results: points of the tile x accumulators x lanes."""
    builder = tile.builder
    stage = builder.stages[statement]
    buffer = builder.func_buffers[stage.func]
    dtype = accumulator(builder.dtypes[buffer], builder.bodies[statement].dtype)
    shape = (*(tile.extents[n] for n in tile.tile_axes(statement)), t.accumulators, t.lanes)
    array = Array(
        builder.name(buffer), dtype, tuple(map(IntImm, shape)), "register", IntImm(0), partial_of=buffer
    )
    builder.arrays.append(array)
    tile.partials.add(array.name)
    return array


def initialize_partial(tile: RegisterTile, statement: str, array: Array, t: PhaseTile) -> Stmt:
    """Set all partial results to the neutral element of the reduction."""
    stage = tile.builder.stages[statement]
    assert stage.op is not None
    nothing = neutral(stage.op, array.dtype)

    def make(place: tuple[Expr, ...], number: Expr, lane: Expr) -> Stmt:
        where = (*place, number, lane)
        return Compute(f"{statement}.partial", array.name, where, None, nothing, (), "")

    return _each_partial(tile, statement, t, 0, make)


def combine_partial(tile: RegisterTile, statement: str, array: Array, t: PhaseTile) -> Stmt:
    """Combine all accumulators into the first, then its lanes into the result."""
    builder = tile.builder
    stage = builder.stages[statement]
    buffer = builder.func_buffers[stage.func]
    lane = builder.name("lane")

    def add_accumulator(place: tuple[Expr, ...], number: Expr, lane: Expr) -> Stmt:
        v = Load(array.name, (*place, number, lane), array.dtype)
        where = (*place, ZERO, lane)
        return Compute(f"{statement}.partial", array.name, where, stage.op, v, (), stage.text)

    def add_lanes(offsets: dict[str, Expr]) -> Stmt:
        place = tuple(offsets[n] for n in tile.tile_axes(statement))
        point = {
            a.vars[statement]: Add(
                a.low, Add(tile.spans[a.name].origin, Add(tile.local[a.name], offsets[a.name]))
            )
            for a in tile.nest.axes
            if statement in a.vars
        }
        subscripts = zero_based((substitute(x, dict(point)) for x in stage.args), builder.boxes[buffer])
        v = Load(array.name, (*place, ZERO, Variable(lane)), array.dtype)
        s = Compute(f"{statement}.partial", buffer, subscripts, stage.op, v, (), stage.text)
        return For(lane, ZERO, IntImm(t.lanes), 1, LoopKind.VECTOR, s)

    return block(
        [_each_partial(tile, statement, t, 1, add_accumulator), tile.each_point(statement, add_lanes)]
    )


def _each_partial(
    tile: RegisterTile,
    statement: str,
    t: PhaseTile,
    first: int,
    make: Callable[[tuple[Expr, ...], Expr, Expr], Stmt],
) -> Stmt:
    """What `make` returns for a point of the tile, an accumulator from the `first` one on, and a lane."""
    u, lane = tile.builder.name("u"), tile.builder.name("lane")

    def at_point(offsets: dict[str, Expr]) -> Stmt:
        place = tuple(offsets[n] for n in tile.tile_axes(statement))
        s = make(place, Variable(u), Variable(lane))
        s = For(lane, ZERO, IntImm(t.lanes), 1, LoopKind.VECTOR, s)
        return For(u, IntImm(first), IntImm(t.accumulators), 1, LoopKind.UNROLLED, s)

    return tile.each_point(statement, at_point)
