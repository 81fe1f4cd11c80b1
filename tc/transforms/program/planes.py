"""Split format: complex temporaries have a row of real parts and a row of imaginary parts.

    a(b,i,p) = x(b,i,p)                    a(b,p,i) = x(b,i,p)
    v(b,i,p) = a(b,i,p) * w(i)      →      v(b,p,i) = a(b,p,i) * w(i)

In parameters and results the two parts of a complex number are adjacent, so lanes along a row take every
second element, and statements that choose between the parts shuffle both.  The layout of a temporary is free:
where a row of real parts precedes each row of imaginary parts, lanes are contiguous.  (Franchetti and
Püschel, "Short vector code generation for the discrete Fourier transform", 2003, choose between the two
layouts in the same way.)

Temporaries of sums keep their layout: `tc.transforms.program.complex_products` has already given products of
matrices the layout that they need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tc.ir.expr import Call, Expr, Variable, rebuild
from tc.ir.program import Domain, Program, Stage, moved_sites

T = TypeVar("T")


def separate(program: Program) -> tuple[Program, tuple[str, ...]]:
    """`program` with the parts of complex temporaries in separate rows, and the names of these
    temporaries."""
    buffer_of = program.func_buffers
    found = {b.name for b in program.buffers if b.pairs and b.role == "temporary" and len(b.box) > 1}
    for s in program.stages:
        if any(v.kind == "reduction" for v in s.domain.vars):
            found -= {buffer_of[s.func], *(buffer_of.get(e.name, e.name) for e in s.calls)}
    if not found:
        return program, ()
    named = tuple(b.name for b in program.buffers if b.name in found)

    def read(e: Expr) -> Expr:
        e = rebuild(e, read)
        if isinstance(e, Call) and e.kind != "intrinsic" and buffer_of.get(e.name, e.name) in found:
            rank = len(e.args)
            checked = tuple(sorted(_dimension(d, rank) for d in e.checked))
            return replace(e, args=_swapped(e.args), checked=checked)
        return e

    def stage(s: Stage) -> Stage:
        conditions = tuple(map(read, s.domain.conditions))
        s = replace(s, value=read(s.value), args=tuple(map(read, s.args)))
        s = replace(s, domain=Domain(s.domain.vars, conditions))
        if buffer_of[s.func] not in found:
            return s
        checked = tuple((_dimension(d, len(s.args)), site) for d, site in s.checked)
        return replace(_reordered(s), args=_swapped(s.args), checked=checked)

    made = replace(
        program,
        buffers=tuple(
            replace(b, box=_swapped(b.box), pairs=False, planes=True) if b.name in found else b
            for b in program.buffers
        ),
        funcs=tuple(replace(f, box=_swapped(f.box)) if f.buffer in found else f for f in program.funcs),
        stages=tuple(map(stage, program.stages)),
    )
    for s in made.stages:
        if buffer_of[s.func] in found:
            made = replace(made, sites=moved_sites(made, s))
    return made, named


def _swapped(items: tuple[T, ...]) -> tuple[T, ...]:
    """The items with the last two exchanged."""
    return (*items[:-2], items[-1], items[-2])


def _dimension(d: int, rank: int) -> int:
    """The number of a dimension after the exchange of the last two."""
    return {rank - 1: rank - 2, rank - 2: rank - 1}.get(d, d)


def _reordered(s: Stage) -> Stage:
    """A stage whose loops are in the order of the dimensions that it writes."""
    row, part = s.args[-2:]
    names = list(s.domain.names)
    if not (isinstance(row, Variable) and isinstance(part, Variable)):
        return s
    i, k = names.index(row.name), names.index(part.name)
    if i > k:
        return s
    axes = list(s.domain.vars)
    axes.insert(i, axes.pop(k))
    return replace(s, domain=replace(s.domain, vars=tuple(axes)))
