"""Predicates on reductions that several passes use."""

from __future__ import annotations

import math
from collections.abc import Callable

from tc.ir.expr import Call, Expr, constant, variables, walk
from tc.ir.lower import neutral
from tc.ir.program import Program, Stage


def neutral_start(program: Program, stage: Stage) -> Stage | None:
    """The stage just before a reduction, if it sets every element that the reduction updates to the neutral
    element: that of `op=!`, or a definition by the same number of the same sign."""
    at = program.stages.index(stage)
    before = program.stages[at - 1] if at else None
    if stage.op is None or before is None or before.func != stage.func:
        return None
    if before.init:
        return before
    found = constant(before.value)
    nothing = constant(neutral(stage.op, program.func(stage.func).dtype))
    if before.op is not None or found is None or nothing is None or found != nothing:
        return None
    signs = math.copysign(1, found), math.copysign(1, nothing)
    return before if signs[0] == signs[1] and covers(before, stage) else None


def covers(before: Stage, stage: Stage) -> bool:
    """Whether a definition sets the elements at all pure variables of a stage, and no others."""
    pure = [v for v in stage.domain.vars if v.kind == "pure"]
    same = {v.range for v in before.domain.vars} == {v.range for v in pure}
    return same and not before.domain.conditions and len(before.domain.vars) == len(pure)


def reads_others(program: Program, stage: Stage, e: Expr) -> bool:
    """Whether an expression reads no element of the tensor that a stage writes, and checks no subscript: it
    may be evaluated before the stage, after it, or not at all."""
    buffers = program.func_buffers
    own = buffers[stage.func]
    calls = (x for x in walk(e) if isinstance(x, Call))
    return all(not c.checked and buffers.get(c.name) != own for c in calls)


def loop_invariant(program: Program, stage: Stage) -> Callable[[Expr], bool]:
    """A predicate: whether an expression has the same value in all instances of a reduction that update the
    same element."""
    changing = {v.name for v in stage.domain.vars if v.kind == "reduction"}
    return lambda e: reads_others(program, stage, e) and not variables(e) & changing
