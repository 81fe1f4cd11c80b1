"""Results in the memory of an input: the copies from the input to the result are left out.

Each read of the input becomes a read of the result, which starts from the caller's values.  That is possible
if only the stages of the result read the input, each only the element that it writes, and if none writes an
element that an earlier one has written.  Otherwise the program stays as it is, and the caller passes a copy
of the input.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from tc.ir.expr import Call, Expr, Variable, rebuild
from tc.ir.program import Program, Stage
from tc.poly.context import isl_context
from tc.poly.scop import build


def in_place(program: Program, result: str, source: str) -> Program:
    """The program with `result` in the memory of the input `source`, or unchanged."""
    out, given = program.buffer(result), program.buffer(source)
    funcs = [f for f in program.funcs if f.buffer == result]
    if program.composite or out.inout or len(funcs) != 1 or funcs[0].previous is not None:
        return program
    if (out.dtype, out.box) != (given.dtype, given.box) or out.pairs or given.pairs:
        return program
    name = funcs[0].name
    writers = [s for s in program.stages if s.func == name]
    kept = [s for s in writers if not _copies(s, source)]
    if not kept or source not in program.images or not all(_elementwise(s, source) for s in writers):
        return program
    if any(_reads(s, source) for s in program.stages if s.func != name) or _overwrites(
        program, writers, kept
    ):
        return program
    return replace(
        program,
        buffers=tuple(replace(b, inout=True) if b.name == result else b for b in program.buffers),
        stages=tuple(_reading(s, source) for s in program.stages if s.func != name or s in kept),
    )


def _reads(s: Stage, source: str) -> list[Call]:
    """The reads of an input by a stage."""
    return [c for c in s.calls if _is_read(c, source)]


def _is_read(e: Expr, source: str) -> TypeGuard[Call]:
    return isinstance(e, Call) and e.kind == "image" and e.name == source


def _elementwise(s: Stage, source: str) -> bool:
    """Whether a stage writes each element of its domain once, and reads only that element of the input."""
    names = {a.name for a in s.args if isinstance(a, Variable)}
    once = len(names) == len(s.args) == len(s.domain.vars) and s.op is None
    return once and all(c.args == s.args for c in _reads(s, source))


def _copies(s: Stage, source: str) -> bool:
    return s.op is None and _is_read(s.value, source) and s.value.args == s.args


def _overwrites(program: Program, writers: list[Stage], kept: list[Stage]) -> bool:
    """Whether a stage writes an element that an earlier one has changed."""
    with isl_context():
        found = {s.stage.name: s.write.map.range() for s in build(program).statements}
        changed = [(k, found[s.name]) for k, s in enumerate(writers) if s in kept]
        return any(
            not before.is_disjoint(found[s.name])
            for n, s in enumerate(writers)
            for k, before in changed
            if k < n
        )


def _reading(s: Stage, source: str) -> Stage:
    """A stage that reads the result in place of the input."""

    def renamed(e: Expr) -> Expr:
        e = rebuild(e, renamed)
        return replace(e, name=s.func, kind="func") if _is_read(e, source) else e

    return replace(s, value=renamed(s.value))
