# pyright: basic, reportMissingImports=false
"""Maps and moves: a program for a run of elements of the result."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.spellings.triton_kernels.launch import power

_BLOCK = 1024


@triton.jit
def _map(a, b, c, out, size, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    if KIND == "fill":
        v = tl.full((BLOCK,), 0.5, tl.float32)
    else:
        x = tl.load(a + i, mask=inside, other=0.0)
        y = tl.load(b + i, mask=inside, other=0.0)
        if KIND == "add":
            v = x + y
        else:
            z = tl.load(c + i, mask=inside, other=0.0)
            if KIND == "chain":
                v = tl.maximum(x * y + z, 0.0) * (x - y) + 1.0
            else:  # the hyperbolic tangent by the sigmoid
                v = (2.0 * tl.sigmoid(2.0 * x * y) - 1.0) * tl.sigmoid(z)
    tl.store(out + i, v, mask=inside)


def over(kind: str, a: Any, b: Any = None, c: Any = None) -> Any:
    """One of the maps of vectors of the same length."""
    out = torch.empty_like(a)
    _map[(triton.cdiv(a.numel(), _BLOCK),)](a, b, c, out, a.numel(), KIND=kind, BLOCK=_BLOCK)
    return out


@triton.jit
def _outer_sum(a, b, out, M, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + row) + tl.load(b + j, mask=j < M, other=0.0)
    tl.store(out + row * M + j, v, mask=j < M)


def outer_sum(a: Any, b: Any) -> Any:
    out = torch.empty((len(a), len(b)), dtype=a.dtype, device=a.device)
    block = power(len(b), 16, _BLOCK)
    _outer_sum[(len(a), triton.cdiv(len(b), block))](a, b, out, len(b), BLOCK=block)
    return out


@triton.jit
def _by_planes(x, b, out, length, channels, KIND: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + plane * length + i, mask=i < length, other=0.0)
    beside = tl.load(b + plane % channels)
    v = tl.maximum(v + beside, 0.0) if KIND == "bias_relu" else v * beside
    tl.store(out + plane * length + i, v, mask=i < length)


def by_planes(kind: str, x: Any, b: Any) -> Any:
    """`bias_relu` or `scale`: x (N, C, …) with a number for each plane, of which `b` has C or N times C."""
    planes = x.shape[0] * x.shape[1]
    length = x.numel() // planes
    out = torch.empty_like(x)
    block = power(length, 16, _BLOCK)
    _by_planes[(planes, triton.cdiv(length, block))](x, b, out, length, b.numel(), KIND=kind, BLOCK=block)
    return out


@triton.jit
def _gates(sums, a, b, out, C, R, area, BC: tl.constexpr, BR: tl.constexpr):
    n = tl.program_id(0)
    c, r = tl.arange(0, BC), tl.arange(0, BR)
    mean = tl.load(sums + n * C + c, mask=c < C, other=0.0) / area
    down = tl.load(a + r[:, None] * C + c[None, :], mask=(r[:, None] < R) & (c[None, :] < C), other=0.0)
    s = tl.maximum(tl.sum(down * mean[None, :], 1), 0.0)
    up = tl.load(b + c[:, None] * R + r[None, :], mask=(c[:, None] < C) & (r[None, :] < R), other=0.0)
    tl.store(out + n * C + c, tl.sigmoid(tl.sum(up * s[None, :], 1)), mask=c < C)


def gates(sums: Any, a: Any, b: Any, area: int) -> Any:
    """Of squeeze and excite: two small layers of the means, an image a block."""
    (N, C), R = sums.shape, len(a)
    out = torch.empty_like(sums)
    _gates[(N,)](sums, a, b, out, C, R, area, BC=power(C, 16), BR=power(R))
    return out


@triton.jit
def _transpose(a, out, N, M, BLOCK: tl.constexpr):
    wide = tl.cdiv(M, BLOCK)
    i = tl.program_id(0) // wide * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(0) % wide * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i[:, None] * M + j[None, :], mask=(i[:, None] < N) & (j[None, :] < M), other=0.0)
    tl.store(out + j[:, None] * N + i[None, :], tl.trans(v), mask=(j[:, None] < M) & (i[None, :] < N))


def transpose(a: Any) -> Any:
    N, M = a.shape
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    _transpose[(triton.cdiv(N, 64) * triton.cdiv(M, 64),)](a, out, N, M, BLOCK=64, num_warps=8)
    return out


@triton.jit
def _permute(x, out, size, B, C, D, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, c, b, d = i // (D * B * C), i // (D * B) % C, i // D % B, i % D
    tl.store(out + i, tl.load(x + ((a * B + b) * C + c) * D + d, mask=i < size, other=0.0), mask=i < size)


def permute(x: Any) -> Any:
    """The middle two of four dimensions change places."""
    A, B, C, D = x.shape
    out = torch.empty((A, C, B, D), dtype=x.dtype, device=x.device)
    _permute[(triton.cdiv(x.numel(), _BLOCK),)](x, out, x.numel(), B, C, D, BLOCK=_BLOCK)
    return out


@triton.jit
def _move(x, out, size, H, W, KIND: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == "roll":
        at = (i // W + 1) % H * W + (i % W + 2) % W
    else:
        plane, y, z = i // (K * K * H * W), i // (K * W) % (K * H), i % (K * W)
        if KIND == "pixel_shuffle":
            plane = K * K * plane + K * (y % K) + z % K
        at = (plane * H + y // K) * W + z // K
    tl.store(out + i, tl.load(x + at, mask=i < size, other=0.0), mask=i < size)


def move(kind: str, x: Any, shape: tuple[int, ...], k: int = 1) -> Any:
    """A copy whose elements come from elsewhere: `roll`, `upscale` or `pixel_shuffle`."""
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    H, W = x.shape[-2:]
    _move[(triton.cdiv(out.numel(), _BLOCK),)](x, out, out.numel(), H, W, KIND=kind, K=k, BLOCK=_BLOCK)
    return out
