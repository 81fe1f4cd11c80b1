"""The original's programs for its mapper and for promotion (UPSTREAM, 7.4, 7.6, 7.7), and their loops."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tc
from tc.ir.expr import IntImm
from tc.ir.loops import (
    Compute,
    For,
    If,
    LoopKind,
    statements,
)
from tc.ir.printer import text
from tc.lang import resolved as r
from tc.poly.gpu.mapping import AxisMap
from tc.runtime.arrays import numpy_dtype
from tests.conformance.test_programs import results
from tests.simt.fixed import Program, product, row
from tests.simt.mapped_form import Mapped

Check = Callable[[Mapped], bool]


@dataclass(frozen=True)
class Case:
    """`limits`: parameters that are subscripts, with the extent that they are below."""

    source: str
    sizes: dict[str, int]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    holds: Check = lambda m: m.kernels == 1
    limits: dict[str, int] = field(default_factory=dict[str, int])
    dynamic: tuple[str, ...] = ()


def _sum(m: Mapped) -> bool:
    """One kernel, in which threads share a reduction."""
    return m.kernels == 1 and m.combined == ["+"]


def _each_once(m: Mapped) -> bool:
    """One kernel, in which each statement has one place."""
    return m.kernels == 1 and len(m.order) == len({*m.order})


def _share(m: Mapped, *stages: str) -> bool:
    """Whether a loop that is not unrolled contains all of these statements."""
    loops = [s for s in statements(m.nest.body) if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    bodies = [{c.stage for c in statements(f.body) if isinstance(c, Compute)} for f in loops]
    return any(b.issuperset(stages) for b in bodies)


def _in_a_row(m: Mapped) -> list[int]:
    """The unroll factor of each loop that is not fully unrolled; 0 if none is given."""
    return [s.unroll for s in statements(m.nest.body) if isinstance(s, For) and s.kind is LoopKind.SERIAL]


def _guards(m: Mapped, stage: str) -> set[str]:
    """The conditions under which a statement runs."""
    return {
        text(s.condition)
        for s in statements(m.nest.body)
        if isinstance(s, If) and any(isinstance(c, Compute) and c.stage == stage for c in statements(s.then))
    }


def _counts(m: Mapped) -> list[tuple[int, int]]:
    """The first and the last value of each loop's variable, where these are constants."""
    loops = [s for s in statements(m.nest.body) if isinstance(s, For)]
    return [
        (s.lower.value, s.upper.value - 1)
        for s in loops
        if isinstance(s.lower, IntImm) and isinstance(s.upper, IntImm)
    ]


def _pointwise(m: Mapped) -> bool:
    """No element is used twice, so copies do not pay."""
    return m.kernels == 1 and not (m.shared or m.barriers or m.combined)


