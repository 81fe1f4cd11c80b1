"""PolyBench's kernels of linear algebra: 2mm, 3mm, atax, bicg, doitgen, mvt."""

from __future__ import annotations

from benchmarks.workloads.polybench.common import ALPHA, BETA, Case, Workload, array, program


def poly_2mm(NI: int, NJ: int, NK: int, NL: int) -> Workload:
    return program(
        "poly_2mm",
        f"""
        def two_mm(double(NI,NK) A, double(NK,NJ) B, double(NJ,NL) C, double(NI,NL) D0) -> (D) {{
          t(i,j) +=! {ALPHA} * A(i,k) * B(k,j)
          D(i,l) = {BETA} * D0(i,l)
          D(i,l) += t(i,j) * C(j,l)
        }}
        """,
        (array("A", NI, NK), array("B", NK, NJ), array("C", NJ, NL), array("D0", NI, NL)),
        (array("D", NI, NL),),
        {"NI": NI, "NJ": NJ, "NK": NK, "NL": NL},
        flops=2.0 * NI * NJ * (NK + NL),
        terms=NK * NJ,
    )


def poly_3mm(NI: int, NJ: int, NK: int, NL: int, NM: int) -> Workload:
    return program(
        "poly_3mm",
        """
        def three_mm(double(NI,NK) A, double(NK,NJ) B, double(NJ,NM) C, double(NM,NL) D) -> (G) {
          E(i,j) +=! A(i,k) * B(k,j)
          F(j,l) +=! C(j,m) * D(m,l)
          G(i,l) +=! E(i,j) * F(j,l)
        }
        """,
        (array("A", NI, NK), array("B", NK, NJ), array("C", NJ, NM), array("D", NM, NL)),
        (array("G", NI, NL),),
        {"NI": NI, "NJ": NJ, "NK": NK, "NL": NL, "NM": NM},
        flops=2.0 * (NI * NJ * NK + NJ * NM * NL + NI * NJ * NL),
        terms=NK * NJ,
    )


def poly_atax(M: int, N: int) -> Workload:
    return program(
        "poly_atax",
        """
        def atax(double(M,N) A, double(N) x) -> (y) {
          t(i) +=! A(i,j) * x(j)
          y(j) +=! A(i,j) * t(i)
        }
        """,
        (array("A", M, N), array("x", N)),
        (array("y", N),),
        {"M": M, "N": N},
        flops=4.0 * M * N,
        terms=M * N,
        kind="memory",
    )


def poly_bicg(M: int, N: int) -> Workload:
    return program(
        "poly_bicg",
        """
        def bicg(double(N,M) A, double(N) r, double(M) p) -> (s, q) {
          s(j) +=! r(i) * A(i,j)
          q(i) +=! A(i,j) * p(j)
        }
        """,
        (array("A", N, M), array("r", N), array("p", M)),
        (array("s", M), array("q", N)),
        {"M": M, "N": N},
        flops=4.0 * M * N,
        terms=max(M, N),
        kind="memory",
    )


def poly_doitgen(NQ: int, NR: int, NP: int) -> Workload:
    return program(
        "poly_doitgen",
        """
        def doitgen(double(NR,NQ,NP) A, double(NP,NP) C) -> (B) {
          B(r,q,p) +=! A(r,q,s) * C(s,p)
        }
        """,
        (array("A", NR, NQ, NP), array("C", NP, NP)),
        (array("B", NR, NQ, NP),),
        {"NQ": NQ, "NR": NR, "NP": NP},
        flops=2.0 * NQ * NR * NP * NP,
        terms=NP,
    )


def poly_mvt(N: int) -> Workload:
    return program(
        "poly_mvt",
        """
        def mvt(double(N,N) A, double(N) x1, double(N) x2, double(N) p, double(N) q) -> (z1, z2) {
          z1(i) = x1(i)
          z1(i) += A(i,j) * p(j)
          z2(i) = x2(i)
          z2(i) += A(j,i) * q(j)
        }
        """,
        (array("A", N, N), *(array(n, N) for n in ("x1", "x2", "p", "q"))),
        (array("z1", N), array("z2", N)),
        {"N": N},
        flops=4.0 * N * N,
        terms=N,
        kind="memory",
    )


KERNELS = (
    Case("polybench", poly_2mm, (800, 900, 1100, 1200), (5, 7, 9, 3)),
    Case("polybench", poly_3mm, (800, 900, 1000, 1100, 1200), (5, 7, 9, 3, 11)),
    Case("polybench", poly_atax, (1900, 2100), (9, 11)),
    Case("polybench", poly_bicg, (1900, 2100), (9, 11)),
    Case("polybench", poly_doitgen, (140, 150, 160), (5, 3, 7)),
    Case("polybench", poly_mvt, (2000,), (11,)),
)
