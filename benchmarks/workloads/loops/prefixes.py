"""Sums, products and maxima of all prefixes of each row, as a reduction and as a loop."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Case, Workload

KINDS = {
    "sum": ("+", "y(n,d-1) + x(n,d)"),
    "product": ("*", "y(n,d-1) * x(n,d)"),
    "maximum": ("max", "max(y(n,d-1), x(n,d))"),
}
FORMS = ("reduction", "loop")


def loop_cumulative(kind: str, form: str, N: int, D: int) -> Workload:
    op, step = KINDS[kind]
    body = {
        "reduction": f"y(n,d) {op}=! x(n,k) where k <= d, d in 0:D",
        "loop": f"y(n,0) = x(n,0) for d in 1:D {{ y(n,d) = {step} }}",
    }[form]
    return Workload(
        "loop_cumulative",
        f"def cumulative(float(N,D) x) -> (y) {{ {body} }}",
        (Array("x", (N, D), fill="decaying" if kind == "product" else "uniform"),),
        flops=1.0 * N * D,
        kind="memory",
        terms=D,
        constants=(kind,),
        judge="numpy",
    )


PREFIXES = tuple(
    Case("loops", loop_cumulative, (1000, 1000), (3, 11), words=(kind, form))
    for kind in KINDS
    for form in FORMS
)
