"""Which loops go to blocks and threads.

Neighbouring threads should touch neighbouring elements, so the fastest thread variable goes to the axis along
which most of what a nest accesses lies together.  If that is an axis of the nest, each thread computes points
of its own; if it is one of a reduction or of what a row is made of, the threads of a block share the row.
The other axes fill the block up, and tiles go to blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.ir.expr import Add as Sum
from tc.ir.expr import Expr, FloorDiv, IntImm, Variable, inline_lets, variables
from tc.ir.printer import text
from tc.ir.simplify import linear_terms, simplify
from tc.poly.mapping.plan import SERIAL, AxisMap, NestMap, RegionMap, tiled_axes
from tc.poly.mapping.registers import shape
from tc.poly.plan import Axis, Nest, Phase, Region
from tc.poly.scop import Scop

from .target import Target

THREADS = 256  # of a block, unless there is less to do
WARP = 32
_STEPS = ((4, 4), (2, 4), (2, 2), (1, 2))  # points of a thread along two axes
SIMPLEST = len(_STEPS)
_OWN = 32  # points of a tile of reduction loops
_MANY_ROWS = 4096  # a warp for each keeps a GPU busy
_MOST_BLOCKS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What options say: points of tiles, threads (the fastest first), blocks; empty: to be chosen."""

    tile: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    shared: int = 0  # bytes of shared memory that may be used
    simpler: int = 0  # how many of the register tiles that would be tried are not


