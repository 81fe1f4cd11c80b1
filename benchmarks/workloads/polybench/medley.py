"""PolyBench's medley: deriche, floyd-warshall, nussinov."""

from __future__ import annotations

import math

from benchmarks.workloads.polybench.common import Case, Workload, array, program


def deriche_coefficients(alpha: float = 0.25) -> tuple[float, ...]:
    """a1 to a4 (a5 to a8 are the same), b1 and b2 of the recursive filter of Deriche."""
    e, e2 = math.exp(-alpha), math.exp(-2 * alpha)
    k = (1 - e) ** 2 / (1 + 2 * alpha * e - e2)
    return (k, k * e * (alpha - 1), k * e * (alpha + 1), -k * e2, 2 * e, -e2)


def poly_deriche(W: int, H: int) -> Workload:
    """A filter that runs along every line of an image both ways, and then along every column."""
    a1, a2, a3, a4, b1, b2 = (repr(x) for x in deriche_coefficients())

    def forth(of: str, to: str, i: str, n: str, at: str) -> str:
        def e(tensor: str, by: int) -> str:
            index = at.replace(i, f"{i}-{by}") if by else at
            return f"({i} >= {by} ? {tensor}({index}) : 0.0)" if by else f"{tensor}({index})"

        return (
            f"for {i} in 0:{n} {{ {to}({at}) = {a1} * {of}({at}) + {a2} * {e(of, 1)}"
            f" + {b1} * {e(to, 1)} + {b2} * {e(to, 2)} }}"
        )

    def back(of: str, to: str, i: str, n: str, at: str) -> str:
        def e(tensor: str, by: int) -> str:
            return f"({i} < {n}-{by} ? {tensor}({at.replace(i, f'{i}+{by}')}) : 0.0)"

        return (
            f"for {i} in {n}-1:-1:-1 {{ {to}({at}) = {a3} * {e(of, 1)} + {a4} * {e(of, 2)}"
            f" + {b1} * {e(to, 1)} + {b2} * {e(to, 2)} }}"
        )

    return program(
        "poly_deriche",
        f"""
        def deriche(double(W,H) x) -> (out) {{
          {forth("x", "p", "j", "H", "i,j")}
          {back("x", "q", "j", "H", "i,j")}
          r(i,j) = p(i,j) + q(i,j)
          {forth("r", "u", "i", "W", "i,j")}
          {back("r", "v", "i", "W", "i,j")}
          out(i,j) = u(i,j) + v(i,j)
        }}
        """,
        (array("x", W, H),),
        (array("out", W, H),),
        {"W": W, "H": H},
        flops=30.0 * W * H,
        terms=100,
        kind="memory",
        constants=(),
    )


def poly_floyd_warshall(N: int) -> Workload:
    return program(
        "poly_floyd_warshall",
        """
        def floyd_warshall(int(N,N) W) -> (D) {
          D(i,j) = W(i,j)
          for k in 0:N {
            r(j) = D(k,j)
            c(i) = D(i,k)
            D(i,j) = min(D(i,j), c(i) + r(j))
          }
        }
        """,
        (array("W", N, N, dtype="int32", below=1000),),
        (array("D", N, N, dtype="int32"),),
        {"N": N},
        flops=2.0 * N**3,
        terms=1,
    )


def poly_nussinov(N: int) -> Workload:
    """How many bases of a sequence can pair without crossing."""
    return program(
        "poly_nussinov",
        """
        def nussinov(int(N) b) -> (t) {
          t(i,j) = 0 where i in 0:N, j in 0:N
          for i in N-1:-1:-1 {
            for j in i+1:N {
              s max=! t(i,k) + t(k+1,j) where k in i+1:j
              p = t(i+1,j-1) + (i < j-1 && b(i) + b(j) == 3 ? 1 : 0)
              t(i,j) = max(t(i,j-1), t(i+1,j), p, s)
            }
          }
        }
        """,
        (array("b", N, dtype="int32", below=4),),
        (array("t", N, N, dtype="int32"),),
        {"N": N},
        flops=N**3 / 3,
        terms=1,
    )


MEDLEY = (
    Case("polybench", poly_deriche, (4096, 2160), (7, 9)),
    Case("polybench", poly_floyd_warshall, (500,), (11,)),
    Case("polybench", poly_nussinov, (500,), (13,)),
)