SUM = "def f(float(M) A) -> (C) {{ {} +=! A(r_m){} }}"
ROWS = "def f(float(M,N) A) -> (C) { C(m) +=! A(m,r_n) }"
MM = "def f(float(M,K) A, float(K,N) B) -> (O) { O(m,n) +=! A(m,r_k) * B(r_k,n) }"
BMM = "def f(float(B,N,M) X, float(B,M,K) Y) -> (Z) { Z(b,n,k) +=! X(b,n,r_m) * Y(b,r_m,k) }"
LUT = "def f(float(E,R) LUT, int(B,N) I) -> (O) { O(b,n) +=! LUT(I(b,n),r_r) }"
BATCH_NORM = """def f(float(N,C,H,W) I, float(C) rMeanIn, float(C) rVarIn) -> (O, rMeanOut, rVarOut) {
  mean(c) +=! I(nn,c,hh,ww)
  mean(c) = mean(c) / (N * H * W)
  rMeanOut(c) = 0.9 * rMeanIn(c) + 0.1 * mean(c)
  centered(n,c,h,w) = I(n,c,h,w) - rMeanOut(c)
  var(n,c,h,w) = centered(n,c,h,w) * centered(n,c,h,w)
  e(c) +=! var(r_n,c,r_h,r_w)
  rVarOut(c) = 0.9 * rVarIn(c) + 0.1 * e(c) / (N * H * W)
  O(n,c,h,w) = centered(n,c,h,w) * rsqrt(rVarOut(c) + 1e-5)
}"""
ADD = "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = A(n,m) + B(n,m) }"
COPY_2 = "def f(float(N) I) -> (O1, O2) { O1(n) = I(n)  O2(n) = O1(n) }"
TRANSPOSED = "def f(float(M,N) A) -> (O) { O(i,j) = A(j,i) }"
ADD_TRANSPOSED = "def f(float(N,M) A, float(M,N) B) -> (O) { O(n,m) = A(n,m) + B(m,n) }"
TWO_OF_EACH = """def f(float(N,M) A, float(M,N) B) -> (C, D) {
  C(n,m) = A(n,m) + B(m,n)
  D(n,m) = A(n,m) * B(m,n)
}"""
MULTI = """def f(float(N,M,K,L) A, float(N,M) B, float(N,M) C, float(N,M) D) -> (O1, O2, O3) {
  O1(n0,n1) +=! A(n0,n1,r_n2,r_n3) * B(n0,n1)
  O2(n0,n1) = C(n0,n1) * D(n0,n1)
  O3(n0,n1) = O1(n0,n1) + O2(n0,n1)
}"""
UNBALANCED = "def f(float(N,N) A, float(N) B) -> (O1, O2) { O1(i) = B(i)  O2(i,j) = A(j,i) }"
UNBALANCED_IN_COMMON = UNBALANCED.replace("A(j,i)", "A(j,i) + B(i)")
DEPENDENT = "def f(float(N,N) A, float(N) B) -> (O1, O2) { O1(i) = B(i)  O2(i,j) = A(i,j) + O1(i) }"
TWOMM_SIZES = """def f(float(M,K) A, float(K,N) B, float(K,N) C) -> (D, E) {
  D(i,j) +=! A(i,k) * B(k,j)
  E(i,j) +=! A(i,k) * C(k,j)
}"""
BEFORE = "def f(float(N,K) I) -> (O) { O(n) +=! I(n,r_n)  O(n) = O(n) / K }"
MEAN = "def f(float(36,1024) I) -> (O) { O(n) +=! I(n,r_n)  O(n) = O(n) / 1024 }"
AFTER = "def f(float(N,K) I, float(N) O0) -> (O) { O(n) = 0.0  O(n) += O0(n)  O(n) += I(n,r_n) }"
BETWEEN = "def f(float(N,K) I, float(N) O0) -> (O) { O(n) = O0(n)  O(n) += I(n,r_n)  O(n) = O(n) / K }"
VARIANCE = "def f(float(N,K) I) -> (var) { var(n) +=! I(n,r_n) * I(n,r_n) }"
PERFORATED = """def f(float(N,C,H,W) input, float(M,C,KH,KW) weights, int(N,L) index) -> (output) {
  output(n,m,l) +=! input(n,c,index(n,l)+kh,index(n,l)+kw) * weights(m,c,kh,kw) where l in 0:L
}"""
MODULUS = """def f(float(N,C,H,W) I, float(O,KC,KH,KW) W1) -> (O1) {
  O1(n,o,h,w) +=! I(n,kc%c,h+kh,w+kw) * W1(o,kc,kh,kw) where c in 1:C
}"""
READ_TWICE = """def f(float(N,D) A) -> (B, C, E) {
  B(n,d) = A(n,d) * 2
  C(n,d) = B(n,D-1-d) + 1
  E(n,d) = B(n,D-1-d) - 1
}"""
RAW = "def f(float(N,N) A) -> (B, C) { B(i,j) = A(i,j)  C(m,n) = B(n,m) }"
BIAS = """def f(float(N,M) A, float(M,K) B, float(N,K) C) -> (O) {
  O(n,k) +=! A(n,r_m) * B(r_m,k)
  O(n,k) = O(n,k) + C(n,k)
}"""
STRIDED = "def f(float(N,M) A, float(K) B) -> (O) { O(i,j) +=! A(%s+r_k,j) * B(r_k) where i in 1:9 }"

