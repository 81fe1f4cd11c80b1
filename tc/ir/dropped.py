"""`checks="drop"`: scatters silently leave out elements outside of their tensor.

A data-dependent subscript is clamped into the tensor; where it was outside, the neutral element of the
reduction is combined.  A tensor without elements is not updated.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.lower import neutral
from tc.ir.program import Program, Stage


def dropped(program: Program) -> Program:
    """The program with scatters whose subscripts need no checks."""
    return replace(program, stages=tuple(_stage(program, s) for s in program.stages))


def _stage(program: Program, s: Stage) -> Stage:
    if not s.checked or s.op is None:
        return s
    box = program.func(s.func).box
    args = list(s.args)
    inside: list[Expr] = []
    some: list[Expr] = []
    for d, _ in s.checked:
        low, end = box[d].min, box[d].end
        inside += [x.GE(args[d], low), x.LT(args[d], end)]
        some.append(x.GT(box[d].extent, x.ZERO))
        args[d] = x.Max(x.Min(args[d], x.Sub(end, x.ONE)), low)
    nothing = neutral(s.op, s.value.dtype)
    if s.op == "+" and s.value.dtype.is_float:
        nothing = x.imm(-0.0, s.value.dtype)  # which changes no zero
    value = x.IfThenElse(reduce(x.And, inside), s.value, nothing)
    domain = replace(s.domain, conditions=(*s.domain.conditions, *dict.fromkeys(some)))
    return replace(s, args=tuple(args), value=value, domain=domain, checked=())
