"""One register tile: the phases of a nest at a constant number of points, unrolled and in lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tc.dtypes import accumulator
from tc.ir.expr import (
    GT,
    ZERO,
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Min,
    Mul,
    Sub,
    Variable,
    inline_lets,
    substitute,
    variables,
    walk,
)
from tc.ir.loops import Array, Compute, For, If, LoopKind, Prefetch, Stmt
from tc.ir.lower import neutral
from tc.ir.program import Op
from tc.ir.simplify import conjunction, linear_terms, simplify
from tc.poly.bodies import zero_based
from tc.poly.tile_plan import Axis, Dot, Nest, Pack, Phase, PhaseTile, PrefetchHint, Tiling
from tc.poly.tiles.builder import (
    ALIGNMENT,
    Builder,
    Span,
    axis_span,
    block,
    loads,
    named,
    vector_loops,
)
from tc.poly.tiles.dots import Shift, zero_of
from tc.poly.tiles.dynamic import Part
from tc.poly.tiles.packs import Packed, packed_body

LEFT_OVER = 2  # iterations in a row of register tiles that are not whole


@dataclass(slots=True)
class RegisterTile:
    """The phases of one register tile, whose axes have these constant extents."""

    builder: Builder
    nest: Nest
    tiling: Tiling
    spans: Mapping[str, Span]
    cut: Mapping[str, Span]
    packs: Mapping[Pack, Packed]
    local: dict[str, Expr]  # offset of the register tile in the cache tile
    extents: dict[str, int]
    parts: Mapping[str, Part] = field(default_factory=dict[str, Part])  # of axes of dynamic extent
    partials: set[str] = field(default_factory=set[str])

    def phase(self, p: Phase, t: PhaseTile) -> Stmt:
        if not p.axes:
            return block([*self.rows_ahead(p), *(self.points(s, {}, None) for s in p.statements)])
        vector = next((a for a in p.axes if a.name == t.vector), None)
        partial = {
            s: self.partial(s, t) for s in p.statements if vector is not None and s in vector.reductions
        }
        before = [self.fill(s, a, t) for s, a in partial.items()]
        after = [self.combine(s, a, t) for s, a in partial.items()]
        # The vector axis runs innermost, else the last axis.
        axes = [a for a in p.axes if a is not vector]
        last = vector if vector is not None else axes.pop()
        before += [self.unshift(x, packed.shift) for x, packed in self.packs.items()
                   if packed.shift is not None and x.statement in p.statements]  # fmt: skip
        return block([*before, self.loops(p, t, axes, last, {}, partial), *after])

    def extent(self, a: Axis) -> int | Expr:
        """The points of a phase's axis; an expression where they depend on dynamic sizes."""
        span = self.cut[a.name] if a.name in self.cut else axis_span(a)
        return span.extent if span.points is None else span.points

    def loops(
        self,
        p: Phase,
        t: PhaseTile,
        axes: Sequence[Axis],
        last: Axis,
        at: dict[str, Expr],
        partial: Mapping[str, Array],
    ) -> Stmt:
        if axes:
            a = axes[0]
            var = self.builder.name(a.name)
            inner = self.loops(p, t, axes[1:], last, {**at, a.name: Variable(var)}, partial)
            extent = self.extent(a)
            if not at and p is self.longest() and isinstance(extent, int):
                inner = block([*self.next_results((Variable(var), extent)), inner])
            count = IntImm(extent) if isinstance(extent, int) else extent
            return For(var, ZERO, count, 1, LoopKind.SERIAL, inner)
        if t.dot is not None and t.vector is None:
            return self.dots(p, last, t, t.dot, at)
        if t.vector is None:
            return self.unrolled(p, last, t, at)
        step = t.lanes * t.accumulators * (1 if t.dot is None else t.dot.size)
        extent = self.extent(last)
        if not isinstance(extent, int):
            return self.dynamic_vectors(p, last, extent, at, t, partial)
        whole, rest = divmod(extent, step)
        parts: list[Stmt] = []
        if whole:
            var = self.builder.name(last.name)
            s = self.vectors(p, last, at, Mul(Variable(var), IntImm(step)), step, t, partial)
            parts.append(For(var, ZERO, IntImm(whole), 1, LoopKind.SERIAL, s))
        if rest:
            parts.append(self.vectors(p, last, at, IntImm(whole * step), rest, t, partial))
        return block(parts)

    def dynamic_vectors(
        self, p: Phase, last: Axis, extent: Expr, at: dict[str, Expr], t: PhaseTile,
        partial: Mapping[str, Array],
    ) -> Stmt:  # fmt: skip
        """All accumulators at a time, then vector after vector, then one under a mask."""
        builder = self.builder
        step = t.lanes * t.accumulators
        several, vectors = builder.name("whole"), builder.name("vectors")
        var = builder.name(last.name)
        s = self.vectors(p, last, at, Mul(Variable(var), IntImm(step)), step, t, partial)
        parts: list[Stmt] = [For(var, ZERO, Variable(several), 1, LoopKind.SERIAL, s)]
        if t.accumulators > 1:
            var = builder.name(last.name)
            s = self.vectors(p, last, at, Mul(Variable(var), IntImm(t.lanes)), t.lanes, t, partial)
            low = Mul(Variable(several), IntImm(t.accumulators))
            parts.append(For(var, low, Variable(vectors), 1, LoopKind.SERIAL, s))
        if t.lanes > 1:
            lane, active, start = builder.name(last.name), builder.name("active"), builder.name("at")
            offset = simplify(Add(Variable(start), Variable(lane)), exact=True)
            tail = block(
                self.points(
                    x, {**at, last.name: offset}, (ZERO, Variable(lane), partial.get(x)), lane,
                    Variable(active), t.lanes,
                )
                for x in p.statements
            )  # fmt: skip
            tail = named(start, Mul(Variable(vectors), IntImm(t.lanes)), tail)
            tail = If(GT(Variable(active), ZERO), tail)
            parts.append(named(active, FloorMod(extent, IntImm(t.lanes)), tail))
        rest = named(vectors, FloorDiv(extent, IntImm(t.lanes)), block(parts))
        return named(several, FloorDiv(extent, IntImm(step)), rest)

    def unrolled(self, p: Phase, last: Axis, t: PhaseTile, at: dict[str, Expr]) -> Stmt:
        # What is left over at the end of an axis has code of its own: less of it, as it runs seldom.
        tiles = self.tiling.tiles
        partial = any(e < tiles[n].register - tiles[n].even for n, e in self.extents.items())
        unroll = min(t.unroll, LEFT_OVER) if partial and math.prod(self.extents.values()) >= 8 else t.unroll
        total = self.extent(last)
        if not isinstance(total, int):
            return self.dynamic_unrolled(p, last, total, t, at)
        whole, rest = divmod(total, unroll)
        parts: list[Stmt] = []
        for count, start, extent in ((whole, None, unroll), (1 if rest else 0, whole * unroll, rest)):
            if not count:
                continue
            var = self.builder.name(last.name)
            base: Expr = Mul(Variable(var), IntImm(unroll)) if start is None else IntImm(start)
            s = self.iterations(p, last, t, at, base, extent)
            parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
        return block(parts)

    def dots(self, p: Phase, last: Axis, t: PhaseTile, dot: Dot, at: dict[str, Expr]) -> Stmt:
        """The loop of a sum of products, a group of points at a time; the last may be short."""
        total = self.extent(last)
        assert isinstance(total, int) and p.statements == (dot.statement,)
        whole, rest = divmod(total, dot.size)
        inside = self.builder.name(last.name)

        def group(number: Expr, points: int) -> Stmt:
            point = simplify(Add(Mul(number, IntImm(dot.size)), Variable(inside)), exact=True)

            def innermost(offsets: dict[str, Expr]) -> Stmt:
                s = self.instance(dot.statement, offsets, {**at, last.name: point}, None)
                return For(inside, ZERO, IntImm(points), 1, LoopKind.DOT, s)

            return self.each_point(dot.statement, innermost)

        parts: list[Stmt] = []
        for count, start, extent in (
            (whole // t.unroll, None, t.unroll), (1, whole - whole % t.unroll, whole % t.unroll)
        ):  # fmt: skip
            if not count or not extent:
                continue
            var, u = self.builder.name(last.name), self.builder.name(last.name)
            base: Expr = Mul(Variable(var), IntImm(t.unroll)) if start is None else IntImm(start)
            point = Mul(base, IntImm(dot.size))
            once, _ = self.next_rows(p, last, at, point, point, 1)
            s = For(u, ZERO, IntImm(extent), 1, LoopKind.UNROLLED, group(Add(base, Variable(u)), dot.size))
            s = block([*once, s])
            parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
        if rest:
            parts.append(group(IntImm(whole), rest))
        return block(parts)

    def unshift(self, x: Pack, shift: Shift) -> Stmt:
        """Take away what the products with a shifted pack are going to be too large by."""
        stage = self.builder.stages[x.statement]
        buffer = self.builder.func_buffers[stage.func]

        def make(offsets: dict[str, Expr]) -> Stmt:
            still = {a.name: ZERO for p in self.nest.phases for a in p.axes}
            place = self.inside(x.statement, offsets, still)
            point = self.point(x.statement, offsets, still)
            subscripts = zero_based((substitute(e, point) for e in stage.args), self.builder.boxes[buffer])
            where = tuple(simplify(place[n], exact=True) for n in shift.axes)
            t = shift.array.dtype
            value = Sub(zero_of(t), Load(shift.array.name, where, t))
            return Compute(f"{x.statement}.shift", buffer, subscripts, "+", value, (), stage.text)

        return self.each_point(x.statement, make)

    def dynamic_unrolled(self, p: Phase, last: Axis, total: Expr, t: PhaseTile, at: dict[str, Expr]) -> Stmt:
        """Unrolled iterations, then the rest one at a time."""
        var = self.builder.name(last.name)
        if t.unroll == 1:
            s = self.iterations(p, last, t, at, Variable(var), 1)
            return For(var, ZERO, total, 1, LoopKind.SERIAL, s)
        whole, single = self.builder.name("whole"), self.builder.name(last.name)
        s = self.iterations(p, last, t, at, Mul(Variable(var), IntImm(t.unroll)), t.unroll)
        first = For(var, ZERO, Variable(whole), 1, LoopKind.SERIAL, s)
        s = self.iterations(p, last, t, at, Variable(single), 1)
        rest = For(single, Mul(Variable(whole), IntImm(t.unroll)), total, 1, LoopKind.SERIAL, s)
        return named(whole, FloorDiv(total, IntImm(t.unroll)), block([first, rest]))

    def iterations(
        self, p: Phase, last: Axis, t: PhaseTile, at: dict[str, Expr], base: Expr, count: int
    ) -> Stmt:
        """`count` iterations of the last loop of a phase, from `base` on."""
        u = self.builder.name(last.name)
        offset = simplify(Add(base, Variable(u)), exact=True) if count > 1 else base
        hints = self.pointed(p, last, at, offset, t.prefetch) if t.prefetch else []
        once, each = self.next_rows(p, last, at, base, offset, count)
        points = (self.points(x, {**at, last.name: offset}, None) for x in p.statements)
        s = block([*hints, *each, *points])
        if count > 1:
            s = For(u, ZERO, IntImm(count), 1, LoopKind.UNROLLED, s)
        return block([*once, s])

    def next_rows(
        self, p: Phase, last: Axis, at: dict[str, Expr], base: Expr, offset: Expr, count: int
    ) -> tuple[list[Stmt], list[Stmt]]:
        """Hints for the elements of the next register tile, or of the next block of the phase: once for the
        points from `base` on that are unrolled where these are neighbours, else for each (`offset`).  Into
        the second cache: a whole tile goes by before they are used, and the first has no room for two."""
        once: list[Stmt] = []
        each: list[Stmt] = []
        for x in self.tiling.prefetches:
            if x.statement not in p.statements or x.read < 0:
                continue
            load = loads(self.builder.bodies[x.statement])[x.read]
            steps = self.steps(x.statement, load)
            if abs(steps[last.name]) * load.dtype.itemsize < ALIGNMENT:
                end = simplify(Add(base, IntImm(count - 1)), exact=True)
                first = end if self.follows(x, load, steps) else base
                once += self.lines(x, load, steps, {**at, last.name: first})
            else:
                each += self.lines(x, load, steps, {**at, last.name: offset})
        return once, each

    def longest(self) -> Phase | None:
        """The phase of most iterations of those that have a loop around others, of constant length."""
        found: list[Phase] = []
        for p, t in zip(self.nest.phases, self.tiling.phases, strict=True):
            outer = next((a for a in p.axes if a.name != t.vector), None)
            if len(p.axes) > 1 and outer is not None and isinstance(self.extent(outer), int):
                found.append(p)
        return max(found, key=lambda p: math.prod(a.extent for a in p.axes), default=None)

    def next_results(self, loop: tuple[Expr, int] | None = None) -> list[Stmt]:
        """Hints for the elements that the next register tile writes, or those for one iteration of a loop of
        so many: what asks for more lines at a time than a core can wait for waits itself."""
        out: list[Stmt] = []
        for x in self.tiling.prefetches:
            if x.read < 0:
                stage = self.builder.stages[x.statement]
                buffer = self.builder.func_buffers[stage.func]
                subscripts = zero_based(stage.args, self.builder.boxes[buffer])
                element = Load(buffer, subscripts, self.builder.dtypes[buffer])
                still = {a.name: ZERO for p in self.nest.phases for a in p.axes}
                out += self.lines(x, element, self.steps(x.statement, element), still, loop)
        return out

    def lines(
        self,
        x: PrefetchHint,
        element: Load,
        steps: Mapping[str, int],
        at: Mapping[str, Expr],
        loop: tuple[Expr, int] | None = None,
    ) -> Iterator[Stmt]:
        """A hint for each line that a register tile has of the elements `element`, one step further along the
        axis of `x`; `at` are the points of the phase's axes.  Of a `loop`, each iteration has its share of
        the rows along the axis that has most of them."""
        size = element.dtype.itemsize

        def places(n: str) -> range:
            extent = self.extents[n]
            if not steps[n]:
                return range(1)
            line = max(1, ALIGNMENT // (abs(steps[n]) * size))
            first = (extent - 1) % line if n == x.axis and self.follows(x, element, steps) else 0
            return range(first, extent, line)

        names = [a.name for a in self.nest.axes if x.statement in a.vars]
        longest = max(names, key=lambda n: len(places(n))) if loop is not None else None

        def level(names: Sequence[str], offsets: dict[str, Expr]) -> Iterator[Stmt]:
            if names:
                n = names[0]
                here: Iterable[Expr] = map(IntImm, places(n))
                if loop is not None and n == longest:
                    here = _share(places(n), *loop)
                for i in here:
                    yield from level(names[1:], {**offsets, n: i})
                return
            further, then = dict(offsets), dict(at)
            if x.axis in further:
                further[x.axis] = Add(further[x.axis], IntImm(x.tiles * self.extents[x.axis]))
            else:
                then[x.axis] = Add(then[x.axis], IntImm(self.cut[x.axis].extent))
            env = dict(self.point(x.statement, further, then))
            where = tuple(substitute(e, env) for e in element.subscripts)
            yield Prefetch(element.buffer, where, 2, x.read < 0)

        return level(names, {})

    def follows(self, x: PrefetchHint, load: Load, steps: Mapping[str, int]) -> bool:
        """Whether the next tile's elements follow this one's in memory.  Then this one has the line that the
        first of them lies in, and the last are asked for."""
        return 0 < abs(steps[x.axis]) * load.dtype.itemsize < ALIGNMENT

    def steps(self, statement: str, load: Load) -> dict[str, int]:
        """Elements between a read's neighbours along each axis."""
        box = self.builder.boxes[load.buffer]
        out: dict[str, int] = {}
        axes = (*self.nest.axes, *(a for p in self.nest.phases for a in p.axes))
        names = {a.vars[statement]: a.name for a in axes if statement in a.vars}
        step = 1
        for e, r in zip(reversed(load.subscripts), reversed(box), strict=True):
            for term, factor in linear_terms(inline_lets(e))[0].items():
                if isinstance(term, Variable) and term.name in names:
                    out[names[term.name]] = out.get(names[term.name], 0) + factor * step
            step *= r.extent.value if isinstance(r.extent, IntImm) else 1
        return {n: out.get(n, 0) for n in names.values()}

    def pointed(self, p: Phase, last: Axis, at: dict[str, Expr], offset: Expr, distance: int) -> list[Stmt]:
        """Hints for the rows that data point to, some iterations ahead of `offset`: after the last they are
        those of the next register tile."""
        total = self.extent(last)
        later = Add(offset, IntImm(distance))
        next_tile: tuple[Axis, Expr] | None = None
        if isinstance(total, int):
            after = self.after()
            if after is not None and total >= distance:
                next_tile = after, FloorDiv(later, IntImm(total))
                later = FloorMod(later, IntImm(total))
            else:
                later = Min(later, IntImm(total - 1))
        else:
            later = Min(later, Sub(total, IntImm(1)))
        out: list[Stmt] = []
        for statement in p.statements:
            for load in loads(self.builder.bodies[statement]):
                pointed = any(
                    isinstance(x, Load) and last.vars[statement] in variables(x)
                    for e in load.subscripts
                    for x in walk(e)
                )
                if not pointed:
                    continue

                def hint(offsets: dict[str, Expr], load: Load = load, statement: str = statement) -> Stmt:
                    if next_tile is not None and next_tile[0].name in offsets:
                        a, further = next_tile
                        step = Mul(further, IntImm(self.extents[a.name]))
                        end = Sub(IntImm(a.extent - 1), Add(self.spans[a.name].origin, self.local[a.name]))
                        offsets = {**offsets, a.name: Min(Add(offsets[a.name], step), end)}
                    env = dict(self.point(statement, offsets, {**at, last.name: later}))
                    return Prefetch(load.buffer, tuple(substitute(e, env) for e in load.subscripts))

                out.append(self.each_point(statement, hint))
        return out

    def after(self) -> Axis | None:
        """The axis along which the next register tile lies, if it is a scalar one of constant length."""
        for n in reversed(self.tiling.inner):
            a = next(a for a in self.nest.axes if a.name == n)
            if a.size is not None or n in self.parts:
                return None
            if self.spans[n].extent > self.extents[n]:
                return a if self.tiling.tiles[n].lanes == 1 else None
        return None

    def vectors(
        self, p: Phase, last: Axis, at: dict[str, Expr], base: Expr, extent: int, t: PhaseTile,
        partial: Mapping[str, Array],
    ) -> Stmt:  # fmt: skip
        """`extent` points of the vector axis: whole vectors, then a short one."""
        if t.dot is not None:
            return self.dot_vectors(p, last, at, base, extent, t, t.dot, partial)
        parts: list[Stmt] = []
        q, r = divmod(extent, t.lanes)
        u, lane = self.builder.name(last.name), self.builder.name(last.name)
        for count, start, lanes in ((q, None, t.lanes), (1 if r else 0, q, r)):
            if not count:
                continue
            number: Expr = Variable(u) if start is None else IntImm(start)
            offset = simplify(Add(Add(base, Mul(number, IntImm(t.lanes))), Variable(lane)), exact=True)
            s: Stmt = block(
                self.points(
                    x,
                    {**at, last.name: offset},
                    (number, Variable(lane), partial.get(x)),
                    lane,
                    lanes,
                    t.lanes,
                )
                for x in p.statements
            )
            parts.append(For(u, ZERO, IntImm(count), 1, LoopKind.UNROLLED, s) if start is None else s)
        return block([*self.later_rows(p, last, at, base, extent), *parts])

    def rows_ahead(self, p: Phase) -> Iterator[Stmt]:
        """Hints for what a later register tile reads in a phase without loops."""
        for x in self.tiling.prefetches:
            if x.statement in p.statements and x.read >= 0:
                load = loads(self.builder.bodies[x.statement])[x.read]
                yield from self.lines(x, load, self.steps(x.statement, load), {})

    def later_rows(self, p: Phase, last: Axis, at: dict[str, Expr], base: Expr, extent: int) -> list[Stmt]:
        """Hints for the elements of a later register tile at `extent` points from `base` on."""
        out: list[Stmt] = []
        for x in self.tiling.prefetches:
            if x.statement not in p.statements or x.read < 0:
                continue
            load = loads(self.builder.bodies[x.statement])[x.read]
            steps = self.steps(x.statement, load)
            size = abs(steps[last.name]) * load.dtype.itemsize
            for point in range(0, extent, max(1, ALIGNMENT // max(size, 1))):
                place = simplify(Add(base, IntImm(point)), exact=True)
                out += self.lines(x, load, steps, {**at, last.name: place})
        return out

    def dot_vectors(
        self, p: Phase, last: Axis, at: dict[str, Expr], base: Expr, extent: int, t: PhaseTile, dot: Dot,
        partial: Mapping[str, Array],
    ) -> Stmt:  # fmt: skip
        """As `vectors`, a group of points in each lane; what is left over goes a point a lane."""
        x, size = dot.statement, dot.size * t.lanes
        whole = extent // size
        u, lane, inside = (self.builder.name(last.name) for _ in range(3))
        parts: list[Stmt] = []
        if whole:
            place = Add(Mul(Variable(u), IntImm(size)), Mul(Variable(lane), IntImm(dot.size)))
            offset = simplify(Add(base, Add(place, Variable(inside))), exact=True)
            where = Variable(u), Variable(lane), partial.get(x)
            s = self.points(x, {**at, last.name: offset}, where, lane, t.lanes, t.lanes, (inside, dot.size))
            parts.append(For(u, ZERO, IntImm(whole), 1, LoopKind.UNROLLED, s))
        for start in range(whole * size, extent, t.lanes):
            offset = simplify(Add(Add(base, IntImm(start)), Variable(lane)), exact=True)
            where = ZERO, Variable(lane), partial.get(x)
            lanes = min(t.lanes, extent - start)
            parts.append(self.points(x, {**at, last.name: offset}, where, lane, lanes, t.lanes))
        return block(parts)

    # Points of the register tile.

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
        """All points of the register tile of one statement; `lane` is a vector loop of its phase, `group` one
        inside of it over neighbours."""
        count = IntImm(lanes) if isinstance(lanes, int) else lanes

        def innermost(offsets: dict[str, Expr]) -> Stmt:
            s = self.instance(statement, offsets, at, partial)
            if group is not None:
                s = For(group[0], ZERO, IntImm(group[1]), 1, LoopKind.DOT, s)
            return s if lane is None else For(lane, ZERO, count, 1, LoopKind.VECTOR, s, width)

        return self.each_point(statement, innermost)

    def each_point(self, statement: str, make: Callable[[dict[str, Expr]], Stmt]) -> Stmt:
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

    # Partial results of reductions in lanes.

    def tile_axes(self, statement: str) -> list[str]:
        """The axes that a statement has more than one point of in a register tile."""
        return [a.name for a in self.nest.axes if statement in a.vars and self.extents[a.name] > 1]

    def partial(self, statement: str, t: PhaseTile) -> Array:
        builder = self.builder
        stage = builder.stages[statement]
        buffer = builder.func_buffers[stage.func]
        dtype = accumulator(builder.dtypes[buffer], builder.bodies[statement].dtype)
        shape = (*(self.extents[n] for n in self.tile_axes(statement)), t.accumulators, t.lanes)
        array = Array(
            builder.name(buffer), dtype, tuple(map(IntImm, shape)), "register", IntImm(0), partial_of=buffer
        )
        builder.arrays.append(array)
        self.partials.add(array.name)
        return array

    def fill(self, statement: str, array: Array, t: PhaseTile) -> Stmt:
        stage = self.builder.stages[statement]
        assert stage.op is not None
        return self.over_partials(statement, array, t, 0, None, neutral(stage.op, array.dtype), "")

    def over_partials(
        self,
        statement: str,
        array: Array,
        t: PhaseTile,
        first: int,
        op: Op | None,
        value: Expr | None,
        text: str,
    ) -> Stmt:
        u, lane = self.builder.name("u"), self.builder.name("lane")

        def make(offsets: dict[str, Expr]) -> Stmt:
            tile = tuple(offsets[n] for n in self.tile_axes(statement))
            v = (
                value
                if value is not None
                else Load(array.name, (*tile, Variable(u), Variable(lane)), array.dtype)
            )
            number = Variable(u) if value is not None else ZERO
            s: Stmt = Compute(
                f"{statement}.partial", array.name, (*tile, number, Variable(lane)), op, v, (), text
            )
            s = For(lane, ZERO, IntImm(t.lanes), 1, LoopKind.VECTOR, s)
            return For(u, IntImm(first), IntImm(t.accumulators), 1, LoopKind.UNROLLED, s)

        return self.each_point(statement, make)

    def combine(self, statement: str, array: Array, t: PhaseTile) -> Stmt:
        """All accumulators into the first, then its lanes into the result."""
        builder = self.builder
        stage = builder.stages[statement]
        buffer = builder.func_buffers[stage.func]
        lane = builder.name("lane")

        def make(offsets: dict[str, Expr]) -> Stmt:
            tile = tuple(offsets[n] for n in self.tile_axes(statement))
            point = {
                a.vars[statement]: Add(
                    a.low, Add(self.spans[a.name].origin, Add(self.local[a.name], offsets[a.name]))
                )
                for a in self.nest.axes
                if statement in a.vars
            }
            subscripts = zero_based((substitute(x, dict(point)) for x in stage.args), builder.boxes[buffer])
            v = Load(array.name, (*tile, ZERO, Variable(lane)), array.dtype)
            s = Compute(f"{statement}.partial", buffer, subscripts, stage.op, v, (), stage.text)
            return For(lane, ZERO, IntImm(t.lanes), 1, LoopKind.VECTOR, s)

        return block(
            [
                self.over_partials(statement, array, t, 1, stage.op, None, stage.text),
                self.each_point(statement, make),
            ]
        )


def _share(places: range, iteration: Expr, iterations: int) -> Iterator[Expr]:
    """The places for one of so many iterations; some have those of another if the numbers do not divide."""
    each = -(-len(places) // iterations)
    for k in range(each):
        if each == 1:
            i: Expr = FloorDiv(Mul(iteration, IntImm(len(places))), IntImm(iterations))
        else:
            i = Min(Add(Mul(iteration, IntImm(each)), IntImm(k)), IntImm(len(places) - 1))
        yield simplify(Add(Mul(i, IntImm(places.step)), IntImm(places.start)), exact=True)
