"""The cost of a candidate in a whole nest, with its packs and its traffic beyond the first cache."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tc.poly.tile_plan import Nest

from ..emit.interleave import INTERLEAVED_COPIES
from ..isa import FEW_REGISTERS
from ..target import LINE
from . import cache_lines
from .cycles import Cost, nest_cycles, store_cycles
from .pack_sizes import pack_bytes, pack_columns, row_axis, row_tile, row_tiles
from .register_pressure import free_registers
from .register_tile import Candidate, lane_axis
from .traffic import reload_cycles
from .work import NestContext, Ref, Work, footprint, reread_arrays, rows

# Cycles to reach the next row of less than a line while packing: on the same page, on another.
_SAME_PAGE, _OTHER_PAGE = 3.0, 10.0
_DYNAMIC_LANES = 1.2  # time factor of lanes along a loop of dynamic length
# Additional time, as a share, of a tile that leaves so many registers to the code generator.
_FULL_REGISTERS = {0: 0.1, 1: 0.02}
# Operations of a long function; additional time, as a share, for each interleaved copy but four.
_LONG_FUNCTION, _PER_COPY = 12.0, 0.03
_ROWS_ON_A_PAGE = 0.5  # of the time to read rows from memory, added where several on a page are read together
_PIECES = 0.7  # the same where every row is read in many pieces, each of which the prefetcher must learn
_STALLED = 0.3  # of that time, the share in which arithmetic stalls, too
_EXPOSED_LOADS = (
    1.5  # time factor of loads from beyond the second cache while packing, which nothing overlaps
)


def dynamic_lanes_factor(nest: Nest, c: Candidate) -> float:
    """Time factor of lanes along a loop of dynamic length, where rows are unaligned and the last vector is
    masked; 1 elsewhere."""
    phases = [(a, p) for phase, p in zip(nest.phases, c.phases, strict=True) for a in phase.axes]
    lanes = any(a.size is not None and c.tiles[a.name].lanes > 1 for a in nest.axes)
    lanes = lanes or any(a.size is not None and p.vector == a.name for a, p in phases)
    return _DYNAMIC_LANES if lanes else 1.0


def nest_cost(context: NestContext, c: Candidate, extents: Mapping[str, int], repeats: int) -> Cost:
    """The cycles of a candidate for a nest with axes of these extents, which runs `repeats` times."""
    nest, work, machine = context.nest, context.work, context.machine
    order = cache_lines.inner_order(context, c.tiles, c.phases, c.packs)
    compute = nest_cycles(context, c, extents, order) * repeats * dynamic_lanes_factor(nest, c)
    compute += _block_reload_cycles(context, c, extents) * repeats
    pack = _pack_cycles(context, c, extents) * repeats
    along = lane_axis(c.tiles)
    everywhere = {**extents, **{a.name: a.typical_extent for p in nest.phases for a in p.axes}}
    distinct: dict[str, float] = {}
    for r in context.refs:
        distinct[r.buffer] = max(distinct.get(r.buffer, 0.0), float(footprint(r, everywhere)))
    total = sum(distinct.values()) * repeats
    rate = machine.bandwidth
    if total < machine.l3:
        rate = machine.l2_bandwidth if total < machine.l2 else machine.l3_bandwidth
    memory = total / rate + repeats * _unprefetched_cycles(context, c, extents)
    reload = repeats * reload_cycles(context, c, extents, order)
    # Every remainder has a body of its own, and many accumulators leave few registers for other values: of
    # candidates with about equal cost, prefer the simple one.
    bodies = math.prod(
        1 + (extents[n] > t.register and extents[n] % t.register > 0) for n, t in c.tiles.items()
    )
    vectors = math.prod(math.ceil(t.register / t.lanes) for t in c.tiles.values())
    if (
        along is not None
        and total > machine.l2
        and any(r.windows and r.strides.get(along) == 1 for w in work.values() for r in w.refs)
    ):
        bodies += 2  # unaligned vectors from beyond the second cache wait for two lines
    stalls = repeats * _side_by_side_cycles(context, c, everywhere)
    memory += stalls
    if any(p.vector for p in c.phases):  # rows read side by side are streams to prefetch
        bodies += max(0, vectors - 4)
        if total > machine.l2:
            memory *= 1 + 0.002 * max(0, vectors - 4)
    pressure = 0.7 * max(0.0, vectors / machine.isa.registers - 0.72)
    if machine.isa.registers <= FEW_REGISTERS:
        pressure = _FULL_REGISTERS.get(free_registers(nest, work, c.tiles, machine.isa), 0.0)
    if machine.isa.registers <= FEW_REGISTERS or math.prod(t.register for t in c.tiles.values()) > 1:
        # Of several rows, the values beside each sum are in registers, too.
        pressure += _PER_COPY * max(0, _function_copies(nest, work, c) - INTERLEAVED_COPIES)
    compute = compute * (1 + 0.02 * (bodies - 1) + pressure) + _STALLED * stalls
    return Cost(compute, pack, memory, reload)


def _pack_cycles(context: NestContext, c: Candidate, extents: Mapping[str, int]) -> float:
    """Cycles to fill the packs of a nest, each as often as cache tiles of other axes fill it again."""
    nest, work, machine = context.nest, context.work, context.machine
    along = lane_axis(c.tiles)
    packed = [(w, r) for w in work.values() for r in w.refs if (r.statement, r.read) in c.packs]
    if not packed:
        return 0.0
    assert along is not None
    inner = {a.name: a.typical_extent for p in nest.phases for a in p.axes}
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
    """The number of copies of a function that are computed side by side, at most: each needs some
    registers."""
    found = [
        c.vectors
        for p, t in zip(nest.phases, c.phases, strict=True)
        for s in p.statements
        if t.vector is not None
        and sum(x.operations for x in work[s].parts if t.vector in x.axes) >= _LONG_FUNCTION
    ]
    return max(found, default=0)


def _unprefetched_cycles(context: NestContext, c: Candidate, extents: Mapping[str, int]) -> float:
    """Cycles that rows of results stall which the hardware prefetcher does not follow."""
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
    tiles = math.prod(-(-extents[n] // e) for n, e in at.items())
    rows = sum(cache_lines.unprefetched_rows(r, at, context.machine) for r in context.accumulators.values())
    return context.machine.unprefetched_row_penalty * tiles * rows


def _side_by_side_cycles(context: NestContext, c: Candidate, extents: Mapping[str, int]) -> float:
    """Cycles that arithmetic waits for rows from beyond the second cache that the lanes of a register tile,
    or several of their sums, read side by side.  Rows that are reread from memory do not count where
    `prefetch.row_prefetches` fetches them early."""
    nest, work, machine = context.nest, context.work, context.machine
    along = lane_axis(c.tiles)
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items() if along in (None, n)}
    reread = reread_arrays(nest, work)
    stalls: dict[str, float] = {}

    def to_read(r: Ref) -> float:
        far = cache_lines.comes_from_memory(r, machine)
        return footprint(r, extents) / (machine.bandwidth if far else machine.l3_bandwidth)

    for r in (r for r in context.refs if r.plain and not r.written):
        prefetched = (
            machine.prefetch_rereads and r.buffer in reread and cache_lines.comes_from_memory(r, machine)
        )
        near = footprint(r, extents) <= machine.l2 or (r.statement, r.read) in c.packs
        if not prefetched and not near and cache_lines.rows_share_page(r, at):
            stalls[r.buffer] = _ROWS_ON_A_PAGE * to_read(r)
    for p, t in zip(nest.phases, c.phases, strict=True):
        if along is None or t.block is not None or at[along] >= extents[along]:
            continue
        for r in cache_lines.single_pass_reads(context, p, along):
            stalls[r.buffer] = _PIECES * (1 - at[along] / extents[along]) * to_read(r)
    return sum(stalls.values())


def _row_start_cycles(r: Ref, extents: Mapping[str, int]) -> float:
    """Cycles an element to reach the next row of less than a line, on the same page or on another."""
    _, row = rows(r, extents)
    if row >= LINE:
        return 0.0
    stride = min(
        (abs(s) * r.itemsize for n, s in r.strides.items() if n in extents and abs(s) * r.itemsize >= row),
        default=0,
    )
    return (_SAME_PAGE if stride < cache_lines.STREAM_STRIDE else _OTHER_PAGE) * r.itemsize / row


def _block_reload_cycles(context: NestContext, c: Candidate, extents: Mapping[str, int]) -> float:
    """Cycles to load and store the results that a deep reduction updates again in each of its blocks but the
    first."""
    machine = context.machine
    blocked = [
        (p, t.block) for p, t in zip(context.nest.phases, c.phases, strict=True) if t.block is not None
    ]
    blocks = max((math.ceil(p.axes[0].typical_extent / points) for p, points in blocked), default=1)
    if blocks == 1:
        return 0.0
    at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
    tiles = math.prod(-(-extents[n] // e) for n, e in at.items())
    updated = {r.buffer for p, _ in blocked for s in p.statements for r in context.work[s].refs if r.written}
    total = 0.0
    for r in (r for b, r in context.accumulators.items() if b in updated):
        each = 2 * store_cycles(r, c, at, machine)
        if footprint(r, extents) > machine.l1 // 2:
            each = max(each, 2 * footprint(r, at) / machine.l2_bandwidth)
        if r.elements * r.itemsize > machine.l2:
            # Less than a line of each row: another tile fetches the rest of the line again.
            along = max((e for n, e in at.items() if r.strides.get(n, 0) == 1), default=1) * r.itemsize
            rows = math.prod(e for n, e in at.items() if abs(r.strides.get(n, 0)) > 1)
            each += 2 * rows * max(along, 128 if along < 64 else 64) / machine.l3_bandwidth
        total += each
    return (blocks - 1) * tiles * total
