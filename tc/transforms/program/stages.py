"""Changes of stages and programs that several passes need: substituted variables, replaced stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.dtypes import DType
from tc.ir.expr import Add, Expr, IntImm, Min, Mul, Sub, Variable, substitute
from tc.ir.program import Box, Buffer, Domain, Func, Loop, Program, Range, Stage
from tc.ir.simplify import simplify


def stage_at(s: Stage, values: Mapping[str, Expr]) -> Stage:
    """A stage with values in place of variables, in all of its parts except its loops."""

    def of(e: Expr) -> Expr:
        return simplify(substitute(e, dict(values)), exact=True)

    ranges = (replace(v, range=Range(of(v.range.min), of(v.range.extent))) for v in s.domain.vars)
    return replace(
        s,
        args=tuple(map(of, s.args)),
        value=substitute(s.value, dict(values)),
        domain=Domain(tuple(ranges), tuple(map(of, s.domain.conditions))),
    )


def range_between(low: Expr, end: Expr) -> Range:
    """The range from `low` on, before `end`."""
    low = simplify(low, exact=True)
    return Range(low, simplify(Sub(end, low), exact=True))


def names_of(program: Program) -> set[str]:
    """The names of sizes, scalars, counters and variables."""
    names = {*program.sizes, *(s.name for s in program.scalars)}
    return names | {n for s in program.stages for n in (*s.domain.names, *(x.name for x in s.loops))}


def in_place_of(program: Program, stages: Sequence[Stage], made: Sequence[Stage]) -> Program:
    """The program with other stages in place of some consecutive ones."""
    rest = list(program.stages)
    first = rest.index(stages[0])
    rest[first : first + len(stages)] = made
    return replace(program, stages=tuple(rest))


def tensor_names(program: Program) -> set[str]:
    """The names of buffers and Funcs."""
    return {b.name for b in program.buffers} | {f.name for f in program.funcs}


def with_stages_before(program: Program, stage: Stage, made: Sequence[Stage], reader: Stage) -> Program:
    """The program with stages before `stage`, in whose place stands `reader`.

    They do not come between a result's first values and its sums, which one loop nest computes.
    """
    own = program.func_buffers[stage.func]
    at = position = program.stages.index(stage)
    while at and program.func_buffers[program.stages[at - 1].func] == own:
        at -= 1
    old = program.stages[at : position + 1]
    return in_place_of(program, old, (*made, *old[:-1], reader))


def with_temporary(program: Program, name: str, dtype: DType, box: Box, before: str) -> Program:
    """The program with a temporary, whose only version comes before the Func `before`."""
    where = next(i for i, f in enumerate(program.funcs) if f.name == before)
    return replace(
        program,
        buffers=(*program.buffers, Buffer(name, dtype, box, "temporary")),
        funcs=(*program.funcs[:where], Func(name, name, dtype, box, None), *program.funcs[where:]),
    )


def iterations_of_block(loop: Loop, block: str, size: int) -> tuple[Loop, Expr, Mapping[str, Expr]]:
    """The iterations of a loop of constant length in blocks of `size`, which the variable `block` counts.

    Returns the loop over the iterations of a block, the first iteration of a block, and the counter of the
    loop in terms of the new one.
    """
    start = Mul(Variable(block), IntImm(size))
    trips = simplify(Min(Sub(loop.trips, start), IntImm(size)), exact=True)
    return Loop(loop.name, trips), start, {loop.name: Add(start, Variable(loop.name))}
