"""PolyBench's linear algebra of the BLAS: gemm, gemver, gesummv, symm, syr2k, syrk, trmm."""

from __future__ import annotations

from benchmarks.workloads.polybench.common import ALPHA, BETA, Case, Workload, array, program


def poly_gemm(NI: int, NJ: int, NK: int) -> Workload:
    return program(
        "poly_gemm",
        f"""
        def gemm(double(NI,NJ) C0, double(NI,NK) A, double(NK,NJ) B) -> (C) {{
          C(i,j) = {BETA} * C0(i,j)
          C(i,j) += {ALPHA} * A(i,k) * B(k,j)
        }}
        """,
        (array("C0", NI, NJ), array("A", NI, NK), array("B", NK, NJ)),
        (array("C", NI, NJ),),
        {"NI": NI, "NJ": NJ, "NK": NK},
        flops=2.0 * NI * NJ * NK,
        terms=NK,
    )


def poly_gemver(N: int) -> Workload:
    return program(
        "poly_gemver",
        f"""
        def gemver(double(N,N) A0, double(N) u1, double(N) v1, double(N) u2, double(N) v2,
                   double(N) y, double(N) z) -> (A, x, w) {{
          A(i,j) = A0(i,j) + u1(i) * v1(j) + u2(i) * v2(j)
          x(i) = z(i)
          x(i) += {BETA} * A(j,i) * y(j)
          w(i) +=! {ALPHA} * A(i,j) * x(j)
        }}
        """,
        (array("A0", N, N), *(array(n, N) for n in ("u1", "v1", "u2", "v2", "y", "z"))),
        (array("A", N, N), array("x", N), array("w", N)),
        {"N": N},
        flops=10.0 * N * N,
        terms=N * N,
        kind="memory",
    )


def poly_gesummv(N: int) -> Workload:
    return program(
        "poly_gesummv",
        f"""
        def gesummv(double(N,N) A, double(N,N) B, double(N) x) -> (y) {{
          t(i) +=! A(i,j) * x(j)
          y(i) +=! B(i,j) * x(j)
          y(i) = {ALPHA} * t(i) + {BETA} * y(i)
        }}
        """,
        (array("A", N, N), array("B", N, N), array("x", N)),
        (array("y", N),),
        {"N": N},
        flops=4.0 * N * N,
        terms=N,
        kind="memory",
    )


def poly_symm(M: int, N: int) -> Workload:
    """A symmetric matrix, of which the lower half is read, times another."""
    return program(
        "poly_symm",
        f"""
        def symm(double(M,N) C0, double(M,M) A, double(M,N) B) -> (C) {{
          C(i,j) = {BETA} * C0(i,j)
          C(i,j) += {ALPHA} * (k <= i ? A(i,k) : A(k,i)) * B(k,j)
        }}
        """,
        (array("C0", M, N), array("A", M, M), array("B", M, N)),
        (array("C", M, N),),
        {"M": M, "N": N},
        flops=2.0 * M * M * N,
        terms=M,
    )


def poly_syr2k(M: int, N: int) -> Workload:
    return program(
        "poly_syr2k",
        f"""
        def syr2k(double(N,N) C0, double(N,M) A, double(N,M) B) -> (C) {{
          C(i,j) = (j <= i ? {BETA} : 1.0) * C0(i,j)
          C(i,j) += A(j,k) * {ALPHA} * B(i,k) + B(j,k) * {ALPHA} * A(i,k) where j <= i
        }}
        """,
        (array("C0", N, N), array("A", N, M), array("B", N, M)),
        (array("C", N, N),),
        {"M": M, "N": N},
        flops=2.0 * N * (N + 1) * M,
        terms=2 * M,
    )


def poly_syrk(M: int, N: int) -> Workload:
    return program(
        "poly_syrk",
        f"""
        def syrk(double(N,N) C0, double(N,M) A) -> (C) {{
          C(i,j) = (j <= i ? {BETA} : 1.0) * C0(i,j)
          C(i,j) += {ALPHA} * A(i,k) * A(j,k) where j <= i
        }}
        """,
        (array("C0", N, N), array("A", N, M)),
        (array("C", N, N),),
        {"M": M, "N": N},
        flops=1.0 * N * (N + 1) * M,
        terms=M,
    )


def poly_trmm(M: int, N: int) -> Workload:
    """The transpose of a lower triangle with ones on its diagonal, times a matrix."""
    return program(
        "poly_trmm",
        f"""
        def trmm(double(M,M) A, double(M,N) B0) -> (B) {{
          B(i,j) = B0(i,j)
          B(i,j) += A(k,i) * B0(k,j) where k > i
          B(i,j) = {ALPHA} * B(i,j)
        }}
        """,
        (array("A", M, M), array("B0", M, N)),
        (array("B", M, N),),
        {"M": M, "N": N},
        flops=1.0 * M * M * N,
        terms=M,
    )


GEMM_LIKE = (
    Case("polybench", poly_gemm, (1000, 1100, 1200), (7, 5, 9)),
    Case("polybench", poly_gemver, (2000,), (11,)),
    Case("polybench", poly_gesummv, (1300,), (11,)),
    Case("polybench", poly_symm, (1000, 1200), (7, 9)),
    Case("polybench", poly_syr2k, (1000, 1200), (5, 9)),
    Case("polybench", poly_syrk, (1000, 1200), (5, 9)),
    Case("polybench", poly_trmm, (1000, 1200), (9, 7)),
)
