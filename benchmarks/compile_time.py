"""Compile time by stage, cold, over the programs of the published descriptions.

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


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/compile_time.json")
    args = parser.parse_args(argv)

    import tc
    from tc import api, pipeline
    from tc.commands import make_arguments
    from tc.kernel import CACHE
    from tests.conformance.cases import SEEDS

    warnings.simplefilter("ignore", tc.Warning)

    def cold(source: str, entry: str | None, sizes: dict[str, int]) -> tuple[dict[str, float], float]:
        CACHE.clear()
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
    for case in SEEDS:
        source = case.source.replace("{T}", "float32")
        sizes = {**case.sizes, **{k: int(v) for k, v in case.scalars.items()}}
        kernel = tc.compile(source, args.backend, case.entry)
        known = {*kernel.front.checked.sizes, *kernel.front.specialized}
        sizes = {k: v for k, v in sizes.items() if k in known}
        make_arguments(kernel, sizes, {}, {})
        runs = [cold(source, case.entry, sizes) for _ in range(args.repeats)]
        whole = statistics.median(w for _, w in runs)
        by_stage = {n: statistics.median(s.get(n, 0.0) for s, _ in runs) for n, _ in pipeline.PASSES}
        front = statistics.median(sum(s.get(n, 0.0) for n in FRONT) for s, _ in runs)
        for n, spent in by_stage.items():
            stages.setdefault(n, []).append(spent)
        wholes.append((whole, case.name))
        fronts.append(front)
        rows.append(
            {
                "program": case.name,
                "whole_ms": 1e3 * whole,
                "front_ms": 1e3 * front,
                "stages_ms": {n: 1e3 * s for n, s in by_stage.items()},
            }
        )
    out = sys.stdout
    out.write(f"cold compile on '{args.backend}', {len(SEEDS)} programs, medians of {args.repeats}\n\n")
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
