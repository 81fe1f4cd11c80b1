"""The predicted time of a mapped kernel, and the resource that bounds it.

All of it is arithmetic on the text of a launch: the requests of its warps (warps.py), the level of the memory
hierarchy that serves them (traffic.py), and occupancy.  Each resource gives a bound, as if the others took no
time (the "roofline" of Williams, Waterman and Patterson, 2009, with the ceilings of a GPU):

    dram     bytes from and to memory: misses of the L2 cache
    l2       bytes from and to the L2 cache: misses of the L1 caches, and all stores; a multiprocessor
             transfers at most 64 bytes a cycle
    shared   cycles of shared memory, one word of each bank in a cycle; and of shuffles
    l1       cycles of the L1 cache for global memory, a line or 4 sectors in a cycle
    fma      arithmetic of the busiest of the pipes for float32, float64 and special functions
    integer  integer arithmetic, most of it for addresses
    issue    instructions of any kind, 4 warps in a cycle
    latency  the critical path of a block, times the blocks that run one after the other

The time is the longest bound, more where others come near it, as nothing overlaps without gaps, and the
overhead of a launch.  Shared memory, caches and pipes are those of the multiprocessor with most blocks, so a
grid smaller than the GPU and a tail wave that is nearly empty show in all bounds.  The model leaves out row
conflicts in DRAM, conflicts of L2 slices, instruction caches, atomics, and that nothing reaches its peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.codegen.late_checks import reported_at_once
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
from .traffic import Traffic, requested_bytes
from .unrolling import loads_in_flight, unrollings
from .warps import count_work

LAUNCH_SECONDS = 2e-6  # about, from one kernel to the next in a stream
# Cycles, about: Luo and others, "Benchmarking and dissecting the NVIDIA Hopper GPU architecture", 2024.
# Memory there is idle (L2 260, DRAM 550); while all multiprocessors load, an H200 takes about 1.5 times as
# long (201 kernels of benchmarks/results/device_timing.json).
_DRAM_LATENCY, _L2_LATENCY, _SHARED_LATENCY, _ARITHMETIC_LATENCY, _BARRIER_LATENCY = 825, 390, 30, 4, 20
_L2_PORT_BYTES = 64  # bytes a cycle from the L2 cache to a multiprocessor
SCHEDULERS = 4
_NORM_EXPONENT = 4  # of the norm that combines bounds: two equal ones give 1.19 times one


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`blocks` that are resident on a multiprocessor, their `share` of the warps that it could have, and
    which of threads, registers, shared memory, blocks is the `limit`."""

    blocks: int
    share: float
    limit: str


