"""Ways to deal a region out to blocks and threads.

Neighbouring threads should touch neighbouring elements.  Where that is along an axis of a nest, each thread
has points of its own, several of them if reductions read the same elements for several points; else the
threads of a warp or of a block share what a row is made of.  In a region of several nests, the axes that they
do not share can be dealt out too.  Which of these ways is best is not decided here (choose.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.ir.expr import inline_lets, variables
from tc.ir.loops import MOST_BLOCKS, VECTOR, WARP
from tc.poly.gpu.mapping import SERIAL, AxisMap, NestMap, RegionMap, tiled_axes
from tc.poly.gpu.private_memory import shape
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis, Nest, Phase, Region

from ..cost.neighbours import contiguous, near
from .counts import busy_lanes, even_part, fitting, power_of_two, power_within, tile_count

THREADS = 256  # of a block, unless there is less to do
_RESIDENT = 2048  # threads of a multiprocessor, about
_OWN = 32  # points of a tile of reduction loops
_MANY = 1 << 17  # points: a thread for each without sharing any
_MANY_ROWS = 8192  # a warp for each keeps a GPU busy
_TILES_TRIED = 2
_BUSIER = 1.1  # lanes with points, over those of powers of two, from where other numbers of threads pay
_PART, _MOST_PARTS = "part", 32  # variables of blocks for parts of reductions


@dataclass(frozen=True, slots=True)
class Wanted:
    """What options say: points of tiles, threads (the fastest first), blocks; empty: to be chosen."""

    tile: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    shared: int = 0  # bytes of shared memory that may be used
    little: int = 0  # what a way is tried with, too, if it uses more
    copies: bool = False  # whether it is to be used, also for what is read once
    simpler: int = 0  # how many of the register tiles that would be tried are not
    block: int = THREADS  # threads of a block, a power of two, unless `threads` says it
    unroll: int | None = None
    unroll_copies: bool | None = None
    # Of statements whose results are updated atomically the variables that blocks share out.
    chunks: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]], hash=False)


@dataclass(frozen=True, slots=True)
class Way:
    """`rows`: how many threads share what a row is made of; 0: each has points of its own, along the axis of
    neighbours at most `along` of them, what is left of a block shares reductions if `parts`; a block has at
    most `block` threads.  `steps`: points of a thread along two axes.  `inner`: points of a tile of the axes
    that nests share, all of which each thread has, while their other axes are dealt out; 0: the shared ones
    are.  `across`: neighbours among the threads are so along what is written, and as many points along what
    is read there and then."""

    name: str
    rows: int = 0
    along: int = WARP
    block: int = THREADS
    parts: bool = False
    steps: tuple[int, int] = (1, 1)
    inner: int = 0
    across: bool = False


_ACROSS = Way("32 x 32 points a block", across=True)
_POINT = Way("a point a thread")
_GIVEN = Way("points as options say")
_REGISTER_TILES = (
    Way("8 x 8 points a thread", along=16, steps=(8, 8)),
    Way("4 x 8 points a thread, 128 threads", along=16, steps=(4, 8), block=128),
    Way("4 x 4 points a thread", along=32, steps=(4, 4)),
    Way("2 x 4 points a thread", along=32, steps=(2, 4)),
    Way("2 x 2 points a thread", along=32, steps=(2, 2)),
)
SIMPLEST = len(_REGISTER_TILES)


@dataclass(slots=True)
class _Region:
    """A region being mapped in one way; `shape` are the threads of a block so far."""

    scop: Scop
    region: Region
    wanted: Wanted
    units: int
    names: Mapping[str, str]
    shape: list[int] = field(default_factory=list[int])
    block: int = THREADS  # threads that a block may have

    def ways(self) -> Iterator[Way]:
        """The ways that may pay, the likeliest first: each takes time to look at."""
        nests = self.region.nests
        phases = [p for n in nests for p in n.phases if p.axes]
        shared = tiled_axes(self.region)
        points = self.points_of(shared)
        free = not self.wanted.threads and not self.wanted.tile
        tiles = list(self.register_tiles(shared)) if any(self.reused(n) for n in nests) else []
        few = points < WARP * self.units  # of which a thread each leaves most of a GPU idle
        yield from () if few else tiles
        if phases:
            inner = {a.name for p in phases for a in p.axes}
            along = (contiguous(self.scop, n) for n in nests)
            if any(a is not None and a.name in inner for a in along) or points < _MANY:
                if len(nests) == 1 and points < _MANY_ROWS:
                    yield Way("a block a row", rows=self.wanted.block)
                yield Way("a warp a row", rows=WARP)
            if free and shared and points < _MANY:
                yield Way("threads along points and reductions", along=WARP, parts=True)
        if self.wanted.shared and not self.wanted.tile and self.crossing(shared) is not None:
            yield _ACROSS
        if any(len(n.axes) > len(shared) for n in nests) and shared:
            for size in (1, 4, 16):
                yield Way(f"{size} shared points a block", inner=size)
        yield from tiles if few else ()
        alone = not phases or not free or not few
        if not tiles and (alone or self.wanted.copies):
            several = self.together()
            if not phases and free and points >= several * _RESIDENT * self.units:
                yield Way(f"{several} points a thread", steps=(1, several))
            yield _POINT if free else _GIVEN

    def points_of(self, shared: Sequence[Axis]) -> int:
        """How many points blocks and threads share out, times the chunks of reductions that blocks have."""
        phases = (p for n in self.region.nests for p in n.phases)
        chunks = (math.prod(a.typical_extent for a in self.chunks(p)) for p in phases)
        return math.prod(a.typical_extent for a in shared) * max(chunks, default=1)

    def together(self) -> int:
        """How many points of a thread have operands of 16 bytes: asked for together they keep memory busy."""
        here = {s for n in self.region.nests for s in n.statements}
        used = {a.buffer for s in here for a in self.scop.statement(s).accesses if a.subscripts}
        sizes = [b.dtype.itemsize for b in self.scop.program.buffers if b.name in used]
        return VECTOR // max(sizes, default=VECTOR)

    def register_tiles(self, shared: Sequence[Axis]) -> Iterator[Way]:
        """The largest that leaves blocks for all units, and the next one."""
        points = self.points_of(shared)
        if self.wanted.tile:
            return
        found = 0
        for way in (*_REGISTER_TILES[self.wanted.simpler :], _POINT):
            blocks = points / (min(self.wanted.block, way.block) * math.prod(way.steps))
            if blocks >= self.units / 2 or way.steps == (1, 1):
                yield way
                found += 1
            if found == _TILES_TRIED:
                return

    def mapped(self, way: Way) -> RegionMap:
        nests = self.region.nests
        lead = max(nests, key=lambda n: max((weight(n, s) for s in n.statements), default=0))
        shared = tiled_axes(self.region)
        along = {id(n): contiguous(self.scop, n) for n in nests}
        self.shape = []
        self.block = min(self.wanted.block, way.block)
        axes: dict[str, AxisMap]
        if way.inner:
            axes = self.inner(shared, way)
        elif way.rows:
            axes = self.rows(shared, lead, along[id(lead)], way)
        elif way.across:
            axes = self.crossed(shared)
        else:
            axes = self.points(shared, along[id(lead)], way)
        axes = self.tiled(shared, axes)
        maps = tuple(self.nest(n, axes, along[id(n)], way) for n in nests)
        chunks = max((self.chunks(p) for n in nests for p in n.phases), key=len)
        blocks = [
            (m.block, tile_count(a, m.tile, m.blocks))
            for a in reversed(shared)
            if (m := axes[a.name]).block is not None
        ]
        blocks += [(self.names[f"{_PART}{i}"], a.points) for i, a in enumerate(chunks)]
        threads = tuple((self.names.get(f"t{i}", f"t{i}"), n) for i, n in enumerate(self.shape))
        blocks = tuple((b, n) for b, n in blocks if b)
        return RegionMap(blocks, threads, maps, self.wanted.unroll, self.wanted.unroll_copies)

    def points(self, shared: Sequence[Axis], best: Axis | None, way: Way) -> dict[str, AxisMap]:
        """Each thread has points of its own."""
        order = _first(shared, best)
        alone = sum(a.typical_extent > 1 for a in order) == 1 and not way.parts
        axes = self.dealt(order, order if not way.parts else order[:1], way.along, alone)
        if way.parts and not self.wanted.threads:
            self.shape.append(max(1, self.block // math.prod(self.shape)))
        if way.steps != (1, 1):
            for a, k in zip(self.pair(shared, axes, way.steps), way.steps[::-1], strict=False):
                m = axes[a.name]
                axes[a.name] = replace(m, tile=m.threads * min(k, -(-a.typical_extent // m.threads)))
        return axes

    def crossing(self, shared: Sequence[Axis]) -> tuple[Axis, Axis] | None:
        """The axis along which a statement writes neighbours, and the one along which it reads neighbours
        while the elements that it reads along the first lie apart."""
        for n in self.region.nests:
            for name in n.statements:
                s = self.scop.statement(name)
                written = next((a for a in shared if near(s.write, a.vars.get(name))), None)
                if written is None or written.first is not None:
                    continue
                for access in s.accesses:
                    if access.kind != "read" or access.unknown or not access.subscripts:
                        continue
                    apart = {v for e in access.subscripts[:-1] for v in variables(inline_lets(e))}
                    read = next((a for a in shared if near(access, a.vars.get(name))), None)
                    if read is not None and read is not written and written.vars[name] in apart:
                        return written, read
        return None

    def crossed(self, shared: Sequence[Axis]) -> dict[str, AxisMap]:
        """Square tiles of the axes that are crossed, neighbouring threads along what is written."""
        found = self.crossing(shared)
        assert found is not None
        order = [*found, *(a for a in reversed(shared) if a not in found)]
        axes = self.dealt(order, found, WARP, False)
        _, read = found
        m = axes[read.name]
        axes[read.name] = replace(m, tile=max(m.threads, min(WARP, power_of_two(read.typical_extent))))
        return axes

    def pair(
        self, shared: Sequence[Axis], axes: Mapping[str, AxisMap], steps: tuple[int, int]
    ) -> Sequence[Axis]:
        """The two axes along which points of a thread share most of what they read, the one with more threads
        first; of as many, that along which a block reads less."""
        known = [a for a in shared if a.first is None and a.typical_extent > 1]
        known.sort(key=lambda a: -axes[a.name].threads)
        pairs = list(itertools.combinations(known, 2)) or [tuple(known)]
        pairs += [p[::-1] for p in pairs if len({axes[a.name].threads for a in p}) < len(p)]

        def loads(pair: Sequence[Axis]) -> tuple[float, int]:
            """Elements that the statements of reductions read for a point, and for the points of a block."""
            counts = {
                a.name: min(k, -(-a.typical_extent // axes[a.name].threads))
                for a, k in zip(pair, steps[::-1], strict=False)
            }
            tiles = {a.name: axes[a.name].threads * counts.get(a.name, 1) for a in shared}
            total, block = 0.0, 0
            for n in self.region.nests:
                for name in (s for p in n.phases if p.axes for s in p.statements):
                    for access in self.scop.statement(name).accesses:
                        if access.kind != "read" or not access.subscripts:
                            continue
                        used = {v for e in access.subscripts for v in variables(inline_lets(e))}
                        total += math.prod(counts[a.name] for a in pair if a.vars.get(name) in used)
                        block += math.prod(tiles[a.name] for a in shared if a.vars.get(name) in used)
            return total / math.prod(counts.values()), block

        return min(pairs, key=loads)

    def rows(self, shared: Sequence[Axis], lead: Nest, best: Axis | None, way: Way) -> dict[str, AxisMap]:
        """Threads share what a row is made of; what is left of a block has other rows, or the other axes of
        several nests."""
        inner = [a for p in lead.phases for a in p.axes if not self.is_chunks(a)]
        if best is None or best.name not in {a.name for a in inner}:
            best = max(inner, key=lambda a: a.typical_extent, default=None)
        extent = 1 if best is None else best.typical_extent
        self.shape.append(self.count(0, min(power_of_two(extent), way.rows, self.block)))
        if len(self.region.nests) > 1:
            axes = {a.name: AxisMap(1) for a in shared}
            if not self.wanted.threads:
                self.shape.append(max(1, self.block // self.shape[0]))
            return axes
        if not self.wanted.threads and self.points_of(shared) < WARP * self.units:
            beside = next((p.axes for p in lead.phases if best in p.axes), ())
            row = _first([a for a in beside if not self.is_chunks(a)], best)
            left = min(way.rows, self.block) // self.shape[0]
            # Few rows, long ones: more threads for each.
            if len(row) > 1 and left > 1 and math.prod(map(_extent, row)) >= way.rows:
                self.shape.append(min(power_of_two(row[1].typical_extent), left))
        order = list(reversed(shared))
        return self.dealt(order, order, WARP, False)

    def inner(self, shared: Sequence[Axis], way: Way) -> dict[str, AxisMap]:
        """Threads share the axes that nests do not share; a tile of the last of the others is theirs."""
        own = [a for n in self.region.nests for a in n.axes[len(shared) :]]
        two = any(len(n.axes) - len(shared) > 1 for n in self.region.nests)
        widest = max((a.typical_extent for a in own), default=1)
        self.shape.append(self.count(0, min(power_of_two(widest), WARP if two else THREADS, self.block)))
        if two and not self.wanted.threads:
            self.shape.append(max(1, self.block // self.shape[0]))
        points = min(way.inner, power_of_two(shared[-1].typical_extent))
        return {a.name: AxisMap(points if a is shared[-1] else 1) for a in shared}

    def dealt(
        self, order: Sequence[Axis], spread: Sequence[Axis], most: int, alone: bool
    ) -> dict[str, AxisMap]:
        """Axes to what is left of the threads of a block, in this order: powers of two, or numbers that leave
        fewer threads without points."""
        found = self.counts(order, spread, most, alone, power_within)
        if not self.shape and not self.wanted.threads and not self.wanted.tile:
            exact = self.counts(order, spread, most, alone, fitting)
            known = all(a.size is None for a in order if found[a.name] != exact[a.name])
            if known and busy_lanes(order, exact) > _BUSIER * busy_lanes(order, found):
                found = exact
        axes: dict[str, AxisMap] = {}
        for a in order:
            n = found[a.name]
            axes[a.name] = AxisMap(n, None, 1, f"t{len(self.shape)}", n) if n > 1 else AxisMap(1)
            if n > 1:
                self.shape.append(n)
        return axes

    def counts(
        self,
        order: Sequence[Axis],
        spread: Sequence[Axis],
        most: int,
        alone: bool,
        within: Callable[[int, int], int],
    ) -> dict[str, int]:
        """The threads along axes, of those that are chosen as many as are `within` a limit."""
        out: dict[str, int] = {}
        shape = list(self.shape)
        tiles = {a.name: n for a, n in zip(tiled_axes(self.region), self.wanted.tile, strict=False)}
        for a in order:
            left = max(1, self.block // math.prod(shape))
            limit = left if not shape and alone else min(left, most if not shape else WARP)
            n = self.count(len(shape), within(a.typical_extent, limit)) if a in spread else 1
            n = min(
                n, power_of_two(a.typical_extent), tiles.get(a.name) or n
            )  # threads without points are none
            out[a.name] = n if len(shape) < max(3, len(self.wanted.threads)) else 1
            if out[a.name] > 1:
                shape.append(n)
        return out

    def count(self, position: int, chosen: int) -> int:
        """The threads along a dimension of the block: as wanted, or as chosen."""
        given = self.wanted.threads
        return given[position] if position < len(given) else (1 if given else chosen)

    def reused(self, n: Nest) -> bool:
        """Whether reductions of a nest read what several of its points read."""
        for p in n.phases:
            for name in p.statements if p.axes else ():
                s = self.scop.statement(name)
                points = {a.vars[name] for a in n.axes if name in a.vars}
                for access in s.accesses:
                    if access.kind == "read" and access.subscripts and not access.unknown:
                        used = {v for e in access.subscripts for v in variables(inline_lets(e))}
                        if points - used:
                            return True
        return False

    def tiled(self, shared: Sequence[Axis], axes: Mapping[str, AxisMap]) -> dict[str, AxisMap]:
        """The axes with tiles as wanted (whole multiples of their threads), dealt out to blocks."""
        out: dict[str, AxisMap] = {}
        left = MOST_BLOCKS
        number = 0
        for i, a in enumerate(shared):
            m = axes[a.name]
            size = self.wanted.tile[i] if i < len(self.wanted.tile) else m.tile
            size = -(-max(size, m.threads) // m.threads) * m.threads
            if a.first is not None:  # where tiles begin depends on sizes
                out[a.name] = replace(m, tile=0)
                continue
            count = -(-a.typical_extent // size)
            if a.size is None:
                limit = self.wanted.blocks[number] if number < len(self.wanted.blocks) else left
                count = max(1, min(count, limit, left))
                left //= count
            out[a.name] = replace(
                m,
                tile=size,
                block=self.names.get(f"b{number}", f"b{number}"),
                blocks=count if a.size is None else 0,
            )
            number += 1
        return out

    def nest(self, n: Nest, axes: Mapping[str, AxisMap], along: Axis | None, way: Way) -> NestMap:
        """The map of a nest: axes that the region does not tile go to what is left of the threads."""
        used = {axes[a.name].thread for a in n.axes if a.name in axes}
        free = [i for i in range(len(self.shape)) if f"t{i}" not in used]
        out: dict[str, AxisMap] = {a.name: self.named(axes[a.name]) for a in n.axes if a.name in axes}
        own = [a for a in n.axes if a.name not in axes]
        row = way.rows > 0
        others = [i for i in free if i > 0]  # the fastest is for the axes of phases
        for a in sorted(own, key=lambda a: along is None or a.name != along.name):
            out[a.name] = self.spread(others if row else free)
        free = [i for i in free if i in others or i == 0] if row else free
        few = shape([(a, out[a.name]) for a in n.axes]) is not None
        phases: list[Mapping[str, AxisMap]] = []
        for p in n.phases:
            left = list(free)
            dealt: dict[str, AxisMap] = {}
            inner = contiguous(self.scop, n, p.statements)
            shared_out = [a for a in p.axes if not self.is_chunks(a)]
            first = inner if inner in shared_out else max(reversed(shared_out), key=_extent, default=None)
            for a in _first(shared_out, first):
                legal = not a.reductions or (few and not self.used_within(p, a))
                dealt[a.name] = self.spread(left) if legal and left else SERIAL
            if self.wanted.shared and all(m.thread is None for m in dealt.values()):
                dealt = self.own_tiles(shared_out, inner, len(n.axes))
            chunks = enumerate(self.chunks(p))
            dealt |= {a.name: AxisMap(1, self.names[f"{_PART}{i}"], 0) for i, a in chunks}
            phases.append(dealt)
        return NestMap(out, tuple(phases))

    def used_within(self, p: Phase, a: Axis) -> bool:
        """Whether values in a phase use results of a reduction over `a`, which parts do not have yet: in
        loops of one iteration they may."""
        results = {self.scop.statement(s).write.buffer: s for s in p.statements if s in a.reductions}
        return any(
            results.get(x.buffer, s) != s or (x.kind == "read" and x.buffer in results)
            for s in p.statements
            for x in self.scop.statement(s).accesses
        )

    def chunks(self, p: Phase) -> Sequence[Axis]:
        """The axes of a phase whose points, parts of a reduction, go to blocks; the inner first."""
        return [a for a in reversed(p.axes) if self.is_chunks(a)]

    def is_chunks(self, a: Axis) -> bool:
        return any(v in self.wanted.chunks.get(s, ()) for s, v in a.vars.items())

    def own_tiles(self, axes: Sequence[Axis], inner: Axis | None, outer: int) -> dict[str, AxisMap]:
        """Tiles of a phase's own loops, of which shared memory holds what they read: as wanted, after those
        of the `outer` axes of its nest, else of so many points together."""
        out: dict[str, AxisMap] = {}
        left = _OWN
        given = dict(zip((a.name for a in axes), self.wanted.tile[outer:], strict=False))
        for a in _first(axes, inner):
            size = given.get(
                a.name,
                even_part(a.typical_extent, left)
                if a.size is None
                else min(power_of_two(a.typical_extent), left),
            )
            out[a.name] = AxisMap(0 if size >= a.typical_extent and a.size is None else size)
            left = max(1, left // size)
        return out

    def spread(self, free: list[int]) -> AxisMap:
        """All points of an axis on a thread variable that is free."""
        if not free:
            return SERIAL
        i = free.pop(0)
        return self.named(AxisMap(0, None, 1, f"t{i}", self.shape[i]))

    def named(self, m: AxisMap) -> AxisMap:
        return m if m.thread is None else replace(m, thread=self.names.get(m.thread, m.thread))


def candidates(scop: Scop, region: Region, wanted: Wanted, units: int) -> Iterator[tuple[Way, RegionMap]]:
    """Maps of a region, each with the way that leads to it; `units`: of the target.  Use it
    inside `isl_context()`."""
    taken = {*scop.program.sizes, *(s.name for s in scop.program.scalars)}
    names: dict[str, str] = {}
    parts = (f"{_PART}{i}" for i in range(_MOST_PARTS))
    for v in (*(f"b{i}" for i in range(32)), *parts, *(f"t{i}" for i in range(8))):
        new = v
        while new in taken:
            new += "_"
        names[v] = new
    one = _Region(scop, region, wanted, units, names)
    seen: list[RegionMap] = []
    for way in [*one.ways()] or [_POINT]:
        found = one.mapped(way)
        if found not in seen:
            seen.append(found)
            yield way, found


def weight(nest: Nest, statement: str) -> int:
    """About how many instances a statement has."""
    phase = next(p for p in nest.phases if statement in p.statements)
    return math.prod(a.typical_extent for a in (*nest.axes, *phase.axes))


def _first(axes: Sequence[Axis], chosen: Axis | None) -> list[Axis]:
    """The innermost axes first, before them the chosen one."""
    return sorted(axes[::-1], key=lambda a: chosen is None or a.name != chosen.name)  # noqa: C415


def _extent(a: Axis) -> int:
    return a.typical_extent
