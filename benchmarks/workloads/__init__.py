"""Workloads: programs, inputs, work.  `CASES` are those of the tables, `PROGRAMS` a group beside them."""

from benchmarks.workloads.cases import CASES, FAMILIES, GROUPS, LOOPS, MORE, POLYBENCH, PROGRAMS, REPORT
from benchmarks.workloads.drawn import draw
from benchmarks.workloads.model import DOUBLE, Array, Case, Workload

__all__ = [
    "CASES", "FAMILIES", "GROUPS", "LOOPS", "MORE", "POLYBENCH", "PROGRAMS", "REPORT", "Array", "Case",
    "Workload", "draw", "find", "select",
]  # fmt: skip


def find(key: str) -> Case:
    """The case of a `family@size,size` or `family:words@size,size`, whether or not it is one of `CASES`; in
    float64 with `@f64` behind it."""
    family, _, sizes = key.removesuffix(DOUBLE).partition("@")
    name, *words = family.split(":")
    numbers = tuple(int(n) for n in sizes.split(","))
    double = key.endswith(DOUBLE)
    return Case("more", FAMILIES[name], numbers, numbers, words=tuple(words), double=double)


def select(group: str | None = None, only: list[str] | None = None) -> list[Case]:
    """The cases of a group, or of the tables, whose names contain one of the texts in `only`."""
    return [
        case
        for case in (GROUPS[group] if group else CASES)
        if not only or any(text in case.name for text in only)
    ]
