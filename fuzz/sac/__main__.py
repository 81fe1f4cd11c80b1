"""Random SaC programs on a backend and in the interpreter, held against an evaluator of their own.

    python -m fuzz.sac [--count 200] [--seed 0] [--backend NAME …] [--totals FILE] [--show SEED]

The exit code is 1 if anything was found.  With `--totals` a program that takes ten minutes ends the process;
the same command goes on behind it.  `--show` prints the program of a seed and what comes out.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from pathlib import Path

from fuzz.sac.differential import INTERPRETER, Report, compared, wanted
from fuzz.sac.evaluate import Unfit
from fuzz.sac.strategies import program
from fuzz.sac.text import program as text
from fuzz.sac.totals import Totals

_HANGS = 600  # seconds after which a program of a run with totals ends its process


def show(seed: int) -> None:
    p = program(seed)
    print(text(p))
    for name, value in p.arguments.items():
        print(f"{name} = np.array({value.tolist()}, np.{value.dtype}).reshape({value.shape})")
    try:
        print("->", *wanted(p))
    except Unfit as e:
        print("->", e)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.sac", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", action="append", help="default: reference")
    parser.add_argument("--totals", type=Path, help="a file of a run that goes on where it was ended")
    parser.add_argument("--show", type=int)
    parser.add_argument("--verbose", action="store_true", help="each program that is found")
    chosen = parser.parse_args(argv)
    if chosen.show is not None:
        show(chosen.show)
        return 0
    backends = (INTERPRETER, *(chosen.backend or ["reference"]))
    totals = Totals.of(chosen.totals, chosen.seed, backends) if chosen.totals else None
    report, slowest = totals.report if totals else Report(), (0.0, 0)
    first = totals.seed if totals else chosen.seed
    for seed in range(first, first + chosen.count):
        start, known = time.perf_counter(), len(report.found)
        if totals:
            totals.running = seed
            totals.keep()
            faulthandler.dump_traceback_later(_HANGS, exit=True)
        compared(seed, backends, report)
        took = time.perf_counter() - start
        slowest = max(slowest, (took, seed))
        if totals:
            faulthandler.cancel_dump_traceback_later()
            totals.seed, totals.running = seed + 1, None
            totals.parts[-1].programs += 1
            totals.parts[-1].seconds = round(totals.parts[-1].seconds + took, 1)
            totals.keep()
        for number, backend, what in report.found[known:]:
            print(f"seed {number} on {backend}: {what[:400]}", flush=True)
    runs, unfit, refused, excluded = (
        dict(x) for x in (report.runs, report.unfit, report.refused, report.excluded)
    )
    print(f"{report.ran} programs ran, {len(report.found)} finds; unfit {unfit}, refused {refused}")
    print(f"right by backend {runs}; cannot follow {excluded}")
    print(f"the slowest took {slowest[0]:.1f} s (seed {slowest[1]})")
    return 1 if report.found else 0


if __name__ == "__main__":
    sys.exit(main())
