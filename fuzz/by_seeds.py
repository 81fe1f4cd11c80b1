"""The command line of generators that make a program of a seed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence


def main(
    argv: Sequence[str] | None,
    name: str,
    about: str | None,
    source: Callable[[int], str],
    problem: Callable[[int, str], str],
    backends: Sequence[str],
) -> int:
    """Run the programs of some seeds, or show that of one.

    `source` gives the text of a seed's program, `problem` what is wrong with its results on a backend, or "".
    A program that is wrong on one backend is not run on the others.  The exit code is 1 if any was found.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m fuzz.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", action="append", help=f"default: {', '.join(backends)}")
    parser.add_argument("--show", type=int)
    chosen = parser.parse_args(argv)
    if chosen.show is not None:
        print(source(chosen.show))
        return 0
    wrong, began = 0, time.monotonic()
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        found = (problem(seed, backend) for backend in chosen.backend or backends)
        if text := next(filter(None, found), ""):
            wrong += 1
            print(text, flush=True)
    print(f"{chosen.count} programs, {wrong} finds, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0
