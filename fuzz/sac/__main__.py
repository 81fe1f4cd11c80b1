"""Random SaC programs on a backend and in the interpreter, held against an evaluator of their own.

    python -m fuzz.sac [--count 200] [--seed 0] [--backend NAME …] [--show SEED]

The exit code is 1 if anything was found.  `--show` prints the program of a seed and what comes out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from fuzz.sac.differential import INTERPRETER, Report, compared, wanted
from fuzz.sac.evaluate import Unfit
from fuzz.sac.strategies import program
from fuzz.sac.text import program as text


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
    parser.add_argument("--show", type=int)
    parser.add_argument("--verbose", action="store_true", help="each program that is found")
    chosen = parser.parse_args(argv)
    if chosen.show is not None:
        show(chosen.show)
        return 0
    report, slowest = Report(), (0.0, 0)
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        start, known = time.perf_counter(), len(report.found)
        compared(seed, (INTERPRETER, *(chosen.backend or ["reference"])), report)
        slowest = max(slowest, (time.perf_counter() - start, seed))
        for number, backend, what in report.found[known:]:
            print(f"seed {number} on {backend}: {what[:400]}", flush=True)
    unfit, refused = (dict(Counter(x)) for x in (report.unfit, report.refused))
    print(f"{report.ran} programs ran, {len(report.found)} finds; unfit {unfit}, refused {refused}")
    print(f"the slowest took {slowest[0]:.1f} s (seed {slowest[1]})")
    return 1 if report.found else 0


if __name__ == "__main__":
    sys.exit(main())
