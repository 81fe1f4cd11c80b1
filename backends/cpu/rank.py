"""The candidates of a nest with what each costs by the model, the best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tc.options import Options
from tc.poly.plan import Nest

from . import ahead, lines
from .blocks import packed_bytes, packed_columns, row_axis, row_share, ways
from .candidates import allowed, register_tiles, shorter, whole_tiles
from .interleave import SIDE_BY_SIDE
from .isa import FEW
from .machine import Machine
from .model import BESIDE, Cost, flush_cycles, nest_cycles, tile_cycles
from .register_tile import Candidate, along_lanes
from .registers import spare
from .size import MOST, lines_of
from .traffic import again_cycles
from .work import Ref, Work, footprint, held_buffers, rows

_KEPT = 5  # candidates with lanes along one loop whose remainders are looked at
_SAMPLED = 8  # candidates of a kind, about, that are looked at first
_HOPELESS = 1.5  # times the cycles of the fastest, from where on the others of a kind are not looked at
_NEAR, _SHORT = (
    3.0,
    10.0,
)  # cycles to reach a row of less than a line, to pack it: on the same page, on another
_DYNAMIC_LANES = 1.2
# Of its cycles more takes a tile that leaves so many registers to the code generator.
_FULL = {0: 0.1, 1: 0.02}
_LONG, _CHAIN = 12.0, 0.03  # operations of a function; of its cycles more takes each copy but four
_ALONE = 1.5  # times as long take neighbours from afar while they are packed and nothing else goes on


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its predicted cycles on one core."""

    candidate: Candidate
    cost: Cost
    label: str


def candidates(
    nest: Nest, work: Mapping[str, Work], machine: Machine, given: Mapping[str, int], options: Options
) -> list[Ranked]:
    """The candidates of a nest that the options allow, the best first; at least one."""
    extents = {a.name: min(given.get(a.name, a.extent), a.extent) for a in nest.axes}
    repeats = math.prod(math.ceil(a.extent / given[a.name]) for a in nest.axes if a.name in given)
    held = held_buffers(nest, work)
    pack = options.pack is True
    made = register_tiles(nest, work, machine, extents, pack)
    # The tiles of a region are whole register tiles.
    partial = {
        a.name: given[a.name] for a in nest.axes if a.size is None and given.get(a.name, a.extent) < a.extent
    }

    def fitting(found: Sequence[tuple[Candidate, str]]) -> list[tuple[Candidate, str]]:
        out: list[tuple[Candidate, str]] = []
        for c, label in found:
            if options.register_tile is not None:
                c, label = shorter(nest, work, c, label, extents)
            if (whole := whole_tiles(c, partial, options)) is not None:
                out.append((whole, label))
        return out

    # What is asked for may fit no tile of the region.
    wanted = fitting(allowed(nest, made, options)) or fitting(made)

    def cycles(c: Candidate) -> float:
        """Of a point, all that is read in the first cache."""
        at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
        # As if what is left over at the end of an axis cost half a tile more.
        waste = math.prod(
            (1 + math.ceil(extents[n] / e) * e / extents[n]) / 2 for n, e in at.items() if extents[n]
        )
        one = tile_cycles(nest, work, c, at, held, None, machine)
        one += BESIDE * machine.stray_row * sum(lines.unfollowed(r, at, machine) for r in held.values())
        return waste * _masked(nest, c) * one / math.prod(at.values())

    rough = _promising(wanted, cycles)
    ranked = _ranked(nest, work, [(c, label) for _, c, label in rough], extents, repeats, machine, pack)
    # Of constant extents what is left over is one length, and a tile that is given is asked for.
    dynamic = any(a.size is not None for a in (*nest.axes, *(a for p in nest.phases for a in p.axes)))
    if not dynamic or options.register_tile is not None:
        return ranked
    if lines_of(nest, work, ranked[0].candidate, extents) <= MOST:
        return ranked
    lengths = [lines_of(nest, work, c, extents) for _, c, _ in rough]
    most = max(MOST, min(lengths))
    smaller = [(c, label) for (_, c, label), n in zip(rough, lengths, strict=True) if n <= most]
    return _ranked(nest, work, smaller, extents, repeats, machine, pack)


def _promising(
    found: Sequence[tuple[Candidate, str]], cycles: Callable[[Candidate], float]
) -> list[tuple[float, Candidate, str]]:
    """Candidates with their cycles, the fewest first: some of each kind, and all of the kinds of which these
    are not much slower than the fastest."""
    kinds: dict[object, list[int]] = {}
    for i, (c, _) in enumerate(found):
        lanes = along_lanes(c.tiles)
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
    pack: bool,
) -> list[Ranked]:
    """Those among the first ones of each kind, the best first."""
    kept: list[tuple[Candidate, str]] = []
    seen: dict[object, int] = {}
    for c, label in rough:
        along = (along_lanes(c.tiles), c.phases)
        seen[along] = seen.get(along, 0) + 1
        if seen[along] <= _KEPT:
            kept.append((c, label))
    found = [x for c, label in kept for x in ways(nest, work, c, label, machine, pack)]
    ranked = [Ranked(c, nest_cost(nest, work, c, extents, repeats, machine), label) for c, label in found]
    ranked.sort(key=lambda x: x.cost.total)
    return ranked


def _masked(nest: Nest, c: Candidate) -> float:
    """What lanes along a loop of dynamic length cost: unaligned rows, and a vector under a mask."""
    phases = [(a, p) for phase, p in zip(nest.phases, c.phases, strict=True) for a in phase.axes]
    lanes = any(a.size is not None and c.tiles[a.name].lanes > 1 for a in nest.axes)
    lanes = lanes or any(a.size is not None and p.vector == a.name for a, p in phases)
    return _DYNAMIC_LANES if lanes else 1.0


