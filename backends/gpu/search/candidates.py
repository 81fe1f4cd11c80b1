"""Candidate mappings of a region to blocks and threads.

Consecutive threads should access contiguous elements, so that accesses are coalesced.  Where that is along an
axis of a nest, each thread has points of its own: several of them, a register tile, if reductions read the
same elements for several points.  Otherwise the threads of a warp or of a block share the reduction of a
row.  In a region of several nests, the axes that they do not share can be mapped to threads, too.  choose.py
compares the candidates.
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

from ..cost.contiguity import contiguous_axis, is_contiguous_along
from .counts import balanced_threads, even_tile_size, lane_utilization, power_of_two, power_within, tile_count
from .schemes import THREADS, MappingOptions, MappingScheme

_RESIDENT_THREADS = 2048  # of a multiprocessor, about
_REDUCTION_TILE_POINTS = 32  # of a tile of reduction loops
_MANY_POINTS = 1 << 17  # enough for a thread each, so that threads need not share reductions
_MANY_ROWS = 8192  # enough for a warp each to keep a GPU busy
_MAX_REGISTER_TILES = 2  # candidates of one region
_MIN_UTILIZATION_GAIN = 1.1  # factor of lane utilization from which counts other than powers of two pay
_PART_VARIABLE, _MAX_PARTS = "part", 32  # block variables for parts of reductions


_TRANSPOSE = MappingScheme("32 x 32 points a block", transposes=True)
_POINT_A_THREAD = MappingScheme("a point a thread")
_GIVEN_POINTS = MappingScheme("points as options say")
_REGISTER_TILES = (
    MappingScheme("8 x 8 points a thread", contiguous_threads=16, thread_points=(8, 8)),
    MappingScheme(
        "4 x 8 points a thread, 128 threads", contiguous_threads=16, thread_points=(4, 8), max_threads=128
    ),
    MappingScheme("4 x 4 points a thread", contiguous_threads=32, thread_points=(4, 4)),
    MappingScheme("2 x 4 points a thread", contiguous_threads=32, thread_points=(2, 4)),
    MappingScheme("2 x 2 points a thread", contiguous_threads=32, thread_points=(2, 2)),
)
SIMPLEST = len(_REGISTER_TILES)


@dataclass(slots=True)
class _RegionMapper:
    """Maps a region.  `block_shape` are the threads of a block, by dimension, that the current mapping has so
    far; `names` are the variables of blocks and threads that do not clash with others."""

    scop: Scop
    region: Region
    options: MappingOptions
    units: int
    names: Mapping[str, str]
    block_shape: list[int] = field(default_factory=list[int])
    max_threads: int = THREADS

    def schemes(self) -> Iterator[MappingScheme]:
        """The schemes that may pay, the most promising first, as each takes compile time."""
        nests = self.region.nests
        phases = [p for n in nests for p in n.phases if p.axes]
        shared = tiled_axes(self.region)
        points = self.point_count(shared)
        free = not self.options.threads and not self.options.tile
        tiles = list(self.register_tiles(shared)) if any(self.has_reuse(n) for n in nests) else []
        few_points = points < WARP * self.units  # a thread for each leaves most of a GPU idle
        yield from () if few_points else tiles
        if phases:
            inner = {a.name for p in phases for a in p.axes}
            along = (contiguous_axis(self.scop, n) for n in nests)
            if any(a is not None and a.name in inner for a in along) or points < _MANY_POINTS:
                if len(nests) == 1 and points < _MANY_ROWS:
                    yield MappingScheme("a block a row", row_threads=self.options.max_threads)
                yield MappingScheme("a warp a row", row_threads=WARP)
            if free and shared and points < _MANY_POINTS:
                yield MappingScheme(
                    "threads along points and reductions", contiguous_threads=WARP, shares_reductions=True
                )
        if self.options.shared and not self.options.tile and self.transposed_axes(shared) is not None:
            yield _TRANSPOSE
        if any(len(n.axes) > len(shared) for n in nests) and shared:
            for size in (1, 4, 16):
                yield MappingScheme(f"{size} shared points a block", shared_points=size)
        yield from tiles if few_points else ()
        single = not phases or not free or not few_points
        if not tiles and (single or self.options.require_copies):
            length = self.vector_length()
            if not phases and free and points >= length * _RESIDENT_THREADS * self.units:
                yield MappingScheme(f"{length} points a thread", thread_points=(1, length))
            yield _POINT_A_THREAD if free else _GIVEN_POINTS

    def point_count(self, shared: Sequence[Axis]) -> int:
        """The number of points of the shared axes, times that of the chunks of reductions."""
        phases = (p for n in self.region.nests for p in n.phases)
        chunks = (math.prod(a.typical_extent for a in self.chunk_axes(p)) for p in phases)
        return math.prod(a.typical_extent for a in shared) * max(chunks, default=1)

    def vector_length(self) -> int:
        """The points of a thread whose operands have 16 bytes, which one load fetches."""
        statements = {s for n in self.region.nests for s in n.statements}
        used = {a.buffer for s in statements for a in self.scop.statement(s).accesses if a.subscripts}
        sizes = [b.dtype.itemsize for b in self.scop.program.buffers if b.name in used]
        return VECTOR // max(sizes, default=VECTOR)

    def register_tiles(self, shared: Sequence[Axis]) -> Iterator[MappingScheme]:
        """The largest register tiles that leave blocks for all units."""
        points = self.point_count(shared)
        if self.options.tile:
            return
        found = 0
        for scheme in (*_REGISTER_TILES[self.options.skipped_register_tiles :], _POINT_A_THREAD):
            threads = min(self.options.max_threads, scheme.max_threads)
            blocks = points / (threads * math.prod(scheme.thread_points))
            if blocks >= self.units / 2 or scheme.thread_points == (1, 1):
                yield scheme
                found += 1
            if found == _MAX_REGISTER_TILES:
                return

    def map_region(self, scheme: MappingScheme) -> RegionMap:
        nests = self.region.nests
        main = max(nests, key=lambda n: max((weight(n, s) for s in n.statements), default=0))
        shared = tiled_axes(self.region)
        along = {id(n): contiguous_axis(self.scop, n) for n in nests}
        self.block_shape = []
        self.max_threads = min(self.options.max_threads, scheme.max_threads)
        axes: dict[str, AxisMap]
        if scheme.shared_points:
            axes = self.map_unshared_axes(shared, scheme)
        elif scheme.row_threads:
            axes = self.map_rows(shared, main, along[id(main)], scheme)
        elif scheme.transposes:
            axes = self.map_transposed(shared)
        else:
            axes = self.map_points(shared, along[id(main)], scheme)
        axes = self.assign_blocks(shared, axes)
        maps = tuple(self.map_nest(n, axes, along[id(n)], scheme) for n in nests)
        chunks = max((self.chunk_axes(p) for n in nests for p in n.phases), key=len)
        blocks = [
            (m.block, tile_count(a, m.tile, m.blocks))
            for a in reversed(shared)
            if (m := axes[a.name]).block is not None
        ]
        blocks += [(self.names[f"{_PART_VARIABLE}{i}"], a.points) for i, a in enumerate(chunks)]
        threads = tuple((self.names.get(f"t{i}", f"t{i}"), n) for i, n in enumerate(self.block_shape))
        blocks = tuple((b, n) for b, n in blocks if b)
        return RegionMap(blocks, threads, maps, self.options.unroll, self.options.unroll_copies)

    def map_points(
        self, shared: Sequence[Axis], along: Axis | None, scheme: MappingScheme
    ) -> dict[str, AxisMap]:
        """Map points so that each thread has its own; consecutive threads lie along the axis `along`."""
        order = _first(shared, along)
        single = sum(a.typical_extent > 1 for a in order) == 1 and not scheme.shares_reductions
        threaded = order if not scheme.shares_reductions else order[:1]
        axes = self.assign_threads(order, threaded, scheme.contiguous_threads, single)
        if scheme.shares_reductions and not self.options.threads:
            self.block_shape.append(max(1, self.max_threads // math.prod(self.block_shape)))
        if scheme.thread_points != (1, 1):
            pair = self.register_tile_axes(shared, axes, scheme.thread_points)
            for a, k in zip(pair, scheme.thread_points[::-1], strict=False):
                m = axes[a.name]
                axes[a.name] = replace(m, tile=m.threads * min(k, -(-a.typical_extent // m.threads)))
        return axes

    def transposed_axes(self, shared: Sequence[Axis]) -> tuple[Axis, Axis] | None:
        """The axis along which a statement writes contiguously but reads with a larger stride, and the one
        along which it reads contiguously."""
        for n in self.region.nests:
            for name in n.statements:
                s = self.scop.statement(name)
                written = next((a for a in shared if is_contiguous_along(s.write, a.vars.get(name))), None)
                if written is None or written.first is not None:
                    continue
                for access in s.accesses:
                    if access.kind != "read" or access.unknown or not access.subscripts:
                        continue
                    strided = {v for e in access.subscripts[:-1] for v in variables(inline_lets(e))}
                    read = next((a for a in shared if is_contiguous_along(access, a.vars.get(name))), None)
                    if read is not None and read is not written and written.vars[name] in strided:
                        return written, read
        return None

    def map_transposed(self, shared: Sequence[Axis]) -> dict[str, AxisMap]:
        """Map square tiles of the transposed axes, with consecutive threads along contiguous writes."""
        found = self.transposed_axes(shared)
        assert found is not None
        order = [*found, *(a for a in reversed(shared) if a not in found)]
        axes = self.assign_threads(order, found, WARP, False)
        _, read = found
        m = axes[read.name]
        axes[read.name] = replace(m, tile=max(m.threads, min(WARP, power_of_two(read.typical_extent))))
        return axes

    def register_tile_axes(
        self, shared: Sequence[Axis], axes: Mapping[str, AxisMap], steps: tuple[int, int]
    ) -> Sequence[Axis]:
        """The two axes along which the points of a thread have most reuse of what they read; of equal pairs
        the one for which a block reads less.  The axis with more threads comes first."""
        static = [a for a in shared if a.first is None and a.typical_extent > 1]
        static.sort(key=lambda a: -axes[a.name].threads)
        pairs = list(itertools.combinations(static, 2)) or [tuple(static)]
        pairs += [p[::-1] for p in pairs if len({axes[a.name].threads for a in p}) < len(p)]

        def loads(pair: Sequence[Axis]) -> tuple[float, int]:
            """Elements that reductions read for a point, and for all points of a block."""
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

    def map_rows(
        self, shared: Sequence[Axis], main: Nest, row_axis: Axis | None, scheme: MappingScheme
    ) -> dict[str, AxisMap]:
        """Map rows to several threads each; the remaining threads of a block have other rows, or the unshared
        axes of several nests."""
        inner = [a for p in main.phases for a in p.axes if not self.is_chunk_axis(a)]
        if row_axis is None or row_axis.name not in {a.name for a in inner}:
            row_axis = max(inner, key=lambda a: a.typical_extent, default=None)
        extent = 1 if row_axis is None else row_axis.typical_extent
        limit = min(scheme.row_threads, self.max_threads)
        self.block_shape.append(self.thread_count(0, min(power_of_two(extent), limit)))
        if len(self.region.nests) > 1:
            axes = {a.name: AxisMap(1) for a in shared}
            if not self.options.threads:
                self.block_shape.append(max(1, self.max_threads // self.block_shape[0]))
            return axes
        if not self.options.threads and self.point_count(shared) < WARP * self.units:
            phase_axes = next((p.axes for p in main.phases if row_axis in p.axes), ())
            row = _first([a for a in phase_axes if not self.is_chunk_axis(a)], row_axis)
            left = limit // self.block_shape[0]
            # Few rows that are long: more threads for each.
            if len(row) > 1 and left > 1 and math.prod(map(_extent, row)) >= scheme.row_threads:
                self.block_shape.append(min(power_of_two(row[1].typical_extent), left))
        order = list(reversed(shared))
        return self.assign_threads(order, order, WARP, False)

    def map_unshared_axes(self, shared: Sequence[Axis], scheme: MappingScheme) -> dict[str, AxisMap]:
        """Map the axes that nests do not share to threads, and a tile of the innermost shared axis to a
        block."""
        own_axes = [a for n in self.region.nests for a in n.axes[len(shared) :]]
        several_own = any(len(n.axes) - len(shared) > 1 for n in self.region.nests)
        longest = max((a.typical_extent for a in own_axes), default=1)
        limit = min(WARP if several_own else THREADS, self.max_threads)
        self.block_shape.append(self.thread_count(0, min(power_of_two(longest), limit)))
        if several_own and not self.options.threads:
            self.block_shape.append(max(1, self.max_threads // self.block_shape[0]))
        points = min(scheme.shared_points, power_of_two(shared[-1].typical_extent))
        return {a.name: AxisMap(points if a is shared[-1] else 1) for a in shared}

    def assign_threads(
        self, order: Sequence[Axis], threaded: Sequence[Axis], limit_first: int, single: bool
    ) -> dict[str, AxisMap]:
        """Map axes, in this order, to the threads that are left of a block.

        Thread counts are powers of two, or others if these leave fewer lanes without points.  `threaded` are
        the axes that get threads at all; along the first one there are at most `limit_first`, unless it is
        the `single` axis.
        """
        found = self.thread_counts(order, threaded, limit_first, single, power_within)
        if not self.block_shape and not self.options.threads and not self.options.tile:
            exact = self.thread_counts(order, threaded, limit_first, single, balanced_threads)
            known = all(a.size is None for a in order if found[a.name] != exact[a.name])
            wanted = _MIN_UTILIZATION_GAIN * lane_utilization(order, found)
            if known and lane_utilization(order, exact) > wanted:
                found = exact
        axes: dict[str, AxisMap] = {}
        for a in order:
            n = found[a.name]
            axes[a.name] = AxisMap(n, None, 1, f"t{len(self.block_shape)}", n) if n > 1 else AxisMap(1)
            if n > 1:
                self.block_shape.append(n)
        return axes

    def thread_counts(
        self,
        order: Sequence[Axis],
        threaded: Sequence[Axis],
        limit_first: int,
        single: bool,
        within: Callable[[int, int], int],
    ) -> dict[str, int]:
        """The threads along each axis; `within` gives a count for an extent and a limit."""
        out: dict[str, int] = {}
        shape = list(self.block_shape)
        tiles = {a.name: n for a, n in zip(tiled_axes(self.region), self.options.tile, strict=False)}
        for a in order:
            left = max(1, self.max_threads // math.prod(shape))
            limit = left if not shape and single else min(left, limit_first if not shape else WARP)
            n = self.thread_count(len(shape), within(a.typical_extent, limit)) if a in threaded else 1
            n = min(n, power_of_two(a.typical_extent), tiles.get(a.name) or n)  # at most one for each point
            out[a.name] = n if len(shape) < max(3, len(self.options.threads)) else 1
            if out[a.name] > 1:
                shape.append(n)
        return out

    def thread_count(self, position: int, chosen: int) -> int:
        """The threads along a dimension of the block, as options say, or else as chosen."""
        given = self.options.threads
        return given[position] if position < len(given) else (1 if given else chosen)

    def has_reuse(self, n: Nest) -> bool:
        """Whether reductions of a nest read elements that several of its points read."""
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

    def assign_blocks(self, shared: Sequence[Axis], axes: Mapping[str, AxisMap]) -> dict[str, AxisMap]:
        """Map axes to blocks, with tiles as options say, rounded up to multiples of their threads."""
        out: dict[str, AxisMap] = {}
        left = MOST_BLOCKS
        number = 0
        for i, a in enumerate(shared):
            m = axes[a.name]
            size = self.options.tile[i] if i < len(self.options.tile) else m.tile
            size = -(-max(size, m.threads) // m.threads) * m.threads
            if a.first is not None:  # the origin of tiles depends on sizes
                out[a.name] = replace(m, tile=0)
                continue
            count = -(-a.typical_extent // size)
            if a.size is None:
                limit = self.options.blocks[number] if number < len(self.options.blocks) else left
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

    def map_nest(
        self, n: Nest, axes: Mapping[str, AxisMap], along: Axis | None, scheme: MappingScheme
    ) -> NestMap:
        """The map of a nest: axes that the region does not tile are mapped to the remaining threads."""
        used = {axes[a.name].thread for a in n.axes if a.name in axes}
        free = [i for i in range(len(self.block_shape)) if f"t{i}" not in used]
        out: dict[str, AxisMap] = {a.name: self.renamed(axes[a.name]) for a in n.axes if a.name in axes}
        own_axes = [a for a in n.axes if a.name not in axes]
        row = scheme.row_threads > 0
        others = [i for i in free if i > 0]  # the fastest is for the axes of phases
        for a in sorted(own_axes, key=lambda a: along is None or a.name != along.name):
            out[a.name] = self.assign_free_thread(others if row else free)
        free = [i for i in free if i in others or i == 0] if row else free
        partial_results = shape([(a, out[a.name]) for a in n.axes]) is not None
        phases: list[Mapping[str, AxisMap]] = []
        for p in n.phases:
            left = list(free)
            assigned: dict[str, AxisMap] = {}
            inner = contiguous_axis(self.scop, n, p.statements)
            local_axes = [a for a in p.axes if not self.is_chunk_axis(a)]
            first = inner if inner in local_axes else max(reversed(local_axes), key=_extent, default=None)
            for a in _first(local_axes, first):
                legal = not a.reductions or (partial_results and not self.uses_own_reduction(p, a))
                assigned[a.name] = self.assign_free_thread(left) if legal and left else SERIAL
            if self.options.shared and all(m.thread is None for m in assigned.values()):
                assigned = self.reduction_tiles(local_axes, inner, len(n.axes))
            chunks = enumerate(self.chunk_axes(p))
            assigned |= {a.name: AxisMap(1, self.names[f"{_PART_VARIABLE}{i}"], 0) for i, a in chunks}
            phases.append(assigned)
        return NestMap(out, tuple(phases))

    def uses_own_reduction(self, p: Phase, a: Axis) -> bool:
        """Whether a phase uses results of its own reduction over `a`, which loops of one iteration allow.  If
        threads share the reduction, these are partial results still."""
        results = {self.scop.statement(s).write.buffer: s for s in p.statements if s in a.reductions}
        return any(
            results.get(x.buffer, s) != s or (x.kind == "read" and x.buffer in results)
            for s in p.statements
            for x in self.scop.statement(s).accesses
        )

    def chunk_axes(self, p: Phase) -> Sequence[Axis]:
        """The axes of a phase whose points, chunks of a reduction, are mapped to blocks; innermost first."""
        return [a for a in reversed(p.axes) if self.is_chunk_axis(a)]

    def is_chunk_axis(self, a: Axis) -> bool:
        return any(v in self.options.chunks.get(s, ()) for s, v in a.vars.items())

    def reduction_tiles(self, axes: Sequence[Axis], inner: Axis | None, outer: int) -> dict[str, AxisMap]:
        """Tiles of a phase's own loops, whose operands shared memory holds.

        The option `tile` has their sizes after those of the `outer` axes of the nest; by default all of them
        have about _REDUCTION_TILE_POINTS points together.
        """
        out: dict[str, AxisMap] = {}
        left = _REDUCTION_TILE_POINTS
        given = dict(zip((a.name for a in axes), self.options.tile[outer:], strict=False))
        for a in _first(axes, inner):
            chosen = (
                even_tile_size(a.typical_extent, left)
                if a.size is None
                else min(power_of_two(a.typical_extent), left)
            )
            size = given.get(a.name, chosen)
            out[a.name] = AxisMap(0 if size >= a.typical_extent and a.size is None else size)
            left = max(1, left // size)
        return out

    def assign_free_thread(self, free: list[int]) -> AxisMap:
        """Map all points of an axis to a free thread variable; to none if `free` is empty."""
        if not free:
            return SERIAL
        i = free.pop(0)
        return self.renamed(AxisMap(0, None, 1, f"t{i}", self.block_shape[i]))

    def renamed(self, m: AxisMap) -> AxisMap:
        return m if m.thread is None else replace(m, thread=self.names.get(m.thread, m.thread))


def candidates(
    scop: Scop, region: Region, options: MappingOptions, units: int
) -> Iterator[tuple[MappingScheme, RegionMap]]:
    """Maps of a region, each with its scheme; `units` are those of the target.  Use it inside
    `isl_context()`."""
    taken = {*scop.program.sizes, *(s.name for s in scop.program.scalars)}
    names: dict[str, str] = {}
    parts = (f"{_PART_VARIABLE}{i}" for i in range(_MAX_PARTS))
    for v in (*(f"b{i}" for i in range(32)), *parts, *(f"t{i}" for i in range(8))):
        new = v
        while new in taken:
            new += "_"
        names[v] = new
    mapper = _RegionMapper(scop, region, options, units, names)
    seen: list[RegionMap] = []
    for scheme in [*mapper.schemes()] or [_POINT_A_THREAD]:
        found = mapper.map_region(scheme)
        if found not in seen:
            seen.append(found)
            yield scheme, found


def weight(nest: Nest, statement: str) -> int:
    """The approximate number of instances of a statement."""
    phase = next(p for p in nest.phases if statement in p.statements)
    return math.prod(a.typical_extent for a in (*nest.axes, *phase.axes))


def _first(axes: Sequence[Axis], chosen: Axis | None) -> list[Axis]:
    """The axes from the innermost on, but the chosen one before all others."""
    return sorted(axes[::-1], key=lambda a: chosen is None or a.name != chosen.name)  # noqa: C415


def _extent(a: Axis) -> int:
    return a.typical_extent
