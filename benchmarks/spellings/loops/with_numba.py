"""Steps in loops for Numba: parallel inside a step where that may be, fast math on; products are NumPy's."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import prange

from benchmarks.workloads.loops.time_steps import RATE

jit = numba.njit(parallel=True, fastmath=True)
serial = numba.njit(fastmath=True)


@serial
def _sigmoid(x):
    return np.float32(1) / (np.float32(1) + math.exp(-x))


@jit
def loop_rnn(x, h0, w_ih, w_hh, b_ih, b_hh):
    L, B, I = x.shape
    H = h0.shape[1]
    a = np.dot(x.reshape(L * B, I), w_ih.T).reshape(L, B, H)
    y, h, back = np.empty((L, B, H), x.dtype), h0, np.ascontiguousarray(w_hh.T)
    for t in range(L):
        u = np.dot(h, back)
        for n in prange(B):
            for j in range(H):
                y[t, n, j] = math.tanh(a[t, n, j] + u[n, j] + b_ih[j] + b_hh[j])
        h = y[t]
    return y


@jit
def loop_lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh):
    L, B, I = x.shape
    H = h0.shape[1]
    a = np.dot(x.reshape(L * B, I), w_ih.T).reshape(L, B, 4 * H)
    b = b_ih + b_hh
    y, h, c, back = np.empty((L, B, H), x.dtype), h0, c0.copy(), np.ascontiguousarray(w_hh.T)
    for t in range(L):
        u = np.dot(h, back)
        for n in prange(B):
            for j in range(H):
                i = _sigmoid(a[t, n, j] + u[n, j] + b[j])
                f = _sigmoid(a[t, n, H + j] + u[n, H + j] + b[H + j])
                g = math.tanh(a[t, n, 2 * H + j] + u[n, 2 * H + j] + b[2 * H + j])
                o = _sigmoid(a[t, n, 3 * H + j] + u[n, 3 * H + j] + b[3 * H + j])
                c[n, j] = f * c[n, j] + i * g
                y[t, n, j] = o * math.tanh(c[n, j])
        h = y[t]
    return y, h.copy(), c


@jit
def loop_gru(x, h0, w_ih, w_hh, b_ih, b_hh):
    L, B, I = x.shape
    H = h0.shape[1]
    a = np.dot(x.reshape(L * B, I), w_ih.T).reshape(L, B, 3 * H)
    y, h, back = np.empty((L, B, H), x.dtype), h0, np.ascontiguousarray(w_hh.T)
    for t in range(L):
        u = np.dot(h, back)
        for n in prange(B):
            for j in range(H):
                r = _sigmoid(a[t, n, j] + b_ih[j] + u[n, j] + b_hh[j])
                z = _sigmoid(a[t, n, H + j] + b_ih[H + j] + u[n, H + j] + b_hh[H + j])
                s = a[t, n, 2 * H + j] + b_ih[2 * H + j]
                m = math.tanh(s + r * (u[n, 2 * H + j] + b_hh[2 * H + j]))
                y[t, n, j] = (np.float32(1) - z) * m + z * h[n, j]
        h = y[t]
    return y, h.copy()


@jit
def loop_selective_scan(u, delta, a, b, c, skip):
    B, L, D = u.shape
    S = a.shape[1]
    y = np.empty_like(u)
    for n in range(B):
        for d in prange(D):
            h = np.zeros(S, u.dtype)
            for t in range(L):
                rate, taken = delta[n, t, d], delta[n, t, d] * u[n, t, d]
                s = np.float32(0)
                for k in range(S):
                    h[k] = math.exp(rate * a[d, k]) * h[k] + taken * b[n, t, k]
                    s += h[k] * c[n, t, k]
                y[n, t, d] = s + skip[d] * u[n, t, d]
    return y


# ---- heat: in arrays with two more elements at each end, which are filled after every step


def _sources(mode, n):
    """Where the padding of a dimension comes from, in the padded array: before it, and after it."""
    return {
        "zero": ((-1, -1), (-1, -1)),
        "clamp": ((2, 2), (n + 1, n + 1)),
        "reflect": ((4, 3), (n, n - 1)),
        "symmetric": ((3, 2), (n + 1, n)),
        "wrap": ((n, n + 1), (2, 3)),
    }[mode]


@jit
def _heat1d(u, T, ends):
    N = len(u)
    p, q = np.zeros(N + 4, u.dtype), np.zeros(N + 4, u.dtype)
    p[2 : N + 2] = u
    r, sixteen, thirty = np.float32(RATE / 12), np.float32(16), np.float32(30)
    for _ in range(T):
        for x in range(4):
            if ends[x] >= 0:
                p[(0, 1, N + 2, N + 3)[x]] = p[ends[x]]
        for i in prange(2, N + 2):
            q[i] = p[i] + r * (sixteen * (p[i - 1] + p[i + 1]) - p[i - 2] - p[i + 2] - thirty * p[i])
        p, q = q, p
    return p[2 : N + 2].copy()


@jit
def _heat2d(u, T, ends):
    N = len(u)
    p, q = np.zeros((N + 4, N + 4), u.dtype), np.zeros((N + 4, N + 4), u.dtype)
    p[2 : N + 2, 2 : N + 2] = u
    r, sixteen, sixty = np.float32(RATE / 12), np.float32(16), np.float32(60)
    for _ in range(T):
        for x in range(4):
            if ends[x] >= 0:
                to = (0, 1, N + 2, N + 3)[x]
                p[to, :] = p[ends[x], :]
                p[:, to] = p[:, ends[x]]
        for i in prange(2, N + 2):
            for j in range(2, N + 2):
                near = p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1]
                far = p[i - 2, j] + p[i + 2, j] + p[i, j - 2] + p[i, j + 2]
                q[i, j] = p[i, j] + r * (sixteen * near - far - sixty * p[i, j])
        p, q = q, p
    return p[2 : N + 2, 2 : N + 2].copy()


@jit
def _heat3d(u, T, ends):
    N = len(u)
    p, q = np.zeros((N + 4, N + 4, N + 4), u.dtype), np.zeros((N + 4, N + 4, N + 4), u.dtype)
    p[2 : N + 2, 2 : N + 2, 2 : N + 2] = u
    r, sixteen, ninety = np.float32(RATE / 12), np.float32(16), np.float32(90)
    for _ in range(T):
        for x in range(4):
            if ends[x] >= 0:
                to = (0, 1, N + 2, N + 3)[x]
                p[to] = p[ends[x]]
                p[:, to] = p[:, ends[x]]
                p[:, :, to] = p[:, :, ends[x]]
        for i in prange(2, N + 2):
            for j in range(2, N + 2):
                for k in range(2, N + 2):
                    near = p[i - 1, j, k] + p[i + 1, j, k] + p[i, j - 1, k] + p[i, j + 1, k]
                    near += p[i, j, k - 1] + p[i, j, k + 1]
                    far = p[i - 2, j, k] + p[i + 2, j, k] + p[i, j - 2, k] + p[i, j + 2, k]
                    far += p[i, j, k - 2] + p[i, j, k + 2]
                    q[i, j, k] = p[i, j, k] + r * (sixteen * near - far - ninety * p[i, j, k])
        p, q = q, p
    return p[2 : N + 2, 2 : N + 2, 2 : N + 2].copy()


def _ends(mode, u):
    before, after = _sources(mode, len(u))
    return np.array([*before, *after])


def loop_heat1d(mode, T, u):
    return _heat1d(u, T, _ends(mode, u))


def loop_heat2d(mode, T, u):
    return _heat2d(u, T, _ends(mode, u))


def loop_heat3d(mode, T, u):
    return _heat3d(u, T, _ends(mode, u))


# ---- factors and tables


@jit
def loop_lu(A):
    F = A.copy()
    N = len(F)
    for k in range(N):
        for i in prange(k + 1, N):
            F[i, k] /= F[k, k]
            f = F[i, k]
            for j in range(k + 1, N):
                F[i, j] -= f * F[k, j]
    return F


@jit
def loop_cholesky(A):
    N = len(A)
    L = np.zeros_like(A)
    for j in range(N):
        s = A[j, j]
        for k in range(j):
            s -= L[j, k] * L[j, k]
        root = math.sqrt(s)
        L[j, j] = root
        for i in prange(j + 1, N):
            c = A[i, j]
            for k in range(j):
                c -= L[i, k] * L[j, k]
            L[i, j] = c / root
    return L


@jit
def loop_trisolve(L, B):
    N, M = B.shape
    X = B.copy()
    parts = numba.get_num_threads()
    for p in prange(parts):
        first, last = p * M // parts, (p + 1) * M // parts
        for i in range(N):
            for k in range(i):
                f = L[i, k]
                for m in range(first, last):
                    X[i, m] -= f * X[k, m]
            for m in range(first, last):
                X[i, m] /= L[i, i]
    return X


@serial
def loop_needleman_wunsch(a, b):
    N, M = len(a), len(b)
    H = np.empty((N + 1, M + 1), np.int32)
    for i in range(N + 1):
        H[i, 0] = -i
    for j in range(M + 1):
        H[0, j] = -j
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            same = 1 if a[i - 1] == b[j - 1] else -1
            H[i, j] = max(H[i - 1, j - 1] + same, H[i - 1, j] - 1, H[i, j - 1] - 1)
    return H


@jit
def loop_floyd_warshall(W):
    D = W.copy()
    N = len(D)
    for k in range(N):
        row = D[k].copy()
        for i in prange(N):
            d = D[i, k]
            for j in range(N):
                D[i, j] = min(D[i, j], d + row[j])
    return D


@serial
def loop_viterbi(E, A, first):
    T, S = E.shape
    p = np.empty((T, S), np.int32)
    d, g = first + E[0], np.empty(S)
    for t in range(1, T):
        g[:] = -np.inf
        for i in range(S):
            for j in range(S):
                s = d[i] + A[i, j]
                better = s > g[j]
                g[j] = s if better else g[j]
                p[t, j] = i if better else p[t, j]
        for j in range(S):
            d[j] = g[j] + E[t, j]
    path = np.empty(T, np.int32)
    path[T - 1] = np.argmax(d)
    for t in range(T - 2, -1, -1):
        path[t] = p[t + 1, path[t + 1]]
    return path, d.max()


# ---- prefixes and scatters


@jit
def _sums(x):
    y = np.empty_like(x)
    for n in prange(x.shape[0]):
        s = np.float32(0)
        for d in range(x.shape[1]):
            s += x[n, d]
            y[n, d] = s
    return y


@jit
def _products(x):
    y = np.empty_like(x)
    for n in prange(x.shape[0]):
        s = np.float32(1)
        for d in range(x.shape[1]):
            s *= x[n, d]
            y[n, d] = s
    return y


@jit
def _maxima(x):
    y = np.empty_like(x)
    for n in prange(x.shape[0]):
        s = x[n, 0]
        for d in range(x.shape[1]):
            v = x[n, d]
            if v > s or v != v:  # from a NaN on all maxima are NaN, as in the other contestants
                s = v
            y[n, d] = s
    return y


def loop_cumulative(kind, x):
    return {"sum": _sums, "product": _products, "maximum": _maxima}[kind](x)


@jit
def loop_histogram(K, x):
    parts, N = numba.get_num_threads(), len(x)
    some = np.zeros((parts, K), np.int32)
    for p in prange(parts):
        for n in range(p * N // parts, (p + 1) * N // parts):
            some[p, x[n]] += 1
    return some.sum(0).astype(np.int32)


@jit
def _added(K, x, ids):
    """Each thread adds to columns of its own."""
    N, D = x.shape
    y = np.zeros((K, D), x.dtype)
    parts = numba.get_num_threads()
    for p in prange(parts):
        first, last = p * D // parts, (p + 1) * D // parts
        for n in range(N):
            for d in range(first, last):
                y[ids[n], d] += x[n, d]
    return y


def loop_segment_sum(S, x, ids):
    return _added(S, x, ids)


def loop_embedding_gradient(V, dy, ids):
    return _added(V, dy, ids)


@jit
def loop_fft(x, w, r):
    B, N = x.shape
    S, H = w.shape
    X = np.empty_like(x)
    for b in prange(B):
        a, c = x[b].copy(), np.empty_like(x[b])
        for s in range(S):
            for i in range(H):
                u, v = a[i], a[i + H]
                c[2 * i] = u + v
                c[2 * i + 1] = (u - v) * w[s, i]
            a, c = c, a
        for i in range(N):
            X[b, i] = a[r[i]]
    return X
