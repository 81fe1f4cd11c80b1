"""Maps, stencils and moves: little arithmetic per byte."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Workload


def add(N: int) -> Workload:
    return Workload(
        "add",
        "def add(float(N) a, float(N) b) -> (c) { c(i) = a(i) + b(i) }",
        (Array("a", (N,)), Array("b", (N,))),
        flops=1.0 * N,
        kind="memory",
    )


def chain(N: int) -> Workload:
    """Six operations that a library without fusion makes six passes of."""
    return Workload(
        "chain",
        "def chain(float(N) a, float(N) b, float(N) c) -> (o) {"
        " o(i) = fmax(a(i) * b(i) + c(i), 0) * (a(i) - b(i)) + 1 }",
        (Array("a", (N,)), Array("b", (N,)), Array("c", (N,))),
        flops=6.0 * N,
        kind="memory",
    )


def gate(N: int) -> Workload:
    """A map of costly functions."""
    return Workload(
        "gate",
        "def gate(float(N) a, float(N) b, float(N) c) -> (o) { o(i) = tanh(a(i) * b(i)) * sigmoid(c(i)) }",
        (Array("a", (N,)), Array("b", (N,)), Array("c", (N,))),
        flops=4.0 * N,
        kind="memory",
    )


def outer_sum(N: int, M: int) -> Workload:
    return Workload(
        "outer_sum",
        "def outer_sum(float(N) a, float(M) b) -> (o) { o(i,j) = a(i) + b(j) }",
        (Array("a", (N,)), Array("b", (M,))),
        flops=1.0 * N * M,
        kind="memory",
    )


def fill(N: int) -> Workload:
    """A constant: only stores."""
    return Workload(
        "fill",
        "def fill(float(N) a) -> (o) { o(i) = 0.5 where i in 0:N, exists a(i) }",
        (Array("a", (N,)),),
        flops=0.0,
        kind="memory",
        gathered={"a": 0},
    )


def bias_relu(N: int, C: int, S: int) -> Workload:
    """A vector broadcast along the inner dimension."""
    return Workload(
        "bias_relu",
        "def bias_relu(float(N,C,S) X, float(C) b) -> (O) { O(n,c,s) = fmax(X(n,c,s) + b(c), 0) }",
        (Array("X", (N, C, S)), Array("b", (C,))),
        flops=2.0 * N * C * S,
        kind="memory",
    )


def transpose(N: int, M: int) -> Workload:
    return Workload(
        "transpose",
        "def transpose(float(N,M) A) -> (B) { B(j,i) = A(i,j) }",
        (Array("A", (N, M)),),
        flops=0.0,
        kind="memory",
    )


def permute(A: int, B: int, C: int, D: int) -> Workload:
    """The middle dimensions change places: heads and positions of attention."""
    return Workload(
        "permute",
        "def permute(float(A,B,C,D) X) -> (Y) { Y(a,c,b,d) = X(a,b,c,d) }",
        (Array("X", (A, B, C, D)),),
        flops=0.0,
        kind="memory",
    )


def jacobi2d(N: int, M: int) -> Workload:
    """The mean of a point and its four neighbours."""
    return Workload(
        "jacobi2d",
        "def jacobi2d(float(N,M) A) -> (B) {"
        " B(i,j) = 0.2 * (A(i,j) + A(i-1,j) + A(i+1,j) + A(i,j-1) + A(i,j+1)) }",
        (Array("A", (N, M)),),
        flops=5.0 * N * M,
        kind="memory",
    )


def jacobi3d(N: int) -> Workload:
    """Seven points."""
    return Workload(
        "jacobi3d",
        """
        def jacobi3d(float(N,M,L) A) -> (B) {
          B(i,j,k) = 0.4 * A(i,j,k) + 0.1 * (A(i-1,j,k) + A(i+1,j,k) + A(i,j-1,k) + A(i,j+1,k)
                                             + A(i,j,k-1) + A(i,j,k+1))
        }
        """,
        (Array("A", (N, N, N)),),
        flops=8.0 * N**3,
        kind="memory",
    )


def blur(H: int, W: int) -> Workload:
    """A 3x3 box in two statements, along x and along y; the first is a temporary worth fusing."""
    return Workload(
        "blur",
        """
        def blur(float(H,W) I) -> (O) {
          B(y,x) = (I(y,x) + I(y,x+1) + I(y,x+2)) * 0.33333333
          O(y,x) = (B(y,x) + B(y+1,x) + B(y+2,x)) * 0.33333333
        }
        """,
        (Array("I", (H, W)),),
        flops=6.0 * H * W,
        kind="memory",
    )


def downscale(N: int, H: int, W: int) -> Workload:
    """8-bit images, the mean of each 2x2 square."""
    return Workload(
        "downscale",
        "def downscale(uint8(N,H,W) I) -> (O) {"
        " O(n,y,x) = (float(I(n,2*y,2*x)) + I(n,2*y,2*x+1) + I(n,2*y+1,2*x) + I(n,2*y+1,2*x+1)) * 0.25 }",
        (Array("I", (N, H, W), "uint8", below=256),),
        flops=4.0 * N * (H // 2) * (W // 2),
        kind="memory",
    )
