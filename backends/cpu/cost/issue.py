"""Port usage: what a core executes in an iteration of a register tile that reads from the first cache alone.

Each cycle a core starts a number of instructions, some of which may be vector operations, loads, and one
store; the kind that takes longest is the bottleneck.  Besides, an iteration waits for lines from the second
cache, and for the results of the iteration before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.poly.tile_plan import Phase, PhaseTile

from ..emit.lane_reduction import combinations
from ..emit.strided_loads import MAX_PICK_STRIDE
from . import cache_lines
from .register_tile import Candidate, lane_axis
from .work import NestContext, Ref, Work

_OVERLAP = 0.1  # share of the cycles of what is not the bottleneck that adds to it
_SHUFFLED_LOADS = 2.0  # loads of neighbours out of which lanes are shuffled, by as many shuffles
_INSERTED = 1.5  # cost in loads of an element that is inserted into a vector
_GATHERED = 2.5  # the same where the address is extracted from a vector
# Instructions to reach a row that data point to: its check, its address, and the prefetch of a later one.  On
# Zen 4 a row of 29 elements in two parts took 2.9 cycles longer than whole
# (docs/experiments/random-programs.md).
_ROW_SETUP = 8.0
_ALIASED = 3.0  # time factor of elements in rows that evict each other from the first cache
# The same of vectors: in rows of the tile, and in rows of the tile and of the reduction.
_ALIASED_VECTORS, _COLLIDING_VECTORS = 2.0, 4.0
# Cycles after the latency until the next update starts, where each accumulator has one update an iteration.
_UPDATE_DELAY = 0.5
# Operations in flight in a core, at least (Fog, "The microarchitecture of Intel, AMD and VIA CPUs", 2024: 224
# on Zen 2 and Skylake, 320 on Zen 4, 512 on Golden Cove).
_REORDER_WINDOW = 224
_COMBINE_CYCLES = 2.0  # cycles to combine lanes once: two shuffles and an operation on their results
_LINE_SPLIT = 0.9  # additional loads of a vector of a whole line that lies across two lines


@dataclass(slots=True)
class PortUsage:
    """Usage of an iteration: vector operations, loads of vectors and of single elements, stores; and the
    instructions that start for loads."""

    operations: float = 0.0
    vector_loads: float = 0.0
    element_loads: float = 0.0
    stores: float = 0.0
    load_instructions: float = 0.0


@dataclass(frozen=True, slots=True)
class Accesses:
    """How often an iteration loads or stores of an array: whole vectors if `is_vector`, else elements, or
    elements if its lanes are `scattered`; and the operations that shuffle lanes out of neighbours."""

    count: float
    is_vector: bool
    scattered: bool
    operations: float


@dataclass(frozen=True)
class Iteration:
    """One iteration of the loops of a phase, for a register tile with `extents` points along the
    nest's axes."""

    context: NestContext
    phase: Phase
    tile: PhaseTile
    candidate: Candidate
    extents: Mapping[str, int]
    inner: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        # No `cached_property`: if another thread holds its lock at a fork, the child holds it for ever.
        object.__setattr__(self, "inner", {a.name: a.typical_extent for a in self.phase.axes})

    @property
    def lanes(self) -> int:
        """Lanes along the phase's own vector axis, or 1."""
        return self.tile.lanes if self.tile.vector is not None else 1

    @property
    def count(self) -> float:
        """The number of iterations."""
        out = float(math.prod(self.inner.values()))
        vector, dot = self.tile.vector, self.tile.dot
        if vector is not None:
            out = out / self.inner[vector] * math.ceil(self.inner[vector] / self.lanes)
        if dot is not None:
            extent = self.inner[vector or self.phase.axes[-1].name]
            out = out / math.ceil(extent / self.lanes) * math.ceil(extent / (self.lanes * dot.size))
        return out

    def cycles(self, after: str | None) -> float:
        """Cycles of all iterations, for a register tile that follows another one along the axis `after`."""
        machine, count = self.context.machine, self.count
        usage, horizontal, updates = PortUsage(), 0.0, False
        for name in self.phase.statements:
            w = self.context.work[name]
            own = {a.name: self.extents[a.name] for a in self.context.nest.axes if name in a.vars}
            vectors = self.add_statement(w, own, usage)
            updates = updates or (w.update and bool(self.inner))
            if self.tile.vector is not None and w.update:
                horizontal += vectors * self.tile.accumulators
                horizontal += _COMBINE_CYCLES * combinations(math.ceil(vectors), self.lanes)
        widest = max([self.lanes, *(t.lanes for t in self.candidate.tiles.values())])
        multiply_adds, wide_loads = machine.issue(4 * widest)
        new_lines = stalls = 0.0
        if self.inner:
            c = self.candidate
            vector = lane_axis(c.tiles)
            found = cache_lines.line_traffic(self.context, self.phase, c.packs, self.extents, vector)
            if self.tile.vector is not None:  # the contiguous reads of lanes along a reduction are prefetched
                along = self.tile.vector
                found = [x for x in found if x.ref.gathered_rows or x.ref.strides.get(along, 0) not in (0, 1)]
            new_lines, stalls = cache_lines.new_line_cycles(found, self.phase, c.tiles, after, machine)
            new_lines /= count
            if after is not None and self.tile.block is not None and not c.packs:
                stalls += cache_lines.conflict_reload_cycles(found, after, machine)
        moved = usage.vector_loads / wide_loads + usage.element_loads / machine.broadcasts
        busy = (usage.operations / multiply_adds, moved, usage.stores)
        started = (usage.load_instructions + usage.operations + usage.stores) / machine.issue_width
        each = max(max(busy) + _OVERLAP * (sum(busy) - max(busy)), new_lines, started)
        along = self.tile.accumulators if self.tile.vector is not None else 1
        if updates:  # an accumulator is ready for its next update after the latency of the last one
            wait = machine.latency / along if along > 1 else machine.latency + _UPDATE_DELAY
            # A short reduction overlaps with that of the next tile, unless it is one of single elements
            # (docs/experiments/zen-4.md).
            whole = (usage.load_instructions + usage.operations + usage.stores) * count
            each = max(each, wait * min(1.0, whole / _REORDER_WINDOW) if widest > 1 else wait)
        # Loop control of the innermost loop, once for each unrolled iteration.
        unroll = along if self.tile.vector is not None else max(1, self.tile.unroll)
        return (each + (1.0 / unroll if self.inner else 0.0)) * count + stalls + horizontal

    def add_statement(self, w: Work, own: Mapping[str, int], usage: PortUsage) -> float:
        """Add the usage of a statement whose axes have the extents `own`; returns the vectors that it
        computes."""
        along_each = {n: math.ceil(e / self.candidate.tiles[n].lanes) for n, e in own.items()}
        vectors = float(math.prod(along_each.values()))
        if self.tile.dot is not None:
            usage.operations += vectors if self.context.machine.isa.dots else 2 * vectors
        else:  # operations that do not depend on a loop of the phase precede it
            parts = [p for p in w.parts if (w.name, p.read) not in self.candidate.packs]
            parts = [p for p in parts if not self.inner or not p.axes.isdisjoint(self.inner)]
            usage.operations += sum(
                p.operations * math.prod(along_each.get(a, 1) for a in p.axes) for p in parts
            )
        for r in w.refs:
            moving = any(n in self.inner for n in r.strides) or bool(r.indirect & self.inner.keys())
            if r.buffer in self.context.accumulators or (self.inner and not moving and r.plain):
                continue  # in registers
            m = self.accesses(r, own)
            usage.operations += m.operations
            if (gathered := r.indirect - r.periods.keys()) and not m.scattered:
                usage.load_instructions += _ROW_SETUP * math.prod(own.get(n, 1) for n in gathered)
            if r.written:
                if moving or not (w.update and self.inner):
                    usage.stores += m.count * (2.0 if m.scattered else 1.0)
            elif m.scattered or not m.is_vector:
                self.load_elements(r, m, own, vectors, usage)
            else:
                self.load_vectors(r, m, own, usage)
        return vectors

    def accesses(self, r: Ref, own: Mapping[str, int]) -> Accesses:
        """How often an iteration accesses the array of a reference, and how."""
        count, operations, wide, scattered = self.loads_per_group(r), 0.0, False, False
        packed = (r.statement, r.read) in self.candidate.packs
        for n, e in own.items():
            t, stride = self.candidate.tiles[n], r.strides.get(n, 0)
            if t.lanes == 1:
                count *= e if stride or n in r.indirect else 1
                continue
            strided = stride not in (0, 1) and not packed
            if not r.written and self.is_periodic(r, n):
                count *= _SHUFFLED_LOADS * math.ceil(e / t.lanes)
                operations += count
                wide = True
            elif n in r.indirect or (strided and (r.written or not _is_picked(stride, r))):
                scattered = True
                count *= e
            elif stride:
                count *= math.ceil(e / t.lanes) * (stride if strided else 1)
                operations += count if strided else 0.0
                wide = True
        vector = self.tile.vector
        if vector is None:
            return Accesses(count, wide, scattered, operations)
        stride = r.strides.get(vector, 0)
        if vector in r.indirect or stride not in (0, 1):
            if not r.written and (period := r.periods.get(vector, 0)) and self.lanes % period == 0:
                scattered = False
                count *= _SHUFFLED_LOADS
                operations += count
                wide = True
            elif not r.written and _is_picked(stride, r):
                scattered = False
                count *= stride
                operations += count
                wide = True
            else:
                scattered = True
                count *= self.lanes
        return Accesses(count, wide or stride == 1, scattered, operations)

    def is_periodic(self, r: Ref, axis: str) -> bool:
        """Whether the elements that the lanes along an axis take are known at compile time, or tested once a
        vector."""
        t, period = self.candidate.tiles[axis], r.periods.get(axis, 0)
        return period > 0 and (t.lanes % period == 0 or t.register % period == 0)

    def loads_per_group(self, r: Ref) -> float:
        """Loads for the neighbours whose products one instruction sums; more than one where they are not
        contiguous."""
        dot = self.tile.dot
        if dot is None or dot.other != r.read or self.tile.vector is not None:
            return 1.0
        neighbours = r.strides.get(self.phase.axes[-1].name, 0) == 1 and r.itemsize * dot.size == 4
        return 1.0 if neighbours else float(dot.size)

    def load_elements(
        self, r: Ref, m: Accesses, own: Mapping[str, int], vectors: float, usage: PortUsage
    ) -> None:
        """Add the loads of single elements."""
        machine = self.context.machine
        packed = (r.statement, r.read) in self.candidate.packs
        rows = not packed and any(
            cache_lines.aliased(r.strides.get(n, 0), r.itemsize, e, machine) for n, e in own.items()
        )
        each = _GATHERED if r.indirect else _INSERTED
        usage.element_loads += m.count * (each if m.scattered else _ALIASED if rows else 1.0)
        # An element that one operation uses is its memory operand.
        folded = not m.scattered and m.count >= vectors and machine.isa.vector_bytes == 64
        usage.load_instructions += 0.0 if folded else m.count * (each if m.scattered else 1.0)

    def load_vectors(self, r: Ref, m: Accesses, own: Mapping[str, int], usage: PortUsage) -> None:
        """Add the loads of vectors."""
        tiles, machine = self.candidate.tiles, self.context.machine
        rows = {n: e for n, e in own.items() if tiles[n].lanes == 1}
        conflicts = 1.0
        if cache_lines.collides(r, rows, self.inner, machine):
            conflicts = _COLLIDING_VECTORS
        elif any(cache_lines.aliased(r.strides.get(n, 0), r.itemsize, e, machine) for n, e in rows.items()):
            conflicts = _ALIASED_VECTORS
        along = next((n for n in own if tiles[n].lanes > 1), self.tile.vector)
        width = r.itemsize * (self.lanes if along is None or along not in own else tiles[along].lanes)
        # Rows of a block could as well be packed, which would align them; arrays as they come are not
        # aligned.
        blocked = self.tile.block is not None and not self.candidate.packs
        aligned = (r.statement, r.read) in self.candidate.packs or not (
            blocked or any(s * r.itemsize % width for n, s in r.strides.items() if n != along)
        )
        count = m.count * (1.0 if aligned else 1.0 + _LINE_SPLIT * width / 64)
        usage.vector_loads += count * conflicts
        usage.load_instructions += count


def _is_picked(stride: int, r: Ref) -> bool:
    """Whether lanes at this stride are picked out of loaded neighbours (emit.strided_loads)."""
    return 1 < stride <= MAX_PICK_STRIDE and not r.indirect and r.plain
