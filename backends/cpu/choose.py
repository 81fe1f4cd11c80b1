"""The chooser: candidate tilings of each nest, the model's prediction for each, and the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from tc.ir.expr import Expr
from tc.options import Options
from tc.poly.ast import stage_bodies
from tc.poly.plan import (
    SHARE,
    WHOLE,
    Ahead,
    Axis,
    Nest,
    Pack,
    Phase,
    PhaseTile,
    Region,
    RegionTiling,
    Tile,
    Tiling,
)
from tc.poly.scop import Scop

from . import ahead, dot
from .lines import inner_order, outer_order, rows_together
from .machine import Machine
from .model import Candidate, Cost, flush_cycles, nest_cycles, tile_cycles
from .shares import number_of_tasks, shares
from .size import MOST, lines_of
from .work import Ref, Work, footprint, held_buffers, rows, work_of

_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)  # points of an axis in a register tile
_SAVED = 0.08  # of the lanes along an axis, at least, for vectors of half the width
_TURNED = (4, 8)  # rows that are turned together
_KEPT = 5  # candidates with lanes along one loop whose remainders are looked at
_SAMPLED = 8  # candidates of a kind, about, that are looked at first
_HOPELESS = 2.0  # times the cycles of the fastest, from where on the others of a kind are not looked at
_STREAMS = 8  # rows of an array that are read side by side: more may share a set of the first cache
_MOST_VECTORS = 256  # of a register tile that is given
_MOST_LINES = 4 * MOST  # of LLVM, of a register tile that is given
_MOST_UNROLLED = 64  # iterations, if more are wanted
_SUMS = 1024  # sums of the rows of a factor that are kept, where there is no saying how many rows there are
_TASK = 8000.0  # cycles that a task should have at least
_NEAR, _SHORT = (
    3.0,
    10.0,
)  # cycles to reach a row of less than a line, to pack it: on the same page, on another
_FILLING = 0.2  # elements of packs, of all tasks, for each cycle of a nest
_SERIAL = 16000.0  # cycles below which one thread is faster
_BLOCK = 512  # points of a block of a reduction of dynamic length
_DEPTH = 1024  # points of a block of a deep reduction, about
_DYNAMIC_LANES = 1.2
_ANY = 1 << 30  # vectors that a candidate may keep
_DEARER = 1.1  # by the model, of a candidate that spills less


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its predicted cycles on one core."""

    candidate: Candidate
    cost: Cost
    label: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Regions (axes that do not pay as shared loops are dropped), how they are tiled, and why."""

    regions: tuple[Region, ...]
    tilings: tuple[RegionTiling, ...]
    text: str
    candidates: tuple[tuple[Candidate, ...], ...]  # of the nests of each region
    cycles: Mapping[str, float]  # that the nest of each statement takes

    @property
    def vectors(self) -> dict[str, int]:
        """Vectors that the register tile of each statement's nest keeps."""
        pairs = zip(self.regions, self.candidates, strict=True)
        nests = ((n, c) for r, best in pairs for n, c in zip(r.nests, best, strict=True))
        return {s: c.vectors for n, c in nests for s in n.statements}


def choose(
    scop: Scop,
    regions: Sequence[Region],
    machine: Machine,
    options: Options,
    typical: Mapping[str, int] | None = None,
    fewer: Mapping[str, int] | None = None,
) -> Choice:
    """The best tiling of each region by the model; `typical` are values of the program's dynamic sizes;
    nests with statements in `fewer` keep fewer vectors than that if such a candidate is about as good."""
    bodies = stage_bodies(scop.program)
    kept: list[Region] = []
    tilings: list[RegionTiling] = []
    lines = [f"machine: {_told(machine)}"]
    best_of: list[tuple[Candidate, ...]] = []
    cycles: dict[str, float] = {}
    for number, r in enumerate(regions):
        work, shared, given = _prepared(scop, r, bodies, machine, typical or {})
        chosen: list[Tiling] = []
        best_of.append(())
        for i, n in enumerate(r.nests):
            ranked = candidates(n, work[n], machine, given, options)
            best = _with_fewer(ranked, min(((fewer or {}).get(s, _ANY) for s in n.statements), default=_ANY))
            best_of[-1] = (*best_of[-1], best.candidate)
            cycles |= dict.fromkeys(n.statements, best.cost.total)
            t = tiling(n, work[n], best.candidate, machine, given, best.cost.total, options)
            chosen.append(t)
            lines.append(f"region {number}, nest {i}: statements {', '.join(n.statements)}")
            if given:
                lines.append("  inside tiles " + ", ".join(f"{k} by {v}" for k, v in given.items()))
            lines += [
                f"  {'*' if x is best else ' '} {x.cost.total:14.0f} cycles "
                f"(compute {x.cost.compute:.0f}, pack {x.cost.pack:.0f}, memory {x.cost.memory:.0f})  "
                f"{x.label}"
                for x in (ranked[:8] if best in ranked[:8] else [*ranked[:7], best])
            ]
            lines.append(f"  {_described(n, t)}")
        kept.append(Region(shared, r.nests))
        parallel = bool(shared) and options.parallel is not False
        last = shared[-1] if shared else None
        tilings.append(RegionTiling(tuple(given.values()), tuple(chosen), parallel))
        if last is not None and last.size is not None:
            tilings[-1] = _region_shares(tilings[-1], shared, r.nests, work, given[last.name], machine)
    return Choice(tuple(kept), tuple(tilings), "\n".join(lines) + "\n", tuple(best_of), cycles)


