"""Predicted cycles of a tiled nest: issue slots of the register tile, traffic through the caches.

All of it is arithmetic on access relations: the strides of each reference along each loop, and the extents.
The modelled core issues a fixed number of vector operations and of loads each cycle (the "roofline" of issue
slots), with the latency of dependent updates as a floor; to this come the bytes that a cache tile moves from
each level of the memory hierarchy (Williams, Waterman and Patterson, 2009; the reasoning on register tiles is
that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tc.poly.tile_plan import Nest, one_block

from ..target import LINE, Machine
from . import cache_lines
from .issue import Iteration
from .register_tile import Candidate
from .work import NestContext, Ref

_PADDED = 0.5  # additional time, as a share, of a tile that selects elements or a constant one by one
_MASKED = 0.1  # the same where lanes have masks, which are known before the reduction
OVERLAP = 0.25  # share of the shorter of two overlapping activities that adds to the longer one
# The same of reloads.  Memory is shared with other processes: a product that read 256 MiB four times was 1.05
# times as fast as one that packed them once while nothing else ran, 0.5 to 0.8 times at other times
# (docs/experiments/cost-model.md).
_RELOAD_OVERLAP = 0.12
_STORE_OVERLAP = 0.05  # share of a register tile's cycles during which the previous results are stored
_EVICTED_STORE = 7.0  # cycles to store one element of a line that the first cache has evicted


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one core for the whole nest.

    `compute` is the time while everything is in the first cache, `pack` fills packed copies, `memory` moves
    data from farther away, and `reload` moves data again that was moved before, which costs little where
    there is more to compute meanwhile.
    """

    compute: float
    pack: float
    memory: float
    reload: float

    @property
    def total(self) -> float:
        """All of it, with what overlaps."""
        longest = max(self.compute, self.memory + self.reload)
        beside = OVERLAP * min(self.compute, self.memory) + _RELOAD_OVERLAP * min(self.compute, self.reload)
        return longest + beside + self.pack


def tile_cycles(context: NestContext, c: Candidate, extents: Mapping[str, int], after: str | None) -> float:
    """Cycles of one register tile with these extents of the nest's axes, which follows another one along the
    axis `after`."""
    nest, machine, results = context.nest, context.machine, context.accumulators.values()
    total = 4.0 + 2.0 * len(nest.phases)  # loop control, addresses
    rows = math.prod(e for n, e in extents.items() if c.tiles[n].lanes == 1)
    for phase, tile in zip(nest.phases, c.phases, strict=True):
        cut = one_block(phase, tile)
        blocks = 1 if cut is phase else phase.axes[0].typical_extent / cut.axes[0].typical_extent
        total += blocks * Iteration(context, cut, tile, c, extents).cycles(after)
    total += sum(store_cycles(r, c, extents, machine) for r in results)
    total += max(
        0.0,
        sum(_store_conflict_cycles(r, c, extents, machine) for r in results) - _STORE_OVERLAP * total,
    )
    total = max(total, sum(cache_lines.partial_line_cycles(r, extents, machine) for r in results))
    total *= 1 + _divergence(context, c, extents)
    return total * (1 + 0.002 * rows)  # of equal tiles, prefers the longer rows


def _divergence(context: NestContext, c: Candidate, extents: Mapping[str, int]) -> float:
    """The additional time of tiles in which some points meet a condition and others do not, as a share of
    all."""
    nest, work = context.nest, context.work
    # If a tile has all points of an axis, conditions on that axis alone are known at compile time.
    constant_axes = {
        a.name for a in nest.axes if extents[a.name] == a.typical_extent and c.tiles[a.name].lanes == 1
    }
    guards = {n for w in work.values() if not w.guards <= constant_axes for n in w.guards}
    padded = {n for w in work.values() for n in w.padded}
    if any(c.tiles[a.name].lanes > 1 for a in nest.axes if a.name in padded):
        guards |= padded
    each = _MASKED if context.machine.isa.vector_bytes == 64 else _PADDED
    return _boundary_share(nest, guards, extents) + each * _boundary_share(nest, padded - guards, extents)


def _boundary_share(nest: Nest, axes: AbstractSet[str], extents: Mapping[str, int]) -> float:
    """The approximate share of tiles that a condition divides, if it does at both ends of each of
    these axes."""
    same = 1.0
    for a in nest.axes:
        if a.name in axes:
            same *= max(0.0, 1 - 2 * (extents[a.name] - 1) / max(1, a.typical_extent))
    return 1 - same


def store_cycles(r: Ref, c: Candidate, extents: Mapping[str, int], machine: Machine) -> float:
    """Cycles to store the results of a register tile: as rows, as columns transposed in registers, or as
    single elements."""
    vectors, lanes, stride = 1.0, 1, 0
    for n, e in extents.items():
        if not r.strides.get(n, 0):
            continue
        t = c.tiles[n]
        vectors *= math.ceil(e / t.lanes)
        if t.lanes > 1:
            lanes, stride = t.lanes, r.strides[n]
    if stride in (0, 1):
        return vectors
    along = max((e for n, e in extents.items() if r.strides.get(n, 0) == 1), default=1)
    # A line of a large result is evicted from the first cache before its next element is stored.
    evicted = r.elements * r.itemsize > machine.l1 // 2
    rows = math.prod(e for n, e in extents.items() if abs(r.strides.get(n, 0)) > 1)
    stalls = rows * machine.scattered_store_penalty if evicted else 0.0
    if along * r.itemsize < LINE and cache_lines.set_occupancy(r, extents, machine.l2, machine.l2_ways) > 1:
        stalls += machine.partial_line_penalty * rows
    if along >= 4 or along == abs(stride) == 2:
        return vectors * (1.0 + math.log2(lanes)) + stalls
    return vectors * lanes * (_EVICTED_STORE if evicted and along == 1 else 2.0) + stalls


def _store_conflict_cycles(r: Ref, c: Candidate, extents: Mapping[str, int], machine: Machine) -> float:
    """Cycles that rows of a transposed result wait to be stored because they share sets of the first cache or
    lie on many pages."""
    transposed = any(c.tiles[n].lanes > 1 and abs(r.strides.get(n, 0)) > 1 for n in extents)
    if not transposed or r.elements * r.itemsize <= machine.l1 // 2:
        return 0.0
    rows = math.prod(e for n, e in extents.items() if abs(r.strides.get(n, 0)) > 1)
    return rows * cache_lines.store_conflict_cycles(r, extents, machine)


def nest_cycles(
    context: NestContext, c: Candidate, extents: Mapping[str, int], order: Sequence[str]
) -> float:
    """Cycles of all register tiles of a nest whose axes have these extents; `order` has the loops over
    register tiles, outermost first."""
    axes = list(context.nest.axes)
    last = next((n for n in reversed(order) if extents[n] > c.tiles[n].register), None)
    # Each of the rows that are read in place is new to the first tile of the innermost loop.
    first = 0.0
    if last is not None and cache_lines.blocked_rows(context, c.tiles, c.phases, c.packs):
        first = c.tiles[last].register / extents[last]
    total = 0.0

    def level(i: int, at: dict[str, int], count: int) -> None:
        nonlocal total
        if i == len(axes):
            cycles = tile_cycles(context, c, at, last)
            if first:
                cycles += first * (tile_cycles(context, c, at, None) - cycles)
            total += count * cycles
            return
        a = axes[i]
        for number, points in c.tiles[a.name].registers(extents[a.name]):
            level(i + 1, {**at, a.name: points}, count * number)

    level(0, {}, 1)
    return total
