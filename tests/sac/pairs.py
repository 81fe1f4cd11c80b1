"""The same programs in both notations, with sizes, for loop nests and measurements that compare them."""

from __future__ import annotations

from dataclasses import dataclass

MM_SAC = "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }"
CONV_SAC = (
    "{ [n,f,y,x] -> sum({ [c,p,q] -> I[n,c,y+p,x+q] * K[f,c,p,q] | [c,p,q] < drop([1], shape(K)) }) "
    "| [n,f,y,x] < [shape(I)[0], shape(K)[0], shape(I)[2] - shape(K)[2] + 1, shape(I)[3] - shape(K)[3] + 1] }"
)
SOFTMAX_SAC = """
float[.,.] softmax(float[.,.] A) {
  most = { [i] -> maxval({ [j] -> A[i,j] }) };
  e = { [i,j] -> exp(A[i,j] - most[i]) };
  total = { [i] -> sum({ [j] -> e[i,j] }) };
  return { [i,j] -> e[i,j] / total[i] };
}
"""
SOBEL_SAC = """
float[.,.] sobel(float[.,.] A) {
  gx = { [i,j] -> A[i,j+2] - A[i,j] + 2f * (A[i+1,j+2] - A[i+1,j]) + A[i+2,j+2] - A[i+2,j] };
  gy = { [i,j] -> A[i+2,j] - A[i,j] + 2f * (A[i+2,j+1] - A[i,j+1]) + A[i+2,j+2] - A[i,j+2] };
  return sqrt(gx * gx + gy * gy);
}
"""
LIFE_SAC = """
int[.,.] life(int[.,.] A) {
  n = { [i,j] -> sum({ [p,q] -> A[i+p,j+q] | [p,q] < [3,3] }) - A[i+1,j+1] | [i,j] < shape(A) - 2 };
  return { [i,j] -> n[i,j] == 3 || (n[i,j] == 2 && A[i+1,j+1] == 1) ? 1 : 0 };
}
"""
INNER_SAC = "with { ([1,1] <= [i,j] < shape(A)-1) : A[i,j] + 1f; } : modarray(A)"
INC_SAC = "{ iv -> A[iv] + 1f }"


@dataclass(frozen=True)
class Pair:
    """`shapes` of the parameters in order, and their element type; `sizes` are those of the def."""

    name: str
    tc: str
    sac: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    sizes: dict[str, int]


PAIRS = (
    Pair(
        "matrix product",
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        MM_SAC,
        ((256, 192), (192, 320)),
        "float32",
        {"M": 256, "K": 192, "N": 320},
    ),
    Pair(
        "convolution",
        "def conv(float(N,C,H,W) I, float(F,C,P,Q) K) -> (O) { O(n,f,y,x) +=! I(n,c,y+p,x+q) * K(f,c,p,q) }",
        CONV_SAC,
        ((4, 16, 30, 30), (32, 16, 3, 3)),
        "float32",
        {"N": 4, "C": 16, "H": 30, "W": 30, "F": 32, "P": 3, "Q": 3},
    ),
    Pair(
        "soft-max",
        "def softmax(float(N,M) A) -> (B) { most(i) max=! A(i,j)\n e(i,j) = exp(A(i,j) - most(i))\n"
        " total(i) +=! e(i,j)\n B(i,j) = e(i,j) / total(i) }",
        SOFTMAX_SAC,
        ((256, 1000),),
        "float32",
        {"N": 256, "M": 1000},
    ),
    Pair(
        "Sobel",
        "def sobel(float(N,M) A) -> (B) {\n"
        " gx(i,j) = A(i,j+2) - A(i,j) + 2 * (A(i+1,j+2) - A(i+1,j)) + A(i+2,j+2) - A(i+2,j)\n"
        " gy(i,j) = A(i+2,j) - A(i,j) + 2 * (A(i+2,j+1) - A(i,j+1)) + A(i+2,j+2) - A(i,j+2)\n"
        " B(i,j) = sqrt(gx(i,j) * gx(i,j) + gy(i,j) * gy(i,j)) }",
        SOBEL_SAC,
        ((512, 512),),
        "float32",
        {"N": 512, "M": 512},
    ),
    Pair(
        "game of life",
        "def life(int(N,M) A) -> (B) {\n"
        " n(i,j) +=! A(i+p,j+q) where i in 0:N-2, j in 0:M-2, p in 0:3, q in 0:3\n"
        " m(i,j) = n(i,j) - A(i+1,j+1)\n"
        " B(i,j) = m(i,j) == 3 || (m(i,j) == 2 && A(i+1,j+1) == 1) ? 1 : 0 }",
        LIFE_SAC,
        ((514, 514),),
        "int32",
        {"N": 514, "M": 514},
    ),
    Pair(
        "inner elements",
        "def inner(float(N,M) A) -> (B) { B(i,j) = A(i,j) where i in 0:N, j in 0:M\n"
        " B(i,j) = A(i,j) + 1 where i in 1:N-1, j in 1:M-1 }",
        INNER_SAC,
        ((1024, 1024),),
        "float32",
        {"N": 1024, "M": 1024},
    ),
    Pair(
        "inc",
        "def inc(float(N,M) A) -> (B) { B(i,j) = A(i,j) + 1 }",
        INC_SAC,
        ((1024, 1024),),
        "float32",
        {"N": 1024, "M": 1024},
    ),
)
