"""Steps in Python, each in whole arrays, or the function of NumPy or SciPy that does it all."""

from __future__ import annotations

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.special

from benchmarks.workloads.loops.time_steps import RATE

sigmoid = scipy.special.expit


def loop_rnn(x, h, w_ih, w_hh, b_ih, b_hh):
    a = x @ w_ih.T + (b_ih + b_hh)
    y = np.empty_like(a)
    for t in range(len(x)):
        y[t] = h = np.tanh(a[t] + h @ w_hh.T)
    return y


def loop_lstm(x, h, c, w_ih, w_hh, b_ih, b_hh):
    a = x @ w_ih.T + (b_ih + b_hh)
    y = np.empty((*x.shape[:2], h.shape[1]), x.dtype)
    for t in range(len(x)):
        i, f, g, o = np.split(a[t] + h @ w_hh.T, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        y[t] = h = sigmoid(o) * np.tanh(c)
    return y, h, c


def loop_gru(x, h, w_ih, w_hh, b_ih, b_hh):
    a = x @ w_ih.T + b_ih
    y = np.empty((*x.shape[:2], h.shape[1]), x.dtype)
    for t in range(len(x)):
        ar, az, am = np.split(a[t], 3, axis=1)
        ur, uz, um = np.split(h @ w_hh.T + b_hh, 3, axis=1)
        z = sigmoid(az + uz)
        y[t] = h = (1 - z) * np.tanh(am + sigmoid(ar + ur) * um) + z * h
    return y, h


def loop_selective_scan(u, delta, a, b, c, skip):
    B, L, D = u.shape
    h, y = np.zeros((B, D, a.shape[1]), u.dtype), np.empty_like(u)
    for t in range(L):
        d = delta[:, t, :, None]
        h = np.exp(d * a) * h + d * u[:, t, :, None] * b[:, t, None]
        y[:, t] = (h @ c[:, t, :, None])[..., 0]
    return y + skip * u


PADS = {"zero": "constant", "clamp": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap"}


def _heat(mode, T, u):
    inner = (slice(2, -2),) * u.ndim

    def at(axis, by):
        n = u.shape[axis]
        return tuple(slice(2 + by, 2 + by + n) if a == axis else s for a, s in enumerate(inner))

    for _ in range(T):
        p = np.pad(u, 2, PADS[mode])
        s = (-30 * u.ndim) * u
        for a in range(u.ndim):
            s += 16 * (p[at(a, -1)] + p[at(a, 1)]) - p[at(a, -2)] - p[at(a, 2)]
        u = u + RATE / 12 * s
    return u


def loop_heat1d(mode, T, u):
    return _heat(mode, T, u)


def loop_heat2d(mode, T, u):
    return _heat(mode, T, u)


def loop_heat3d(mode, T, u):
    return _heat(mode, T, u)


def loop_lu(A):
    return scipy.linalg.lu_factor(A)[0]


def loop_cholesky(A):
    return np.linalg.cholesky(A)


def loop_trisolve(L, B):
    return scipy.linalg.solve_triangular(L, B, lower=True)


def loop_needleman_wunsch(a, b):
    """A row at once: what comes from the left is a running maximum."""
    N, M = len(a), len(b)
    j = np.arange(M + 1, dtype=np.int32)
    H = np.empty((N + 1, M + 1), np.int32)
    H[0] = -j
    for i in range(1, N + 1):
        H[i, 0] = -i
        same = np.where(a[i - 1] == b, np.int32(1), np.int32(-1))
        H[i, 1:] = np.maximum(H[i - 1, :-1] + same, H[i - 1, 1:] - 1)
        H[i] = np.maximum.accumulate(H[i] + j) - j
    return H


def loop_floyd_warshall(W):
    D = W.copy()
    for k in range(len(D)):
        np.minimum(D, D[:, k, None] + D[k], out=D)
    return D


def loop_viterbi(E, A, first):
    T, S = E.shape
    d, p = first + E[0], np.empty((T, S), np.int32)
    states = np.arange(S)
    for t in range(1, T):
        s = d[:, None] + A
        p[t] = s.argmax(0)
        d = s[p[t], states] + E[t]
    path = np.empty(T, np.int32)
    path[T - 1] = d.argmax()
    for t in range(T - 2, -1, -1):
        path[t] = p[t + 1, path[t + 1]]
    return path, d.max()


def loop_cumulative(kind, x):
    return {"sum": np.cumsum, "product": np.cumprod, "maximum": np.maximum.accumulate}[kind](x, axis=1)


def loop_histogram(K, x):
    return np.bincount(x, minlength=K).astype(np.int32)


def loop_segment_sum(S, x, ids):
    y = np.zeros((S, x.shape[1]), x.dtype)
    np.add.at(y, ids, x)
    return y


def loop_embedding_gradient(V, dy, ids):
    dw = np.zeros((V, dy.shape[1]), dy.dtype)
    np.add.at(dw, ids, dy)
    return dw


def loop_fft(x, w, r):
    return scipy.fft.fft(x, axis=1, workers=-1)
