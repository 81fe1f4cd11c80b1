"""Divisors that are the same for all summands: `s += a(k) / c` sums `a(k)`, and divides by `c` once.

A division takes as long as eight or more multiply-adds, and a sum of quotients is no sum of products.  The
language allows this as it allows to sum in another order: the result is rounded once, where each summand was
rounded before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tc.dtypes import accumulator
from tc.ir.expr import Call, Div, Expr, IntImm, Let, Mul, Variable, substitute, variables
from tc.ir.program import Domain, Program, Stage, fresh
from tc.transforms.program.reductions import loop_invariant, neutral_start

_LEAST = 4  # instances of a sum, for which a pass over its results pays


def divide_after(program: Program) -> tuple[Program, tuple[str, ...]]:
    """`program` with the divisors of sums that start from 0 behind them, where no instance of a sum changes
    them and each sum has some instances; and the tensors whose sums these are."""
    stages: list[Stage] = []
    names = {s.name for s in program.stages}
    divided: list[str] = []
    for s in program.stages:
        found = _split(program, s)
        if found is None:
            stages.append(s)
            continue
        value, divisors = found
        divided.append(program.func_buffers[s.func])
        name = fresh(f"{s.name}d", names)
        names.add(name)
        pure = tuple(v for v in s.domain.vars if v.kind == "pure")
        result: Expr = Call(s.func, s.args, s.value.dtype, "func")
        for d in divisors:
            result = Div(result, d)
        stages.append(replace(s, value=value))
        stages.append(replace(s, name=name, op=None, value=result, domain=Domain(pure)))
    return (replace(program, stages=tuple(stages)) if divided else program), tuple(divided)


def _split(program: Program, s: Stage) -> tuple[Expr, list[Expr]] | None:
    """What a sum adds without its divisors, and these; None if it has none that can go."""
    if s.op != "+" or s.scatters or s.domain.conditions or s.loops or neutral_start(program, s) is None:
        return None
    func = program.func(s.func)
    t = s.value.dtype
    if not t.is_float or func.dtype != t or accumulator(func.dtype, t) != t:
        return None
    extents = [v.range.extent for v in s.domain.vars if v.kind == "reduction"]
    if not all(isinstance(e, IntImm) for e in extents):
        return None
    if math.prod(e.value for e in extents if isinstance(e, IntImm)) < _LEAST:
        return None
    value, divisors = _without_divisors(s.value, loop_invariant(program, s))
    changes = any(v.kind == "reduction" and v.name in variables(value) for v in s.domain.vars)
    return (value, divisors) if divisors and changes else None


def _without_divisors(e: Expr, stays: Callable[[Expr], bool]) -> tuple[Expr, list[Expr]]:
    """A product without the divisors that stay the same, and these."""
    match e:
        case Div():
            a, found = _without_divisors(e.a, stays)
            return (a, [*found, e.b]) if stays(e.b) else (Div(a, e.b), found)
        case Mul():
            a, left = _without_divisors(e.a, stays)
            b, right = _without_divisors(e.b, stays)
            return Mul(a, b), [*left, *right]
        case Let():
            named = {e.name: e.value}
            body, found = _without_divisors(e.body, lambda x: stays(substitute(x, named)))
            if isinstance(body, Variable):
                body = substitute(body, named)
            elif e.name in variables(body):
                body = Let(e.name, e.value, body)
            return body, [substitute(d, named) for d in found]
        case _:
            return e, []
