"""Compile time by stage, cold and warm, over the benchmark's programs or those of the published descriptions.

    python -m benchmarks.compile_time [--backend cpu] [--programs benchmark|seeds] [--repeats 7] [--no-save]

One process compiles one other program first (imports, parser tables, LLVM's initialisation), then every
program `--repeats` times with all caches in memory emptied between: cold, with nothing on disk, and warm,
with a store of its own on disk that has the kernel.  Columns, medians in milliseconds: a whole cold compile,
what of it is front end and ranges; a whole warm one, what of it is the load (`–` for a backend that keeps
nothing); by how much a cold compile raises the high-water mark of the process.  Then the median per stage of
the cold compiles over the programs' medians.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import kept
from benchmarks.memory import HighWater
from benchmarks.record import save
from benchmarks.table import aligned, figure, mebibytes
from benchmarks.workloads import CASES, Case

FRONT = ("parse", "check", "ranges", "types")
HEADER = ("program", "cold ms", "front ms", "warm ms", "load ms", "MiB")


def import_time(rounds: int = 15) -> float:
    """Seconds that `import tc` takes after `import numpy`: the median over fresh interpreters."""
    code = "import numpy, time; t = time.perf_counter(); import tc; print(time.perf_counter() - t)"
    runs = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(rounds)
    )
    return statistics.median(float(r.stdout) for r in runs)


Programs = list[tuple[str, str, str | None, dict[str, int]]]  # name, source, entry, sizes


def seeds() -> Programs:
    """The programs of the published descriptions, at the sizes that the tests run them at."""
    from tests.conformance.cases import SEEDS

    return [
        (
            c.name,
            c.source.replace("{T}", "float32"),
            c.entry,
            {**c.sizes, **{k: int(v) for k, v in c.scalars.items()}},
        )
        for c in SEEDS
    ]


def benchmark() -> Programs:
    """All cases of the tables, at their sizes."""
    return [(c.name, *sized(c)) for c in CASES]


def sized(case: Case, *, tiny: bool = False) -> tuple[str, str | None, dict[str, int]]:
    """The program of a case, and its sizes."""
    import numpy as np

    import tc

    w = case.workload(tiny=tiny)
    # Shapes without memory behind them.
    arrays = [np.broadcast_to(np.zeros(1, a.dtype)[0], a.shape) for a in w.inputs]
    return w.source, None, dict(tc.compile(w.source, "reference").sizes_of(*arrays))


def passes_of(backend: str) -> dict[str, str]:
    """The passes of a compile in order, and what each does."""
    from tc import Options, registry
    from tc.inspection import pass_times

    lists = pass_times.lists(registry.get(backend, run=False), Options())
    return {p.name: p.does for p in pass_times.listed(lists)}


@dataclass(frozen=True, slots=True)
class Compile:
    """Seconds of one compile, by stage and whole; `restored`: the machine code came from disk."""

    stages: dict[str, float]
    whole: float
    restored: bool


def compile_once(backend: str, source: str, entry: str | None, sizes: dict[str, int]) -> Compile:
    """One compile, with the caches in memory empty."""
    import tc
    from tc import api
    from tc.kernel import BUILT, CACHE
    from tc.pipeline.pass_manager import recording

    CACHE.clear()
    BUILT.clear()
    api._FRONTS.clear()
    start = time.perf_counter()
    with recording() as record:
        kernel = tc.compile(source, backend, entry)
    seconds = record.seconds
    # What `specialize` runs is recorded on what it returns.
    made = kernel.specialize(**sizes)
    whole = time.perf_counter() - start
    for name, spent in made.seconds.items():
        seconds[name] = seconds.get(name, 0.0) + spent
    return Compile(seconds, whole, made.restored)


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of a program's compiles, in seconds; warm ones None where nothing is kept on disk."""

    program: str
    whole: float
    front: float
    stages: dict[str, float]
    warm: float | None
    load: float | None
    peak: int | None  # bytes

    def cells(self) -> tuple[str, ...]:
        times = (self.whole, self.front, self.warm, self.load)
        return (self.program, *(figure(None if t is None else 1e3 * t) for t in times), mebibytes(self.peak))

    def as_dict(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "whole_ms": 1e3 * self.whole,
            "front_ms": 1e3 * self.front,
            "warm_ms": None if self.warm is None else 1e3 * self.warm,
            "load_ms": None if self.load is None else 1e3 * self.load,
            "memory_bytes": self.peak,
            "stages_ms": {n: 1e3 * s for n, s in self.stages.items()},
        }


