"""Predicted cycles of a tiled nest: issue slots of the register tile, traffic through the caches.

All of it is arithmetic on access relations: strides of each reference along each loop, and extents.  The
model is that of a core that issues, each cycle, a fixed number of vector operations and of loads (the
"roofline" of issue slots), with the latency of dependent updates as a floor, plus the bytes that a cache
tile moves from each level of the memory hierarchy (Williams, Waterman and Patterson, 2009; the register-tile
reasoning is that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tc.poly.plan import Nest, Phase, PhaseTile, Tile, one_block

from . import lines
from .machine import Machine
from .memory import CLOSE
from .work import Ref, Work, held_buffers

_PADDED = 0.5  # of its cycles, what a tile takes longer that chooses elements or a constant one by one
_MASKED = 0.1  # the same where lanes have masks, which are known before the reduction
BESIDE = 0.25  # of the cycles of what takes less time than something else, what it takes beside it
_GONE = 7.0  # cycles to store one element of a line that the first cache has no more


@dataclass(frozen=True, slots=True)
class Candidate:
    """A register tile: points of each nest axis, the vector axis or the phases' own vector axes."""

    tiles: Mapping[str, Tile] = field(hash=False)
    phases: tuple[PhaseTile, ...]
    packs: frozenset[tuple[str, int]]

    @property
    def vectors(self) -> int:
        """Vectors that it computes side by side."""
        points = math.prod(-(-t.register // t.lanes) for t in self.tiles.values())
        return points * max((p.accumulators for p in self.phases if p.vector is not None), default=1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one core for the whole nest: `compute` while everything is in the first cache, `pack` to fill
    packed copies, `memory` for what moves from farther away."""

    compute: float
    pack: float
    memory: float

    @property
    def total(self) -> float:
        return max(self.compute, self.memory) + BESIDE * min(self.compute, self.memory) + self.pack


def tile_cycles(
    nest: Nest,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    held: Mapping[str, Ref],
    after: str | None,
    machine: Machine,
) -> float:
    """Cycles of one register tile with these extents of the nest's axes, `after` one along that axis; `held`
    as of `held_buffers`."""
    total = 4.0 + 2.0 * len(nest.phases)  # loop control, addresses
    rows = math.prod(e for n, e in extents.items() if c.tiles[n].lanes == 1)
    for phase, tile in zip(nest.phases, c.phases, strict=True):
        cut = one_block(phase, tile)
        blocks = 1 if cut is phase else phase.axes[0].extent / cut.axes[0].extent
        total += blocks * _phase_cycles(nest, cut, tile, work, c, extents, held, after, machine)
    total += sum(flush_cycles(r, c, extents, machine) for r in held.values())
    total = max(total, sum(lines.pushed_cycles(r, extents, machine) for r in held.values()))
    total *= 1 + _mixed(nest, work, c, extents, machine)
    return total * (1 + 0.002 * rows)  # of what is equal, the longer runs of neighbours


def _mixed(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """What tiles cost more of which some points meet a condition and others do not, as a share of all."""
    guards = {n for w in work.values() for n in w.guards}
    padded = {n for w in work.values() for n in w.padded}
    if any(c.tiles[a.name].lanes > 1 for a in nest.axes if a.name in padded):
        guards |= padded
    each = _MASKED if machine.isa.vector_bytes == 64 else _PADDED
    return _at_the_ends(nest, guards, extents) + each * _at_the_ends(nest, padded - guards, extents)


def _at_the_ends(nest: Nest, axes: AbstractSet[str], extents: Mapping[str, int]) -> float:
    """About the share of tiles that a condition divides, if it does at both ends of these axes."""
    same = 1.0
    for a in nest.axes:
        if a.name in axes:
            same *= max(0.0, 1 - 2 * (extents[a.name] - 1) / max(1, a.extent))
    return 1 - same


def flush_cycles(r: Ref, c: Candidate, extents: Mapping[str, int], machine: Machine) -> float:
    """Storing what a register tile computed: rows, or columns turned in registers, or single elements."""
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
    # A line of a large result has left the first cache before its next element is stored.
    gone = r.elements * r.itemsize > machine.l1 // 2
    rows = math.prod(e for n, e in extents.items() if abs(r.strides.get(n, 0)) > 1)
    waits = rows * machine.short_store if gone else 0.0
    if along >= 4:
        return vectors * (1.0 + math.log2(lanes)) + waits
    return vectors * lanes * (_GONE if gone and along == 1 else 2.0) + waits


def _picked(stride: int, r: Ref) -> bool:
    """Whether lanes so far apart are picked out of neighbours (backends.cpu.memory)."""
    return 1 < stride <= CLOSE and not r.indirect and r.plain


def _phase_cycles(
    nest: Nest,
    phase: Phase,
    tile: PhaseTile,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    held: Mapping[str, Ref],
    after: str | None,
    machine: Machine,
) -> float:
    inner = {a.name: a.extent for a in phase.axes}
    iterations = float(math.prod(inner.values())) if inner else 1.0
    vector = tile.vector
    lanes = 1
    if vector is not None:
        lanes = tile.lanes
        iterations = iterations / inner[vector] * math.ceil(inner[vector] / lanes)
    if tile.dot is not None:
        along = vector or phase.axes[-1].name
        steps = math.ceil(inner[along] / lanes)
        iterations = iterations / steps * math.ceil(inner[along] / (lanes * tile.dot.size))
    # Rows of a block may as well be packed, which aligns them: arrays are not, as they come.
    blocked = tile.block is not None and not c.packs
    operations = loads = singles = stores = started = 0.0
    updates = False
    horizontal = 0.0
    for name in phase.statements:
        w = work[name]
        own = {a.name: extents[a.name] for a in nest.axes if name in a.vars}
        along_each = {n: math.ceil(e / c.tiles[n].lanes) for n, e in own.items()}
        vectors = float(math.prod(along_each.values()))
        if tile.dot is not None:
            operations += vectors
        else:  # what does not go with a loop of the phase is computed before it
            parts = [p for p in w.parts if (name, p.read) not in c.packs]
            parts = [p for p in parts if not inner or not p.axes.isdisjoint(inner)]
            operations += sum(p.operations * math.prod(along_each.get(a, 1) for a in p.axes) for p in parts)
        if w.update and inner:
            updates = True
        for r in w.refs:
            moving = any(n in inner for n in r.strides) or bool(r.indirect & set(inner))
            if r.buffer in held or (inner and not moving and r.plain):
                continue  # in registers
            count = 1.0
            scattered = wide = False
            if tile.dot is not None and tile.dot.other == r.read and vector is None:
                # Neighbours that are not together in memory are put together.
                together = r.strides.get(phase.axes[-1].name, 0) == 1 and r.itemsize * tile.dot.size == 4
                count *= 1 if together else tile.dot.size
            for n, e in own.items():
                t = c.tiles[n]
                stride = r.strides.get(n, 0)
                if t.lanes > 1:
                    apart = stride not in (0, 1) and (name, r.read) not in c.packs
                    if n in r.indirect or (apart and (r.written or not _picked(stride, r))):
                        scattered = True
                        count *= e
                    elif apart:
                        count *= math.ceil(e / t.lanes) * stride
                        operations += count
                        wide = True
                    elif stride:
                        count *= math.ceil(e / t.lanes)
                        wide = True
                elif stride or n in r.indirect:
                    count *= e
            if vector is not None:
                stride = r.strides.get(vector, 0)
                if vector in r.indirect or stride not in (0, 1):
                    scattered = stride != 0 or vector in r.indirect
                    if scattered and not r.written and _picked(stride, r):
                        scattered = False
                        count *= stride
                        operations += count
                        wide = True
                    count *= lanes if scattered else 1
                wide = wide or stride == 1
            if r.written:
                if not (w.update and inner and not moving):
                    stores += count * (2.0 if scattered else 1.0)
            elif scattered or not wide:
                rows = max(
                    (e for n, e in own.items() if lines.aliased(r.strides.get(n, 0), r.itemsize, e, machine)),
                    default=0,
                )
                # A single load and an insertion; an address out of a vector where data say which.
                each = 2.5 if r.indirect else 1.5
                singles += count * (each if scattered else 3.0 if rows else 1.0)
                # What one operation uses is its operand in memory.
                folded = not scattered and count >= vectors and machine.isa.vector_bytes == 64
                started += 0.0 if folded else count * (each if scattered else 1.0)
            else:
                apart = any(
                    lines.aliased(r.strides.get(n, 0), r.itemsize, e, machine)
                    for n, e in own.items()
                    if c.tiles[n].lanes == 1
                )
                # A vector that lies across two cache lines is loaded as two.
                along = next((n for n in own if c.tiles[n].lanes > 1), vector)
                width = r.itemsize * (c.tiles[along].lanes if along in own else lanes)
                aligned = (name, r.read) in c.packs or not (
                    blocked or any(s * r.itemsize % width for n, s in r.strides.items() if n != along)
                )
                rows = {n: e for n, e in own.items() if c.tiles[n].lanes == 1}
                far = 4.0 if lines.collides(r, rows, inner, machine) else 2.0 if apart else 1.0
                count *= 1.0 if aligned else 1.0 + 0.9 * width / 64
                loads += count * far
                started += count
        if vector is not None and w.update:
            horizontal += vectors * (2 * math.log2(max(lanes, 2)) + tile.accumulators)
    widest = max([lanes, *(t.lanes for t in c.tiles.values())])
    multiply_adds, wide_loads = machine.issue(4 * widest)
    moved = loads / wide_loads + singles / machine.broadcasts
    far = waits = 0.0
    if inner and vector is None:  # lanes along a reduction read what follows
        found = lines.brought(nest, phase, work, c.packs, extents, held, machine)
        far, waits = lines.new_cycles(found, phase, c.tiles, after, machine)
        far /= iterations
    # What is not the bottleneck is not free either.
    slots = (operations / multiply_adds, moved, stores)
    started = (started + operations + stores) / machine.starts
    cycles = max(max(slots) + 0.1 * (sum(slots) - max(slots)), far, started)
    if updates:  # an accumulator is ready for its next update only after the latency of the last
        cycles = max(cycles, machine.latency / (tile.accumulators if vector is not None else 1))
    # Loop control of the innermost loop, once an unrolled iteration.
    unroll = tile.accumulators if vector is not None else max(1, tile.unroll)
    return (cycles + (1.0 / unroll if inner else 0.0)) * iterations + waits + horizontal


def nest_cycles(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles of all register tiles of a nest whose axes have these extents."""
    axes = list(nest.axes)
    held = held_buffers(nest, work)
    order = lines.inner_order(nest, work, c.tiles, c.phases, c.packs, held, machine)
    last = next((n for n in reversed(order) if extents[n] > c.tiles[n].register), None)
    # Of rows that are read where they lie, each is new to the first tile of the innermost loop.
    first = 0.0
    if last is not None and lines.blocked_rows(nest, work, c.tiles, c.phases, c.packs):
        first = c.tiles[last].register / extents[last]
    total = 0.0

    def level(i: int, at: dict[str, int], count: int) -> None:
        nonlocal total
        if i == len(axes):
            cycles = tile_cycles(nest, work, c, at, held, last, machine)
            if first:
                cycles += first * (tile_cycles(nest, work, c, at, held, None, machine) - cycles)
            total += count * cycles
            return
        a = axes[i]
        size = min(c.tiles[a.name].register, extents[a.name])
        whole, rest = divmod(extents[a.name], size)
        if whole:
            level(i + 1, {**at, a.name: size}, count * whole)
        if rest:
            level(i + 1, {**at, a.name: rest}, count)

    level(0, {}, 1)
    return total
