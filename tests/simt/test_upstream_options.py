"""The option sets of the report (appendix A.4) and those that once broke the original (UPSTREAM, 7.5): exact
results on the shim, without a finding, and on PoCL, there also at the original's sizes, which NVRTC compiles.

Its presets (naive, convolution) are our defaults; `matchLibraryCalls` has no option, as threads share
reductions wherever that pays.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.test_programs import results
from tests.poly import fused
from tests.simt import shim as simt
from tests.simt.mapped import prepared

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
GRAPH = """def graph2(float(N,C,H,W) I, float(N,C,R,T) J, float(KH,KW) W1) -> (O, Out) {
  O(n,c,h,w) +=! J(n,c,h+kh,w+kw) * W1(kh,kw)
  Out(c0,c1) +=! I(n,c0,h,w) * O(n,c1,h,w)
}"""


TBMM = "def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }"
LUT = "def lut(float(E,D) T, int(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }"
LUT2 = """def lut2(float(E,D) T1, int(B,L) I1, float(E,D) T2, int(B,L) I2) -> (O1, O2) {
  O1(i,j) +=! T1(I1(i,k),j)
  O2(i,j) +=! T2(I2(i,k),j)
}"""
MLP1 = """def mlp1(float(B,M) I, float(N,M) W1, float(N) B1) -> (O1) {
  O1(b,n) +=! I(b,m) * W1(n,m)
  O1(b,n) = fmax(O1(b,n) + B1(n), 0)
}"""


@dataclass(frozen=True)
class Case:
    """`sizes`: the original's; `small`: those for the shim."""

    source: str
    sizes: dict[str, int]
    small: dict[str, int]
    options: dict[str, Any] = field(default_factory=dict)


def tuned(
    fusion: str,
    tile: tuple[int, ...],
    threads: tuple[int, ...],
    blocks: tuple[int, ...],
    unroll: int = 1,
    inner: str = "preserve3coincident",
    *,
    shared: bool = False,
    private: bool = False,
    copies: bool = False,
) -> dict[str, Any]:
    """Options as the original writes them: `inner` is the fusion inside a tile, `copies`: whether
    copies to shared memory are unrolled."""
    return {
        "fusion": fusion,
        "intra_tile_fusion": inner,
        "tile": tile,
        "threads": threads,
        "blocks": blocks,
        "unroll": unroll,
        "use_shared_memory": shared,
        "use_private_memory": private,
        "unroll_copy_shared": copies,
    }


def reported(
    tile: tuple[int, ...],
    threads: tuple[int, ...],
    blocks: tuple[int, ...],
    unroll: int = 1,
    *,
    private: bool = True,
    copies: bool = True,
) -> dict[str, Any]:
    """Options as the report writes them, with the slowest threads first."""
    return {
        "tile": tile,
        "threads": threads[::-1],
        "blocks": blocks,
        "unroll": unroll,
        "use_shared_memory": True,
        "use_private_memory": private,
        "unroll_copy_shared": copies,
    }


_T = (
    {"N": 32, "C1": 512, "C2": 8, "C3": 2, "H": 28, "W": 28},
    {"N": 2, "C1": 2, "C2": 5, "C3": 3, "H": 4, "W": 9},
)
_G = (
    {"N": 32, "G": 32, "C": 4, "F": 4, "H": 56, "W": 56, "KH": 3, "KW": 3},
    {"N": 2, "G": 3, "C": 4, "F": 4, "H": 9, "W": 8, "KH": 3, "KW": 3},
)
_C = {"B": 128, "WX": 1000, "WY": 1024}, {"B": 9, "WX": 33, "WY": 20}
_M = {"M": 128, "N": 1024, "K": 1024}, {"M": 7, "N": 40, "K": 35}
_L = {"T": 7, "B": 32, "C": 64}, {"T": 3, "B": 5, "C": 70}
_K = (
    {"M": 256, "N0": 32, "N1": 32, "N2": 32, "D2": 16},
    {"M": 9, "N0": 3, "N1": 4, "N2": 17, "D2": 8},
)
_TILE = (28, 14, 7, 32, 28, 256)
_B = {"B": 500, "N": 26, "M": 72, "K": 26}, {"B": 3, "N": 9, "M": 20, "K": 30}
_LUT = {"E": 1_000_000, "D": 64, "B": 128, "L": 50}, {"E": 30, "D": 37, "B": 9, "L": 5}
_P = {"B": 128, "M": 2000, "N": 128}, {"B": 18, "M": 150, "N": 20}
_P3 = fused.SIZES[fused.MLP3]

P3C, MAX, MIN = "preserve3coincident", "max", "min"