def _with_fewer(ranked: Sequence[Ranked], most: int) -> Ranked:
    """The best candidate that keeps fewer vectors than `most`; the best of all where that costs too much."""
    worth = (x for x in ranked if x.cost.total <= _DEARER * ranked[0].cost.total)
    return next((x for x in worth if x.candidate.vectors < most), ranked[0])


def _region_shares(
    t: RegionTiling,
    shared: Sequence[Axis],
    nests: Sequence[Nest],
    work: Mapping[Nest, Mapping[str, Work]],
    most: int,
    machine: Machine,
) -> RegionTiling:
    """The innermost axis of a region, of dynamic length, in shares of at most so many points."""
    total = sum(_plain_cycles(n, work[n], machine) for n in nests)
    tasks = number_of_tasks(shared, (), total, 2 * _TASK, 4 * machine.cores)
    # The axes around have tiles of one point.
    step = 8 if most >= 8 else 1
    return replace(t, tiles=(*t.tiles[:-1], SHARE), tasks=tasks, step=step, most=most - most % step)


def predicted(
    scop: Scop, regions: Sequence[Region], choice: Choice, machine: Machine, sizes: Mapping[str, int]
) -> float:
    """Cycles of what was chosen for other typical sizes, at `sizes`, which `regions` have."""
    bodies = stage_bodies(scop.program)
    total = 0.0
    for r, made, tiled, best in zip(regions, choice.regions, choice.tilings, choice.candidates, strict=True):
        given = {
            a.name: t if t != SHARE else tiled.most or 1 for a, t in zip(made.axes, tiled.tiles, strict=True)
        }
        for n, c in zip(r.nests, best, strict=True):
            work = work_of(scop, n, bodies, machine, sizes)
            extents = {a.name: min(given.get(a.name, a.extent), a.extent) for a in n.axes}
            repeats = math.prod(math.ceil(a.extent / given[a.name]) for a in n.axes if a.name in given)
            total += _cost(n, work, c, extents, repeats, machine).total
    return total


def _told(machine: Machine) -> str:
    facts = ((f.name, getattr(machine, f.name)) for f in fields(machine))
    return ", ".join(f"{k} {v.name if k == 'isa' else v}" for k, v in facts)


def _prepared(
    scop: Scop, r: Region, bodies: Mapping[str, Expr], machine: Machine, typical: Mapping[str, int]
) -> tuple[dict[Nest, dict[str, Work]], tuple[Axis, ...], dict[str, int]]:
    """The work of a region's nests, the axes that they had better share, and the tiles of these."""
    work = {n: work_of(scop, n, bodies, machine, typical) for n in r.nests}
    shared = _region_axes(r, work)
    tiles = _region_tiles(shared, r.nests, work, machine) if shared else []
    return work, shared, {a.name: t for a, t in zip(shared, tiles, strict=True)}


def best_options(
    scop: Scop, regions: Sequence[Region], machine: Machine, count: int, options: Options
) -> tuple[tuple[Options, float], ...]:
    """The best candidates of the nest that costs most, as `options` with the lanes and the register tile of
    each, with their predicted cycles."""
    bodies = stage_bodies(scop.program)
    found: tuple[Nest, list[Ranked]] | None = None
    for r in regions:
        work, _, given = _prepared(scop, r, bodies, machine, {})
        for n in r.nests:
            ranked = candidates(n, work[n], machine, given, options)
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


def _described(n: Nest, t: Tiling) -> str:
    parts: list[str] = []
    for i, name in enumerate(t.order):
        x = t.tiles[name]
        cache = {SHARE: "a share", WHOLE: "all"}.get(x.cache, x.cache)
        parts.append(f"{name} {'parallel ' if i < t.parallel else ''}by {cache}/{x.register}")
    packs = f"; packs {len(t.packs)}" if t.packs else ""
    along = ", ".join(sorted({x.axis for x in t.ahead}))
    return "order " + ", ".join(parts) + packs + (f"; asks for the next rows along {along}" if along else "")


