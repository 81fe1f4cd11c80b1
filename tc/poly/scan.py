"""Plans to loop nests: the loops of tiled boxes, written down.

The domains of a specialised program are boxes, cut by conditions here and there.  The loops of a tiled box
are known, so no polyhedron is scanned for them (that costs isl 10 ms and more a nest); conditions are tested
where they are not implied by the box.  Extents are constants, so the loops of a whole tile have constant
lengths and no guards; what is left over at the end of an axis is a body of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.dtypes import accumulator
from tc.errors import InternalError
from tc.ir.expr import (
    EQ,
    Add,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Min,
    Mul,
    Sub,
    Variable,
    imm,
    inline_lets,
    rebuild,
    substitute,
)
from tc.ir.loops import Array, Block, Compute, For, If, LoopKind, Promote, Stmt
from tc.ir.program import Op, Stage
from tc.ir.simplify import conjunction, simplify
from tc.poly.ast import stage_bodies, zero_based
from tc.poly.plan import Axis, Nest, Pack, Phase, PhaseTile, Region, RegionTiling, Tile, Tiling
from tc.poly.scop import Scop
from tc.poly.storage import Promotion, promotion

ZERO = IntImm(0)
ALIGNMENT = 64
_TRANSPOSED = 16  # rows moved through registers at a time


@dataclass(frozen=True, slots=True)
class Span:
    """Part of an axis: it starts `origin` after the axis' first point and has `extent` points; in the last
    tile (where `last` holds) it has only `rest`."""

    origin: Expr
    extent: int
    rest: int
    last: Expr | None = None

    @property
    def whole(self) -> bool:
        return self.last is None or self.rest == self.extent


@dataclass(frozen=True, slots=True)
class Kernel:
    """The body of a kernel, the arrays that tiling added, and the bytes of workspace these need."""

    body: Stmt
    arrays: tuple[Array, ...]
    workspace: int


Body = Callable[[dict[str, Expr], dict[str, int]], Stmt]


@dataclass(slots=True)
class _Packed:
    """A pack: the array, and the subscripts of an element by the offsets of its axes in the tile."""

    array: Array
    load: Load
    axes: tuple[str, ...]  # the axes it has dimensions for, slowest first; the vector axis is split last
    vector: str
    width: int  # points of the vector axis in a block


@dataclass(slots=True)
class Scanner:
    scop: Scop
    chunks: int  # iterations of a parallel loop that may have private arrays
    workspace: int
    arrays: list[Array] = field(default_factory=list[Array])
    count: int = 0

    def __post_init__(self) -> None:
        program = self.scop.program
        self.stages: dict[str, Stage] = {s.name: s for s in program.stages}
        self.bodies = dict(stage_bodies(program))
        self.boxes = {b.name: b.box for b in program.buffers}
        self.dtypes = {b.name: b.dtype for b in program.buffers}
        self.func_buffers = dict(program.func_buffers)

    stages: dict[str, Stage] = field(init=False)
    bodies: dict[str, Expr] = field(init=False)
    boxes: dict[str, "object"] = field(init=False)
    dtypes: dict[str, "object"] = field(init=False)
    func_buffers: dict[str, str] = field(init=False)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}.{self.count}"

    # Regions.

    def region(self, r: Region, t: RegionTiling) -> Stmt:
        if not r.axes:
            return block(self.nest(n, x, {}, None) for n, x in zip(r.nests, t.nests, strict=True))

        def body(spans: dict[str, Span], chunk: str | None) -> Stmt:
            return block(self.nest(n, x, spans, chunk) for n, x in zip(r.nests, t.nests, strict=True))

        tiles = dict(zip((a.name for a in r.axes), t.tiles, strict=True))
        private = any(x.packs for x in t.nests)
        return self.tiled(r.axes, tiles, len(r.axes) if t.parallel else 0, private, body)

    def tiled(
        self,
        axes: Sequence[Axis],
        tiles: Mapping[str, int],
        parallel: int,
        private: bool,
        body: Callable[[dict[str, Span], str | None], Stmt],
    ) -> Stmt:
        """Loops over the cache tiles of axes, the first `parallel` of them as one parallel loop."""
        spans: dict[str, Span] = {}
        loops: list[tuple[str, int]] = []
        for a in axes:
            size = tiles[a.name]
            n = -(-a.extent // size)
            if n <= 1:
                spans[a.name] = Span(ZERO, a.extent, a.extent)
                loops.append(("", 1))
                continue
            var = self.name(a.name)
            rest = a.extent - (n - 1) * size
            last = EQ(Variable(var), IntImm(n - 1)) if rest != size else None
            spans[a.name] = Span(Mul(Variable(var), IntImm(size)), size, rest, last)
            loops.append((var, n))
        outer = [(v, n) for v, n in loops[:parallel] if v]
        serial = [(v, n) for v, n in loops[parallel:] if v]
        tasks = math.prod(n for _, n in outer)

        def inside(chunk: str | None) -> Stmt:
            s = body(spans, chunk)
            for v, n in reversed(serial):
                s = For(v, ZERO, IntImm(n), 1, LoopKind.SERIAL, s)
            return s

        if tasks <= 1:
            return inside(None)
        if len(outer) == 1 and (not private or tasks <= self.chunks):
            (v, n) = outer[0]
            return For(v, ZERO, IntImm(n), 1, LoopKind.PARALLEL, inside(v))
        chunks = min(tasks, self.chunks)
        chunk, task = self.name("chunk"), self.name("task")
        s = inside(chunk)
        rest = Variable(task)
        step = tasks
        for v, n in reversed(outer):
            step //= n
        place = 1
        for v, n in reversed(outer):
            index: Expr = FloorDiv(rest, IntImm(place)) if place > 1 else rest
            if place * n < tasks:
                index = FloorMod(index, IntImm(n))
            place *= n
            s = For(v, index, Add(index, IntImm(1)), 1, LoopKind.SERIAL, s)
        c = Variable(chunk)
        low = FloorDiv(Mul(c, IntImm(tasks)), IntImm(chunks))
        high = FloorDiv(Mul(Add(c, IntImm(1)), IntImm(tasks)), IntImm(chunks))
        if tasks == chunks:
            low, high = c, Add(c, IntImm(1))
        s = For(task, low, high, 1, LoopKind.SERIAL, s)
        return For(chunk, ZERO, IntImm(chunks), 1, LoopKind.PARALLEL, s)

    # Nests.

    def nest(self, n: Nest, t: Tiling, given: Mapping[str, Span], chunk: str | None) -> Stmt:
        """A nest inside the region whose axes have these spans."""
        own = [a for name in t.order for a in n.axes if a.name == name and a.name not in given]
        tiles = {a.name: t.tiles[a.name].cache for a in own}

        def body(spans: dict[str, Span], inner: str | None) -> Stmt:
            return self.cache_tile(n, t, {**given, **spans}, chunk or inner)

        return self.tiled(own, tiles, 0 if given else t.parallel, bool(t.packs), body)

    def cache_tile(self, n: Nest, t: Tiling, spans: dict[str, Span], chunk: str | None) -> Stmt:
        """All phases over one cache tile; a blocked phase splits the nest into before, blocks, after."""
        blocked = next((i for i, p in enumerate(t.phases) if p.block is not None), None)
        if blocked is None:
            packs, copies = self.packs(n, t, spans, {}, chunk)
            return block([*copies, self.register_tiles(n, t, spans, {}, packs)])
        parts: list[Stmt] = []
        for low, high in ((0, blocked), (blocked, blocked + 1), (blocked + 1, len(n.phases))):
            if low == high:
                continue
            part = Nest(n.axes, n.phases[low:high])
            tiling = replace(t, phases=t.phases[low:high])
            if low != blocked:
                tiling = replace(tiling, packs=())
                parts.append(self.register_tiles(part, tiling, spans, {}, {}))
                continue
            axis, size = part.phases[0].axes[0], tiling.phases[0].block
            assert size is not None
            whole, rest = divmod(axis.extent, size)
            var = self.name(axis.name)
            for count, start, extent in ((whole, None, size), (1 if rest else 0, whole * size, rest)):
                if not count:
                    continue
                origin: Expr = Mul(Variable(var), IntImm(size)) if start is None else IntImm(start)
                cut = {axis.name: Span(origin, extent, extent)}
                packs, copies = self.packs(part, tiling, spans, cut, chunk)
                s = block([*copies, self.register_tiles(part, tiling, spans, cut, packs)])
                parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
        return block(parts)

    # Register tiles.

    def register_tiles(
        self,
        n: Nest,
        t: Tiling,
        spans: Mapping[str, Span],
        cut: Mapping[str, Span],
        packs: Mapping[Pack, _Packed],
    ) -> Stmt:
        """Loops over the register tiles of a cache tile; `cut` are the blocks of phase axes."""
        plan = promotion(self.scop, n)
        axes = {a.name: a for a in n.axes}

        def level(names: Sequence[str], local: dict[str, Expr], extents: dict[str, int]) -> Stmt:
            if not names:
                return self.register_tile(n, t, spans, cut, packs, plan, local, extents)
            name, rest = names[0], names[1:]
            span, size = spans[name], min(t.tiles[name].register, axes[name].extent)
            whole, left = divmod(span.extent, size)
            parts: list[Stmt] = []
            var = self.name(name)
            count: Expr = IntImm(whole)
            if not span.whole:
                # Register tiles that fit into the last cache tile, which may be fewer.
                end = Sub(IntImm(axes[name].extent), span.origin)
                count = Min(count, FloorDiv(end, IntImm(size)))
            if whole:
                inner = level(
                    rest, {**local, name: Mul(Variable(var), IntImm(size))}, {**extents, name: size}
                )
                if whole == 1 and span.whole:
                    inner = level(rest, {**local, name: ZERO}, {**extents, name: size})
                    parts.append(inner)
                else:
                    parts.append(For(var, ZERO, count, 1, LoopKind.SERIAL, inner))
            if span.whole:
                if left:
                    at = {**local, name: IntImm(whole * size)}
                    parts.append(level(rest, at, {**extents, name: left}))
            else:
                if left:
                    raise InternalError("a cache tile is not a multiple of its register tile")
                short = span.rest % size
                if short:
                    assert span.last is not None
                    at = {**local, name: IntImm(span.rest - short)}
                    parts.append(If(span.last, level(rest, at, {**extents, name: short})))
            return block(parts)

        order = [*t.inner, *(a.name for a in n.axes if a.name not in t.inner)]
        return level(order, {}, {})

    def register_tile(
        self,
        n: Nest,
        t: Tiling,
        spans: Mapping[str, Span],
        cut: Mapping[str, Span],
        packs: Mapping[Pack, _Packed],
        plan: Promotion,
        local: Mapping[str, Expr],
        extents: Mapping[str, int],
    ) -> Stmt:
        tile = _RegisterTile(self, n, t, spans, cut, packs, dict(local), dict(extents))
        parts = [tile.phase(p, x) for p, x in zip(n.phases, t.phases, strict=True)]
        buffers = plan.buffers | tile.partials
        body = block(parts)
        return Promote(frozenset(buffers), plan.dead | frozenset(tile.partials), body) if buffers else body

    # Packs.

    def packs(
        self, n: Nest, t: Tiling, spans: Mapping[str, Span], cut: Mapping[str, Span], chunk: str | None
    ) -> tuple[dict[Pack, _Packed], list[Stmt]]:
        """The packed copies of a cache tile (of one block of the blocked axis), and the loops that fill
        them."""
        made: dict[Pack, _Packed] = {}
        copies: list[Stmt] = []
        for p in t.packs:
            phase = next((x for x in n.phases if p.statement in x.statements), None)
            if phase is None:
                continue
            packed, copy = self.pack(n, t, phase, p, spans, cut, chunk)
            made[p] = packed
            copies.append(copy)
        return made, copies

    def pack(
        self,
        n: Nest,
        t: Tiling,
        phase: Phase,
        p: Pack,
        spans: Mapping[str, Span],
        cut: Mapping[str, Span],
        chunk: str | None,
    ) -> tuple[_Packed, Stmt]:
        stage = self.stages[p.statement]
        load = _loads(self.bodies[p.statement])[p.read]
        names = {v for e in load.subscripts for v in _variables(e)}
        axes = [a for a in (*n.axes, *phase.axes) if a.vars.get(p.statement) in names]
        vector = next(a for a in axes if a.name in t.tiles and t.tiles[a.name].lanes > 1)
        spans = {**{a.name: Span(ZERO, a.extent, a.extent) for a in phase.axes}, **spans, **cut}
        width = min(t.tiles[vector.name].register, vector.extent)
        others = [a for a in axes if a is not vector]
        # Short rows of the source first, so that the copy reads along them.
        extents = [spans[a.name].extent for a in others]
        blocks = -(-spans[vector.name].extent // width)
        shape = (blocks, *extents, width)
        dtype = load.dtype
        size = math.prod(shape) * dtype.itemsize
        stride = -(-size // ALIGNMENT) * ALIGNMENT
        array = next((a for a in self.arrays if a.name == f"{load.buffer}.{p.statement}.{p.read}"), None)
        if array is None:
            array = Array(
                f"{load.buffer}.{p.statement}.{p.read}", dtype, tuple(map(IntImm, shape)), "private",
                IntImm(self.workspace), (), chunk, stride,
            )  # fmt: skip
            self.workspace += stride * (self.chunks if chunk is not None else 1)
            self.arrays.append(array)
        packed = _Packed(array, load, tuple(a.name for a in others), vector.name, width)
        # The copy: for each block of lanes, the other axes, lanes innermost.
        span = spans[vector.name]

        def fill(b: Expr, lanes: int) -> Stmt:
            variables = {a.name: self.name(a.name) for a in others}
            lane = self.name(vector.name)
            at: dict[str, Expr] = {a.name: Variable(variables[a.name]) for a in others}
            offset = simplify(Add(Mul(b, IntImm(width)), Variable(lane)), exact=True)
            point: dict[str, Expr] = {}
            for a in axes:
                inside = offset if a is vector else at[a.name]
                point[a.vars[p.statement]] = simplify(
                    Add(Add(IntImm(a.min), spans[a.name].origin), inside), exact=True
                )
            value = substitute(load, dict(point))
            value = replace(load, subscripts=tuple(simplify(e, exact=True) for e in value.subscripts))  # type: ignore[union-attr]
            target = (b, *(at[a.name] for a in others), Variable(lane))
            everywhere = tuple(point.get(v.name, ZERO) for v in stage.domain.vars)
            copy: Stmt = Compute(
                f"{stage.name}.pack", array.name, target, None, value, everywhere, f"pack {load.buffer}"
            )
            along = self.contiguous(load, axes, p.statement)
            lanes_loops = _vector_loops(lane, lanes, t.tiles[vector.name].lanes, self.name, copy)
            if along is None or along is vector:
                s = lanes_loops
                for a in reversed(others):
                    s = For(variables[a.name], ZERO, IntImm(spans[a.name].extent), 1, LoopKind.SERIAL, s)
                return s
            # Lanes lie a stride apart, and another axis is contiguous: move blocks of rows.
            var = variables[along.name]
            extent = spans[along.name].extent
            full, left = divmod(extent, _TRANSPOSED)
            parts: list[Stmt] = []
            for first in range(0, lanes, t.tiles[vector.name].lanes):
                columns = min(t.tiles[vector.name].lanes, lanes - first)

                def rows(low: Expr, high: Expr, first: int = first, columns: int = columns) -> Stmt:
                    inner = For(lane, IntImm(first), IntImm(first + columns), 1, LoopKind.VECTOR, copy)
                    return For(var, low, high, 1, LoopKind.TRANSPOSED, inner)

                if full:
                    step = self.name(along.name)
                    start = Mul(Variable(step), IntImm(_TRANSPOSED))
                    body = rows(start, Add(start, IntImm(_TRANSPOSED)))
                    parts.append(For(step, ZERO, IntImm(full), 1, LoopKind.SERIAL, body))
                if left:
                    parts.append(rows(IntImm(full * _TRANSPOSED), IntImm(extent)))
            s = block(parts)
            for a in reversed(others):
                if a is not along:
                    s = For(variables[a.name], ZERO, IntImm(spans[a.name].extent), 1, LoopKind.SERIAL, s)
            return s

        parts: list[Stmt] = []
        whole, left = divmod(span.extent, width)
        var = self.name(vector.name)
        count: Expr = IntImm(whole)
        if not span.whole:
            count = Min(count, FloorDiv(Sub(IntImm(vector.extent), span.origin), IntImm(width)))
        if whole:
            parts.append(For(var, ZERO, count, 1, LoopKind.SERIAL, fill(Variable(var), width)))
        short = left if span.whole else span.rest % width
        if short:
            at = IntImm((span.extent if span.whole else span.rest) // width)
            s = fill(at, short)
            parts.append(s if span.whole or span.last is None else If(span.last, s))
        return packed, block(parts)

    def contiguous(self, load: Load, axes: Sequence[Axis], statement: str) -> Axis | None:
        """The axis along which the source's elements are neighbours."""
        from tc.ir.simplify import linear_terms

        if not load.subscripts:
            return None
        terms, _ = linear_terms(load.subscripts[-1])
        names = {e.name for e, k in terms.items() if isinstance(e, Variable) and k == 1}
        return next((a for a in axes if a.vars[statement] in names), None)