def occupancy(target: Target, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of blocks with so many threads, registers a thread, and bytes of shared memory.

    As NVIDIA's occupancy calculator does it: registers are allocated to warps in units of 256, for four warps
    at a time, shared memory in units of 128 bytes.
    """
    warps = -(-max(1, threads) // WARP)
    warp_registers = -(-max(1, registers) * WARP // 256) * 256
    fit = {
        "threads": target.threads // WARP // warps,
        "registers": target.registers // warp_registers // 4 * 4 // warps,
        "blocks": target.blocks,
        "shared": target.most_shared // max(1, -(-(shared + target.reserved) // 128) * 128),
    }
    limit = min(fit, key=fit.__getitem__)
    return Occupancy(fit[limit], fit[limit] * warps * WARP / target.threads, limit)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for a launch.

    `shared` is in bytes a block; `registers` are those of a thread, an estimate if `estimated`.
    `elements_read` and `elements_written` are the distinct elements of global memory that the launch reads
    (and has not written before) and writes; `compulsory_read` and `compulsory_written` are their bytes.  `l2`
    and `dram` are the predicted bytes.  `bounds` are in seconds (see the module's text); `seconds` combines
    them and adds the overhead of a launch.
    """

    name: str
    blocks: int
    threads: int
    shared: int
    registers: int
    estimated: bool
    occupancy: Occupancy
    work: Work = field(repr=False)
    elements_read: float
    elements_written: float
    compulsory_read: float
    compulsory_written: float
    l2: float
    dram: float
    bounds: Mapping[str, float] = field(hash=False)

    @property
    def bottleneck(self) -> str:
        return max(self.bounds, key=self.bounds.__getitem__)

    @property
    def seconds(self) -> float:
        longest = self.bounds[self.bottleneck]
        if not 0 < longest < math.inf:
            return LAUNCH_SECONDS + longest
        return LAUNCH_SECONDS + longest * sum(
            (b / longest) ** _NORM_EXPONENT for b in self.bounds.values()
        ) ** (1 / _NORM_EXPONENT)

    def ideal_seconds(self, target: Target) -> float:
        """Seconds of a kernel that reads and writes each element once, overlaps this with its arithmetic, and
        uses the whole device."""
        once = (self.compulsory_read + self.compulsory_written) / (1e9 * target.dram)
        return LAUNCH_SECONDS + max(once, self.compute_seconds(target))

    def compute_seconds(self, target: Target) -> float:
        """Seconds of the arithmetic if it is spread evenly over the whole device."""
        even = max(1, self.blocks) / (target.units * -(-max(1, self.blocks) // target.units))
        return self.bounds["fma"] * even

    def count(self, *, shared: bool, store: bool) -> float:
        """Elements that all lanes load from or store to shared or global memory."""
        return sum(a.elements for a in self.work.accesses if (a.shared, a.store) == (shared, store))

    @property
    def coalesced(self) -> float:
        """The share of requests to global memory that are coalesced."""
        requests = sum(a.requests for a in self.work.accesses if not a.shared)
        coalesced = sum(a.requests for a in self.work.accesses if not a.shared and a.coalesced)
        return coalesced / requests if requests else 1.0

    @property
    def worst_access(self) -> Access | None:
        """The access to global memory with most sectors beyond the ideal number."""
        found = [a for a in self.work.accesses if not a.shared]
        return max(found, key=lambda a: a.transactions - a.ideal_transactions, default=None)

    @property
    def conflict_factor(self) -> float:
        """Cycles of shared memory over those without bank conflicts."""
        found = [a for a in self.work.accesses if a.shared]
        ideal = sum(a.ideal_transactions for a in found)
        return sum(a.transactions for a in found) / ideal if ideal else 1.0

    def __str__(self) -> str:
        each = ", ".join(f"{n} {1e6 * s:.3g}" for n, s in self.bounds.items())
        compulsory = max(1.0, self.compulsory_read + self.compulsory_written)
        return (
            f"{self.name}: {1e6 * self.seconds:.3g} us, {self.bottleneck} binds ({each}); "
            f"dram {self.dram / compulsory:.3g} and l2 {self.l2 / compulsory:.3g} of the least bytes, "
            f"{self.coalesced:.0%} coalesced, occupancy {self.occupancy.share:.0%} by {self.occupancy.limit}"
        )


def predict(
    nest: LoopNest,
    launch: Launch,
    target: Target,
    sizes: Mapping[str, int] | None = None,
    registers: int | None = None,
) -> Prediction:
    """Predict a launch of a nest.

    `sizes` are the values of symbolic sizes; `registers` are those of a thread, if the compiler has reported
    them.
    """
    sizes = sizes or {}
    counts = block_counts(launch, sizes)
    blocks, threads = math.prod(counts), thread_count(launch)
    shuffles = target.arch.startswith("sm_")
    shared = shared_bytes(nest, launch, shuffles)
    used_registers = registers or estimated_registers(nest, launch)
    resident_limit = occupancy(target, threads, used_registers, shared)
    resident = max(1, min(resident_limit.blocks, -(-blocks // target.units)))
    work = count_work(nest, launch, sizes, shuffles=shuffles)
    traffic = Traffic(nest, launch, sizes, work)
    compulsory = traffic.compulsory()
    l1_capacity = (target.l1 - resident * shared) / resident  # of a block
    loads, stores = requested_bytes(work.accesses, store=False), requested_bytes(work.accesses, store=True)
    missed = traffic.l1_misses(l1_capacity).read
    # A block loads what it has stored itself from the L2 cache.
    l2_read = {n: min(missed.get(n, b), b) for n, b in loads.items()}
    l2_missed = traffic.l2_misses(target.l2, resident * target.units)
    l2 = sum(l2_read.values()) + sum(stores.values())
    dram = sum(min(b, l2_read.get(n, 0.0)) for n, b in l2_missed.read.items())
    dram += sum(min(b, stores.get(n, 0.0)) for n, b in l2_missed.written.items())
    busiest = -(-blocks // target.units) / max(1, blocks)  # the share of all work on the busiest unit
    cycle = 1e-9 / target.clock
    global_sectors = sum(a.transactions for a in work.accesses if not a.shared)
    lines = sum(a.lines for a in work.accesses)
    banks = sum(a.transactions for a in work.accesses if a.shared) + work.arithmetic.get("shuffle", 0.0)
    waves = -(-blocks // (resident * target.units))
    load_latency = _L2_LATENCY + (_DRAM_LATENCY - _L2_LATENCY) * min(1.0, dram / max(1.0, l2))
    block_cycles = _block_latency(nest, launch, work, load_latency, shuffles)
    block_cycles += work.instructions / max(1.0, work.warps)

    def pipe_seconds(pipe: str, rate: float) -> float:
        return work.arithmetic.get(pipe, 0.0) * WARP / rate * busiest * cycle

    bounds = {
        "dram": dram / (1e9 * target.dram),
        "l2": max(l2 / target.l2_rate, l2 * busiest / _L2_PORT_BYTES) * cycle,
        "shared": banks * busiest * cycle,
        "l1": max(lines, global_sectors / 4) * busiest * cycle,
        "fma": max(
            pipe_seconds("float32", target.float32),
            pipe_seconds("float64", target.float64),
            pipe_seconds("special", target.special),
        ),
        "integer": pipe_seconds("integer", target.integer),
        "issue": work.instructions / SCHEDULERS * busiest * cycle,
        "latency": block_cycles * waves * cycle if resident_limit.blocks else math.inf,  # cannot be launched
    }
    return Prediction(
        launch.name, blocks, threads, shared, used_registers, registers is None, resident_limit, work,
        sum(b / nest.array(n).dtype.itemsize for n, b in compulsory.read.items()),
        sum(b / nest.array(n).dtype.itemsize for n, b in compulsory.written.items()),
        sum(compulsory.read.values()), sum(compulsory.written.values()), l2, dram, bounds,
    )  # fmt: skip


def shared_bytes(nest: LoopNest, launch: Launch, shuffles: bool) -> int:
    """Bytes of shared memory of a block, with the scratch of reductions across threads."""
    total = 0
    for name in used_arrays(launch):
        a = nest.array(name)
        if a.role == "shared":
            shape = [evaluate(n, {}) for n in a.shape] or [1]
            total += math.prod(shape[:-1]) * (shape[-1] + a.padding) * a.dtype.itemsize
    sizes = scratch(launch, {a.name: a for a in nest.arrays}, shuffles).sizes
    return total + sum(n * t.itemsize for (t, _), n in sizes.items())


def estimated_registers(nest: LoopNest, launch: Launch) -> int:
    """An estimate of a thread's registers, before there is code: private arrays, loads in flight, addresses.

    The weights are fitted to what `ptxas` reports for the benchmark's kernels; the mean error is 8 registers.
    """
    arrays = {n: nest.array(n) for n in used_arrays(launch)}
    private = max(
        (
            math.prod(evaluate(n, {}) for n in a.shape) * -(-a.dtype.itemsize // 4)
            for a in arrays.values()
            if a.role == "register"
        ),
        default=0,
    )
    addresses = sum(a.role in GLOBAL for a in arrays.values())
    unrolled = unrollings(launch.body, arrays)
    loops = [s for s in statements(launch.body) if isinstance(s, For) and _is_straight_line(s.body)]
    loaded = max((min(64, loads_in_flight(s, arrays, unrolled)) for s in loops), default=0)
    return min(255, 16 + private + loaded // 3 + 5 * addresses // 2)


def used_arrays(launch: Launch) -> list[str]:
    """The arrays of a launch, in the order of their first use."""
    found: dict[str, None] = {}
    for c in statements(launch):
        if isinstance(c, Compute):
            found[c.buffer] = None
            for e in (c.value, *c.subscripts):
                found |= {s.buffer: None for s in walk(e) if isinstance(s, Load)}
    return list(found)


def _block_latency(nest: LoopNest, launch: Launch, work: Work, load_latency: float, shuffles: bool) -> float:
    """The critical path of a block in cycles, if a load from global memory takes `load_latency`.

    Independent loads overlap, but not across a barrier, a loop or a check that branches; updates of the same
    element are a dependence chain.
    """
    arrays = {a.name: a for a in nest.arrays}
    branching = frozenset(map(id, reported_at_once(launch.body)))
    scratch_areas = scratch(launch, arrays, shuffles)

    def statement(c: Compute) -> tuple[float, float]:
        loads = [e for e in walk(c.value) if isinstance(e, Load)]
        global_loads = [e for e in loads if arrays[e.buffer].role in GLOBAL]
        indirect = any(isinstance(s, Load) for e in global_loads for i in e.subscripts for s in walk(i))
        updated = c.op is not None and arrays[c.buffer].role in GLOBAL
        loads_shared = any(arrays[e.buffer].role == "shared" for e in loads)
        instructions = arithmetic(c.value, c.op, arrays[c.buffer].dtype)
        latency = load_latency * (bool(global_loads or updated) + indirect) or _SHARED_LATENCY * loads_shared
        compute = _ARITHMETIC_LATENCY * sum(n for p, n in instructions.items() if p != MULTIPLY_ADD)
        if c.asynchronous:  # only a later barrier waits for it
            latency = 0.0
        return latency + compute, _ARITHMETIC_LATENCY if c.op is not None else 0.0

    def visit(s: Stmt) -> tuple[float, float]:
        """The latency of a statement, and the part of it that its next execution waits for, if both update
        the same element."""
        match s:
            case Block():
                total, carried_total = 0.0, 0.0
                independent: list[float] = []
                for c in s.body:
                    time, carried = visit(c)
                    carried_total += carried
                    if _is_straight_line(c):
                        independent.append(time)
                    else:
                        total += max(independent, default=0.0) + time
                        independent.clear()
                return total + max(independent, default=0.0), carried_total
            case Promote():
                return visit(s.body)
            case If():
                parts = [visit(s.then), *([visit(s.otherwise)] if s.otherwise is not None else [])]
                return max(p[0] for p in parts), max(p[1] for p in parts)
            case For():
                trips = work.trip_counts.get(id(s), 0.0)
                time, carried = visit(s.body)
                branches = any(id(c) in branching for c in statements(s.body))
                if branches or not (work.unrollings[id(s)].full or _is_straight_line(s.body)):
                    return trips * time, 0.0
                updates = [c for c in statements(s.body) if isinstance(c, Compute) and c.op is not None]
                reduces = any(s.var not in {v for e in u.subscripts for v in variables(e)} for u in updates)
                chain = max(0.0, trips - 1) * carried if reduces else 0.0
                iterations = max(min(1.0, trips), trips / work.unrollings[id(s)].factor)
                return iterations * time + chain, carried + chain
            case Compute():
                return statement(s)
            case Sync():
                return _ARITHMETIC_LATENCY if s.warp else _BARRIER_LATENCY, 0.0
            case Combine():
                grouping = Grouping.of(launch.threads, s.thread, shuffles)
                elements = elements_of(arrays[s.buffer])
                if (
                    grouping.warps > 1 and not scratch_areas.groups[id(s)]
                ):  # at the same time as the first of its group
                    return 0.0, 0.0
                time = scratch_areas.barriers(s, arrays[s.buffer], grouping) * _BARRIER_LATENCY
                if grouping.is_serial(s.everywhere):
                    return time + elements * (
                        2 * _SHARED_LATENCY + (grouping.count - 1) * _ARITHMETIC_LATENCY
                    ), 0.0
                if grouping.lanes == 1:
                    return time + elements * (grouping.count - 1).bit_length() * 2 * _SHARED_LATENCY, 0.0
                time += (grouping.lanes - 1).bit_length() * (_SHARED_LATENCY + _ARITHMETIC_LATENCY)
                if grouping.warps > 1:
                    trips = 4 if grouping.shares_partial_results(elements) else 2
                    time += (
                        grouping.rounds(elements) * trips * _SHARED_LATENCY
                        + (grouping.warps - 1) * _ARITHMETIC_LATENCY
                    )
                return time, 0.0
            case _:
                return 0.0, 0.0

    return visit(launch.body)[0]


def _is_straight_line(s: Stmt) -> bool:
    """Whether there is no barrier and no loop except unrolled ones, so that all loads can be in flight at
    once."""
    return not any(
        isinstance(c, (Sync, Combine)) or (isinstance(c, For) and c.kind is not LoopKind.UNROLLED)
        for c in statements(s)
    )
