"""One kernel with a dynamic size beside a kernel specialised for each size.

    python -m benchmarks.cpu_dynamic [--only TEXT …] [--sizes 200] [--most 256] [--rounds 7] [--no-save]

Per workload, random sizes from 1 to `--most` (uniform); at each of them both kernels run in turn for
`--budget` milliseconds a round.  The figure of a size is the ratio of their times per call, each that of its
fastest round, which is the one that others disturbed least: 1.1 is a dynamic kernel that takes 10 % longer.
`p50` and `p99` are over the sizes, `p50 of 16` over those from 16 on.  `new size` is what the first call with
a size takes beyond the second one, in microseconds, right after the compile of the specialised kernel, so
with cold caches; `compile` is in milliseconds, without what is kept on disk; MiB is the memory of a call at
the largest of the sizes, results included.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import kept
from benchmarks.memory import of_call
from benchmarks.record import save, saved
from benchmarks.table import aligned, duration, figure, mebibytes

HEADER = (
    *("workload, dynamic size", "p50", "p99", "p50 of 16", "p99 of 16"),
    *("new size", "compile", "specialised", "MiB", "specialised"),
)

MLP = """def mlp(float(B,N) I, float(O,N) W, float(O) V) -> (R) {
  R(b,o) = V(o)
  R(b,o) += I(b,n) * W(o,n)
  R(b,o) = fmax(R(b,o), 0)
}"""
TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
CONV = (
    "def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) { O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * K(f,c,kh,kw) }"
)
SOFTMAX = """def softmax(float(N,D) I) -> (O) {
  t(n) max=! I(n,d)
  O(n,d) = exp(I(n,d) - t(n))
  s(n) +=! O(n,d)
  O(n,d) = O(n,d) / s(n)
}"""


@dataclass(frozen=True, slots=True)
class Workload:
    """A program, its dynamic size, and the shapes of its arguments at a value of that size."""

    name: str
    source: str
    size: str
    shapes: Callable[[int], Sequence[tuple[int, ...]]]


WORKLOADS = (
    Workload("mlp layer 512,512", MLP, "B", lambda n: [(n, 512), (512, 512), (512,)]),
    Workload("tmm 256,512", TMM, "M", lambda n: [(n, 256), (512, 256)]),
    Workload("conv 32,28,28,32,3,3", CONV, "N", lambda n: [(n, 32, 28, 28), (32, 32, 3, 3)]),
    Workload("softmax 512", SOFTMAX, "N", lambda n: [(n, 512)]),
    Workload("softmax 64 rows", SOFTMAX, "D", lambda n: [(64, n)]),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Ratios by size, seconds of the specialised kernel by size, of a new size, to compile; bytes of a call
    at the largest size."""

    ratios: dict[int, float]
    times: dict[int, float]
    first: float
    compile: tuple[float, float]
    memory: tuple[int | None, int | None]


def percentile(values: Sequence[float], part: float) -> float:
    """The value that `part` of all are at most."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def measure(w: Workload, sizes: Sequence[int], rounds: int, budget: float) -> Figures:
    import numpy as np

    import tc

    def timed(call: Callable[[], object], calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls

    rng = np.random.default_rng(0)
    fixed = tc.compile(w.source, "cpu")
    dynamic = tc.compile(w.source, "cpu", dynamic={w.size: 64})
    ratios: dict[int, float] = {}
    times: dict[int, float] = {}
    extra: list[float] = []
    compiled: list[float] = []
    start = time.perf_counter()
    dynamic(*(np.ones(s, np.float32) for s in w.shapes(64)))
    whole = time.perf_counter() - start
    for n in sorted(set(sizes)):
        arguments = [rng.standard_normal(s).astype(np.float32) for s in w.shapes(n)]
        start = time.perf_counter()
        fixed(*arguments)
        compiled.append(time.perf_counter() - start)
        first = timed(lambda a=arguments: dynamic(*a), 1)
        extra.append(first - timed(lambda a=arguments: dynamic(*a), 1))
        once = min(timed(lambda a=arguments: fixed(*a), 1) for _ in range(3))
        calls = max(1, int(budget / max(once, 1e-7)))
        best = {fixed: float("inf"), dynamic: float("inf")}
        for i in range(rounds):
            for k in (fixed, dynamic) if i % 2 else (dynamic, fixed):
                best[k] = min(best[k], timed(lambda k=k, a=arguments: k(*a), calls))
        ratios[n] = best[dynamic] / best[fixed]
        times[n] = best[fixed]
    arguments = [rng.standard_normal(s).astype(np.float32) for s in w.shapes(max(sizes))]
    memory = of_call(dynamic, *arguments), of_call(fixed, *arguments)
    return Figures(ratios, times, statistics.median(extra), (whole, statistics.median(compiled)), memory)


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="python -m benchmarks.cpu_dynamic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--only", nargs="+", metavar="TEXT", default=[""])
    out.add_argument("--sizes", type=int, default=200, help="how many sizes (default 200)")
    out.add_argument("--most", type=int, default=256, help="the largest (default 256)")
    out.add_argument("--rounds", type=int, default=7)
    out.add_argument("--budget", type=float, default=2.0, help="milliseconds a kernel and round")
    out.add_argument(
        "--save",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write benchmarks/results/cpu_dynamic.json",
    )
    return out


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    with kept.nothing():
        return _table(arguments)


def _table(arguments: argparse.Namespace) -> int:
    warnings.simplefilter("ignore")
    draw = random.Random(0)
    sizes = [draw.randint(1, arguments.most) for _ in range(arguments.sizes)]
    lines: list[tuple[str, ...]] = []
    rows: list[dict[str, Any]] = []
    for w in WORKLOADS:
        if not any(w.name.startswith(text) for text in arguments.only):
            continue
        f = measure(w, sizes, arguments.rounds, arguments.budget / 1e3)
        every = [f.ratios[n] for n in sizes]
        large = [f.ratios[n] for n in sizes if n >= 16] or every
        p = [percentile(every, 0.5), percentile(every, 0.99), percentile(large, 0.5), percentile(large, 0.99)]
        cost = duration(f.first), *(figure(1e3 * c) for c in f.compile), *map(mebibytes, f.memory)
        lines.append((f"{w.name}, {w.size}", *(f"{x:.2f}" for x in p), *cost))
        rows.append(
            {
                "workload": w.name,
                "size": w.size,
                "ratio": {str(n): r for n, r in sorted(f.ratios.items())},
                "us": {str(n): 1e6 * t for n, t in sorted(f.times.items())},
                "p50": p[0],
                "p99": p[1],
                "p50_from_16": p[2],
                "p99_from_16": p[3],
                "new_size_us": 1e6 * f.first,
                "compile_ms": [1e3 * c for c in f.compile],
                "memory_bytes": list(f.memory),
            }
        )
    sys.stdout.write(aligned(HEADER, lines) + "\n")
    if arguments.save:
        # Workloads that did not run keep what they had.
        done = {r["workload"] for r in rows}
        rows = [r for r in saved("cpu_dynamic") if r["workload"] not in done] + rows
        sys.stdout.write(f"written to benchmarks/results/{save('cpu_dynamic', rows).name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
