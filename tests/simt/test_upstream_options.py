"""The option sets that once broke the original (UPSTREAM, 7.5), all of each: right results on the shim,
without a finding; NVRTC compiles them at the original's sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
from tests.simt import shim as simt
from tests.simt.mapped import call

TENSORDOT = """def tensordot(float(N,C1,C2,H,W) I0, float(N,C2,C3,H,W) I1) -> (O) {
  O(n,c1,c3,h,w) +=! I0(n,c1,c2,h,w) * I1(n,c2,c3,h,w)
}"""
GROUP_CONVOLUTION = """def group_convolution(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {
  O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * W1(g,f,c,kh,kw)
  O(n,g,f,h,w) = O(n,g,f,h,w) + B(g,f)
}"""
C3 = "def _C3(float(B,WX) I, float(WY,WX) W) -> (C3) { C3(b,wy) +=! I(b,wxx) * W(wy,wxx) }"
TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
LAYER_NORM = """def layernorm(float(T,B,C) I) -> (O, mean, centered, var) {
  mean(t,b) +=! I(t,b,r_c) / C
  centered(t,b,c) = I(t,b,c) - mean(t,b)
  var(t,b) +=! centered(t,b,r_c) * centered(t,b,r_c)
  var(t,b) = var(t,b) / C
  O(t,b,c) = centered(t,b,c) / rsqrt(var(t,b) + 1)
}"""
GROUP_NORM = """def group_normalization(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta)
    -> (O, mean, var) {
  mean(n,g) +=! I(n,g,r_d,r_h,r_w)
  var(n,g) +=! I(n,g,r_d,r_h,r_w) * I(n,g,r_d,r_h,r_w)
  O(n,g,d,h,w) = gamma(g,d) * (I(n,g,d,h,w) - mean(n,g) * 0.01)
               * rsqrt(var(n,g) * 100.0 - mean(n,g) * mean(n,g) * 0.1 + 1e-5) + beta(g,d)
}"""
KRONECKER = """def kronecker3_1(float(D2,N2) W2, float(M,N0,N1,N2) X) -> (XW2) {
  XW2(m,n0,n1,d2) +=! X(m,n0,n1,r_n2) * W2(d2,r_n2)
}"""
NESTED = (
    "def convolution(float(N) A, float(M) K) -> (B) { B(x) +=! A(xp) * K(N - 1 + x - xp) where xp in 0:N }"
)


@dataclass(frozen=True)
class Case:
    source: str
    sizes: dict[str, int]
    small: dict[str, int]
    options: dict[str, Any] = field(default_factory=dict)


_T = (
    {"N": 32, "C1": 512, "C2": 8, "C3": 2, "H": 28, "W": 28},
    {"N": 3, "C1": 5, "C2": 8, "C3": 2, "H": 6, "W": 9},
)
_G = (
    {"N": 32, "G": 32, "C": 4, "F": 4, "H": 56, "W": 56, "KH": 3, "KW": 3},
    {"N": 2, "G": 3, "C": 4, "F": 4, "H": 9, "W": 8, "KH": 3, "KW": 3},
)
_C = {"B": 128, "WX": 1000, "WY": 1024}, {"B": 9, "WX": 33, "WY": 20}
_M = {"M": 128, "N": 1024, "K": 1024}, {"M": 7, "N": 40, "K": 35}
_L = {"T": 7, "B": 32, "C": 64}, {"T": 3, "B": 5, "C": 70}

P3C, MIN = "preserve3coincident", "min"
SHARED = {"use_shared_memory": True}

CASES = {
    "tensordot, base": Case(TENSORDOT, *_T),
    "tensordot, reduction unrolled": Case(
        TENSORDOT,
        *_T,
        {"fusion": P3C, "intra_tile_fusion": "max", "tile": (28, 14, 7, 32, 28), "threads": (7, 28)}
        | {"blocks": (256, 256, 256), "unroll": 64, **SHARED},
    ),
    "tensordot, reduction 1": Case(
        TENSORDOT,
        *_T,
        {"fusion": P3C, "intra_tile_fusion": "max", "tile": (28, 14, 7, 32, 28), "threads": (64, 10)}
        | {"blocks": (1,), "unroll": 64, **SHARED},
    ),
    "tensordot, reduction 2": Case(
        TENSORDOT,
        *_T,
        {"fusion": P3C, "intra_tile_fusion": "max", "tile": (28, 14, 7, 32, 28), "threads": (7, 32)}
        | {"unroll": 64, **SHARED},
    ),
    "tensordot, reduction 3": Case(
        TENSORDOT,
        *_T,
        {"fusion": P3C, "intra_tile_fusion": "max", "tile": (28, 14, 7, 32, 28, 9), "threads": (256,)}
        | {"blocks": (256, 256, 256), "unroll": 64, **SHARED},
    ),
    "tensordot, shared illegal address": Case(
        TENSORDOT,
        *_T,
        {"fusion": P3C, "intra_tile_fusion": MIN, "tile": (14, 4, 28, 7, 1), "threads": (256,)}
        | {"blocks": (7, 4, 256), "unroll": 16, "use_private_memory": True, **SHARED},
    ),
    "tensordot, not unrolled": Case(
        TENSORDOT,
        *_T,
        {"tile": (1, 7), "threads": (4, 16, 4), "blocks": (14, 14, 128), "unroll": 256},
    ),
    "tensordot, empty leaf": Case(
        TENSORDOT,
        *_T,
        {"fusion": MIN, "intra_tile_fusion": MIN, "tile": (256, 64), "threads": (32,)}
        | {"blocks": (128, 14), "unroll": 8},
    ),
    "tensordot, illegal access": Case(
        TENSORDOT,
        *_T,
        {"tile": (1, 7, 14), "threads": (28, 16), "blocks": (128, 16, 28), "unroll": 64, **SHARED},
    ),
    "group convolution, shared illegal address": Case(
        GROUP_CONVOLUTION,
        *_G,
        {"fusion": "max", "intra_tile_fusion": MIN, "tile": (14, 1, 1, 1, 1), "threads": (14, 28)}
        | {"blocks": (32, 56, 1), **SHARED},
    ),
    "group convolution, dependences not carried": Case(
        GROUP_CONVOLUTION,
        *_G,
        {"fusion": "max", "intra_tile_fusion": "max", "tile": (14, 8, 1, 64, 7, 4), "threads": (32,)}
        | {"blocks": (8, 32)},
    ),
    "C3, invalid ptx": Case(
        C3,
        *_C,
        {"fusion": "max", "intra_tile_fusion": MIN, "tile": (8, 500), "threads": (125,)}
        | {"blocks": (128, 1000, 500), "unroll": 256, **SHARED},
    ),
    "C3, illegal access": Case(
        C3, *_C, {"tile": (32, 32, 250), "threads": (4, 32), "blocks": (63, 128), "unroll": 16}
    ),
    "tmm, too strict precision": Case(
        TMM, *_M, {"tile": (2,), "threads": (128,), "blocks": (64,), "unroll": 16}
    ),
    "tmm, tightening": Case(TMM, *_M, {"tile": (1, 1), "threads": (32,), "blocks": (128, 128), "unroll": 64}),
    "tmm, disjunctive filter": Case(TMM, *_M, {"tile": (1, 32, 63), "threads": (2, 32), "unroll": 128}),
    "layer norm, two groups": Case(
        LAYER_NORM,
        *_L,
        {"tile": (4, 16), "threads": (64,), "blocks": (128, 32, 4), "unroll": 2, "use_private_memory": True}
        | SHARED,
    ),
    "group norm, deadlock": Case(
        GROUP_NORM,
        {"N": 4, "G": 4, "D": 2, "H": 6, "W": 6},
        {"N": 4, "G": 3, "D": 2, "H": 6, "W": 5},
        {"fusion": MIN, "intra_tile_fusion": MIN, "tile": (2, 6, 8, 48), "threads": (6, 12)}
        | {"blocks": (8,), "unroll": 4},
    ),
    "kronecker, illegal access": Case(
        KRONECKER,
        {"M": 256, "N0": 32, "N1": 32, "N2": 32, "D2": 16},
        {"M": 9, "N0": 3, "N1": 4, "N2": 17, "D2": 8},
        {"tile": (256,), "threads": (16, 8), "blocks": (4, 2), "unroll": 16},
    ),
    "convolution, nested expressions": Case(NESTED, {"N": 33, "M": 70}, {"N": 9, "M": 20}),
}


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    kernel = tc.compile(case.source, "cuda", options=case.options)
    rng = np.random.default_rng(0)
    given = {
        p.name: rng.integers(-2, 3, [case.small[d.name] for d in p.dims]).astype(np.float32)
        for p in kernel.front.checked.params
    }
    held, found = call(kernel, given, {})
    assert not found, simt.report(found)
    wanted = tc.interpret(case.source, **given)
    for got, want in zip(held.values(), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5)


@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_nvrtc_compiles_it(name: str, arch: str) -> None:
    case = CASES[name]
    one = tc.compile(case.source, "cuda", options={**case.options, "isa": arch}).specialize(**case.sizes)
    _, *kernels = one.artifact("asm").splitlines()
    assert kernels
    if not case.options:
        assert all(k.endswith("0 bytes stack, 0 bytes spill stores, 0 bytes spill loads") for k in kernels)
