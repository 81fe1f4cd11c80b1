"""The events of the program, in program order."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from tc.ir.expr import (
    Call,
    Expr,
    Variable,
    children,
    walk,
)
from tc.ir.program import Box, Program, Stage
from tc.ir.simplify import simplify, substitute_typed
from tc.poly.trace.events import (
    ANY_INDEX,
    Cell,
    Event,
    executed_reads,
    integer,
    known_value,
    known_values,
    possible_indices,
    written_buffers,
)


def program_events(program: Program, sizes: dict[str, int]) -> Iterator[Event]:
    boxes = {b.name: _ranges(b.box, sizes) for b in program.buffers}
    func_buffers = program.func_buffers
    written = written_buffers(program)

    def cells(name: str, args: Sequence[Expr], env: dict[str, int]) -> Iterator[Cell]:
        """The cells of an access, with subscripts from 0; a data-dependent subscript has all values."""
        buffer = func_buffers.get(name, name)
        place = known_values(args, env)
        if place is not None:
            return iter([(buffer, tuple(v - low for v, (low, _) in zip(place, boxes[buffer], strict=True)))])
        choices = [
            [v - low] if (v := known_value(a, env)) is not None else possible_indices(size, buffer in written)
            for a, (low, size) in zip(args, boxes[buffer], strict=True)
        ]
        return ((buffer, position) for position in itertools.product(*choices))

    def reads_of(value: Expr, env: dict[str, int]) -> frozenset[Cell]:
        out: set[Cell] = set()
        for call, inner in executed_reads(value, env):
            assert isinstance(call, Call)
            found = list(cells(call.name, call.args, inner))
            buffer = func_buffers.get(call.name, call.name)
            extents = [n for _, n in boxes[buffer]]
            inside = [
                c
                for c in found
                if all(x == ANY_INDEX or 0 <= x < n for x, n in zip(c[1], extents, strict=True))
            ]
            out |= set(inside if call.checked else found)
        return frozenset(out)

    def folded_reads(value: Expr, env: dict[str, int]) -> frozenset[Cell]:
        return reads_of(simplify(substitute_typed(value, dict(env))), env)

    for stage in program.stages:
        can_fold = _can_fold_reads(stage.value)
        for env in _points(stage, sizes):
            point = tuple(env[v.name] for v in stage.domain.vars)
            (write,) = cells(stage.func, stage.args, env)
            reads = reads_of(stage.value, env)
            folded = functools.partial(folded_reads, stage.value, env) if can_fold and reads else None
            yield Event((stage.name, point), reads, write, stage.op is not None, folded=folded)


def _can_fold_reads(value: Expr) -> bool:
    """Whether constant folding may remove reads of a value at given indices."""
    match value:
        case Variable():
            return True
        case Call() if value.kind != "intrinsic":
            return any(isinstance(x, Call) for a in value.args for x in walk(a))
        case _:
            return any(map(_can_fold_reads, children(value)))


def _ranges(box: Box, sizes: dict[str, int]) -> list[tuple[int, int]]:
    return [(integer(r.min, sizes), integer(r.extent, sizes)) for r in box]


def domain_box(stage: Stage, sizes: dict[str, int]) -> tuple[range, ...]:
    """The ranges of a stage's variables, without its conditions."""
    return tuple(
        range(low := integer(v.range.min, sizes), low + integer(v.range.extent, sizes))
        for v in stage.domain.vars
    )


def _points(stage: Stage, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    for point in itertools.product(*domain_box(stage, sizes)):
        env = {**sizes, **dict(zip(stage.domain.names, point, strict=True))}
        if all(known_value(c, env) for c in stage.domain.conditions):
            yield env