# What a candidate costs in a whole nest.


def nest_cost(
    nest: Nest,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    repeats: int,
    machine: Machine,
) -> Cost:
    buffers = held_buffers(nest, work)
    order = lines.inner_order(nest, work, c.tiles, c.phases, c.packs, buffers, machine)
    compute = nest_cycles(nest, work, c, extents, buffers, order, machine) * repeats * _masked(nest, c)
    compute += _revisits(nest, work, c, extents, machine) * repeats
    inner = {a.name: a.extent for p in nest.phases for a in p.axes}
    pack = 0.0
    along = along_lanes(c.tiles)
    packed = [r for w in work.values() for r in w.refs if (r.statement, r.read) in c.packs]
    depends = {n for r in packed for n in extents if r.strides.get(n, 0)}
    caches = {n: e if n == along else min(e, c.tiles[n].register) for n, e in extents.items()}
    if packed and (row := row_axis(work, c)) is not None:
        assert along is not None
        each = packed_bytes(nest, packed, c.phases)
        caches[row] = row_share(extents[row], c.tiles[row].register, each, machine)
        caches[along] = min(extents[along], packed_columns(c.tiles[along].register, each, machine))
    distinct: dict[str, float] = {}
    for w in work.values():
        for r in w.refs:
            size = footprint(r, {**extents, **inner})
            distinct[r.buffer] = max(distinct.get(r.buffer, 0.0), float(size))
            if (r.statement, r.read) in c.packs:
                assert along is not None
                # Each cache tile fills all packs.
                again = math.prod(-(-extents[n] // caches[n]) for n in depends if not r.strides.get(n, 0))
                if r.strides.get(along, 0) != 1:
                    each = 0.5
                elif 2 * r.elements * r.itemsize <= machine.l2:
                    each = 0.2
                else:
                    each = _ALONE * r.itemsize / machine.l3_bandwidth
                each += sum(p.operations for p in w.parts if p.read == r.read) / machine.isa.lanes(r.wide)
                each += _reached(r, {**caches, **inner})
                pack += size / r.itemsize * each * again * repeats
    total = sum(distinct.values()) * repeats
    rate = machine.bandwidth
    if total < machine.l3:
        rate = machine.l2_bandwidth if total < machine.l2 else machine.l3_bandwidth
    memory = total / rate + repeats * _stray(nest, work, c, extents, machine)
    again = repeats * again_cycles(nest, work, c, extents, buffers, order, machine)
    # Every remainder is a body of its own, and many accumulators leave no room for what the code generator
    # keeps beside them: of candidates that are about equal, the simple one.
    bodies = math.prod(
        1 + (extents[n] > t.register and extents[n] % t.register > 0) for n, t in c.tiles.items()
    )
    held = math.prod(math.ceil(t.register / t.lanes) for t in c.tiles.values())
    if (
        along is not None
        and total > machine.l2
        and any(r.windows and r.strides.get(along) == 1 for w in work.values() for r in w.refs)
    ):
        bodies += 2  # vectors across two lines that come from afar wait for both
    if any(p.vector for p in c.phases):  # rows read side by side are streams to prefetch
        bodies += max(0, held - 4)
        if total > machine.l2:
            memory *= 1 + 0.002 * max(0, held - 4)
    crowded = 0.7 * max(0.0, held / machine.isa.registers - 0.72)
    if machine.isa.registers <= FEW:
        crowded = _FULL.get(spare(nest, work, c.tiles, machine.isa), 0.0)
    if machine.isa.registers <= FEW or math.prod(t.register for t in c.tiles.values()) > 1:
        # Of several rows, what each has beside its sum is in registers, too.
        crowded += _CHAIN * max(0, _chains(nest, work, c) - SIDE_BY_SIDE)
    return Cost(compute * (1 + 0.02 * (bodies - 1) + crowded), pack, memory, again)


def _chains(nest: Nest, work: Mapping[str, Work], c: Candidate) -> int:
    """How many copies of a function are computed side by side, at most: each needs some registers."""
    found = [
        c.vectors
        for p, t in zip(nest.phases, c.phases, strict=True)
        for s in p.statements
        if t.vector is not None and sum(x.operations for x in work[s].parts if t.vector in x.axes) >= _LONG
    ]
    return max(found, default=0)


def _stray(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles that rows of results wait which the hardware does not follow."""
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
    tiles = math.prod(-(-extents[n] // e) for n, e in at.items())
    rows = sum(lines.unfollowed(r, at, machine) for r in held_buffers(nest, work).values())
    return machine.stray_row * tiles * rows


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
    blocked = [(p, t.block) for p, t in zip(nest.phases, c.phases, strict=True) if t.block is not None]
    blocks = max((math.ceil(p.axes[0].extent / points) for p, points in blocked), default=1)
    if blocks == 1:
        return 0.0
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
    tiles = math.prod(-(-extents[n] // e) for n, e in at.items())
    total = 0.0
    for r in held_buffers(nest, work).values():
        each = 2 * flush_cycles(r, c, at, machine)
        if footprint(r, extents) > machine.l1 // 2:
            each = max(each, 2 * footprint(r, at) / machine.l2_bandwidth)
        if r.elements * r.itemsize > machine.l2:
            # Less than a line of each row: the rest of it comes again, for another tile.
            along = max((e for n, e in at.items() if r.strides.get(n, 0) == 1), default=1) * r.itemsize
            rows = math.prod(e for n, e in at.items() if abs(r.strides.get(n, 0)) > 1)
            each += 2 * rows * max(along, 128 if along < 64 else 64) / machine.l3_bandwidth
        total += each
    return (blocks - 1) * tiles * total
