"""Regions and nests: cache tiles in parallel, blocks of reductions, register tiles and what is left over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.errors import InternalError
from tc.ir.expr import EQ, Add, Expr, FloorDiv, FloorMod, IntImm, Min, Mul, Sub, Variable
from tc.ir.loops import For, If, LoopKind, Promote, Stmt
from tc.poly.plan import Axis, Nest, Pack, Region, RegionTiling, Tiling
from tc.poly.scan.builder import ZERO, Builder, Span, block
from tc.poly.scan.packs import Packed
from tc.poly.scan.packs import packs as fill_packs
from tc.poly.scan.register_tile import RegisterTile
from tc.poly.storage import Promotion, promotion


@dataclass(slots=True)
class Scanner:
    """Loops of regions, one after the other; `builder` collects the arrays they need."""

    builder: Builder

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
            var = self.builder.name(a.name)
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
        if len(outer) == 1 and (not private or tasks <= self.builder.chunks):
            (v, n) = outer[0]
            return For(v, ZERO, IntImm(n), 1, LoopKind.PARALLEL, inside(v))
        chunks = min(tasks, self.builder.chunks)
        chunk, task = self.builder.name("chunk"), self.builder.name("task")
        s = inside(chunk)
        rest = Variable(task)
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
            whole, rest = divmod(axis.extent, size)
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
        """Loops over the register tiles of a cache tile; `cut` are the blocks of phase axes."""
        plan = promotion(self.builder.scop, n)
        axes = {a.name: a for a in n.axes}

        def level(names: Sequence[str], local: dict[str, Expr], extents: dict[str, int]) -> Stmt:
            if not names:
                return self.register_tile(n, t, spans, cut, packs, plan, local, extents)
            name, rest = names[0], names[1:]
            span, size = spans[name], min(t.tiles[name].register, axes[name].extent)
            whole, left = divmod(span.extent, size)
            parts: list[Stmt] = []
            var = self.builder.name(name)
            count: Expr = IntImm(whole)
            if not span.whole:
                # Register tiles that fit into the last cache tile, which may be fewer.
                end = Sub(IntImm(axes[name].extent), span.origin)
                count = Min(count, FloorDiv(end, IntImm(size)))
            if whole:
                single = whole == 1 and span.whole
                at: Expr = ZERO if single else Mul(Variable(var), IntImm(size))
                inner = level(rest, {**local, name: at}, {**extents, name: size})
                parts.append(inner if single else For(var, ZERO, count, 1, LoopKind.SERIAL, inner))
            if span.whole:
                if left:
                    start = {**local, name: IntImm(whole * size)}
                    parts.append(level(rest, start, {**extents, name: left}))
            else:
                if left:
                    raise InternalError("a cache tile is not a multiple of its register tile")
                short = span.rest % size
                if short:
                    assert span.last is not None
                    start = {**local, name: IntImm(span.rest - short)}
                    parts.append(If(span.last, level(rest, start, {**extents, name: short})))
            return block(parts)

        order = [*t.inner, *(a.name for a in n.axes if a.name not in t.inner)]
        return level(order, {}, {})

    def register_tile(
        self,
        n: Nest,
        t: Tiling,
        spans: Mapping[str, Span],
        cut: Mapping[str, Span],
        packs: Mapping[Pack, Packed],
        plan: Promotion,
        local: Mapping[str, Expr],
        extents: Mapping[str, int],
    ) -> Stmt:
        tile = RegisterTile(self.builder, n, t, spans, cut, packs, dict(local), dict(extents))
        parts = [tile.phase(p, x) for p, x in zip(n.phases, t.phases, strict=True)]
        buffers = plan.buffers | tile.partials
        body = block(parts)
        return Promote(frozenset(buffers), plan.dead | frozenset(tile.partials), body) if buffers else body
