"""Workloads: programs, inputs, work.  `CASES` are those of the tables, `find` gives one by name."""

from benchmarks.workloads.cases import CASES, FAMILIES, MORE, REPORT
from benchmarks.workloads.model import Array, Case, Workload

__all__ = ["CASES", "FAMILIES", "MORE", "REPORT", "Array", "Case", "Workload", "find", "select"]


def find(name: str) -> Case:
    """The case of a name, or of a sweep's `family@8,9`."""
    for case in CASES:
        if case.name == name:
            return case
    family, at, sizes = name.partition("@")
    if at and family in FAMILIES:
        numbers = tuple(int(n) for n in sizes.split(","))
        return Case("more", FAMILIES[family], numbers, numbers)
    raise KeyError(name)


def select(group: str | None = None, only: list[str] | None = None) -> list[Case]:
    """The cases of a group whose names contain one of the texts in `only`."""
    return [
        case
        for case in CASES
        if (group is None or case.group == group) and (not only or any(text in case.name for text in only))
    ]
