"""What can be said of the kernels of the benchmark's programs without a GPU: a line a kernel.

    python -m benchmarks.gpu_static [--isa sm_90] [--accesses] [--save] [NAME …]

From NVRTC's compiler: registers (! where some are in memory), bytes of shared memory (smem).  The rest is
what the model of the GPU backends says (backends/gpu/cost/model.py), for A100 or H100:

    occ     % of the warps that a multiprocessor could hold
    loads   elements of global memory that threads load, for each element that the kernel writes; least: if
            each were loaded once, and none that the kernel itself has written
    sto     elements of global memory that threads store, for each that is written
    f/sm    multiply-adds for each element loaded from shared memory; f/gl: from global memory
    bar     barriers in one iteration of the loop that has most of its own
    coal    % of the requests to global memory that take no more sectors of 32 bytes than they need
    sect    sectors that the worst access takes for each that it needs
    bank    cycles of shared memory for each that would do: bank conflicts
    least   microseconds that the launch takes at least, and what binds
    text    milliseconds from a parsed and checked program to CUDA text; nvrtc: from there to machine code

A program of several kernels has a line more (=), where loads and stores are for each result of the program,
what is passed on between kernels included, and `least` is of its inputs alone.  --accesses adds a line for
each access to global and to shared memory.
"""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
import warnings
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.compile_time import sized
from benchmarks.record import save
from benchmarks.workloads import CASES
from tc.ir.expr import IntImm
from tc.ir.loops import Block, Launch, LoopNest


@dataclass(frozen=True)
class Row:
    """Of a kernel.  Times of the compile in milliseconds, predicted ones in microseconds; `memory`: bytes of
    a thread's registers that are in memory; `loads`, `stores` and `least_loads` for each result."""

    program: str
    kernel: str
    blocks: int
    threads: int
    registers: int
    shared: int
    memory: int
    occupancy: float
    occupancy_limit: str
    results: float
    loads: float
    least_loads: float
    stores: float
    shared_loads: float
    multiply_adds: float
    instructions: float
    guards: float
    barriers: float
    barriers_each: int
    coalesced: float
    sectors: float
    bank_cycles: float
    least_bytes: float
    l2_bytes: float
    dram_bytes: float
    microseconds: float
    binds: str
    bounds: dict[str, float]
    text_ms: float
    nvrtc_ms: float
    accesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Total:
    """Of a program: elements for each of its results, microseconds predicted, and milliseconds that the
    passes of its compile took."""

    program: str
    kernels: int
    results: float
    loads: float
    least_loads: float
    stores: float
    microseconds: float
    passes: dict[str, float]


def row(program: str, kernel: str, p: Any, memory: int, text_ms: float, nvrtc_ms: float) -> Row:
    """Of a prediction."""
    results = max(1.0, p.elements_written)
    worst = max(
        (
            a.transactions / a.ideal_transactions
            for a in p.work.accesses
            if not a.shared and a.ideal_transactions
        ),
        default=1.0,
    )
    return Row(
        program=program, kernel=kernel, blocks=p.blocks, threads=p.threads, registers=p.registers,
        shared=p.shared, memory=memory, occupancy=p.occupancy.share, occupancy_limit=p.occupancy.limit,
        results=p.elements_written, loads=p.count(shared=False, store=False) / results,
        least_loads=p.elements_read / results, stores=p.count(shared=False, store=True) / results,
        shared_loads=p.count(shared=True, store=False), multiply_adds=p.work.multiply_adds,
        instructions=p.work.instructions, guards=p.work.guards, barriers=p.work.barriers,
        barriers_each=p.work.barriers_per_iteration, coalesced=p.coalesced, sectors=worst,
        bank_cycles=p.conflict_factor, least_bytes=p.compulsory_read + p.compulsory_written,
        l2_bytes=p.l2, dram_bytes=p.dram,
        microseconds=1e6 * p.seconds, binds=p.bottleneck, bounds={n: 1e6 * s for n, s in p.bounds.items()},
        text_ms=text_ms, nvrtc_ms=nvrtc_ms, accesses=tuple(access_line(a).strip() for a in p.work.accesses),
    )  # fmt: skip


def total(program: str, nest: LoopNest, rows: list[Row], least: list[Any], passes: dict[str, float]) -> Total:
    """Of the kernels of a program; `least` are the bytes of each array that they read and write at least."""
    given: dict[str, float] = {}
    for found in least:
        for name, read in found.read.items():
            if nest.array(name).role == "input":
                given[name] = max(given.get(name, 0.0), read / nest.array(name).dtype.itemsize)
    outputs = (math.prod(n.value for n in nest.array(o).shape if isinstance(n, IntImm)) for o in nest.outputs)
    results = max(1, sum(outputs))
    return Total(
        program, len(rows), results, sum(x.loads * max(1.0, x.results) for x in rows) / results,
        sum(given.values()) / results, sum(x.stores * max(1.0, x.results) for x in rows) / results,
        sum(x.microseconds for x in rows), passes,
    )  # fmt: skip


HEAD = (
    "kernel               blocks  thr reg  smem occ  loads least  sto  f/sm  f/gl bar coal sect bank"
    "  least binds  text nvrtc"
)


