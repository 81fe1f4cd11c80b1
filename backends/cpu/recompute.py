"""Which temporaries are computed again where they are read, those whose trip through memory takes longer; and
which operands become temporaries, those that it takes longer to compute again and again."""

from __future__ import annotations

from collections.abc import Callable

from tc.ir.expr import Call, IfThenElse, walk
from tc.ir.program import Program
from tc.transforms.program.inline import Inlined
from tc.transforms.program.materialize import Operand

from .cost.work import instruction_count
from .target import Machine

_TRIPS = 3  # a line is fetched before it is written, written back, and read
# Vector instructions of a multiply-add, about, that an element or a constant beside an array costs, though
# it is tested once for many: 3x3 convolutions took 1.05 to 1.4 times as long as over a copy with zeros.
_CHOSEN = 0.2
_DEAR = 4.0  # vector instructions, for what all rows of a result have in common to be worth a temporary
_SHARED = 0.25  # of the vectors of a register tile, those for which a value is computed anew


def worthwhile(machine: Machine) -> Callable[[Program, Inlined], bool]:
    """The predicate of `tc.transforms.program.inline` for a machine; sizes that are not known are not
    judged."""

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
        again = (each - once) / lanes * (instruction_count(value, lanes) + loads)
        return again <= _TRIPS * once * itemsize / machine.bandwidth

    return worth


def repeated(machine: Machine) -> Callable[[Program, Operand], bool]:
    """The predicate of `tc.transforms.program.materialize` for a machine."""

    def worth(program: Program, found: Operand) -> bool:
        itemsize = found.value.dtype.itemsize
        lanes = machine.isa.lanes(max(4, itemsize))
        operations = instruction_count(found.value, lanes)
        if found.stage.op is None and operations < _DEAR:
            return False
        loads = [e for e in walk(found.value) if isinstance(e, Call) and e.kind != "intrinsic"]
        chosen = any(isinstance(e, IfThenElse) for e in walk(found.value))
        each = _SHARED * operations + (_CHOSEN if chosen else 0.0)
        size = found.points * itemsize
        rate = machine.l2_bandwidth if 2 * size <= machine.l2 else machine.l3_bandwidth
        rate = rate if size <= machine.l3 else machine.bandwidth
        once = found.points * (_TRIPS * itemsize / rate + (operations + len(loads) + 1) / lanes)
        return found.instances / lanes * each / machine.fma_units > once

    return worth
