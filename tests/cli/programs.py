"""Programs and arguments that several tests use."""

from __future__ import annotations

MM = """def mm(float(M,K) A, float(K,N) B) -> (C) {
  C(i,j) +=! A(i,k) * B(k,j)
}
"""
SGEMM = """def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
  C(i,j) = b * C(i,j)               # initialization
  C(i,j) += a * A(i,k) * B(k,j)     # accumulation
}
"""
SIZES = ["--size", "M=3", "--size", "K=4", "--size", "N=5"]
REFERENCE = ["--backend", "reference"]
