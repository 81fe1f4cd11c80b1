"""PolyBench's medley and stencils in loops for Numba: the outermost loop that may be is parallel,
fast math is on."""

from __future__ import annotations

import numba
import numpy as np
from numba import prange

from benchmarks.workloads.polybench.medley import deriche_coefficients
from benchmarks.workloads.polybench.stencils import adi_coefficients

jit = numba.njit(parallel=True, fastmath=True)
serial = numba.njit(fastmath=True)

# ---- medley

A1, A2, A3, A4, B1, B2 = deriche_coefficients()


@jit
def poly_deriche(x):
    W, H = x.shape
    r, out = np.empty_like(x), np.empty_like(x)
    for i in prange(W):
        p1 = p2 = x1 = 0.0
        for j in range(H):
            p = A1 * x[i, j] + A2 * x1 + B1 * p1 + B2 * p2
            r[i, j] = p
            x1, p2, p1 = x[i, j], p1, p
        p1 = p2 = x1 = x2 = 0.0
        for j in range(H - 1, -1, -1):
            p = A3 * x1 + A4 * x2 + B1 * p1 + B2 * p2
            r[i, j] += p
            x2, x1, p2, p1 = x1, x[i, j], p1, p
    parts = numba.get_num_threads()
    for c in prange(parts):
        first, last = c * H // parts, (c + 1) * H // parts
        n = last - first
        zero = np.zeros(n)
        u1, u2, u = np.zeros(n), np.zeros(n), np.zeros(n)
        for i in range(W):
            before = r[i - 1, first:last] if i else zero
            for j in range(n):
                u[j] = A1 * r[i, first + j] + A2 * before[j] + B1 * u1[j] + B2 * u2[j]
                out[i, first + j] = u[j]
            u2, u1, u = u1, u, u2
        u1[:] = 0.0
        u2[:] = 0.0
        for i in range(W - 1, -1, -1):
            after = r[i + 1, first:last] if i < W - 1 else zero
            then = r[i + 2, first:last] if i < W - 2 else zero
            for j in range(n):
                u[j] = A3 * after[j] + A4 * then[j] + B1 * u1[j] + B2 * u2[j]
                out[i, first + j] += u[j]
            u2, u1, u = u1, u, u2
    return out


@jit
def poly_floyd_warshall(W):
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
def poly_nussinov(b):
    N = len(b)
    t = np.zeros((N, N), b.dtype)
    for i in range(N - 1, -1, -1):
        for j in range(i + 1, N):
            best = max(t[i, j - 1], t[i + 1, j])
            pair = 1 if i < j - 1 and b[i] + b[j] == 3 else 0
            best = max(best, t[i + 1, j - 1] + pair)
            for k in range(i + 1, j):
                best = max(best, t[i, k] + t[k + 1, j])
            t[i, j] = best
    return t


# ---- stencils


@jit
def _adi(u0, T, a, b, d, e):
    N = len(u0)
    u, v = u0.copy(), np.zeros((N, N))
    p, q = np.empty((N, N)), np.empty((N, N))
    for _ in range(T):
        for i in prange(1, N - 1):
            v[0, i], p[i, 0], q[i, 0] = 1.0, 0.0, 1.0
            for j in range(1, N - 1):
                under = 1.0 / (a * p[i, j - 1] + b)
                p[i, j] = -a * under
                right = -d * u[j, i - 1] + (1 + 2 * d) * u[j, i] - d * u[j, i + 1]
                q[i, j] = (right - a * q[i, j - 1]) * under
            v[N - 1, i] = 1.0
            for j in range(N - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in prange(1, N - 1):
            u[i, 0], p[i, 0], q[i, 0] = 1.0, 0.0, 1.0
            for j in range(1, N - 1):
                under = 1.0 / (d * p[i, j - 1] + e)
                p[i, j] = -d * under
                right = -a * v[i - 1, j] + (1 + 2 * a) * v[i, j] - a * v[i + 1, j]
                q[i, j] = (right - d * q[i, j - 1]) * under
            u[i, N - 1] = 1.0
            for j in range(N - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]
    return u


def poly_adi(T, u0):
    return _adi(u0, T, *adi_coefficients(T, len(u0)))


@jit
def poly_fdtd_2d(f, ex0, ey0, hz0):
    ex, ey, hz = ex0.copy(), ey0.copy(), hz0.copy()
    NX, NY = ex.shape
    for t in range(len(f)):
        for i in prange(NX):
            if i == 0:
                ey[0, :] = f[t]
            else:
                for j in range(NY):
                    ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
            for j in range(1, NY):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in prange(NX - 1):
            for j in range(NY - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
    return ex, ey, hz


@jit
def _heat(to, of):
    N = len(to)
    for i in prange(1, N - 1):
        for j in range(1, N - 1):
            for k in range(1, N - 1):
                c = of[i, j, k]
                to[i, j, k] = (
                    0.125 * (of[i + 1, j, k] - 2 * c + of[i - 1, j, k])
                    + 0.125 * (of[i, j + 1, k] - 2 * c + of[i, j - 1, k])
                    + 0.125 * (of[i, j, k + 1] - 2 * c + of[i, j, k - 1])
                    + c
                )


@jit
def poly_heat_3d(T, A0, B0):
    A, B = A0.copy(), B0.copy()
    for _ in range(T):
        _heat(B, A)
        _heat(A, B)
    return A, B


@serial
def poly_jacobi_1d(T, A0, B0):
    A, B = A0.copy(), B0.copy()
    N = len(A)
    for _ in range(T):
        for i in range(1, N - 1):
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
        for i in range(1, N - 1):
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])
    return A, B


@jit
def poly_jacobi_2d(T, A0, B0):
    A, B = A0.copy(), B0.copy()
    N = len(A)
    for _ in range(T):
        for i in prange(1, N - 1):
            for j in range(1, N - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        for i in prange(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])
    return A, B


@serial
def poly_seidel_2d(T, A0):
    A = A0.copy()
    N = len(A)
    for _ in range(T):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = (
                    A[i - 1, j - 1] + A[i - 1, j] + A[i - 1, j + 1] + A[i, j - 1] + A[i, j] + A[i, j + 1]
                    + A[i + 1, j - 1] + A[i + 1, j] + A[i + 1, j + 1]
                ) / 9.0  # fmt: skip
    return A