CASES = {
    "report, tmm": Case(TMM, *_M, reported((32, 32, 32), (32, 32), (4, 32), 256)),
    "report, tmm tuned": Case(
        TMM,
        {"M": 128, "N": 256, "K": 32},
        {"M": 10, "N": 40, "K": 32},
        reported((4, 32), (1, 32), (64, 128), 4, copies=False),
    ),
    "report, tbmm": Case(TBMM, *_B, reported((1,), (128,), (500,), 1024, copies=False)),
    "report, tbmm tuned": Case(TBMM, *_B, reported((1,), (7, 26), (72, 16, 1), 128)),
    "report, gconv": Case(GROUP_CONVOLUTION, *_G, reported((1, 1, 1), (14, 28), (32, 32), private=False)),
    "report, gconv of few columns": Case(
        GROUP_CONVOLUTION,
        {"N": 32, "G": 32, "C": 32, "F": 32, "H": 7, "W": 7, "KH": 3, "KW": 3},
        {"N": 2, "G": 3, "C": 5, "F": 6, "H": 7, "W": 7, "KH": 3, "KW": 3},
        reported((1, 1, 1), (4, 8, 4), (32, 32), private=False),
    ),
    "report, gconv tuned": Case(
        GROUP_CONVOLUTION,
        {"N": 32, "G": 32, "C": 32, "F": 32, "H": 7, "W": 7, "KH": 3, "KW": 3},
        {"N": 2, "G": 3, "C": 5, "F": 9, "H": 7, "W": 7, "KH": 3, "KW": 3},
        reported((1, 1), (8, 7, 7), (32, 32, 3), 256, private=False),
    ),
    "report, 1LUT": Case(LUT, *_LUT, reported((4, 32), (1, 32), (100, 100), 1024)),
    "report, 2LUT": Case(LUT2, *_LUT, reported((4, 32), (1, 32), (100, 100), 1024)),
    "report, C3": Case(C3, *_C, reported((32, 32, 32), (4, 32), (128, 128), 128)),
    "report, MLP1": Case(MLP1, *_P, reported((16, 16, 128), (16, 16), (32, 32), copies=False)),
    "report, MLP3": Case(
        fused.MLP3,
        {k: {"B": 128, "N": 128, "O": 64, "P": 32, "Q": 2}[k] for k in _P3},
        _P3,
        {"fusion": "max", "tile": (1,), "threads": (128,), "blocks": (128,)},
    ),
    "tensordot, base": Case(TENSORDOT, *_T),
    "tensordot, reduction unrolled": Case(
        TENSORDOT, *_T, tuned(P3C, _TILE, (7, 28), (1,), 64, MAX, shared=True, copies=True)
    ),
    "tensordot, reduction 1": Case(
        TENSORDOT, *_T, tuned(P3C, _TILE, (7, 28), (1,), inner=MAX, shared=True, copies=True)
    ),
    "tensordot, reduction 2": Case(
        TENSORDOT,
        *_T,
        tuned(P3C, (28, 14, 7, 32, 9, 256), (64, 10), (1,), inner=MAX, shared=True, copies=True),
    ),
    "tensordot, reduction 3": Case(
        TENSORDOT, *_T, tuned(P3C, _TILE, (7, 32), (256, 256, 256), inner=MAX, shared=True, copies=True)
    ),
    "tensordot, shared illegal address": Case(
        TENSORDOT,
        *_T,
        tuned(P3C, (14, 4, 28, 7, 1), (256,), (7, 4, 256), 16, MIN, shared=True, private=True, copies=True),
    ),
    "tensordot, not unrolled": Case(
        TENSORDOT, *_T, tuned(P3C, (1, 7), (4, 16, 4), (14, 14, 128), 256, MIN, shared=True, private=True)
    ),
    "tensordot, empty leaf": Case(TENSORDOT, *_T, tuned(MIN, (256, 64), (32,), (128, 14), 8, MIN)),
    "tensordot, illegal access": Case(
        TENSORDOT, *_T, tuned(P3C, (1, 7, 14), (28, 16), (128, 16, 28), 64, shared=True, copies=True)
    ),
    "group convolution, shared illegal address": Case(
        GROUP_CONVOLUTION,
        *_G,
        tuned(MAX, (14, 1, 1, 1, 1), (14, 28), (32, 56, 1), 1, MIN, shared=True, copies=True),
    ),
    "group convolution, dependences not carried": Case(
        GROUP_CONVOLUTION, *_G, tuned(MAX, (14, 8, 1, 64, 7, 4), (32,), (8, 32), shared=True, private=True)
    ),
    "C3, invalid ptx": Case(
        C3,
        *_C,
        tuned(MAX, (8, 500), (125,), (128, 1000, 500), 256, MIN, shared=True, private=True, copies=True),
    ),
    "C3, illegal access": Case(
        C3, *_C, tuned(MAX, (32, 32, 250), (4, 32), (63, 128), 16, shared=True, private=True)
    ),
    "tmm, too strict precision": Case(TMM, *_M, tuned(MAX, (2,), (128,), (64,), 16, MAX, copies=True)),
    "tmm, tightening": Case(
        TMM, *_M, tuned(MAX, (1, 1), (32,), (128, 128), 64, MIN, shared=True, private=True, copies=True)
    ),
    "tmm, disjunctive filter": Case(
        TMM,
        {"M": 128, "N": 1000, "K": 1024},
        {"M": 3, "N": 37, "K": 66},
        tuned(P3C, (1, 32, 63), (2, 32), (64, 128, 1024), 128, MIN),
    ),
    "layer norm, two groups": Case(
        LAYER_NORM, *_L, tuned(MAX, (4, 16), (64,), (128, 32, 4), 2, shared=True, private=True)
    ),
    "a minimum as a bound": Case(
        GRAPH,
        {"N": 1, "C": 100, "H": 184, "W": 184, "R": 186, "T": 186, "KH": 3, "KW": 3},
        {"N": 1, "C": 5, "H": 11, "W": 10, "R": 13, "T": 12, "KH": 3, "KW": 3},
    ),
    "convolution, nested expressions": Case(NESTED, {"N": 33, "M": 65}, {"N": 9, "M": 20}),
    "group norm, deadlock": Case(
        GROUP_NORM,
        {"N": 4, "G": 4, "D": 2, "H": 6, "W": 6},
        {"N": 4, "G": 3, "D": 2, "H": 6, "W": 5},
        tuned(MIN, (2, 6, 8, 48), (6, 12), (8,), 4, MIN, shared=True, private=True),
    ),
    "kronecker, illegal access, first kernel": Case(
        KRONECKER, *_K, tuned(P3C, (256,), (16, 8), (4, 2), 16, shared=True, private=True, copies=True)
    ),
    "kronecker, illegal access, second kernel": Case(
        KRONECKER, *_K, tuned(P3C, (2, 32), (64,), (2, 1, 64), 32, private=True, copies=True)
    ),
}


