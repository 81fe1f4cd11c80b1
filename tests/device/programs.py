"""Programs that the tests of this folder share, at sizes that they share too: each is compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
GATHER = "def gather(float(N,D) A, int(M) I) -> (B) { B(i,d) = A(I(i),d) }"
TWICE = "def twice(float(N) A, float s) -> (B, C) { B(i) = s * A(i)  C(i) = A(i) + s }"
# Two kernels, with a temporary between them.
PARTS = "def parts(float(N) A) -> (B) { t(i) = A(i) * A(i)  s() +=! t(i) where i in 0:N  B(i) = t(i) / s() }"
UPDATE = "def update(float(N) A) -> (B) { B(i) += A(i) }"

Array = np.ndarray[Any, Any]


def numbers(*shape: int, first: int = 1) -> Array:
    """Small integers as floats, whose sums and products are exact."""
    count = int(np.prod(shape))
    return (np.arange(first, first + count) % 7 - 2).astype(np.float32).reshape(shape)
