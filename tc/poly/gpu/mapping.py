"""The mapping of a region's loops to the blocks and threads of a GPU.

A region (tc/poly/tile_plan.py) becomes one kernel.  Its axes, or those of its only nest, are tiled; tiles are
mapped to blocks, and the points of a tile to threads.  Each phase of a nest is a *unit* with a mapping of its
own; a barrier separates two units if a thread needs results of another one (tc/poly/gpu/sync.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.ir.expr import Expr, variables
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis, Phase, Region


@dataclass(frozen=True, slots=True)
class AxisMap:
    """The mapping of an axis to blocks and threads.

    Tile q, of `tile` points (0: all points are one tile), runs on the blocks whose variable `block` is q mod
    `blocks` (0: is q, there is a block for each), or on all blocks if there is no variable.  Point p of a
    tile runs on the threads whose variable `thread` is p mod `threads`, so consecutive points run on
    consecutive threads.  `threads` divides `tile`.
    """

    tile: int = 0
    block: str | None = None
    blocks: int = 1
    thread: str | None = None
    threads: int = 1

    @property
    def is_distributed(self) -> bool:
        """Whether its points are distributed over threads or blocks."""
        return self.thread is not None or self.block is not None


SERIAL = AxisMap()


def several(axis: Axis, m: AxisMap) -> bool:
    """Whether there is, or may be, more than one tile."""
    return bool(m.tile) and (axis.size is not None or m.tile < axis.typical_extent)


def alone(axis: Axis, m: AxisMap) -> bool:
    """Whether each tile has a block of its own."""
    if m.block is None:
        return False
    return not m.blocks or (axis.size is None and -(-axis.typical_extent // m.tile) <= m.blocks)


def points(axis: Axis, m: AxisMap) -> int | None:
    """The maximum number of points of a tile; None without a bound."""
    whole = axis.typical_extent if axis.size is None else None
    return m.tile if m.tile and (whole is None or m.tile < whole) else whole


def steps(axis: Axis, m: AxisMap) -> int | None:
    """The maximum number of points of a tile that a thread runs; None without a bound."""
    size = points(axis, m)
    return None if size is None else -(-size // m.threads)


def covered(axis: Axis, m: AxisMap) -> int | None:
    """The steps of a tile times its threads, which may exceed its points; None without a bound."""
    count = steps(axis, m)
    return None if count is None else count * m.threads


@dataclass(frozen=True, slots=True)
class NestMap:
    """The maps of a nest's axes, and of each phase's own."""

    axes: Mapping[str, AxisMap] = field(hash=False)
    phases: tuple[Mapping[str, AxisMap], ...] = field(hash=False)


@dataclass(frozen=True, slots=True)
class RegionMap:
    """The mapping of a region.  `blocks` and `threads`: the variables of a launch with their extents, fastest
    first.  `unroll`: copies of the bodies of innermost loops, at most (None: automatic).  `unroll_copies`:
    whether loops of copies to shared memory are unrolled (None: if they are short)."""

    blocks: tuple[tuple[str, Expr], ...]
    threads: tuple[tuple[str, int], ...]
    nests: tuple[NestMap, ...]
    unroll: int | None = None
    unroll_copies: bool | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """Phases that run under one filter of threads: `axes` are those of the nest, `own` those of the phases;
    `nest` is the nest's number in the region.  `separate_sums`: the reductions that threads accumulate in
    registers other than those of their results (`private_memory.with_separate_sums`)."""

    phases: tuple[Phase, ...]
    axes: tuple[tuple[Axis, AxisMap], ...]
    own: tuple[tuple[Axis, AxisMap], ...] = ()
    nest: int = 0
    separate_sums: frozenset[str] = frozenset()

    @property
    def statements(self) -> tuple[str, ...]:
        return tuple(s for p in self.phases for s in p.statements)

    @property
    def looped(self) -> tuple[tuple[Axis, AxisMap], ...]:
        """The axes of the phases of which a block runs several tiles, in loops around the copies to shared
        memory."""
        return tuple((a, m) for a, m in self.own if several(a, m) and not alone(a, m))

    @property
    def has_partial_results(self) -> bool:
        """Whether threads or blocks have partial results."""
        return any(m.is_distributed for _, m in self.own)

    @property
    def blocks_share_reduction(self) -> bool:
        """Whether the phases' axes are distributed over blocks, which then update the same results."""
        return any(m.block is not None for _, m in self.own)

    @property
    def reduction_threads(self) -> tuple[str, ...]:
        """The thread variables over which the phases' axes are distributed."""
        return tuple(m.thread for _, m in self.own if m.thread is not None)


def units(region: Region, mapped: RegionMap) -> tuple[Unit, ...]:
    """The units of a region in order; consecutive phases without axes of their own are one unit."""
    out: list[Unit] = []
    for number, (n, m) in enumerate(zip(region.nests, mapped.nests, strict=True)):
        axes = tuple((a, m.axes[a.name]) for a in n.axes)
        plain: list[Phase] = []
        for p, own in zip(n.phases, m.phases, strict=True):
            if not p.axes:
                plain.append(p)
                continue
            out += [Unit(tuple(plain), axes, (), number)] if plain else []
            plain.clear()
            out.append(Unit((p,), axes, tuple((a, own[a.name]) for a in p.axes), number))
        out += [Unit(tuple(plain), axes, (), number)] if plain else []
    return tuple(out)


def bounded(scop: Scop, unit: Unit, statement: str) -> bool:
    """Whether the conditions of a statement only bound the unit's own loops or select which points have a
    result, so that a tile may be treated as if they held for all of its points or for none."""
    s = scop.statement(statement)
    if s.residual:
        return False
    moving = {a.vars[statement] for a, m in unit.axes if statement in a.vars and points(a, m) != 1}
    own = {a.vars[statement] for a, _ in unit.own if statement in a.vars}
    of_points = [c for c in s.stage.domain.conditions if not moving.isdisjoint(variables(c))]
    separate_sums = statement in unit.separate_sums
    return not of_points or (separate_sums and all(own.isdisjoint(variables(c)) for c in of_points))


def isolated(scop: Scop, unit: Unit, statement: str) -> bool:
    """Whether tiles with all points of a statement are isolated (isolation.py): it is the only statement of a
    unit with tiles of its own loops, which end differently for the points of a tile."""
    tiled = (
        len(unit.statements) == 1 and not unit.reduction_threads and any(several(a, m) for a, m in unit.own)
    )
    of_size = all(a.first is None and (a.size is None or m.tile) for a, m in (*unit.axes, *unit.own))
    return tiled and of_size and not scop.statement(statement).residual and not bounded(scop, unit, statement)


def has_shared_reduction(scop: Scop, unit: Unit, statement: str) -> bool:
    """Whether threads or blocks have partial results of a statement."""
    found = any(statement in a.reductions and m.is_distributed for a, m in unit.own)
    return found and scop.statement(statement).reduction


def tiled_axes(region: Region) -> tuple[Axis, ...]:
    """The axes that all units of a region have: their tiles are the outermost loops."""
    if region.axes or len(region.nests) != 1:
        return region.axes
    (only,) = region.nests
    return only.axes
