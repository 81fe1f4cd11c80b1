"""Specialisation: sizes and scalars become literals, by one substitution.

Sizes then decide preconditions, conditions of domains, and the checks of subscripts that are in bounds at
these sizes, though not at all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tc.errors import PreconditionError, RangeError, Span
from tc.ir.evaluate import evaluate
from tc.ir.expr import FALSE, TRUE, Call, Expr, rebuild, walk
from tc.ir.intervals import Interval, box_interval, interval, is_index, within
from tc.ir.printer import text
from tc.ir.program import Box, Domain, Precondition, Program, Range, Stage
from tc.ir.simplify import simplify, substitute_typed


def specialize(
    program: Program,
    sizes: Mapping[str, int],
    scalars: Mapping[str, int | float] | None = None,
) -> Program:
    """`program` for these sizes and values of specialised scalars; names not given stay symbolic.

    Boxes, subscripts and conditions are folded in exact integers, values as they would be computed.
    Raises PreconditionError (TC0601) if the program's preconditions exclude the sizes.
    """
    values: dict[str, int | float] = {**sizes, **(scalars or {})}

    def index(e: Expr) -> Expr:
        return simplify(substitute_typed(e, values), exact=True)

    def box(b: Box) -> Box:
        return tuple(Range(index(r.min), index(r.extent)) for r in b)

    def domain(d: Domain) -> Domain:
        axes = tuple(replace(v, range=Range(index(v.range.min), index(v.range.extent))) for v in d.vars)
        return Domain(axes, tuple(c for c in map(index, d.conditions) if c != TRUE))

    def precondition(p: Precondition) -> Precondition:
        condition = index(p.condition)
        if condition == FALSE:
            raise excluded(p.reason, text(p.display), p.span, values, p.remedy)
        return replace(p, condition=condition)

    special = replace(
        program,
        sizes=tuple(s for s in program.sizes if s not in sizes),
        scalars=tuple(replace(s, value=values.get(s.name, s.value)) for s in program.scalars),
        buffers=tuple(replace(b, box=box(b.box)) for b in program.buffers),
        funcs=tuple(replace(f, box=box(f.box)) for f in program.funcs),
        stages=tuple(
            replace(
                s,
                args=tuple(map(index, s.args)),
                value=simplify(substitute_typed(s.value, values)),
                domain=domain(s.domain),
                loops=tuple(replace(loop, trips=index(loop.trips)) for loop in s.loops),
            )
            for s in program.stages
        ),
        preconditions=tuple(p for p in map(precondition, program.preconditions) if p.condition != TRUE),
        sites=tuple(replace(s, values=tuple(map(index, s.values))) for s in program.sites),
    )
    return replace(special, stages=tuple(_proved(special, s) for s in special.stages))


def _proved(program: Program, stage: Stage) -> Stage:
    """A stage without the checks of subscripts that are in bounds at these sizes."""
    buffers = {b.name: b.box for b in program.buffers}
    boxes = buffers | {f.name: buffers[f.buffer] for f in program.funcs}
    found = {v.name: box_interval((v.range,), 0) for v in stage.domain.vars}
    names: dict[str, Interval | None] = {n: i for n, i in found.items() if i is not None}

    def inside(e: Call, d: int) -> bool:
        box = box_interval(boxes[e.name], d)
        at = interval(e.args[d], names) if is_index(e.args[d], names) else None
        return box is not None and at is not None and within(at, box)

    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        if isinstance(e, Call) and e.checked:
            return replace(e, checked=tuple(d for d in e.checked if not inside(e, d)))
        return e

    checks = any(isinstance(e, Call) and e.checked for e in walk(stage.value))
    return replace(stage, value=visit(stage.value)) if checks else stage


def require(program: Program, sizes: Mapping[str, int]) -> None:
    """Raises PreconditionError (TC0601) as `specialize` does, for sizes that stay symbolic."""
    for p in program.preconditions:
        if not evaluate(p.condition, sizes):
            raise excluded(p.reason, text(p.display), p.span, sizes, p.remedy)


def excluded(
    reason: str, needed: str, span: Span | None, values: Mapping[str, int | float], remedy: str = ""
) -> PreconditionError:
    """The error of a precondition that does not hold: what would happen, the condition as text, and how else
    the source could be written."""
    given = ", ".join(f"{k} = {v}" for k, v in values.items())
    return PreconditionError(
        f"{reason}: the sizes must satisfy {needed}, but {given}",
        span,
        code="TC0601",
        help=f"pass arrays for which {needed}" + (f"; or {remedy}" if remedy else ""),
    )


def ruled_out(e: RangeError, values: Mapping[str, int]) -> PreconditionError:
    """The error of a program that is wrong for these sizes and scalars, from that of one which is for all."""
    given = ", ".join(f"{k} = {v}" for k, v in values.items())
    message = f"{e.message.removesuffix(' for all sizes')}, for {given}"
    return PreconditionError(message, e.span, code="TC0601", notes=e.notes, help=e.help)
