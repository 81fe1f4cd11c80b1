"""Loads of lanes whose elements lie at a constant stride other than 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.codegen.llvm_expr import storage_type
from tc.ir.loops import Array

from .affine import Affine
from .values import type_text

if TYPE_CHECKING:
    from .load_store import MemoryEmitter

MAX_PICK_STRIDE = 4  # stride of lanes up to which contiguous elements are loaded and picked from


def picked(e: MemoryEmitter, array: Array, first: Affine, stride: int) -> str:
    """Every second, third or fourth element, by contiguous loads, none of which reaches beyond the last
    element, and shuffles: an operand."""
    st, lanes = storage_type(array.dtype), e.lanes
    vt = f"<{lanes} x {st}>"
    out = "poison"
    for j in range(stride):
        covered = [i for i in range(lanes) if j * lanes <= i * stride < (j + 1) * lanes]
        if not covered:
            continue
        start = min(j * lanes, (lanes - 1) * stride + 1 - lanes)
        v = e.op(f"load {vt}, ptr {e.pointer(array, first + start)}, align {array.dtype.itemsize}")
        order = [f"i32 {i}" if i < covered[0] else "i32 poison" for i in range(lanes)]
        for i in covered:
            order[i] = f"i32 {lanes + i * stride - start}"
        out = e.op(f"shufflevector {vt} {out}, {vt} {v}, <{lanes} x i32> <{', '.join(order)}>")
    return out


def lane_by_lane(e: MemoryEmitter, array: Array, first: Affine, stride: int) -> str:
    """The elements of active lanes, which are known, each by a load of its own; 0 in the other lanes: an
    operand."""
    st, lanes = storage_type(array.dtype), e.lanes
    active = lanes if e.mask is None or e.mask.active is None else e.mask.active
    out = "poison" if active == lanes else "zeroinitializer"
    for i in range(active):
        p = e.pointer(array, first + i * stride)
        v = e.op(f"load {st}, ptr {p}, align {array.dtype.itemsize}")
        out = e.op(f"insertelement <{lanes} x {st}> {out}, {st} {v}, i64 {i}")
    return out


def backwards(e: MemoryEmitter, array: Array, first: Affine) -> str:
    """The elements of active lanes, each before that of the lane before; 0 in the other lanes: an operand."""
    mask, order = e.vector_mask(), list(range(e.lanes))[::-1]
    text = e.shuffled(type_text(mask.dtype, e.lanes), mask.text, "poison", order)
    v = e.masked_load(array, e.pointer(array, first + (1 - e.lanes)), text)
    return e.shuffled(f"<{e.lanes} x {storage_type(array.dtype)}>", v, "poison", order)
