"""PolyBench in NumPy, in whole arrays wherever that can be.  These are the reference, too."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads.polybench.common import ALPHA, BETA
from benchmarks.workloads.polybench.medley import deriche_coefficients
from benchmarks.workloads.polybench.stencils import adi_coefficients

# ---- linear algebra of the BLAS


def poly_gemm(C, A, B):
    return ALPHA * (A @ B) + BETA * C


def poly_gemver(A, u1, v1, u2, v2, y, z):
    A = A + np.outer(u1, v1) + np.outer(u2, v2)
    x = z + BETA * (A.T @ y)
    return A, x, ALPHA * (A @ x)


def poly_gesummv(A, B, x):
    return ALPHA * (A @ x) + BETA * (B @ x)


def poly_symm(C, A, B):
    S = np.tril(A)
    S += np.tril(A, -1).T
    return BETA * C + ALPHA * (S @ B)


def poly_syr2k(C, A, B):
    P = A @ B.T
    return np.triu(C, 1) + np.tril(BETA * C + ALPHA * (P + P.T))


def poly_syrk(C, A):
    return np.triu(C, 1) + np.tril(BETA * C + ALPHA * (A @ A.T))


def poly_trmm(A, B):
    return ALPHA * (B + np.tril(A, -1).T @ B)


# ---- kernels of linear algebra


def poly_2mm(A, B, C, D):
    return ALPHA * (A @ B) @ C + BETA * D


def poly_3mm(A, B, C, D):
    return (A @ B) @ (C @ D)


def poly_atax(A, x):
    return A.T @ (A @ x)


def poly_bicg(A, r, p):
    return r @ A, A @ p


def poly_doitgen(A, C):
    return A @ C


def poly_mvt(A, x1, x2, p, q):
    return x1 + A @ p, x2 + A.T @ q


# ---- solvers


def poly_cholesky(A):
    return np.linalg.cholesky(A) + np.triu(A, 1)


def poly_durbin(r):
    y = np.empty_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, len(r)):
        beta *= 1 - alpha * alpha
        alpha = -(r[k] + r[k - 1 :: -1] @ y[:k]) / beta
        y[:k] += alpha * y[k - 1 :: -1]
        y[k] = alpha
    return y


def poly_gramschmidt(A):
    W = A.copy()
    N = A.shape[1]
    Q, R = np.empty_like(A), np.zeros((N, N))
    for k in range(N):
        R[k, k] = np.sqrt(W[:, k] @ W[:, k])
        Q[:, k] = W[:, k] / R[k, k]
        R[k, k + 1 :] = Q[:, k] @ W[:, k + 1 :]
        W[:, k + 1 :] -= np.outer(Q[:, k], R[k, k + 1 :])
    return Q, R


def poly_lu(A):
    F = A.copy()
    for k in range(len(F)):
        F[k + 1 :, k] /= F[k, k]
        F[k + 1 :, k + 1 :] -= np.outer(F[k + 1 :, k], F[k, k + 1 :])
    return F


def poly_ludcmp(A, b):
    F, x, y = poly_lu(A), np.empty_like(b), np.empty_like(b)
    for i in range(len(b)):
        y[i] = b[i] - F[i, :i] @ y[:i]
    for i in range(len(b) - 1, -1, -1):
        x[i] = (y[i] - F[i, i + 1 :] @ x[i + 1 :]) / F[i, i]
    return F, x, y


def poly_trisolv(L, b):
    x = np.empty_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


# ---- data mining


def poly_correlation(data):
    N = len(data)
    d = data - data.mean(0)
    dev = np.sqrt((d * d).sum(0) / N)
    dev[dev <= 0.1] = 1.0
    d /= np.sqrt(float(N)) * dev
    corr = d.T @ d
    np.fill_diagonal(corr, 1.0)
    return corr


def poly_covariance(data):
    d = data - data.mean(0)
    return d.T @ d / (len(data) - 1)


# ---- medley


def _deriche(x):
    """Both ways along the first dimension."""
    a1, a2, a3, a4, b1, b2 = deriche_coefficients()
    n = len(x)
    p, q = np.empty_like(x), np.empty_like(x)
    none = np.zeros_like(x[0])
    for i in range(n):
        p[i] = a1 * x[i] + a2 * (x[i - 1] if i else none)
        p[i] += b1 * (p[i - 1] if i else none) + b2 * (p[i - 2] if i > 1 else none)
    for i in range(n - 1, -1, -1):
        q[i] = a3 * (x[i + 1] if i < n - 1 else none) + a4 * (x[i + 2] if i < n - 2 else none)
        q[i] += b1 * (q[i + 1] if i < n - 1 else none) + b2 * (q[i + 2] if i < n - 2 else none)
    return p + q


def poly_deriche(x):
    return _deriche(np.ascontiguousarray(_deriche(np.ascontiguousarray(x.T)).T))


def poly_floyd_warshall(W):
    D = W.copy()
    for k in range(len(D)):
        np.minimum(D, D[:, k, None] + D[k], out=D)
    return D


def poly_nussinov(b):
    n = len(b)
    t = np.zeros((n, n), b.dtype)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            pair = t[i + 1, j - 1] + (1 if i < j - 1 and b[i] + b[j] == 3 else 0)
            best = max(t[i, j - 1], t[i + 1, j], pair)
            if j > i + 1:
                best = max(best, (t[i, i + 1 : j] + t[i + 2 : j + 1, j]).max())
            t[i, j] = best
    return t


# ---- stencils


def poly_adi(T, u0):
    N = len(u0)
    a, b, d, e = adi_coefficients(T, N)
    u, v = u0.copy(), np.zeros((N, N))
    p, q = np.empty((N, N)), np.empty((N, N))  # the line that is solved along comes first
    inner = slice(1, N - 1)
    for _ in range(T):
        v[0, inner] = v[N - 1, inner] = 1
        p[0, inner], q[0, inner] = 0, 1
        for j in range(1, N - 1):
            under = a * p[j - 1, inner] + b
            p[j, inner] = -a / under
            right = -d * u[j, :-2] + (1 + 2 * d) * u[j, 1:-1] - d * u[j, 2:]
            q[j, inner] = (right - a * q[j - 1, inner]) / under
        for j in range(N - 2, 0, -1):
            v[j, inner] = p[j, inner] * v[j + 1, inner] + q[j, inner]
        u[inner, 0] = u[inner, N - 1] = 1
        p[0, inner], q[0, inner] = 0, 1
        for j in range(1, N - 1):
            under = d * p[j - 1, inner] + e
            p[j, inner] = -d / under
            right = -a * v[:-2, j] + (1 + 2 * a) * v[1:-1, j] - a * v[2:, j]
            q[j, inner] = (right - d * q[j - 1, inner]) / under
        for j in range(N - 2, 0, -1):
            u[inner, j] = p[j, inner] * u[inner, j + 1] + q[j, inner]
    return u


def poly_fdtd_2d(f, ex, ey, hz):
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for t in range(len(f)):
        ey[0] = f[t]
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


def _heat(to, of):
    c = of[1:-1, 1:-1, 1:-1]
    to[1:-1, 1:-1, 1:-1] = (
        0.125 * (of[2:, 1:-1, 1:-1] - 2 * c + of[:-2, 1:-1, 1:-1])
        + 0.125 * (of[1:-1, 2:, 1:-1] - 2 * c + of[1:-1, :-2, 1:-1])
        + 0.125 * (of[1:-1, 1:-1, 2:] - 2 * c + of[1:-1, 1:-1, :-2])
        + c
    )


def poly_heat_3d(T, A, B):
    A, B = A.copy(), B.copy()
    for _ in range(T):
        _heat(B, A)
        _heat(A, B)
    return A, B


def poly_jacobi_1d(T, A, B):
    A, B = A.copy(), B.copy()
    for _ in range(T):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])
    return A, B


def _cross(to, of):
    to[1:-1, 1:-1] = 0.2 * (of[1:-1, 1:-1] + of[1:-1, :-2] + of[1:-1, 2:] + of[2:, 1:-1] + of[:-2, 1:-1])


def poly_jacobi_2d(T, A, B):
    A, B = A.copy(), B.copy()
    for _ in range(T):
        _cross(B, A)
        _cross(A, B)
    return A, B


def poly_seidel_2d(T, A):
    """Points (i, j) of one 2 i + j depend on none of the same."""
    A = A.copy()
    N = len(A)
    flat = A.reshape(-1)
    for _ in range(T):
        for w in range(3, 3 * (N - 2) + 1):
            first = max(1, (w - N + 3) // 2)
            last = min(N - 2, (w - 1) // 2)
            at = np.arange(first, last + 1)
            at = at * N + (w - 2 * at)
            flat[at] = (
                flat[at - N - 1] + flat[at - N] + flat[at - N + 1] + flat[at - 1] + flat[at] + flat[at + 1]
                + flat[at + N - 1] + flat[at + N] + flat[at + N + 1]
            ) / 9.0  # fmt: skip
    return A