def measure(
    backend: str, name: str, source: str, entry: str | None, sizes: dict[str, int], repeats: int
) -> Row:
    import tc

    front = tc.compile(source, backend, entry).front
    known = {*front.checked.sizes, *front.specialized}
    sizes = {k: v for k, v in sizes.items() if k in known}
    with kept.nothing():
        cold = [compile_once(backend, source, entry, sizes) for _ in range(repeats)]
        water = HighWater()
        compile_once(backend, source, entry, sizes)
        peak = water.growth()
    with kept.apart():
        compile_once(backend, source, entry, sizes)
        warm = [compile_once(backend, source, entry, sizes) for _ in range(repeats)]
    restored = all(c.restored for c in warm)
    return Row(
        name,
        statistics.median(c.whole for c in cold),
        statistics.median(sum(c.stages.get(n, 0.0) for n in FRONT) for c in cold),
        {n: statistics.median(c.stages.get(n, 0.0) for c in cold) for n in passes_of(backend)},
        statistics.median(c.whole for c in warm) if restored else None,
        statistics.median(c.stages["load"] for c in warm) if restored else None,
        peak,
    )


def summary(rows: Sequence[Row]) -> str:
    """The table, the medians and the worst of each column below."""

    def over(pick: Any) -> tuple[str, ...]:
        columns: list[list[float]] = [
            [1e3 * t for t in times if t is not None]
            for times in zip(*((r.whole, r.front, r.warm, r.load) for r in rows))
        ]
        peaks = [r.peak for r in rows if r.peak is not None]
        return (*(figure(pick(c) if c else None) for c in columns), mebibytes(pick(peaks) if peaks else None))

    lines = [*(r.cells() for r in rows), ("median", *over(statistics.median)), ("worst", *over(max))]
    return aligned(HEADER, lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compile_time",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--programs", choices=("benchmark", "seeds"), default="benchmark")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--save",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write benchmarks/results/compile_time.json",
    )
    args = parser.parse_args(argv)

    import tc

    warnings.simplefilter("ignore", tc.Warning)
    programs = seeds() if args.programs == "seeds" else benchmark()
    warm = "def warm(float(N,M) A) -> (B) { B(i) +=! exp(A(i+1,j)) B(i) = B(i) + i where i in 0:2 }"
    measure(args.backend, "warm", warm, None, {"N": 9, "M": 3}, 1)
    rows = [measure(args.backend, *program, args.repeats) for program in programs]
    out = sys.stdout
    out.write(f"compile on '{args.backend}', {len(programs)} programs, medians of {args.repeats}\n\n")
    out.write(summary(rows) + "\n\n")
    for n, what in passes_of(args.backend).items():
        stages = [1e3 * r.stages[n] for r in rows]
        out.write(f"  {n:<12} {statistics.median(stages):7.2f} ms  (worst {max(stages):6.2f})  {what}\n")
    beyond = import_time()
    worst = max(rows, key=lambda r: r.whole)
    out.write(f"\nimport tc beyond numpy {beyond * 1e3:.1f} ms; slowest cold compile: {worst.program}\n")
    if args.save:
        # Other programs or backends have results of their own.
        other = [x for x, usual in ((args.programs, "benchmark"), (args.backend, "cpu")) if x != usual]
        written = [r.as_dict() for r in rows]
        written.append({"program": "import tc beyond numpy", "import_ms": 1e3 * beyond})
        name = "_".join(["compile_time", *other])
        out.write(f"written to benchmarks/results/{save(name, written).name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
