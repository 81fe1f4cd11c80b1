"""Scatters: a histogram, the sums of segments, the gradient of an embedding."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Case, Workload


def loop_histogram(N: int, K: int) -> Workload:
    return Workload(
        "loop_histogram",
        f"""
        def histogram(int(N) x) -> (count) {{
          count(b) = 0 where b in 0:{K}
          count(x(n)) += 1
        }}
        """,
        (Array("x", (N,), "int32", below=K),),
        flops=1.0 * N,
        kind="memory",
        constants=(K,),
        judge="numpy",
    )


def loop_segment_sum(N: int, D: int, S: int) -> Workload:
    """Of N rows; those of a segment lie together."""
    return Workload(
        "loop_segment_sum",
        f"""
        def segment_sum(float(N,D) x, int(N) ids) -> (y) {{
          y(s,d) = 0 where s in 0:{S}
          y(ids(n),d) += x(n,d)
        }}
        """,
        (Array("x", (N, D)), Array("ids", (N,), "int32", below=S, fill="sorted")),
        flops=1.0 * N * D,
        kind="memory",
        terms=N // S + 1,
        constants=(S,),
        judge="numpy",
    )


def loop_embedding_gradient(V: int, N: int, D: int) -> Workload:
    """Of a table of V rows, N of which were looked up."""
    return Workload(
        "loop_embedding_gradient",
        f"""
        def embedding_gradient(float(N,D) dy, int(N) ids) -> (dw) {{
          dw(v,d) = 0 where v in 0:{V}
          dw(ids(n),d) += dy(n,d)
        }}
        """,
        (Array("dy", (N, D)), Array("ids", (N,), "int32", below=V)),
        flops=1.0 * N * D,
        kind="memory",
        terms=N // V + 8,
        constants=(V,),
        judge="numpy",
    )


SCATTERS = (
    Case("loops", loop_histogram, (1_000_000, 256), (31, 7)),
    Case("loops", loop_segment_sum, (100_000, 64, 1000), (31, 5, 7)),
    Case("loops", loop_embedding_gradient, (50_000, 20_000, 64), (9, 31, 5)),
)
