"""The trace oracle: it runs a loop nest in Python at tiny sizes, without data, and compares its accesses with
those of the program, statement by statement.

It does not use isl and shares no code with the passes that it checks: domains are enumerated, dependences
found by brute force.

1. Each instance of each stage runs exactly once.
2. It accesses the elements that the program's instance accesses, and none outside of its array.
3. Instances that access one element, at least one of them a write, run in program order; only the updates
   of one element by one reduction may run in any order.
4. No iteration of a parallel loop accesses an element that another one writes.
5. A pack has the present values of its source; partial results start with the neutral element and are
   combined into their element; elements in registers that are not stored are not read later.

Data-dependent guards may have both outcomes, and data-dependent subscripts access every element of their
dimension.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping

from tc.errors import InternalError
from tc.ir.loops import LoopNest
from tc.ir.program import Program, Stage
from tc.poly.trace.events import Cell, Event, Instance, OutOfBoundsError, instance_text, integer
from tc.poly.trace.loop_events import Runner
from tc.poly.trace.placement import misplaced
from tc.poly.trace.program_events import program_events

# Dynamic sizes: no point, one, less than a vector, a vector and a remainder, several and a remainder, many.
_SIZES = (0, 1, 5, 11, 37, 1000)


def verify(program: Program, nest: LoopNest, sizes: Mapping[str, int]) -> None:
    """Raises InternalError (TC0905) if the nest does not do what the program says at these sizes."""
    problem = compare(program, nest, sizes)
    if problem is not None:
        raise _error(program, problem)


def _error(program: Program, problem: str) -> InternalError:
    return InternalError(f"the loop nest of {program.name} is wrong: {problem}", code="TC0905")


def verify_small(program: Program, nest: LoopNest, max_instances: int) -> None:
    """`verify` with at most `most` instances: at the sizes of a specialised program, or with its dynamic
    sizes at a few values that its preconditions allow.  The placement of arrays is checked for any number of
    instances."""
    for value in _SIZES if program.sizes else (0,):
        sizes = dict.fromkeys(program.sizes, value)
        if not all(integer(p.condition, sizes) for p in program.preconditions):
            continue
        problem = misplaced(nest, sizes)
        if problem is not None:
            raise _error(program, problem)
        if sum(_instances(s, sizes) for s in program.stages) <= max_instances:
            verify(program, nest, sizes)


def _instances(stage: Stage, sizes: dict[str, int]) -> int:
    return math.prod(max(0, integer(v.range.extent, sizes)) for v in stage.domain.vars)


def compare(program: Program, nest: LoopNest, sizes: Mapping[str, int]) -> str | None:
    """The first error of a nest at these sizes, or None."""
    try:
        executed = list(Runner(program, nest, dict(sizes)).events())
    except OutOfBoundsError as error:
        return str(error)
    expected = _expected_events(program, tuple(sizes.items()))
    return (
        _same_instances(expected, executed)
        or _same_order(program, expected, executed)
        or _races(program, executed)
    )


@functools.lru_cache(32)  # kernels of one program differ in options, and are many in tests and tuners
def _expected_events(program: Program, sizes: tuple[tuple[str, int], ...]) -> list[Event]:
    return list(program_events(program, dict(sizes)))


def _same_instances(expected_events: list[Event], executed: list[Event]) -> str | None:
    expected = {e.instance: e for e in expected_events}
    seen: set[Instance] = set()
    for e in executed:
        if e.instance in seen:
            return f"{instance_text(e.instance)} runs twice"
        seen.add(e.instance)
        model = expected.get(e.instance)
        if model is None:
            return f"{instance_text(e.instance)} runs, which the program does not have"
        if e.write != model.write or e.update != model.update:
            return f"{instance_text(e.instance)} writes {e.write} and should write {model.write}"
        if e.reads != model.reads and not model.needs <= e.reads <= model.reads:
            cell = sorted((e.reads - model.reads) | (model.needs - e.reads))[0]
            verb = "reads" if cell in e.reads else "does not read"
            return f"{instance_text(e.instance)} {verb} {cell}"
    for e in expected_events:
        if e.instance not in seen:
            return f"{instance_text(e.instance)} does not run"
    return None


def _same_order(program: Program, expected_events: list[Event], executed: list[Event]) -> str | None:
    """Check the order of accesses to each cell.  In program order they form phases whose members commute:
    reads, or the updates of one reduction.  Consecutive phases conflict, so each must end before the next."""
    time = {e.instance: t for t, e in enumerate(executed)}
    reductions = {s.name for s in program.stages if s.op is not None}
    phases: dict[Cell, list[tuple[str, list[Instance]]]] = {}
    for e in expected_events:
        touched = [(c, "read") for c in e.reads if c != e.write or not e.update]
        stage = e.instance[0]
        kind = f"update {stage}" if stage in reductions else f"write {instance_text(e.instance)}"
        for cell, what in [*touched, (e.write, kind)]:
            phases_of_cell = phases.setdefault(cell, [])
            if phases_of_cell and phases_of_cell[-1][0] == what:
                phases_of_cell[-1][1].append(e.instance)
            else:
                phases_of_cell.append((what, [e.instance]))
    for cell, phases_of_cell in phases.items():
        for (_, before), (_, after) in itertools.pairwise(phases_of_cell):
            last = max(before, key=time.__getitem__)
            first = min((i for i in after if i != last), key=time.__getitem__, default=None)
            if first is not None and time[first] < time[last]:
                early, late = instance_text(first), instance_text(last)
                return f"{early} runs before {late}, which comes first and shares {cell}"
    return None


def _races(program: Program, executed: list[Event]) -> str | None:
    """Two iterations of one parallel loop that access one cell, one of them with a write."""
    writers: dict[tuple[int, Cell], tuple[int, Instance]] = {}
    for e in executed:
        for loop, i in e.iterations:
            first = writers.setdefault((loop, e.write), (i, e.instance))
            if first[0] != i:
                return (
                    f"{instance_text(first[1])} and {instance_text(e.instance)} write {e.write} in parallel"
                )
    for e in executed:
        for loop, i in e.iterations:
            for cell in e.reads:
                first = writers.get((loop, cell))
                if first is not None and first[0] != i:
                    writer, reader = instance_text(first[1]), instance_text(e.instance)
                    return f"{writer} writes {cell} in parallel with {reader}, which reads it"
    return None
