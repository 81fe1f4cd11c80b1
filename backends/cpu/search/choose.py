"""The choice: the candidate of each nest that is best by the cost model, and its tiling."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tc.ir.expr import Expr
from tc.ir.lines import traced
from tc.options import Options
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis, CacheTile, Nest, Region, RegionTiling, Tiling

from ..cost.balance import TASK_CYCLES
from ..cost.cost import nest_cost
from ..cost.register_tile import Candidate
from ..cost.work import NestContext, Work, footprint, work_of
from ..target import Machine
from .cache_tiles import tiling
from .rank import Ranked, ranked_candidates
from .sentences import sentences
from .shares import number_of_tasks

_NO_LIMIT = 1 << 30  # vectors
_RARE_PHASE = 32  # a phase that runs so many times less often than the most frequent one is rare
_SPILL_TOLERANCE = 1.1  # predicted cycles, as a factor, of a candidate that spills less


# The ranked candidates of nests, by the nest, the tiles of its region, and the typical values of the
# program's sizes.
Rankings = dict[tuple[Nest, tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]], list[Ranked]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen tilings: regions (without shared axes that do not pay), their tilings, and the text that
    explains them, traced."""

    regions: tuple[Region, ...]
    tilings: tuple[RegionTiling, ...]
    text: str
    candidates: tuple[tuple[Candidate, ...], ...]  # of the nests of each region
    cycles: Mapping[str, float]  # predicted, of the nest of each statement

    @property
    def vectors(self) -> dict[str, int]:
        """Vectors that the register tile of each statement's nest keeps; only of statements that run often,
        not of those that finish a sum of many terms."""
        pairs = zip(self.regions, self.candidates, strict=True)
        nests = ((n, c) for r, best in pairs for n, c in zip(r.nests, best, strict=True))
        out: dict[str, int] = {}
        for n, c in nests:
            often = [math.prod(a.typical_extent for a in p.axes) for p in n.phases]
            for p, runs in zip(n.phases, often, strict=True):
                if _RARE_PHASE * runs >= max(often):
                    out |= dict.fromkeys(p.statements, c.vectors)
        return out


def choose(
    scop: Scop,
    regions: Sequence[Region],
    machine: Machine,
    options: Options,
    typical: Mapping[str, int] | None = None,
    vector_limits: Mapping[str, int] | None = None,
    rankings: Rankings | None = None,
) -> Choice:
    """The best tiling of each region by the cost model.

    `typical` are values of the program's dynamic sizes.  Nests with statements in `vector_limits` keep fewer
    vectors than that, if such a candidate costs about the same.  `rankings` caches ranked candidates: new
    ones are added, known ones are not ranked again.
    """
    rankings = {} if rankings is None else rankings
    bodies = scop.bodies
    kept: list[Region] = []
    tilings: list[RegionTiling] = []
    lines: list[str] = []
    best_of: list[tuple[Candidate, ...]] = []
    cycles: dict[str, float] = {}
    for number, r in enumerate(regions):
        work, shared, given = _region_work(scop, r, bodies, machine, typical or {})
        chosen: list[Tiling] = []
        best_of.append(())
        for i, n in enumerate(r.nests):
            key = (n, tuple(given.items()), tuple((typical or {}).items()))
            if key not in rankings:
                rankings[key] = ranked_candidates(n, work[n], machine, given, options)
            ranked = rankings[key]
            best = _with_fewer_vectors(
                ranked,
                min(((vector_limits or {}).get(s, _NO_LIMIT) for s in n.statements), default=_NO_LIMIT),
            )
            best_of[-1] = (*best_of[-1], best.candidate)
            cycles |= dict.fromkeys(n.statements, best.cost.total)
            context = NestContext.of(n, work[n], machine, scop.program.counters)
            t = tiling(context, best.candidate, given, best.cost.total, options)
            chosen.append(t)
            start = len(lines)
            lines.append(f"region {number}, nest {i}: statements {', '.join(n.statements)}")
            lines += [f"  {s}" for s in sentences(n, ranked, best)]
            if given:
                lines.append("  inside tiles " + ", ".join(f"{k} by {v}" for k, v in given.items()))
            lines += [
                f"  {'*' if x is best else ' '} {x.cost.total:14.0f} cycles "
                f"(compute {x.cost.compute:.0f}, pack {x.cost.pack:.0f}, memory {x.cost.memory:.0f}, "
                f"reload {x.cost.reload:.0f})  "
                f"{x.label}"
                for x in (ranked[:8] if best in ranked[:8] else [*ranked[:7], best])
            ]
            lines.append(f"  {_describe_tiling(n, t)}")
            lines[start:] = [traced(line, *n.statements) for line in lines[start:]]
        kept.append(Region(shared, r.nests))
        parallel = bool(shared) and options.parallel is not False
        last = shared[-1] if shared else None
        tilings.append(RegionTiling(tuple(given.values()), tuple(chosen), parallel))
        if last is not None and last.size is not None:
            tilings[-1] = _region_shares(tilings[-1], shared, r.nests, work, given[last.name], machine)
    return Choice(tuple(kept), tuple(tilings), "\n".join(lines) + "\n", tuple(best_of), cycles)


