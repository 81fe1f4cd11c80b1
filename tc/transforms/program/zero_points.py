"""Zero points of integer products: `s += (a(i,k) - p) * (b(k,j) - q)` becomes a sum of `a(i,k) * b(k,j)`, for
which there are dot product instructions, corrected by the sums of `a` along its row and of `b` along its
column.

The result is exact, since arithmetic in two's complement wraps around alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tc.dtypes import INT32
from tc.ir.expr import Add, Call, Cast, Expr, IntImm, Mul, Sub, Variable, imm, variables
from tc.ir.lower import neutral
from tc.ir.program import Domain, Program, Stage, fresh
from tc.transforms.program.reductions import loop_invariant, neutral_start
from tc.transforms.program.stages import tensor_names, with_temporary

_NARROW = 16  # bits of an operand of dot product instructions, at most


@dataclass(frozen=True, slots=True)
class _Factor:
    """A factor `value - zero` of a sum; `zero` is None where there is none."""

    value: Expr
    zero: Expr | None


def expand(program: Program) -> tuple[Program, tuple[str, ...]]:
    """`program` with the zero points of products of 8- and 16-bit integers in int32 applied after the sums,
    and the tensors whose sums these are."""
    names: list[str] = []
    for s in program.stages:
        factors = _factors(program, s)
        if factors is not None:
            names.append(program.func_buffers[s.func])
            program = _expanded(program, s, *factors)
    return program, tuple(names)


def _factors(program: Program, s: Stage) -> tuple[_Factor, _Factor] | None:
    """The factors of a sum that starts from 0, if at least one has a zero point and neither depends on all
    results."""
    if s.op != "+" or s.scatters or s.domain.conditions or s.loops or neutral_start(program, s) is None:
        return None
    if s.value.dtype != INT32 or program.func(s.func).dtype != INT32 or not isinstance(s.value, Mul):
        return None
    changing = {v.name for v in s.domain.vars if v.kind == "reduction"}
    if not all(isinstance(v.range.extent, IntImm) for v in s.domain.vars if v.name in changing):
        return None
    stays = loop_invariant(program, s)
    a, b = _factor(s.value.a, stays), _factor(s.value.b, stays)
    if a is None or b is None or (a.zero is None and b.zero is None):
        return None
    pure = {v.name for v in s.domain.vars if v.kind == "pure"}
    left, right = variables(a.value) & pure, variables(b.value) & pure
    product = bool(left - right) and bool(right - left)
    whole = all(changing <= variables(x.value) for x in (a, b))
    return (a, b) if product and whole else None


def _factor(e: Expr, stays: Callable[[Expr], bool]) -> _Factor | None:
    """A factor that is a narrow integer, with or without an invariant zero point that is subtracted."""
    if isinstance(e, Sub) and stays(e.b) and _narrow(e.a):
        return _Factor(e.a, e.b)
    if isinstance(e, Add) and stays(e.b) and _narrow(e.a):
        return _Factor(e.a, Sub(imm(0, INT32), e.b))
    return _Factor(e, None) if _narrow(e) else None


def _narrow(e: Expr) -> bool:
    """Whether an expression is the cast of an element of a tensor of 8- or 16-bit integers."""
    if not isinstance(e, Cast) or not isinstance(e.value, Call) or e.value.checked:
        return False
    t = e.value.dtype
    return e.value.kind != "intrinsic" and t.is_int and t.bits <= _NARROW


def _expanded(program: Program, s: Stage, a: _Factor, b: _Factor) -> Program:
    position = program.stages.index(s)
    args: tuple[Expr, ...] = s.args
    result: Expr = Call(s.func, args, INT32, "func")
    new: list[Stage] = []
    for of, zero in ((a, b.zero), (b, a.zero)):
        if zero is not None:
            program, sums, total = _sums(program, s, of.value)
            new += sums
            result = Sub(result, Mul(zero, total))
    if a.zero is not None and b.zero is not None:
        extents = [v.range.extent for v in s.domain.vars if v.kind == "reduction"]
        count = math.prod(e.value for e in extents if isinstance(e, IntImm))
        result = Add(result, Mul(Mul(a.zero, b.zero), imm(INT32.wrap(count), INT32)))
    pure = Domain(tuple(v for v in s.domain.vars if v.kind == "pure"))
    name = fresh(f"{s.name}z", {x.name for x in (*program.stages, *new)})
    after = replace(s, name=name, op=None, value=result, domain=pure)
    stages = (
        *program.stages[: position - 1],
        *new,
        program.stages[position - 1],
        replace(s, value=Mul(a.value, b.value)),
        after,
        *program.stages[position + 1 :],
    )
    return replace(program, stages=stages)


def _sums(program: Program, s: Stage, value: Expr) -> tuple[Program, list[Stage], Expr]:
    """The program with a temporary for the sums of one factor, the stages that compute these, and the sum
    that an instance of `s` needs."""
    names = tensor_names(program)
    name = fresh(f"{s.func}_sums", names)
    taken = {x.name for x in program.stages} | {f"{f.name}_start" for f in program.funcs}
    pure = tuple(v for v in s.domain.vars if v.kind == "pure" and v.name in variables(value))
    reduced = tuple(v for v in s.domain.vars if v.kind == "reduction")
    args: tuple[Expr, ...] = tuple(Variable(v.name) for v in pure)
    start = replace(
        s, name=fresh(f"{s.name}{name}i", taken), func=name, args=args, op=None, init=True,
        value=neutral("+", INT32), domain=Domain(pure),
    )  # fmt: skip
    domain = Domain((*pure, *reduced))
    total = replace(
        start, name=fresh(f"{s.name}{name}", taken), op="+", init=False, value=value, domain=domain
    )
    box = tuple(v.range for v in pure)
    program = with_temporary(program, name, INT32, box, s.func)
    return program, [start, total], Call(name, args, INT32, "func")
