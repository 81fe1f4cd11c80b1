"""NumPy's spelling, where it has a call for the work or a short formula."""

from __future__ import annotations

import numpy as np


def tmm(A, B):
    return A @ B.T


def gemm(A, B):
    return A @ B


def gemm_tn(A, B):
    return A.T @ B


def tbmm(X, Y):
    return X @ Y.swapaxes(1, 2)


def bmm(X, Y):
    return X @ Y


def matvec(A, x):
    return A @ x


def vecmat(x, A):
    return x @ A


def dot(a, b):
    return np.dot(a, b)


def mlp1(I, W1, B1):
    return np.maximum(I @ W1.T + B1, 0)


def mlp3(I, W2, B2, W3, B3, W4, B4):
    x = np.maximum(I @ W2.T + B2, 0)
    y = np.maximum(x @ W3.T + B3, 0)
    return x, y, np.maximum(y @ W4.T + B4, 0)


def chain3(A, B, C):
    return A @ B @ C


def mttkrp(X, B, C):
    return ((X @ C) * B).sum(1)


def softmax_plain(I):
    e = np.exp(I - I.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    return e


def row_sum(A):
    return A.sum(1)


def column_sum(A):
    return A.sum(0)


def row_max(A):
    return A.max(1)


def total(a):
    return a.sum()


def gather_rows(T, I):
    return T.take(I, 0)


def gather_elements(T, I):
    return T.take(I)


def add(a, b):
    return a + b


def outer_sum(a, b):
    return np.add.outer(a, b)


def fill(a):
    return np.full_like(a, 0.5)


def transpose(A):
    return np.ascontiguousarray(A.T)


def permute(X):
    return np.ascontiguousarray(X.swapaxes(1, 2))


def contraction(equation, *operands):
    return np.einsum(equation, *operands, optimize=True)


def reduction(operation, over, X):
    return X.sum(over) if operation == "sum" else X.max(over)


def permutation(order, X):
    return np.ascontiguousarray(X.transpose(order))