@dataclass(slots=True)
class _RegisterTile:
    """The phases of one register tile, whose axes have these constant extents."""

    scanner: Scanner
    nest: Nest
    tiling: Tiling
    spans: Mapping[str, Span]
    cut: Mapping[str, Span]
    packs: Mapping[Pack, _Packed]
    local: dict[str, Expr]  # offset of the register tile in the cache tile
    extents: dict[str, int]
    partials: set[str] = field(default_factory=set[str])

    def phase(self, p: Phase, t: PhaseTile) -> Stmt:
        if not p.axes:
            return block(self.points(s, {}, None) for s in p.statements)
        vector = next((a for a in p.axes if a.name == t.vector), None)
        partial = {
            s: self.partial(s, t) for s in p.statements if vector is not None and s in vector.reductions
        }
        before = [self.fill(s, a, t) for s, a in partial.items()]
        after = [self.combine(s, a, t) for s, a in partial.items()]
        # The vector axis runs innermost, else the last axis.
        axes = [a for a in p.axes if a is not vector]
        last = vector if vector is not None else axes.pop()
        return block([*before, self.loops(p, t, axes, last, {}, partial), *after])

    def extent(self, a: Axis) -> int:
        return self.cut[a.name].extent if a.name in self.cut else a.extent

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
            var = self.scanner.name(a.name)
            inner = self.loops(p, t, axes[1:], last, {**at, a.name: Variable(var)}, partial)
            return For(var, ZERO, IntImm(self.extent(a)), 1, LoopKind.SERIAL, inner)
        if t.vector is None:
            return self.unrolled(p, last, t.unroll, at)
        step = t.lanes * t.accumulators
        whole, rest = divmod(self.extent(last), step)
        parts: list[Stmt] = []
        if whole:
            var = self.scanner.name(last.name)
            s = self.vectors(p, last, at, Mul(Variable(var), IntImm(step)), step, t, partial)
            parts.append(For(var, ZERO, IntImm(whole), 1, LoopKind.SERIAL, s))
        if rest:
            parts.append(self.vectors(p, last, at, IntImm(whole * step), rest, t, partial))
        return block(parts)

    def unrolled(self, p: Phase, last: Axis, unroll: int, at: dict[str, Expr]) -> Stmt:
        whole, rest = divmod(self.extent(last), unroll)
        parts: list[Stmt] = []
        for count, start, extent in ((whole, None, unroll), (1 if rest else 0, whole * unroll, rest)):
            if not count:
                continue
            var, u = self.scanner.name(last.name), self.scanner.name(last.name)
            base: Expr = Mul(Variable(var), IntImm(unroll)) if start is None else IntImm(start)
            offset = simplify(Add(base, Variable(u)), exact=True) if extent > 1 else base
            s = block(self.points(x, {**at, last.name: offset}, None) for x in p.statements)
            if extent > 1:
                s = For(u, ZERO, IntImm(extent), 1, LoopKind.UNROLLED, s)
            parts.append(For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if start is None else s)
        return block(parts)

    def vectors(
        self, p: Phase, last: Axis, at: dict[str, Expr], base: Expr, extent: int, t: PhaseTile,
        partial: Mapping[str, Array],
    ) -> Stmt:  # fmt: skip
        """`extent` points of the vector axis: whole vectors, then a short one."""
        parts: list[Stmt] = []
        q, r = divmod(extent, t.lanes)
        u, lane = self.scanner.name(last.name), self.scanner.name(last.name)
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
        return block(parts)

    # Points of the register tile.

    def points(
        self,
        statement: str,
        at: dict[str, Expr],
        partial: tuple[Expr, Expr, Array | None] | None,
        lane: str | None = None,
        lanes: int = 1,
        width: int = 0,
    ) -> Stmt:
        """All points of the register tile of one statement; `lane` is a vector loop of its phase."""

        def innermost(offsets: dict[str, Expr]) -> Stmt:
            s = self.instance(statement, offsets, at, partial)
            return s if lane is None else For(lane, ZERO, IntImm(lanes), 1, LoopKind.VECTOR, s, width)

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
                var = self.scanner.name(a.name)
                inner = level(rest[1:], {**offsets, a.name: Variable(var)})
                return For(var, ZERO, IntImm(n), 1, LoopKind.UNROLLED, inner)
            if vector is None:
                return make(offsets)
            lanes = self.tiling.tiles[vector.name].lanes
            var = self.scanner.name(vector.name)
            s = make({**offsets, vector.name: Variable(var)})
            return _vector_loops(var, self.extents[vector.name], lanes, self.scanner.name, s)

        return level([a for a in axes if a is not vector], {})

    def instance(
        self,
        statement: str,
        offsets: Mapping[str, Expr],
        at: Mapping[str, Expr],
        partial: tuple[Expr, Expr, Array | None] | None,
    ) -> Stmt:
        scanner = self.scanner
        stage = scanner.stages[statement]
        place: dict[str, Expr] = {}  # axis -> offset from its first point
        inside: dict[str, Expr] = {}  # axis -> offset in the cache tile
        point: dict[str, Expr] = {}
        for a in self.nest.axes:
            if statement in a.vars:
                inside[a.name] = Add(self.local[a.name], offsets[a.name])
                place[a.name] = Add(self.spans[a.name].origin, inside[a.name])
                point[a.vars[statement]] = Add(IntImm(a.min), place[a.name])
        for p in self.nest.phases:
            for a in p.axes:
                if statement in a.vars:
                    inside[a.name] = at[a.name]
                    start = self.cut[a.name].origin if a.name in self.cut else ZERO
                    point[a.vars[statement]] = Add(Add(IntImm(a.min), start), at[a.name])
        point = {v: simplify(e, exact=True) for v, e in point.items()}
        where = tuple(point[v] for v in stage.domain.names)
        body = scanner.bodies[statement]
        reads = {x.read: packed for x, packed in self.packs.items() if x.statement == statement}
        if reads:
            body = self.from_packs(body, reads)
        env: dict[str, Expr] = {**point, **{f"@{n}": simplify(e, exact=True) for n, e in inside.items()}}
        value = simplify(substitute(body, env))
        buffer = scanner.func_buffers[stage.func]
        if partial is not None and partial[2] is not None:
            number, lane, array = partial
            target = (*(offsets[n] for n in self.tile_axes(statement)), number, lane)
            s: Stmt = Compute(stage.name, array.name, target, stage.op, value, where, stage.text)
        else:
            subscripts = zero_based((substitute(x, point) for x in stage.args), scanner.boxes[buffer])  # type: ignore[arg-type]
            s = Compute(stage.name, buffer, subscripts, stage.op, value, where, stage.text)
        if stage.domain.conditions:
            tests = [simplify(substitute(inline_lets(c), point), exact=True) for c in stage.domain.conditions]
            s = If(conjunction(tests), s)
        return s

    def from_packs(self, body: Expr, reads: Mapping[int, _Packed]) -> Expr:
        """A value with some of its reads turned to packed copies, by offsets `@axis` in the cache tile."""
        loads = _loads(body)
        wanted = {id(loads[i]): p for i, p in reads.items()}

        def visit(e: Expr) -> Expr:
            p = wanted.get(id(e))
            if p is None:
                return rebuild(e, visit)
            v = Variable(f"@{p.vector}")
            width = IntImm(p.width)
            subscripts = (FloorDiv(v, width), *(Variable(f"@{n}") for n in p.axes), FloorMod(v, width))
            return Load(p.array.name, subscripts, p.load.dtype)

        return visit(body)

    # Partial results of reductions in lanes.

    def tile_axes(self, statement: str) -> list[str]:
        """The axes that a statement has more than one point of in a register tile."""
        return [a.name for a in self.nest.axes if statement in a.vars and self.extents[a.name] > 1]

    def partial(self, statement: str, t: PhaseTile) -> Array:
        scanner = self.scanner
        stage = scanner.stages[statement]
        buffer = scanner.func_buffers[stage.func]
        dtype = accumulator(scanner.dtypes[buffer], scanner.bodies[statement].dtype)  # type: ignore[arg-type]
        shape = (*(self.extents[n] for n in self.tile_axes(statement)), t.accumulators, t.lanes)
        array = Array(
            scanner.name(buffer), dtype, tuple(map(IntImm, shape)), "register", IntImm(0), partial_of=buffer
        )
        scanner.arrays.append(array)
        self.partials.add(array.name)
        return array

    def fill(self, statement: str, array: Array, t: PhaseTile) -> Stmt:
        stage = self.scanner.stages[statement]
        assert stage.op is not None
        value = imm(neutral(stage.op, array.dtype), array.dtype)
        return self.over_partials(statement, array, t, 0, None, value, "")

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
        u, lane = self.scanner.name("u"), self.scanner.name("lane")

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
        scanner = self.scanner
        stage = scanner.stages[statement]
        buffer = scanner.func_buffers[stage.func]
        lane = scanner.name("lane")

        def make(offsets: dict[str, Expr]) -> Stmt:
            tile = tuple(offsets[n] for n in self.tile_axes(statement))
            point = {
                a.vars[statement]: Add(
                    IntImm(a.min), Add(self.spans[a.name].origin, Add(self.local[a.name], offsets[a.name]))
                )
                for a in self.nest.axes
                if statement in a.vars
            }
            subscripts = zero_based((substitute(x, dict(point)) for x in stage.args), scanner.boxes[buffer])  # type: ignore[arg-type]
            v = Load(array.name, (*tile, ZERO, Variable(lane)), array.dtype)
            s = Compute(f"{statement}.partial", buffer, subscripts, stage.op, v, (), stage.text)
            return For(lane, ZERO, IntImm(t.lanes), 1, LoopKind.VECTOR, s)

        return block(
            [
                self.over_partials(statement, array, t, 1, stage.op, None, stage.text),
                self.each_point(statement, make),
            ]
        )