def _region_axes(r: Region, work: Mapping[Nest, Mapping[str, Work]]) -> tuple[Axis, ...]:
    """The shared axes that are better outermost: not those that vectors should run along."""
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
    """Tiles of a region's axes: what passes from nest to nest stays in the second cache, and there are tasks
    for all cores; within that, the more points a tile has, the more often data are used again."""
    total = sum(_plain_cycles(n, work[n], machine) for n in nests)
    tasks = max(1.0, min(total / (2 * _TASK), 4.0 * machine.cores))
    names = {a.name for a in shared}
    bytes_each: dict[str, int] = {}
    for n in nests:
        inner = {a.name: a.extent for p in n.phases for a in p.axes}
        extents = {a.name: 1 if a.name in names else a.extent for a in n.axes} | inner
        for w in work[n].values():
            for r in w.refs:
                if any(r.strides.get(a, 0) for a in names):
                    bytes_each[r.buffer] = max(bytes_each.get(r.buffer, 0), footprint(r, extents))
    fits = max(1, machine.l2 // 2 // max(1, sum(bytes_each.values())))
    tiles: list[int] = []
    for a in shared:
        if a.size is not None:
            # Of this axis there may be one point: those inside must make the tasks.
            tiles.append(1 if a is not shared[-1] else max(1, min(fits, 64)))
            continue
        if a is not shared[-1]:
            tasks = max(1.0, tasks / a.extent)
            tiles.append(1)
            continue
        tile = max(1, min(fits, math.ceil(a.extent / tasks), 64))
        tiles.append(min(a.extent, tile - tile % 8 if tile > 8 else tile))
    return tiles


def _plain_cycles(n: Nest, work: Mapping[str, Work], machine: Machine) -> float:
    """About what a nest costs, before anything is chosen."""
    lanes = machine.isa.lanes(4)
    points = math.prod(a.extent for a in n.axes)
    total = 0.0
    for p in n.phases:
        inner = math.prod(a.extent for a in p.axes)
        total += (
            points * inner * sum(work[s].operations for s in p.statements) / lanes / machine.fma_units * 1.5
        )
    return total


# Candidates.


def candidates(
    nest: Nest, work: Mapping[str, Work], machine: Machine, given: Mapping[str, int], options: Options
) -> list[Ranked]:
    """The candidates of a nest that the options allow, the best first; at least one."""
    extents = {a.name: min(given.get(a.name, a.extent), a.extent) for a in nest.axes}
    repeats = math.prod(math.ceil(a.extent / given[a.name]) for a in nest.axes if a.name in given)
    held = held_buffers(nest, work)
    made = _register_tiles(nest, work, machine, extents, options.pack is True)
    # The tiles of a region are whole register tiles.
    partial = {
        a.name: given[a.name] for a in nest.axes if a.size is None and given.get(a.name, a.extent) < a.extent
    }
    fitting: list[tuple[Candidate, str]] = []
    for c, label in _allowed(nest, made, options):
        if options.register_tile is not None:
            c, label = _shorter(nest, work, c, label, extents)
        if (whole := _whole(c, partial, options)) is not None:
            fitting.append((whole, label))

    def cycles(c: Candidate) -> float:
        """Of a point, all of its data in the first cache."""
        at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
        # As if what is left over at the end of an axis cost half a tile more.
        waste = math.prod(
            (1 + math.ceil(extents[n] / e) * e / extents[n]) / 2 for n, e in at.items() if extents[n]
        )
        one = tile_cycles(nest, work, c, at, held, None, machine)
        return waste * _masked(nest, c) * one / math.prod(at.values())

    rough = _promising(fitting, cycles)
    ranked = _ranked(nest, work, [(c, label) for _, c, label in rough], extents, repeats, machine)
    # Of constant extents what is left over is one length, and a tile that is given is asked for.
    dynamic = any(a.size is not None for a in (*nest.axes, *(a for p in nest.phases for a in p.axes)))
    if not dynamic or options.register_tile is not None:
        return ranked
    if lines_of(nest, work, ranked[0].candidate, extents) <= MOST:
        return ranked
    lines = [lines_of(nest, work, c, extents) for _, c, _ in rough]
    most = max(MOST, min(lines))
    smaller = [(c, label) for (_, c, label), n in zip(rough, lines, strict=True) if n <= most]
    return _ranked(nest, work, smaller, extents, repeats, machine)


def _whole(c: Candidate, partial: Mapping[str, int], options: Options) -> Candidate | None:
    """A candidate of whole register tiles in tiles of so many points, if it can be one."""
    if not any(g % c.tiles[n].register for n, g in partial.items()):
        return c
    if options.register_tile is None or any(g % c.tiles[n].lanes for n, g in partial.items()):
        return None
    whole = {
        n: replace(t, register=t.lanes * math.gcd(partial[n] // t.lanes, t.register // t.lanes))
        for n, t in c.tiles.items()
        if n in partial
    }
    return replace(c, tiles={**c.tiles, **whole})


def _promising(
    found: Sequence[tuple[Candidate, str]], cycles: Callable[[Candidate], float]
) -> list[tuple[float, Candidate, str]]:
    """Candidates with their cycles, the fewest first: some of each kind, and all of the kinds of which these
    are not much slower than the fastest."""
    kinds: dict[object, list[int]] = {}
    for i, (c, _) in enumerate(found):
        lanes = next((n for n, t in c.tiles.items() if t.lanes > 1), None)
        kinds.setdefault((lanes, *((p.vector, p.dot is None) for p in c.phases)), []).append(i)
    some = {k: numbers[:: max(1, len(numbers) // _SAMPLED)] for k, numbers in kinds.items()}
    cost = {i: cycles(found[i][0]) for numbers in some.values() for i in numbers}
    least = min(cost.values(), default=0.0)
    for k, numbers in kinds.items():
        if min(cost[i] for i in some[k]) <= _HOPELESS * least:
            cost |= {i: cycles(found[i][0]) for i in numbers if i not in cost}
    return [(cost[i], *found[i]) for i in sorted(cost, key=lambda i: (cost[i], i))]


def _ranked(
    nest: Nest,
    work: Mapping[str, Work],
    rough: Sequence[tuple[Candidate, str]],
    extents: Mapping[str, int],
    repeats: int,
    machine: Machine,
) -> list[Ranked]:
    """Those among the first ones of each kind, the best first."""
    kept: list[tuple[Candidate, str]] = []
    seen: dict[object, int] = {}
    for c, label in rough:
        along = (next((n for n, t in c.tiles.items() if t.lanes > 1), None), c.phases)
        seen[along] = seen.get(along, 0) + 1
        if seen[along] <= _KEPT:
            kept.append((c, label))
    ranked = [Ranked(c, _cost(nest, work, c, extents, repeats, machine), label) for c, label in kept]
    ranked.sort(key=lambda x: x.cost.total)
    return ranked


def _masked(nest: Nest, c: Candidate) -> float:
    """What lanes along a loop of dynamic length cost: unaligned rows, and a vector under a mask."""
    phases = [(a, p) for phase, p in zip(nest.phases, c.phases, strict=True) for a in phase.axes]
    lanes = any(a.size is not None and c.tiles[a.name].lanes > 1 for a in nest.axes)
    lanes = lanes or any(a.size is not None and p.vector == a.name for a, p in phases)
    return _DYNAMIC_LANES if lanes else 1.0


def _allowed(nest: Nest, made: list[tuple[Candidate, str]], options: Options) -> list[tuple[Candidate, str]]:
    """The candidates with the options' lanes, register tile, unrolling and packs."""
    if options.vector is not None:

        def chosen(c: Candidate) -> bool:
            if options.vector == -1:
                return any(p.vector for p in c.phases)
            names = [a.name for a in nest.axes][options.vector : options.vector + 1]  # type: ignore[operator]
            return all(c.tiles[n].lanes > 1 for n in names)

        made = [x for x in made if chosen(x[0])] or made[:1]
    if options.register_tile is not None:
        seen: dict[tuple[object, ...], tuple[Candidate, str]] = {}
        for c, label in made:
            tiles = dict(c.tiles)
            for a, points in zip(nest.axes, options.register_tile, strict=False):
                t = tiles[a.name]
                points = min(points, -(-a.extent // t.lanes) * t.lanes)
                tiles[a.name] = replace(t, register=-(-points // t.lanes) * t.lanes)
            tiles, fits = _halved(tiles, lambda tiles: _vectors(tiles) <= _MOST_VECTORS)
            told = "as given" if fits else f"as given, down to {_MOST_VECTORS} vectors"
            key = tuple((n, t.register, t.lanes) for n, t in tiles.items())
            seen.setdefault((*key, c.phases), (replace(c, tiles=tiles), f"{label}, register tile {told}"))
        made = list(seen.values())
    if options.unroll is not None:
        unroll = min(options.unroll, _MOST_UNROLLED)
        made = [(replace(c, phases=tuple(replace(p, unroll=unroll) for p in c.phases)), s) for c, s in made]
    if options.pack:
        made = [x for x in made if x[0].packs] or made
    elif options.pack is False:
        made = [x for x in made if not any(p.dot for p in x[0].phases)]
        made = [(replace(c, packs=frozenset()), label.split(", ")[0]) for c, label in made]
    return made


def _cost(
    nest: Nest,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    repeats: int,
    machine: Machine,
) -> Cost:
    compute = nest_cycles(nest, work, c, extents, machine) * repeats * _masked(nest, c)
    compute += _revisits(nest, work, c, extents, machine) * repeats
    inner = {a.name: a.extent for p in nest.phases for a in p.axes}
    pack = 0.0
    packed = [r for w in work.values() for r in w.refs if (r.statement, r.read) in c.packs]
    depends = {n for r in packed for n in extents if r.strides.get(n, 0)}
    distinct: dict[str, float] = {}
    for w in work.values():
        for r in w.refs:
            size = footprint(r, {**extents, **inner})
            distinct[r.buffer] = max(distinct.get(r.buffer, 0.0), float(size))
            if (r.statement, r.read) in c.packs:
                vector = next(n for n, t in c.tiles.items() if t.lanes > 1)
                at = {n: e if n == vector else min(e, c.tiles[n].register) for n, e in extents.items()}
                # Each cache tile fills all packs.
                again = math.prod(
                    -(-extents[n] // at[n]) for n in depends if n != vector and not r.strides.get(n, 0)
                )
                each = 0.5 if r.strides.get(vector, 0) != 1 else 0.2
                each += _reached(r, {**at, **inner})
                pack += size / r.itemsize * each * again * repeats
    total = sum(distinct.values()) * repeats
    rate = machine.bandwidth
    if total < machine.l3:
        rate = machine.l2_bandwidth if total < machine.l2 else machine.l3_bandwidth
    # Every remainder is a body of its own, and many accumulators leave no room for what the code generator
    # keeps beside them: of candidates that are about equal, the simple one.
    bodies = math.prod(
        1 + (extents[n] > t.register and extents[n] % t.register > 0) for n, t in c.tiles.items()
    )
    held = math.prod(math.ceil(t.register / t.lanes) for t in c.tiles.values())
    along = next((n for n, t in c.tiles.items() if t.lanes > 1), None)
    if (
        along is not None
        and total > machine.l2
        and any(r.windows and r.strides.get(along) == 1 for w in work.values() for r in w.refs)
    ):
        bodies += 2  # vectors across two lines that come from afar wait for both
    if any(p.vector for p in c.phases):  # rows read side by side are streams to prefetch
        bodies += max(0, held - 4)
    crowded = max(0.0, held / machine.isa.registers - 0.72)
    return Cost(compute * (1 + 0.02 * (bodies - 1) + 0.7 * crowded), pack, total / rate)


def _reached(r: Ref, extents: Mapping[str, int]) -> float:
    """Cycles an element to reach rows of less than a line: the next on this page, or on another."""
    _, row = rows(r, extents)
    if row >= 64:
        return 0.0
    apart = min(
        (abs(s) * r.itemsize for n, s in r.strides.items() if n in extents and abs(s) * r.itemsize >= row),
        default=0,
    )
    return (_NEAR if apart < ahead.FAR else _SHORT) * r.itemsize / row


def _revisits(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles to load and store the results again for each block of a deep reduction but the first."""
    packed = [r for w in work.values() for r in w.refs if (r.statement, r.read) in c.packs]
    vector = next((n for n, t in c.tiles.items() if t.lanes > 1), None)
    if not packed or vector is None:
        return 0.0
    depth, _ = _depth(nest, packed, c.phases)
    if not _too_deep(depth, packed, c.tiles[vector], machine):
        return 0.0
    blocked = zip(nest.phases, _blocks(nest, c.phases, packed), strict=True)
    blocks = max(-(-p.axes[0].extent // t.block) if t.block else 1 for p, t in blocked)
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
    tiles = math.prod(-(-extents[n] // e) for n, e in at.items())
    total = 0.0
    for r in held_buffers(nest, work).values():
        each = 2 * flush_cycles(r, c, at, machine)
        if r.elements * r.itemsize > machine.l2:
            # Less than a line of each row: the rest of it comes again, for another tile.
            along = max((e for n, e in at.items() if r.strides.get(n, 0) == 1), default=1) * r.itemsize
            rows = math.prod(e for n, e in at.items() if abs(r.strides.get(n, 0)) > 1)
            each += 2 * rows * max(along, 128 if along < 64 else 64) / machine.l3_bandwidth
        total += each
    return (blocks - 1) * tiles * total


def _lanes(nest: Nest, work: Mapping[str, Work], machine: Machine) -> int:
    """Lanes of a vector: of float32, or of what the nest mostly moves if that is wider."""
    widest = max((r.itemsize for w in work.values() for r in w.refs if not r.indirect), default=4)
    return machine.isa.lanes(max(4, widest))


def _register_tiles(
    nest: Nest, work: Mapping[str, Work], machine: Machine, extents: Mapping[str, int], pack: bool
) -> list[tuple[Candidate, str]]:
    lanes = _lanes(nest, work, machine)
    out: list[tuple[Candidate, str]] = []
    plain = tuple(_phase_tile(p, None, lanes, 1) for p in nest.phases)
    axes = [a for a in nest.axes if not a.reductions]
    sums = max(sum(work[s].update for s in p.statements) for p in nest.phases)
    most = (machine.isa.registers - 6) // max(1, sums)
    out.append((Candidate({a.name: Tile(extents[a.name]) for a in nest.axes}, plain, frozenset()), "scalar"))
    for v in axes:
        e = extents[v.name]
        if e < 2 or _apart(nest, work, v.name):
            continue
        packs = _packs(nest, work, v.name, extents, pack)
        for width, counts in _widths(e, lanes, machine):
            dotted = dot.dots(nest, work, v.name, width, plain, machine.isa)
            for vectors in counts:
                if vectors > 1 and (vectors - 1) * width >= e:
                    break
                others = [a for a in axes if a is not v]
                for tile in _tiles(others, work, nest, extents, most // vectors, True):
                    if not _fits(nest, work, v.name, vectors, tile, machine):
                        continue
                    tiles = {a.name: Tile(extents[a.name], tile.get(a.name, 1)) for a in nest.axes}
                    tiles[v.name] = Tile(e, min(vectors * width, -(-e // width) * width), width)
                    label = f"lanes {v.name} x{vectors}" + (f" of {width}" if width < min(lanes, e) else "")
                    label += "".join(f", {k} x{n}" for k, n in tile.items() if n > 1)
                    label += f", {len(packs)} packed" if packs else ""
                    out.append((Candidate(tiles, plain, packs), label))
                    if dotted is not None:
                        needed = packs | {
                            (p.dot.statement, p.dot.packed) for p in dotted if p.dot is not None
                        }
                        out.append((Candidate(tiles, dotted, needed), f"{label}, dot products"))
    private = [_vector_axis(nest, p, work) for p in nest.phases]
    if any(private):
        for tile in _tiles(axes, work, nest, extents, most, False):
            n = math.prod(tile.values())
            for accumulators in (1, 2, 4, 8):
                if n * accumulators > most:
                    continue
                phases = tuple(
                    _phase_tile(p, v, lanes, accumulators) for p, v in zip(nest.phases, private, strict=True)
                )
                dotted = dot.dots_along(nest, work, phases, machine.isa)
                tiles = {a.name: Tile(extents[a.name], tile.get(a.name, 1)) for a in nest.axes}
                label = "lanes " + "/".join(sorted({v for v in private if v})) + f" x{accumulators}"
                label += "".join(f", {k} x{x}" for k, x in tile.items() if x > 1)
                out.append((Candidate(tiles, phases, frozenset()), label))
                if dotted is not None:
                    out.append((Candidate(tiles, dotted, frozenset()), f"{label}, dot products"))
    return out


def _widths(extent: int, lanes: int, machine: Machine) -> list[tuple[int, range]]:
    """Lanes of a vector along an axis, and how many vectors: those of the machine, and half of them where
    that leaves fewer of them empty and costs nothing else."""
    width = min(lanes, 1 << (extent - 1).bit_length())
    out = [(width, range(1, 5))]
    half = width // 2
    bytes_each = machine.isa.vector_bytes // machine.isa.lanes(4)
    whole, halves = machine.issue(width * bytes_each)[0], machine.issue(half * bytes_each)[0]
    saved = -(-extent // width) * width - -(-extent // half) * half if half else 0
    if width == lanes and halves >= 2 * whole and saved >= _SAVED * extent:
        out.append((half, range(2, 8)))
    return out


def _tiles(
    axes: Sequence[Axis],
    work: Mapping[str, Work],
    nest: Nest,
    extents: Mapping[str, int],
    most: int,
    turned: bool,
) -> list[dict[str, int]]:
    """Points of at most two axes in a register tile.  It pays where data are used again: along an axis that
    some reference of a phase with loops does not depend on; `turned`: and where lanes run along another axis
    than the results."""
    if not any(p.axes for p in nest.phases):
        # A copy that turns: rows along which results are neighbours, as many as fit a vector.
        along = {
            n for w in work.values() for r in w.refs if r.written for n, s in r.strides.items() if s == 1
        }
        rows = next((a for a in axes if a.name in along and extents[a.name] >= 4), None)
        return [{}] if rows is None else [{}, {rows.name: min(16, extents[rows.name])}]
    inner = {a.name for p in nest.phases for a in p.axes}
    moving = [
        r
        for w in work.values()
        for r in w.refs
        if not r.written and (set(r.strides) & inner or r.indirect & inner)
    ]
    useful = [
        a
        for a in axes
        if extents[a.name] > 1
        and any(not r.strides.get(a.name, 0) and a.name not in r.indirect for r in moving)
    ]
    useful = sorted(useful, key=lambda a: -extents[a.name])[:3]
    options: list[list[tuple[str, int]]] = [
        [(a.name, n) for n in _COUNTS if n <= extents[a.name]] for a in useful
    ]
    if turned:
        # Rows along which results are neighbours are turned before they are stored, which takes several.
        options += [
            [(a.name, n) for n in (1, *_TURNED) if n <= extents[a.name]]
            for a in axes
            if a not in useful
            and extents[a.name] >= _TURNED[0]
            and any(r.written and r.strides.get(a.name, 0) == 1 for w in work.values() for r in w.refs)
        ]
    out: list[dict[str, int]] = []

    def longer(tile: dict[str, int], points: int, several: int) -> None:
        """The tiles that begin so."""
        if len(tile) == len(options):
            out.append(tile)
            return
        for name, n in options[len(tile)]:
            if points * n <= most and several + (n > 1) <= 2:
                longer({**tile, name: n}, points * n, several + (n > 1))

    longer({}, 1, 0)
    most_used = max((math.prod(t.values()) for t in out), default=1)
    kept = [t for t in out if (n := math.prod(t.values())) <= 2 or 3 * n >= most_used]
    return kept or [{}]


def _fits(
    nest: Nest, work: Mapping[str, Work], vector: str, vectors: int, tile: Mapping[str, int], machine: Machine
) -> bool:
    """Whether accumulators and the elements of sliding windows fit the registers.  An element that several
    points of an unrolled window use is loaded once by LLVM and stays in a register."""
    unrolled = {p.axes[-1].name: min(p.axes[-1].extent, 4) for p in nest.phases if p.axes}
    kept = 0
    for w in work.values():
        for r in w.refs:
            if not r.windows or r.strides.get(vector, 0):
                continue
            count = 1
            reused = False
            for n, e in tile.items():
                if not r.strides.get(n, 0):
                    continue
                step = next(
                    (unrolled[b] for pair in r.windows if n in pair for b in pair if b in unrolled), 1
                )
                count *= e + step - 1
                reused = reused or (step > 1 and e > 1)
            kept += count + vectors if reused else 0
    sums = max(sum(work[s].update for s in p.statements) for p in nest.phases)
    return vectors * math.prod(tile.values()) * max(1, sums) + kept <= machine.isa.registers + (
        4 if kept else 0
    )


def _phase_tile(p: Phase, vector: str | None, lanes: int, accumulators: int) -> PhaseTile:
    if not p.axes:
        return PhaseTile()
    if vector is None:
        last = p.axes[-1].extent
        return PhaseTile(unroll=4 if last >= 8 else max(1, last))
    extent = next(a.extent for a in p.axes if a.name == vector)
    width = min(lanes, 1 << (max(extent, 1) - 1).bit_length())
    while accumulators > 1 and accumulators * width > extent:
        accumulators //= 2
    return PhaseTile(vector, width, accumulators)


def _apart(nest: Nest, work: Mapping[str, Work], axis: str) -> bool:
    """Whether elements that a nest writes lie apart, along an axis, by what only dynamic sizes say: there is
    no code for such lanes."""
    refs = [r for w in work.values() for r in w.refs]
    written = {r.buffer for r in refs if r.written}
    return any(axis in r.dynamic for r in refs if r.buffer in written)


def _vector_axis(nest: Nest, p: Phase, work: Mapping[str, Work]) -> str | None:
    """The loop of a phase along which most references have neighbours."""
    best, score = None, 0.0
    for a in p.axes:
        if a.extent < 2 or _apart(nest, work, a.name):
            continue
        found = 1.0
        for s in p.statements:
            for r in work[s].refs:
                stride = r.strides.get(a.name, 0)
                if a.name in r.indirect or stride not in (0, 1):
                    found -= 0.5
                elif stride == 1:
                    found += 1.0
        if found > score:
            best, score = a.name, found
    return best


def _packs(
    nest: Nest, work: Mapping[str, Work], vector: str, extents: Mapping[str, int], wanted: bool
) -> frozenset[tuple[str, int]]:
    """The reads that are worth a packed copy when lanes run along `vector`; if that is `wanted`, all that are
    read more than once."""
    inner = {a.name: a.extent for p in nest.phases for a in p.axes}
    # A pack of a loop of dynamic length is made block by block, which is for phases of one loop.
    endless = {a.name for p in nest.phases for a in p.axes if a.size is not None and len(p.axes) > 1}
    written = {r.buffer for w in work.values() for r in w.refs if r.written}
    out: set[tuple[str, int]] = set()
    for w in work.values():
        for r in w.refs:
            stride = r.strides.get(vector, 0)
            moving = [a for a in r.strides if a in inner and r.strides[a]]
            if r.written or not r.plain or r.buffer in written or not stride or not moving:
                continue
            if endless & set(moving):
                continue
            reuse = math.prod(e for a, e in extents.items() if not r.strides.get(a, 0))
            rows = math.prod(inner[a] for a in moving if abs(r.strides[a]) * r.itemsize >= 256)
            pays = reuse >= 4 and (stride != 1 or (rows >= 64 and reuse >= 16))
            if (pays or (wanted and reuse > 1)) and not r.windows:
                out.add((r.statement, r.read))
    return frozenset(out)


def _shorter(
    nest: Nest, work: Mapping[str, Work], c: Candidate, label: str, extents: Mapping[str, int]
) -> tuple[Candidate, str]:
    """A candidate with a register tile that is given, or with one that makes no more code than LLVM compiles
    in some seconds."""
    tiles, fits = _halved(
        c.tiles, lambda tiles: lines_of(nest, work, replace(c, tiles=tiles), extents) <= _MOST_LINES
    )
    return replace(c, tiles=tiles), label if fits else f"{label}, down to {_MOST_LINES} lines of LLVM"


def _vectors(tiles: Mapping[str, Tile]) -> int:
    return math.prod(t.register // t.lanes for t in tiles.values())


def _halved(
    tiles: Mapping[str, Tile], fit: Callable[[Mapping[str, Tile]], bool]
) -> tuple[Mapping[str, Tile], bool]:
    """Register tiles that fit, the largest one halved until they do or have one vector each, and whether they
    did."""
    out = tiles
    while not fit(out):
        n, t = max(out.items(), key=lambda x: x[1].register // x[1].lanes)
        vectors = t.register // t.lanes
        if vectors <= 1:
            break
        out = {**out, n: replace(t, register=vectors // 2 * t.lanes)}
    return out, out is tiles


# From a register tile to cache tiles, order and threads.


def tiling(
    nest: Nest,
    work: Mapping[str, Work],
    c: Candidate,
    machine: Machine,
    given: Mapping[str, int],
    cycles: float,
    options: Options,
) -> Tiling:
    """Cache tiles, their order, and which of them run in parallel."""
    tiles = {n: replace(t, cache=given.get(n, t.cache)) for n, t in c.tiles.items()}
    axes = {a.name: a for a in nest.axes}
    refs = [r for w in work.values() for r in w.refs]
    packed = [r for r in refs if (r.statement, r.read) in c.packs]
    free = [n for n in axes if n not in given and not axes[n].reductions]
    order = [n for n in outer_order(nest, work, machine) if n in free]
    near = 0 if options.prefetch else machine.l2  # bytes of arrays of which nothing is asked for early
    phases = c.phases
    vector = next((n for n, t in tiles.items() if t.lanes > 1), None)
    if packed and vector is not None:
        depends = {n for r in packed for n in r.strides if n in axes and r.strides[n]}
        order = [n for n in order if n in depends] + [n for n in order if n not in depends]
        depth, size = _depth(nest, packed, phases)
        register = tiles[vector].register
        half = machine.l2 // 2
        endless = {a.name for p in nest.phases for a in p.axes if a.size is not None}
        endless &= {a for r in packed for a in r.strides if r.strides[a]}
        if endless:
            phases = tuple(
                replace(x, block=_BLOCK) if any(a.name in endless for a in p.axes) else x
                for p, x in zip(nest.phases, c.phases, strict=True)
            )
            depth = _BLOCK
        elif _too_deep(depth, packed, tiles[vector], machine):
            phases = _blocks(nest, c.phases, packed)
            depth, _ = _depth(nest, packed, phases)
        width = max(register, half // (depth * size) // register * register)
        for n in order:
            if n in depends and n != vector:
                tiles[n] = replace(tiles[n], cache=tiles[n].register)
        if vector in order:
            others = math.prod(
                math.ceil(axes[n].extent / tiles[n].cache) for n in order if n in depends and n != vector
            )
            wanted = max(1, 2 * machine.cores // others) if cycles > _SERIAL else 1
            share = -(-axes[vector].extent // wanted)
            width = min(width, max(register, -(-share // register) * register))
            tiles[vector] = replace(
                tiles[vector], cache=min(width, -(-axes[vector].extent // register) * register)
            )
    elif vector is not None:
        phases = tuple(
            replace(x, block=_STREAMS) if _strided(nest, p, vector, work, tiles, machine) else x
            for p, x in zip(nest.phases, c.phases, strict=True)
        )
        if sum(x.block is not None for x in phases) > 1:
            phases = c.phases
    if options.prefetch is not False:
        phases = tuple(
            replace(x, prefetch=ahead.POINTED) if ahead.pointed(p, work, near) else x
            for p, x in zip(nest.phases, phases, strict=True)
        )
    order = _ordered(nest, order, options)
    parallel = 0
    shared_tasks: Expr | None = None
    inside = [a for p in nest.phases for a in p.axes]
    dynamic = {n for n in order if axes[n].size is not None}
    fixed = {n for r in packed for n in r.strides if r.strides[n]} if packed else set[str]()
    if options.tile is not None:
        for a, points in zip(nest.axes, options.tile, strict=False):
            if a.name not in given:
                t = tiles[a.name]
                tiles[a.name] = replace(t, cache=-(-min(points, a.extent) // t.register) * t.register)
                fixed.add(a.name)
        parallel = 0 if given else len(order)
    elif not given and (dynamic or any(a.size is not None for a in inside)):
        many = round(_parallel_tasks(packed, phases, machine))
        # Each task fills its packs.
        filled = sum(_filled(r, nest, tiles) for r in packed)
        shared_tasks = number_of_tasks(nest.axes, inside, cycles, max(_TASK, 4 * filled), many)
        made = [n for n in order if n in fixed and n not in dynamic]
        have = math.prod(math.ceil(axes[n].extent / tiles[n].cache) for n in made)
        shared = [n for n in order if n in fixed] if packed and have >= machine.cores else order
        tiles, parallel = shares(nest, shared, tiles, frozenset(fixed), many)
    elif not given and cycles > _SERIAL:
        wanted = min(cycles / _TASK, _parallel_tasks(packed, phases, machine))
        tasks = 1
        for i, n in enumerate(order):
            extent, t = axes[n].extent, tiles[n]
            have = math.ceil(extent / t.cache)
            if tasks * have < wanted and t.cache > t.register:
                count = math.ceil(wanted / tasks)
                if packed:  # each of these tasks fills packs of its own
                    filled = sum(_filled(r, nest, tiles) for r in packed)
                    turns = max(1, round(_FILLING * cycles / filled / machine.cores))
                    count = min(count, math.ceil(turns * machine.cores / tasks))
                cache = -(-math.ceil(extent / count) // t.register) * t.register
                if not packed or n not in {a for r in packed for a in r.strides if r.strides[a]}:
                    if packed and _balanced(tasks * have, machine.cores):
                        break
                    tiles[n] = replace(t, cache=max(t.register, cache))
                    have = math.ceil(extent / tiles[n].cache)
            tasks *= have
            parallel = i + 1
            if tasks >= wanted:
                break
    sums = dot.summed(nest, c.phases, work) - fixed - given.keys()
    most: int | None = None
    for n in dynamic - fixed:
        step = tiles[n].register
        points = max(step, _SUMS // step * step) if n in sums else WHOLE
        if tiles[n].cache != SHARE:
            tiles[n] = replace(tiles[n], cache=points)
        elif n in sums:
            most = points
    if options.parallel is False:
        parallel = 0
    inner = inner_order(nest, work, tiles, c.packs, held_buffers(nest, work), machine)
    lanes = next((n for n, t in tiles.items() if t.lanes > 1), "")
    packs = tuple(Pack(r.statement, r.read, rows_together(r, lanes, machine)) for r in packed)
    early: tuple[Ahead, ...] = ()
    if options.prefetch is not False:
        early = ahead.next_rows(nest, work, tiles, inner, phases, c.packs, machine, near)
        early += ahead.next_results(nest, work, tiles, inner, near)
        if not packed:
            early += ahead.next_block(nest, work, phases)
    return Tiling(tiles, tuple(order), inner, phases, packs, parallel, shared_tasks, early, most)


def _ordered(nest: Nest, order: Sequence[str], options: Options) -> list[str]:
    """Loops over cache tiles in the order that is wanted; those that are not named follow."""
    named = [a.name for i in options.order or () for a in nest.axes[i : i + 1]]
    return [n for n in named if n in order] + [n for n in order if n not in named]


def _filled(r: Ref, nest: Nest, tiles: Mapping[str, Tile]) -> int:
    """Elements of the pack of a cache tile."""
    extents = {a.name: min(a.extent, tiles[a.name].cache) for a in nest.axes}
    extents |= {a.name: a.extent for p in nest.phases for a in p.axes}
    return math.prod(e for n, e in extents.items() if r.strides.get(n, 0))


def _balanced(tasks: int, cores: int) -> bool:
    """Whether that many equal tasks keep so many processors busy, but for a tenth of the time."""
    return tasks >= 0.9 * cores * math.ceil(tasks / cores)


def _parallel_tasks(packed: Sequence[Ref], phases: Sequence[PhaseTile], machine: Machine) -> float:
    """The most tasks to make: few where several long rows are streamed side by side."""
    streams = not packed and any(p.block is not None for p in phases)
    return (2.0 if streams else 8.0) * machine.cores


def _strided(
    nest: Nest,
    p: Phase,
    vector: str,
    work: Mapping[str, Work],
    tiles: Mapping[str, Tile],
    machine: Machine,
) -> bool:
    """Whether the one loop of a phase jumps from row to row of a large array that is read once.  A few rows
    at a time, each read along, are streams that the hardware can follow."""
    if len(p.axes) != 1 or p.axes[0].extent < 2 * _STREAMS:
        return False
    looped = [a.name for a in nest.axes if a.extent > tiles[a.name].register]
    return any(
        abs(r.strides.get(p.axes[0].name, 0)) * r.itemsize >= ahead.FAR
        and r.strides.get(vector, 0) == 1
        and r.elements * r.itemsize > machine.l2
        and all(r.strides.get(n, 0) or n in r.indirect for n in looped)
        for s in p.statements
        for r in work[s].refs
    )


def _depth(nest: Nest, packed: Sequence[Ref], phases: Sequence[PhaseTile]) -> tuple[int, int]:
    """Points of a reduction in a pack, at most, and bytes of an element."""
    inner = {a.name: a.extent for p in nest.phases for a in p.axes}
    inner |= {p.axes[0].name: t.block for p, t in zip(nest.phases, phases, strict=True) if t.block}
    depth = max(math.prod(inner[a] for a in r.strides if a in inner and r.strides[a]) for r in packed)
    return depth, max(r.itemsize for r in packed)


def _too_deep(depth: int, packed: Sequence[Ref], lanes: Tile, machine: Machine) -> bool:
    """Whether the packs of a register tile take more than a quarter of the second cache."""
    return depth * lanes.register * max(r.itemsize for r in packed) > machine.l2 // 4


def _blocks(nest: Nest, phases: Sequence[PhaseTile], packed: Sequence[Ref]) -> tuple[PhaseTile, ...]:
    """Blocks of the outermost loop of a deep reduction, of about a thousand points with the loops inside."""
    depth, _ = _depth(nest, packed, phases)

    def blocked(p: Phase, t: PhaseTile) -> PhaseTile:
        moved = [r for r in packed if r.statement in p.statements]
        if not p.axes or not moved or not all(r.strides.get(p.axes[0].name, 0) for r in moved):
            return t
        extent = p.axes[0].extent
        inside = math.prod(a.extent for a in p.axes[1:])
        if extent * inside < depth or extent == 1:
            return t
        points = math.ceil(extent / math.ceil(extent * inside / _DEPTH))
        return replace(t, block=math.ceil(points / 16) * 16 if inside == 1 else points)

    return tuple(blocked(p, t) for p, t in zip(nest.phases, phases, strict=True))


__all__ = ["Choice", "Ref", "candidates", "choose"]
