"""Programs and questions of tests of what kernels keep near."""

from __future__ import annotations

import numpy as np

import tc
from tc.ir.loops import (
    Array,
    Stmt,
)
from tests.backends.cpu_cases import Array as NumPy


def nest(kernel: tc.Kernel, **sizes: int) -> Stmt:
    return kernel.specialize(**sizes).compiled.nest.body


def shared(kernel: tc.Kernel, **sizes: int) -> list[Array]:
    return [a for a in kernel.specialize(**sizes).compiled.nest.arrays if a.role == "shared"]


def small(rng: np.random.Generator, *shape: int) -> NumPy:
    return rng.integers(-3, 4, shape).astype(np.float32)


GEMM = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
CONV = """def conv(float(N,C,H,W) I, float(M,C,KH,KW) K) -> (O) {
  O(n,m,h,w) +=! I(n,c,h+kh,w+kw) * K(m,c,kh,kw)
}"""
