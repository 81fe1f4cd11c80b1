"""Legality: in-place updates, definedness and bounds, decided by isl for all sizes.

What isl cannot decide becomes a precondition over sizes or a check when the kernel runs (ADR 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tc.errors import RangeError
from tc.ir import expr as x
from tc.ir import wrapping
from tc.ir.program import Precondition, Program
from tc.ranges import Obligation, Ranges


def legal(program: Program, ranges: Ranges, values: Mapping[str, int], checks: bool) -> Program:
    """Prove the program legal for all sizes, or attach what is left as preconditions and run-time checks.

    `values` are those of scalars and sizes that the program was made for; without `checks` nothing is checked
    when the kernel runs.

    An access that range inference left open is decided exactly where it is affine; where it is not, the
    solver's condition over sizes serves if a call that breaks it is wrong; else the subscript is checked when
    the kernel runs.
    """
    from tc.poly import checks as exact
    from tc.poly.context import isl_context
    from tc.poly.scop import build as build_scop
    from tc.transforms.program.segments import in_domains, parts, segments

    preconditions = list(program.preconditions)
    at_values = _at_values(program, values)
    left: dict[int, list[Obligation]] = {}
    dynamic: set[tuple[int, int]] = set()
    for o in ranges.obligations:
        if o.data_dependent:
            dynamic.add((o.site, o.dim))
        else:
            left.setdefault(o.site, []).append(o)
    marked = marked_accesses(program, dynamic)
    with isl_context():
        for part in segments(parts(marked)):
            if stages := exact.in_place_stages(part.program):
                assumed = (*part.program.preconditions, *at_values)
                exact.in_place(build_scop(replace(part.program, stages=stages, preconditions=assumed)))
        everywhere = in_domains(marked)
        verdicts = exact.out_of_bounds(build_scop(everywhere, wrapping.MOST), frozenset(left)) if left else ()
    for v in verdicts:
        site = v.read.call.site if v.read is not None else -1
        found = left.get(site, [])
        if v.status == "precondition" and v.condition is not None:
            first = found[0]
            if x.constant(v.condition) == 0:
                raise RangeError(
                    f"{v.text} is out of bounds for all sizes",
                    first.span,
                    code="TC0307",
                    help=f"'{first.tensor}' is read outside its range in dimension {first.dim}",
                )
            reason = f"{access_text(first)} would be out of bounds"
            preconditions.append(Precondition(v.condition, reason, first.span, v.shown, _remedy(first)))
        elif v.status == "unprovable":
            for o in found:
                if o.condition is None or (checks and not o.necessary):
                    dynamic.add((o.site, o.dim))
                else:
                    reason = f"{access_text(o)} would be out of bounds"
                    preconditions.append(Precondition(o.condition, reason, o.span, o.shown, _remedy(o)))
    preconditions += _not_wrapping(everywhere, frozenset(left))
    allowed = tuple(dict.fromkeys(preconditions))
    # What is defined depends on scalars, too: it is checked once they have values.
    waits = any(s.specialized and s.value is None for s in program.scalars)
    if not waits and exact.to_define(everywhere, marked.stages):
        with isl_context():
            scop = build_scop(replace(everywhere, preconditions=(*allowed, *at_values)))
            if marked.loops:
                exact.undefined_in_loops(scop, marked.stages)
            else:
                exact.undefined(scop)
    program = marked_accesses(program, dynamic if checks else set())
    if not checks:
        program = replace(program, stages=tuple(replace(s, checked=()) for s in program.stages))
    return replace(program, preconditions=allowed)


def _at_values(program: Program, values: Mapping[str, int]) -> list[Precondition]:
    """That the sizes have the values that the program was made for."""
    given = [(n, v) for n, v in values.items() if n in program.sizes]
    return [Precondition(x.EQ(x.Variable(n), x.IntImm(v)), f"made for {n} = {v}") for n, v in given]


def _not_wrapping(program: Program, sites: frozenset[int]) -> Iterator[Precondition]:
    """That comparisons beside these accesses do not wrap around, which the proof that they are in bounds
    takes for granted."""
    for s in program.stages:
        if sites.isdisjoint(e.site for e in s.calls):
            continue
        for condition in wrapping.conditions(s, program.sizes):
            if x.constant(condition) is None:
                reason = "a condition of this statement would wrap around in int32"
                yield Precondition(condition, reason, s.span)


def _remedy(o: Obligation) -> str:
    """How else an access that may leave its tensor could be written."""
    access = access_text(o)
    if not access.startswith(f"{o.tensor}("):
        return ""
    return (
        f"narrow a range behind where, or name what lies outside, {o.tensor}[zero]{access[len(o.tensor) :]}"
    )


def access_text(o: Obligation) -> str:
    return o.text.split(" needs ")[0].removesuffix(" may leave its tensor")


def marked_accesses(program: Program, dynamic: set[tuple[int, int]]) -> Program:
    """Record on the accesses which of their dimensions, and no others, are checked when the kernel runs."""

    def mark(e: x.Expr) -> x.Expr:
        e = x.rebuild(e, mark)
        if isinstance(e, x.Call) and e.site >= 0:
            dims = tuple(d for d in range(len(e.args)) if (e.site, d) in dynamic)
            return replace(e, checked=dims) if dims != e.checked else e
        return e

    return replace(program, stages=tuple(replace(st, value=mark(st.value)) for st in program.stages))
