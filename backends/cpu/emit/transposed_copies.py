"""Copies whose rows become columns: contiguous rows are loaded, transposed in registers, and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.errors import InternalError
from tc.ir.loops import (
    Compute,
    For,
    LoopKind,
)

from .affine import LANE, Affine
from .index_forms import Env
from .statement_shapes import constant_trips
from .values import Value

if TYPE_CHECKING:
    from .kernel import NestEmitter


def transposed(emitter: NestEmitter, s: For, env: Env, lower: Affine, rows: int) -> None:
    """Emit `for r: for lane: to[…lane] = from[…r]` as short contiguous rows, transposed in registers.

    The loop's body is one vector loop over one assignment, whose value is a read that is contiguous along
    this loop's variable.
    """
    inner = s.body
    if isinstance(inner, For) and isinstance(inner.body, For) and inner.body.kind is LoopKind.DOT:
        if not emitter.transpose_groups(s, inner, env, lower, rows):
            for r in range(rows):
                emitter.statement(inner, env.bind(s.var, lower + r))
        return
    if not (isinstance(inner, For) and isinstance(inner.body, Compute)):
        raise InternalError("a transposed loop holds more than a copy")
    copy = inner.body
    start = emitter.affine(inner.lower, env)
    columns = constant_trips(emitter.affine(inner.upper, env) - start, inner)
    target = emitter.arrays[copy.buffer]
    lanes = 1 << (rows - 1).bit_length()
    values: list[Value] = []
    with emitter.in_lanes(max(lanes, 1), None if lanes == rows else emitter.tail_mask(rows, lanes)):
        along = env.bind(s.var, lower + (Affine.of(LANE) if lanes > 1 else 0))
        if lanes == 1:
            emitter.lanes = 0
        for c in range(columns):
            v = emitter.cast(emitter.value(copy.value, along.bind(inner.var, start + c)), target.dtype)
            values.append(emitter.widen(v, emitter.lanes) if emitter.lanes else v)
    if lanes == 1:
        for c, v in enumerate(values):
            address = emitter.address(
                target, copy.subscripts, env.bind(s.var, lower).bind(inner.var, start + c)
            )
            assert address is not None
            emitter.store(target, address, v)
        return
    moved = emitter.transpose(values, lanes)
    for r in range(rows):
        row = moved[r]
        with emitter.in_lanes(
            row.lanes, None if columns == row.lanes else emitter.tail_mask(columns, row.lanes)
        ):
            at = env.bind(s.var, lower + r).bind(inner.var, start + Affine.of(LANE))
            address = emitter.address(target, copy.subscripts, at)
            assert address is not None
            emitter.store(target, address, row)