_R = {"tile": (18, 32), "threads": (512,)}
_N = {"N": 36, "K": 70}
_MEAN = {
    "fusion": "preserve3coincident",
    "intra_tile_fusion": "min",
    "tile": (18, 32),
    "unroll": 16,
    "blocks": (16384,),
    "use_shared_memory": True,
    "use_private_memory": False,
    "unroll_copy_shared": True,
}
_APART = {"fusion": "max", "intra_tile_fusion": "min", "tile": (32, 32), "threads": (32, 8)}
_UNROLLED = {"tile": (64, 64), "threads": (32, 8), "blocks": (256, 256), "use_shared_memory": False}
MM_SIZES = {"M": 42, "N": 56, "K": 70}
_BIAS = {"N": 42, "M": 37, "K": 56}

CASES = {
    # 7.4
    "1-D reduction, v1": Case(SUM.format("C()", ""), {"M": 165}, {"threads": (16,), "blocks": (1,)}),
    "1-D reduction, v2": Case(SUM.format("C", ""), {"M": 165}, {"threads": (16,), "blocks": (1,)}),
    "1-D reduction, v3": Case(
        SUM.format("C(i)", " where i in 0:1"), {"M": 165}, {"threads": (16,), "blocks": (1,)}, _sum
    ),
    "2-D reduction": Case(ROWS, {"M": 165, "N": 197}, {"tile": (32, 32), "threads": (32,)}),
    "1-D schedule": Case(
        MM, {"M": 25, "N": 37, "K": 27}, {"tile": (1, 1, 27), "threads": (32,), "blocks": (25, 37)}
    ),
    "several occurrences, 1-D": Case(
        MM,
        {"M": 45, "N": 67, "K": 37},
        {"fusion": "max", "tile": (32, 32, 32), "threads": (16,), "blocks": (8,)},
        _each_once,
        dynamic=("M", "N", "K"),
    ),
    "several occurrences, 3-D": Case(
        MM,
        {"M": 45, "N": 67, "K": 37},
        {"fusion": "max", "tile": (32, 32, 32), "threads": (16,), "blocks": (8,)},
        _each_once,
    ),
    "several occurrences, 3-D, any sizes": Case(
        MM,
        {"M": 45, "N": 67, "K": 37},
        {"fusion": "max", "tile": (32, 32, 32), "threads": (4, 4), "blocks": (2, 2, 2)},
        _each_once,
        dynamic=("M", "N", "K"),
    ),
    "3-D schedule": Case(MM, {"M": 25, "N": 37, "K": 27}, {"threads": (4,), "blocks": (1, 1, 1)}),
    "batched product": Case(BMM, {"B": 3, "N": 26, "M": 72, "K": 26}, {"tile": (1,), "threads": (123,)}),
    "batched Hadamard products": Case(
        "def f(float(B,D) U, float(B,D) V, float(B,D) W) -> (Z) { Z(b,d) = U(b,d) * V(b,d) * W(b,d) }",
        {"B": 20, "D": 100},
        holds=_pointwise,
    ),
    "look-up table": Case(LUT, {"E": 10, "R": 22, "B": 17, "N": 82}, limits={"I": 10}),
    "spatial batch norm": Case(BATCH_NORM, {"N": 4, "C": 2, "H": 5, "W": 5}, holds=lambda m: m.kernels <= 3),
    # 7.6
    "sum as it stands": Case(
        ADD,
        {"N": 32, "M": 40},
        {"mapping": "identity"},
        lambda m: m.order == ["S0"] and m.threads() == () and not m.barriers,
    ),
    "sum, more blocks than tiles": Case(
        ADD,
        {"N": 32, "M": 40},
        {"tile": (16, 16), "threads": (16, 16), "blocks": (256, 256)},
        lambda m: m.blocks() == (2,) and m.threads() == (16, 16) and len(_guards(m, "S0")) == 1,
        dynamic=("M",),
    ),
    "statements as they stand": Case(
        MULTI,
        {"N": 5, "M": 6, "K": 3, "L": 4},
        {"mapping": "identity"},
        lambda m: m.order == ["S0", "S1", "S2", "S3"] and m.threads() == () and not m.barriers,
    ),
    "statements together": Case(MULTI, {"N": 5, "M": 6, "K": 3, "L": 4}, {"fusion": "max"}),
    "bare variables": Case(
        "def f(float(N,M) A) -> (O) { O(n0,n1) = A(n0,n1) + n0 + n1 + N }",
        {"N": 40, "M": 24},
        holds=_pointwise,
    ),
    "functions": Case(
        "def f(float(N,M) A, float(M,N) B, float(N) C) -> (O) {"
        " O(n0,n1) = nextafter(C(n0), exp(A(n0,n1))) + log(B(n1,n0)) }",
        {"N": 40, "M": 24},
        holds=_pointwise,
    ),
    "copy, too many threads and blocks": Case(
        "def f(float(N) A) -> (O) { O(i) = A(i) }",
        {"N": 100},
        {"tile": (32,), "threads": (32, 8, 4), "blocks": (100, 100, 100)},
        lambda m: m.blocks() == (4,) and m.threads() == (32,),
    ),
    "no loop": Case("def f() -> (O) { O = 0 }", {}),
    "two copies apart": Case(
        COPY_2, {"N": 100}, {"fusion": "min"}, lambda m: m.kernels == 2 and not m.barriers
    ),
    "two copies together": Case(
        COPY_2, {"N": 100}, {"fusion": "max"}, lambda m: m.kernels == 1 and not m.barriers
    ),
    "copies of one and two dimensions": Case(
        UNBALANCED, {"N": 50}, {"fusion": "max"}, lambda m: not m.barriers
    ),
    "one dimension beside two": Case(
        UNBALANCED_IN_COMMON,
        {"N": 50},
        {"fusion": "max", "tile": (32, 32), "threads": (32, 8)},
        lambda m: m.kernels == 1 and "t0 == 0" in _guards(m, "S0") and not _guards(m, "S1"),
    ),
    "unrolled, 15 points allowed": Case(
        ADD_TRANSPOSED, {"N": 128, "M": 64}, {**_UNROLLED, "unroll": 15}, lambda m: _in_a_row(m) == [0, 2]
    ),
    "unrolled, 16 points allowed": Case(
        ADD_TRANSPOSED, {"N": 128, "M": 64}, {**_UNROLLED, "unroll": 16}, lambda m: _in_a_row(m) == [8, 2]
    ),
    "not unrolled": Case(
        ADD_TRANSPOSED, {"N": 128, "M": 64}, {**_UNROLLED, "unroll": 1}, lambda m: _in_a_row(m) == [0, 1]
    ),
    "together, also in a tile": Case(
        TWO_OF_EACH,
        {"N": 70, "M": 40},
        {**_APART, "intra_tile_fusion": "max", "use_shared_memory": False},
        lambda m: m.kernels == 1 and _share(m, "S0", "S1"),
    ),
    "together, but apart in a tile": Case(
        TWO_OF_EACH,
        {"N": 70, "M": 40},
        {**_APART, "use_shared_memory": False},
        lambda m: m.kernels == 1 and m.order == ["S0", "S1"] and not _share(m, "S0", "S1"),
    ),
    "two products together, apart in a tile": Case(TWOMM_SIZES, {"M": 30, "N": 20, "K": 40}, _APART),
    "one dimension, then two": Case(DEPENDENT, {"N": 50}, {"fusion": "max", "tile": (1,), "threads": (32,)}),
    "two products together": Case(TWOMM_SIZES, {"M": 30, "N": 20, "K": 40}, {"fusion": "max"}),
    "two products apart": Case(
        TWOMM_SIZES, {"M": 30, "N": 20, "K": 40}, {"fusion": "min"}, lambda m: m.kernels == 4
    ),
    "reduction and remainder": Case(SUM.format("C", ""), {"M": 100}, {"threads": (32,)}),
    "reduction before a statement": Case(BEFORE, _N, _R),
    "reduction after a statement": Case(AFTER, _N, _R),
    "reduction between statements": Case(BETWEEN, _N, _R),
    "mean, 512 threads": Case(BEFORE, {"N": 40, "K": 600}, {"tile": (32, 32), "threads": (512,)}),
    "mean, 32 threads": Case(BEFORE, {"N": 40, "K": 600}, {"tile": (32, 32), "threads": (32,)}),
    "mean of sizes that are numbers, 512 threads": Case(MEAN, {}, {**_MEAN, "threads": (512,)}),
    "mean of sizes that are numbers, 32 threads": Case(MEAN, {}, {**_MEAN, "threads": (32,)}),
    "product, 32 threads": Case(MM, {"M": 9, "N": 45, "K": 50}, {"threads": (32,)}),
    "product, 32 x 32 threads": Case(MM, {"M": 40, "N": 45, "K": 50}, {"threads": (32, 32)}),
    "bound that is not affine": Case(
        "def f(float(A,B) LUT, int(N,K) I) -> (O) { O(i,j) +=! LUT(I(i,k)+1,j) }",
        {"A": 10, "B": 6, "N": 7, "K": 3},
        limits={"I": 9},
    ),
    "bound that is not affine, with an index": Case(
        "def f(float(A,B) LUT, int(N,K) I) -> (O) { O(i,j) +=! LUT(1+j+I(i,k),j) }",
        {"A": 15, "B": 6, "N": 7, "K": 3},
        limits={"I": 9},
    ),
    "perforated convolution": Case(
        PERFORATED,
        {"N": 2, "C": 3, "H": 9, "W": 9, "M": 4, "KH": 3, "KW": 2, "L": 5},
        limits={"index": 7},
    ),
    "empty mapping": Case(VARIANCE, {"N": 12, "K": 700}, {"threads": (256,)}),
    "modulus, constant": Case(
        "def f(float(M) a, float(N) c) -> (b) { b(i) = a(i%3) + c(i) }", {"M": 3, "N": 40}, holds=_pointwise
    ),
    "modulus, variable": Case(MODULUS, {"N": 2, "C": 3, "H": 6, "W": 6, "O": 3, "KC": 4, "KH": 2, "KW": 2}),
    "single instance": Case("def f(float(N) A) -> (a) { a = 0 }", {"N": 20}),
    # 7.7
    "4-D sum": Case(
        "def f(float(N,M,K,L) A, float(N,M,K,L) B) -> (C) { C(n,m,k,l) = A(n,m,k,l) + B(n,m,k,l) }",
        {"N": 5, "M": 6, "K": 7, "L": 9},
        {"tile": (4, 4, 4, 4)},
        _pointwise,
    ),
    "2-D sum": Case(ADD, {"N": 42, "M": 40}, {"tile": (64, 64)}, _pointwise),
    "read after write": Case(RAW, {"N": 42}, {"tile": (32, 32)}),
    "nothing below threads": Case(
        MM, MM_SIZES, {"tile": (32, 32), "max_shared_memory": 15}, lambda m: not m.shared
    ),
    "product and bias": Case(BIAS, _BIAS, {"tile": (32, 32), "threads": (32, 8)}),
    "product and bias, no shared memory": Case(
        BIAS,
        _BIAS,
        {"tile": (32, 32), "threads": (32, 8), "use_shared_memory": False},
        lambda m: not m.shared,
    ),
    "product and bias, no registers": Case(
        BIAS,
        _BIAS,
        {"tile": (32, 32), "threads": (32, 8), "use_private_memory": False},
        lambda m: not m.registers,
    ),
    "stride 2": Case(STRIDED % "2*i-1", {"N": 22, "M": 9, "K": 5}, {"tile": (8, 4)}),
    "stride 5": Case(STRIDED % "5*i", {"N": 49, "M": 9, "K": 8}, {"tile": (8, 4)}),
}


