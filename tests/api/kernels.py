"""Kernels for tests of calls."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import tc

F = np.float32
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
ADD1 = "def f(float(N) A) -> (B) { B(i) = A(i) + 1 }"
LUT = "def lut(float(E,D) L, int(B,K) I) -> (O) { O(b,d) +=! L(I(b,k), d) }"


def compile(source: str, **more: Any) -> tc.Kernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, "reference", **more)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, F)
