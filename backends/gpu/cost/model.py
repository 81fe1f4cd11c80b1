"""How long a mapped kernel takes at least, and what holds it up.

All of it is arithmetic on the text of a launch: what its warps ask for (warps.py), what of that comes from
where (traffic.py), how many blocks a multiprocessor holds.  The time is the longest of what follows, each as
if the others took none (the "roofline" of Williams, Waterman and Patterson, 2009, with the ceilings of a
GPU), more where others come near it, as nothing overlaps without gaps, and what a launch costs:

    dram     bytes from and to memory: what the second cache does not keep
    l2       bytes from and to the second cache: what the first one does not keep, and all that is stored;
             a multiprocessor gets at most 64 bytes a cycle
    shared   cycles of shared memory, a word of each bank in one; and of shuffles
    l1       cycles of the first cache for global memory, 4 sectors in one
    fma      arithmetic of the busiest of the pipes for float32, float64 and special functions
    integer  arithmetic on integers, most of it for addresses
    issue    instructions of any kind, of 4 warps in a cycle
    latency  one block after the other: how long each takes if it waits for nobody but itself

Shared memory, caches and pipes are those of the multiprocessor that has the most blocks; so a grid smaller
than the GPU, or one whose last round is nearly empty, shows in all of them.  What this leaves out: conflicts
of rows in DRAM and of L2 slices, instruction caches, atomics, and that nothing reaches its peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.codegen.scratch import elements_of, scratch
from tc.ir.evaluate import evaluate
from tc.ir.expr import Load, variables, walk
from tc.ir.grouping import Grouping
from tc.ir.loops import (
    WARP,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Promote,
    Stmt,
    Sync,
    statements,
)

from ..target import Target
from .instructions import MULTIPLY_ADD, arithmetic
from .requests import GLOBAL, Access, Work, block_counts, thread_count
from .traffic import Traffic, requested
from .unrolling import ahead, unrolled
from .warps import work

LAUNCH = 2e-6  # seconds from one kernel to the next in a stream, about
# Cycles: Luo and others, "Benchmarking and dissecting the NVIDIA Hopper GPU architecture", 2024, about.
_DRAM, _L2, _SHARED, _ARITHMETIC, _BARRIER = 550, 260, 30, 4, 20
_PORT = 64  # bytes a cycle from the second cache to a multiprocessor
SCHEDULERS = 4
_SHARP = 4  # two bounds that are as long come to 1.19 of one


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`blocks` that a multiprocessor holds at once, `share` of the warps that it could hold, and which of
    threads, registers, shared memory, blocks does not allow for more."""

    blocks: int
    share: float
    limit: str


