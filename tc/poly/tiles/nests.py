"""Loops of regions and nests: parallel cache tiles, blocks of reductions, register tiles and remainders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.errors import InternalError
from tc.ir.expr import EQ, GT, ZERO, Add, Expr, FloorDiv, FloorMod, IntImm, Min, Mul, Sub, Variable
from tc.ir.loops import For, If, LoopKind, Promote, Stmt
from tc.ir.simplify import simplify
from tc.poly.register_promotion import Promotion, promotion
from tc.poly.tile_plan import Axis, CacheTile, Nest, Pack, Region, RegionTiling, Tiling
from tc.poly.tiles.alignment import partial_line_results, shifted
from tc.poly.tiles.builder import Builder, Span, axis_span, block, defined, named, points_of
from tc.poly.tiles.dynamic import (
    Name,
    Part,
    Share,
    Tiles,
    cache_tiles,
    ceil_div,
    register_tiles,
    share_tiles,
)
from tc.poly.tiles.pack_filling import fill_packs
from tc.poly.tiles.packs import Packed
from tc.poly.tiles.phase_loops import phase_loops
from tc.poly.tiles.prefetch import longest_phase, prefetch_next_results
from tc.poly.tiles.register_tile import RegisterTile


@dataclass(slots=True)
class TiledLoops:
    """Emits the loops of regions; `builder` collects the arrays that they need."""

    builder: Builder

    def region(self, r: Region, t: RegionTiling) -> Stmt:
        """The loops of a region: those over its own cache tiles, and in them its nests."""
        if not r.axes:
            return block(self.nest(n, x, {}, None) for n, x in zip(r.nests, t.nests, strict=True))

        def body(spans: dict[str, Span], chunk: str | None) -> Stmt:
            return block(self.nest(n, x, spans, chunk) for n, x in zip(r.nests, t.nests, strict=True))

        tiles = {a.name: (size, t.step) for a, size in zip(r.axes, t.tiles, strict=True)}
        private = any(x.packs for x in t.nests)
        parallel = len(r.axes) if t.parallel else 0
        return self.tiled(r.axes, tiles, parallel, private, body, t.tasks, t.most)

    def tiled(
        self,
        axes: Sequence[Axis],
        tiles: Mapping[str, tuple[int, int]],
        parallel: int,
        private: bool,
        body: Callable[[dict[str, Span], str | None], Stmt],
        tasks: Expr | None,
        most: int | None = None,
    ) -> Stmt:
        """Loops over the cache tiles of axes, the first `parallel` of them as one parallel loop.

        `tiles` has the length of a cache tile and of a register tile by axis.  Axes of which a tile is a
        share divide `tasks`; a share has at most `most` points.  `private`: the body has private arrays.
        """
        tiled: list[tuple[Axis, Tiles]] = []
        for a in axes:
            size, register = tiles[a.name]
            if tasks is not None and size == CacheTile.SHARE:
                name = self.builder.name("tasks")
                t = self.axis_tiles(a, Share(Variable(name), register, most))
                t = replace(t, before=((name, tasks), *t.before))
                tasks = Variable(name)
            else:
                t = self.axis_tiles(a, size)
            tiled.append((a, t))
            if tasks is not None and t.loop is not None:  # the tasks that inner axes have to make
                tasks = ceil_div(tasks, t.loop[1])
        spans = {a.name: t.span for a, t in tiled}
        outer = [t.loop for _, t in tiled[:parallel] if t.loop is not None]
        serial = [t.loop for _, t in tiled[parallel:] if t.loop is not None]

        def inside(chunk: str | None) -> Stmt:
            s = defined([x for _, t in tiled for x in t.inside], body(spans, chunk))
            for v, n in reversed(serial):
                s = For(v, ZERO, n, 1, LoopKind.SERIAL, s)
            return s

        return defined([x for _, t in tiled for x in t.before], self.tasks(outer, private, inside))

    def axis_tiles(self, a: Axis, size: int | Share) -> Tiles:
        """The cache tiles of an axis; of constant extents the last one has a constant length, too."""
        if a.size is not None or not isinstance(size, int) or size == CacheTile.WHOLE:
            return cache_tiles(self.builder, a, size)
        n = -(-a.typical_extent // size)
        if n <= 1:
            return Tiles(axis_span(a))
        var = self.builder.name(a.name)
        rest = a.typical_extent - (n - 1) * size
        last = EQ(Variable(var), IntImm(n - 1)) if rest != size else None
        return Tiles(Span(Mul(Variable(var), IntImm(size)), size, rest, last), (var, IntImm(n)))

    def tasks(self, outer: Sequence[Name], private: bool, inside: Callable[[str | None], Stmt]) -> Stmt:
        """The loops `outer`, collapsed to one parallel loop around what `inside` returns for its iterator.

        With `private` arrays the loop has a bounded number of iterations (chunks), each of which runs several
        consecutive tasks.
        """
        if not outer:
            return inside(None)
        builder, most = self.builder, self.builder.chunks
        tasks, names = _product([n for _, n in outer]), list[Name]()
        if len(outer) == 1 and (not private or (isinstance(tasks, IntImm) and tasks.value <= most)):
            ((v, n),) = outer
            return For(v, ZERO, n, 1, LoopKind.PARALLEL, inside(v))
        chunk, task = builder.name("chunk"), builder.name("task")
        if isinstance(tasks, IntImm):
            chunks: Expr = IntImm(min(tasks.value, most))
        else:
            names = [(builder.name("tasks"), tasks)]
            tasks = Variable(names[0][0])
            names.append((builder.name("chunks"), Min(tasks, IntImm(most))))
            chunks = Variable(names[1][0])
        s = inside(chunk)
        rest = Variable(task)
        place: Expr = IntImm(1)
        for i, (v, n) in enumerate(reversed(outer), start=1):
            index: Expr = FloorDiv(rest, place) if place != IntImm(1) else rest
            if i < len(outer):
                index = FloorMod(index, n)
            place = _product([place, n])
            s = named(v, index, s)
        s = For(task, *_run(Variable(chunk), tasks, chunks), 1, LoopKind.SERIAL, s)
        return defined(names, For(chunk, ZERO, chunks, 1, LoopKind.PARALLEL, s))

    # Nests.

    def nest(self, n: Nest, t: Tiling, given: Mapping[str, Span], chunk: str | None) -> Stmt:
        """The loops of a nest inside of its region, whose axes have the spans `given`."""
        own = [a for name in t.order for a in n.axes if a.name == name and a.name not in given]
        tiles = {a.name: (t.tiles[a.name].cache, t.tiles[a.name].register) for a in own}

        def body(spans: dict[str, Span], inner: str | None) -> Stmt:
            return self.cache_tile(n, t, {**given, **spans}, chunk or inner)

        return self.tiled(own, tiles, 0 if given else t.parallel, bool(t.packs), body, t.tasks, t.most)

    def cache_tile(self, n: Nest, t: Tiling, spans: dict[str, Span], chunk: str | None) -> Stmt:
        """All phases over one cache tile.

        A phase in blocks splits the nest: the phases before it, the blocks, the phases after it.
        """
        blocked = next((i for i, p in enumerate(t.phases) if p.block is not None), None)
        if blocked is None:
            packs, copies = fill_packs(self.builder, n, t, spans, {}, chunk)
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
            if axis.size is not None:
                blocks = cache_tiles(self.builder, axis, size)
                assert blocks.loop is not None
                cut = {axis.name: blocks.span}
                packs, copies = fill_packs(self.builder, part, tiling, spans, cut, chunk)
                s = block([*copies, self.register_tiles(part, tiling, spans, cut, packs)])
                s = defined(blocks.inside, s)
                s = For(blocks.loop[0], ZERO, blocks.loop[1], 1, LoopKind.SERIAL, s)
                parts.append(defined(blocks.before, s))
                continue
            whole, rest = divmod(axis.typical_extent, size)
            var = self.builder.name(axis.name)
            for count, start, extent in ((whole, None, size), (1 if rest else 0, whole * size, rest)):
                if not count:
                    continue
                origin: Expr = Mul(Variable(var), IntImm(size)) if start is None else IntImm(start)
                cut = {axis.name: Span(origin, extent, extent)}
                packs, copies = fill_packs(self.builder, part, tiling, spans, cut, chunk)
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
        packs: Mapping[Pack, Packed],
    ) -> Stmt:
        """Loops over the register tiles of a cache tile; `cut` are the blocks of phases' axes."""
        plan = promotion(self.builder.scop, n)
        axes = {a.name: a for a in n.axes}

        def level(
            names: Sequence[str],
            local: dict[str, Expr],
            extents: dict[str, int],
            axis_parts: Mapping[str, Part],
        ) -> Stmt:
            if not names:
                tile = RegisterTile(self.builder, n, t, spans, cut, packs, local, extents, axis_parts)
                return self.register_tile(tile, plan)
            name, rest = names[0], names[1:]
            span, tile = spans[name], t.tiles[name]
            if shifted_axis is not None and name == shifted_axis.axis.name:

                def after(p: Part, start: Expr = ZERO) -> Stmt:
                    p = replace(p, start=simplify(Add(start, p.start), exact=True))
                    return level(
                        rest, {**local, name: p.start}, {**extents, name: p.size}, {**axis_parts, name: p}
                    )

                self.builder.line_aligned.add(shifted_axis.buffer)
                first = self.builder.name("before")
                short = shifted_axis.before(n, spans, local)
                count = points_of(shifted_axis.axis, span)
                if not span.whole:
                    short = Min(short, count)
                left = Sub(count, Variable(first))
                head = If(GT(Variable(first), ZERO), after(Part(ZERO, shifted_axis.lanes, Variable(first))))
                whole = register_tiles(
                    self.builder,
                    name,
                    left,
                    tile.register,
                    tile.lanes,
                    alone,
                    lambda p: after(p, Variable(first)),
                )
                return named(first, short, block([head, whole]))
            if span.points is not None:

                def one(p: Part) -> Stmt:
                    return level(
                        rest, {**local, name: p.start}, {**extents, name: p.size}, {**axis_parts, name: p}
                    )

                if axes[name].size is None:
                    return share_tiles(self.builder, axes[name], span.points, tile.register, one)
                return register_tiles(self.builder, name, span.points, tile.register, tile.lanes, alone, one)
            parts: list[Stmt] = []
            var = self.builder.name(name)
            if span.whole:
                first = 0
                for whole, size in tile.registers(span.extent):
                    if first and whole > 1:
                        var = self.builder.name(name)
                    at: Expr = IntImm(first)
                    if whole > 1:
                        at = simplify(Add(Mul(Variable(var), IntImm(size)), at), exact=True)
                    inner = level(rest, {**local, name: at}, {**extents, name: size}, axis_parts)
                    loop = For(var, ZERO, IntImm(whole), 1, LoopKind.SERIAL, inner)
                    parts.append(loop if whole > 1 else inner)
                    first += whole * size
                return block(parts)
            size = min(tile.register, axes[name].typical_extent if axes[name].size is None else span.extent)
            whole, left = divmod(span.extent, size)
            if left:
                raise InternalError("a cache tile is not a multiple of its register tile")
            # The last cache tile may have fewer whole register tiles.
            end = Sub(IntImm(axes[name].typical_extent), span.origin)
            inner = level(
                rest, {**local, name: Mul(Variable(var), IntImm(size))}, {**extents, name: size}, axis_parts
            )
            count = Min(IntImm(whole), FloorDiv(end, IntImm(size)))
            parts.append(For(var, ZERO, count, 1, LoopKind.SERIAL, inner))
            short = span.rest % size
            if short:
                assert span.last is not None
                start = {**local, name: IntImm(span.rest - short)}
                parts.append(If(span.last, level(rest, start, {**extents, name: short}, axis_parts)))
            return block(parts)

        alone = sum(a.size is not None and t.tiles[a.name].register > 1 for a in n.axes) == 1
        order = [*t.inner, *(a.name for a in n.axes if a.name not in t.inner)]
        shifted_axis = shifted(self.builder, n, t, order)
        if shifted_axis is None:
            self.builder.partial_line_results.update(partial_line_results(self.builder, n, t, order))
        return level(order, {}, {}, {})

    def register_tile(self, tile: RegisterTile, plan: Promotion) -> Stmt:
        """One register tile: all phases of the nest, with the arrays that live in registers."""
        parts = [phase_loops(tile, p, x) for p, x in zip(tile.nest.phases, tile.tiling.phases, strict=True)]
        buffers = plan.buffers | tile.partials
        body = block([*([] if longest_phase(tile) else prefetch_next_results(tile)), *parts])
        return Promote(frozenset(buffers), plan.dead | frozenset(tile.partials), body) if buffers else body


def _run(c: Expr, tasks: Expr, chunks: Expr) -> tuple[Expr, Expr]:
    """The first task of chunk c, and that after its last one.

    Longer chunks come first: chunks start in order, so no core starts a long one when the others finish.
    """
    if tasks == chunks:
        return c, Add(c, IntImm(1))
    if isinstance(tasks, IntImm) and isinstance(chunks, IntImm):
        each, rest = (IntImm(x) for x in divmod(tasks.value, chunks.value))
    else:
        each, rest = FloorDiv(tasks, chunks), FloorMod(tasks, chunks)

    def before(c: Expr) -> Expr:
        whole = Mul(c, each) if each != IntImm(1) else c
        return Add(whole, Min(c, rest)) if rest != IntImm(0) else whole

    return before(c), before(Add(c, IntImm(1)))


def _product(factors: Sequence[Expr]) -> Expr:
    """The product of trip counts, with constants folded."""
    total: Expr = IntImm(1)
    for f in factors:
        if isinstance(total, IntImm) and isinstance(f, IntImm):
            total = IntImm(total.value * f.value)
        else:
            total = f if total == IntImm(1) else total if f == IntImm(1) else Mul(total, f)
    return total
