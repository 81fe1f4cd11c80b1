"""Long reductions in parts: those to a few results, so that all processors have something to do, and those
that read memory from one end to the other only in parts (`tc/transforms/program/rfactor.py`).

Of columns, neighbours of a row go into different results: processors that have some columns each read a piece
of every row, less than a page, which no hardware follows well; with parts of the rows each has results of its
own, which are added up at the end.  Of rows of which a result has many, far apart (a channel of all images),
each is a sum of its own, in the order of memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tc.ir.evaluate import bytes_of, evaluate
from tc.ir.expr import variables
from tc.ir.program import Program, Stage
from tc.transforms.program.rfactor import (
    around_rows,
    is_of_columns,
    reads_of,
    split_reductions,
)

from .target import Machine

# Instances of a reduction to one or a few results from where it is worth all cores.
_LONG = 1 << 17
_EACH = 4  # parts for each processor
_ROW = 16 << 10  # bytes of results up to which a row is short: pieces of longer ones are pages
_SHORT = 1 << 10  # of a row of which the sum takes longer than to read it
_DEEP = 64  # rows of a part, at least
_TILE = 64  # columns, about, that several statements would share


def in_parts(program: Program, machine: Machine, typical: Mapping[str, int]) -> Program:
    """A program whose dynamic sizes are typically these, with its long reductions in parts."""
    parts = _EACH * machine.cores
    return split_reductions(program, parts, _LONG, typical=typical, many=_streams(program, machine, typical))


def _streams(
    program: Program, machine: Machine, typical: Mapping[str, int]
) -> Callable[[Stage], tuple[int, int] | None]:
    """For a reduction that is split how many results and instances one has, if it may be: what it reads comes
    from beyond the second caches, and nothing else reads it that could share what a processor has of it while
    that is near."""
    sizes = {b.name: bytes_of(b, typical) for b in program.buffers}
    buffers = {**{b.name: b.name for b in program.buffers}, **program.func_buffers}
    large = {name for name, b in buffers.items() if sizes[b] > machine.l2 * machine.cores}
    read = {s.name: {buffers[e.name] for e in reads_of(s) if e.name in large} for s in program.stages}

    def many(stage: Stage) -> tuple[int, int] | None:
        if stage.op is None or not read.get(stage.name) or stage.domain.conditions:
            return None
        extents = {v.name: max(0, evaluate(v.range.extent, typical)) for v in stage.domain.vars}
        pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
        itemsize = program.func(stage.func).dtype.itemsize
        results = math.prod(extents[v] for v in pure)
        others = set[str]().union(*(read[s.name] for s in program.stages if s is not stage))
        each = sum(sizes[b] for b in read[stage.name] & others) / max(1, results)
        if is_of_columns(stage, large):
            columns = {v for a in stage.args[-1:] for v in variables(a)}
            apart = math.prod(extents[v] for v in pure - columns) < machine.cores
            near = 0 < each * _TILE <= machine.l2 / 2
            parts = _EACH * machine.cores
            fits = results * itemsize <= _ROW and apart and not near
            return (results * parts, _DEEP * results * parts) if fits else None
        if around := around_rows(stage, large):
            row = math.prod(e for v, e in extents.items() if v not in around | pure)
            parts = math.prod(extents[v] for v in around)
            near = 0 < each <= machine.l2 / 2
            fits = _SHORT <= row * itemsize <= _ROW // 2 and parts > 1 and not near
            return (results * parts, results * parts * row) if fits else None
        return None

    return many
