"""What the programs of PolyBench share: a workload whose arrays are float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.workloads.model import Array, Case, Fill, Kind, Workload

ALPHA, BETA = 1.5, 1.2  # PolyBench's own scalars


def array(
    name: str, *shape: int, fill: Fill = "uniform", dtype: str = "float64", below: int | None = None
) -> Array:
    return Array(name, shape, dtype, below, fill)


def program(
    family: str,
    source: str,
    inputs: Sequence[Array],
    results: Sequence[Array],
    sizes: Mapping[str, int],
    *,
    flops: float,
    terms: int,
    kind: Kind = "compute",
    constants: tuple[int, ...] = (),
) -> Workload:
    """A workload of the group; `sizes` are the macros that its C has."""
    return Workload(
        family,
        source,
        tuple(inputs),
        flops=flops,
        kind=kind,
        terms=terms,
        constants=constants,
        results=tuple(results),
        sizes=tuple(sizes.items()),
        judge="numpy",
    )


__all__ = ["ALPHA", "BETA", "Array", "Case", "Workload", "array", "program"]
