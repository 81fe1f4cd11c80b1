"""Another layout of temporaries: their dimensions in another order, in every access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tc.ir.expr import Call, Expr, Variable, rebuild
from tc.ir.program import Box, Domain, Program, Stage, moved_sites

T = TypeVar("T")
Order = tuple[int, ...]


def permuted(program: Program, orders: Mapping[str, Order]) -> Program:
    """The program with the dimensions of some temporaries in another order.  `orders` gives, by buffer, the
    old number of each dimension; statements that define them have their loops in the order of what they
    write."""
    buffer_of = program.func_buffers

    def read(e: Expr) -> Expr:
        e = rebuild(e, read)
        order = orders.get(buffer_of.get(e.name, e.name)) if isinstance(e, Call) else None
        if not isinstance(e, Call) or e.kind == "intrinsic" or order is None:
            return e
        return replace(e, args=_ordered(e.args, order), checked=tuple(sorted(map(order.index, e.checked))))

    def stage(s: Stage) -> Stage:
        conditions = tuple(map(read, s.domain.conditions))
        s = replace(s, value=read(s.value), args=tuple(map(read, s.args)))
        s = replace(s, domain=Domain(s.domain.vars, conditions))
        order = orders.get(buffer_of[s.func])
        if order is None:
            return s
        checked = tuple((order.index(d), site) for d, site in s.checked)
        return _in_order(replace(s, args=_ordered(s.args, order), checked=checked))

    def box(old: Box, buffer: str) -> Box:
        return _ordered(old, orders[buffer]) if buffer in orders else old

    made = replace(
        program,
        buffers=tuple(replace(b, box=box(b.box, b.name)) for b in program.buffers),
        funcs=tuple(replace(f, box=box(f.box, f.buffer)) for f in program.funcs),
        stages=tuple(map(stage, program.stages)),
    )
    for s in made.stages:
        if buffer_of[s.func] in orders:
            made = replace(made, sites=moved_sites(made, s))
    return made


def _ordered(items: Sequence[T], order: Order) -> tuple[T, ...]:
    return tuple(items[d] for d in order)


def _in_order(s: Stage) -> Stage:
    """A stage whose loops over its results are in the order of the dimensions that it writes."""
    written = [a.name for a in s.args if isinstance(a, Variable)]
    of_results = [v.name for v in s.domain.vars if v.name in written]
    axes = {v.name: v for v in s.domain.vars}
    following = iter(sorted(of_results, key=written.index))
    made = tuple(axes[next(following)] if v.name in written else v for v in s.domain.vars)
    return replace(s, domain=replace(s.domain, vars=made))
