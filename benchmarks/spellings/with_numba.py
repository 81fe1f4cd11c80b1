"""Loops as one would write them for Numba: parallel over the outermost, fast math on."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import prange

jit = numba.njit(parallel=True, fastmath=True)


@jit
def bmm(X, Y):
    B, N, M = X.shape
    K = Y.shape[2]
    Z = np.empty((B, N, K), X.dtype)
    for b in prange(B):
        for n in range(N):
            for k in range(K):
                s = np.float32(0)
                for m in range(M):
                    s += X[b, n, m] * Y[b, m, k]
                Z[b, n, k] = s
    return Z


@jit
def distances(X, Y):
    M, D = X.shape
    N = Y.shape[0]
    O = np.empty((M, N), X.dtype)
    for i in prange(M):
        for j in range(N):
            s = np.float32(0)
            for d in range(D):
                t = X[i, d] - Y[j, d]
                s += t * t
            O[i, j] = s
    return O


@jit
def moments(I):
    N, K = I.shape
    mean, var = np.empty(N, I.dtype), np.empty(N, I.dtype)
    for n in prange(N):
        s = np.float32(0)
        q = np.float32(0)
        for k in range(K):
            s += I[n, k]
            q += I[n, k] * I[n, k]
        m = s / np.float32(K)
        mean[n] = m
        var[n] = q / np.float32(K) - m * m
    return mean, var


@jit
def softmax(I):
    N, D = I.shape
    mx, sm, O = np.empty(N, I.dtype), np.empty(N, I.dtype), np.empty((N, D), I.dtype)
    for n in prange(N):
        m = I[n, 0]
        for d in range(D):
            m = max(m, I[n, d])
        s = np.float32(0)
        for d in range(D):
            e = math.exp(I[n, d] - m)
            O[n, d] = e
            s += e
        for d in range(D):
            O[n, d] /= s
        mx[n] = m
        sm[n] = s
    return mx, sm, O


@jit
def layer_norm(X, gain, bias):
    N, D = X.shape
    O = np.empty((N, D), X.dtype)
    for n in prange(N):
        s = np.float32(0)
        for d in range(D):
            s += X[n, d]
        m = s / np.float32(D)
        q = np.float32(0)
        for d in range(D):
            q += (X[n, d] - m) * (X[n, d] - m)
        r = np.float32(1) / math.sqrt(q / np.float32(D) + np.float32(1e-5))
        for d in range(D):
            O[n, d] = (X[n, d] - m) * r * gain[d] + bias[d]
    return O


@jit
def rms_norm(X, gain):
    N, D = X.shape
    O = np.empty((N, D), X.dtype)
    for n in prange(N):
        s = np.float32(0)
        for d in range(D):
            s += X[n, d] * X[n, d]
        r = np.float32(1) / math.sqrt(s / np.float32(D) + np.float32(1e-6))
        for d in range(D):
            O[n, d] = X[n, d] * r * gain[d]
    return O


@jit
def lut(LUT1, I1):
    B, L = I1.shape
    D = LUT1.shape[1]
    O = np.zeros((B, D), LUT1.dtype)
    for b in prange(B):
        for k in range(L):
            row = I1[b, k]
            for d in range(D):
                O[b, d] += LUT1[row, d]
    return O


@jit
def lut2(LUT1, I1, LUT2, I2):
    B, L = I1.shape
    P, Q = np.zeros((B, LUT1.shape[1]), LUT1.dtype), np.zeros((B, LUT2.shape[1]), LUT2.dtype)
    for b in prange(B):
        for k in range(L):
            row = I1[b, k]
            for d in range(LUT1.shape[1]):
                P[b, d] += LUT1[row, d]
        for k in range(I2.shape[1]):
            row = I2[b, k]
            for d in range(LUT2.shape[1]):
                Q[b, d] += LUT2[row, d]
    return P, Q


@jit
def weighted_lut(T, I, W):
    B, L = I.shape
    D = T.shape[1]
    O = np.zeros((B, D), T.dtype)
    for b in prange(B):
        for k in range(L):
            row = I[b, k]
            w = W[b, k]
            for d in range(D):
                O[b, d] += w * T[row, d]
    return O


@jit
def gather_rows(T, I):
    O = np.empty((I.shape[0], T.shape[1]), T.dtype)
    for n in prange(I.shape[0]):
        for d in range(T.shape[1]):
            O[n, d] = T[I[n], d]
    return O


@jit
def gather_elements(T, I):
    O = np.empty(I.shape[0], T.dtype)
    for n in prange(I.shape[0]):
        O[n] = T[I[n]]
    return O


@jit
def sparse_rows(A, J, x):
    N, L = A.shape
    y = np.empty(N, A.dtype)
    for i in prange(N):
        s = np.float32(0)
        for k in range(L):
            s += A[i, k] * x[J[i, k]]
        y[i] = s
    return y


@jit
def chain(a, b, c):
    o = np.empty_like(a)
    for i in prange(a.shape[0]):
        o[i] = max(a[i] * b[i] + c[i], np.float32(0)) * (a[i] - b[i]) + np.float32(1)
    return o


@jit
def gate(a, b, c):
    o = np.empty_like(a)
    for i in prange(a.shape[0]):
        o[i] = math.tanh(a[i] * b[i]) / (np.float32(1) + math.exp(-c[i]))
    return o


@jit
def jacobi2d(A):
    N, M = A.shape
    B = np.empty((N - 2, M - 2), A.dtype)
    for i in prange(N - 2):
        for j in range(M - 2):
            B[i, j] = np.float32(0.2) * (
                A[i + 1, j + 1] + A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + 2]
            )
    return B


@jit
def jacobi3d(A):
    N, M, L = A.shape
    B = np.empty((N - 2, M - 2, L - 2), A.dtype)
    for i in prange(N - 2):
        for j in range(M - 2):
            for k in range(L - 2):
                x = A[i, j + 1, k + 1] + A[i + 2, j + 1, k + 1] + A[i + 1, j, k + 1]
                x += A[i + 1, j + 2, k + 1] + A[i + 1, j + 1, k] + A[i + 1, j + 1, k + 2]
                B[i, j, k] = np.float32(0.4) * A[i + 1, j + 1, k + 1] + np.float32(0.1) * x
    return B


@jit
def blur(I):
    H, W = I.shape
    O = np.empty((H - 2, W - 2), I.dtype)
    third = np.float32(0.33333333)
    for y in prange(H - 2):
        for x in range(W - 2):
            s = I[y, x] + I[y, x + 1] + I[y, x + 2]
            s += I[y + 1, x] + I[y + 1, x + 1] + I[y + 1, x + 2]
            s += I[y + 2, x] + I[y + 2, x + 1] + I[y + 2, x + 2]
            O[y, x] = s * third * third
    return O


@jit
def downscale(I):
    N, H, W = I.shape
    O = np.empty((N, H // 2, W // 2), np.float32)
    for n in prange(N):
        for y in range(H // 2):
            for x in range(W // 2):
                s = np.float32(I[n, 2 * y, 2 * x]) + np.float32(I[n, 2 * y, 2 * x + 1])
                s += np.float32(I[n, 2 * y + 1, 2 * x]) + np.float32(I[n, 2 * y + 1, 2 * x + 1])
                O[n, y, x] = s * np.float32(0.25)
    return O
