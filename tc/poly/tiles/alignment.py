"""Register tiles that begin on lines, where rows of results do not.

A vector goes past the caches where it is one line of memory, or part of one.  Of a matrix whose rows have
4094 elements the second row begins 8 bytes before a line does, the third 16.  There the first elements of
each row, up to where a line begins, are a short tile of their own; tiles from there on have whole lines.

Shorter rows go past the caches, too, if a tile ends where the next begins, which fills the line that both
share before the processor gives up waiting for the rest of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.ir.expr import ZERO, Add, Expr, FloorMod, IntImm, Mul, Variable, inline_lets, substitute
from tc.ir.simplify import linear_terms, simplify
from tc.poly.bodies import zero_based
from tc.poly.tile_plan import Axis, Nest, Tiling
from tc.poly.tiles.builder import ALIGNMENT, Builder, Span

# Bytes that a row has at least, for its ends to be worth their code.  On Zen 4 stencils of rows of 254 and
# 512 elements took 1.15 and 1.02 times as long, of 1021 and more 0.67 to 0.51 (ADR 8).
_ROW = 3072
# Iterations of a reduction between tiles that share a line, at most.  On Zen 4 rows of 28 maxima of four were
# 1.3 times as fast past the caches, rows of 28 sums of 72 products 0.6 times (ADR 8).
_SOON = 16


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
        buffer = _written(builder, statement)
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


def partial_line_results(builder: Builder, nest: Nest, tiling: Tiling, order: Sequence[str]) -> Iterator[str]:
    """The results to demote from non-temporal to ordinary stores: a register tile writes parts of their cache
    lines, and no other tile soon writes the rest.  Loops over register tiles are nested in `order`."""
    axes = {a.name: a for a in nest.axes}
    loops = {a.name: a.extent for p in nest.phases for a in p.axes}
    extents = loops | {n: a.extent for n, a in axes.items()}
    tile = loops | {n: min(tiling.tiles[n].register, a.extent) for n, a in axes.items()}
    for phase in nest.phases:
        for statement in phase.statements:
            buffer, found = _written(builder, statement), _address(builder, statement)
            if buffer not in builder.past or found is None:
                continue
            names = {a.vars[statement]: a.name for a in (*nest.axes, *phase.axes) if statement in a.vars}
            terms, _ = linear_terms(found)
            steps = {names.get(e.name, ""): abs(f) for e, f in terms.items() if isinstance(e, Variable)}
            line = ALIGNMENT // builder.dtypes[buffer].itemsize
            if all(f == 1 or f % line == 0 or extents.get(n, 1) == 1 for n, f in steps.items()):
                continue  # rows are whole lines
            run = 1
            for n, f in sorted(steps.items(), key=lambda x: x[1]):
                run *= tile.get(n, 1) if f == run else 1
            last = next((n for n in reversed(order) if extents[n] > tile[n]), None)
            soon = math.prod(e for n, e in loops.items() if not steps.get(n)) <= _SOON
            if not soon or (last is not None and steps.get(last, 0) * tile[last] != run):
                yield buffer


def _written(builder: Builder, statement: str) -> str:
    """The buffer that a statement writes."""
    return builder.func_buffers[builder.stages[statement].func]


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
