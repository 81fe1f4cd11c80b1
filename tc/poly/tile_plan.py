"""Tile plans: the fused loops of a program as regions of nests, and the tiling of each nest.

A *nest* is a set of loops (axes) around phases: statements alone, or statements with loops of their own (most
often a reduction).  Its points are independent of each other, so any tiling, unrolling and vectorisation of
it is legal; one register tile runs all phases before the next begins.  A *region* is a sequence of nests that
share outer axes: one iteration of these runs all nests, so that the results of one are still in the cache
when the next reads them.

Everything here is plain data, from which `tc.poly.tiles` emits loops.  In a program with dynamic sizes the
integers of an axis (`min`, `extent`) are those at typical sizes, for which tilings are chosen, and its
expressions (`first`, `size`) are the true ones, from which loops are emitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal

from tc.dtypes import DType
from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, IntImm, variables
from tc.ir.program import Program, Stage
from tc.poly.fusion.fusion import Group, Member, keeps_three


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of a nest: `vars` has its variable in each statement, which runs over `low + [0, points)`.

    `first` and `size` are given where these depend on dynamic sizes; the typical values are those at
    typical sizes.
    """

    name: str
    vars: Mapping[str, str] = field(hash=False)
    typical_min: int
    typical_extent: int
    reductions: frozenset[str] = frozenset()
    first: Expr | None = None
    size: Expr | None = None

    @property
    def low(self) -> Expr:
        """The first point."""
        return IntImm(self.typical_min) if self.first is None else self.first

    @property
    def points(self) -> Expr:
        """The number of points."""
        return IntImm(self.typical_extent) if self.size is None else self.size


