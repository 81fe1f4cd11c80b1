"""Products of matrices that one reduction adds together: each gets an update of its own.

    C(i,j) += A(j,k) * B(i,k) + B(j,k) * A(i,k)

becomes

    C(i,j) += A(j,k) * B(i,k)        C(i,j) += B(j,k) * A(i,k)

A product alone needs half of the packs and half of the rows that the loops of its register tiles read side by
side.  This is another order of the sum, and each result is read and written once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tc.ir.expr import Add, Expr, Mul, Sub, imm
from tc.ir.program import Program, Stage, fresh
from tc.transforms.program.reductions import reads_others
from tc.transforms.program.rfactor import is_product


def separate(program: Program, worth: Callable[[Stage], bool]) -> tuple[Program, tuple[str, ...]]:
    """`program` with an update for each product of a sum of products of matrices, and the tensors that have
    these updates.  `worth` decides whether a sum of products is separated."""
    stages: list[Stage] = []
    names = {s.name for s in program.stages}
    separated: list[str] = []
    for s in program.stages:
        made = _updates(program, s, names)
        if len(made) == 1 or not worth(s):
            stages.append(s)
            continue
        names |= {m.name for m in made}
        separated.append(program.func_buffers[s.func])
        stages += made
    return (replace(program, stages=tuple(stages)) if separated else program), tuple(separated)


def _updates(program: Program, s: Stage, names: set[str]) -> tuple[Stage, ...]:
    """The updates of the products that a stage adds together; the stage alone if it is no sum of products of
    matrices, or may not be separated."""
    terms = _addends(s.value)
    dtype = program.func(s.func).dtype
    if s.op != "+" or s.scatters or len(terms) == 1:
        return (s,)
    if s.value.dtype != dtype or not reads_others(program, s, s.value):
        return (s,)
    made: list[Stage] = []
    taken = set(names)
    for e in terms:
        made.append(replace(s, value=e, name=fresh(f"{s.name}a", taken) if made else s.name))
        taken.add(made[-1].name)
    return tuple(made) if all(map(is_product, made)) else (s,)


def _addends(e: Expr) -> list[Expr]:
    match e:
        case Add():
            return [*_addends(e.a), *_addends(e.b)]
        case Sub():
            return [*_addends(e.a), *map(_negated, _addends(e.b))]
        case _:
            return [e]


def _negated(e: Expr) -> Expr:
    t = e.dtype
    return Mul(imm(-1 if t.is_float else t.wrap(-1), t), e)