def _with_fewer_vectors(ranked: Sequence[Ranked], most: int) -> Ranked:
    """The best candidate that keeps fewer vectors than `most`; the best of all where that costs too much."""
    worth = (x for x in ranked if x.cost.total <= _SPILL_TOLERANCE * ranked[0].cost.total)
    return next((x for x in worth if x.candidate.vectors < most), ranked[0])


def predicted(
    scop: Scop, regions: Sequence[Region], choice: Choice, machine: Machine, sizes: Mapping[str, int]
) -> float:
    """Cycles of a choice made for other typical sizes, at `sizes`, which `regions` have."""
    bodies = scop.bodies
    total = 0.0
    for r, made, tiled, best in zip(regions, choice.regions, choice.tilings, choice.candidates, strict=True):
        given = {
            a.name: t if t != CacheTile.SHARE else tiled.most or 1
            for a, t in zip(made.axes, tiled.tiles, strict=True)
        }
        for n, c in zip(r.nests, best, strict=True):
            context = NestContext.of(n, work_of(scop, n, bodies, machine, sizes), machine)
            extents = {a.name: min(given.get(a.name, a.typical_extent), a.typical_extent) for a in n.axes}
            repeats = math.prod(
                math.ceil(a.typical_extent / given[a.name]) for a in n.axes if a.name in given
            )
            total += nest_cost(context, c, extents, repeats).total
    return total


def _region_work(
    scop: Scop, r: Region, bodies: Mapping[str, Expr], machine: Machine, typical: Mapping[str, int]
) -> tuple[dict[Nest, dict[str, Work]], tuple[Axis, ...], dict[str, int]]:
    """The work of a region's nests, the axes that they should share, and the tiles of these axes."""
    work = {n: work_of(scop, n, bodies, machine, typical) for n in r.nests}
    shared = _region_axes(r, work)
    tiles = _region_tiles(shared, r.nests, work, machine) if shared else []
    return work, shared, {a.name: t for a, t in zip(shared, tiles, strict=True)}


def best_options(
    scop: Scop, regions: Sequence[Region], machine: Machine, count: int, options: Options
) -> tuple[tuple[Options, float], ...]:
    """The best candidates of the nest that costs most, each as `options` with its lanes and register tile,
    and their predicted cycles."""
    bodies = scop.bodies
    found: tuple[Nest, list[Ranked]] | None = None
    for r in regions:
        work, _, given = _region_work(scop, r, bodies, machine, {})
        for n in r.nests:
            ranked = ranked_candidates(n, work[n], machine, given, options)
            if found is None or ranked[0].cost.total > found[1][0].cost.total:
                found = n, ranked
    if found is None:
        return ()
    nest, ranked = found
    out: dict[Options, float] = {}
    for x in ranked:
        vector = next((i for i, a in enumerate(nest.axes) if x.candidate.tiles[a.name].lanes > 1), -1)
        register = tuple(x.candidate.tiles[a.name].register for a in nest.axes)
        out.setdefault(replace(options, vector=vector, register_tile=register or None), x.cost.total)
    return tuple(out.items())[:count]


def _describe_tiling(n: Nest, t: Tiling) -> str:
    """A line on the order, packs and prefetches of a tiling."""
    parts: list[str] = []
    for i, name in enumerate(t.order):
        x = t.tiles[name]
        lengths: dict[int, str] = {CacheTile.SHARE: "a share", CacheTile.WHOLE: "all"}
        cache = lengths.get(x.cache, x.cache)
        parts.append(f"{name} {'parallel ' if i < t.parallel else ''}by {cache}/{x.register}")
    packs = f"; packs {len(t.packs)}" if t.packs else ""
    along = ", ".join(sorted({x.axis for x in t.prefetches}))
    return (
        "order " + ", ".join(parts) + packs + (f"; prefetches the next rows along {along}" if along else "")
    )


