# pyright: basic, reportMissingImports=false
"""Matrix products: of any strides, batched, the long sum cut where there are few tiles, with an epilogue."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.spellings.triton_kernels.launch import configurations, power, processors, sum_type, tuned


@triton.jit
def add_product(acc, a, b, m, n, M, N, K, am, ak, bk, bn, start, stop, BK: tl.constexpr):
    """acc plus the sum over k in [start, stop) of a[m, k] * b[k, n]; beyond M, N and K there are zeros."""
    k = tl.arange(0, BK)
    rows = a + m[:, None] * am + (start + k)[None, :] * ak
    columns = b + (start + k)[:, None] * bk + n[None, :] * bn
    for k0 in range(start, stop, BK):
        # Of K and k0, not of `stop`, it is known what they are multiples of: loads stay wide.
        left = K - k0
        x = tl.load(rows, mask=(m[:, None] < M) & (k[None, :] < left), other=0)
        y = tl.load(columns, mask=(k[:, None] < left) & (n[None, :] < N), other=0)
        acc = tl.dot(x, y, acc, input_precision="ieee", out_dtype=acc.dtype)
        rows += BK * ak
        columns += BK * bk
    return acc


@triton.jit
def finish(v, ACT: tl.constexpr):
    if ACT == "relu":
        v = tl.maximum(v, 0.0)
    elif ACT == "gelu":
        v = 0.5 * v * (1.0 + tl.erf(v * 0.70710678118654752))
    return v


@triton.jit
def tile(M, N, BM: tl.constexpr, BN: tl.constexpr):
    """The rows and columns of this program.  Eight tiles below one another come before the next column, so
    that blocks that run at once share what they read."""
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = tl.program_id(0) // (8 * wide)
    inside = tl.program_id(0) % (8 * wide)
    here = tl.minimum(high - 8 * band, 8)
    m = (8 * band + inside % here) * BM + tl.arange(0, BM)
    n = inside // here * BN + tl.arange(0, BN)
    return m, n


@triton.jit
def _product(
    a, b, out, bias, M, N, K, a0, am, ak, b0, bk, bn, bias_m, bias_n, each,
    ACC: tl.constexpr, BIAS: tl.constexpr, ACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m, n = tile(M, N, BM, BN)
    batch, part = tl.program_id(1), tl.program_id(2)
    start = part * each
    acc = tl.zeros((BM, BN), ACC)
    acc = add_product(
        acc, a + batch * a0, b + batch * b0, m, n, M, N, K, am, ak, bk, bn, start, start + each, BK
    )
    inside = (m[:, None] < M) & (n[None, :] < N)
    if BIAS:
        acc += tl.load(bias + m[:, None] * bias_m + n[None, :] * bias_n, mask=inside, other=0)
    at = ((part * tl.num_programs(1) + batch) * M + m[:, None]) * N + n[None, :]
    tl.store(out + at, finish(acc, ACT).to(out.dtype.element_ty), mask=inside)


_KEY = ("M", "N", "K", "am", "ak", "bk", "bn", "each")
# Scalar units multiply float32: threads hold more of the operands, and tiles are smaller.
_SCALAR = configurations(
    "BM BN BK", (32, 32, 32, 4, 3), (64, 32, 32, 4, 3), (64, 64, 16, 4, 3), (128, 64, 16, 8, 3),
    (128, 128, 16, 8, 3),
)  # fmt: skip
_TENSOR = configurations(
    "BM BN BK", (32, 32, 64, 4, 4), (64, 64, 64, 4, 4), (128, 64, 64, 4, 3), (128, 128, 64, 8, 3)
)
_scalar_product = tuned(_SCALAR, _KEY)(_product)
_tensor_product = tuned(_TENSOR, _KEY)(_product)


@triton.jit
def _sum_parts(
    parts, out, bias, count, size, M, N, bias_m, bias_n,
    ACC: tl.constexpr, BIAS: tl.constexpr, ACT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    acc = tl.zeros((BLOCK,), ACC)
    for part in range(count):
        acc += tl.load(parts + part * size + i, mask=inside, other=0)
    if BIAS:
        acc += tl.load(bias + i // N % M * bias_m + i % N * bias_n, mask=inside, other=0)
    tl.store(out + i, finish(acc, ACT).to(out.dtype.element_ty), mask=inside)


def sum_parts(
    parts: Any, out: Any, bias: Any, last: tuple[int, int], strides: tuple[int, int], act: str
) -> Any:
    """The sum over the first dimension of `parts`, each laid out as `out`, with a bias and a function.
    `strides` are those of the bias along the last two dimensions, of extents `last`."""
    size = out.numel()
    _sum_parts[(triton.cdiv(size, 512),)](
        parts, out, bias, parts.shape[0], size, *last, *strides,
        ACC=sum_type(parts), BIAS=bias is not None, ACT=act, BLOCK=512,
    )  # fmt: skip
    return out


def split(blocks: int, K: int, least: int) -> tuple[int, int]:
    """Into how many parts a sum of K terms is cut where there are so many blocks, and the length of one."""
    parts = min(2 * processors() // max(1, blocks), K // least, 16)
    if parts < 2:
        return 1, K
    each = triton.cdiv(triton.cdiv(K, parts), 64) * 64
    return triton.cdiv(K, each), each


def multiply(a: Any, b: Any, bias: Any = None, act: str = "", by_rows: bool = False) -> Any:
    """a (M, K) times b (K, N), either of any strides or with a batch before; the bias is of columns, or of
    rows."""
    (M, K), N = a.shape[-2:], b.shape[-1]
    a0 = a.stride(0) if a.ndim == 3 else 0
    b0 = b.stride(0) if b.ndim == 3 else 0
    batch = (a.shape[0],) if a.ndim == 3 else (b.shape[0],) if b.ndim == 3 else ()
    count = batch[0] if batch else 1
    tensor_cores = a.dtype in (torch.float16, torch.int8)
    blocks = count * triton.cdiv(M, 64) * triton.cdiv(N, 64)
    parts, each = split(blocks, K, 512 if tensor_cores else 128)
    whole = parts == 1
    dtype = torch.int32 if a.dtype == torch.int8 else a.dtype
    out = torch.empty((*batch, M, N), dtype=dtype, device=a.device)
    held = out
    if not whole:
        wide = torch.float32 if dtype == torch.float16 else dtype
        held = torch.empty((parts, *batch, M, N), dtype=wide, device=a.device)
    strides = (1, 0) if by_rows else (0, 1)
    (_tensor_product if tensor_cores else _scalar_product)[
        lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]), count, parts)
    ](
        a, b, held, bias if whole else None, M, N, K, a0, a.stride(-2), a.stride(-1),
        b0, b.stride(-2), b.stride(-1), *strides, each,
        ACC=sum_type(a), BIAS=whole and bias is not None, ACT=act if whole else "",
    )  # fmt: skip
    return out if whole else sum_parts(held, out, bias, (M, N), strides, act)


@triton.jit
def _tiny(x, y, out, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, n = i // N, i % N
    acc = tl.zeros((BLOCK,), out.dtype.element_ty)
    for k in tl.static_range(K):
        v = tl.load(x + row * K + k, mask=i < size, other=0)
        acc += v * tl.load(y + (row // M * K + k) * N + n, mask=i < size, other=0)
    tl.store(out + i, acc, mask=i < size)


def multiply_tiny(x: Any, y: Any) -> Any:
    """Many products of small contiguous matrices, a thread an element."""
    (count, M, K), N = x.shape, y.shape[2]
    out = torch.empty((count, M, N), dtype=x.dtype, device=x.device)
    block = power(out.numel(), 16, 256)
    _tiny[(triton.cdiv(out.numel(), block),)](x, y, out, out.numel(), M=M, N=N, K=K, BLOCK=block)
    return out
