"""Which temporaries are computed again where they are read: those whose trip through memory takes longer."""

from __future__ import annotations

from collections.abc import Callable

from tc.ir.expr import Call, walk
from tc.ir.inline import Inlined
from tc.ir.program import Program

from .machine import Machine
from .work import cost

_TRIPS = 3  # a line is fetched before it is written, written back, and read


def worthwhile(machine: Machine) -> Callable[[Program, Inlined], bool]:
    """The predicate of `tc.ir.inline` for a machine; sizes that are not known are not judged."""

    def worth(program: Program, found: Inlined) -> bool:
        if found.values is None or found.same_points:
            return False
        once, each = found.values
        itemsize = program.func(found.producer.func).dtype.itemsize
        if once * itemsize <= machine.l2:
            return False
        lanes = machine.isa.lanes(itemsize)
        value = found.producer.value
        loads = sum(isinstance(e, Call) and e.kind != "intrinsic" for e in walk(value))
        again = (each - once) / lanes * (cost(value, lanes) + loads)
        return again <= _TRIPS * once * itemsize / machine.bandwidth

    return worth
