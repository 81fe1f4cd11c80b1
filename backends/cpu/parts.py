"""Long reductions in parts: those to a few results, so that all processors have something to do, and those of
columns, so that rows are read as they lie in memory (`tc/ir/rfactor.py`).

Neighbours of a row go into different results.  Processors that have some columns each read a piece of every
row, less than a page, which no hardware follows well; with parts of the rows each reads memory from one end
to the other, and has results of its own, which are added up at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tc.ir.evaluate import bytes_of, evaluate
from tc.ir.expr import Call, variables, walk
from tc.ir.program import Program, Stage
from tc.ir.rfactor import is_of_columns, split_reductions

from .machine import Machine

# Instances of a reduction to one or a few results from where it is worth all cores.
_LONG = 1 << 17
_EACH = 4  # parts for each processor
_ROW = 16 << 10  # bytes of results up to which a row is short: pieces of longer ones are pages
_DEEP = 64  # rows of a part, at least
_TILE = 64  # columns, about, that several statements would share


def in_parts(program: Program, machine: Machine, typical: Mapping[str, int]) -> Program:
    """A program whose dynamic sizes are typically these, with its long reductions in parts."""
    parts = _EACH * machine.cores
    return split_reductions(program, parts, _LONG, typical=typical, many=_columns(program, machine, typical))


def _columns(
    program: Program, machine: Machine, typical: Mapping[str, int]
) -> Callable[[Stage], tuple[int, int] | None]:
    """For a reduction of columns how many results and instances one has that is split, if it may be: what it
    reads comes from beyond the second caches, and nothing else reads it that could share what a processor
    has of it while that is near."""
    sizes = {b.name: bytes_of(b, typical) for b in program.buffers}
    large = {b for b, size in sizes.items() if size > machine.l2 * machine.cores}
    read = {s.name: _read(program, s) & large for s in program.stages}

    def many(stage: Stage) -> tuple[int, int] | None:
        if (
            stage.op is None
            or not read.get(stage.name)
            or stage.domain.conditions
            or not is_of_columns(stage)
        ):
            return None
        extents = {v.name: max(0, evaluate(v.range.extent, typical)) for v in stage.domain.vars}
        pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
        columns = {v for a in stage.args[-1:] for v in variables(a)}
        results = math.prod(extents[v] for v in pure)
        if math.prod(extents[v] for v in pure - columns) >= machine.cores:
            return None
        others = frozenset[str]().union(*(read[s.name] for s in program.stages if s is not stage))
        shared = sum(sizes[b] for b in read[stage.name] & others)
        if shared and shared / max(1, results) * _TILE <= machine.l2 / 2:
            return None
        short = results * program.func(stage.func).dtype.itemsize <= _ROW
        parts = _EACH * machine.cores
        return (results * parts, _DEEP * results * parts) if short else None

    return many


def _read(program: Program, stage: Stage) -> frozenset[str]:
    """The buffers that a stage reads."""
    found = (e.name for e in walk(stage.value) if isinstance(e, Call) and e.kind != "intrinsic")
    return frozenset(program.func_buffers.get(name, name) for name in found)
