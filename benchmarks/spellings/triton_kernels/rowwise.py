# pyright: basic, reportMissingImports=false
"""What is normalised by statistics of its row: soft-max, cross entropy, norms of layers, groups and batches.

A row is held in the registers of one block.  A longer one is read again: by one block, or, of a soft-max, by
many, which know of each other's pieces from a launch before.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.spellings.triton_kernels.launch import HELD, cut, power, warps_of


@triton.jit
def _softmax(x, out, highest, sums, length, STATS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < length
    v = tl.load(x + row * length + i, mask=inside, other=float("-inf"))
    m = tl.max(v, 0)
    e = tl.exp(v - m)
    s = tl.sum(e, 0)
    tl.store(out + row * length + i, e / s, mask=inside)
    if STATS:
        tl.store(highest + row, m)
        tl.store(sums + row, s)


@triton.jit
def _softmax_pieces(x, parts, length, each, BLOCK: tl.constexpr):
    row, piece = tl.program_id(0), tl.program_id(1)
    x += row * length
    i = tl.arange(0, BLOCK)
    m = tl.full((BLOCK,), -1e30, tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(piece * each, piece * each + each, BLOCK):
        v = tl.load(x + start + i, mask=start + i < length, other=float("-inf"))
        higher = tl.maximum(m, v)
        s = s * tl.exp(m - higher) + tl.exp(v - higher)
        m = higher
    top = tl.max(m, 0)
    at = row * tl.num_programs(1) + piece
    tl.store(parts + at, top)
    tl.store(parts + tl.num_programs(0) * tl.num_programs(1) + at, tl.sum(s * tl.exp(m - top), 0))


@triton.jit
def _softmax_of_pieces(
    x, out, parts, highest, sums, length, each, pieces,
    STATS: tl.constexpr, PIECES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, piece = tl.program_id(0), tl.program_id(1)
    p = tl.arange(0, PIECES)
    tops = tl.load(parts + row * pieces + p, mask=p < pieces, other=-1e30)
    found = tl.load(parts + (tl.num_programs(0) + row) * pieces + p, mask=p < pieces, other=0.0)
    m = tl.max(tops, 0)
    s = tl.sum(found * tl.exp(tops - m), 0)
    i = tl.arange(0, BLOCK)
    for start in range(piece * each, piece * each + each, BLOCK):
        at = row * length + start + i
        v = tl.load(x + at, mask=start + i < length, other=0.0)
        tl.store(out + at, tl.exp(v - m) / s, mask=start + i < length)
    if STATS and piece == 0:
        tl.store(highest + row, m)
        tl.store(sums + row, s)


def softmax(x: Any, stats: bool) -> tuple[Any, ...]:
    """The weights; with `stats` the largest element and the sum of each row before them."""
    count, length = x.shape
    out = torch.empty_like(x)
    found = tuple(torch.empty(count, dtype=x.dtype, device=x.device) for _ in range(2 if stats else 0))
    m, s = found or (None, None)
    if length <= HELD:
        block = power(length, 16)
        _softmax[(count,)](x, out, m, s, length, STATS=stats, BLOCK=block, num_warps=warps_of(block))
        return *found, out
    pieces, each = cut(length, count, 2048)
    parts = torch.empty((2, count, pieces), dtype=x.dtype, device=x.device)
    _softmax_pieces[(count, pieces)](x, parts, length, each, BLOCK=2048)
    _softmax_of_pieces[(count, pieces)](
        x, out, parts, m, s, length, each, pieces, STATS=stats, PIECES=power(pieces), BLOCK=2048
    )
    return *found, out


@triton.jit
def _cross_entropy(x, t, out, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * length
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < length, other=float("-inf"))
    m = tl.max(v, 0)
    right = tl.load(x + tl.load(t + row))
    tl.store(out + row, tl.log(tl.sum(tl.exp(v - m), 0)) + m - right)


@triton.jit
def _long_cross_entropy(x, t, out, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * length
    i = tl.arange(0, BLOCK)
    m = tl.full((BLOCK,), -1e30, tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        v = tl.load(x + start + i, mask=start + i < length, other=float("-inf"))
        higher = tl.maximum(m, v)
        s = s * tl.exp(m - higher) + tl.exp(v - higher)
        m = higher
    top = tl.max(m, 0)
    right = tl.load(x + tl.load(t + row))
    tl.store(out + row, tl.log(tl.sum(s * tl.exp(m - top), 0)) + top - right)


def cross_entropy(x: Any, t: Any) -> Any:
    count, length = x.shape
    out = torch.empty(count, dtype=x.dtype, device=x.device)
    if length <= HELD:
        block = power(length, 16)
        _cross_entropy[(count,)](x, t, out, length, BLOCK=block, num_warps=warps_of(block))
    else:
        _long_cross_entropy[(count,)](x, t, out, length, BLOCK=4096, num_warps=8)
    return out


@triton.jit
def _norm(
    x, gain, bias, out, length, groups, each, run, eps,
    CENTRED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < length
    v = tl.load(x + row * length + i, mask=inside, other=0.0)
    if CENTRED:
        v = tl.where(inside, v - tl.sum(v, 0) / length, 0.0)
    scale = tl.rsqrt(tl.sum(v * v, 0) / length + eps)
    at = row % groups * each + i // run
    v = v * scale * tl.load(gain + at, mask=inside, other=0.0)
    if CENTRED:
        v += tl.load(bias + at, mask=inside, other=0.0)
    tl.store(out + row * length + i, v, mask=inside)


@triton.jit
def _mean_and_squares(x, length, CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    """The mean of a row, if it is wanted, and the sum of the squares of what is off it."""
    i = tl.arange(0, BLOCK)
    mean = 0.0
    if CENTRED:
        acc = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, length, BLOCK):
            acc += tl.load(x + start + i, mask=start + i < length, other=0.0)
        mean = tl.sum(acc, 0) / length
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        v = tl.load(x + start + i, mask=start + i < length, other=0.0) - mean
        acc += tl.where(start + i < length, v * v, 0.0)
    return mean, tl.sum(acc, 0)


@triton.jit
def _long_norm(
    x, gain, bias, out, length, groups, each, run, eps,
    CENTRED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    x += row * length
    mean, squares = _mean_and_squares(x, length, CENTRED, BLOCK)
    scale = tl.rsqrt(squares / length + eps)
    i = tl.arange(0, BLOCK)
    for start in range(0, length, BLOCK):
        inside = start + i < length
        at = row % groups * each + (start + i) // run
        v = (tl.load(x + start + i, mask=inside, other=0.0) - mean) * scale
        v *= tl.load(gain + at, mask=inside, other=0.0)
        if CENTRED:
            v += tl.load(bias + at, mask=inside, other=0.0)
        tl.store(out + row * length + start + i, v, mask=inside)


def norm(x: Any, gain: Any, bias: Any, eps: float, groups: int = 1, run: int = 1) -> Any:
    """Rows (the last dimension of `x`) by their deviation, less their mean if there is a bias.  `run`
    elements in turn have one gain and bias; those of `groups` rows follow each other."""
    length = x.shape[-1]
    count = x.numel() // length
    out = torch.empty_like(x)
    # Where gains are looked up element by element there is less room.
    held = length <= (HELD if run == 1 else HELD // 2)
    block = power(length, 16) if held else 4096
    (_norm if held else _long_norm)[(count,)](
        x, gain, bias, out, length, groups, length // run, run, eps,
        CENTRED=bias is not None, BLOCK=block, num_warps=warps_of(block),
    )  # fmt: skip
    return out


@triton.jit
def _plane_moments(x, parts, length, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    mean, squares = _mean_and_squares(x + plane * length, length, True, BLOCK)
    tl.store(parts + plane, mean)
    tl.store(parts + tl.num_programs(0) + plane, squares)


@triton.jit
def _batch_norm(
    x, parts, gain, bias, out, means, variances, N, C, length,
    IMAGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(0)
    c = plane % C
    n = tl.arange(0, IMAGES)
    mean = tl.load(parts + n * C + c, mask=n < N, other=0.0)
    squares = tl.load(parts + N * C + n * C + c, mask=n < N, other=0.0)
    m = tl.sum(mean, 0) / N
    off = tl.where(n < N, mean - m, 0.0)
    var = (tl.sum(squares, 0) / length + tl.sum(off * off, 0)) / N
    scale = tl.rsqrt(var + 1e-5) * tl.load(gain + c)
    shift = tl.load(bias + c)
    i = tl.arange(0, BLOCK)
    for start in range(0, length, BLOCK):
        at = plane * length + start + i
        v = tl.load(x + at, mask=start + i < length, other=0.0)
        tl.store(out + at, (v - m) * scale + shift, mask=start + i < length)
    if plane < C:
        tl.store(means + c, m)
        tl.store(variances + c, var)


def batch_norm(x: Any, gain: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Mean and squares of each plane first; then each plane adds up those of its channel."""
    N, C = x.shape[:2]
    length = x.numel() // (N * C)
    out, parts = torch.empty_like(x), torch.empty((2, N, C), dtype=x.dtype, device=x.device)
    mean, var = (torch.empty(C, dtype=x.dtype, device=x.device) for _ in range(2))
    block = power(length, 16, 4096)
    _plane_moments[(N * C,)](x, parts, length, BLOCK=block)
    _batch_norm[(N * C,)](x, parts, gain, bias, out, mean, var, N, C, length, IMAGES=power(N), BLOCK=block)
    return out, mean, var
