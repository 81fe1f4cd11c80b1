"""Programs from source, their fusion trees as text, and tilings made directly."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import tc
from tc.ir.loops import LoopNest
from tc.ir.program import Program
from tc.poly import loop_nest, scop, tile_plan, tiles
from tc.poly.fusion.fusion import Group
from tests.backends.cpu_cases import GEMM, MOMENTS, SOFTMAX

BIAS = """def f(float(M,K) A, float(K,N) B, float(N) V) -> (C) {
  C(i,j) = V(j)
  C(i,j) += A(i,k) * B(k,j)
  C(i,j) = fmax(C(i,j), 0)
}"""
MLP3 = """def f(float(B,N) I, float(O,N) W2, float(O) B2, float(P,O) W3, float(P) B3,
              float(Q,P) W4, float(Q) B4) -> (O2, O3, O4) {
  O2(b,o) = B2(o)
  O2(b,o) += I(b,n) * W2(o,n)
  O2(b,o) = fmax(O2(b,o), 0)
  O3(b,p) = B3(p)
  O3(b,p) += O2(b,o) * W3(p,o)
  O3(b,p) = fmax(O3(b,p), 0)
  O4(b,q) = B4(q)
  O4(b,q) += O3(b,p) * W4(q,p)
  O4(b,q) = fmax(O4(b,q), 0)
}"""
BATCH_NORM = """def f(float(N,C,H,W) I) -> (O) {
  m(c) +=! I(nn,c,hh,ww)
  m(c) = m(c) / (N * H * W)
  v(c) +=! (I(nn,c,hh,ww) - m(c)) * (I(nn,c,hh,ww) - m(c))
  v(c) = rsqrt(v(c) / (N * H * W) + 0.001)
  O(n,c,h,w) = (I(n,c,h,w) - m(c)) * v(c)
}"""
KRONECKER = """def f(float(M,N0,N1) X, float(D0,N0) W0, float(D1,N1) W1) -> (Y) {
  t(m,n0,d1) +=! X(m,n0,r1) * W1(d1,r1)
  Y(m,d0,d1) +=! t(m,r0,d1) * W0(d0,r0)
}"""
LUT2 = """def f(float(E1,D) T1, int(B,L1) I1, float(E2,D) T2, int(B,L2) I2) -> (O1, O2) {
  O1(i,j) +=! T1(I1(i,k),j)
  O2(i,j) +=! T2(I2(i,k),j)
}"""
CONV = """def f(float(N,C,H,W) I, float(F,C,KH,KW) K, float(F) V) -> (O) {
  O(n,f,h,w) = V(f)
  O(n,f,h,w) += I(n,c,h+kh,w+kw) * K(f,c,kh,kw)
  O(n,f,h,w) = fmax(O(n,f,h,w), 0)
}"""
STENCIL = "def f(float(N) A) -> (B, C) { B(i) = A(i) + A(i+1)\nC(i) = B(i) + B(i+1) }"
TRANSPOSED = "def f(float(N,N) A) -> (B, C) { B(i,j) = A(i,j)\nC(i,j) = B(j,i) }"
ANTI = "def f(float(N) A) -> (O, P) { t(i) = A(i)\nO(i) = t(i)\nt(i) = 2 * A(i)\nP(i) = t(i) }"
TRIANGLE = "def f(float(N,N) A) -> (O, P) { O(i) +=! A(i,j) where j <= i\nP(i) = O(i) * 2 }"
SYRK = "def f(float(N,K) A) -> (C) { C(i,j) +=! A(i,k) * A(j,k) where j <= i, i in 0:N }"
SCALARS = "def f(float(N) A) -> (S, O) { S +=! A(i)\nO(i) = A(i) / S }"
WIDE = "def f(float(N,M) A) -> (O, P) { O(i) +=! A(i,j)\nP(i,j) = A(i,j) * O(i) }"
UPDATE = "def f(float(N) A) -> (O) { O(i) = A(i) where i in 0:20\nO(i) = O(i+10) where i in 0:10 }"
CHAIN = "def f(float(N,M) A) -> (D) { B(i,j) = A(i,j) + 1\nC(i,j) = B(i,j) * 2\nD(j,i) = C(i,j) - 1 }"
# `y` is in registers until `z` is there, and then other threads read it.
LATE = """
def f(float(B,I) X, float(B,K) W, float(J,I) V) -> (y, q, s, z, v) {
  y(b,i) = X(b,i) * 2
  q(b,i) = y(b,i) + 1
  s(b,i) +=! q(b,i) * W(b,k)
  z(b,i) = y(b,i) + s(b,i)
  v(b,j) +=! y(b,i) * V(j,i)
}"""

SIZES: dict[str, dict[str, int]] = {
    GEMM: {"M": 5, "N": 7, "K": 6},
    BIAS: {"M": 5, "N": 7, "K": 6},
    SOFTMAX: {"N": 5, "D": 7},
    MOMENTS: {"N": 5, "K": 7},
    MLP3: {"B": 3, "N": 4, "O": 5, "P": 6, "Q": 2},
    BATCH_NORM: {"N": 2, "C": 3, "H": 4, "W": 5},
    KRONECKER: {"M": 2, "N0": 3, "N1": 4, "D0": 5, "D1": 6},
    LUT2: {"E1": 9, "E2": 8, "D": 4, "B": 3, "L1": 2, "L2": 5},
    CONV: {"N": 2, "C": 3, "H": 7, "W": 6, "F": 4, "KH": 3, "KW": 2},
    STENCIL: {"N": 9},
    TRANSPOSED: {"N": 5},
    ANTI: {"N": 6},
    TRIANGLE: {"N": 6},
    SYRK: {"N": 6, "K": 4},
    SCALARS: {"N": 6},
    WIDE: {"N": 4, "M": 5},
    UPDATE: {"N": 20},
    CHAIN: {"N": 4, "M": 5},
    LATE: {"B": 2, "I": 3, "K": 6, "J": 4},
}


def program(source: str, **sizes: int) -> Program:
    """The specialised program of a source, by default at the sizes of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, "reference").program(sizes or SIZES[source])


def shown(tree: Sequence[Group | str]) -> str:
    """`i j[S0 k+[S1]]`: loops with what is in them; those of a reduction have a plus."""
    return " ".join(
        b if isinstance(b, str)
        else " ".join(m.name + ("" if m.coincident else "+") for m in b.members) + f"[{shown(b.body)}]"
        for b in tree
    )  # fmt: skip


def loops(
    p: Program,
    s: scop.Scop,
    regions: Sequence[tile_plan.Region],
    tilings: Sequence[tile_plan.RegionTiling],
    chunks: int = 4,
) -> LoopNest:
    """The loop nest of tiled regions."""
    base = loop_nest.assemble(p, tiles.block(()))
    builder = tiles.Builder(s, chunks, 0, base.workspace)
    scanner = tiles.TiledLoops(builder)
    body = tiles.block(scanner.region(r, t) for r, t in zip(regions, tilings, strict=True))
    return replace(base, body=body, arrays=(*base.arrays, *builder.arrays), workspace=builder.place())


def plain(nest: tile_plan.Nest, given: Sequence[str] = ()) -> tile_plan.Tiling:
    """One cache tile, one point a register tile, no lanes."""
    own = tuple(a.name for a in nest.axes)
    return tile_plan.Tiling(
        {a.name: tile_plan.Tile(a.typical_extent) for a in nest.axes},
        tuple(n for n in own if n not in given),
        own,
        tuple(tile_plan.PhaseTile() for _ in nest.phases),
    )
