"""The original's test programs that state a result, in our own words (also those it had disabled)."""

from __future__ import annotations

import numpy as np

from tests.conformance.cases import FLOATS, NUMBERS, Case, conv

R, F = ("float32", "float64"), FLOATS
_TYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def softmax(I):
    e = np.exp(I - I.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


UPSTREAM: list[Case] = [
    # ---- 2.2: range inference, run
    Case("transpose 4-D", "§2.2 Transpose4D", "def f({T}(A,B,C,D) I) -> (O) { O(i,j,l,k) = I(j,i,k,l) }",
         {"A": 2, "B": 3, "C": 4, "D": 5}, lambda I: I.transpose(1, 0, 3, 2)),
    Case("scale 1-D", "§2.2 Scale1D", "def f({T}(N) I) -> (O) { O(i) = I(123*i) }", {"N": 250}, lambda I: I[::123]),
    Case("shift 1-D", "§2.2 Shift1D, Shift1D2", "def f({T}(N) I) -> (O, P) { O(i) = I(i-1) P(i) = I(i+5) }", {"N": 7},
         lambda I: (I, I)),
    Case("convolution in two statements", "§2.2 Conv, §7.3 Convolution2d",
         "def f({T}(N,C,H,W) I, {T}(M,C,KH,KW) W1, {T}(M) B) -> (tmp, O) {\n"
         "  tmp(n,m,h,w) +=! I(n,c,h+kh,w+kw) * W1(m,c,kh,kw)\n  O(n,m,h,w) +=! tmp(n,m,h,w) + B(m) }",
         {"N": 2, "C": 4, "M": 3, "H": 8, "W": 7, "KH": 3, "KW": 3},
         lambda I, W1, B: (conv(I, W1), conv(I, W1) + B[:, None, None])),
    Case("gradient of a convolution", "§2.2 ConvGrad",
         "def f({T}(N,C,H,W) I, {T}(M,C,KH,KW) W1, {T}(N,M,OH,OW) d_O) -> (d_I, d_B) {\n"
         "  d_I(n,c,h,w) +=! d_O(n,m,h-kh,w-kw) * W1(m,c,kh,kw)\n  d_B(m) +=! d_O(n,m,h,w) }",
         {"N": 2, "C": 2, "M": 3, "H": 6, "W": 6, "KH": 2, "KW": 3, "OH": 5, "OW": 6},
         lambda I, W1, d_O: (conv(d_O, W1.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]), d_O.sum((0, 2, 3)))),
    Case("padding by a shifted copy, then a strided convolution", "§2.2 PaddedConv",
         "def f({T}(N,C,H,W) I, {T}(M,C,KH,KW) W1) -> (pad, tmp) {\n"
         "  pad(n,c,h,w) = I(n,c,h-2-3,w-3-4)\n  tmp(n,m,h,w) +=! pad(n,c,2*h+kh,3*w+kw) * W1(m,c,kh,kw) }",
         {"N": 1, "C": 2, "M": 2, "H": 9, "W": 10, "KH": 3, "KW": 2},
         # In its own coordinates the padded tensor starts at (5, 7); h and w start at 3, which reads 6 and 9.
         lambda I, W1: (I, conv(I[:, :, 1:, 2:], W1, 2, 3))),
    Case("convolution with mixed subscripts", "§2.2 WeirdConv",
         "def f({T}(B,IP,H,W) input, {T}(OP,IP,KH,KW) weight) -> (output) {\n"
         "  output(b,op,h,w) +=! input(b,ip,2*h+3*w+kh,2*w+kw) * weight(op,ip,kh,kw) }",
         {"B": 1, "IP": 2, "OP": 2, "H": 17, "W": 7, "KH": 2, "KW": 3},
         lambda input, weight: np.stack(
             [np.stack([conv(input[:, :, 3 * w + 2 * h:3 * w + 2 * h + 2, 2 * w:2 * w + 3], weight)[:, :, 0, 0]
                        for w in range(3)], -1) for h in range(5)], 2)),
    Case("sum over a sheared plane", "§2.2 TCA", "def f({T}(P,Q,S) I) -> (O) { O(i) +=! I(j,i+j,k) }",
         {"P": 3, "Q": 8, "S": 2},
         lambda I: np.array([sum(I[j, i + j].sum() for j in range(3)) for i in range(6)])),
    Case("sums of unequal tensors", "§2.2 TCF",
         "def f({T}(A0,A1,A2) A, {T}(B0,B1,B2) B, {T}(C0,C1,C2) C) -> (O2, O3) {\n"
         "  O2(j,k,l) +=! B(j,k,l) + A(i,j,k)\n  O3(k,l,m) +=! C(k,l,m) + O2(j,k,l) }",
         {"A0": 2, "A1": 3, "A2": 4, "B0": 4, "B1": 3, "B2": 2, "C0": 2, "C1": 5, "C2": 3},
         lambda A, B, C: (lambda o2: (o2, (C[:2, :2, :, None] + o2.transpose(1, 2, 0)[:2, :, None]).sum(3)))(
             B[:3, :3] * 2 + A.sum(0)[:, :3, None])),
    Case("partial copy", "§2.2 PartialCopy", "def f({T}(N,M) I) -> (O) { O(i,j) = I(i,j) where i in 3:N-1 }",
         {"N": 8, "M": 3}, lambda I: I[3:-1]),
    Case("rotation with a where", "§2.2 UnambiguousRotate",
         "def f({T}(N,M) I) -> (O) { O(i,j) = I(10+i-j,i+j) where i in 0:10 }", {"N": 22, "M": 25},
         lambda I: np.array([[I[10 + i - j, i + j] for j in range(11)] for i in range(10)])),
    Case("a check on a derived size, provable", "§2.2 RuntimeCheck…StaticallyProvable",
         "def f({T}(10,19,10) I) -> (O) { O(i,j) = I(i,i+j,j) }", {},
         lambda I: np.array([[I[i, i + j, j] for j in range(10)] for i in range(10)])),
    Case("a check on a derived size, at the call", "§2.2 RuntimeCheckOnDerivedSize: §4, preconditions are checked",
         "def f({T}(N,NM,M) I) -> (O) { O(i,j) = I(i,i+j,j) }", {"N": 3, "M": 4, "NM": 6},
         lambda I: np.array([[I[i, i + j, j] for j in range(4)] for i in range(3)])),
    Case("TCC", "§2.2 TCC: an error there, a precondition here (§4)", "def f({T}(A,B,C) I) -> (O) { O(i,j) = I(i,i+j,j) }",
         {"A": 3, "B": 5, "C": 3}, lambda I: np.array([[I[i, i + j, j] for j in range(3)] for i in range(3)])),
    Case("TCE", "§2.2 TCE: an error there, a precondition here (§4)",
         "def f({T}(A,B,C,D,E) I) -> (O) { O(i,j) = I(j,j+1,i,i+3,2*i+j+0) }",
         {"A": 3, "B": 4, "C": 2, "D": 5, "E": 6},
         lambda I: np.array([[I[j, j + 1, i, i + 3, 2 * i + j] for j in range(3)] for i in range(2)])),
    Case("where without inputs", "§2.2 PartialAssignWithWhere", "def f() -> (O) { O(i,j) = 3 where i in 4:8, j in 3:20 }", {},
         lambda: np.full((4, 17), 3), dtypes=("int32",)),
    Case("TC2Isl copy chain", "§2.2 Copy2D3Stmt",
         "def f({T}(N,M) I) -> (O1,O2,O3) { O1(i,j) = I(i,j) O2(i,j) = O1(i,j) O3(i,j) = O2(i,j) }", {"N": 3, "M": 4},
         lambda I: (I, I, I)),
    Case("TC2Isl reductions", "§2.2 Reduction2D2StmtA, B, Reduction3D",
         "def f({T}(N,M) I, {T}(N,M,K) J) -> (A,B,C,D) { A(i) +=! I(i,j) B(i) = A(i) C(i) +=! J(i,j,k)\n"
         "  D(i) +=! B(i) + I(i,j) }", {"N": 3, "M": 4, "K": 2},
         lambda I, J: (I.sum(1), I.sum(1), J.sum((1, 2)), I.sum(1) * 5)),
    Case("two matrix multiplies", "§2.2 TwoMatmul",
         "def f({T}(M,K) I, {T}(K,N) W1, {T}(N,P) W2) -> (O1,O2) {\n"
         "  O1(m,n) +=! I(m,r_k) * W1(r_k,n)\n  O2(m,p) +=! O1(m,r_n) * W2(r_n,p) }",
         {"M": 3, "K": 4, "N": 2, "P": 5}, lambda I, W1, W2: (I @ W1, I @ W1 @ W2)),
    # ---- 7.1 and 7.2: the language and its corner cases
    Case("gather in the value", "§7.1 indirect accesses", "def f({T}(N) A, int(M) B) -> (O,P) { O +=! A(int32(B(i))) P max=! A(B(i)) }",
         {"N": 5, "M": 7}, lambda A, B: (A[B].sum(), A[B].max()), limits={"B": 5}),
    Case("built-ins in a 0-D sum", "§7.1", "def f({T}(N) I) -> (O) { O +=! log(2 + tanh(I(i))) }", {"N": 6},
         lambda I: np.log(2 + np.tanh(I)).sum(), dtypes=F, exact=False),
    Case("E2", "§7.2 E2", "def f({T}(1) a) -> (b) { b(i) = a(i) }", {}, lambda a: a),
    Case("E3: a def called main", "§7.2 E3 (disabled there)", "def main({T}(N) a) -> (b) { b(i) = a(i) }", {"N": 3}, lambda a: a),
    Case("E4", "§7.2 E4", "def f({T} a) -> (b) { b = a }", {}, lambda a: a, scalars={"a": 3}),
    Case("E5: no inputs", "§7.2 E5 (disabled there)", "def f() -> (b) { b(i) = 4 where i in 0:10 }", {},
         lambda: np.full(10, 4), dtypes=("int32",)),
    Case("E6, E10", "§7.2", "def f({T} a) -> (b) { b(i) = a where i in 0:10 }", {}, lambda a: np.full(10, a),
         scalars={"a": 7}),
    Case("E14: a product of sizes as a bound", "§7.2 E14 (disabled there)",
         "def f({T}(N) a) -> (b) { b(i,j) = a(i) where j in 0:(N*N) }", {"N": 3}, lambda a: np.repeat(a[:, None], 9, 1)),
    Case("E15: comparisons", "§7.2 E15",
         "def f({T} a, {T} b) -> (c) { c(i) = float(a <= b) + 2*float(a < b) + 4*float(a == b) + 8*float(a != b)\n"
         "  + 16*float(a >= b) + 32*float(a > b) where i in 0:1 }", {},
         lambda a, b: np.array([(a <= b) + 2 * (a < b) + 4 * (a == b) + 8 * (a != b) + 16 * (a >= b) + 32 * (a > b)], float),
         dtypes=("float32", "int32", "float64"), scalars={"a": 2, "b": 3}),
    Case("E16: logic", "§7.2 E16",
         "def f({T}(N) a, {T}(N) b) -> (c) { c(i) = float(!(a(i) < .5) || b(i) > .5) + 2*float(a(i) < .5 && b(i) > .5) }",
         {"N": 9}, lambda a, b: 1.0 * (~(a < 0.5) | (b > 0.5)) + 2.0 * ((a < 0.5) & (b > 0.5)), dtypes=F),
    Case("E17", "§7.2 E17", "def f({T}(N) a) -> (b) { b(i) = 4.0 where exists a(i) }", {"N": 5}, lambda a: np.full(5, 4.0),
         dtypes=("float32",)),
    Case("E18", "§7.2 E18", "def f({T}(N) a) -> (b) { b(i) = 2*foo where foo = a(i) }", {"N": 5}, lambda a: 2 * a),
    Case("E20: a temporary", "§7.2 E20: an error there, temporaries are in the language here (§2)",
         "def f({T}(N) a) -> (b) { c(i)=a(i) b(i)=c(i) }", {"N": 5}, lambda a: a),
    Case("E21-E23", "§7.2", "def f({T}(N) a, {T}(N) b, {T}(N) c) -> (p,q,r) {\n"
         "  p(i) = max(a(i),b(i)) q(i) = min(a(i),b(i)) r(i) = min(a(i),max(b(i),c(i))) }", {"N": 8},
         lambda a, b, c: (np.maximum(a, b), np.minimum(a, b), np.minimum(a, np.maximum(b, c)))),
    Case("E24: an update of an output", "§7.2 E24", "def f({T}(N) a) -> (d) { d(i) = a(i) d(i) = d(i) + a(i) * 2 }", {"N": 4},
         lambda a: 3 * a),
    Case("E26: integer scalars", "§7.2 E26", "def f(int a, int b) -> (c) { c(i) = int32(a % b) where i in 0:1 }", {},
         lambda a, b: np.array([a % b]), dtypes=("int32",), scalars={"a": -7, "b": 3}),
    # ---- 7.3: compile and run
    Case("soft-max A", "§7.3 SoftmaxA (disabled there)",
         "def softmax({T}(N,D) I) -> (O) {\n  tmp(n) max=! I(n,d)\n  O(n,d) = exp(I(n,d) - tmp(n))\n"
         "  tmp(n) +=! O(n,d)\n  O(n,d) = O(n,d) / tmp(n)\n}", {"N": 5, "D": 7}, softmax, dtypes=F, exact=False),
    Case("soft-max B", "§7.3 SoftmaxB (disabled there): the temporary is returned",
         "def softmax({T}(N,D) I) -> (O, tmp) {\n  tmp(n) max=! I(n,d)\n  O(n,d) = exp(I(n,d) - tmp(n))\n"
         "  tmp(n) +=! O(n,d)\n  O(n,d) = O(n,d) / tmp(n)\n}", {"N": 5, "D": 7},
         lambda I: (softmax(I), np.exp(I - I.max(1, keepdims=True)).sum(1)), dtypes=F, exact=False),
    Case("soft-max C, D", "§7.3",
         "def softmax({T}(N,D) I) -> (O, maxVal, expDistance, expSum) {\n  maxVal(n) max=! I(n,d)\n"
         "  expDistance(n,d) = exp(I(n,d) - maxVal(n))\n  expSum(n) +=! expDistance(n,d)\n"
         "  O(n,d) = expDistance(n,d) / expSum(n)\n}", {"N": 6, "D": 8},
         lambda I: (softmax(I), I.max(1), np.exp(I - I.max(1, keepdims=True)),
                    np.exp(I - I.max(1, keepdims=True)).sum(1)), dtypes=F, exact=False),
    Case("concat by a ternary", "§7.3 Concat, §7.8",
         "def f({T}(M,N) A, {T}(M,N) B) -> (O1) { O1(n,i,m) = i==0 ? A(m,n) : B(m,n) where i in 0:2 }", {"M": 6, "N": 4},
         lambda A, B: np.stack([A.T, B.T], 1)),
    Case("indexing", "§7.3 Indexing",
         "def f({T}(H,W) input, int(L) index) -> (output) { output(l,w) = input(index(l),w) where l in 0:2 }",
         {"H": 3, "W": 4, "L": 2}, lambda input, index: input[index], limits={"index": 3}),
    Case("matmul in place", "§7.3 MatMulInplace",
         "def f({T}(M,N) A, {T}(N,K) B) -> (output) { output(m,k) += A(m,r_n) * B(r_n,k) }", {"M": 3, "N": 4, "K": 5},
         lambda A, B, output: output + A @ B, inout=("output",)),
    Case("textual stride", "§7.3 Convolution2dStrided",
         "def f({T}(N,C,H,W) I, {T}(F,C,KH,KW) W1) -> (O) { O(n,f,h,w) +=! I(n,c,2*h+kh,3*w+kw) * W1(f,c,kh,kw) }",
         {"N": 2, "C": 3, "H": 9, "W": 11, "F": 2, "KH": 3, "KW": 3}, lambda I, W1: conv(I, W1, 2, 3)),
    Case("casts", "§7.3 Casts",
         "def f({T}(M,N) A, int32 four) -> (int32(M,N) output) { output(m,n) = int32(A(m,n) + four) }", {"M": 3, "N": 4},
         lambda A, four: np.trunc(A + four), dtypes=R, scalars={"four": 4}),
    Case("types", "§7.3 Types, §2.2 Types", "def f({T}(N) A) -> (B) { B(k) +=! A(i) where k in 0:1 }", {"N": 100},
         lambda A: np.array([A.sum()]), dtypes=_TYPES, ulps=512),
    # ---- 7.4: values of the mapper's tests (mapping-independent here)
    Case("1-D reductions", "§7.4 v1, v2, v3",
         "def f({T}(M) A) -> (B, C, D) { B() +=! A(r_m) C +=! A(r_m) D(i) +=! A(r_m) where i in 0:1 }", {"M": 165},
         lambda A: (A.sum(), A.sum(), np.array([A.sum()])), ulps=512),
    Case("2-D reduction", "§7.4 Reduction2D1", "def f({T}(M,N) A) -> (C) { C(m) +=! A(m,r_n) }", {"M": 17, "N": 19},
         lambda A: A.sum(1), ulps=256),
    Case("matmul 16x19x22", "§7.4 Matmul", "def f({T}(M,N) A, {T}(N,K) B) -> (C) { C(m,k) +=! A(m,r_n) * B(r_n,k) }",
         {"M": 16, "N": 19, "K": 22}, lambda A, B: A @ B, ulps=256),
    Case("batched triple Hadamard", "§7.4", "def f({T}(B,D) U, {T}(B,D) V, {T}(B,D) W) -> (Z) { Z(b,d) = U(b,d) * V(b,d) * W(b,d) }",
         {"B": 5, "D": 30}, lambda U, V, W: U * V * W),
    Case("tensor dot", "§7.4 TensorDot",
         "def f({T}(N,C1,C2,H,W) I0, {T}(N,C2,C3,H,W) I1) -> (O) { O(n,c1,c3,h,w) +=! I0(n,c1,c2,h,w) * I1(n,c2,c3,h,w) }",
         {"N": 2, "C1": 3, "C2": 4, "C3": 2, "H": 3, "W": 3},
         lambda I0, I1: np.einsum("nachw,nckhw->nakhw", I0, I1), ulps=64),
    Case("look-up table", "§7.4 LUT", "def f({T}(E,R) LUT, int(B,N) I) -> (O) { O(b,n) +=! LUT(I(b,n),r_r) }",
         {"E": 12, "R": 6, "B": 5, "N": 8}, lambda LUT, I: LUT.sum(1)[I], limits={"I": 12}, ulps=64),
    Case("batch normalisation", "§7.4 SpatialBatchNormalization (disabled there)",
         "def f({T}(N,C,H,W) I) -> (O, mean, var) {\n  mean(c) +=! I(nn,c,hh,ww)\n  mean(c) = mean(c) / (N*H*W)\n"
         "  var(c) +=! (I(nn,c,hh,ww) - mean(c)) * (I(nn,c,hh,ww) - mean(c))\n  var(c) = var(c) / (N*H*W)\n"
         "  O(n,c,h,w) = (I(n,c,h,w) - mean(c)) * rsqrt(var(c) + 1e-5)\n}",
         {"N": 3, "C": 2, "H": 4, "W": 5},
         lambda I: ((I - I.mean((0, 2, 3))[:, None, None]) / np.sqrt(I.var((0, 2, 3)) + 1e-5)[:, None, None],
                    I.mean((0, 2, 3)), I.var((0, 2, 3))), dtypes=R, exact=False, ulps=256),
    # ---- 7.5, 7.6: programs that broke the original
    Case("nested expressions", "§7.5 Convolution.NestedExpressions",
         "def f({T}(X) A, {T}(X) K) -> (B) { B(x) +=! A(xp) * K(X-1+x-xp) where xp in 0:X }", {"X": 9},
         lambda A, K: np.array([np.dot(A, K[::-1])]), ulps=64),
    Case("copies over two tensors", "§7.6 CopyUnbalanced",
         "def f({T}(N) I, {T}(N,M) J) -> (O1, O2) { O1(n) = I(n) O2(n,m) = J(n,m) }", {"N": 4, "M": 3}, lambda I, J: (I, J)),
    Case("bare variables", "§7.6 BareVariables", "def f({T}(N0,N1) A) -> (O) { O(n0,n1) = A(n0,n1) + n0 + n1 + N1 }",
         {"N0": 3, "N1": 4}, lambda A: A + np.arange(3)[:, None] + np.arange(4) + 4, dtypes=(*F, "int32", "int64")),
    Case("modulus by a constant", "§7.6 ModulusConstantRHS", "def f({T}(M) a) -> (b) { b(i) = a(i%3) where i in 0:M }", {"M": 10},
         lambda a: a[np.arange(10) % 3]),
    Case("modulus by an index", "§7.6 ModulusVariableRHS",
         "def f({T}(N,C) I, {T}(K) W) -> (O) { O(n) +=! I(n, k % c) * W(k) where c in 1:C }", {"N": 3, "C": 4, "K": 5},
         lambda I, W: np.array([sum(I[n, k % c] * W[k] for c in range(1, 4) for k in range(5)) for n in range(3)]), ulps=64),
    Case("a single instance", "§7.6 SingleInstance", "def f({T}(N) unused) -> (a) { a = 0 }", {"N": 3},
         lambda unused: np.asarray(0), dtypes=("int32",)),
    Case("perforated convolution", "§7.6 PerforatedConvolution",
         "def f({T}(N,C,H,W) input, {T}(M,C,KH,KW) weights, int(N,L) index) -> (output) {\n"
         "  output(n,m,l) +=! input(n,c,index(n,l)+kh,index(n,l)+kw) * weights(m,c,kh,kw) where l in 0:L }",
         {"N": 2, "C": 2, "H": 6, "W": 6, "M": 3, "KH": 2, "KW": 2, "L": 4},
         lambda input, weights, index: np.stack(
             [np.stack([np.einsum("chw,mchw->m", input[n, :, i:i + 2, i:i + 2], weights) for i in index[n]], 1)
              for n in range(2)]), limits={"index": 5}, ulps=64),
    # ---- 7.9, 7.10: examples and the layer zoo
    Case("masked convolution", "§7.9",
         "def f({T}(B,C,H,W) Input, uint8(F,C) Mask, {T}(F,C,KH,KW) Weights) -> (Output) {\n"
         "  Output(b,f,h,w) +=! (Mask(f,r_c) == 1) ? fmax(0.0, Input(b,r_c,h+r_k1,w+r_k2)) * Weights(f,r_c,r_k1,r_k2) : 0.0 }",
         {"B": 2, "C": 3, "F": 2, "H": 5, "W": 5, "KH": 2, "KW": 2},
         lambda Input, Mask, Weights: conv(np.maximum(Input, 0), Weights * (Mask == 1)[:, :, None, None]), dtypes=F, ulps=64),
    Case("minimal distance", "§7.9",
         "def f({T}(M,D) L, uint8(N,M) Codes) -> (S, v, min_idx) {\n  S(n) +=! L(r_m, int32(Codes(n,r_m)))\n"
         "  v min=! S(r_n)\n  min_idx min=! (S(r_n) == v) ? r_n : N }", {"N": 9, "M": 4, "D": 6},
         lambda L, Codes: (lambda s: (s, s.min(), s.argmin()))(L[np.arange(4), Codes].sum(1)),
         dtypes=("float32", "float64", "int32"), limits={"Codes": 6}, ulps=64),
    Case("fc with a broadcast init", "§7.10 fcrelu",
         "def f({T}(B,M) I, {T}(N,M) W1, {T}(N) B1) -> (O1) { O1(b,n) = B1(n) where b in 0:B\n"
         "  O1(b,n) += I(b,m) * W1(n,m)\n  O1(b,n) = fmax(O1(b,n), 0) }", {"B": 3, "M": 5, "N": 4},
         lambda I, W1, B1: np.maximum(I @ W1.T + B1, 0), dtypes=F, ulps=64),
    Case("product reduction", "§7.10 multiply_reduction",
         "def f({T}(N,H) I, {T}(KH) W) -> (O) { O(n,h) *=! I(n,h+kh) * W(kh) }", {"N": 3, "H": 6, "KH": 3},
         lambda I, W: np.prod(np.stack([I[:, k:k + 4] * W[k] for k in range(3)]), 0), dtypes=(*R, "int32", "int64"), ulps=64),
    Case("cosine similarity", "§7.10",
         "def f({T}(M,N) I1, {T}(M,N) I2, {T} eps) -> (O) {\n  a(m) +=! I1(m,n) * I1(m,n)\n  b(m) +=! I2(m,n) * I2(m,n)\n"
         "  O(m) +=! (I1(m,n) * I2(m,n)) / fmax(sqrt(a(m)) * sqrt(b(m)), eps) }", {"M": 4, "N": 6},
         lambda I1, I2, eps: (I1 * I2).sum(1) / np.maximum(np.linalg.norm(I1, axis=1) * np.linalg.norm(I2, axis=1), eps),
         dtypes=R, scalars={"eps": 0.5}, exact=False, ulps=128),
    Case("layer normalisation", "§7.5 LayerNorm",
         "def f({T}(T,B,C) I) -> (O, mean, centered, var) {\n  mean(t,b) +=! I(t,b,c) / C\n"
         "  centered(t,b,c) = I(t,b,c) - mean(t,b)\n  var(t,b) +=! centered(t,b,c) * centered(t,b,c)\n"
         "  var(t,b) = var(t,b) / C\n  O(t,b,c) = centered(t,b,c) * rsqrt(var(t,b) + 1e-5) }", {"T": 2, "B": 3, "C": 8},
         lambda I: (lambda m: ((I - m) / np.sqrt(I.var(2, keepdims=True) + 1e-5), m[..., 0], I - m, I.var(2)))(
             I.mean(2, keepdims=True)), dtypes=R, exact=False, ulps=256),
    Case("Kronecker product times a matrix", "§6 kronecker",
         "def f({T}(D2,N2) W2, {T}(D1,N1) W1, {T}(M,N1,N2) X) -> (Y, XW2) {\n"
         "  XW2(m,n1,d2) +=! X(m,n1,r_n2) * W2(d2,r_n2)\n  Y(m,d1,d2) +=! XW2(m,r_n1,d2) * W1(d1,r_n1) }",
         {"D2": 2, "N2": 3, "D1": 4, "N1": 2, "M": 3},
         lambda W2, W1, X: (np.einsum("mab,db,ca->mcd", X, W2, W1), np.einsum("mab,db->mad", X, W2)), ulps=64),
    Case("dilated gated convolution", "§6 wavenet1: guarded accesses",
         "def f({T}(B,C,L) Data, {T}(D,C) W0, {T}(D,C) W1, int dil) -> (Out) {\n"
         "  Out(b,d,t) +=! Data(b,c,t) * W1(d,c) + ((t - dil >= 0) ? Data(b,c,t-dil) * W0(d,c) : 0) where t in 0:L }",
         {"B": 2, "C": 3, "L": 7, "D": 2},
         lambda Data, W0, W1, dil: np.einsum("bcl,dc->bdl", Data, W1) + np.einsum(
             "bcl,dc->bdl", np.pad(Data, ((0, 0), (0, 0), (3, 0)))[:, :, :7], W0),
         scalars={"dil": 3}, ulps=64),
    Case("reinterpretation by division and modulus", "§4 `/` and `%` floor",
         "def f({T}(N) A) -> (O) { O(i,j) = A((3*i + j) / 2) + A((3*i + j) % 5) where i in 0:4, j in 0:3 }", {"N": 6},
         lambda A: np.array([[A[(3 * i + j) // 2] + A[(3 * i + j) % 5] for j in range(3)] for i in range(4)]),
         dtypes=NUMBERS),
]  # fmt: skip
