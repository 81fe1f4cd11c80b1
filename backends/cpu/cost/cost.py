"""What a candidate costs in a whole nest: its packs and what comes from farther away, too."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tc.poly.tile_plan import Nest

from ..emit.interleave import SIDE_BY_SIDE
from ..isa import FEW
from ..target import LINE, Machine
from . import cache_lines
from .cycles import Cost, flush_cycles, nest_cycles
from .pack_sizes import packed_bytes, packed_columns, row_axis, row_share, row_tiles
from .register_pressure import spare
from .register_tile import Candidate, along_lanes
from .traffic import again_cycles
from .work import Ref, Work, footprint, held_buffers, read_again, rows

# Cycles to reach a row of less than a line, to pack it: on the same page, on another.
_NEAR, _SHORT = 3.0, 10.0
_DYNAMIC_LANES = 1.2  # times as long take lanes along a loop of dynamic length
# Of its cycles more takes a tile that leaves so many registers to the code generator.
_FULL = {0: 0.1, 1: 0.02}
_LONG, _CHAIN = 12.0, 0.03  # operations of a function; of its cycles more takes each copy but four
_ABREAST = 0.5  # of the time to read rows from memory, what it takes longer to read several side by side
_PIECES = 0.7  # the same to read every row in many pieces, of which each is followed for itself
_HELD_UP = 0.3  # of that time, arithmetic waits, too
_ALONE = 1.5  # times as long take neighbours from afar while they are packed and nothing else goes on


def masked(nest: Nest, c: Candidate) -> float:
    """What lanes along a loop of dynamic length cost: unaligned rows, and a vector under a mask."""
    phases = [(a, p) for phase, p in zip(nest.phases, c.phases, strict=True) for a in phase.axes]
    lanes = any(a.size is not None and c.tiles[a.name].lanes > 1 for a in nest.axes)
    lanes = lanes or any(a.size is not None and p.vector == a.name for a, p in phases)
    return _DYNAMIC_LANES if lanes else 1.0


def nest_cost(
    nest: Nest,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    repeats: int,
    machine: Machine,
) -> Cost:
    """The cycles of a candidate for a nest with axes of these extents, that is run so many times."""
    buffers = held_buffers(nest, work)
    order = cache_lines.inner_order(nest, work, c.tiles, c.phases, c.packs, buffers, machine)
    compute = nest_cycles(nest, work, c, extents, buffers, order, machine) * repeats * masked(nest, c)
    compute += _revisits(nest, work, c, extents, machine) * repeats
    pack = _packing(nest, work, c, extents, machine) * repeats
    along = along_lanes(c.tiles)
    everywhere = {**extents, **{a.name: a.extent for p in nest.phases for a in p.axes}}
    distinct: dict[str, float] = {}
    for r in (r for w in work.values() for r in w.refs):
        distinct[r.buffer] = max(distinct.get(r.buffer, 0.0), float(footprint(r, everywhere)))
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
    waits = repeats * _abreast(nest, work, c, everywhere, machine)
    memory += waits
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
    compute = compute * (1 + 0.02 * (bodies - 1) + crowded) + _HELD_UP * waits
    return Cost(compute, pack, memory, again)


def _packing(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles to fill the packs of a nest, each as often as the cache tiles of other axes do."""
    along = along_lanes(c.tiles)
    packed = [(w, r) for w in work.values() for r in w.refs if (r.statement, r.read) in c.packs]
    if not packed:
        return 0.0
    assert along is not None
    inner = {a.name: a.extent for p in nest.phases for a in p.axes}
    depends = {n for _, r in packed for n in extents if r.strides.get(n, 0)}
    caches = {n: e if n == along else min(e, c.tiles[n].register) for n, e in extents.items()}
    rows_of = row_tiles(nest, [r for _, r in packed], c, extents, machine)
    caches |= rows_of
    if (row := row_axis(work, c)) is not None:
        each = packed_bytes(nest, [r for _, r in packed], c.phases)
        caches[row] = row_share(extents[row], c.tiles[row].register, each, machine)
        caches[along] = min(extents[along], packed_columns(c.tiles[along].register, each, machine))
    total = 0.0
    for w, r in packed:
        again = math.prod(-(-extents[n] // caches[n]) for n in depends if not r.strides.get(n, 0))
        if r.strides.get(along, 0) != 1:
            cycles = 0.5
            if any(r.strides.get(n, 0) for n in rows_of):
                cycles += _ALONE * r.itemsize / machine.l3_bandwidth
        elif 2 * r.elements * r.itemsize <= machine.l2:
            cycles = 0.2
        else:
            cycles = _ALONE * r.itemsize / machine.l3_bandwidth
        cycles += sum(p.operations for p in w.parts if p.read == r.read) / machine.isa.lanes(r.wide)
        cycles += _reached(r, {**caches, **inner})
        total += footprint(r, {**extents, **inner}) / r.itemsize * cycles * again
    return total


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
    rows = sum(cache_lines.unfollowed(r, at, machine) for r in held_buffers(nest, work).values())
    return machine.stray_row * tiles * rows


def _abreast(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles to wait for rows from beyond the second cache that the lanes of a register tile, or several of
    their sums, read side by side, but for rows that are read again, from memory, where these are asked for
    early (`ahead.next_rows`)."""
    along = along_lanes(c.tiles)
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items() if along in (None, n)}
    again = read_again(nest, work)
    waits: dict[str, float] = {}

    def to_read(r: Ref) -> float:
        far = cache_lines.from_memory(r, machine)
        return footprint(r, extents) / (machine.bandwidth if far else machine.l3_bandwidth)

    for r in (r for w in work.values() for r in w.refs if r.plain and not r.written):
        asked = machine.asks_again and r.buffer in again and cache_lines.from_memory(r, machine)
        near = footprint(r, extents) <= machine.l2 or (r.statement, r.read) in c.packs
        if not asked and not near and cache_lines.abreast(r, at):
            waits[r.buffer] = _ABREAST * to_read(r)
    for p, t in zip(nest.phases, c.phases, strict=True):
        if along is None or t.block is not None or at[along] >= extents[along]:
            continue
        for r in cache_lines.once(nest, p, work, along, machine):
            waits[r.buffer] = _PIECES * (1 - at[along] / extents[along]) * to_read(r)
    return sum(waits.values())


def _reached(r: Ref, extents: Mapping[str, int]) -> float:
    """Cycles an element to reach rows of less than a line: the next on this page, or on another."""
    _, row = rows(r, extents)
    if row >= LINE:
        return 0.0
    apart = min(
        (abs(s) * r.itemsize for n, s in r.strides.items() if n in extents and abs(s) * r.itemsize >= row),
        default=0,
    )
    return (_NEAR if apart < cache_lines.FAR else _SHORT) * r.itemsize / row


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
