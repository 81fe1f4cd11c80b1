"""PolyBench's solvers: cholesky, durbin, gramschmidt, lu, ludcmp, trisolv."""

from __future__ import annotations

from benchmarks.workloads.polybench.common import Case, Workload, array, program

_FACTOR = """
          for k in 0:N {
            u(j) +=! F(k,p) * F(p,j) where p in 0:k, j in k:N
            F(k,j) = F(k,j) - u(j) where j in k:N
            l(i) +=! F(i,p) * F(p,k) where p in 0:k, i in k+1:N
            F(i,k) = (F(i,k) - l(i)) / F(k,k) where i in k+1:N
          }
"""


def poly_cholesky(N: int) -> Workload:
    """The lower factor in the lower half; the upper half stays."""
    return program(
        "poly_cholesky",
        """
        def cholesky(double(N,N) A) -> (double(N,N) L) {
          L(i,j) = A(i,j)
          for j in 0:N {
            s(i) +=! L(i,k) * L(j,k) where k in 0:j, i in j:N
            d(i) = L(i,j) - s(i) where i in j:N
            L(i,j) = d(i) / sqrt(d(j)) where i in j:N
          }
        }
        """,
        (array("A", N, N, fill="positive definite"),),
        (array("L", N, N),),
        {"N": N},
        flops=N**3 / 3,
        terms=N,
    )


def poly_durbin(N: int) -> Workload:
    return program(
        "poly_durbin",
        """
        def durbin(double(N) r) -> (double(N) y) {
          y(0) = -r(0)
          alpha = -r(0)
          beta = 1.0
          for k in 1:N {
            beta = (1.0 - alpha * alpha) * beta
            s +=! r(k-i-1) * y(i) where i in 0:k
            alpha = -(r(k) + s) / beta
            z(i) = y(i) + alpha * y(k-i-1) where i in 0:k
            y(i) = z(i) where i in 0:k
            y(k) = alpha
          }
        }
        """,
        (array("r", N, fill="small"),),
        (array("y", N),),
        {"N": N},
        flops=2.0 * N * N,
        terms=N * N,
    )


def poly_gramschmidt(M: int, N: int) -> Workload:
    return program(
        "poly_gramschmidt",
        """
        def gramschmidt(double(M,N) A) -> (Q, R) {
          W(i,j) = A(i,j)
          R(i,j) = 0.0 where i in 0:N, j in 0:N
          for k in 0:N {
            s +=! W(i,k) * W(i,k)
            R(k,k) = sqrt(s)
            Q(i,k) = W(i,k) / R(k,k)
            p(j) +=! Q(i,k) * W(i,j) where j in k+1:N
            R(k,j) = p(j) where j in k+1:N
            W(i,j) += -Q(i,k) * R(k,j) where j in k+1:N
          }
        }
        """,
        (array("A", M, N, fill="dominant"),),
        (array("Q", M, N), array("R", N, N)),
        {"M": M, "N": N},
        flops=2.0 * M * N * N,
        terms=M * N,
    )


def poly_lu(N: int) -> Workload:
    return program(
        "poly_lu",
        f"def lu(double(N,N) A) -> (double(N,N) F) {{ F(i,j) = A(i,j) {_FACTOR} }}",
        (array("A", N, N, fill="dominant"),),
        (array("F", N, N),),
        {"N": N},
        flops=2 * N**3 / 3,
        terms=N,
    )


def poly_ludcmp(N: int) -> Workload:
    """The factors and the solution of a system of equations."""
    return program(
        "poly_ludcmp",
        f"""
        def ludcmp(double(N,N) A, double(N) b) -> (double(N,N) F, double(N) x, double(N) y) {{
          F(i,j) = A(i,j)
          {_FACTOR}
          for i in 0:N {{
            s +=! F(i,j) * y(j) where j in 0:i
            y(i) = b(i) - s
          }}
          for i in N-1:-1:-1 {{
            t +=! F(i,j) * x(j) where j in i+1:N
            x(i) = (y(i) - t) / F(i,i)
          }}
        }}
        """,
        (array("A", N, N, fill="dominant"), array("b", N)),
        (array("F", N, N), array("x", N), array("y", N)),
        {"N": N},
        flops=2 * N**3 / 3 + 2.0 * N * N,
        terms=N,
    )


def poly_trisolv(N: int) -> Workload:
    return program(
        "poly_trisolv",
        """
        def trisolv(double(N,N) L, double(N) b) -> (double(N) x) {
          for i in 0:N {
            s +=! L(i,j) * x(j) where j in 0:i
            x(i) = (b(i) - s) / L(i,i)
          }
        }
        """,
        (array("L", N, N, fill="dominant"), array("b", N)),
        (array("x", N),),
        {"N": N},
        flops=1.0 * N * N,
        terms=N,
        kind="memory",
    )


SOLVERS = (
    Case("polybench", poly_cholesky, (2000,), (11,)),
    Case("polybench", poly_durbin, (2000,), (11,)),
    Case("polybench", poly_gramschmidt, (1200, 1000), (11, 9)),
    Case("polybench", poly_lu, (2000,), (11,)),
    Case("polybench", poly_ludcmp, (2000,), (11,)),
    Case("polybench", poly_trisolv, (2000,), (11,)),
)