def _bias(m: Mapped) -> bool:
    """The factors are in shared memory, the result in registers, elements that are used once in neither."""
    return m.shared.keys() == {"A", "B"} and m.registers == {"O": (4,)}


_IN_TURNS = (AxisMap(8, "b0", 2, "t0", 4), AxisMap(8, None, 1, "t1", 4))
TILES = product((32, 32), (32, 8), (2, 2))

FIXED: dict[str, tuple[Program, Check]] = {
    "copy in tiles": (
        Program(TRANSPOSED, {"N": 24, "M": 16}, (), (), (AxisMap(8), AxisMap(8))),
        lambda m: _counts(m) == [(0, 2), (0, 1), (0, 7), (0, 7)],
    ),
    "copy in tiles, in turns": (
        Program(TRANSPOSED, {"N": 25, "M": 18}, (2,), (4, 4), _IN_TURNS),
        lambda m: _counts(m)[:1] == [(0, 2)] and m.blocks() == (2,) and m.threads() == (4, 4),
    ),
    "product in tiles": (
        Program(MM, {"M": 24, "N": 16, "K": 64}, **product((8, 8), (4, 4), (1, 1), shared=0)),
        lambda m: _counts(m)[:2] == [(0, 2), (0, 1)] and all(first == 0 for first, _ in _counts(m)),
    ),
    "1-D reduction": (Program(SUM.format("C(i)", " where i in 0:1"), {"M": 165}, **row(16)), _sum),
    "2-D reduction": (Program(ROWS, {"M": 165, "N": 197}, **row(32, 1, 32, 6)), _sum),
    "reduction before a statement": (Program(BEFORE, _N, **row(512, 1, 18, 2)), _sum),
    "reduction after a statement": (Program(AFTER, _N, **row(512, 1, 18, 2)), _sum),
    "reduction between statements": (Program(BETWEEN, _N, **row(512, 1, 18, 2)), _sum),
    "mean, 32 threads": (Program(BEFORE, {"N": 36, "K": 1024}, **row(32, 1, 18, 2)), _sum),
    **{
        f"reduction by {op}": (
            Program(ROWS.replace("+=!", f"{op}=!"), {"M": 3, "N": 40}, **row(32, 4)),
            lambda m, op=op: m.combined == [op],
        )
        for op in ("*", "max", "min")
    },
    # One barrier is enough for all reads of what was written before it.
    "few barriers": (
        Program(READ_TWICE, {"N": 3, "D": 70}, **row(32, 4)),
        lambda m: m.kernels == 1 and m.barriers == 1,
    ),
    "one dimension, then two": (
        Program(DEPENDENT, {"N": 50}, **row(32, 1, 1, 50)),
        lambda m: m.kernels == 1 and m.barriers == 1,
    ),
    "footprints of tiles": (
        Program(MM, MM_SIZES, **product((16, 32), (16, 8), (4, 2))),
        lambda m: m.shared == {"A": (32, 32), "B": (32, 16)},
    ),
    "footprints of whole arrays": (
        Program(MM, {"M": 16, "N": 8, "K": 20}, **product((64, 64), (8, 8), (1, 1))),
        lambda m: m.shared == {"A": (16, 20), "B": (20, 8)},
    ),
    "product and bias": (Program(BIAS, _BIAS, **TILES), _bias),
    "product and bias, no shared memory": (
        Program(BIAS, _BIAS, **{**TILES, "shared": 0}),
        lambda m: not m.shared and not m.barriers and m.registers == {"O": (4,)},
    ),
    "stride 2": (
        Program(STRIDED % "2*i-1", {"N": 22, "M": 9, "K": 5}, **product((4, 8), (4, 4), (3, 1))),
        lambda m: m.shared == {"A": (2 * 7 + 5, 4), "B": (5,)},
    ),
    "stride 5, hardly used twice": (
        Program(STRIDED % "5*i", {"N": 49, "M": 9, "K": 8}, **product((4, 8), (4, 4), (3, 1))),
        lambda m: "A" not in m.shared,
    ),
}


