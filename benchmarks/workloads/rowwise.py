"""Statistics of rows and what is normalised by them: reductions followed by maps."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Workload


def moments(N: int, K: int) -> Workload:
    return Workload(
        "moments",
        """
        def moments(float(N,K) I) -> (mean, var) {
          mean(n) +=! I(n,k)
          mean(n) = mean(n) / K
          var(n) +=! I(n,k) * I(n,k)
          var(n) = var(n) / K - mean(n) * mean(n)
        }
        """,
        (Array("I", (N, K)),),
        flops=3.0 * N * K,
        kind="memory",
        terms=K,
    )


def softmax(N: int, D: int) -> Workload:
    """With the maxima and the sums as results, as the report's."""
    return Workload(
        "softmax",
        """
        def softmax(float(N,D) I) -> (mx, sm, O) {
          mx(n) max=! I(n,d)
          O(n,d) = exp(I(n,d) - mx(n))
          sm(n) +=! O(n,d)
          O(n,d) = O(n,d) / sm(n)
        }
        """,
        (Array("I", (N, D)),),
        flops=5.0 * N * D,
        kind="memory",
        terms=D,
    )


def softmax_plain(N: int, D: int) -> Workload:
    """The weights alone, which is what libraries have a call for."""
    return Workload(
        "softmax_plain",
        """
        def softmax_plain(float(N,D) I) -> (O) {
          m(n) max=! I(n,d)
          O(n,d) = exp(I(n,d) - m(n))
          m(n) +=! O(n,d)
          O(n,d) = O(n,d) / m(n)
        }
        """,
        (Array("I", (N, D)),),
        flops=5.0 * N * D,
        kind="memory",
        terms=D,
    )


def layer_norm(N: int, D: int) -> Workload:
    return Workload(
        "layer_norm",
        """
        def layer_norm(float(N,D) X, float(D) gain, float(D) bias) -> (O) {
          mean(n) +=! X(n,d)
          mean(n) = mean(n) / D
          var(n) +=! (X(n,d) - mean(n)) * (X(n,d) - mean(n))
          O(n,d) = (X(n,d) - mean(n)) * rsqrt(var(n) / D + 1e-5) * gain(d) + bias(d)
        }
        """,
        (Array("X", (N, D)), Array("gain", (D,)), Array("bias", (D,))),
        flops=8.0 * N * D,
        kind="memory",
        terms=D,
    )


def rms_norm(N: int, D: int) -> Workload:
    return Workload(
        "rms_norm",
        """
        def rms_norm(float(N,D) X, float(D) gain) -> (O) {
          s(n) +=! X(n,d) * X(n,d)
          O(n,d) = X(n,d) * rsqrt(s(n) / D + 1e-6) * gain(d)
        }
        """,
        (Array("X", (N, D)), Array("gain", (D,))),
        flops=4.0 * N * D,
        kind="memory",
        terms=D,
    )


def batch_norm(N: int, C: int, H: int, W: int) -> Workload:
    """With the batch's own statistics, which are results too."""
    return Workload(
        "batch_norm",
        """
        def batch_norm(float(N,C,H,W) X, float(C) gain, float(C) bias) -> (O, mean, var) {
          mean(c) +=! X(n,c,h,w)
          mean(c) = mean(c) / (N * H * W)
          var(c) +=! (X(n,c,h,w) - mean(c)) * (X(n,c,h,w) - mean(c))
          var(c) = var(c) / (N * H * W)
          O(n,c,h,w) = (X(n,c,h,w) - mean(c)) * rsqrt(var(c) + 1e-5) * gain(c) + bias(c)
        }
        """,
        (Array("X", (N, C, H, W)), Array("gain", (C,)), Array("bias", (C,))),
        flops=8.0 * N * C * H * W,
        kind="memory",
        terms=N * H * W,
    )


def group_norm(N: int, G: int, C: int, S: int) -> Workload:
    """G groups of C channels, each of S points."""
    return Workload(
        "group_norm",
        """
        def group_norm(float(N,G,C,S) X, float(G,C) gain, float(G,C) bias) -> (O) {
          mean(n,g) +=! X(n,g,c,s)
          mean(n,g) = mean(n,g) / (C * S)
          var(n,g) +=! (X(n,g,c,s) - mean(n,g)) * (X(n,g,c,s) - mean(n,g))
          O(n,g,c,s) = (X(n,g,c,s) - mean(n,g)) * rsqrt(var(n,g) / (C * S) + 1e-5) * gain(g,c) + bias(g,c)
        }
        """,
        (Array("X", (N, G, C, S)), Array("gain", (G, C)), Array("bias", (G, C))),
        flops=8.0 * N * G * C * S,
        kind="memory",
        terms=C * S,
    )


def cross_entropy(N: int, D: int) -> Workload:
    """Logarithm of the sum of exponentials, less the score of the right class."""
    return Workload(
        "cross_entropy",
        """
        def cross_entropy(float(N,D) X, int(N) T) -> (L) {
          m(n) max=! X(n,d)
          s(n) +=! exp(X(n,d) - m(n))
          L(n) = log(s(n)) + m(n) - X(n,T(n))
        }
        """,
        (Array("X", (N, D)), Array("T", (N,), "int32", below=D)),
        flops=4.0 * N * D,
        kind="memory",
        terms=D,
    )


def row_sum(N: int, M: int) -> Workload:
    return Workload(
        "row_sum",
        "def row_sum(float(N,M) A) -> (s) { s(i) +=! A(i,j) }",
        (Array("A", (N, M)),),
        flops=1.0 * N * M,
        kind="memory",
        terms=M,
    )


def column_sum(N: int, M: int) -> Workload:
    return Workload(
        "column_sum",
        "def column_sum(float(N,M) A) -> (s) { s(j) +=! A(i,j) }",
        (Array("A", (N, M)),),
        flops=1.0 * N * M,
        kind="memory",
        terms=N,
    )


def row_max(N: int, M: int) -> Workload:
    return Workload(
        "row_max",
        "def row_max(float(N,M) A) -> (s) { s(i) max=! A(i,j) }",
        (Array("A", (N, M)),),
        flops=1.0 * N * M,
        kind="memory",
    )


def total(N: int) -> Workload:
    """One number from a long vector."""
    return Workload(
        "total",
        "def total(float(N) a) -> (s) { s +=! a(i) }",
        (Array("a", (N,)),),
        flops=1.0 * N,
        kind="memory",
        terms=N,
    )
