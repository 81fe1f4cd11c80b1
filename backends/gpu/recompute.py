"""Which temporaries are computed again where they are read: those whose trip through memory takes longer; and
which operands of reductions become temporaries: those that it takes longer to compute again and again.

Threads of other blocks read what a stencil's temporary has at neighbouring points, so that it takes a kernel
of its own, or a block does much of it alone.  What is read under a condition has no copy in shared memory;
a temporary has.
"""

from __future__ import annotations

from collections.abc import Callable

from tc.ir.expr import Call, IfThenElse, walk
from tc.ir.loops import WARP
from tc.ir.program import Program
from tc.transforms.program.inline import Inlined
from tc.transforms.program.materialize import Operand

from .cost.instructions import MULTIPLY_ADD, arithmetic
from .cost.model import LAUNCH, SCHEDULERS
from .target import Target

_TRIPS = 2  # it is written and read
_SHARED = 0.25  # of the points of a thread, those for which a value is computed anew


def worthwhile(target: Target) -> Callable[[Program, Inlined], bool]:
    """The predicate of `tc.transforms.program.inline` for a target; sizes that are not known are not
    judged."""

    def worth(program: Program, found: Inlined) -> bool:
        if found.values is None or found.same_points:
            return False
        once, each = found.values
        t, value = program.func(found.producer.func).dtype, found.producer.value
        steps = sum(n for p, n in arithmetic(value, None, t).items() if p != MULTIPLY_ADD)
        loads = sum(isinstance(e, Call) and e.kind != "intrinsic" for e in walk(value))
        # Of a load the first cache takes a request each cycle, of other instructions all schedulers have one.
        cycles = (each - once) / WARP * (steps / SCHEDULERS + loads)
        again = cycles / (1e9 * target.clock * target.units)
        # The loops of a reduction wait for each value: a launch is no measure for these.
        launch = 0.0 if any(s.op for s, _ in found.readers) else LAUNCH
        return again <= launch + _TRIPS * once * t.itemsize / (1e9 * target.dram)

    return worth


def repeated(target: Target) -> Callable[[Program, Operand], bool]:
    """The predicate of `tc.transforms.program.materialize` for a target: choices and functions of reductions
    are, since numbers that are only converted or scaled cost less than the copies of wider ones.  What a
    statement without sums computes of a column was not measured, and stays as it is."""

    def worth(program: Program, found: Operand) -> bool:
        t = found.value.dtype
        if found.stage.op is None or not any(
            isinstance(e, IfThenElse) or _function(e) for e in walk(found.value)
        ):
            return False
        size = found.points * t.itemsize
        steps = sum(n for p, n in arithmetic(found.value, None, t).items() if p != MULTIPLY_ADD)
        cycles = _SHARED * found.instances / WARP * steps / SCHEDULERS
        again = cycles / (1e9 * target.clock * target.units)
        return again > LAUNCH + _TRIPS * size / (1e9 * target.dram)

    return worth


def _function(e: object) -> bool:
    return isinstance(e, Call) and e.kind == "intrinsic"
