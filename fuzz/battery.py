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

import tc
from benchmarks import agreement
from fuzz.differential import Wanted, arguments, attempt, judged
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
    dynamic: tuple[str, ...]
    given: dict[str, Any]
    out: dict[str, Array]
    wanted: list[Wanted]
    terms: int  # of a sum, of one of the benchmark's programs; else 0

    def right(self, got: list[Array] | str) -> bool:
        """Whether results are right, as `benchmarks.agreement` has it or `fuzz.differential`."""
        if isinstance(got, str):
            return False
        if self.terms:
            return agreement.compare(got, [w.of for w in self.wanted], self.terms) is None
        return all(w.met(g, self.program) for w, g in zip(self.wanted, got, strict=True))


# A program, its options, a bit for each size that is dynamic, and the terms of a sum or 0.
Drawn = tuple[Program, dict[str, Any], int, int]


def drawn(count: int, seed_number: int = 0) -> Iterator[Drawn]:
    """Random programs with random options, the same for a seed."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    found: list[Drawn] = []

    @seed(seed_number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list[Any](HealthCheck),
        phases=[Phase.generate],
    )
    @given(p=programs(), options=cpu_options(("avx2",)), dynamic=st.just(0) | st.integers(1, 15))
    def collect(p: Program, options: dict[str, Any], dynamic: int) -> None:
        found.append((p, options, dynamic, 0))

    collect()
    yield from found


def classics() -> Iterator[Drawn]:
    """The benchmark's programs at tiny sizes, on three machines, some with a dynamic size."""
    from benchmarks.workloads import CASES

    for number, case in enumerate(CASES):
        w = case.workload(tiny=True)
        arrays = [a.make(number) for a in w.inputs]
        sizes = dict(tc.compile(w.source, "reference").sizes_of(*arrays))
        yield (
            Program(w.source, sizes, "small", number),
            _OPTIONS[number % len(_OPTIONS)],
            number // len(_OPTIONS) % 3,  # none, the first or the second size
            max(1, w.terms),
        )


def make(count: int) -> list[Trial]:
    """At most so many trials.  Raises AssertionError where the compiler as it stands gets one wrong."""
    trials: list[Trial] = []
    for p, options, bits, terms in itertools.chain(classics(), drawn(3 * _DRAWN)):
        if len(trials) == count:
            break
        try:
            kernel = tc.compile(p.source, "reference")
            dynamic = tuple(n for i, n in enumerate(kernel.front.checked.sizes) if bits >> i & 1)
            given, out = arguments(kernel, p)
        except tc.Error:
            continue
        first = attempt(lambda p=p, **kw: tc.interpret(p.source, **kw), given, out)
        if isinstance(first, str):
            continue
        wanted = [Wanted(w, None) for w in first] if terms else judged(kernel, p, given, out, first)
        if wanted is None or isinstance(wanted, str):
            continue
        trial = Trial(p, options, dynamic, given, out, wanted, terms)
        got = attempt(tc.compile(p.source, "cpu", options=options, dynamic=dynamic), given, out)
        assert trial.right(got), f"{p} {options} {dynamic}"
        trials.append(trial)
    random.Random(0).shuffle(trials)
    return trials


def wrong(trials: list[Trial]) -> str:
    """What goes wrong first; empty if nothing does."""
    for t in trials:
        try:
            kernel = tc.compile(t.program.source, "cpu", options=t.options, dynamic=t.dynamic)
            got = attempt(kernel, t.given, t.out)
        except Exception as error:  # a mutant may do anything
            return f"{type(error).__name__}: {error}"[:200]
        if not t.right(got):
            return f"refused: {got}" if isinstance(got, str) else f"wrong results: {t.program.source.strip()}"
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
    os.environ["TC_CACHE"] = "0"  # kernels of the compiler as it stands would hide a mutant
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
