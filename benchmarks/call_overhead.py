"""What a call costs beside the kernel: three small arrays, in one run with ctypes, NumPy and PyTorch.

    python -m benchmarks.call_overhead [--rounds 31] [--calls 4000] [--no-save]

The kernel adds two 4x5 arrays.  Rows are interleaved: every round times each row once; the figure is the
median of the rounds, in nanoseconds.  The kernel's own time is part of every `tc` row, so a row is an
upper bound of the overhead.  MiB is by how much a round of calls raises the high-water mark of the process.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
import warnings
from collections.abc import Callable

from benchmarks.memory import HighWater
from benchmarks.record import save
from benchmarks.table import aligned, mebibytes

HEADER = ("call", "median ns", "best ns", "limit ns", "MiB")
SOURCE = "def add(float(N,M) A, float(N,M) B) -> (C) { C(i,j) = A(i,j) + B(i,j) }"


def rows() -> dict[str, tuple[Callable[[], object], float | None]]:
    """{name: (call, limit in nanoseconds or None)}"""
    import numpy as np
    import torch

    import tc

    a, b, c = (np.ones((4, 5), np.float32) for _ in range(3))
    ta, tb, tcc = (torch.ones(4, 5) for _ in range(3))
    kernel = tc.compile(SOURCE, "reference")
    kernel(a, b, out=c)
    kernel(ta, tb, out=tcc)
    compiled = kernel.specialize(N=4, M=5)
    foreign = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(compiled.compiled.address)
    error = (ctypes.c_int64 * 32)()
    table = (ctypes.c_void_p * 5)(a.ctypes.data, b.ctypes.data, c.ctypes.data, ctypes.addressof(error), None)
    pointer = ctypes.addressof(table)
    alive = (table, error, compiled)  # the pointers below do not keep what they point to
    return {
        "ctypes, prepared pointers": (lambda alive=alive: foreign(pointer), None),
        "numpy add, out=": (lambda: np.add(a, b, out=c), None),
        "numpy add": (lambda: np.add(a, b), None),
        "torch add, out=": (lambda: torch.add(ta, tb, out=tcc), None),
        "torch add": (lambda: torch.add(ta, tb), None),
        "tc, numpy, out=": (lambda: kernel(a, b, out=c), 300),
        "tc, numpy": (lambda: kernel(a, b), 600),
        "tc, numpy, by name, out=": (lambda: kernel(A=a, B=b, out=c), 400),
        "tc, numpy, by name": (lambda: kernel(A=a, B=b), 700),
        "tc, numpy, mixed, out={}": (lambda: kernel(a, B=b, out={"C": c}), 500),
        "tc, torch, out=": (lambda: kernel(ta, tb, out=tcc), 1500),
        "tc, torch": (lambda: kernel(ta, tb), None),
        "tc, torch, by name, out=": (lambda: kernel(A=ta, B=tb, out=tcc), 1600),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.call_overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument(
        "--save",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write benchmarks/results/call_overhead.json",
    )
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    table = rows()
    times: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(args.rounds):
        for name, (call, _limit) in table.items():
            start = time.perf_counter_ns()
            for _ in range(args.calls):
                call()
            times[name].append((time.perf_counter_ns() - start) / args.calls)
    empty: Callable[[], object] = lambda: None  # noqa: E731
    start = time.perf_counter_ns()
    for _ in range(100_000):
        empty()
    loop = (time.perf_counter_ns() - start) / 100_000
    peaks: dict[str, int | None] = {}
    for name, (call, _limit) in table.items():
        water = HighWater()
        for _ in range(args.calls):
            call()
        peaks[name] = water.growth()
    out = sys.stdout
    out.write(
        f"median of {args.rounds} interleaved rounds, ns per call, less {loop:.0f} ns of the timing loop\n\n"
    )
    result = []
    lines: list[tuple[str, ...]] = []
    for name, (_, limit) in table.items():
        median = statistics.median(times[name]) - loop
        best = min(times[name]) - loop
        shown = (f"{median:.0f}", f"{best:.0f}", str(limit or ""), mebibytes(peaks[name]))
        lines.append((name, *shown))
        result.append(
            {
                "row": name,
                "median_ns": median,
                "best_ns": best,
                "limit_ns": limit,
                "memory_bytes": peaks[name],
            }
        )
    out.write(aligned(HEADER, lines) + "\n")
    if args.save:
        out.write(f"written to benchmarks/results/{save('call_overhead', result).name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