def neutral(op: Op, dtype: "object") -> float | int:
    """The value that an update leaves alone."""
    from tc.dtypes import DType

    assert isinstance(dtype, DType)
    if op in ("+", "*"):
        return 0 if op == "+" else 1
    if dtype.is_float:
        return math.inf if op == "min" else -math.inf
    if dtype.is_bool:
        return 1 if op == "min" else 0
    if op == "max":
        return -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    return (1 << (dtype.bits - (1 if dtype.is_signed else 0))) - 1


def block(parts: "Sequence[Stmt] | object") -> Stmt:
    flat: list[Stmt] = []
    for p in parts:  # type: ignore[attr-defined]
        flat += p.body if isinstance(p, Block) else (p,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def _vector_loops(var: str, extent: int, lanes: int, name: Callable[[str], str], body: Stmt) -> Stmt:
    """`for var in [0, extent)` in vectors of `lanes`, the last one shorter."""
    q, r = divmod(extent, lanes)
    parts: list[Stmt] = []
    if q:
        if q == 1 and not r:
            return For(var, ZERO, IntImm(lanes), 1, LoopKind.VECTOR, body)
        u = name(var)
        start = Mul(Variable(u), IntImm(lanes))
        inner = For(var, start, Add(start, IntImm(lanes)), 1, LoopKind.VECTOR, body)
        parts.append(For(u, ZERO, IntImm(q), 1, LoopKind.UNROLLED, inner))
    if r:
        parts.append(For(var, IntImm(q * lanes), IntImm(extent), 1, LoopKind.VECTOR, body))
    return block(parts)


def _variables(e: Expr) -> set[str]:
    from tc.ir.expr import variables

    return variables(e)


def _loads(e: Expr) -> list[Load]:
    """The reads of a value in evaluation order (as tc.poly.accesses numbers them)."""
    out: list[Load] = []

    def visit(x: Expr) -> Expr:
        if isinstance(x, Load):
            for s in x.subscripts:
                visit(s)
            out.append(x)
            return x
        return rebuild(x, visit)

    visit(e)
    return out


__all__ = ["Call", "Kernel", "Scanner", "Tile", "block"]
