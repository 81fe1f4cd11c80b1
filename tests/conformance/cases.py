"""Programs with known results: those of the seeds, and those of the original's tests.

Each case says where it comes from, how to compute it in NumPy (in float64, independently of everything
here), and which element types it makes sense for: `{T}` in a source stands for the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FLOATS = ("float32", "float64", "float16")
NUMBERS = (*FLOATS, "int32", "int64", "int8")


@dataclass(frozen=True)
class Case:
    """`sizes` of the run; `expect` gets the arguments by name and returns the results in order.

    `limits`: integer parameters that subscript, with the extent they stay below.  `inout`: results that
    start from the caller.  `exact`: sums and products of small integers are the whole story, so data of that
    kind must give equal results; otherwise `ulps` bounds the error relative to max(1, |result|).
    """

    name: str
    place: str
    source: str
    sizes: Mapping[str, int]
    expect: Callable[..., Any]
    dtypes: tuple[str, ...] = NUMBERS
    limits: Mapping[str, int] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    inout: tuple[str, ...] = ()
    entry: str | None = None
    exact: bool = True
    ulps: float = 32


def conv(x: Array, w: Array, sh: int = 1, sw: int = 1) -> Array:
    """(N,C,H,W) * (F,C,KH,KW) without padding."""
    kh, kw = w.shape[2:]
    oh, ow = (x.shape[2] - kh) // sh + 1, (x.shape[3] - kw) // sw + 1
    out = np.zeros((x.shape[0], w.shape[0], oh, ow), np.result_type(x, w))
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, i : i + sh * oh : sh, j : j + sw * ow : sw][:, :, :oh, :ow]
            out += np.einsum("nchw,fc->nfhw", part, w[:, :, i, j])
    return out


def pool(x: Array) -> Array:
    h, w = x.shape[2] // 2, x.shape[3] // 2
    return x[:, :, : 2 * h, : 2 * w].reshape(*x.shape[:2], h, 2, w, 2).max((3, 5))


def mlp(*layers: Any) -> list[Array]:
    x, out = layers[0], []
    for w, b in zip(layers[1::2], layers[2::2], strict=True):
        x = np.maximum(x @ w.T + b, 0)
        out.append(x)
    return out


LUT2 = """def 2LUT({T}(E1,D) LUT1, int(B,L1) I1, {T}(E2,D) LUT2, int(B,L2) I2) -> (O1, O2) {
  O1(i,j) +=! LUT1(I1(i,k),j)
  O2(i,j) +=! LUT2(I2(i,k),j)
}
"""
FIGURE_15 = (
    LUT2
    + """def MLP1({T}(B,M) I, {T}(O,N) W1, {T}(O) B1) -> (O1) {
  O1(b,n) = B1(n)
  O1(b,n) += I(b,m) * W1(n,m)
  O1(b,n) = fmaxf(O1(b,n), 0)
}
def MLP3({T}(B,N) I, {T}(O,N) W2, {T}(O) B2, {T}(P,O) W3, {T}(P) B3, {T}(Q,P) W4, {T}(Q) B4) -> (O2,O3,O4) {
  O2(b,o) = B2(o)
  O2(b,o) += I(b,n) * W2(o,n)
  O2(b,o) = fmaxf(O2(b,o), 0)
  O3(b,p) = B3(p)
  O3(b,p) += O2(b,o) * W3(p,o)
  O3(b,p) = fmaxf(O3(b,p), 0)
  O4(b,q) = B4(q)
  O4(b,q) += O3(b,p) * W4(q,p)
  O4(b,q) = fmaxf(O4(b,q), 0)
}
def prodModel({T}(E1,D) LUT1, int(B,L1) I1, {T}(E2,D) LUT2, int(B,L2) I2, {T}(B,WX) I3, {T}(WY,WX) W,
              {T}(N,M) W1, {T}(N) B1, {T}(O,N) W2, {T}(O) B2, {T}(P,O) W3, {T}(P) B3, {T}(Q,P) W4, {T}(Q) B4)
   -> (C1,C2,C3,I,O1,O2,O3,O4) {
  (C1,C2) = 2LUT(LUT1,I1,LUT2,I2)
  C3(b,wy) += I3(b,wxx) * W(wy,wxx)
  I = concat(C1, C2, C3)
  O1 = MLP1(I, W1, B1)
  (O2,O3,O4) = MLP3(O1,W2,B2,W3,B3,W4,B4)
}
"""
)


def figure_15(LUT1, I1, LUT2, I2, I3, W, W1, B1, W2, B2, W3, B3, W4, B4):
    c1, c2, c3 = LUT1[I1].sum(1), LUT2[I2].sum(1), I3 @ W.T
    x = np.concatenate([c1, c2, c3], 1)
    return (c1, c2, c3, x, *mlp(x, W1, B1, W2, B2, W3, B3, W4, B4))


SEEDS: list[Case] = [
    # ---- 000: range inference
    Case("stencil", "000, opening", "def f({T}(N) B, {T}(N) C) -> A { A(i) = B(i) + C(i-2) }", {"N": 9},
         lambda B, C: B[2:] + C[:-2]),
    Case("mat_mul", "000, opening", "def mat_mul({T}(I, K) B, {T}(K, J) C) -> A { A(i, j) +=! B(i, k) * C(k, j) }",
         {"I": 5, "J": 7, "K": 6}, lambda B, C: B @ C),
    Case("1-D convolution", "000, the algorithm", "def f({T}(N) B, {T}(M) K) -> A { A(i) +=! B(i + k) * K(k) }",
         {"N": 11, "M": 4}, lambda B, K: np.correlate(B, K, "valid")),
    Case("preconditions", "000, preconditions", "def f({T}(I) B, {T}(L) C, {T}(J) D) -> A { A(i, j) = B(i) * C(i + j) * D(j) }",
         {"I": 4, "J": 5, "L": 8},
         lambda B, C, D: np.array([[B[i] * C[i + j] * D[j] for j in range(5)] for i in range(4)])),
    Case("clamped look-up", "000, preconditions",
         "def lut({T}(J) B, int(I) C) -> A { A(i) = B(max(min(C(i), J-1), 0)) }", {"I": 9, "J": 5},
         lambda B, C: B[np.clip(C, 0, len(B) - 1)], limits={"C": 9}),
    Case("reversal", "000, inverted indexing", "def reverted({T}(I) B) -> A { A(i) = B(10 - i) }", {"I": 6},
         lambda B: B[::-1]),
    Case("subsampling", "000, strided indexing", "def subsample_2({T}(I) B) -> A { A(i) = B(2*i) }", {"I": 7},
         lambda B: B[::2]),
    Case("average pool", "000, strided with offsets", "def average_pool_2({T}(I) B) -> A { A(i) = B(2*i) + B(2*i + 1) }",
         {"I": 9}, lambda B: B[:8:2] + B[1:8:2]),
    Case("average pool as a reduction", "000, strided with offsets, with the reduction written",
         "def average_pool_2({T}(I) B) -> A { A(i) +=! B(2*i + k) where k = [0, 2[ }", {"I": 9},
         lambda B: B[:8:2] + B[1:8:2]),
    # ---- 003: the notation
    Case("mv, notation", "003, first example", "def mv({T}(R,C) A, {T}(C) B) -> (o) { o(i) +=! A(i,j) * B(j) }",
         {"R": 4, "C": 6}, lambda A, B: A @ B),
    Case("mv, simple", "003, examples: += without an initialisation", "def mv({T}(R,C) A, {T}(C) B) -> (o) { o(i) += A(i,j) * B(j) }",
         {"R": 4, "C": 6}, lambda A, B: A @ B),
    Case("mm, notation", "003, matrix multiply: R(i,j) as printed, k a lone reduction",
         "def mm({T}(X,Y) A, {T}(Y,Z) B) -> (R) { R(i,j) += A(i,j) * B(j,k) }", {"X": 3, "Y": 4, "Z": 5},
         lambda A, B: A * B.sum(1)),
    Case("conv, notation", "003, convolution",
         "def conv({T}(B,IP,H,W) input, {T}(OP,IP,KH,KW) weight) -> (output) {\n"
         "  output(b, op, h, w) += input(b, ip, h + kh, w + kw) * weight(op, ip, kh, kw) }",
         {"B": 2, "IP": 3, "H": 6, "W": 7, "OP": 2, "KH": 2, "KW": 3}, lambda input, weight: conv(input, weight)),
    Case("max pool, notation", "003, max pooling",
         "def maxpool2x2({T}(B,C,H,W) input) -> (output) {\n"
         "  output(b,c,i,j) max= input(b,c,2*i + kw, 2*j + kh)\n  where kw = [0, 2[, kh = [0, 2[ }",
         {"B": 2, "C": 2, "H": 6, "W": 5}, lambda input: pool(input)),
    # ---- 002: the report
    Case("mv in two statements", "002, §3", "def mv({T}(M,K) A, {T}(K) x) -> (C) { C(i) = 0 C(i) += A(i,k) * x(k) }",
         {"M": 4, "K": 5}, lambda A, x: A @ x),
    Case("sgemm", "002, Figure 1",
         "def sgemm({T} a, {T} b, {T}(N,M) A, {T}(M,K) B) -> (C) {\n"
         "  C(i,j) = b * C(i,j)  # initialization\n  C(i,j) += a * A(i,k) * B(k,j)  # accumulation\n}",
         {"N": 4, "M": 5, "K": 6}, lambda a, b, A, B, C: b * C + a * (A @ B),
         scalars={"a": 2, "b": 3}, inout=("C",)),
    Case("mv, initialising", "002, §3", "def mv({T}(M,K) A, {T}(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }",
         {"M": 4, "K": 5}, lambda A, x: A @ x),
    Case("fcrelu", "002, §3 (fully connected layer)",
         "def fcrelu({T}(B,I) in, {T}(O,I) weight, {T}(O) bias) -> (out) {\n"
         "  out(i,j) = bias(j)\n  out(i,j) += in(i,k) * weight(j,k)\n  out(i,j) = fmaxf(out(i,j), 0)\n}",
         {"B": 3, "I": 5, "O": 4}, lambda **a: mlp(a["in"], a["weight"], a["bias"])[0], dtypes=FLOATS),
    Case("conv2d", "002, §3",
         "def conv2d({T}(B,IP,H,W) in, {T}(OP,IP,KH,KW) weight) -> (out) {\n"
         "  out(b,op,h,w) +=! in(b,ip, h + kh, w + kw)\n    * weight(op,ip,kh,kw) }",
         {"B": 2, "IP": 3, "H": 6, "W": 7, "OP": 2, "KH": 2, "KW": 3}, lambda **a: conv(a["in"], a["weight"])),
    Case("maxpool2x2", "002, §3",
         "def maxpool2x2({T}(B,C,H,W) in) -> (out) {\n"
         "  out(b,c,i,j) max=! in(b,c, 2 * i + kw, 2 * j + kh)\n     where kw in 0:2, kh in 0:2\n}",
         {"B": 2, "C": 2, "H": 6, "W": 5}, lambda **a: pool(a["in"])),
    Case("gather", "002, §3", "def gather({T}(N) X, int(A,B) I) -> (Z) { Z(i,j) = X(I(i,j)) }",
         {"N": 7, "A": 3, "B": 4}, lambda X, I: X[I], limits={"I": 7}),
    Case("sconv2d", "002, §3",
         "def sconv2d(int sh, int sw, {T}(N,C,H,W) I, {T}(F,C,KH,KW) W, {T}(F) B) -> (O) {\n"
         "  O(n,f,h,w)  = B(f)\n  O(n,f,h,w) += I(n,c, sh * h + kh, sw * w + kw)\n    * W(f,c,kh,kw)\n}",
         {"N": 2, "C": 3, "H": 9, "W": 8, "F": 2, "KH": 3, "KW": 2},
         lambda sh, sw, I, W, B: conv(I, W, 2, 3) + B[:, None, None], scalars={"sh": 2, "sw": 3}),
    Case("conv1d with its reduction", "002, §3.1 (printed with '=', see REJECTED)",
         "def conv1d({T}(M) I, {T}(N) K) -> (O) { O(i) +=! K(x) * I(i + x) }", {"M": 9, "N": 3},
         lambda I, K: np.correlate(I, K, "valid")),
    Case("outerProductMM", "002, §5",
         "def outerProductMM({T}(P,Q,R) A, {T}(S,R,T) B) -> (O) { O(p,s,q,t) +=! A(p,q,r) * B(s,r,t) }",
         {"P": 2, "Q": 3, "R": 4, "S": 2, "T": 3}, lambda A, B: np.einsum("pqr,srt->psqt", A, B)),
    Case("transposition", "002, §3 (a valid one)", "def f({T}(N,M) b) -> (a) { a(i,j) = b(j,i) }", {"N": 3, "M": 5},
         lambda b: b.T),
    Case("tmm", "002, §7", "def tmm({T}(M,K) A, {T}(N,K) B) -> (C) { C(m,n) +=! A(m,kk) * B(n,kk) }",
         {"M": 5, "N": 4, "K": 7}, lambda A, B: A @ B.T),
    Case("tbmm", "002, §7", "def tbmm({T}(B,N,M) X, {T}(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }",
         {"B": 3, "N": 4, "K": 2, "M": 5}, lambda X, Y: np.einsum("bnm,bkm->bnk", X, Y)),
    Case("gconv", "002, §7 (grouped convolution)",
         "def gconv({T}(N,G,C,H,W) I, {T}(G,F,C,KH,KW) W1, {T}(G,F) B) -> (O) {\n"
         "  O(n,g,f,h,w) +=! I(n,g,c,h + kh,w + kw) * W1(g,f,c,kh,kw)\n  O(n,g,f,h,w) = O(n,g,f,h,w) + B(g,f)\n}",
         {"N": 2, "G": 2, "C": 3, "F": 2, "H": 5, "W": 6, "KH": 3, "KW": 2},
         lambda I, W1, B: np.stack([conv(I[:, g], W1[g]) + B[g][:, None, None] for g in range(2)], 1)),
    Case("2LUT", "002, §7", LUT2, {"E1": 9, "E2": 7, "D": 4, "B": 3, "L1": 5, "L2": 2},
         lambda LUT1, I1, LUT2, I2: (LUT1[I1].sum(1), LUT2[I2].sum(1)), limits={"I1": 9, "I2": 7}),
    Case("Figure 15, undamaged", "002, Figure 15 with O for 0 and MLP3 as docs/language.md has it", FIGURE_15,
         {"E1": 9, "E2": 7, "D": 4, "B": 3, "L1": 5, "L2": 2, "WX": 4, "WY": 3, "N": 5, "M": 11, "O": 4, "P": 3, "Q": 2},
         figure_15, limits={"I1": 9, "I2": 7}, dtypes=FLOATS, ulps=256),
]  # fmt: skip

# Programs of the seeds that the language refuses: (place, source, error, code, the paragraph of the language)
REJECTED: list[tuple[str, str, str, str, str]] = [
    ("000: lut with float indices", "def lut(float(J) B, float(I) C) -> A { A(i) = B(C(i)) }", "DTypeError", "TC0401",
     "§3: subscripts must be integral"),
    ("000: clamped lut with float indices",
     "def lut(float(J) B, float(I) C) -> A { A(i) = B(max(min(C(i), J-1), 0)) }", "DTypeError", "TC0401",
     "§3: subscripts must be integral"),
    ("000: average_pool_2 with where, printed with '='",
     "def average_pool_2(float(I) B) -> A { A(i) = B(2*i + k) where k = [0, 2[ }", "SemanticError", "TC0225",
     "§2: a reduction variable under plain '='"),
    ("000: subsample_2 with a dynamic stride", "def subsample_2(float(I) B, int(1) S) -> A { A(i) = B(S(0)*i) }",
     "RangeError", "TC0303", "§2, §4: S(0)*i is a compile-time error"),
    ("002 §3: in-place transposition", "def f(float(N,N) b) -> (float(N,N) a) { a(i,j) = a(j,i) }", "SemanticError",
     "TC0227", "§2: order and atomicity"),
    ("002 §3: max pooling without where",
     "def maxpool2x2(float(B,C,H,W) in) -> (out) { out(b,c,i,j) max=! in(b,c,2*i+kw,2*j+kh) }", "RangeError", "TC0302",
     "§4: ambiguous ranges"),
    ("002 §3.1: conv1d, printed with '='",
     "def conv1d(float(M) I, float(N) K) -> (O) { O(i) = K(x) * I(i + x) }", "SemanticError", "TC0225",
     "§2: a reduction variable under plain '='"),
    ("002 A.4.3: dconv, which reads B(m) under '='",
     "def dconv(float(N,F,H,W) I, float(F,GCI,KH,KW) W1, float(M) B) -> (O) {\n"
     "  O(n,o,h,w) +=! I(n,gci,h+kh,w+kw) * W1(gci % grp,o/grp,gci/grp,kh,kw)\n"
     "  O(n,o,h,w) = O(n,o,h,w) + B(m)\n}", "SemanticError", "TC0206",
     "§2: five subscripts for four dimensions (and m reduces under '=')"),
    ("002 Figure 15, verbatim but for 0 and O: MLP3 returns O1 without assigning it",
     "def MLP3(float(B,M) I, float(O,N) W2, float(O) B2) -> (O1,O2) {\n"
     "  O2(b,o) = B2(o)\n  O2(b,o) += O1(b,n) * W2(o,n)\n}", "SemanticError", "TC0218",
     "§2: Figure 15"),
]  # fmt: skip