def arguments(kernel: tc.Kernel, sizes: dict[str, int]) -> dict[str, Any]:
    """Small integers, whose sums are exact; indices of a table's rows."""
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {}
    for p in kernel.front.checked.params:
        shape = [sizes[d.name] for d in p.dims]
        if kernel.front.typed.dtype(p).is_int:
            given[p.name] = rng.integers(0, sizes["E"], shape).astype(np.int32)
        else:
            given[p.name] = rng.integers(-2, 3, shape).astype(np.float32)
    return given


def check(case: Case, given: dict[str, Any], found: list[Any]) -> None:
    for got, want in zip(found, results(tc.interpret(case.source, **given)), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5)


QUIET = pytest.mark.filterwarnings("ignore::tc.Warning")  # some ask for more registers than there are


@pytest.mark.share(72)
@QUIET
@pytest.mark.parametrize("name", CASES)
def test_option_sets_have_no_findings_on_the_shim(name: str) -> None:
    case = CASES[name]
    kernel = tc.compile(case.source, "cuda", options=case.options)
    given = arguments(kernel, case.small)
    result = prepared(kernel, given).run()
    assert not result.found, simt.report(result.found)
    assert not result.error[0]
    check(case, given, list(result.values.values()))


@pytest.mark.share(36)
@QUIET
@pytest.mark.parametrize("name", CASES)
def test_option_sets_are_exact_on_pocl(name: str) -> None:
    case = CASES[name]
    kernel = tc.compile(case.source, "opencl", options=case.options)
    given = arguments(kernel, case.small)
    check(case, given, results(kernel(**given)))


@pytest.mark.share(72)
@QUIET
@pytest.mark.parametrize("name", CASES)
def test_option_sets_are_exact_on_pocl_at_full_size(name: str) -> None:
    """Maps differ from those of small sizes: a size that a tile does not exceed has none.  As the original's
    tests did, against the naive map."""
    case = CASES[name]
    sizes = {**case.sizes, **({"C1": 64} if case.source == TENSORDOT else {})}  # 64 MB instead of 400
    kernel = tc.compile(case.source, "opencl", options=case.options)
    given = arguments(kernel, sizes)
    wanted = results(tc.compile(case.source, "reference")(**given))
    for got, want in zip(results(kernel(**given)), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5)


@pytest.mark.share(216)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_nvrtc_compiles_option_sets(name: str, arch: str) -> None:
    """Without options there is no stack; where options need one, a notice says so."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        if not case.options:
            warnings.simplefilter("error", tc.PerformanceNotice)
        kernel = tc.compile(case.source, "cuda", options={**case.options, "isa": arch})
        one = kernel.specialize(**case.sizes)
    _, *kernels = one.artifact("asm").splitlines()
    assert kernels
    if not case.options:
        assert all(k.endswith("0 bytes stack, 0 bytes spill stores, 0 bytes spill loads") for k in kernels)


@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
def test_an_impulse_is_convolved(backend: str) -> None:
    """The original's check of `-(c1 + c3)` in subscripts, which it printed without parentheses."""
    a, k = np.zeros(33, np.float32), np.zeros(65, np.float32)
    a[10] = k[32] = 1
    np.testing.assert_array_equal(tc.compile(NESTED, backend)(a, k), a)


@pytest.mark.slow
def test_the_fused_perceptron_is_one_kernel() -> None:
    """Of the report, with its options and with none."""
    case = CASES["report, MLP3"]
    for options in (case.options, {}):
        for arch in ("sm_80", "sm_90"):
            one = tc.compile(case.source, "cuda", options={**options, "isa": arch}).specialize(**case.sizes)
            assert len(one.compiled.module.kernels) == 1
