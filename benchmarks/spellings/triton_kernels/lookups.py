# pyright: basic, reportMissingImports=false
"""Rows of tables chosen by indices: sums of them, weighted or not, and copies."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.spellings.triton_kernels.launch import power


@triton.jit
def _bag(table, at, weights, out, L, D, WEIGHTED: tl.constexpr, BL: tl.constexpr, BD: tl.constexpr):
    """The sum of the rows of this program's bag, of its block of columns."""
    bag = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    acc = tl.zeros((BL, BD), tl.float32)
    for start in range(0, L, BL):
        l = start + tl.arange(0, BL)
        row = tl.load(at + bag * L + l, mask=l < L, other=0)
        inside = (l[:, None] < L) & (d[None, :] < D)
        v = tl.load(table + row[:, None] * D + d[None, :], mask=inside, other=0.0)
        if WEIGHTED:
            v *= tl.load(weights + bag * L + l, mask=l < L, other=0.0)[:, None]
        acc += v
    tl.store(out + bag * D + d, tl.sum(acc, 0), mask=d < D)


@triton.jit
def _bags(table, at, weights, out, L, D, WEIGHTED: tl.constexpr, BL: tl.constexpr, BD: tl.constexpr):
    _bag(table, at, weights, out, L, D, WEIGHTED, BL, BD)


@triton.jit
def _two_bags(table1, at1, out1, L1, D1, table2, at2, out2, L2, D2, BL: tl.constexpr, BD: tl.constexpr):
    if tl.program_id(2) == 0:
        _bag(table1, at1, None, out1, L1, D1, False, BL, BD)
    else:
        _bag(table2, at2, None, out2, L2, D2, False, BL, BD)


def bags(table: Any, at: Any, weights: Any = None) -> Any:
    """The sum of each bag of rows; most of its rows are on their way at once."""
    (B, L), D = at.shape, table.shape[1]
    out = torch.empty((B, D), dtype=table.dtype, device=table.device)
    bl, bd = power(L, 4, 64), power(D, 16, 64)
    _bags[(B, triton.cdiv(D, bd))](table, at, weights, out, L, D, WEIGHTED=weights is not None, BL=bl, BD=bd)
    return out


def two_bags(table1: Any, at1: Any, table2: Any, at2: Any) -> tuple[Any, Any]:
    """Of two tables in one launch."""
    (B, L1), L2, D1, D2 = at1.shape, at2.shape[1], table1.shape[1], table2.shape[1]
    out1, out2 = (torch.empty((B, d), dtype=table1.dtype, device=table1.device) for d in (D1, D2))
    bl, bd = power(max(L1, L2), 4, 64), power(max(D1, D2), 16, 64)
    _two_bags[(B, triton.cdiv(max(D1, D2), bd), 2)](
        table1, at1, out1, L1, D1, table2, at2, out2, L2, D2, BL=bl, BD=bd
    )
    return out1, out2


@triton.jit
def _gather(table, at, out, N, D, BN: tl.constexpr, BD: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    row = tl.load(at + n, mask=n < N, other=0)
    inside = (n[:, None] < N) & (d[None, :] < D)
    v = tl.load(table + row[:, None] * D + d[None, :], mask=inside, other=0.0)
    tl.store(out + n[:, None] * D + d[None, :], v, mask=inside)


def gather(table: Any, at: Any) -> Any:
    """Rows, or elements of a vector, copied."""
    N, D = len(at), table.shape[1] if table.ndim == 2 else 1
    out = torch.empty((N, *table.shape[1:]), dtype=table.dtype, device=table.device)
    bd = power(D, 1, 256)
    bn = 1024 // bd
    _gather[(triton.cdiv(N, bn), triton.cdiv(D, bd))](table, at, out, N, D, BN=bn, BD=bd)
    return out
