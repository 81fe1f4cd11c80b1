"""Remainders whose dividend is smaller than their divisor, in sequential loops.

    for t in 1:T { h(t,i) = h[wrap](t-1,i+1) } reads h((t - 1) % T, (i + 1) % N)

isl has no remainders by sizes, so it would see any row there, and the row that the iteration writes among
them.  `0 <= t - 1 < T` holds for all iterations: the subscript is `t - 1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tc.ir.expr import GE, LT, ZERO, Add, Call, Expr, FloorMod, IntImm, Variable, rebuild
from tc.ir.program import Program, Stage
from tc.ir.simplify import simplify
from tc.poly.implication import implied


def without_small_dividends(program: Program) -> Program:
    """The program with `e % n` as `e` in subscripts of tensors that a loop defines, where the ranges of the
    variables say that `0 <= e < n` and `n` is not a constant."""
    made = {program.func_buffers[s.func] for s in program.stages if s.loops}
    read = {f for f, buffer in program.func_buffers.items() if buffer in made}
    stages = tuple(_stage(s, read, program.sizes) if s.loops else s for s in program.stages)
    return program if stages == program.stages else replace(program, stages=stages)


def _stage(s: Stage, read: set[str], sizes: tuple[str, ...]) -> Stage:
    facts = list(_facts(s))
    known: dict[Expr, bool] = {}

    def small(e: FloorMod) -> bool:
        if e not in known:
            known[e] = _small(e, facts, sizes)
        return known[e]

    def subscript(e: Expr) -> Expr:
        e = rebuild(e, subscript)
        return e.a if isinstance(e, FloorMod) and not isinstance(e.b, IntImm) and small(e) else e

    def value(e: Expr) -> Expr:
        e = rebuild(e, value)
        if not isinstance(e, Call) or e.name not in read:
            return e
        args = tuple(map(subscript, e.args))
        return e if args == e.args else replace(e, args=tuple(simplify(a, exact=True) for a in args))

    return replace(s, value=value(s.value))


def _small(e: FloorMod, facts: Sequence[Expr], sizes: tuple[str, ...]) -> bool:
    return all(implied(c, facts, sizes) for c in (GE(e.a, ZERO), LT(e.a, e.b)))


def _facts(s: Stage) -> Iterator[Expr]:
    for loop in s.loops:
        counter = Variable(loop.name)
        yield GE(counter, ZERO)
        yield LT(counter, loop.trips)
    for v in s.domain.vars:
        yield GE(Variable(v.name), v.range.min)
        yield LT(Variable(v.name), Add(v.range.min, v.range.extent))
    yield from s.domain.conditions
