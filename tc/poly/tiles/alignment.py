"""Alignment of register tiles to cache lines, for non-temporal stores to rows that are not aligned.

A non-temporal store of a vector must be to one cache line, or part of one.  In a matrix whose rows have 4094
elements the second row begins 8 bytes before a line, the third 16.  There the first elements of each row, up
to the first line, are peeled as a short tile; the tiles after it are whole lines.

Shorter rows have non-temporal stores, too, if each tile ends where the next begins: the next one completes
the line that both share before the processor flushes its write-combining buffer.
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

# Bytes of a row, at least, for a peeled tile to be worth its code.  On Zen 4 stencils of rows of 254 and 512
# elements took 1.15 and 1.02 times as long, of 1021 and more 0.67 to 0.51
# (docs/experiments/nontemporal-stores.md).
_ROW = 3072
# Iterations of a reduction, at most, between tiles that share a line.  On Zen 4 with non-temporal stores,
# rows of 28 maxima of four were 1.3 times as fast, rows of 28 sums of 72 products 0.6 times
# (docs/experiments/emerald-rapids.md).
_SOON = 16


@dataclass(frozen=True, slots=True)
class Shifted:
    """A vector axis along which not all rows of a result begin on cache lines; `address` is the offset of the
    element that a statement writes, in elements, an expression of its variables."""

    axis: Axis
    statement: str
    buffer: str
    lanes: int
    address: Expr

    def before(self, nest: Nest, spans: Mapping[str, Span], local: Mapping[str, Expr]) -> Expr:
        """The number of elements before the first cache line of a row, less than the lanes.

        `local` are the offsets of a register tile in its cache tile, along the axes of the loops around.
        """
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
    """The vector axis, if its rows should begin with a peeled tile: they are of a result with non-temporal
    stores, and not all of them begin on cache lines.

    All rows of a register tile must have the same alignment.  Loops over register tiles are nested in
    `order`.
    """
    axis = next((a for a in nest.axes if tiling.tiles[a.name].lanes > 1), None)
    if axis is None or axis.size is not None or tiling.packs or any(p.axes for p in nest.phases):
        return None
    lanes = tiling.tiles[axis.name].lanes
    for statement in nest.statements:
        found = _address(builder, statement)
        buffer = _written(builder, statement)
        size = lanes * builder.dtypes[buffer].itemsize
        long = axis.typical_extent * builder.dtypes[buffer].itemsize >= _ROW
        if found is None or not long or buffer not in builder.nontemporal or not 16 <= size <= ALIGNMENT:
            continue
        names = {v: a.name for a in nest.axes for s, v in a.vars.items() if s == statement}
        lows = {a.vars[statement]: a.low for a in nest.axes if statement in a.vars}
        from_lows = substitute(found, {v: Add(low, Variable(v)) for v, low in lows.items()})
        terms, constant = linear_terms(from_lows)
        factors = {names.get(e.name, ""): f for e, f in terms.items() if isinstance(e, Variable)}
        if len(factors) < len(terms) or factors.get(axis.name) != 1:
            continue
        misaligned = {n for n, f in factors.items() if f % lanes and n != axis.name}
        around = {n for n in order[: order.index(axis.name)] if tiling.tiles[n].register == 1}
        if misaligned <= around and (misaligned or constant % lanes):
            return Shifted(axis, statement, buffer, lanes, found)
    return None


def partial_line_results(builder: Builder, nest: Nest, tiling: Tiling, order: Sequence[str]) -> Iterator[str]:
    """The results to demote from non-temporal to ordinary stores: a register tile writes parts of their cache
    lines, and no other tile soon writes the rest.  Loops over register tiles are nested in `order`."""
    axes = {a.name: a for a in nest.axes}
    loops = {a.name: a.typical_extent for p in nest.phases for a in p.axes}
    extents = loops | {n: a.typical_extent for n, a in axes.items()}
    tile = loops | {n: min(tiling.tiles[n].register, a.typical_extent) for n, a in axes.items()}
    for phase in nest.phases:
        for statement in phase.statements:
            buffer, found = _written(builder, statement), _address(builder, statement)
            if buffer not in builder.nontemporal or found is None:
                continue
            names = {a.vars[statement]: a.name for a in (*nest.axes, *phase.axes) if statement in a.vars}
            terms, _ = linear_terms(found)
            steps = {names.get(e.name, ""): abs(f) for e, f in terms.items() if isinstance(e, Variable)}
            line = ALIGNMENT // builder.dtypes[buffer].itemsize
            if all(f == 1 or f % line == 0 or extents.get(n, 1) == 1 for n, f in steps.items()):
                continue  # rows consist of whole lines
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
    """The offset of the element that a statement writes from the first of the array, in elements; None if a
    stride is dynamic."""
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
