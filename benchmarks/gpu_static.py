"""What can be said of the kernels of the benchmark's programs without a GPU: a line a kernel.

    python -m benchmarks.gpu_static [--isa sm_90] [--save] [NAME …]

Shapes of launches, shared memory and registers (from NVRTC's compiler), barriers in the text, warps that a
multiprocessor holds at once, and how long the compile took: to CUDA text, and NVRTC.  Memory is counted for
one thread in the middle of the grid: its loads from and stores to global memory, of which those to shared
memory and in registers are not part, per operation on results.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections import Counter
from dataclasses import asdict, dataclass

from benchmarks.compile_time import benchmark
from benchmarks.record import save
from tc.ir.evaluate import evaluate
from tc.ir.expr import IntImm, Load, walk
from tc.ir.loops import Block, Combine, Compute, For, If, Launch, LoopNest, Stmt, Sync

# NVIDIA's programming guide, technical specifications of compute capability 8.0 and 9.0.
WARPS, REGISTERS, SHARED, BLOCKS = 64, 65536, {"sm_80": 164 << 10, "sm_90": 228 << 10}, 32


@dataclass(frozen=True)
class Row:
    """Of a kernel; `occupancy` is the share of a multiprocessor's warps that run at once."""

    program: str
    kernel: str
    blocks: int
    threads: int
    registers: int
    shared: int
    memory: int
    barriers: int
    occupancy: float
    loads: float
    stores: float
    text_ms: float
    nvrtc_ms: float


def occupancy(threads: int, registers: int, shared: int, isa: str) -> float:
    """By whole blocks, with registers dealt out to warps in units of 256."""
    warps = -(-threads // 32)
    of_registers = -(-max(1, registers) * 32 // 256) * 256 * warps
    blocks = min(WARPS // warps, REGISTERS // of_registers, BLOCKS)
    if shared:
        blocks = min(blocks, SHARED.get(isa, SHARED["sm_90"]) // (shared + 1024))
    return blocks * warps / WARPS


def counts(nest: LoopNest, launch: Launch) -> Counter[str]:
    """Loads and stores of global memory, operations on results and barriers, of the thread in the middle."""
    roles = {a.name: a.role for a in nest.arrays}
    found: Counter[str] = Counter()

    def visit(s: Stmt, env: dict[str, int], times: int) -> None:
        match s:
            case Block():
                for c in s.body:
                    visit(c, env, times)
            case For():
                low, high = evaluate(s.lower, env), evaluate(s.upper, env)
                n = max(0, -(-(high - low) // s.step))
                if n:  # the iteration in the middle stands for all
                    visit(s.body, {**env, s.var: low + n // 2 * s.step}, times * n)
            case If():
                if evaluate(s.condition, env):
                    visit(s.then, env, times)
                elif s.otherwise is not None:
                    visit(s.otherwise, env, times)
            case Compute():
                found["operations"] += times * bool(s.stage)
                is_global = roles[s.buffer] in ("input", "output", "temporary")
                found["stores"] += times * is_global
                found["loads"] += times * (is_global and s.op is not None)
                for e in walk(s.value):
                    if isinstance(e, Load) and roles[e.buffer] in ("input", "output", "temporary"):
                        found["loads"] += times
            case Sync() | Combine():
                found["barriers"] += times
            case _:
                pass

    env = {v: evaluate(n, {}) // 2 for v, n in launch.blocks} | {v: n // 2 for v, n in launch.threads}
    visit(launch.body, env, 1)
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_static",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--isa", default="sm_90")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/gpu_static.json")
    parser.add_argument("names", nargs="*", help="of programs; by default all")
    args = parser.parse_args(argv)

    import tc

    warnings.simplefilter("ignore", tc.Warning)
    rows: list[Row] = []
    times: list[float] = []
    print(f"{'kernel':32} {'blocks':>8} thr reg shared mem bar  occ  loads stores   text  nvrtc")
    for name, source, entry, sizes in benchmark():
        if args.names and name not in args.names:
            continue
        kernel = tc.compile(source, "cuda", entry, options={"isa": args.isa})
        known = {*kernel.front.checked.sizes, *kernel.front.specialized}
        one = kernel.specialize(**{k: v for k, v in sizes.items() if k in known})
        machine = one.seconds.get("machine", 0.0)
        text = sum(one.seconds.values()) - machine
        times.append(1e3 * text)
        made, body = one.compiled, one.compiled.nest.body
        launches = body.body if isinstance(body, Block) else (body,)
        for k, launch in zip(made.module.kernels, launches, strict=True):
            assert isinstance(launch, Launch)
            r = made.resources[k.name]
            n = counts(made.nest, launch)
            work = max(1, n["operations"])
            blocks = k.blocks.value if isinstance(k.blocks, IntImm) else evaluate(k.blocks, {})
            rows.append(
                Row(
                    name, k.name, blocks, k.threads, r.registers, r.shared,
                    r.stack + r.spill_stores + r.spill_loads, n["barriers"],
                    occupancy(k.threads, r.registers, r.shared, args.isa),
                    n["loads"] / work, n["stores"] / work, 1e3 * text, 1e3 * machine,
                )
            )  # fmt: skip
            x = rows[-1]
            print(
                f"{f'{name}: {k.name}'[:32]:32} {x.blocks:8} {x.threads:3} {x.registers:3} {x.shared:6} "
                f"{x.memory:3} {x.barriers:3} {x.occupancy:4.2f} {x.loads:6.2f} {x.stores:6.2f} "
                f"{x.text_ms:6.0f} {x.nvrtc_ms:6.0f}"
            )
    print(f"to CUDA text: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms")
    print(f"registers in memory: {sum(x.memory > 0 for x in rows)} of {len(rows)} kernels")
    if args.save:
        save("gpu_static", {"isa": args.isa, "rows": [asdict(x) for x in rows]})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
