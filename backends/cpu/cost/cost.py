"""What a candidate costs in a whole nest: its packs and what comes from farther away, too."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tc.poly.tile_plan import Nest

from ..emit.interleave import INTERLEAVED_COPIES
from ..isa import FEW_REGISTERS
from ..target import LINE, Machine
from . import cache_lines
from .cycles import Cost, nest_cycles, store_cycles
from .pack_sizes import pack_bytes, pack_columns, row_axis, row_tile, row_tiles
from .register_pressure import free_registers
from .register_tile import Candidate, lane_axis
from .traffic import reload_cycles
from .work import Ref, Work, accumulators, footprint, reread_arrays, rows

# Cycles to reach a row of less than a line, to pack it: on the same page, on another.
_SAME_PAGE, _OTHER_PAGE = 3.0, 10.0
_DYNAMIC_LANES = 1.2  # times as long take lanes along a loop of dynamic length
# Of its cycles more takes a tile that leaves so many registers to the code generator.
_FULL_REGISTERS = {0: 0.1, 1: 0.02}
_LONG_FUNCTION, _PER_COPY = (
    12.0,
    0.03,
)  # operations of a function; of its cycles more takes each copy but four
_ROWS_ON_A_PAGE = (
    0.5  # of the time to read rows from memory, what it takes longer to read several side by side
)
_PIECES = 0.7  # the same to read every row in many pieces, of which each is followed for itself
_STALLED = 0.3  # of that time, arithmetic waits, too
_EXPOSED_LOADS = 1.5  # times as long take neighbours from afar while they are packed and nothing else goes on


def dynamic_lanes_factor(nest: Nest, c: Candidate) -> float:
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
    held_accumulators = accumulators(nest, work)
    order = cache_lines.inner_order(nest, work, c.tiles, c.phases, c.packs, held_accumulators, machine)
    compute = (
        nest_cycles(nest, work, c, extents, held_accumulators, order, machine)
        * repeats
        * dynamic_lanes_factor(nest, c)
    )
    compute += _block_reload_cycles(nest, work, c, extents, machine) * repeats
    pack = _pack_cycles(nest, work, c, extents, machine) * repeats
    along = lane_axis(c.tiles)
    everywhere = {**extents, **{a.name: a.extent for p in nest.phases for a in p.axes}}
    distinct: dict[str, float] = {}
    for r in (r for w in work.values() for r in w.refs):
        distinct[r.buffer] = max(distinct.get(r.buffer, 0.0), float(footprint(r, everywhere)))
    total = sum(distinct.values()) * repeats
    rate = machine.bandwidth
    if total < machine.l3:
        rate = machine.l2_bandwidth if total < machine.l2 else machine.l3_bandwidth
    memory = total / rate + repeats * _unprefetched_cycles(nest, work, c, extents, machine)
    reload = repeats * reload_cycles(nest, work, c, extents, held_accumulators, order, machine)
    # Every remainder is a body of its own, and many accumulators leave no room for what the code generator
    # keeps beside them: of candidates that are about equal, the simple one.
    bodies = math.prod(
        1 + (extents[n] > t.register and extents[n] % t.register > 0) for n, t in c.tiles.items()
    )
    vectors = math.prod(math.ceil(t.register / t.lanes) for t in c.tiles.values())
    if (
        along is not None
        and total > machine.l2
        and any(r.windows and r.strides.get(along) == 1 for w in work.values() for r in w.refs)
    ):
        bodies += 2  # vectors across two lines that come from afar wait for both
    stalls = repeats * _side_by_side_cycles(nest, work, c, everywhere, machine)
    memory += stalls
    if any(p.vector for p in c.phases):  # rows read side by side are streams to prefetch
        bodies += max(0, vectors - 4)
        if total > machine.l2:
            memory *= 1 + 0.002 * max(0, vectors - 4)
    pressure = 0.7 * max(0.0, vectors / machine.isa.registers - 0.72)
    if machine.isa.registers <= FEW_REGISTERS:
        pressure = _FULL_REGISTERS.get(free_registers(nest, work, c.tiles, machine.isa), 0.0)
    if machine.isa.registers <= FEW_REGISTERS or math.prod(t.register for t in c.tiles.values()) > 1:
        # Of several rows, what each has beside its sum is in registers, too.
        pressure += _PER_COPY * max(0, _function_copies(nest, work, c) - INTERLEAVED_COPIES)
    compute = compute * (1 + 0.02 * (bodies - 1) + pressure) + _STALLED * stalls
    return Cost(compute, pack, memory, reload)


def _pack_cycles(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles to fill the packs of a nest, each as often as the cache tiles of other axes do."""
    along = lane_axis(c.tiles)
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
        each = pack_bytes(nest, [r for _, r in packed], c.phases)
        caches[row] = row_tile(extents[row], c.tiles[row].register, each, machine)
        caches[along] = min(extents[along], pack_columns(c.tiles[along].register, each, machine))
    total = 0.0
    for w, r in packed:
        fills = math.prod(-(-extents[n] // caches[n]) for n in depends if not r.strides.get(n, 0))
        if r.strides.get(along, 0) != 1:
            cycles = 0.5
            if any(r.strides.get(n, 0) for n in rows_of):
                cycles += _EXPOSED_LOADS * r.itemsize / machine.l3_bandwidth
        elif 2 * r.elements * r.itemsize <= machine.l2:
            cycles = 0.2
        else:
            cycles = _EXPOSED_LOADS * r.itemsize / machine.l3_bandwidth
        cycles += sum(p.operations for p in w.parts if p.read == r.read) / machine.isa.lanes(r.pack_itemsize)
        cycles += _row_start_cycles(r, {**caches, **inner})
        total += footprint(r, {**extents, **inner}) / r.itemsize * cycles * fills
    return total


def _function_copies(nest: Nest, work: Mapping[str, Work], c: Candidate) -> int:
    """How many copies of a function are computed side by side, at most: each needs some registers."""
    found = [
        c.vectors
        for p, t in zip(nest.phases, c.phases, strict=True)
        for s in p.statements
        if t.vector is not None
        and sum(x.operations for x in work[s].parts if t.vector in x.axes) >= _LONG_FUNCTION
    ]
    return max(found, default=0)


def _unprefetched_cycles(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles that rows of results wait which the hardware does not follow."""
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
    tiles = math.prod(-(-extents[n] // e) for n, e in at.items())
    rows = sum(cache_lines.unprefetched_rows(r, at, machine) for r in accumulators(nest, work).values())
    return machine.unprefetched_row_penalty * tiles * rows


def _side_by_side_cycles(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles to wait for rows from beyond the second cache that the lanes of a register tile, or several of
    their sums, read side by side, but for rows that are read again, from memory, where these are asked for
    early (`ahead.next_rows`)."""
    along = lane_axis(c.tiles)
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items() if along in (None, n)}
    reread = reread_arrays(nest, work)
    waits: dict[str, float] = {}

    def to_read(r: Ref) -> float:
        far = cache_lines.comes_from_memory(r, machine)
        return footprint(r, extents) / (machine.bandwidth if far else machine.l3_bandwidth)

    for r in (r for w in work.values() for r in w.refs if r.plain and not r.written):
        prefetched = (
            machine.prefetch_rereads and r.buffer in reread and cache_lines.comes_from_memory(r, machine)
        )
        near = footprint(r, extents) <= machine.l2 or (r.statement, r.read) in c.packs
        if not prefetched and not near and cache_lines.rows_share_page(r, at):
            waits[r.buffer] = _ROWS_ON_A_PAGE * to_read(r)
    for p, t in zip(nest.phases, c.phases, strict=True):
        if along is None or t.block is not None or at[along] >= extents[along]:
            continue
        for r in cache_lines.single_pass_reads(nest, p, work, along, machine):
            waits[r.buffer] = _PIECES * (1 - at[along] / extents[along]) * to_read(r)
    return sum(waits.values())


def _row_start_cycles(r: Ref, extents: Mapping[str, int]) -> float:
    """Cycles an element to reach rows of less than a line: the next on this page, or on another."""
    _, row = rows(r, extents)
    if row >= LINE:
        return 0.0
    apart = min(
        (abs(s) * r.itemsize for n, s in r.strides.items() if n in extents and abs(s) * r.itemsize >= row),
        default=0,
    )
    return (_SAME_PAGE if apart < cache_lines.STREAM_STRIDE else _OTHER_PAGE) * r.itemsize / row


def _block_reload_cycles(
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
    for r in accumulators(nest, work).values():
        each = 2 * store_cycles(r, c, at, machine)
        if footprint(r, extents) > machine.l1 // 2:
            each = max(each, 2 * footprint(r, at) / machine.l2_bandwidth)
        if r.elements * r.itemsize > machine.l2:
            # Less than a line of each row: the rest of it comes again, for another tile.
            along = max((e for n, e in at.items() if r.strides.get(n, 0) == 1), default=1) * r.itemsize
            rows = math.prod(e for n, e in at.items() if abs(r.strides.get(n, 0)) > 1)
            each += 2 * rows * max(along, 128 if along < 64 else 64) / machine.l3_bandwidth
        total += each
    return (blocks - 1) * tiles * total
