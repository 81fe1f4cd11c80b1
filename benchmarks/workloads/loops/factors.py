"""Factorisations and a triangular system, beside LAPACK's."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.workloads.model import Array, Case, Workload


def loop_lu(N: int) -> Workload:
    """Without exchanging rows, of a matrix whose columns its diagonal dominates: LAPACK exchanges none."""
    return Workload(
        "loop_lu",
        """
        def lu(double(N,N) A) -> (double(N,N) F) {
          F(i,j) = A(i,j)
          for k in 0:N {
            F(i,k) = F(i,k) / F(k,k) where i in k+1:N
            F(i,j) += -F(i,k) * F(k,j) where i in k+1:N, j in k+1:N
          }
        }
        """,
        (Array("A", (N, N), "float64", fill="dominant"),),
        flops=2 * N**3 / 3,
        kind="compute",
        terms=N,
        judge="numpy",
    )


def loop_crout(N: int) -> Workload:
    """The same factors, each row and column from those before."""
    return replace(
        loop_lu(N),
        source="""
        def lu(double(N,N) A) -> (double(N,N) F) {
          F(i,j) = A(i,j)
          for k in 0:N {
            u(j) +=! F(k,p) * F(p,j) where p in 0:k, j in k:N
            F(k,j) = F(k,j) - u(j) where j in k:N
            l(i) +=! F(i,p) * F(p,k) where p in 0:k, i in k+1:N
            F(i,k) = (F(i,k) - l(i)) / F(k,k) where i in k+1:N
          }
        }
        """,
    )


def loop_cholesky(N: int) -> Workload:
    """Column by column, from those before."""
    return Workload(
        "loop_cholesky",
        """
        def cholesky(double(N,N) A) -> (L) {
          L(i,j) = double(0) where i in 0:N, j in 0:N
          for j in 0:N {
            s +=! L(j,k) * L(j,k) where k in 0:j
            L(j,j) = sqrt(A(j,j) - s)
            c(i) +=! L(i,k) * L(j,k) where i in j+1:N, k in 0:j
            L(i,j) = (A(i,j) - c(i)) / L(j,j) where i in j+1:N
          }
        }
        """,
        (Array("A", (N, N), "float64", fill="positive definite"),),
        flops=N**3 / 3,
        kind="compute",
        terms=N,
        judge="numpy",
    )


def loop_trisolve(N: int, M: int) -> Workload:
    """A lower triangle and M right-hand sides."""
    return Workload(
        "loop_trisolve",
        """
        def trisolve(double(N,N) L, double(N,M) B) -> (double(N,M) X) {
          for i in 0:N {
            s(m) +=! L(i,k) * X(k,m) where k in 0:i, m in 0:M
            X(i,m) = (B(i,m) - s(m)) / L(i,i)
          }
        }
        """,
        (Array("L", (N, N), "float64", fill="dominant"), Array("B", (N, M), "float64")),
        flops=1.0 * N * N * M,
        kind="compute",
        terms=N,
        judge="numpy",
    )


FACTORS = (
    Case("loops", loop_lu, (1000,), (11,)),
    Case("loops", loop_crout, (1000,), (11,), "loop_lu Crout"),
    Case("loops", loop_cholesky, (1000,), (11,)),
    Case("loops", loop_trisolve, (1000, 64), (11, 5)),
)
