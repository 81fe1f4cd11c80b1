"""Compile time by stage, cold, over the benchmark's programs or those of the published descriptions.

    python -m benchmarks.compile_time [--backend cpu] [--programs benchmark|seeds] [--repeats 7] [--save]

One process compiles one other program first (imports, parser tables, LLVM's initialisation), then every
program `--repeats` times with all caches emptied between.  Printed: the median per stage over the programs'
medians, the median and the worst whole compile.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import warnings

from benchmarks.record import save

FRONT = ("parse", "check", "ranges", "types")


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
    import numpy as np

    import tc
    from benchmarks.workloads import CASES

    out: Programs = []
    for c in CASES:
        w = c.workload()
        # Shapes without memory behind them.
        arrays = [np.broadcast_to(np.zeros(1, a.dtype)[0], a.shape) for a in w.inputs]
        out.append((c.name, w.source, None, dict(tc.compile(w.source, "reference").sizes_of(*arrays))))
    return out


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compile_time",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--programs", choices=("benchmark", "seeds"), default="benchmark")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/compile_time.json")
    args = parser.parse_args(argv)

    import tc
    from tc import api, pipeline
    from tc.kernel import BUILT, CACHE

    warnings.simplefilter("ignore", tc.Warning)

    def cold(source: str, entry: str | None, sizes: dict[str, int]) -> tuple[dict[str, float], float]:
        CACHE.clear()
        BUILT.clear()
        api._FRONTS.clear()
        seconds: dict[str, float] = {}

        def note(name: str, spent: float) -> None:
            seconds[name] = seconds.get(name, 0.0) + spent

        start = time.perf_counter()
        with pipeline.observe(note):
            kernel = tc.compile(source, args.backend, entry)
        # The stages that `specialize` observes are recorded on what it returns.
        compiled = kernel.specialize(**sizes)
        whole = time.perf_counter() - start
        for name, spent in compiled.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + spent
        return seconds, whole

    cold(
        "def warm(float(N,M) A) -> (B) { B(i) +=! exp(A(i+1,j)) B(i) = B(i) + i where i in 0:2 }",
        None,
        {"N": 9, "M": 3},
    )
    stages: dict[str, list[float]] = {}
    wholes: list[tuple[float, str]] = []
    fronts: list[float] = []
    rows = []
    programs = seeds() if args.programs == "seeds" else benchmark()
    for name, source, entry, sizes in programs:
        kernel = tc.compile(source, args.backend, entry)
        known = {*kernel.front.checked.sizes, *kernel.front.specialized}
        sizes = {k: v for k, v in sizes.items() if k in known}
        runs = [cold(source, entry, sizes) for _ in range(args.repeats)]
        whole = statistics.median(w for _, w in runs)
        by_stage = {n: statistics.median(s.get(n, 0.0) for s, _ in runs) for n, _ in pipeline.PASSES}
        front = statistics.median(sum(s.get(n, 0.0) for n in FRONT) for s, _ in runs)
        for n, spent in by_stage.items():
            stages.setdefault(n, []).append(spent)
        wholes.append((whole, name))
        fronts.append(front)
        rows.append(
            {
                "program": name,
                "whole_ms": 1e3 * whole,
                "front_ms": 1e3 * front,
                "stages_ms": {n: 1e3 * s for n, s in by_stage.items()},
            }
        )
    out = sys.stdout
    out.write(f"cold compile on '{args.backend}', {len(programs)} programs, medians of {args.repeats}\n\n")
    for n, what in pipeline.PASSES:
        spent = 1e3 * statistics.median(stages[n])
        out.write(f"  {n:<12} {spent:7.2f} ms  (worst {1e3 * max(stages[n]):6.2f})  {what}\n")
    worst = max(wholes)
    beyond = import_time()
    front_median, front_worst = 1e3 * statistics.median(fronts), 1e3 * max(fronts)
    whole_median = 1e3 * statistics.median(w for w, _ in wholes)
    out.write(f"\n  import tc beyond numpy {beyond * 1e3:.1f} ms\n")
    out.write(f"  front end + ranges     {front_median:.2f} ms (worst {front_worst:.2f})\n")
    out.write(f"  whole                  {whole_median:.2f} ms (worst {1e3 * worst[0]:.2f}: {worst[1]})\n")
    if args.save:
        rows.append({"program": "import tc beyond numpy", "import_ms": 1e3 * beyond})
        out.write(f"\nwritten to {save('compile_time', rows)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
