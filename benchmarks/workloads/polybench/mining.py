"""PolyBench's data mining: correlation, covariance."""

from __future__ import annotations

from benchmarks.workloads.polybench.common import Case, Workload, array, program


def poly_correlation(M: int, N: int) -> Workload:
    return program(
        "poly_correlation",
        f"""
        def correlation(double(N,M) data) -> (corr) {{
          mean(j) +=! data(i,j)
          mean(j) = mean(j) / {float(N)}
          dev(j) +=! (data(i,j) - mean(j)) * (data(i,j) - mean(j))
          dev(j) = sqrt(dev(j) / {float(N)})
          dev(j) = dev(j) <= 0.1 ? 1.0 : dev(j)
          d(i,j) = (data(i,j) - mean(j)) / (sqrt(double({N})) * dev(j))
          s(i,j) +=! d(k,i) * d(k,j) where i < j
          corr(i,j) = i == j ? 1.0 : i < j ? s(i,j) : s(j,i) where i in 0:M, j in 0:M
        }}
        """,
        (array("data", N, M),),
        (array("corr", M, M),),
        {"M": M, "N": N},
        flops=1.0 * M * M * N,
        terms=N,
    )


def poly_covariance(M: int, N: int) -> Workload:
    return program(
        "poly_covariance",
        f"""
        def covariance(double(N,M) data) -> (cov) {{
          mean(j) +=! data(i,j)
          mean(j) = mean(j) / {float(N)}
          d(i,j) = data(i,j) - mean(j)
          s(i,j) +=! d(k,i) * d(k,j) where i <= j
          cov(i,j) = (i <= j ? s(i,j) : s(j,i)) / {float(N - 1)} where i in 0:M, j in 0:M
        }}
        """,
        (array("data", N, M),),
        (array("cov", M, M),),
        {"M": M, "N": N},
        flops=1.0 * M * M * N,
        terms=N,
    )


MINING = (
    Case("polybench", poly_correlation, (1200, 1400), (7, 10)),
    Case("polybench", poly_covariance, (1200, 1400), (7, 9)),
)
