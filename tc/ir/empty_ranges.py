"""Iteration variables that have no values at given sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tc.errors import EmptyRange
from tc.ir.evaluate import evaluate
from tc.ir.program import Program


def empty_ranges(program: Program, sizes: Mapping[str, int]) -> Iterator[EmptyRange]:
    """A warning for each variable of a statement that has no values although no size is 0, since its range is
    then probably wrong."""
    if not all(sizes.values()):
        return
    seen: set[tuple[str, str]] = set()
    for s in program.stages:
        if s.loops:  # a triangle has an empty row
            continue
        for v in s.domain.vars:
            low, extent = evaluate(v.range.min, sizes), evaluate(v.range.extent, sizes)
            if extent > 0 or s.init or (s.text, v.name) in seen:
                continue
            seen.add((s.text, v.name))
            at = ", ".join(f"{n} = {k}" for n, k in sizes.items())
            yield EmptyRange(
                f"the range of '{v.name}' is empty, {low}:{low + extent}" + (f", for {at}" if at else ""),
                s.span,
                help=f"nothing is computed by this statement; if that is not meant, give {v.name} a range "
                "by where, or look at the accesses that it is inferred from: show ranges",
            )
