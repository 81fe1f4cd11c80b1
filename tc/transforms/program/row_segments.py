"""Segments of a sequential loop that compute an element of each row of their results.

In `for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) }` an iteration is a column, whose elements are far apart, and
each row depends on itself alone.  The loop over `d` belongs inside of that over `n`
(`tc.transforms.loops.inward`).  Where the number of rows is a symbol, tiles of it hide that from the proof;
loops in the order of the source show it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tc.ir.expr import ONE, Call, IntImm, Variable, variables, walk
from tc.ir.program import Program, Stage
from tc.ir.simplify import simplify


def goes_along_rows(program: Program) -> bool:
    """Whether the indices of each statement of a segment, besides those with a single value, number rows of
    all tensors that the segment writes, and the ranges of some of them are symbolic."""
    buffers = {**{b.name: b.name for b in program.buffers}, **program.func_buffers}
    written = {buffers[s.func] for s in program.stages}
    return bool(program.counters) and all(_is_row(s, program, buffers, written) for s in program.stages)


def _is_row(s: Stage, program: Program, buffers: Mapping[str, str], written: set[str]) -> bool:
    if s.op is not None or s.checked_sites or s.domain.conditions or not s.args:
        return False
    counters = set(program.counters)
    rows = {v.name: v.range for v in s.domain.vars if simplify(v.range.extent, exact=True) != ONE}
    if all(isinstance(r.extent, IntImm) for r in rows.values()):
        return False
    if any(variables(r.min) & counters for r in rows.values()):
        return False
    moving = {v.name for v in s.domain.vars if variables(v.range.min) & counters}
    places = {s.args.index(Variable(n)): Variable(n) for n in rows if Variable(n) in s.args[:-1]}
    if len(places) != len(rows) or not variables(s.args[-1]) & moving:
        return False
    for e in walk(s.value):
        if isinstance(e, Call) and e.kind != "intrinsic" and buffers.get(e.name) in written:
            for d, a in enumerate(e.args):
                if simplify(a, exact=True) != places[d] if d in places else rows.keys() & variables(a):
                    return False
    return True