def arguments(kernel: tc.Kernel, case: Case) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {}
    for p in kernel.front.checked.params:
        assert isinstance(p, r.Tensor) and p.dims is not None
        shape = [case.sizes[d.name] if isinstance(d, r.Size) else d.value for d in p.dims]
        low, high = (0, case.limits[p.name]) if p.name in case.limits else (1, 4)
        given[p.name] = rng.integers(low, high, shape).astype(numpy_dtype(kernel.front.typed.dtype(p)))
    return given


def interpreted(case: Case, given: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    return results(tc.interpret(case.source, entry=None, **given))


def compiled(case: Case, backend: str, **more: Any) -> tc.Kernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(case.source, backend, options={**case.options, **more}, dynamic=case.dynamic)


SHAPES = dict.fromkeys(
    [
        *((x, 1) for x in (1, 2, 4, 7, 8, 11, 15, 17, 24, 32, 35, 42, 64, 128, 130)),
        *((4, 7), (11, 5), (16, 9), (8, 11), (11, 8), (111, 7), (128, 7), (7, 128)),
        *((x, y) for x in (1, 2, 5, 8, 11) for y in (3, 5, 11)),
    ]
)


def mapped(name: str | tuple[int, int]) -> Program:
    """One of `FIXED`, or rows of a shape."""
    if isinstance(name, str):
        return FIXED[name][0]
    x, y = name
    return Program(ROWS, {"M": y, "N": x}, **row(x, y))
