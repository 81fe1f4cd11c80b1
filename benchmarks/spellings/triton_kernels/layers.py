# pyright: basic, reportMissingImports=false
"""Several products in one kernel: attention, layers with gates, forms of two vectors, distances."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.spellings.triton_kernels.launch import configurations, power, tuned
from benchmarks.spellings.triton_kernels.products import add_product, tile

_KEY = ("M", "N", "K")
_SMALL = configurations(
    "BM BN BK", (16, 16, 32, 2, 3), (32, 32, 32, 4, 3), (64, 32, 16, 4, 3), (64, 64, 16, 8, 3)
)
_FLAT = configurations(
    "BM BN BK", (16, 16, 32, 2, 3), (16, 64, 32, 4, 3), (32, 64, 16, 4, 3), (64, 64, 16, 4, 3)
)
_HEADS = configurations("BM BN", (16, 32, 4, 2), (32, 32, 4, 2), (64, 32, 8, 2), (64, 64, 8, 2))
_PAIRS = configurations("BM BN", (16, 16, 4, 1), (32, 32, 4, 1), (64, 32, 4, 1), (64, 64, 4, 1))


@tuned(_HEADS, ("L", "T", "D"))
@triton.jit
def _attention(
    q, k, v, out, L, T, scale, D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr,
    BD: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    q += head * L * D
    k += head * T * D
    v += head * T * E
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    queries = tl.load(q + i[:, None] * D + d[None, :], mask=(i[:, None] < L) & (d[None, :] < D), other=0.0)
    queries *= scale
    highest = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BE), tl.float32)
    stop = tl.minimum(T, (tl.program_id(0) + 1) * BM) if CAUSAL else T
    for j0 in range(0, stop, BN):
        t = j0 + j
        keys = tl.load(k + t[None, :] * D + d[:, None], mask=(t[None, :] < T) & (d[:, None] < D), other=0.0)
        scores = tl.dot(queries, keys, input_precision="ieee")
        seen = t[None, :] < T
        if CAUSAL:
            seen = seen & (t[None, :] <= i[:, None])
        scores = tl.where(seen, scores, -1e30)
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.where(seen, tl.exp(scores - higher[:, None]), 0.0)
        less = tl.exp(highest - higher)
        total = total * less + tl.sum(weights, 1)
        values = tl.load(v + t[:, None] * E + e[None, :], mask=(t[:, None] < T) & (e[None, :] < E), other=0.0)
        acc = tl.dot(weights, values, acc * less[:, None], input_precision="ieee")
        highest = higher
    out += head * L * E
    inside = (i[:, None] < L) & (e[None, :] < E)
    tl.store(out + i[:, None] * E + e[None, :], acc / total[:, None], mask=inside)


def attention(Q: Any, K: Any, V: Any, causal: bool) -> Any:
    """Scores of a block of queries and a block of keys at a time, the soft-max kept up to date."""
    (B, L, D), T, E = Q.shape, K.shape[1], V.shape[2]
    out = torch.empty((B, L, E), dtype=Q.dtype, device=Q.device)
    _attention[lambda meta: (triton.cdiv(L, meta["BM"]), B)](
        Q, K, V, out, L, T, D**-0.5, D=D, E=E, CAUSAL=causal, BD=power(D, 16), BE=power(E, 16)
    )
    return out


@tuned(_SMALL, _KEY)
@triton.jit
def _swiglu(x, w, v, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tile(M, N, BM, BN)
    g = tl.zeros((BM, BN), tl.float32)
    u = tl.zeros((BM, BN), tl.float32)
    k = tl.arange(0, BK)
    for k0 in range(0, K, BK):
        left = K - k0
        columns = (k[:, None] < left) & (n[None, :] < N)
        at = n[None, :] * K + (k0 + k)[:, None]
        rows = tl.load(
            x + m[:, None] * K + (k0 + k)[None, :], mask=(m[:, None] < M) & (k[None, :] < left), other=0.0
        )
        g = tl.dot(rows, tl.load(w + at, mask=columns, other=0.0), g, input_precision="ieee")
        u = tl.dot(rows, tl.load(v + at, mask=columns, other=0.0), u, input_precision="ieee")
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out + m[:, None] * N + n[None, :], g * tl.sigmoid(g) * u, mask=inside)


def swiglu(X: Any, W: Any, V: Any) -> Any:
    """Both products of the input at once."""
    (M, K), N = X.shape, W.shape[0]
    out = torch.empty((M, N), dtype=X.dtype, device=X.device)
    _swiglu[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](X, W, V, out, M, N, K)
    return out


@triton.jit
def _gate(x, s, w, u, m, n, M, N, J, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = add_product(tl.zeros((BM, BN), tl.float32), x, w, m, n, M, N, J, J, 1, 1, J, 0, J, BK)
    return add_product(acc, s, u, m, n, M, N, N, N, 1, 1, N, 0, N, BK)


@tuned(_SMALL[:2], ("M", "N", "J"))
@triton.jit
def _lstm(
    x, s, c, wi, ui, wf, uf, wg, ug, wo, uo, t, d, M, N, J,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m, n = tile(M, N, BM, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    at = m[:, None] * N + n[None, :]
    f = tl.sigmoid(_gate(x, s, wf, uf, m, n, M, N, J, BM, BN, BK))
    cell = f * tl.load(c + at, mask=inside, other=0.0)
    i = tl.sigmoid(_gate(x, s, wi, ui, m, n, M, N, J, BM, BN, BK))
    cell += i * (2.0 * tl.sigmoid(2.0 * _gate(x, s, wg, ug, m, n, M, N, J, BM, BN, BK)) - 1.0)
    o = tl.sigmoid(_gate(x, s, wo, uo, m, n, M, N, J, BM, BN, BK))
    tl.store(d + at, cell, mask=inside)
    tl.store(t + at, o * (2.0 * tl.sigmoid(2.0 * cell) - 1.0), mask=inside)


def lstm_cell(x: Any, s: Any, c: Any, *weights: Any) -> tuple[Any, Any]:
    """The four gates of a tile one after the other, the hyperbolic tangent by the sigmoid."""
    (M, N), J = c.shape, x.shape[1]
    t, d = torch.empty_like(c), torch.empty_like(c)
    _lstm[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](
        x, s, c, *weights, t, d, M, N, J
    )
    return t, d


@triton.jit
def _layer(v, w, bias, out, b, B, K, N, BK: tl.constexpr, BN: tl.constexpr):
    k, n = tl.arange(0, BK), tl.arange(0, BN)
    weights = tl.load(w + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
    v = tl.dot(v, weights, input_precision="ieee") + tl.load(bias + n, mask=n < N, other=0.0)[None, :]
    v = tl.maximum(v, 0.0)
    tl.store(out + b[:, None] * N + n[None, :], v, mask=(b[:, None] < B) & (n[None, :] < N))
    return v


@triton.jit
def _layers(
    x, w2, b2, w3, b3, w4, b4, o2, o3, o4, B, N, O, P, Q, BB: tl.constexpr,
    BN: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    n = tl.arange(0, BN)
    v = tl.load(x + b[:, None] * N + n[None, :], mask=(b[:, None] < B) & (n[None, :] < N), other=0.0)
    v = _layer(v, w2, b2, o2, b, B, N, O, BN, BO)
    v = _layer(v, w3, b3, o3, b, B, O, P, BO, BP)
    _layer(v, w4, b4, o4, b, B, P, Q, BP, BQ)


def three_layers(I: Any, W2: Any, B2: Any, W3: Any, B3: Any, W4: Any, B4: Any) -> tuple[Any, ...]:
    """A block takes some rows through all layers, none wider than 128."""
    widths = (I.shape[1], W2.shape[0], W3.shape[0], W4.shape[0])
    outs = tuple(torch.empty((len(I), w), dtype=I.dtype, device=I.device) for w in widths[1:])
    n, o, p, q = (power(w, 16) for w in widths)
    _layers[(triton.cdiv(len(I), 16),)](
        I, W2, B2, W3, B3, W4, B4, *outs, len(I), *widths, BB=16, BN=n, BO=o, BP=p, BQ=q, num_warps=8
    )
    return outs


@tuned(_FLAT, ("R", "J", "K"))
@triton.jit
def _form(
    x, w, y, out, R, J, K, xr, xk, w0, wk, wj, yr, yj, o0, o1,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    p = tl.program_id(1)
    total = tl.zeros((BM,), tl.float32)
    for j0 in range(0, J, BN):
        j = j0 + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        acc = add_product(acc, x, w + p * w0, r, j, R, J, K, xr, xk, wk, wj, 0, K, BK)
        inside = (r[:, None] < R) & (j[None, :] < J)
        total += tl.sum(acc * tl.load(y + r[:, None] * yr + j[None, :] * yj, mask=inside, other=0.0), 1)
    tl.store(out + r * o0 + p * o1, total, mask=r < R)


def forms(x: Any, w: Any, y: Any, out: Any) -> Any:
    """out[r, p] = sum over k and j of x[r, k] * w[p, k, j] * y[r, j], all of any strides."""
    (R, K), J = x.shape, y.shape[1]
    _form[lambda meta: (triton.cdiv(R, meta["BM"]), w.shape[0])](
        x, w, y, out, R, J, K, *x.stride(), *w.stride(), *y.stride(), *out.stride()
    )
    return out


@tuned(_PAIRS, _KEY)
@triton.jit
def _distances(x, y, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tile(M, N, BM, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for d in range(K):
        a = tl.load(x + m * K + d, mask=m < M, other=0.0)
        b = tl.load(y + n * K + d, mask=n < N, other=0.0)
        off = a[:, None] - b[None, :]
        acc += off * off
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def distances(X: Any, Y: Any) -> Any:
    """One dimension after the other, as differences are no product."""
    (M, K), N = X.shape, Y.shape[0]
    out = torch.empty((M, N), dtype=X.dtype, device=X.device)
    _distances[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](X, Y, out, M, N, K)
    return out


@tuned(_SMALL, _KEY)
@triton.jit
def _lower(a, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tile(M, N, BM, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    # Tiles above the diagonal are zeros: their sum is empty.
    stop = tl.where(tl.min(n) <= tl.max(m), K, 0)
    acc = add_product(acc, a, a, m, n, M, N, K, K, 1, 1, K, 0, stop, BK)
    acc = tl.where(n[None, :] <= m[:, None], acc, 0.0)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def lower_square(A: Any) -> Any:
    """The lower triangle of A times its transpose."""
    N, K = A.shape
    out = torch.empty((N, N), dtype=A.dtype, device=A.device)
    _lower[lambda meta: (triton.cdiv(N, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](A, out, N, N, K)
    return out