@dataclass(slots=True)
class _Region:
    """A region being mapped; `shape` are the threads of a block so far."""

    scop: Scop
    region: Region
    wanted: Wanted
    units: int
    names: Mapping[str, str]
    shape: list[int] = field(default_factory=list[int])

    def mapped(self) -> RegionMap:
        nests = self.region.nests
        lead = max(nests, key=lambda n: max((_weight(n, s) for s in n.statements), default=0))
        shared = tiled_axes(self.region)
        along = {id(n): contiguous(self.scop, n) for n in nests}
        best = along[id(lead)]
        if all(a.extent == 1 for a in shared):  # there is nothing else to share out
            inner = [a for p in lead.phases for a in p.axes]
            best = best or max(inner, key=lambda a: a.extent, default=None)
        own = best is not None and best.name in {a.name for p in lead.phases for a in p.axes}
        single = len(self.wanted.tile) >= len(shared) and set(self.wanted.tile[: len(shared)]) == {1}
        row = own and (single or not self.enough(shared))
        # The axes that points of all nests are told apart by, the fastest thread variable first.
        if row:
            assert best is not None
            few = len(nests) == 1 and math.prod(a.extent for a in shared) < _MANY_ROWS
            first = min(_power(best.extent), THREADS if few else WARP)
            order = list(reversed(shared))
            counts = [self.count(0, first)]
        else:
            order = _first(shared, best)
            counts = []
        axes: dict[str, AxisMap] = {}
        for a in order:
            left = max(1, THREADS // math.prod(counts))
            alone = sum(x.extent > 1 for x in order) == 1
            most = left if not counts and alone else min(left, WARP)
            if row and len(nests) > 1:  # what is left is for the axes of each nest
                axes[a.name] = AxisMap(1)
                continue
            given = dict(zip((x.name for x in shared), self.wanted.tile, strict=False)).get(a.name)
            n = self.count(len(counts), min(_power(a.extent), most))
            n = min(n, _power(a.extent), given or n)  # threads that a tile has no points for are none
            if n > 1 and len(counts) < max(3, len(self.wanted.threads)):
                axes[a.name] = AxisMap(n, None, 1, f"t{len(counts)}", n)
                counts.append(n)
            else:
                axes[a.name] = AxisMap(1)
        if row and len(nests) > 1 and not self.wanted.threads:
            counts.append(THREADS // counts[0])
        self.shape = counts
        if not row and not self.wanted.tile and any(self.reused(n) for n in nests):
            axes = self.register_tiles(shared, axes)
        axes = self.tiled(shared, axes)
        maps = tuple(self.nest(n, axes, along[id(n)], row) for n in nests)
        blocks = [
            (m.block, _tiles(a, m.tile, m.blocks))
            for a in reversed(shared)
            if (m := axes[a.name]).block is not None
        ]
        threads = tuple((self.names.get(f"t{i}", f"t{i}"), n) for i, n in enumerate(self.shape))
        return RegionMap(tuple((b, n) for b, n in blocks if b), threads, maps)

    def count(self, position: int, chosen: int) -> int:
        """The threads along a dimension of the block: as wanted, or as chosen."""
        given = self.wanted.threads
        return given[position] if position < len(given) else (1 if given else chosen)

    def enough(self, shared: Sequence[Axis]) -> bool:
        """Whether there is a thread for each point without sharing any."""
        return math.prod(a.extent for a in shared) >= 1 << 17

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

    def register_tiles(self, shared: Sequence[Axis], axes: Mapping[str, AxisMap]) -> dict[str, AxisMap]:
        """Several points for each thread, as long as there are blocks for all units."""
        two = [a for a in shared if axes[a.name].thread is not None and a.size is None]
        two = sorted(two, key=lambda a: -axes[a.name].threads)[:2]
        for steps_of in _STEPS[self.wanted.simpler :]:
            out = dict(axes)
            for a, k in zip(two, steps_of[::-1], strict=False):
                m = axes[a.name]
                out[a.name] = replace(m, tile=m.threads * min(k, -(-a.extent // m.threads)))
            blocks = math.prod(-(-a.extent // max(1, out[a.name].tile)) for a in shared)
            if blocks >= self.units:
                return out
        return dict(axes)

    def tiled(self, shared: Sequence[Axis], axes: Mapping[str, AxisMap]) -> dict[str, AxisMap]:
        """The axes with tiles as wanted (whole multiples of their threads), dealt out to blocks."""
        out: dict[str, AxisMap] = {}
        left = _MOST_BLOCKS
        number = 0
        for i, a in enumerate(shared):
            m = axes[a.name]
            size = self.wanted.tile[i] if i < len(self.wanted.tile) else m.tile
            size = -(-max(size, m.threads) // m.threads) * m.threads
            if a.first is not None:  # where tiles begin depends on sizes
                out[a.name] = replace(m, tile=0)
                continue
            count = -(-a.extent // size)
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

    def nest(self, n: Nest, axes: Mapping[str, AxisMap], along: Axis | None, row: bool) -> NestMap:
        """The map of a nest: axes that the region does not tile go to what is left of the threads."""
        used = {axes[a.name].thread for a in n.axes if a.name in axes}
        free = [i for i in range(len(self.shape)) if f"t{i}" not in used]
        out: dict[str, AxisMap] = {a.name: self.named(axes[a.name]) for a in n.axes if a.name in axes}
        own = [a for a in n.axes if a.name not in axes]
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
            for a in _first(p.axes, inner):
                legal = not a.reductions or (few and not self.used_within(p, a))
                dealt[a.name] = self.spread(left) if legal and left else SERIAL
            if self.wanted.shared and all(m.thread is None for m in dealt.values()):
                dealt = self.own_tiles(p, inner)
            phases.append(dealt)
        return NestMap(out, tuple(phases))

    def used_within(self, p: Phase, a: Axis) -> bool:
        """Whether statements of a phase use results of a reduction over `a`, which parts do not have yet: in
        loops of one iteration they may."""
        results = {self.scop.statement(s).write.buffer: s for s in p.statements if s in a.reductions}
        return any(
            results.get(x.buffer, s) != s for s in p.statements for x in self.scop.statement(s).accesses
        )

    def own_tiles(self, p: Phase, inner: Axis | None) -> dict[str, AxisMap]:
        """Tiles of a phase's own loops, of which shared memory holds what they read."""
        out: dict[str, AxisMap] = {}
        left = _OWN
        for a in _first(p.axes, inner):
            size = min(_power(a.extent), left) if a.extent > left else a.extent
            out[a.name] = AxisMap(0 if size >= a.extent and a.size is None else size)
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


def choose(scop: Scop, regions: Sequence[Region], wanted: Wanted, target: Target) -> tuple[RegionMap, ...]:
    """A map for each region.  Use it inside `isl_context()`."""
    taken = {*scop.program.sizes, *(s.name for s in scop.program.scalars)}
    names: dict[str, str] = {}
    for v in (*(f"b{i}" for i in range(32)), *(f"t{i}" for i in range(8))):
        new = v
        while new in taken:
            new += "_"
        names[v] = new
    return tuple(_Region(scop, r, wanted, target.units, names).mapped() for r in regions)


def shown(title: str, region: Region, m: RegionMap) -> str:
    """A map as text: what runs where."""
    blocks = " x ".join(f"{v} < {text(n)}" for v, n in m.blocks) or "1"
    threads = " x ".join(f"{v} < {n}" for v, n in m.threads) or "1"
    lines = [f"{title}: blocks {blocks}, threads {threads}"]

    def axis(a: Axis, how: AxisMap) -> str:
        tile = f" tile {how.tile}" if how.tile else ""
        block = f" on {how.block}" if how.block else ""
        thread = f" on {how.thread}" if how.thread else ""
        return f"{a.name} [{text(a.points)}]{tile}{block}{thread}"

    for n, x in zip(region.nests, m.nests, strict=True):
        lines.append(f"  nest {', '.join(axis(a, x.axes[a.name]) for a in n.axes) or 'of one point'}")
        for p, own in zip(n.phases, x.phases, strict=True):
            inner = ", ".join(axis(a, own[a.name]) for a in p.axes)
            lines.append(f"    {', '.join(p.statements)}{f': {inner}' if inner else ''}")
    return "\n".join(lines) + "\n"


def contiguous(scop: Scop, nest: Nest, statements: Sequence[str] | None = None) -> Axis | None:
    """The axis along which most of the elements that statements access are neighbours."""
    votes: dict[str, int] = {}
    axes = (*nest.axes, *(a for p in nest.phases for a in p.axes))
    for name in nest.statements if statements is None else statements:
        extents = {a.vars[name]: a.extent for a in axes if name in a.vars}
        for access in scop.statement(name).accesses:
            if not access.subscripts:
                continue
            used = {v for e in access.subscripts for v in variables(inline_lets(e))}
            elements = math.prod(n for v, n in extents.items() if v in used)
            terms, _ = linear_terms(inline_lets(access.subscripts[-1]))
            near = {e.name for e, k in terms.items() if isinstance(e, Variable) and abs(k) == 1}
            for a in axes:
                if a.vars.get(name) in near:
                    votes[a.name] = votes.get(a.name, 0) + elements
    if not votes:
        return None
    best = max(votes, key=votes.__getitem__)
    return next(a for a in axes if a.name == best)


def _weight(nest: Nest, statement: str) -> int:
    """About how many instances a statement has."""
    phase = next(p for p in nest.phases if statement in p.statements)
    return math.prod(a.extent for a in (*nest.axes, *phase.axes))


def _first(axes: Sequence[Axis], chosen: Axis | None) -> list[Axis]:
    """The innermost axes first, before them the chosen one."""
    return sorted(axes[::-1], key=lambda a: chosen is None or a.name != chosen.name)  # noqa: C415


def _power(n: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, n - 1).bit_length()


def _tiles(a: Axis, size: int, blocks: int) -> Expr:
    """How many values the block variable of an axis has."""
    if blocks:
        return IntImm(blocks)
    return simplify(FloorDiv(Sum(a.points, IntImm(size - 1)), IntImm(size)), exact=True)
