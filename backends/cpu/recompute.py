"""Which temporaries are computed again where they are read: those whose trip through memory takes longer."""

from __future__ import annotations

import math
from collections.abc import Callable

from tc.ir.expr import Call, IntImm, Variable, walk
from tc.ir.inline import Inlined
from tc.ir.program import Program, Stage

from .machine import Machine
from .work import cost

_TRIPS = 3  # a line is fetched before it is written, written back, and read


def worthwhile(machine: Machine) -> Callable[[Program, Inlined], bool]:
    """The predicate of `tc.ir.inline` for a machine; sizes that are not known are not judged."""

    def worth(program: Program, found: Inlined) -> bool:
        func = program.func(found.producer.func)
        nbytes, points = _points(found.producer), 0
        if nbytes is None:
            return False
        own = nbytes
        nbytes *= func.dtype.itemsize
        for stage, calls in found.readers:
            here = _points(stage)
            if here is None:
                return False
            points += here * len({c.args for c in calls})
        if nbytes <= machine.l2 or all(_same_point(s, c) for s, calls in found.readers for c in calls):
            return False
        lanes = machine.isa.lanes(func.dtype.itemsize)
        value = found.producer.value
        loads = sum(isinstance(e, Call) and e.kind != "intrinsic" for e in walk(value))
        again = (points - own) / lanes * (cost(value, lanes) + loads)
        return again <= _TRIPS * nbytes / machine.bandwidth

    return worth


def _points(stage: Stage) -> int | None:
    """The points of a stage's box; None where they depend on sizes."""
    extents = [v.range.extent for v in stage.domain.vars]
    if not all(isinstance(e, IntImm) for e in extents):
        return None
    return math.prod(max(0, e.value) for e in extents if isinstance(e, IntImm))


def _same_point(stage: Stage, c: Call) -> bool:
    """Whether a read is of the point that the stage computes, which fusion keeps in registers."""
    names = [a.name for a in c.args if isinstance(a, Variable)]
    return (
        len(names) == len(c.args) and len(set(names)) == len(names) and set(names) <= set(stage.domain.names)
    )
