"""Issue slots: what a core does in an iteration of a register tile that reads from the first cache alone.

Each cycle it starts so many instructions, of these so many vector operations and so many loads, and one
store; whichever takes longest is the bottleneck.  Beside that an iteration waits for lines that come from the
second cache, and for the results of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.poly.tile_plan import Nest, Phase, PhaseTile

from ..emit.lane_reduction import combinations
from ..emit.load_store import MAX_PICK_STRIDE
from ..target import Machine
from . import cache_lines
from .register_tile import Candidate, lane_axis
from .work import Ref, Work

_OVERLAP = 0.1  # of its cycles, what is not the bottleneck takes
_SHUFFLED_LOADS = 2.0  # loads of neighbours that lanes take elements of, by as many shuffles
_INSERTED = 1.5  # loads, for a single element that is put into a vector
_GATHERED = 2.5  # the same, whose address is taken out of a vector
# Instructions to reach a row that data point to: its check, its address, and what asks for a later one.  On
# Zen 4 a row of 29 elements in two parts took 2.9 cycles longer than whole (ADR 8).
_ROW_SETUP = 8.0
_ALIASED = 3.0  # times as long takes an element of rows that leave each other no room in the first cache
_ALIASED_VECTORS, _COLLIDING_VECTORS = (
    2.0,
    4.0,
)  # the same of vectors: of rows of the tile, of these and those of the reduction
# Cycles after the latency until the next update starts where each accumulator has one an iteration.
_UPDATE_DELAY = 0.5
# Operations that a core has under way at a time, at least (Fog, "The microarchitecture of Intel, AMD and VIA
# CPUs", 2024: 224 on Zen 2 and Skylake, 320 on Zen 4, 512 on Golden Cove).
_REORDER_WINDOW = 224
_COMBINE_CYCLES = 2.0  # cycles of a combination of lanes: two shuffles and an operation on what they yield
_LINE_SPLIT = 0.9  # of a load more takes a vector of a whole line that lies across two


@dataclass(slots=True)
class PortUsage:
    """Of an iteration: vector operations, loads of vectors and of single elements, stores; and of loads, how
    many instructions start for them."""

    operations: float = 0.0
    vector_loads: float = 0.0
    element_loads: float = 0.0
    stores: float = 0.0
    load_instructions: float = 0.0


@dataclass(frozen=True, slots=True)
class Accesses:
    """How often an iteration loads or stores of an array: vectors if they are `wide`, elements if not or if
    lanes are `scattered`; and the operations that pick lanes out of neighbours."""

    count: float
    is_vector: bool
    scattered: bool
    operations: float


@dataclass(frozen=True)
class Iteration:
    """One of the loops of a phase, for a register tile with these extents of the nest's axes; `held` as of
    `held_buffers`."""

    nest: Nest
    phase: Phase
    tile: PhaseTile
    work: Mapping[str, Work]
    candidate: Candidate
    extents: Mapping[str, int]
    accumulators: Mapping[str, Ref]
    machine: Machine
    inner: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        # No `cached_property`: its lock, held by another thread at a fork, is held in the child for ever.
        object.__setattr__(self, "inner", {a.name: a.extent for a in self.phase.axes})

    @property
    def lanes(self) -> int:
        """Along the phase's own vector axis."""
        return self.tile.lanes if self.tile.vector is not None else 1

    @property
    def count(self) -> float:
        """How many there are."""
        out = float(math.prod(self.inner.values()))
        vector, dot = self.tile.vector, self.tile.dot
        if vector is not None:
            out = out / self.inner[vector] * math.ceil(self.inner[vector] / self.lanes)
        if dot is not None:
            extent = self.inner[vector or self.phase.axes[-1].name]
            out = out / math.ceil(extent / self.lanes) * math.ceil(extent / (self.lanes * dot.size))
        return out

    def cycles(self, after: str | None) -> float:
        """Of all iterations, of a register tile that is `after` one along that axis."""
        machine, count = self.machine, self.count
        usage, horizontal, updates = PortUsage(), 0.0, False
        for name in self.phase.statements:
            w = self.work[name]
            own = {a.name: self.extents[a.name] for a in self.nest.axes if name in a.vars}
            vectors = self.add_statement(w, own, usage)
            updates = updates or (w.update and bool(self.inner))
            if self.tile.vector is not None and w.update:
                horizontal += vectors * self.tile.accumulators
                horizontal += _COMBINE_CYCLES * combinations(math.ceil(vectors), self.lanes)
        widest = max([self.lanes, *(t.lanes for t in self.candidate.tiles.values())])
        multiply_adds, wide_loads = machine.issue(4 * widest)
        far = waits = 0.0
        if self.inner and self.tile.vector is None:  # lanes along a reduction read what follows
            c = self.candidate
            vector = lane_axis(c.tiles)
            found = cache_lines.line_traffic(
                self.nest, self.phase, self.work, c.packs, self.extents, self.accumulators, vector, machine
            )
            far, waits = cache_lines.new_line_cycles(found, self.phase, c.tiles, after, machine)
            far /= count
            if after is not None and self.tile.block is not None and not c.packs:
                waits += cache_lines.conflict_reload_cycles(found, after, machine)
        moved = usage.vector_loads / wide_loads + usage.element_loads / machine.broadcasts
        busy = (usage.operations / multiply_adds, moved, usage.stores)
        started = (usage.load_instructions + usage.operations + usage.stores) / machine.issue_width
        each = max(max(busy) + _OVERLAP * (sum(busy) - max(busy)), far, started)
        along = self.tile.accumulators if self.tile.vector is not None else 1
        if updates:  # an accumulator is ready for its next update only after the latency of the last
            wait = machine.latency / along if along > 1 else machine.latency + _UPDATE_DELAY
            # Of a short reduction the next tile's are computed meanwhile (not of single elements: ADR 8).
            whole = (usage.load_instructions + usage.operations + usage.stores) * count
            each = max(each, wait * min(1.0, whole / _REORDER_WINDOW) if widest > 1 else wait)
        # Loop control of the innermost loop, once an unrolled iteration.
        unroll = along if self.tile.vector is not None else max(1, self.tile.unroll)
        return (each + (1.0 / unroll if self.inner else 0.0)) * count + waits + horizontal

    def add_statement(self, w: Work, own: Mapping[str, int], usage: PortUsage) -> float:
        """Count what a statement does whose axes have these extents; how many vectors it computes."""
        along_each = {n: math.ceil(e / self.candidate.tiles[n].lanes) for n, e in own.items()}
        vectors = float(math.prod(along_each.values()))
        if self.tile.dot is not None:
            usage.operations += vectors if self.machine.isa.dots else 2 * vectors
        else:  # what does not go with a loop of the phase is computed before it
            parts = [p for p in w.parts if (w.name, p.read) not in self.candidate.packs]
            parts = [p for p in parts if not self.inner or not p.axes.isdisjoint(self.inner)]
            usage.operations += sum(
                p.operations * math.prod(along_each.get(a, 1) for a in p.axes) for p in parts
            )
        for r in w.refs:
            moving = any(n in self.inner for n in r.strides) or bool(r.indirect & self.inner.keys())
            if r.buffer in self.accumulators or (self.inner and not moving and r.plain):
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
        count, operations, wide, scattered = self.loads_per_group(r), 0.0, False, False
        packed = (r.statement, r.read) in self.candidate.packs
        for n, e in own.items():
            t, stride = self.candidate.tiles[n], r.strides.get(n, 0)
            if t.lanes == 1:
                count *= e if stride or n in r.indirect else 1
                continue
            apart = stride not in (0, 1) and not packed
            if not r.written and self.is_periodic(r, n):
                count *= _SHUFFLED_LOADS * math.ceil(e / t.lanes)
                operations += count
                wide = True
            elif n in r.indirect or (apart and (r.written or not _is_picked(stride, r))):
                scattered = True
                count *= e
            elif stride:
                count *= math.ceil(e / t.lanes) * (stride if apart else 1)
                operations += count if apart else 0.0
                wide = True
        vector = self.tile.vector
        if vector is None:
            return Accesses(count, wide, scattered, operations)
        stride = r.strides.get(vector, 0)
        if vector in r.indirect or stride not in (0, 1):
            if not r.written and _is_picked(stride, r):
                scattered = False
                count *= stride
                operations += count
                wide = True
            else:
                scattered = True
                count *= self.lanes
        return Accesses(count, wide or stride == 1, scattered, operations)

    def is_periodic(self, r: Ref, axis: str) -> bool:
        """Whether it is known, or tested once a vector, which elements the lanes along an axis take."""
        t, period = self.candidate.tiles[axis], r.periods.get(axis, 0)
        return period > 0 and (t.lanes % period == 0 or t.register % period == 0)

    def loads_per_group(self, r: Ref) -> float:
        """Loads for the neighbours that one operation sums products of, of which not all lie together."""
        dot = self.tile.dot
        if dot is None or dot.other != r.read or self.tile.vector is not None:
            return 1.0
        neighbours = r.strides.get(self.phase.axes[-1].name, 0) == 1 and r.itemsize * dot.size == 4
        return 1.0 if neighbours else float(dot.size)

    def load_elements(
        self, r: Ref, m: Accesses, own: Mapping[str, int], vectors: float, usage: PortUsage
    ) -> None:
        machine = self.machine
        packed = (r.statement, r.read) in self.candidate.packs
        rows = not packed and any(
            cache_lines.aliased(r.strides.get(n, 0), r.itemsize, e, machine) for n, e in own.items()
        )
        each = _GATHERED if r.indirect else _INSERTED
        usage.element_loads += m.count * (each if m.scattered else _ALIASED if rows else 1.0)
        # What one operation uses is its operand in memory.
        folded = not m.scattered and m.count >= vectors and machine.isa.vector_bytes == 64
        usage.load_instructions += 0.0 if folded else m.count * (each if m.scattered else 1.0)

    def load_vectors(self, r: Ref, m: Accesses, own: Mapping[str, int], usage: PortUsage) -> None:
        tiles, machine = self.candidate.tiles, self.machine
        rows = {n: e for n, e in own.items() if tiles[n].lanes == 1}
        far = 1.0
        if cache_lines.collides(r, rows, self.inner, machine):
            far = _COLLIDING_VECTORS
        elif any(cache_lines.aliased(r.strides.get(n, 0), r.itemsize, e, machine) for n, e in rows.items()):
            far = _ALIASED_VECTORS
        along = next((n for n in own if tiles[n].lanes > 1), self.tile.vector)
        width = r.itemsize * (self.lanes if along is None or along not in own else tiles[along].lanes)
        # Rows of a block may as well be packed, which aligns them: arrays are not, as they come.
        blocked = self.tile.block is not None and not self.candidate.packs
        aligned = (r.statement, r.read) in self.candidate.packs or not (
            blocked or any(s * r.itemsize % width for n, s in r.strides.items() if n != along)
        )
        count = m.count * (1.0 if aligned else 1.0 + _LINE_SPLIT * width / 64)
        usage.vector_loads += count * far
        usage.load_instructions += count


def _is_picked(stride: int, r: Ref) -> bool:
    """Whether lanes so far apart are picked out of neighbours (backends.cpu.memory)."""
    return 1 < stride <= MAX_PICK_STRIDE and not r.indirect and r.plain
