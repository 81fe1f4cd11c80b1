"""The trace oracle: a loop nest is run in Python at tiny sizes, without data, and its accesses are compared
with those of the program, statement by statement.

It does not use isl and shares nothing with the passes that it checks: domains are enumerated, dependences
found by brute force.

1. Each instance of each stage runs exactly once.
2. It accesses the elements that the program's instance accesses, and none outside of its array.
3. Instances that access one element, at least one of them a write, run in program order; only the updates
   of one element by one reduction may run in any order.
4. No iteration of a parallel loop accesses an element that another one writes.
5. A pack has the present values of its source; partial results start with the neutral element and are
combined
   into their element; elements in registers that are not stored are not read later.

Of data-dependent guards both outcomes are possible, of data-dependent subscripts every element of the
dimension is accessed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping

from tc.errors import InternalError
from tc.ir.loops import LoopNest
from tc.ir.program import Program, Stage
from tc.poly.trace.events import Cell, Event, Instance, OutOfBoundsError, integer, shown
from tc.poly.trace.loop_events import Runner
from tc.poly.trace.placement import misplaced
from tc.poly.trace.program_events import program_events

# Of dynamic sizes: nothing, one point, less than a vector, one and a rest, several and a rest, many.
_SIZES = (0, 1, 5, 11, 37, 1000)


def verify(program: Program, nest: LoopNest, sizes: Mapping[str, int]) -> None:
    """Raises InternalError (TC0905) if the nest does not do what the program says at these sizes."""
    problem = compare(program, nest, sizes)
    if problem is not None:
        raise _wrong(program, problem)


def _wrong(program: Program, problem: str) -> InternalError:
    return InternalError(f"the loop nest of {program.name} is wrong: {problem}", code="TC0905")


def verify_small(program: Program, nest: LoopNest, most: int) -> None:
    """`verify` with at most `most` instances: at the sizes of a specialised program, or with its dynamic
    sizes at a few values that its preconditions allow.  The placement of arrays is checked for any number of
    instances."""
    for value in _SIZES if program.sizes else (0,):
        sizes = dict.fromkeys(program.sizes, value)
        if not all(integer(p.condition, sizes) for p in program.preconditions):
            continue
        problem = misplaced(nest, sizes)
        if problem is not None:
            raise _wrong(program, problem)
        if sum(_instances(s, sizes) for s in program.stages) <= most:
            verify(program, nest, sizes)


def _instances(stage: Stage, sizes: dict[str, int]) -> int:
    return math.prod(max(0, integer(v.range.extent, sizes)) for v in stage.domain.vars)


def compare(program: Program, nest: LoopNest, sizes: Mapping[str, int]) -> str | None:
    """The first error of a nest at these sizes, or None."""
    try:
        run = list(Runner(program, nest, dict(sizes)).events())
    except OutOfBoundsError as error:
        return str(error)
    wanted = _wanted(program, tuple(sizes.items()))
    return _same_instances(wanted, run) or _same_order(program, wanted, run) or _races(program, run)


@functools.lru_cache(32)  # kernels of one program differ in options, and are many in tests and tuners
def _wanted(program: Program, sizes: tuple[tuple[str, int], ...]) -> list[Event]:
    return list(program_events(program, dict(sizes)))


def _same_instances(wanted: list[Event], run: list[Event]) -> str | None:
    expected = {e.instance: e for e in wanted}
    seen: set[Instance] = set()
    for e in run:
        if e.instance in seen:
            return f"{shown(e.instance)} runs twice"
        seen.add(e.instance)
        model = expected.get(e.instance)
        if model is None:
            return f"{shown(e.instance)} runs, which the program does not have"
        if e.write != model.write or e.update != model.update:
            return f"{shown(e.instance)} writes {e.write} and should write {model.write}"
        if not model.needs <= e.reads <= model.reads:
            odd = sorted((e.reads - model.reads) | (model.needs - e.reads))[0]
            return f"{shown(e.instance)} {'reads' if odd in e.reads else 'does not read'} {odd}"
    for e in wanted:
        if e.instance not in seen:
            return f"{shown(e.instance)} does not run"
    return None


def _same_order(program: Program, wanted: list[Event], run: list[Event]) -> str | None:
    """Checks the order of accesses to each cell.  In program order they form phases whose members commute:
    reads, and the updates of one reduction.  Consecutive phases conflict, so each must end before the
    next."""
    when = {e.instance: t for t, e in enumerate(run)}
    reductions = {s.name for s in program.stages if s.op is not None}
    phases: dict[Cell, list[tuple[str, list[Instance]]]] = {}
    for e in wanted:
        touched = [(c, "read") for c in e.reads if c != e.write or not e.update]
        stage = e.instance[0]
        kind = f"update {stage}" if stage in reductions else f"write {shown(e.instance)}"
        for cell, what in [*touched, (e.write, kind)]:
            line = phases.setdefault(cell, [])
            if line and line[-1][0] == what:
                line[-1][1].append(e.instance)
            else:
                line.append((what, [e.instance]))
    for cell, line in phases.items():
        for (_, before), (_, after) in itertools.pairwise(line):
            last = max(before, key=when.__getitem__)
            first = min((i for i in after if i != last), key=when.__getitem__, default=None)
            if first is not None and when[first] < when[last]:
                return f"{shown(first)} runs before {shown(last)}, which comes first and shares {cell}"
    return None


def _races(program: Program, run: list[Event]) -> str | None:
    """Two iterations of one parallel loop that access one cell, one of them with a write."""
    writers: dict[tuple[int, Cell], tuple[int, Instance]] = {}
    for e in run:
        for loop, i in e.iterations:
            first = writers.setdefault((loop, e.write), (i, e.instance))
            if first[0] != i:
                return f"{shown(first[1])} and {shown(e.instance)} write {e.write} in parallel"
    for e in run:
        for loop, i in e.iterations:
            for cell in e.reads:
                first = writers.get((loop, cell))
                if first is not None and first[0] != i:
                    writer, reader = shown(first[1]), shown(e.instance)
                    return f"{writer} writes {cell} in parallel with {reader}, which reads it"
    return None