# Loops that nests share.


def _region_axes(r: Region, work: Mapping[Nest, Mapping[str, Work]]) -> tuple[Axis, ...]:
    """The shared axes that are better outermost: not those along which vectors should run."""
    if len(r.axes) <= 1:
        return r.axes
    contiguous: set[str] = set()
    for n in r.nests:
        for w in work[n].values():
            contiguous |= {a for x in w.refs if x.written for a, s in x.strides.items() if s == 1}
    kept = tuple(a for a in r.axes if a.name not in contiguous and not a.reductions)
    return kept or r.axes[:1]


def _region_tiles(
    shared: Sequence[Axis], nests: Sequence[Nest], work: Mapping[Nest, Mapping[str, Work]], machine: Machine
) -> list[int]:
    """Tiles of a region's axes.

    What passes from nest to nest, or is read again in one, stays in the second cache, and there are tasks for
    all cores; within that, larger tiles reuse more.
    """
    total = sum(_rough_cycles(n, work[n], machine) for n in nests)
    tasks = max(1.0, min(total / (2 * TASK_CYCLES), 4.0 * machine.cores))
    names = {a.name for a in shared}
    staying: dict[str, int] = {}  # bytes of arrays that the innermost axis does not move
    bytes_each: dict[str, int] = {}
    readers = Counter(b for n in nests for b in {r.buffer for w in work[n].values() for r in w.refs})
    for n in nests:
        inner = {a.name: a.typical_extent for p in n.phases for a in p.axes}
        extents = {a.name: 1 if a.name in names else a.typical_extent for a in n.axes} | inner
        for s, w in work[n].items():
            around = [a.name for p in n.phases if s in p.statements for a in (*n.axes, *p.axes)]
            for r in w.refs:
                single_pass = readers[r.buffer] == 1 and all(r.strides.get(a, 0) for a in around)
                if not single_pass and any(r.strides.get(a, 0) for a in names):
                    moved = bytes_each if r.strides.get(shared[-1].name, 0) else staying
                    moved[r.buffer] = max(moved.get(r.buffer, 0), footprint(r, extents))
    half = machine.l2 // 2
    # Arrays that are too large are streamed: the fewer times, the better.
    room = max(half - sum(staying.values()), half // 2)
    fits = max(1, room // max(1, sum(bytes_each.values())))
    tiles: list[int] = []
    for a in shared:
        if a.size is not None:
            # This axis may have one point: the axes inside must make the tasks.
            tiles.append(1 if a is not shared[-1] else max(1, min(fits, 64)))
            continue
        if a is not shared[-1]:
            tasks = max(1.0, tasks / a.typical_extent)
            tiles.append(1)
            continue
        tile = max(1, min(fits, math.ceil(a.typical_extent / tasks), 64))
        tiles.append(min(a.typical_extent, tile - tile % 8 if tile > 8 else tile))
    return tiles


def _region_shares(
    t: RegionTiling,
    shared: Sequence[Axis],
    nests: Sequence[Nest],
    work: Mapping[Nest, Mapping[str, Work]],
    most: int,
    machine: Machine,
) -> RegionTiling:
    """The region's tiling with its innermost axis, of dynamic length, in shares of at most `most` points."""
    total = sum(_rough_cycles(n, work[n], machine) for n in nests)
    tasks = number_of_tasks(shared, (), total, 2 * TASK_CYCLES, 4 * machine.cores)
    # The outer axes have tiles of one point.
    step = 8 if most >= 8 else 1
    return replace(t, tiles=(*t.tiles[:-1], CacheTile.SHARE), tasks=tasks, step=step, most=most - most % step)


def _rough_cycles(n: Nest, work: Mapping[str, Work], machine: Machine) -> float:
    """Approximate cycles of a nest before anything is chosen."""
    lanes = machine.isa.lanes(4)
    points = math.prod(a.typical_extent for a in n.axes)
    total = 0.0
    for p in n.phases:
        inner = math.prod(a.typical_extent for a in p.axes)
        total += (
            points * inner * sum(work[s].operations for s in p.statements) / lanes / machine.fma_units * 1.5
        )
    return total
