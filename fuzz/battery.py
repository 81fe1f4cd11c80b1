"""A fixed battery of programs on the cpu backend, against results computed before: does this compiler work?

    python -m fuzz.battery FILE --make     draw programs, interpret them, keep them and their results in FILE
    python -m fuzz.battery FILE            compile and run them; exit code 1 at the first that goes wrong

Mutants of the compiler are run on it (`fuzz.mutation`): what is right comes from the compiler that made it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pickle
import random
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.strategies import Program, cpu_options, programs

Array = np.ndarray[Any, Any]
_DRAWN = 120  # random programs, refused ones not counted
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {
        "machine": (("l1", 2048), ("l2", 8192), ("l3", 65536))
    },  # small caches: tiles, packs and blocks everywhere
    {"isa": "avx2", "register_tile": (2, 3)},
)


@dataclass(frozen=True)
class Trial:
    """A program with its arguments, options and results."""

    program: Program
    options: dict[str, Any]
    given: dict[str, Any]
    out: dict[str, Array]
    wanted: list[Array]


def drawn(count: int, seed_number: int = 0) -> Iterator[tuple[Program, dict[str, Any]]]:
    """Random programs with random options, the same for a seed."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    found: list[tuple[Program, dict[str, Any]]] = []

    @seed(seed_number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list[Any](HealthCheck),
        phases=[Phase.generate],
    )
    @given(p=programs(), options=cpu_options(("avx2",)))
    def collect(p: Program, options: dict[str, Any]) -> None:
        found.append((p, options))

    collect()
    yield from found


def classics() -> Iterator[tuple[Program, dict[str, Any]]]:
    """The benchmark's programs at tiny sizes, on three machines."""
    import tc
    from benchmarks.workloads import CASES

    for number, case in enumerate(CASES):
        w = case.workload(tiny=True)
        arrays = [a.make(number) for a in w.inputs]
        sizes = dict(tc.compile(w.source, "reference").sizes_of(*arrays))
        types = {"float32": "float", "float64": "double", "float16": "half"}
        bound = 1e4 * w.terms
        yield (
            Program(w.source, types.get(w.inputs[0].dtype, "float"), sizes, "small", bound, number),
            _OPTIONS[number % len(_OPTIONS)],
        )


def make(count: int) -> list[Trial]:
    """At most so many trials: only programs that the compiler as it stands gets right."""
    import tc
    from fuzz.differential import arguments, attempt, equal

    trials: list[Trial] = []
    for p, options in itertools.chain(classics(), drawn(3 * _DRAWN)):
        if len(trials) == count:
            break
        try:
            given, out = arguments(tc.compile(p.source, "reference"), p)
            wanted = attempt(lambda p=p, **kw: tc.interpret(p.source, **kw), given, out)
            if isinstance(wanted, str):
                continue
            got = attempt(tc.compile(p.source, "cpu", options=options), given, out)
        except (tc.Error, KeyError):
            continue
        if isinstance(got, str) or not all(equal(w, g, p) for w, g in zip(wanted, got, strict=True)):
            continue
        trials.append(Trial(p, options, given, out, wanted))
    random.Random(0).shuffle(trials)
    return trials


def wrong(trials: list[Trial]) -> str:
    """What goes wrong first; empty if nothing does."""
    import tc
    from fuzz.differential import attempt, equal

    for t in trials:
        try:
            got = attempt(tc.compile(t.program.source, "cpu", options=t.options), t.given, t.out)
        except Exception as error:  # a mutant may do anything
            return f"{type(error).__name__}: {error}"[:200]
        if isinstance(got, str):
            return f"refused: {got}"
        if not all(equal(w, g, t.program) for w, g in zip(t.wanted, got, strict=True)):
            return f"wrong results: {t.program.source}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.battery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--count", type=int, default=1000, help="programs to make at most")
    chosen = parser.parse_args()
    os.environ["TC_VERIFY"] = "1"
    os.environ["TC_CACHE"] = "0"
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        if chosen.make:
            trials = make(chosen.count)
            chosen.file.write_bytes(pickle.dumps(trials))
            print(f"{len(trials)} programs")
            return 0
        found = wrong(pickle.loads(chosen.file.read_bytes()))
    print(found or "all right")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
