"""PolyBench's linear algebra and data mining in loops for Numba: the outermost loop that may be is parallel,
fast math is on."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import prange

from benchmarks.workloads.polybench.common import ALPHA, BETA

jit = numba.njit(parallel=True, fastmath=True)
serial = numba.njit(fastmath=True)


# ---- products of matrices


@serial
def _product(A, B, i, row):
    """A row of A times B, added to what `row` has: the innermost loop goes along rows."""
    for k in range(A.shape[1]):
        a = A[i, k]
        for j in range(B.shape[1]):
            row[j] += a * B[k, j]


@jit
def poly_gemm(C0, A, B):
    C = np.empty_like(C0)
    for i in prange(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = BETA * C0[i, j]
        for k in range(A.shape[1]):
            a = ALPHA * A[i, k]
            for j in range(C.shape[1]):
                C[i, j] += a * B[k, j]
    return C


@jit
def poly_2mm(A, B, C, D0):
    t = np.zeros((A.shape[0], B.shape[1]))
    D = np.empty_like(D0)
    for i in prange(A.shape[0]):
        for k in range(A.shape[1]):
            a = ALPHA * A[i, k]
            for j in range(B.shape[1]):
                t[i, j] += a * B[k, j]
        for j in range(D.shape[1]):
            D[i, j] = BETA * D0[i, j]
        _product(t, C, i, D[i])
    return D


@jit
def poly_3mm(A, B, C, D):
    E = np.zeros((A.shape[0], B.shape[1]))
    F = np.zeros((C.shape[0], D.shape[1]))
    G = np.zeros((A.shape[0], D.shape[1]))
    for i in prange(A.shape[0]):
        _product(A, B, i, E[i])
    for i in prange(C.shape[0]):
        _product(C, D, i, F[i])
    for i in prange(A.shape[0]):
        _product(E, F, i, G[i])
    return G


@jit
def poly_doitgen(A, C):
    B = np.zeros_like(A)
    for r in prange(A.shape[0]):
        for q in range(A.shape[1]):
            _product(A[r], C, q, B[r, q])
    return B


@jit
def poly_symm(C0, A, B):
    M, N = C0.shape
    C = np.empty_like(C0)
    for i in prange(M):
        for j in range(N):
            C[i, j] = BETA * C0[i, j]
        for k in range(M):
            a = ALPHA * (A[i, k] if k <= i else A[k, i])
            for j in range(N):
                C[i, j] += a * B[k, j]
    return C


@jit
def poly_syrk(C0, A):
    N, M = A.shape
    C = C0.copy()
    for i in prange(N):
        for j in range(i + 1):
            s = 0.0
            for k in range(M):
                s += A[i, k] * A[j, k]
            C[i, j] = BETA * C[i, j] + ALPHA * s
    return C


@jit
def poly_syr2k(C0, A, B):
    N, M = A.shape
    C = C0.copy()
    for i in prange(N):
        for j in range(i + 1):
            s = 0.0
            for k in range(M):
                s += A[j, k] * B[i, k] + B[j, k] * A[i, k]
            C[i, j] = BETA * C[i, j] + ALPHA * s
    return C


@jit
def poly_trmm(A, B0):
    M, N = B0.shape
    B = B0.copy()
    for i in prange(M):
        for k in range(i + 1, M):
            a = A[k, i]
            for j in range(N):
                B[i, j] += a * B0[k, j]
        for j in range(N):
            B[i, j] *= ALPHA
    return B


# ---- matrices and vectors


@serial
def _along(A, x, i):
    s = 0.0
    for j in range(A.shape[1]):
        s += A[i, j] * x[j]
    return s


@jit
def _down(A, x, y):
    """y + A.T x; each thread has columns of its own."""
    parts = numba.get_num_threads()
    M, N = A.shape
    for p in prange(parts):
        first, last = p * N // parts, (p + 1) * N // parts
        for i in range(M):
            xi = x[i]
            for j in range(first, last):
                y[j] += A[i, j] * xi


@jit
def poly_gemver(A0, u1, v1, u2, v2, y, z):
    N = len(z)
    A = np.empty_like(A0)
    x, w = z.copy(), np.empty_like(z)
    for i in prange(N):
        for j in range(N):
            A[i, j] = A0[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    _down(A, BETA * y, x)
    for i in prange(N):
        w[i] = ALPHA * _along(A, x, i)
    return A, x, w


@jit
def poly_gesummv(A, B, x):
    y = np.empty_like(x)
    for i in prange(len(x)):
        y[i] = ALPHA * _along(A, x, i) + BETA * _along(B, x, i)
    return y


@jit
def poly_atax(A, x):
    t, y = np.empty(A.shape[0]), np.zeros_like(x)
    for i in prange(A.shape[0]):
        t[i] = _along(A, x, i)
    _down(A, t, y)
    return y


@jit
def poly_bicg(A, r, p):
    s, q = np.zeros_like(p), np.empty_like(r)
    _down(A, r, s)
    for i in prange(A.shape[0]):
        q[i] = _along(A, p, i)
    return s, q


@jit
def poly_mvt(A, x1, x2, p, q):
    z1, z2 = np.empty_like(x1), x2.copy()
    for i in prange(len(x1)):
        z1[i] = x1[i] + _along(A, p, i)
    _down(A, q, z2)
    return z1, z2


# ---- solvers


@jit
def poly_cholesky(A):
    L = A.copy()
    N = len(L)
    for k in range(N):
        L[k, k] = math.sqrt(L[k, k])
        for i in range(k + 1, N):
            L[i, k] /= L[k, k]
        column = L[:, k].copy()
        for i in prange(k + 1, N):
            for j in range(k + 1, i + 1):
                L[i, j] -= column[i] * column[j]
    return L


@serial
def poly_durbin(r):
    N = len(r)
    y, z = np.empty_like(r), np.empty_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, N):
        beta *= 1 - alpha * alpha
        s = r[k]
        for i in range(k):
            s += r[k - i - 1] * y[i]
        alpha = -s / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return y


@jit
def poly_gramschmidt(A):
    M, N = A.shape
    W = A.copy()
    Q, R = np.empty_like(A), np.zeros((N, N))
    parts = numba.get_num_threads()
    for k in range(N):
        s = 0.0
        for i in range(M):
            s += W[i, k] * W[i, k]
        R[k, k] = math.sqrt(s)
        for i in range(M):
            Q[i, k] = W[i, k] / R[k, k]
        for p in prange(parts):
            first = k + 1 + p * (N - k - 1) // parts
            last = k + 1 + (p + 1) * (N - k - 1) // parts
            for i in range(M):
                for j in range(first, last):
                    R[k, j] += Q[i, k] * W[i, j]
            for i in range(M):
                for j in range(first, last):
                    W[i, j] -= Q[i, k] * R[k, j]
    return Q, R


@jit
def poly_lu(A):
    F = A.copy()
    N = len(F)
    for k in range(N):
        for i in prange(k + 1, N):
            F[i, k] /= F[k, k]
            f = F[i, k]
            for j in range(k + 1, N):
                F[i, j] -= f * F[k, j]
    return F


@serial
def _before(A, x, i, first, last):
    s = 0.0
    for j in range(first, last):
        s += A[i, j] * x[j]
    return s


@serial
def _solve(F, b):
    N = len(b)
    x, y = np.empty_like(b), np.empty_like(b)
    for i in range(N):
        y[i] = b[i] - _before(F, y, i, 0, i)
    for i in range(N - 1, -1, -1):
        x[i] = (y[i] - _before(F, x, i, i + 1, N)) / F[i, i]
    return x, y


def poly_ludcmp(A, b):
    F = poly_lu(A)
    return F, *_solve(F, b)


@serial
def poly_trisolv(L, b):
    x = np.empty_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - _before(L, x, i, 0, i)) / L[i, i]
    return x


# ---- data mining


@jit
def _centred(data):
    N, M = data.shape
    mean = np.zeros(M)
    for i in range(N):
        for j in range(M):
            mean[j] += data[i, j]
    d = np.empty_like(data)
    for i in prange(N):
        for j in range(M):
            d[i, j] = data[i, j] - mean[j] / N
    return d


@jit
def _moments(d, by):
    """The upper half of d.T d / by, mirrored."""
    N, M = d.shape
    C = np.zeros((M, M))
    for i in prange(M):
        for k in range(N):
            a = d[k, i]
            for j in range(i, M):
                C[i, j] += a * d[k, j]
        for j in range(i, M):
            C[i, j] /= by
    for i in prange(M):
        for j in range(i):
            C[i, j] = C[j, i]
    return C


@jit
def poly_correlation(data):
    N, M = data.shape
    d = _centred(data)
    dev = np.zeros(M)
    for i in range(N):
        for j in range(M):
            dev[j] += d[i, j] * d[i, j]
    for j in range(M):
        s = math.sqrt(dev[j] / N)
        dev[j] = math.sqrt(float(N)) * (1.0 if s <= 0.1 else s)
    for i in prange(N):
        for j in range(M):
            d[i, j] /= dev[j]
    C = _moments(d, 1.0)
    for i in range(M):
        C[i, i] = 1.0
    return C


@jit
def poly_covariance(data):
    return _moments(_centred(data), data.shape[0] - 1.0)
