"""Specialisation: sizes and scalars become literals, by one substitution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tc.errors import PreconditionError
from tc.ir.evaluate import evaluate
from tc.ir.expr import FALSE, TRUE, Expr
from tc.ir.printer import text
from tc.ir.program import Box, Domain, Precondition, Program, Range
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
            raise _excluded(p, values)
        return replace(p, condition=condition)

    return replace(
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
            )
            for s in program.stages
        ),
        preconditions=tuple(p for p in map(precondition, program.preconditions) if p.condition != TRUE),
    )


def require(program: Program, sizes: Mapping[str, int]) -> None:
    """Raises PreconditionError (TC0601) as `specialize` does, for sizes that stay symbolic."""
    for p in program.preconditions:
        if not evaluate(p.condition, sizes):
            raise _excluded(p, sizes)


def _excluded(p: Precondition, values: Mapping[str, int | float]) -> PreconditionError:
    given = ", ".join(f"{k} = {v}" for k, v in values.items())
    needed = text(p.display)
    return PreconditionError(
        f"{p.reason}: the sizes must satisfy {needed}, but {given}",
        p.span,
        code="TC0601",
        help=f"pass arrays for which {needed}",
    )
