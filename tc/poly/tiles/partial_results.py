"""Partial results of reductions in lanes: an element of several accumulators for each lane.

They are filled with the neutral element before the loop of the reduction, and combined after it.
"""

from __future__ import annotations

from tc.dtypes import accumulator
from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Variable, substitute
from tc.ir.loops import Array, Compute, For, LoopKind, Stmt
from tc.ir.lower import neutral
from tc.ir.program import Op
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
    return _over_partial(tile, statement, array, t, 0, None, neutral(stage.op, array.dtype), "")


def combine_partial(tile: RegisterTile, statement: str, array: Array, t: PhaseTile) -> Stmt:
    """Combine all accumulators into the first, then its lanes into the result."""
    builder = tile.builder
    stage = builder.stages[statement]
    buffer = builder.func_buffers[stage.func]
    lane = builder.name("lane")

    def make(offsets: dict[str, Expr]) -> Stmt:
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
        [
            _over_partial(tile, statement, array, t, 1, stage.op, None, stage.text),
            tile.each_point(statement, make),
        ]
    )


def _over_partial(
    tile: RegisterTile,
    statement: str,
    array: Array,
    t: PhaseTile,
    first: int,
    op: Op | None,
    value: Expr | None,
    text: str,
) -> Stmt:
    u, lane = tile.builder.name("u"), tile.builder.name("lane")

    def make(offsets: dict[str, Expr]) -> Stmt:
        place = tuple(offsets[n] for n in tile.tile_axes(statement))
        v = (
            value
            if value is not None
            else Load(array.name, (*place, Variable(u), Variable(lane)), array.dtype)
        )
        number = Variable(u) if value is not None else ZERO
        s: Stmt = Compute(
            f"{statement}.partial", array.name, (*place, number, Variable(lane)), op, v, (), text
        )
        s = For(lane, ZERO, IntImm(t.lanes), 1, LoopKind.VECTOR, s)
        return For(u, IntImm(first), IntImm(t.accumulators), 1, LoopKind.UNROLLED, s)

    return tile.each_point(statement, make)