def occupancy(target: Target, threads: int, registers: int, shared: int) -> Occupancy:
    """By whole blocks (NVIDIA's occupancy calculator): registers are dealt out to warps in units of 256, to
    four warps at a time; shared memory in units of 128 bytes.
    """
    warps = -(-max(1, threads) // WARP)
    of_warp = -(-max(1, registers) * WARP // 256) * 256
    fit = {
        "threads": target.threads // WARP // warps,
        "registers": target.registers // of_warp // 4 * 4 // warps,
        "blocks": target.blocks,
        "shared": target.most_shared // max(1, -(-(shared + target.reserved) // 128) * 128),
    }
    limit = min(fit, key=fit.__getitem__)
    return Occupancy(fit[limit], fit[limit] * warps * WARP / target.threads, limit)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of a launch.  `shared` bytes of a block; `registers` of a thread, an estimate if `estimated`.
    `operands` and `results` are the elements of global memory that it reads (and has not written before) and
    writes, each counted once; `least_read` and `least_written` are their bytes, `l2` and `dram` those that go
    through.  `bounds` are in seconds (see the module's text), `seconds` what they come to with the launch."""

    name: str
    blocks: int
    threads: int
    shared: int
    registers: int
    estimated: bool
    occupancy: Occupancy
    work: Work = field(repr=False)
    operands: float
    results: float
    least_read: float
    least_written: float
    l2: float
    dram: float
    bounds: Mapping[str, float] = field(hash=False)

    @property
    def binds(self) -> str:
        return max(self.bounds, key=self.bounds.__getitem__)

    @property
    def seconds(self) -> float:
        longest = self.bounds[self.binds]
        if not 0 < longest < math.inf:
            return LAUNCH + longest
        return LAUNCH + longest * sum((b / longest) ** _SHARP for b in self.bounds.values()) ** (1 / _SHARP)

    def ideal(self, target: Target) -> float:
        """Seconds of a kernel that reads and writes each element once and computes all the while, on all of
        the device."""
        once = (self.least_read + self.least_written) / (1e9 * target.dram)
        return LAUNCH + max(once, self.computing(target))

    def computing(self, target: Target) -> float:
        """Seconds of its arithmetic on all of the device."""
        even = max(1, self.blocks) / (target.units * -(-max(1, self.blocks) // target.units))
        return self.bounds["fma"] * even

    def count(self, *, shared: bool, store: bool) -> float:
        """Elements that lanes load from or store to shared or global memory."""
        return sum(a.elements for a in self.work.accesses if (a.shared, a.store) == (shared, store))

    @property
    def coalesced(self) -> float:
        """The share of requests to global memory that take no more sectors than they need."""
        requests = sum(a.requests for a in self.work.accesses if not a.shared)
        good = sum(a.requests for a in self.work.accesses if not a.shared and a.coalesced)
        return good / requests if requests else 1.0

    @property
    def worst(self) -> Access | None:
        """The access to global memory that fetches most for nothing."""
        found = [a for a in self.work.accesses if not a.shared]
        return max(found, key=lambda a: a.moved - a.least, default=None)

    @property
    def conflicts(self) -> float:
        """Cycles of shared memory for one that would do."""
        found = [a for a in self.work.accesses if a.shared]
        least = sum(a.least for a in found)
        return sum(a.moved for a in found) / least if least else 1.0

    def __str__(self) -> str:
        each = ", ".join(f"{n} {1e6 * s:.3g}" for n, s in self.bounds.items())
        least = max(1.0, self.least_read + self.least_written)
        return (
            f"{self.name}: {1e6 * self.seconds:.3g} us, {self.binds} binds ({each}); "
            f"dram {self.dram / least:.3g} and l2 {self.l2 / least:.3g} of the least bytes, "
            f"{self.coalesced:.0%} coalesced, occupancy {self.occupancy.share:.0%} by {self.occupancy.limit}"
        )


def predicted(
    nest: LoopNest,
    launch: Launch,
    target: Target,
    sizes: Mapping[str, int] | None = None,
    registers: int | None = None,
) -> Prediction:
    """Of a launch of a nest, whose symbolic sizes have the values `sizes`; `registers` of a thread, if the
    compiler has told them."""
    sizes = sizes or {}
    counts = block_counts(launch, sizes)
    blocks, threads = math.prod(counts), thread_count(launch)
    shuffles = target.arch.startswith("sm_")
    shared = shared_bytes(nest, launch, shuffles)
    taken = registers or estimated_registers(nest, launch)
    held = occupancy(target, threads, taken, shared)
    resident = max(1, min(held.blocks, -(-blocks // target.units)))
    done = work(nest, launch, sizes, shuffles=shuffles)
    traffic = Traffic(nest, launch, sizes, done)
    least = traffic.least()
    first = (target.l1 - resident * shared) / resident
    loads, stores = requested(done.accesses, store=False), requested(done.accesses, store=True)
    missed = traffic.behind_first(first).read
    # What a block has stored itself comes back from the second cache.
    l2_read = {n: min(missed.get(n, b), b) for n, b in loads.items()}
    far = traffic.behind_second(target.l2, resident * target.units)
    l2 = sum(l2_read.values()) + sum(stores.values())
    dram = sum(min(b, l2_read.get(n, 0.0)) for n, b in far.read.items())
    dram += sum(min(b, stores.get(n, 0.0)) for n, b in far.written.items())
    busiest = -(-blocks // target.units) / max(1, blocks)  # the share of all work that one unit has
    cycle = 1e-9 / target.clock
    global_sectors = sum(a.moved for a in done.accesses if not a.shared)
    requests = sum(a.requests for a in done.accesses if not a.shared)
    banks = sum(a.moved for a in done.accesses if a.shared) + done.arithmetic.get("shuffle", 0.0)
    rounds = -(-blocks // (resident * target.units))
    far_away = _L2 + (_DRAM - _L2) * min(1.0, dram / max(1.0, l2))
    alone = _chain(nest, launch, done, far_away, shuffles)
    alone += done.instructions / max(1.0, done.warps)

    def spent(pipe: str, rate: float) -> float:
        return done.arithmetic.get(pipe, 0.0) * WARP / rate * busiest * cycle

    bounds = {
        "dram": dram / (1e9 * target.dram),
        "l2": max(l2 / target.l2_rate, l2 * busiest / _PORT) * cycle,
        "shared": banks * busiest * cycle,
        "l1": max(requests, global_sectors / 4) * busiest * cycle,
        "fma": max(
            spent("float32", target.float32),
            spent("float64", target.float64),
            spent("special", target.special),
        ),
        "integer": spent("integer", target.integer),
        "issue": done.instructions / SCHEDULERS * busiest * cycle,
        "latency": alone * rounds * cycle if held.blocks else math.inf,  # it cannot be launched
    }
    return Prediction(
        launch.name, blocks, threads, shared, taken, registers is None, held, done,
        sum(b / nest.array(n).dtype.itemsize for n, b in least.read.items()),
        sum(b / nest.array(n).dtype.itemsize for n, b in least.written.items()),
        sum(least.read.values()), sum(least.written.values()), l2, dram, bounds,
    )  # fmt: skip


def shared_bytes(nest: LoopNest, launch: Launch, shuffles: bool) -> int:
    """Bytes of shared memory of a block, with those that combinations need."""
    total = 0
    for name in used(launch):
        a = nest.array(name)
        if a.role == "shared":
            shape = [evaluate(n, {}) for n in a.shape] or [1]
            total += math.prod(shape[:-1]) * (shape[-1] + a.padding) * a.dtype.itemsize
    rooms = scratch(launch, {a.name: a for a in nest.arrays}, shuffles).rooms
    return total + sum(n * t.itemsize for (t, _), n in rooms.items())


def estimated_registers(nest: LoopNest, launch: Launch) -> int:
    """Registers of a thread before there is code: what it keeps, what loops have loaded ahead, addresses.

    The weights are those that fit best what `ptxas` said of the benchmark's kernels; they are 8 off on
    average.
    """
    arrays = {n: nest.array(n) for n in used(launch)}
    kept = max(
        (
            math.prod(evaluate(n, {}) for n in a.shape) * -(-a.dtype.itemsize // 4)
            for a in arrays.values()
            if a.role == "register"
        ),
        default=0,
    )
    addresses = sum(a.role in GLOBAL for a in arrays.values())
    how = unrolled(launch.body, arrays)
    loops = [s for s in statements(launch.body) if isinstance(s, For) and _straight(s.body)]
    loaded = max((min(64, ahead(s, arrays, how)) for s in loops), default=0)
    return min(255, 16 + kept + loaded // 3 + 5 * addresses // 2)


def used(launch: Launch) -> list[str]:
    """The arrays of a launch, in the order of their first use."""
    found: dict[str, None] = {}
    for c in statements(launch):
        if isinstance(c, Compute):
            found[c.buffer] = None
            for e in (c.value, *c.subscripts):
                found |= {s.buffer: None for s in walk(e) if isinstance(s, Load)}
    return list(found)


def _chain(nest: LoopNest, launch: Launch, done: Work, far: float, shuffles: bool) -> float:
    """Cycles that a block takes on its own, if a load from global memory takes `far`: loads that wait for
    nothing, one after the other where there is a barrier or a loop between; updates of the same element."""
    arrays = {a.name: a for a in nest.arrays}
    areas = scratch(launch, arrays, shuffles)

    def statement(c: Compute) -> tuple[float, float]:
        loads = [e for e in walk(c.value) if isinstance(e, Load)]
        outside = [e for e in loads if arrays[e.buffer].role in GLOBAL]
        again = any(isinstance(s, Load) for e in outside for i in e.subscripts for s in walk(i))
        updated = c.op is not None and arrays[c.buffer].role in GLOBAL
        near = any(arrays[e.buffer].role == "shared" for e in loads)
        steps = arithmetic(c.value, c.op, arrays[c.buffer].dtype)
        latency = far * (bool(outside or updated) + again) or _SHARED * near
        each = _ARITHMETIC * sum(n for p, n in steps.items() if p != MULTIPLY_ADD)
        if c.asynchronous:  # nobody waits for it but a barrier, much later
            latency = 0.0
        return latency + each, _ARITHMETIC if c.op is not None else 0.0

    def visit(s: Stmt) -> tuple[float, float]:
        """How long a statement takes, and how much later the same one can start that updates the same."""
        match s:
            case Block():
                total, again = 0.0, 0.0
                straight: list[float] = []
                for c in s.body:
                    time, carried = visit(c)
                    again += carried
                    if _straight(c):
                        straight.append(time)
                    else:
                        total += max(straight, default=0.0) + time
                        straight.clear()
                return total + max(straight, default=0.0), again
            case Promote():
                return visit(s.body)
            case If():
                parts = [visit(s.then), *([visit(s.otherwise)] if s.otherwise is not None else [])]
                return max(p[0] for p in parts), max(p[1] for p in parts)
            case For():
                trips = done.trips.get(id(s), 0.0)
                time, carried = visit(s.body)
                if not (done.unrolled[id(s)].whole or _straight(s.body)):
                    return trips * time, 0.0
                updates = [c for c in statements(s.body) if isinstance(c, Compute) and c.op is not None]
                same = any(s.var not in {v for e in u.subscripts for v in variables(e)} for u in updates)
                more = max(0.0, trips - 1) * carried if same else 0.0
                rounds = max(min(1.0, trips), trips / done.unrolled[id(s)].factor)
                return rounds * time + more, carried + more
            case Compute():
                return statement(s)
            case Sync():
                return _ARITHMETIC if s.warp else _BARRIER, 0.0
            case Combine():
                how = Grouping.of(launch.threads, s.thread, shuffles)
                elements = elements_of(arrays[s.buffer])
                if how.warps > 1 and not areas.groups[id(s)]:  # at the same time as the first of its group
                    return 0.0, 0.0
                time = areas.barriers(s, arrays[s.buffer], how) * _BARRIER
                if how.in_a_row(s.everywhere):
                    return time + elements * (2 * _SHARED + (how.count - 1) * _ARITHMETIC), 0.0
                if how.lanes == 1:
                    return time + elements * (how.count - 1).bit_length() * 2 * _SHARED, 0.0
                time += (how.lanes - 1).bit_length() * (_SHARED + _ARITHMETIC)
                if how.warps > 1:
                    trips = 4 if how.shared_out(elements) else 2
                    time += how.rounds(elements) * trips * _SHARED + (how.warps - 1) * _ARITHMETIC
                return time, 0.0
            case _:
                return 0.0, 0.0

    return visit(launch.body)[0]


def _straight(s: Stmt) -> bool:
    """Whether no loop that runs, and no barrier, keeps loads from being made at the same time."""
    return not any(
        isinstance(c, (Sync, Combine)) or (isinstance(c, For) and c.kind is not LoopKind.UNROLLED)
        for c in statements(s)
    )
