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

from tc.ir.program import Program
from tc.transforms.program.layout import permuted


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
    orders = {n: _swapped(tuple(range(len(program.buffer(n).box)))) for n in named}
    made = permuted(program, orders)
    buffers = (replace(b, pairs=False, planes=True) if b.name in found else b for b in made.buffers)
    return replace(made, buffers=tuple(buffers)), named


def _swapped(items: tuple[int, ...]) -> tuple[int, ...]:
    """The items with the last two exchanged."""
    return (*items[:-2], items[-1], items[-2])
