# pyright: basic, reportMissingImports=false
"""Reductions: of rows and of columns; where there are too few of them, in two launches over pieces."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.spellings.triton_kernels.launch import cut, power, sum_type


@triton.jit
def _rows(a, x, at, out, length, each, OP: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr):
    row, piece = tl.program_id(0), tl.program_id(1)
    a += row * length
    i = tl.arange(0, BLOCK)
    acc = tl.full((BLOCK,), float("-inf") if OP == "max" else 0, ACC)
    for start in range(piece * each, piece * each + each, BLOCK):
        inside = start + i < length
        if OP == "max":
            acc = tl.maximum(acc, tl.load(a + start + i, mask=inside, other=float("-inf")))
        else:
            v = tl.load(a + start + i, mask=inside, other=0)
            if OP == "dot":
                v *= tl.load(x + start + i, mask=inside, other=0)
            elif OP == "gather":
                j = tl.load(at + row * length + start + i, mask=inside, other=0)
                v *= tl.load(x + j, mask=inside, other=0)
            acc += v
    to = out + row * tl.num_programs(1) + piece
    tl.store(to, tl.max(acc, 0) if OP == "max" else tl.sum(acc, 0))


@triton.jit
def _short_rows(a, x, at, out, count, length, OP: tl.constexpr, BR: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    i = tl.arange(0, BLOCK)
    inside = (row[:, None] < count) & (i[None, :] < length)
    from_row = row[:, None] * length + i[None, :]
    if OP == "max":
        v = tl.max(tl.load(a + from_row, mask=inside, other=float("-inf")), 1)
    else:
        v = tl.load(a + from_row, mask=inside, other=0)
        if OP == "dot":
            v *= tl.load(x + i, mask=i < length, other=0)[None, :]
        elif OP == "gather":
            v *= tl.load(x + tl.load(at + from_row, mask=inside, other=0), mask=inside, other=0)
        v = tl.sum(v, 1)
    tl.store(out + row, v, mask=row < count)


def rows(a: Any, op: str, x: Any = None, at: Any = None) -> Any:
    """The sum (`sum`) or the largest (`max`) of each row, or its product with a vector (`dot`), whose
    elements may be chosen by indices (`gather`).  Of short rows a block takes many."""
    count, length = a.shape
    if length <= 256 and count > 1:
        block = power(length, 4)
        each = 2048 // block
        out = torch.empty(count, dtype=a.dtype, device=a.device)
        _short_rows[(triton.cdiv(count, each),)](a, x, at, out, count, length, OP=op, BR=each, BLOCK=block)
        return out
    block = power(length, 16, 2048)
    pieces, each = cut(length, count, block)
    parts = torch.empty((count, pieces), dtype=a.dtype, device=a.device)
    _rows[(count, pieces)](a, x, at, parts, length, each, OP=op, ACC=sum_type(a), BLOCK=block)
    if pieces == 1:
        return parts.view(count)
    return rows(parts, "max" if op == "max" else "sum")


@triton.jit
def _columns(
    a, x, out, height, width, each,
    WEIGHTED: tl.constexpr, ACC: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(1)
    column = tl.program_id(0) * BC + tl.arange(0, BC)
    r = tl.arange(0, BR)
    acc = tl.zeros((BR, BC), ACC)
    for start in range(piece * each, piece * each + each, BR):
        row = start + r
        inside = (row[:, None] < height) & (column[None, :] < width)
        v = tl.load(a + row[:, None] * width + column[None, :], mask=inside, other=0)
        if WEIGHTED:
            v *= tl.load(x + row, mask=row < height, other=0)[:, None]
        acc += v
    tl.store(out + piece * width + column, tl.sum(acc, 0), mask=column < width)


def columns(a: Any, x: Any = None) -> Any:
    """The sum of each column, each row times an element of `x` where that is given."""
    height, width = a.shape
    wide = triton.cdiv(width, 128)
    pieces, each = cut(height, wide, 32)
    parts = torch.empty((pieces, width), dtype=a.dtype, device=a.device)
    given = {"ACC": sum_type(a), "BR": 32, "BC": 128}
    _columns[(wide, pieces)](a, x, parts, height, width, each, WEIGHTED=x is not None, **given)
    if pieces == 1:
        return parts.view(width)
    out = torch.empty(width, dtype=a.dtype, device=a.device)
    _columns[(wide, 1)](parts, None, out, pieces, width, pieces, WEIGHTED=False, **given)
    return out


@triton.jit
def _moments(a, out, length, each, ACC: tl.constexpr, BLOCK: tl.constexpr):
    row, piece = tl.program_id(0), tl.program_id(1)
    a += row * length
    i = tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), ACC)
    q = tl.zeros((BLOCK,), ACC)
    for start in range(piece * each, piece * each + each, BLOCK):
        v = tl.load(a + start + i, mask=start + i < length, other=0)
        s += v
        q += v * v
    at = row * tl.num_programs(1) + piece
    tl.store(out + at, tl.sum(s, 0))
    tl.store(out + tl.num_programs(0) * tl.num_programs(1) + at, tl.sum(q, 0))


@triton.jit
def _mean_and_variance(parts, mean, var, count, length, PIECES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    s = tl.sum(tl.load(parts + row * PIECES + i, mask=i < PIECES, other=0), 0)
    q = tl.sum(tl.load(parts + (count + row) * PIECES + i, mask=i < PIECES, other=0), 0)
    m = s / length
    tl.store(mean + row, m)
    tl.store(var + row, q / length - m * m)


def moments(a: Any) -> tuple[Any, Any]:
    """Mean and variance of each row, by the sums of elements and of their squares."""
    count, length = a.shape
    block = power(length, 16, 2048)
    pieces, each = cut(length, count, block)
    parts = torch.empty((2, count, pieces), dtype=a.dtype, device=a.device)
    _moments[(count, pieces)](a, parts, length, each, ACC=sum_type(a), BLOCK=block)
    mean, var = (torch.empty(count, dtype=a.dtype, device=a.device) for _ in range(2))
    _mean_and_variance[(count,)](parts, mean, var, count, length, PIECES=pieces, BLOCK=power(pieces))
    return mean, var