@dataclass(frozen=True, slots=True)
class Phase:
    """Statements that run together at each point of the nest, inside of loops of their own."""

    statements: tuple[str, ...]
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops around phases, which run in order at each point."""

    axes: tuple[Axis, ...]
    phases: tuple[Phase, ...]

    @property
    def statements(self) -> tuple[str, ...]:
        return tuple(s for p in self.phases for s in p.statements)


@dataclass(frozen=True, slots=True)
class Region:
    """Nests whose first axes are `axes` (none for a nest on its own)."""

    axes: tuple[Axis, ...]
    nests: tuple[Nest, ...]

    @property
    def statements(self) -> tuple[str, ...]:
        return tuple(s for n in self.nests for s in n.statements)


@dataclass(frozen=True, slots=True)
class _Source:
    """The stages of a program, and typical values of dynamic sizes."""

    stages: Mapping[str, Stage]
    typical: Mapping[str, int]


def regions(
    program: Program,
    tree: Sequence[Group | str],
    typical: Mapping[str, int] | None = None,
    apart: Collection[str] = (),
) -> tuple[Region, ...]:
    """The regions of a fusion tree, in order.

    `typical` are values of the program's dynamic sizes; the statements `apart` have regions of their own.
    Raises InternalError where the range of a loop depends on other sizes.
    """
    stages = _Source({s.name: s for s in program.stages}, typical or {})
    out: list[Region] = []
    phases: list[Phase] = []  # of a nest without axes: statements and reductions that yield one element

    def close() -> None:
        if phases:
            out.append(Region((), (Nest((), tuple(phases)),)))
            phases.clear()

    for node in tree:
        if isinstance(node, str):
            phases.append(Phase((node,)))
        elif any(m.reductions for m in node.members) and not any(isinstance(c, Group) for c in node.body):
            phase = _phase(stages, node, 0)
            alone = not set(apart).isdisjoint(phase.statements)
            if alone:
                close()
            phases.append(phase)
            if alone:
                close()
        else:
            close()
            nests = _nests(stages, node, ())
            out.append(Region(nests[0].axes[: len(node.members)] if len(nests) > 1 else (), nests))
    close()
    return tuple(out)


def distributed(region: Region, strategy: Literal["preserve3coincident", "min"]) -> Region:
    """Loop distribution of the point loops: each phase runs over all points of a tile before the next phase.

    With `preserve3coincident` phases stay together that keep three coincident loops, or all that they have.
    Distribution is legal as the points of a nest are independent.  The original calls it rescheduling of the
    point band, with a fusion strategy of its own (section 5.2 of the report).
    """
    nests: list[Nest] = []
    for n in region.nests:
        groups: list[list[Phase]] = []
        for p in n.phases:
            together = strategy != "min" and groups and _stay(n, groups[-1], p)
            groups = [*groups[:-1], [*groups[-1], p]] if together else [*groups, [p]]
        nests += [_restricted(Nest(n.axes, tuple(g))) for g in groups]
    if len(nests) == len(region.nests):
        return region
    return Region(region.axes or region.nests[0].axes, tuple(nests))


def _stay(n: Nest, before: Sequence[Phase], own: Phase) -> bool:
    """Whether phases keep three coincident loops if they share the axes of a nest and no more."""
    shared = len(n.axes)
    first, second = (
        shared + max(sum(not a.reductions for a in p.axes) for p in phases) for phases in (before, (own,))
    )
    return keeps_three(first, second, shared)


def _phase(stages: _Source, group: Group, position: int) -> Phase:
    axes = tuple(_axis(stages, m, position + i) for i, m in enumerate(group.members))
    return Phase(tuple(c for c in group.body if isinstance(c, str)), axes)


def _nests(stages: _Source, group: Group, outer: tuple[Axis, ...]) -> tuple[Nest, ...]:
    axes = (*outer, *(_axis(stages, m, len(outer) + i) for i, m in enumerate(group.members)))
    out: list[Nest] = []
    phases: list[Phase] = []

    def close() -> None:
        if phases:
            out.append(Nest(axes, tuple(phases)))
            phases.clear()

    for child in group.body:
        if isinstance(child, str):
            phases.append(Phase((child,)))
        elif any(isinstance(c, Group) for c in child.body):
            close()
            out += _nests(stages, child, axes)
        else:
            phases.append(_phase(stages, child, len(axes)))
    close()
    return tuple(_restricted(n) for n in out)


def _restricted(nest: Nest) -> Nest:
    """The nest, with axes that have only its own statements."""
    keep = set(nest.statements)
    axes = tuple(
        replace(a, vars={s: v for s, v in a.vars.items() if s in keep}, reductions=a.reductions & keep)
        for a in nest.axes
    )
    return Nest(axes, nest.phases)


def _axis(source: _Source, m: Member, position: int) -> Axis:
    statement, var = next(iter(m.vars.items()))
    found = next(v for v in source.stages[statement].domain.vars if v.name == var)
    low, extent = found.range.min, found.range.extent
    if not variables(low) | variables(extent) <= source.typical.keys():
        raise InternalError(f"the range of {var} is not a constant")
    return Axis(
        f"{m.name}_{position}",
        m.vars,
        evaluate(low, source.typical),
        # An axis that is empty at typical sizes still has loops.
        evaluate(extent, source.typical)
        if isinstance(extent, IntImm)
        else max(1, evaluate(extent, source.typical)),
        m.reductions,
        None if isinstance(low, IntImm) else low,
        None if isinstance(extent, IntImm) else extent,
    )


# The tiling of a nest.


class CacheTile(IntEnum):
    """Cache tiles whose length is not a constant number of points.

    They have no bound, so no pack may depend on their axis.
    """

    WHOLE = 0  # one tile, as long as the axis
    SHARE = -1  # a share of the axis, computed at run time: see `Tiling`


@dataclass(frozen=True, slots=True)
class Tile:
    """An axis of a nest: cache tiles of `cache` points or of a kind of `CacheTile`, in them register tiles of
    `register` points, of which `lanes` are one vector (1 on all axes but at most one).

    `even`: instead of a remainder register tiles of an axis that is one cache tile differ by at most a point.
    """

    cache: int | CacheTile
    register: int = 1
    lanes: int = 1
    even: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether cache tiles have a constant number of points."""
        return self.cache > 0

    def registers(self, extent: int) -> list[tuple[int, int]]:
        """The register tiles of `extent` points, in order: how many, and of how many points each."""
        size = max(1, min(self.register, extent))
        whole, left = divmod(extent, size)
        if not left:
            return [(whole, size)] if whole else []
        if not self.even:
            return [(whole, size), (1, left)]
        least, more = divmod(extent, whole + 1)
        return [(n, points) for n, points in ((more, least + 1), (whole + 1 - more, least)) if n]


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot product of two reads of narrow integers (their numbers among the reads of `statement`): one
    instruction takes `size` neighbouring points of its phase's last axis.

    `packed` is read from a pack in which these neighbours are contiguous, as `dtype`, with `shift` added to
    each element, as the instructions multiply unsigned by signed bytes.  If the axis itself is the vector
    axis nothing is packed: each lane takes `size` neighbours of both reads.
    """

    statement: str
    packed: int
    other: int
    size: int
    dtype: DType
    shift: int = 0


@dataclass(frozen=True, slots=True)
class PhaseTile:
    """The tiling of a phase's loops.

    `vector` is the vector axis, with `lanes` lanes and `accumulators` vectors at a time.  The innermost loop
    is unrolled `unroll` times.  `block`: the first axis runs in blocks of that many points, each over the
    whole cache tile.  `prefetch`: gathered rows are prefetched that many iterations of the last axis ahead.
    `dot`: dot product instructions take groups of points of the last axis.
    """

    vector: str | None = None
    lanes: int = 1
    accumulators: int = 1
    unroll: int = 1
    block: int | None = None
    prefetch: int = 0
    dot: Dot | None = None


def one_block(p: Phase, t: PhaseTile) -> Phase:
    """The phase with the points of one block along its first axis."""
    if t.block is None or t.block >= p.axes[0].typical_extent:
        return p
    return replace(p, axes=(replace(p.axes[0], typical_extent=t.block), *p.axes[1:]))


@dataclass(frozen=True, slots=True)
class Pack:
    """A read of `statement` (its number among the statement's reads) from a packed copy of a cache tile.

    If each lane has a row of its own, `rows` rows are transposed at a time; 0: as many as a vector has lanes.
    """

    statement: str
    read: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class PrefetchHint:
    """A read of `statement` (its number among the statement's reads, None: the element that it writes) whose
    elements are prefetched `tiles` register tiles of `axis` ahead, or a block ahead if that is a blocked axis
    of a phase, into the cache `level`."""

    statement: str
    read: int | None
    axis: str
    tiles: int = 1
    level: int = 2


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiling of a nest.  `order`: the axes' names, outermost loop over cache tiles first; `inner`: the
    order of loops over register tiles.  The first `parallel` axes of `order` run in parallel.

    `tasks`, an expression of dynamic sizes, is the number of tasks to make.  The axes of which a cache tile
    is a share divide it: each makes as many tiles, of whole register tiles and at most `most` points, as the
    axes before it have not made yet.
    """

    tiles: Mapping[str, Tile] = field(hash=False)
    order: tuple[str, ...]
    inner: tuple[str, ...]
    phases: tuple[PhaseTile, ...]
    packs: tuple[Pack, ...] = ()
    parallel: int = 0
    tasks: Expr | None = None
    prefetches: tuple[PrefetchHint, ...] = ()
    most: int | None = None


@dataclass(frozen=True, slots=True)
class RegionTiling:
    """The cache tiles `tiles` of the region's axes; all run in parallel if `parallel`.

    A tile that is a `SHARE` is one of `tasks`, a whole multiple of `step` points and at most `most` points.
    """

    tiles: tuple[int | CacheTile, ...]
    nests: tuple[Tiling, ...]
    parallel: bool = True
    tasks: Expr | None = None
    step: int = 1
    most: int | None = None
