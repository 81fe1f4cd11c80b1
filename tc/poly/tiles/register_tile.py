"""A register tile: a constant number of points of a nest, unrolled and in lanes.

`RegisterTile` emits the instances of a statement at its points.  The loops of its phases are in
`phase_loops`, `innermost`, `dot_loops` and `partial_results`, its prefetches in `prefetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tc.ir.expr import ZERO, Add, Expr, IntImm, Variable, inline_lets, substitute
from tc.ir.loops import Array, Compute, For, If, LoopKind, Stmt
from tc.ir.simplify import conjunction, simplify
from tc.poly.bodies import zero_based
from tc.poly.tile_plan import Axis, Nest, Pack, Tiling
from tc.poly.tiles.builder import Builder, Span, axis_span, vector_loops
from tc.poly.tiles.dynamic import Part
from tc.poly.tiles.packs import Packed, packed_body


@dataclass(slots=True)
class RegisterTile:
    """The points of one register tile, whose axes have the constant extents `extents`.

    `spans` are the cache tile's parts of the nest's axes, `cut` those of the phases' axes that run in blocks;
    `local` is the offset of the register tile in the cache tile, by axis.  `partials` collects the names of
    the arrays of partial results.
    """

    builder: Builder
    nest: Nest
    tiling: Tiling
    spans: Mapping[str, Span]
    cut: Mapping[str, Span]
    packs: Mapping[Pack, Packed]
    local: dict[str, Expr]
    extents: dict[str, int]
    parts: Mapping[str, Part] = field(default_factory=dict[str, Part])  # of axes of dynamic extent
    partials: set[str] = field(default_factory=set[str])

    def extent(self, a: Axis) -> int | Expr:
        """The points of a phase's axis; an expression where they depend on dynamic sizes."""
        span = self.cut[a.name] if a.name in self.cut else axis_span(a)
        return span.extent if span.points is None else span.points

    def points(
        self,
        statement: str,
        at: dict[str, Expr],
        partial: tuple[Expr, Expr, Array | None] | None,
        lane: str | None = None,
        lanes: int | Expr = 1,
        width: int = 0,
        group: tuple[str, int] | None = None,
    ) -> Stmt:
        """The instances of a statement at all points of the register tile.

        `at` are the points of the phase's axes, `partial` where partial results are (see `instance`).  `lane`
        is a vector loop of the phase, of `lanes` iterations in vectors of `width`; `group` is the variable
        and trip count of a dot product's loop inside of it.
        """
        count = IntImm(lanes) if isinstance(lanes, int) else lanes

        def innermost(offsets: dict[str, Expr]) -> Stmt:
            s = self.instance(statement, offsets, at, partial)
            if group is not None:
                s = For(group[0], ZERO, IntImm(group[1]), 1, LoopKind.DOT, s)
            return s if lane is None else For(lane, ZERO, count, 1, LoopKind.VECTOR, s, width)

        return self.each_point(statement, innermost)

    def each_point(self, statement: str, make: Callable[[dict[str, Expr]], Stmt]) -> Stmt:
        """What `make` returns for the offsets of a point in the tile, in unrolled loops and in lanes."""
        axes = [a for a in self.nest.axes if statement in a.vars]
        vector = next((a for a in axes if self.tiling.tiles[a.name].lanes > 1), None)

        def level(rest: Sequence[Axis], offsets: dict[str, Expr]) -> Stmt:
            if rest:
                a = rest[0]
                n = self.extents[a.name]
                if n == 1:
                    return level(rest[1:], {**offsets, a.name: ZERO})
                var = self.builder.name(a.name)
                inner = level(rest[1:], {**offsets, a.name: Variable(var)})
                return For(var, ZERO, IntImm(n), 1, LoopKind.UNROLLED, inner)
            if vector is None:
                return make(offsets)
            lanes = self.tiling.tiles[vector.name].lanes
            var = self.builder.name(vector.name)
            s = make({**offsets, vector.name: Variable(var)})
            part = self.parts.get(vector.name)
            if part is not None and part.active is not None:
                return For(var, ZERO, part.active, 1, LoopKind.VECTOR, s, lanes)
            # The instructions for sums of products take four lanes at least.
            least = 4 if any(t.dot is not None and t.vector is None for t in self.tiling.phases) else 0
            return vector_loops(var, self.extents[vector.name], lanes, self.builder.name, s, least)

        return level([a for a in axes if a is not vector], {})

    def instance(
        self,
        statement: str,
        offsets: Mapping[str, Expr],
        at: Mapping[str, Expr],
        partial: tuple[Expr, Expr, Array | None] | None,
    ) -> Stmt:
        """A statement's instance at `offsets` in the register tile and the points `at` of the phase's axes.

        `partial` is the number of the accumulator, its lane, and the array of partial results that the
        instance updates; without an array it updates the statement's result.
        """
        builder = self.builder
        stage = builder.stages[statement]
        inside = self.inside(statement, offsets, at)
        point = self.point(statement, offsets, at)
        where = tuple(point[v] for v in stage.domain.names)
        body = builder.bodies[statement]
        reads = {x.read: packed for x, packed in self.packs.items() if x.statement == statement}
        if reads:
            places = {
                n: (p.split[0], simplify(Add(p.split[1], offsets[n]), exact=True))
                for n, p in self.parts.items()
                if p.split is not None and n in offsets
            }
            body = packed_body(body, reads, places)
        env: dict[str, Expr] = {**point, **{f"@{n}": simplify(e, exact=True) for n, e in inside.items()}}
        value = simplify(substitute(body, env))
        buffer = builder.func_buffers[stage.func]
        number, lane, array = partial if partial is not None else (ZERO, ZERO, None)
        if array is not None:
            target = (*(offsets[n] for n in self.tile_axes(statement)), number, lane)
            s: Stmt = Compute(stage.name, array.name, target, stage.op, value, where, stage.text)
        else:
            subscripts = zero_based((substitute(x, point) for x in stage.args), builder.boxes[buffer])
            s = Compute(stage.name, buffer, subscripts, stage.op, value, where, stage.text)
        if stage.domain.conditions:
            tests = [simplify(substitute(inline_lets(c), point), exact=True) for c in stage.domain.conditions]
            s = If(conjunction(tests), s)
        return s

    def inside(self, statement: str, offsets: Mapping[str, Expr], at: Mapping[str, Expr]) -> dict[str, Expr]:
        """The offsets of a point in the cache tile, by axis."""
        found = {
            a.name: Add(self.local[a.name], offsets[a.name]) for a in self.nest.axes if statement in a.vars
        }
        phases = (a for p in self.nest.phases for a in p.axes if statement in a.vars)
        return {**found, **{a.name: at[a.name] for a in phases}}

    def point(self, statement: str, offsets: Mapping[str, Expr], at: Mapping[str, Expr]) -> dict[str, Expr]:
        """The values of a statement's variables at a point of the register tile."""
        inside = self.inside(statement, offsets, at)
        axes = (*self.nest.axes, *(a for p in self.nest.phases for a in p.axes))
        starts = {**self.spans, **self.cut}
        return {
            a.vars[statement]: simplify(
                Add(Add(a.low, starts[a.name].origin if a.name in starts else ZERO), inside[a.name]),
                exact=True,
            )
            for a in axes
            if statement in a.vars
        }

    def tile_axes(self, statement: str) -> list[str]:
        """The axes that a statement has more than one point of in a register tile."""
        return [a.name for a in self.nest.axes if statement in a.vars and self.extents[a.name] > 1]
