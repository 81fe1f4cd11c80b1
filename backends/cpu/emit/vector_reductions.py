"""Unrolled loops around a vector loop that updates one element at each point: the vectors of all points are
reduced together (`lane_reduction`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tc.codegen.llvm_expr import llvm_type
from tc.dtypes import DType, accumulator
from tc.ir.expr import ZERO, IntImm, variables
from tc.ir.loops import (
    Array,
    Compute,
    For,
    LoopKind,
)

from .affine import LANE, Affine
from .index_forms import Env
from .lane_reduction import groups
from .statement_shapes import constant_trips, reads_buffer
from .values import Value, type_text

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter


def reduce_vectors(emitter: ExpressionEmitter, s: For, env: Env) -> bool:
    """Emit unrolled loops around one vector loop that updates a single element, another one at each
    point, by reducing the vectors of all points together.  Returns false if the loop is another one."""
    loops, body = list[For](), s
    while isinstance(body, For) and body.kind is LoopKind.UNROLLED:
        loops.append(body)
        body = body.body
    if not (isinstance(body, For) and body.kind is LoopKind.VECTOR and isinstance(body.body, Compute)):
        return False
    c, lanes = body.body, body.upper
    across = c.op is not None and not any(body.var in variables(x) for x in c.subscripts)
    if not across or body.lower != ZERO or body.lanes or emitter.lanes or not isinstance(lanes, IntImm):
        return False
    if lanes.value < 2 or lanes.value & (lanes.value - 1) or reads_buffer(c.value, c.buffer):
        return False
    points = [env]
    for u in loops:
        points = [
            p.bind(u.var, lower + i)
            for p in points
            for lower in [emitter.affine(u.lower, p)]
            for i in range(0, constant_trips(emitter.affine(u.upper, p) - lower, u), u.step)
        ]
    array = emitter.arrays[c.buffer]
    places = [emitter.address(array, c.subscripts, p) for p in points]
    addresses = [x for x in places if x is not None]
    if len(set(addresses)) < len(points) or len(points) < 2:
        return False
    emitter.point = c.point
    t = accumulator(array.dtype, c.value.dtype)
    with emitter.in_lanes(lanes.value, None):
        inside = [p.bind(body.var, Affine.of(LANE)) for p in points]
        vectors = [emitter.widen(emitter.cast(emitter.value(c.value, p), t), emitter.lanes) for p in inside]
    first = 0
    for count in groups(len(points), lanes.value):
        here = slice(first, first + count)
        _update_elements(emitter, c.op or "", array, t, addresses[here], vectors[here])
        first += count
    return True


def _update_elements(
    emitter: ExpressionEmitter,
    op: str,
    array: Array,
    t: DType,
    places: Sequence[Affine],
    vectors: Sequence[Value],
) -> None:
    """Emit the updates of elements, each by all lanes of its vector."""
    if len(vectors) == 1:
        old = emitter.cast(emitter.load(array, places[0]), t)
        emitter.store(
            array,
            places[0],
            emitter.cast(emitter.binary(op, old, emitter.reduce(op, vectors[0])), array.dtype),
        )
        return
    total = emitter.reduce_together(op, vectors)
    ty, element = type_text(t, total.lanes), llvm_type(t)
    olds = "poison"
    for i, place in enumerate(places):
        old = emitter.cast(emitter.load(array, place), t)
        olds = emitter.pure(f"insertelement {ty} {olds}, {element} {old.text}, i64 {i}")
    new = emitter.binary(op, Value(olds, t, total.lanes), total)
    for i, place in enumerate(places):
        v = Value(emitter.pure(f"extractelement {ty} {new.text}, i64 {i}"), t)
        emitter.store(array, place, emitter.cast(v, array.dtype))
