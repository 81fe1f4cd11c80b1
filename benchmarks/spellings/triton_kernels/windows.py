# pyright: basic, reportMissingImports=false
"""Windows that slide: convolutions as products of gathered matrices, depthwise ones, pools and stencils."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.spellings.triton_kernels.launch import configurations, power, tuned
from benchmarks.spellings.triton_kernels.products import finish, split, sum_parts


@tuned(
    configurations("BM BK", (32, 16, 2, 3), (64, 16, 4, 3), (64, 32, 4, 3), (128, 16, 4, 3), (128, 16, 8, 3)),
    ("N", "H", "W", "OH", "OW", "F", "C", "KH", "KW", "each", "in_c"),
)
@triton.jit
def _convolution(
    x, w, bias, out, N, H, W, OH, OW, F, in_n, in_c, in_y, in_x, w_f, w_c, w_y, w_x,
    out_n, out_f, out_y, out_x, size, each,
    C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, STEP: tl.constexpr,
    PAD: tl.constexpr, LAST: tl.constexpr, BIAS: tl.constexpr, ACT: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    wide = tl.cdiv(F, BN)
    p = tl.program_id(0) // wide * BM + tl.arange(0, BM)
    f = tl.program_id(0) % wide * BN + tl.arange(0, BN)
    group, part = tl.program_id(1), tl.program_id(2)
    n, oy, ox = p // (OH * OW), p // OW % OH, p % OW
    x += group * C * in_c
    w += group * F * w_f
    base = n * in_n + (oy * in_y + ox * in_x) * STRIDE
    acc = tl.zeros((BM, BN), tl.float32)
    for r0 in range(part * each, part * each + each, BK):
        r = r0 + tl.arange(0, BK)
        # The order of the sum is that in which the weights lie.
        if LAST:
            c, ky, kx = r % C, r // (C * KW), r // C % KW
        else:
            c, ky, kx = r // (KH * KW), r // KW % KH, r % KW
        inside = r < C * KH * KW
        seen = (p[:, None] < N * OH * OW) & inside[None, :]
        at = base[:, None] + (c * in_c + (ky * STEP - PAD) * in_y + (kx * STEP - PAD) * in_x)[None, :]
        if PAD > 0 or STEP < 0:
            y = oy[:, None] * STRIDE + ky[None, :] * STEP - PAD
            z = ox[:, None] * STRIDE + kx[None, :] * STEP - PAD
            seen = seen & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        pixels = tl.load(x + at, mask=seen, other=0.0)
        weights = tl.load(
            w + (c * w_c + ky * w_y + kx * w_x)[:, None] + f[None, :] * w_f,
            mask=inside[:, None] & (f[None, :] < F),
            other=0.0,
        )
        acc = tl.dot(pixels, weights, acc, input_precision="ieee")
    if BIAS:
        acc += tl.load(bias + group * F + f, mask=f < F, other=0.0)[None, :]
    to = part * size + (n * out_n + oy * out_y + ox * out_x)[:, None] + (group * F + f)[None, :] * out_f
    tl.store(out + to, finish(acc, ACT), mask=(p[:, None] < N * OH * OW) & (f[None, :] < F))


def convolve(
    x: Any, w: Any, out: Any, *, bias: Any = None, act: str = "", groups: int = 1,
    stride: int = 1, step: int = 1, pad: int = 0, last: bool = False,
) -> Any:  # fmt: skip
    """x (N, GC, H, W) with windows w (GF, C, KH, KW) to out (N, GF, OH, OW), all of any strides.  `step` is
    from one point of the window to the next, -1 for one that is turned round; `last`: channels lie closest in
    the weights.  A bias needs a contiguous result."""
    (N, _, H, W), (GF, C, KH, KW), (OH, OW) = x.shape, w.shape, out.shape[2:]
    F = GF // groups
    block = power(F, 8, 64)
    parts, each = split(groups * triton.cdiv(N * OH * OW, 64) * triton.cdiv(F, block), C * KH * KW, 256)
    whole = parts == 1
    held = out if whole else torch.empty((parts, out.numel()), dtype=x.dtype, device=x.device)
    _convolution[lambda meta: (triton.cdiv(N * OH * OW, meta["BM"]) * triton.cdiv(F, block), groups, parts)](
        x, w, bias if whole else None, held, N, H, W, OH, OW, F, *x.stride(), *w.stride(), *out.stride(),
        out.numel(), each, C=C, KH=KH, KW=KW, STRIDE=stride, STEP=step, PAD=pad, LAST=last,
        BIAS=whole and bias is not None, ACT=act if whole else "", BN=block,
    )  # fmt: skip
    return out if whole else sum_parts(held, out, bias, (GF, OH * OW), (1, 0), act)


@triton.jit
def _depthwise(
    x, w, out, C, H, W, OH, OW, KH: tl.constexpr, KW: tl.constexpr, BY: tl.constexpr, BX: tl.constexpr
):
    plane = tl.program_id(1)
    wide = tl.cdiv(OW, BX)
    y = (tl.program_id(0) // wide * BY + tl.arange(0, BY))[:, None]
    z = (tl.program_id(0) % wide * BX + tl.arange(0, BX))[None, :]
    x += plane * H * W
    w += plane % C * (KH * KW)
    inside = (y < OH) & (z < OW)
    acc = tl.zeros((BY, BX), tl.float32)
    for ky in tl.static_range(KH):
        for kx in tl.static_range(KW):
            acc += tl.load(x + (y + ky) * W + z + kx, mask=inside, other=0.0) * tl.load(w + ky * KW + kx)
    tl.store(out + plane * OH * OW + y * OW + z, acc, mask=inside)


def depthwise(x: Any, w: Any) -> Any:
    (N, C, H, W), (_, KH, KW) = x.shape, w.shape
    OH, OW = H - KH + 1, W - KW + 1
    out = torch.empty((N, C, OH, OW), dtype=x.dtype, device=x.device)
    bx = power(OW, 16, 64)
    by = 1024 // bx
    _depthwise[(triton.cdiv(OH, by) * triton.cdiv(OW, bx), N * C)](
        x, w, out, C, H, W, OH, OW, KH=KH, KW=KW, BY=by, BX=bx
    )
    return out


@triton.jit
def _pool(x, out, size, H, W, OH, OW, MAX: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    row = i // OW
    at = x + row // OH * (H * W) + row % OH * (2 * W) + i % OW * 2
    a = tl.load(at, mask=inside, other=0).to(out.dtype.element_ty)
    b = tl.load(at + 1, mask=inside, other=0).to(out.dtype.element_ty)
    c = tl.load(at + W, mask=inside, other=0).to(out.dtype.element_ty)
    d = tl.load(at + W + 1, mask=inside, other=0).to(out.dtype.element_ty)
    if MAX:
        v = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
    else:
        v = (a + b + c + d) * 0.25
    tl.store(out + i, v, mask=inside)


def pool(x: Any, highest: bool) -> Any:
    """The largest, or the mean in float32, of each 2x2 square of the last two dimensions."""
    *beside, H, W = x.shape
    OH, OW = H // 2, W // 2
    out = torch.empty((*beside, OH, OW), dtype=torch.float32, device=x.device)
    _pool[(triton.cdiv(out.numel(), 1024),)](x, out, out.numel(), H, W, OH, OW, MAX=highest, BLOCK=1024)
    return out


@triton.jit
def _near(a, y, z, W, inside, DY: tl.constexpr, DZ: tl.constexpr):
    return tl.load(a + (y + DY) * W + z + DZ, mask=inside, other=0.0)


@triton.jit
def _slopes(a, y, z, W, inside, P: tl.constexpr, Q: tl.constexpr):
    """Of the point P below and Q to the right, by its eight neighbours."""
    nw, ne = _near(a, y, z, W, inside, P, Q), _near(a, y, z, W, inside, P, Q + 2)
    sw, se = _near(a, y, z, W, inside, P + 2, Q), _near(a, y, z, W, inside, P + 2, Q + 2)
    n, s = _near(a, y, z, W, inside, P, Q + 1), _near(a, y, z, W, inside, P + 2, Q + 1)
    w, e = _near(a, y, z, W, inside, P + 1, Q), _near(a, y, z, W, inside, P + 1, Q + 2)
    return ne - nw + 2 * (e - w) + se - sw, sw - nw + 2 * (s - n) + se - ne


@triton.jit
def _stencil(a, out, H, W, KIND: tl.constexpr, EDGE: tl.constexpr, BY: tl.constexpr, BX: tl.constexpr):
    """Of a plane: `cross`, the mean of five; `box`, that of nine; `corners`, Harris's measure."""
    wide = tl.cdiv(W - EDGE, BX)
    y = (tl.program_id(0) // wide * BY + tl.arange(0, BY))[:, None]
    z = (tl.program_id(0) % wide * BX + tl.arange(0, BX))[None, :]
    inside = (y < H - EDGE) & (z < W - EDGE)
    if KIND == "cross":
        v = (
            _near(a, y, z, W, inside, 1, 1)
            + _near(a, y, z, W, inside, 0, 1)
            + _near(a, y, z, W, inside, 2, 1)
        )
        v = 0.2 * (v + _near(a, y, z, W, inside, 1, 0) + _near(a, y, z, W, inside, 1, 2))
    elif KIND == "box":
        v = tl.zeros((BY, BX), tl.float32)
        for p in tl.static_range(3):
            row = _near(a, y, z, W, inside, p, 0) + _near(a, y, z, W, inside, p, 1)
            v += (row + _near(a, y, z, W, inside, p, 2)) * 0.33333333
        v *= 0.33333333
    else:
        xx = tl.zeros((BY, BX), tl.float32)
        yy = tl.zeros((BY, BX), tl.float32)
        xy = tl.zeros((BY, BX), tl.float32)
        for p in tl.static_range(3):
            for q in tl.static_range(3):
                dx, dy = _slopes(a, y, z, W, inside, p, q)
                xx += dx * dx
                yy += dy * dy
                xy += dx * dy
        v = xx * yy - xy * xy - 0.04 * (xx + yy) * (xx + yy)
    tl.store(out + y * (W - EDGE) + z, v, mask=inside)


def stencil(a: Any, kind: str) -> Any:
    H, W = a.shape
    edge = 4 if kind == "corners" else 2
    out = torch.empty((H - edge, W - edge), dtype=a.dtype, device=a.device)
    bx = power(W - edge, 16, 128)
    _stencil[(triton.cdiv(H - edge, 8) * triton.cdiv(W - edge, bx),)](
        a, out, H, W, KIND=kind, EDGE=edge, BY=8, BX=bx
    )
    return out


@triton.jit
def _jacobi3d(a, out, M, L, BY: tl.constexpr, BX: tl.constexpr):
    wide = tl.cdiv(L - 2, BX)
    i = tl.program_id(1)
    j = (tl.program_id(0) // wide * BY + tl.arange(0, BY))[:, None]
    k = (tl.program_id(0) % wide * BX + tl.arange(0, BX))[None, :]
    inside = (j < M - 2) & (k < L - 2)
    at = a + ((i + 1) * M + j + 1) * L + k + 1
    v = tl.load(at - M * L, mask=inside, other=0.0) + tl.load(at + M * L, mask=inside, other=0.0)
    v += tl.load(at - L, mask=inside, other=0.0) + tl.load(at + L, mask=inside, other=0.0)
    v += tl.load(at - 1, mask=inside, other=0.0) + tl.load(at + 1, mask=inside, other=0.0)
    v = 0.4 * tl.load(at, mask=inside, other=0.0) + 0.1 * v
    tl.store(out + (i * (M - 2) + j) * (L - 2) + k, v, mask=inside)


def jacobi3d(a: Any) -> Any:
    N, M, L = a.shape
    out = torch.empty((N - 2, M - 2, L - 2), dtype=a.dtype, device=a.device)
    bx = power(L - 2, 16, 128)
    _jacobi3d[(triton.cdiv(M - 2, 8) * triton.cdiv(L - 2, bx), N - 2)](a, out, M, L, BY=8, BX=bx)
    return out
