"""Plans: the fused loops of a program as regions of nests, and how each nest is tiled.

A *nest* is a set of loops (axes) around phases: statements alone, or statements with loops of their own
(most often a reduction).  Its points are independent of each other, so it can be tiled, unrolled and put
into lanes at will; one register tile runs all phases before the next begins.  A *region* is a sequence of
nests that share outer axes: one iteration of these runs all nests, so that what one produces is still in the
cache when the next reads it.

Everything here is plain data; `tc.poly.tiles` makes loops of it.  Where a program has dynamic sizes the
integers of an axis are those at their typical values, which is what tilings are chosen for, and beside them
it has expressions, which is what loops are made of.
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
    """A loop of a nest: `var` of each statement that has it runs over `min + [0, extent)`.

    `first` and `size` are what `min` and `extent` truly are where these depend on dynamic sizes.
    """

    name: str
    vars: Mapping[str, str] = field(hash=False)
    min: int
    extent: int
    reductions: frozenset[str] = frozenset()
    first: Expr | None = None
    size: Expr | None = None

    @property
    def low(self) -> Expr:
        """The first point."""
        return IntImm(self.min) if self.first is None else self.first

    @property
    def points(self) -> Expr:
        """How many points there are."""
        return IntImm(self.extent) if self.size is None else self.size


@dataclass(frozen=True, slots=True)
class Phase:
    """Statements that run together at a point of the nest, inside loops of their own."""

    statements: tuple[str, ...]
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True)
class Nest:
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
    """What axes are made from: the stages, and typical values of dynamic sizes."""

    stages: Mapping[str, Stage]
    typical: Mapping[str, int]


def regions(
    program: Program,
    tree: Sequence[Group | str],
    typical: Mapping[str, int] | None = None,
    apart: Collection[str] = (),
) -> tuple[Region, ...]:
    """The regions of a fusion tree, in order; `typical` are values of the program's dynamic sizes; the
    statements `apart` have regions of their own."""
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
    """Phases in loops of their own over the points of a tile: tiles are what phases share.  With
    `preserve3coincident` those stay together that keep three loops without dependences, or all they have.

    The points of a nest are independent, so all of one phase may run before the next begins.  The original
    calls it rescheduling of the point band, with a fusion strategy of its own (section 5.2 of the report).
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
    """Whether phases that share the axes of a nest, and no more, keep three coincident loops."""
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
    """The nest's axes with only its own statements."""
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
        # An axis that typical sizes leave empty still has loops.
        evaluate(extent, source.typical)
        if isinstance(extent, IntImm)
        else max(1, evaluate(extent, source.typical)),
        m.reductions,
        None if isinstance(low, IntImm) else low,
        None if isinstance(extent, IntImm) else extent,
    )


# How a nest is tiled.


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
    """A sum of products of two reads of narrow integers (their numbers among the reads of `statement`) that
    takes `size` neighbouring points of its phase's last axis in one step.

    `packed` is read from a copy with these neighbours together, as `dtype`, `shift` added to each element:
    the instructions multiply unsigned by signed bytes.  Where lanes run along the axis itself nothing is
    packed: each lane takes `size` neighbours of both.
    """

    statement: str
    packed: int
    other: int
    size: int
    dtype: DType
    shift: int = 0


@dataclass(frozen=True, slots=True)
class PhaseTile:
    """The loops of a phase: `vector` is put into `lanes` lanes, `accumulators` vectors at a time; the
    innermost loop is unrolled `unroll` times; `block`: the first axis runs in blocks of so many points, one
    at a time over the whole cache tile; `prefetch`: rows that data point to are asked for so many iterations
    of the last axis ahead; `dot`: groups of points of the last axis are one step."""

    vector: str | None = None
    lanes: int = 1
    accumulators: int = 1
    unroll: int = 1
    block: int | None = None
    prefetch: int = 0
    dot: Dot | None = None


def one_block(p: Phase, t: PhaseTile) -> Phase:
    """A phase whose first axis has the points of one block."""
    if t.block is None or t.block >= p.axes[0].extent:
        return p
    return replace(p, axes=(replace(p.axes[0], extent=t.block), *p.axes[1:]))


@dataclass(frozen=True, slots=True)
class Pack:
    """A read of `statement` (its number among the statement's reads) from a packed copy of a cache tile.

    Where the lanes lie in rows of their own, `rows` of them are turned at a time; 0: a vector of them.
    """

    statement: str
    read: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class PrefetchHint:
    """A read of `statement` (its number among the statement's reads, None: the element that it writes) whose
    elements are prefetched `tiles` register tiles of `axis` ahead, or a block ahead if that is a blocked axis
    of a phase."""

    statement: str
    read: int | None
    axis: str
    tiles: int = 1


@dataclass(frozen=True, slots=True)
class Tiling:
    """`order`: the axes' names, outermost cache tile first; `inner`: the order of register tiles.  The first
    parallel` axes of `order` run in parallel.

    `tasks`, over dynamic sizes, is how many parts the work is worth.  The axes of which a cache tile is a
    share divide it: each makes as many tiles, of whole register tiles and at most `most` points, as those
    before it have left to make.
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
