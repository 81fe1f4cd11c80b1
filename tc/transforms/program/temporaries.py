"""Temporaries that a pass adds to a program for one of its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tc.dtypes import DType
from tc.ir.program import Box, Buffer, Func, Program, Stage


def with_temporary(program: Program, stage: Stage, name: str, dtype: DType, box: Box) -> Program:
    """The program with a temporary that `stage` reads; no stage defines it yet."""
    where = next(i for i, f in enumerate(program.funcs) if f.name == stage.func)
    func = Func(name, name, dtype, box, None)
    return replace(
        program,
        buffers=(*program.buffers, Buffer(name, dtype, box, "temporary")),
        funcs=(*program.funcs[:where], func, *program.funcs[where:]),
    )


def with_stages_before(program: Program, stage: Stage, made: Sequence[Stage], reader: Stage) -> Program:
    """The program with stages before `stage`, in whose place stands `reader`.

    They do not come between a result's first values and its sums, which one loop nest computes.
    """
    own = program.func_buffers[stage.func]
    at = position = program.stages.index(stage)
    while at and program.func_buffers[program.stages[at - 1].func] == own:
        at -= 1
    before, between, after = program.stages[:at], program.stages[at:position], program.stages[position + 1 :]
    return replace(program, stages=(*before, *made, *between, reader, *after))
