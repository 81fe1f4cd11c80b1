"""Steps in PyTorch: its own function where there is one, else a loop in Python."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.workloads.loops.time_steps import RATE

# Programs that `torch.compile` sees whole; it would unroll the loops of others, or finds one call of LAPACK.
COMPILED = frozenset(
    (
        *("loop_rnn", "loop_lstm", "loop_gru", "loop_cumulative"),
        *("loop_histogram", "loop_segment_sum", "loop_embedding_gradient"),
    )
)


def loop_rnn(x, h, *weights):
    return torch.rnn_tanh(x, h[None], weights, True, 1, 0.0, False, False, False)[0]


def loop_lstm(x, h, c, *weights):
    y, h, c = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, False, False, False)
    return y, h[0], c[0]


def loop_gru(x, h, *weights):
    y, h = torch.gru(x, h[None], weights, True, 1, 0.0, False, False, False)
    return y, h[0]


def loop_selective_scan(u, delta, a, b, c, skip):
    h, y = u.new_zeros((u.shape[0], *a.shape)), torch.empty_like(u)
    for t in range(u.shape[1]):
        d = delta[:, t, :, None]
        h = torch.exp(d * a) * h + d * u[:, t, :, None] * b[:, t, None]
        y[:, t] = torch.einsum("nds,ns->nd", h, c[:, t])
    return y + skip * u


PADS = {"zero": "constant", "clamp": "replicate", "reflect": "reflect", "wrap": "circular"}


def _padded(u, mode):
    if mode == "symmetric":
        for axis, n in enumerate(u.shape):
            u = u.index_select(axis, torch.tensor([1, 0, *range(n), n - 1, n - 2]))
        return u
    return F.pad(u[None, None], (2, 2) * u.ndim, mode=PADS[mode])[0, 0]


def _heat(mode, T, u):
    for _ in range(T):
        p = _padded(u, mode)
        s = (-30 * u.ndim) * u
        for a, n in enumerate(u.shape):
            q = p
            for other, m in enumerate(u.shape):
                if other != a:
                    q = q.narrow(other, 2, m)
            left, right = q.narrow(a, 1, n), q.narrow(a, 3, n)
            s += 16 * (left + right) - q.narrow(a, 0, n) - q.narrow(a, 4, n)
        u = u + RATE / 12 * s
    return u


def loop_heat1d(mode, T, u):
    return _heat(mode, T, u)


def loop_heat2d(mode, T, u):
    return _heat(mode, T, u)


def loop_heat3d(mode, T, u):
    return _heat(mode, T, u)


def loop_lu(A):
    return torch.linalg.lu_factor(A)[0]


def loop_cholesky(A):
    return torch.linalg.cholesky(A)


def loop_trisolve(L, B):
    return torch.linalg.solve_triangular(L, B, upper=False)


def loop_needleman_wunsch(a, b):
    """A row at once: what comes from the left is a running maximum."""
    N, M = len(a), len(b)
    j = torch.arange(M + 1, dtype=torch.int32)
    H = torch.empty((N + 1, M + 1), dtype=torch.int32)
    H[0] = -j
    S = (a[:, None] == b).to(torch.int32) * 2 - 1
    for i in range(1, N + 1):
        row = torch.empty(M + 1, dtype=torch.int32)
        row[0] = -i
        torch.maximum(H[i - 1, :-1] + S[i - 1], H[i - 1, 1:] - 1, out=row[1:])
        H[i] = torch.cummax(row + j, 0)[0] - j
    return H


def loop_floyd_warshall(W):
    D = W.clone()
    for k in range(len(D)):
        torch.minimum(D, D[:, k, None] + D[k], out=D)
    return D


def loop_viterbi(E, A, first):
    T, S = E.shape
    d, p = first + E[0], torch.empty((T, S), dtype=torch.int64)
    for t in range(1, T):
        best, p[t] = (d[:, None] + A).max(0)
        d = best + E[t]
    best, at = d.max(0)
    at = int(at)
    path, p = [at], p.numpy()
    for t in range(T - 1, 0, -1):
        at = int(p[t, at])
        path.append(at)
    return torch.tensor(path[::-1], dtype=torch.int32), best


def loop_cumulative(kind, x):
    if kind == "maximum":
        return torch.cummax(x, 1)[0]
    return torch.cumsum(x, 1) if kind == "sum" else torch.cumprod(x, 1)


def loop_histogram(K, x):
    return torch.bincount(x, minlength=K).int()


def loop_segment_sum(S, x, ids):
    return x.new_zeros((S, x.shape[1])).index_add_(0, ids, x)


def loop_embedding_gradient(V, dy, ids):
    return torch.ops.aten.embedding_dense_backward(dy, ids, V, -1, False)


def loop_fft(x, w, r):
    return torch.fft.fft(x, dim=1)
