"""Register tiles that begin on lines, where rows of results do not.

A vector goes past the caches where it is one line of memory, or part of one.  Of a matrix whose rows have
4094 elements the second row begins 8 bytes before a line does, the third 16.  There the first elements of
each row, up to where a line begins, are a short tile of their own; tiles from there on have whole lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tc.ir.expr import ZERO, Add, Expr, FloorMod, IntImm, Mul, Variable, inline_lets, substitute
from tc.ir.simplify import linear_terms, simplify
from tc.poly.bodies import zero_based
from tc.poly.plan import Axis, Nest, Tiling
from tc.poly.scan.builder import ALIGNMENT, Builder, Span

# Bytes that a row has at least, for its ends to be worth their code.  On Zen 4 stencils of rows of 254 and
# 512 elements took 1.15 and 1.02 times as long, of 1021 and more 0.67 to 0.51 (ADR 8).
_ROW = 3072


@dataclass(frozen=True, slots=True)
class Shifted:
    """An axis in lanes along which the rows of a result do not all begin on lines; `address` is the place of
    the element that a statement writes, over its variables."""

    axis: Axis
    statement: str
    buffer: str
    lanes: int
    address: Expr

    def before(self, nest: Nest, spans: Mapping[str, Span], local: Mapping[str, Expr]) -> Expr:
        """The elements before the first line of a row, fewer than the lanes; `local` are the offsets of a
        register tile in its cache tile, along the axes around."""
        env: dict[str, Expr] = {}
        for a in nest.axes:
            if self.statement in a.vars:
                start = Add(Add(a.low, spans[a.name].origin), local.get(a.name, ZERO))
                env[a.vars[self.statement]] = start
        terms, constant = linear_terms(simplify(substitute(self.address, env), exact=True))
        total: Expr = IntImm(-constant % self.lanes)
        for term, factor in terms.items():
            if factor % self.lanes:
                total = Add(total, Mul(term, IntImm(-factor % self.lanes)))
        return simplify(FloorMod(total, IntImm(self.lanes)), exact=True)


def shifted(builder: Builder, nest: Nest, tiling: Tiling, order: Sequence[str]) -> Shifted | None:
    """The axis in lanes, if rows along it had better begin with a short tile: those of a result that goes
    past the caches and of which not all begin on lines.  All rows of a register tile must begin alike; loops
    over register tiles are nested in `order`."""
    axis = next((a for a in nest.axes if tiling.tiles[a.name].lanes > 1), None)
    if axis is None or axis.size is not None or tiling.packs or any(p.axes for p in nest.phases):
        return None
    lanes = tiling.tiles[axis.name].lanes
    for statement in nest.statements:
        found = _address(builder, statement)
        buffer = builder.func_buffers[builder.stages[statement].func]
        size = lanes * builder.dtypes[buffer].itemsize
        long = axis.extent * builder.dtypes[buffer].itemsize >= _ROW
        if found is None or not long or buffer not in builder.past or not 16 <= size <= ALIGNMENT:
            continue
        names = {v: a.name for a in nest.axes for s, v in a.vars.items() if s == statement}
        lows = {a.vars[statement]: a.low for a in nest.axes if statement in a.vars}
        from_lows = substitute(found, {v: Add(low, Variable(v)) for v, low in lows.items()})
        terms, constant = linear_terms(from_lows)
        factors = {names.get(e.name, ""): f for e, f in terms.items() if isinstance(e, Variable)}
        if len(factors) < len(terms) or factors.get(axis.name) != 1:
            continue
        aslant = {n for n, f in factors.items() if f % lanes and n != axis.name}
        around = {n for n in order[: order.index(axis.name)] if tiling.tiles[n].register == 1}
        if aslant <= around and (aslant or constant % lanes):
            return Shifted(axis, statement, buffer, lanes, found)
    return None


def _address(builder: Builder, statement: str) -> Expr | None:
    """What a statement writes, counted from the first element of the array; None where that is no number."""
    stage = builder.stages[statement]
    box = builder.boxes[builder.func_buffers[stage.func]]
    out: Expr = ZERO
    step = 1
    for i, e in reversed(list(enumerate(zero_based(map(inline_lets, stage.args), box)))):
        out = Add(out, Mul(e, IntImm(step)))
        extent = box[i].extent
        if i and not isinstance(extent, IntImm):
            return None
        step *= extent.value if isinstance(extent, IntImm) else 1
    return out
