"""Inlining of temporaries: each is computed again at each read (Halide's default, `compute_inline`).

The temporary of a stencil is read at neighbouring points, so fusion cannot keep it in registers.  One that is
larger than the caches costs more to write and to read back than to compute a few times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tc.ir.expr import Call, Cast, Expr, IntImm, Let, Variable, rebuild, substitute, walk
from tc.ir.program import Program, Stage
from tc.ir.simplify import simplify


@dataclass(frozen=True, slots=True)
class Inlined:
    """A stage that alone defines a temporary, at every point, and the reads of it in each stage that has
    some."""

    producer: Stage
    readers: tuple[tuple[Stage, tuple[Call, ...]], ...]

    @property
    def same_points(self) -> bool:
        """Whether all reads are of the point that the reader computes, which fusion keeps in registers."""
        return all(_same_point(s, c) for s, calls in self.readers for c in calls)

    @property
    def values(self) -> tuple[int, int] | None:
        """How many values are computed now, and how many if each read computes its own; None where that
        depends on sizes."""
        own = _points(self.producer)
        each = [(_points(s), len({c.args for c in calls})) for s, calls in self.readers]
        if own is None or any(n is None for n, _ in each):
            return None
        return own, sum(n * k for n, k in each if n is not None)


def inline(program: Program, worth: Callable[[Program, Inlined], bool]) -> tuple[Program, tuple[str, ...]]:
    """The program without the temporaries that are `worth` inlining, and the names of these."""
    gone: list[str] = []
    changed = True
    while changed:  # a temporary read at one point may be read at several after its reader is inlined
        changed = False
        for func in program.funcs:
            found = _candidate(program, func.name)
            if found is not None and worth(program, found):
                program, changed = _inlined(program, found), True
                gone.append(func.name)
    return program, tuple(gone)


def _candidate(program: Program, name: str) -> Inlined | None:
    func = program.func(name)
    buffer = program.buffer(func.buffer)
    stages = tuple(program.stages_of(name))
    alone = sum(f.buffer == func.buffer for f in program.funcs) == 1
    if (
        buffer.role != "temporary"
        or buffer.kept
        or not alone
        or func.previous is not None
        or len(stages) != 1
    ):
        return None
    stage = stages[0]
    plain = [a.name for a in stage.args if isinstance(a, Variable)]
    if stage.op is not None or stage.init or stage.domain.conditions or len(plain) != len(stage.args):
        return None
    if sorted(plain) != sorted(stage.domain.names) or any(
        isinstance(e, Let) or (isinstance(e, Call) and e.checked) for e in walk(stage.value)
    ):
        return None
    readers = tuple((s, calls) for s in program.stages if (calls := tuple(_reads(s, name))))
    # A subscript that data decide is no point of the reader's domain.
    if not readers or any(_data(c) or c.checked for _, calls in readers for c in calls):
        return None
    if any(
        isinstance(e, Call) and e.kind == "func" and _rewritten(program, e.name, stage, readers[-1][0])
        for e in walk(stage.value)
    ):
        return None
    return Inlined(stage, readers)


def _points(stage: Stage) -> int | None:
    """The points of a stage's box; None where they depend on sizes."""
    extents = [v.range.extent for v in stage.domain.vars]
    if not all(isinstance(e, IntImm) for e in extents):
        return None
    return math.prod(max(0, e.value) for e in extents if isinstance(e, IntImm))


def _same_point(stage: Stage, c: Call) -> bool:
    names = [a.name for a in c.args if isinstance(a, Variable)]
    return (
        len(names) == len(c.args) and len(set(names)) == len(names) and set(names) <= set(stage.domain.names)
    )


def _reads(stage: Stage, name: str) -> Sequence[Call]:
    return [e for e in walk(stage.value) if isinstance(e, Call) and e.kind == "func" and e.name == name]


def _data(c: Call) -> bool:
    return any(isinstance(e, Call) for a in c.args for e in walk(a))


def _rewritten(program: Program, name: str, first: Stage, last: Stage) -> bool:
    """Whether the elements that `first` reads of a Func's memory may have changed when `last` runs."""
    buffer = program.func(name).buffer
    start, end = program.stages.index(first), program.stages.index(last)
    return any(program.func(s.func).buffer == buffer for s in program.stages[start : end + 1])


def _inlined(program: Program, found: Inlined) -> Program:
    producer = found.producer
    func = program.func(producer.func)
    names = [a.name for a in producer.args if isinstance(a, Variable)]

    def value(c: Call) -> Expr:
        e = substitute(producer.value, dict(zip(names, c.args, strict=True)))
        return e if e.dtype == func.dtype else Cast(func.dtype, e)

    def visit(e: Expr) -> Expr:
        if isinstance(e, Call) and e.kind == "func" and e.name == func.name:
            return value(e)
        return rebuild(e, visit)

    # Only the subscripts are simplified: the simplifier would expand products in the values.
    changed = {
        s.name: replace(s, value=_subscripts(visit(s.value)), text=f"{s.text} with {producer.text}")
        for s, _ in found.readers
    }
    stages = (changed.get(s.name, s) for s in program.stages if s is not producer)
    return replace(
        program,
        buffers=tuple(b for b in program.buffers if b.name != func.buffer),
        funcs=tuple(f for f in program.funcs if f is not func),
        stages=tuple(stages),
    )


def _subscripts(e: Expr) -> Expr:
    """The expression with simplified subscripts."""
    if isinstance(e, Call) and e.kind != "intrinsic":
        return replace(e, args=tuple(simplify(a, exact=True) for a in e.args))
    return rebuild(e, _subscripts)
