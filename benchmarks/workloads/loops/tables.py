"""Dynamic programming: alignment of two sequences, shortest paths, the likeliest path of a hidden chain."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Case, Workload


def loop_needleman_wunsch(N: int, M: int) -> Workload:
    return Workload(
        "loop_needleman_wunsch",
        """
        def needleman_wunsch(int(N) a, int(M) b) -> (H) {
          H(i,0) = -i where i in 0:N+1
          H(0,j) = -j where j in 0:M+1
          for i in 1:N+1 {
            for j in 1:M+1 {
              H(i,j) = max(H(i-1,j-1) + (a(i-1) == b(j-1) ? 1 : -1), H(i-1,j) - 1, H(i,j-1) - 1)
            }
          }
        }
        """,
        (Array("a", (N,), "int32", below=4), Array("b", (M,), "int32", below=4)),
        flops=6.0 * N * M,
        kind="compute",
        judge="numpy",
    )


def loop_floyd_warshall(N: int) -> Workload:
    return Workload(
        "loop_floyd_warshall",
        """
        def floyd_warshall(float(N,N) W) -> (D) {
          D(i,j) = W(i,j)
          for k in 0:N {
            r(j) = D(k,j)
            c(i) = D(i,k)
            D(i,j) = min(D(i,j), c(i) + r(j))
          }
        }
        """,
        (Array("W", (N, N), fill="decaying"),),
        flops=2.0 * N**3,
        kind="compute",
        terms=N,
        judge="numpy",
    )


def loop_viterbi(T: int, S: int) -> Workload:
    """Of T observations in S states: logarithms of what each state emits and of how states follow."""
    return Workload(
        "loop_viterbi",
        """
        def viterbi(double(T,S) E, double(S,S) A, double(S) first) -> (path, best) {
          d(j) = first(j) + E(0,j)
          for t in 1:T {
            g(j) max=! d(i) + A(i,j)
            p(t,j) argmax=! d(i) + A(i,j)
            d(j) = g(j) + E(t,j)
          }
          best max=! d(j)
          path(T-1) argmax=! d(j)
          for t in T-2:-1:-1 { path(t) = p(t+1, path(t+1)) }
        }
        """,
        (Array("E", (T, S), "float64"), Array("A", (S, S), "float64"), Array("first", (S,), "float64")),
        flops=2.0 * T * S * S,
        kind="compute",
        terms=T,
        judge="numpy",
    )


TABLES = (
    Case("loops", loop_needleman_wunsch, (2000, 2000), (9, 13)),
    Case("loops", loop_floyd_warshall, (500,), (11,)),
    Case("loops", loop_viterbi, (500, 128), (7, 5)),
)
