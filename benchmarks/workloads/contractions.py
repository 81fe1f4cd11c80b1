"""Sums of products: matrix products of every shape and type, layers made of them, longer contractions."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Workload


def tmm(M: int, K: int, N: int) -> Workload:
    """A matrix times a transposed one, both read along their rows."""
    return Workload(
        "tmm",
        "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }",
        (Array("A", (M, K)), Array("B", (N, K))),
        flops=2.0 * M * K * N,
        kind="compute",
        terms=K,
    )


def gemm(M: int, K: int, N: int) -> Workload:
    return Workload(
        "gemm",
        "def gemm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        (Array("A", (M, K)), Array("B", (K, N))),
        flops=2.0 * M * K * N,
        kind="compute",
        terms=K,
    )


def gemm_tn(M: int, K: int, N: int) -> Workload:
    """The first matrix is the transposed one: its columns are the long way."""
    return Workload(
        "gemm_tn",
        "def gemm_tn(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }",
        (Array("A", (K, M)), Array("B", (K, N))),
        flops=2.0 * M * K * N,
        kind="compute",
        terms=K,
    )


def dgemm(M: int, K: int, N: int) -> Workload:
    return Workload(
        "gemm",
        "def dgemm(double(M,K) A, double(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        (Array("A", (M, K), "float64"), Array("B", (K, N), "float64")),
        flops=2.0 * M * K * N,
        kind="compute",
        terms=K,
    )


def hgemm(M: int, K: int, N: int) -> Workload:
    """Stored in 16 bits, summed in 32."""
    return Workload(
        "gemm",
        "def hgemm(half(M,K) A, half(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        (Array("A", (M, K), "float16"), Array("B", (K, N), "float16")),
        flops=2.0 * M * K * N,
        kind="compute",
        terms=K,
    )


def igemm(M: int, K: int, N: int) -> Workload:
    """8-bit factors, 32-bit sums."""
    return Workload(
        "igemm",
        "def igemm(int8(M,K) A, int8(K,N) B) -> (C) { C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) }",
        (Array("A", (M, K), "int8"), Array("B", (K, N), "int8")),
        flops=2.0 * M * K * N,
        kind="compute",
        terms=K,
    )


def tbmm(B: int, N: int, M: int, K: int) -> Workload:
    return Workload(
        "tbmm",
        "def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }",
        (Array("X", (B, N, M)), Array("Y", (B, K, M))),
        flops=2.0 * B * N * M * K,
        kind="compute",
        terms=M,
    )


def bmm(B: int, N: int, M: int, K: int) -> Workload:
    """Many products of matrices too small for a library call each."""
    return Workload(
        "bmm",
        "def bmm(float(B,N,M) X, float(B,M,K) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,m,k) }",
        (Array("X", (B, N, M)), Array("Y", (B, M, K))),
        flops=2.0 * B * N * M * K,
        kind="compute",
        terms=M,
    )


def matvec(M: int, K: int) -> Workload:
    return Workload(
        "matvec",
        "def matvec(float(M,K) A, float(K) x) -> (y) { y(m) +=! A(m,k) * x(k) }",
        (Array("A", (M, K)), Array("x", (K,))),
        flops=2.0 * M * K,
        kind="memory",
        terms=K,
    )


def vecmat(K: int, N: int) -> Workload:
    """The sum runs down the columns."""
    return Workload(
        "vecmat",
        "def vecmat(float(K) x, float(K,N) A) -> (y) { y(n) +=! x(k) * A(k,n) }",
        (Array("x", (K,)), Array("A", (K, N))),
        flops=2.0 * K * N,
        kind="memory",
        terms=K,
    )


def dot(N: int) -> Workload:
    return Workload(
        "dot",
        "def dot(float(N) a, float(N) b) -> (s) { s +=! a(i) * b(i) }",
        (Array("a", (N,)), Array("b", (N,))),
        flops=2.0 * N,
        kind="memory",
        terms=N,
    )


def mlp1(B: int, M: int, N: int) -> Workload:
    return Workload(
        "mlp1",
        """
        def mlp1(float(B,M) I, float(N,M) W1, float(N) B1) -> (O1) {
          O1(b,n) +=! I(b,m) * W1(n,m)
          O1(b,n) = fmax(O1(b,n) + B1(n), 0)
        }
        """,
        (Array("I", (B, M)), Array("W1", (N, M)), Array("B1", (N,))),
        flops=2.0 * B * M * N + 2.0 * B * N,
        kind="compute",
        terms=M,
    )


def mlp3(B: int, N: int, O: int, P: int, Q: int) -> Workload:
    """Three small layers; every activation is a result."""
    return Workload(
        "mlp3",
        """
        def mlp3(float(B,N) I, float(O,N) W2, float(O) B2, float(P,O) W3, float(P) B3,
                 float(Q,P) W4, float(Q) B4) -> (O2, O3, O4) {
          O2(b,o) +=! I(b,n) * W2(o,n)
          O2(b,o) = fmax(O2(b,o) + B2(o), 0)
          O3(b,p) +=! O2(b,o) * W3(p,o)
          O3(b,p) = fmax(O3(b,p) + B3(p), 0)
          O4(b,q) +=! O3(b,p) * W4(q,p)
          O4(b,q) = fmax(O4(b,q) + B4(q), 0)
        }
        """,
        (
            Array("I", (B, N)),
            *(Array("W2", (O, N)), Array("B2", (O,))),
            *(Array("W3", (P, O)), Array("B3", (P,))),
            *(Array("W4", (Q, P)), Array("B4", (Q,))),
        ),
        flops=2.0 * B * (N * O + O * P + P * Q + O + P + Q),
        kind="compute",
        terms=N + O + P,
    )


def gelu_mlp(B: int, M: int, H: int, N: int) -> Workload:
    """Two layers with the exact GELU between them."""
    return Workload(
        "gelu_mlp",
        """
        def gelu_mlp(float(B,M) X, float(H,M) W1, float(H) B1, float(N,H) W2, float(N) B2) -> (O) {
          U(b,h) +=! X(b,m) * W1(h,m)
          V(b,h) = (U(b,h) + B1(h)) * 0.5 * (1 + erf((U(b,h) + B1(h)) * 0.70710678118654752))
          O(b,n) +=! V(b,h) * W2(n,h)
          O(b,n) = O(b,n) + B2(n)
        }
        """,
        (
            Array("X", (B, M)),
            *(Array("W1", (H, M)), Array("B1", (H,))),
            *(Array("W2", (N, H)), Array("B2", (N,))),
        ),
        flops=2.0 * B * H * (M + N) + 6.0 * B * H + B * N,
        kind="compute",
        terms=M + H,
    )


def swiglu(B: int, M: int, H: int) -> Workload:
    """Two products of one input, the gate of one multiplied into the other."""
    return Workload(
        "swiglu",
        """
        def swiglu(float(B,M) X, float(H,M) W, float(H,M) V) -> (O) {
          G(b,h) +=! X(b,m) * W(h,m)
          U(b,h) +=! X(b,m) * V(h,m)
          O(b,h) = G(b,h) * sigmoid(G(b,h)) * U(b,h)
        }
        """,
        (Array("X", (B, M)), Array("W", (H, M)), Array("V", (H, M))),
        flops=4.0 * B * H * M + 4.0 * B * H,
        kind="compute",
        terms=2 * M,
    )


def kronecker3(M: int, N: int, D: int) -> Workload:
    """A matrix that is a Kronecker product of three, applied one factor at a time."""
    return Workload(
        "kronecker3",
        """
        def kron3(float(D0,N0) W0, float(D1,N1) W1, float(D2,N2) W2, float(M,N0,N1,N2) X) -> (Y, XW1, XW2) {
          XW2(m,n0,n1,d2) +=! X(m,n0,n1,r) * W2(d2,r)
          XW1(m,n0,d1,d2) +=! XW2(m,n0,r,d2) * W1(d1,r)
          Y(m,d0,d1,d2) +=! XW1(m,r,d1,d2) * W0(d0,r)
        }
        """,
        (Array("W0", (D, N)), Array("W1", (D, N)), Array("W2", (D, N)), Array("X", (M, N, N, N))),
        flops=2.0 * M * (N**3 * D + N * N * D * D + N * D**3),
        kind="compute",
        terms=3 * N,
    )


def attention(B: int, L: int, D: int) -> Workload:
    """Scores, their soft-max and the weighted sum of values, for B heads."""
    return Workload(
        "attention",
        """
        def attention(float(B,L,D) Q, float(B,L2,D) K, float(B,L2,E) V) -> (O) {
          S(b,i,j) +=! Q(b,i,d) * K(b,j,d)
          S(b,i,j) = S(b,i,j) * rsqrt(float(D))
          m(b,i) max=! S(b,i,j)
          P(b,i,j) = exp(S(b,i,j) - m(b,i))
          t(b,i) +=! P(b,i,j)
          O(b,i,e) +=! P(b,i,j) * V(b,j,e)
          O(b,i,e) = O(b,i,e) / t(b,i)
        }
        """,
        (Array("Q", (B, L, D)), Array("K", (B, L, D)), Array("V", (B, L, D))),
        flops=B * L * (4.0 * L * D + 5.0 * L + D),
        kind="compute",
        terms=D + L,
    )


def chain3(N: int) -> Workload:
    """A product of three matrices, the order of multiplication written out."""
    return Workload(
        "chain3",
        """
        def chain3(float(I,J) A, float(J,K) B, float(K,L) C) -> (D) {
          T(i,k) +=! A(i,j) * B(j,k)
          D(i,l) +=! T(i,k) * C(k,l)
        }
        """,
        (Array("A", (N, N)), Array("B", (N, N)), Array("C", (N, N))),
        flops=4.0 * N**3,
        kind="compute",
        terms=N * N,
    )


def bilinear(B: int, K: int, N: int) -> Workload:
    """A form per output, the sum over both inputs in one statement."""
    return Workload(
        "bilinear",
        "def bilinear(float(B,I) X, float(K,I,J) W, float(B,J) Y) -> (O) {"
        " O(b,k) +=! X(b,i) * W(k,i,j) * Y(b,j) }",
        (Array("X", (B, N)), Array("W", (K, N, N)), Array("Y", (B, N))),
        flops=2.0 * B * K * (N * N + N),
        kind="compute",
        terms=N * N,
    )


def mttkrp(N: int, R: int) -> Workload:
    """The kernel of tensor decompositions: two factors against a third-order tensor."""
    return Workload(
        "mttkrp",
        "def mttkrp(float(I,J,K) X, float(J,R) B, float(K,R) C) -> (O) {"
        " O(i,r) +=! X(i,j,k) * B(j,r) * C(k,r) }",
        (Array("X", (N, N, N)), Array("B", (N, R)), Array("C", (N, R))),
        flops=2.0 * N * N * R * (N + 1),
        kind="compute",
        terms=N * N,
    )


def distances(M: int, N: int, D: int) -> Workload:
    """Squared Euclidean distances of all pairs, as written, without the expansion that loses digits."""
    return Workload(
        "distances",
        "def distances(float(M,D) X, float(N,D) Y) -> (O) {"
        " O(i,j) +=! (X(i,d) - Y(j,d)) * (X(i,d) - Y(j,d)) }",
        (Array("X", (M, D)), Array("Y", (N, D))),
        flops=3.0 * M * N * D,
        kind="compute",
        terms=D,
    )


def syrk(N: int, K: int) -> Workload:
    """The lower triangle of a matrix times its own transpose; zero above."""
    return Workload(
        "syrk",
        "def syrk(float(N,K) A) -> (C) { C(i,j) +=! A(i,k) * A(j,k) where j <= i }",
        (Array("A", (N, K)),),
        flops=1.0 * N * (N + 1) * K,
        kind="compute",
        terms=K,
    )
