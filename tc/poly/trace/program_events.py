"""The events of the program, in program order."""

from __future__ import annotations

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
    SOMEWHERE,
    Cell,
    Event,
    anywhere,
    integer,
    known,
    known_all,
    reads_made,
    written_buffers,
)


def program_events(program: Program, sizes: dict[str, int]) -> Iterator[Event]:
    boxes = {b.name: _ranges(b.box, sizes) for b in program.buffers}
    func_buffers = program.func_buffers
    written = written_buffers(program)

    def cells(name: str, args: Sequence[Expr], env: dict[str, int]) -> Iterator[Cell]:
        """Zero-based cells of an access; a data-dependent subscript may be any in the array."""
        buffer = func_buffers.get(name, name)
        place = known_all(args, env)
        if place is not None:
            return iter([(buffer, tuple(v - low for v, (low, _) in zip(place, boxes[buffer], strict=True)))])
        choices = [
            [v - low] if (v := known(a, env)) is not None else anywhere(size, buffer in written)
            for a, (low, size) in zip(args, boxes[buffer], strict=True)
        ]
        return ((buffer, position) for position in itertools.product(*choices))

    def touched(value: Expr, env: dict[str, int]) -> frozenset[Cell]:
        out: set[Cell] = set()
        for call, inner in reads_made(value, env):
            assert isinstance(call, Call)
            found = list(cells(call.name, call.args, inner))
            buffer = func_buffers.get(call.name, call.name)
            extents = [n for _, n in boxes[buffer]]
            inside = [
                c
                for c in found
                if all(x == SOMEWHERE or 0 <= x < n for x, n in zip(c[1], extents, strict=True))
            ]
            out |= set(inside if call.checked else found)
        return frozenset(out)

    for stage in program.stages:
        folds = _folds(stage.value)
        for env in _points(stage, sizes):
            point = tuple(env[v.name] for v in stage.domain.vars)
            (write,) = cells(stage.func, stage.args, env)
            reads = needs = touched(stage.value, env)
            if folds:
                needs = touched(simplify(substitute_typed(stage.value, dict(env))), env)
            yield Event((stage.name, point), reads, write, stage.op is not None, needs=needs)


def _folds(value: Expr) -> bool:
    """Whether indices, where they are known, may decide which of a value's reads are left."""
    match value:
        case Variable():
            return True
        case Call() if value.kind != "intrinsic":
            return any(isinstance(x, Call) for a in value.args for x in walk(a))
        case _:
            return any(map(_folds, children(value)))


def _ranges(box: Box, sizes: dict[str, int]) -> list[tuple[int, int]]:
    return [(integer(r.min, sizes), integer(r.extent, sizes)) for r in box]


def box_of(stage: Stage, sizes: dict[str, int]) -> tuple[range, ...]:
    """The values of the variables of a stage, regardless of its conditions."""
    return tuple(
        range(low := integer(v.range.min, sizes), low + integer(v.range.extent, sizes))
        for v in stage.domain.vars
    )


def _points(stage: Stage, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    for point in itertools.product(*box_of(stage, sizes)):
        env = {**sizes, **dict(zip(stage.domain.names, point, strict=True))}
        if all(known(c, env) for c in stage.domain.conditions):
            yield env