def short(n: float, width: int) -> str:
    """A number in so many columns, with two digits after the point if there is room; - for none."""
    if math.isnan(n):
        return "-".rjust(width)
    for digits in (2, 1, 0):
        shown = f"{n:.{digits}f}"
        if len(shown) <= width:
            return shown.rjust(width)
    return f"{n:.0e}".replace("e+0", "e").rjust(width)


def line(x: Row) -> str:
    """A row in 120 columns."""
    number = x.kernel.removesuffix("_kernel").rpartition("_")[2]
    end = f" #{number}" if number.isdigit() else ""
    loads = x.loads * x.results
    of_shared = x.multiply_adds / x.shared_loads if x.shared_loads and x.multiply_adds else math.nan
    of_global = x.multiply_adds / loads if loads and x.multiply_adds else math.nan
    return (
        f"{x.program[: 20 - len(end)] + end:20}{x.blocks:7}{x.threads:5}{x.registers:4}"
        f"{'!' if x.memory else ' '}{x.shared:5}{100 * x.occupancy:4.0f} {short(x.loads, 6)} "
        f"{short(x.least_loads, 5)} {short(x.stores, 4)} {short(of_shared, 5)} {short(of_global, 5)} "
        f"{x.barriers_each:3} {100 * x.coalesced:4.0f} {short(x.sectors, 4)} {short(x.bank_cycles, 4)} "
        f"{short(x.microseconds, 6)} {x.binds:7}{x.text_ms:4.0f} {x.nvrtc_ms:5.0f}"
    )


def total_line(x: Total) -> str:
    """A program in the columns of its kernels."""
    return (
        f"= {x.program[:18]:18}{'':26} {short(x.loads, 6)} {short(x.least_loads, 5)} {short(x.stores, 4)}"
        f"{'':31} {short(x.microseconds, 6)}"
    )


def access_line(a: Any) -> str:
    """An access, how many requests of warps there are, what one takes, and what it would have to."""
    what = f"{'store' if a.store else 'load ':5} {'shared' if a.shared else 'global'}"
    each = "cycles " if a.shared else "sectors"
    bad = " " if a.coalesced else "!"
    least = a.ideal_transactions / max(1.0, a.requests)
    taken = a.transactions_per_request
    return f"  {bad} {what} {a.requests:12.0f} x {taken:5.2f} {each} of {least:5.2f}  {a.text}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_static",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--isa", default="sm_90")
    parser.add_argument("--accesses", action="store_true", help="a line for each access as well")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/gpu_static.json")
    parser.add_argument("names", nargs="*", help="of programs, with sizes or without; by default all")
    args = parser.parse_args(argv)
    chosen = [c for c in CASES if not args.names or {c.name, c.name.split()[0]} & set(args.names)]
    if not chosen:
        parser.error(f"there is no program {' or '.join(args.names)}")

    import tc
    from tc import registry
    from tc.pipeline.pass_manager import recording

    registry.load("cuda")
    traffic = importlib.import_module("tc_backends.gpu.cost.traffic")
    model = importlib.import_module("tc_backends.gpu.cost.model")
    target = importlib.import_module("tc_backends.gpu.target").of_architecture(args.isa)
    warnings.simplefilter("ignore", tc.Warning)
    rows: list[Row] = []
    totals: list[Total] = []
    print(HEAD)
    for case in chosen:
        name, (source, entry, sizes) = case.name, sized(case)
        with recording() as record:
            kernel = tc.compile(source, "cuda", entry, options={"isa": args.isa})
        known = {*kernel.front.checked.sizes, *kernel.front.specialized}
        one = kernel.specialize(**{k: v for k, v in sizes.items() if k in known})
        passes = {name: 1e3 * s for name, s in (record.seconds | dict(one.seconds)).items()}
        machine = passes.get("machine", 0.0) + passes.get("bounds", 0.0)
        text = sum(passes.values()) - machine
        mine: list[Row] = []
        least: list[Any] = []
        made = one.whole
        body = made.nest.body
        launches = body.body if isinstance(body, Block) else (body,)
        for k, launch in zip(made.module.kernels, launches, strict=True):
            assert isinstance(launch, Launch)
            r = made.resources[k.name]
            p = model.predict(made.nest, launch, target, registers=r.registers)
            mine.append(row(name, k.name, p, r.in_memory, text, machine))
            least.append(traffic.Traffic(made.nest, launch, {}, p.work).compulsory())
            print(line(mine[-1]))
            if args.accesses:
                print("\n".join(map(access_line, p.work.accesses)))
        rows += mine
        totals.append(total(name, made.nest, mine, least, passes))
        if len(mine) > 1:
            print(total_line(totals[-1]))
    times = [sum(t for stage, t in x.passes.items() if stage not in ("machine", "bounds")) for x in totals]
    schedules = [x.passes.get("schedule", 0.0) for x in totals]
    print(f"to CUDA text: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms")
    print(f"of that the schedule: worst {max(schedules):.1f} ms")
    print(f"registers in memory: {sum(x.memory > 0 for x in rows)} of {len(rows)} kernels")
    if args.save:
        save(
            "gpu_static",
            {"isa": args.isa, "rows": list(map(asdict, rows)), "programs": list(map(asdict, totals))},
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
