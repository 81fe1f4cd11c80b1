"""A fixed battery of programs on all backends, with results computed before: does this compiler work?

    python -m fuzz.battery FILE [--count N] [--jobs 2]

Draws programs, interprets them, and keeps them with their results in FILE, and which lines of the compiler
each of them runs.  Mutants of the compiler are run on it (`fuzz.mutation`): what is right comes from the
evaluator where a program has a tree, and else from the interpreter that made it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import random
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import tc
from fuzz import written
from fuzz.children import ROOT, Ended, forked, warm_up
from fuzz.differential import CANNOT_FOLLOW, GAVE_UP
from fuzz.kept import Kept
from fuzz.strategies import Program, all_options, programs
from fuzz.trials import Case, Trial

_DRAWN = 120  # random programs, refused ones not counted
_SECONDS = 1200.0  # for any of these processes
_MAPPED = ("opencl",)  # besides cpu, for every program that somebody wrote
_TURNS = ("opencl", "halide", "opencl", "reference")  # besides cpu, one for each random program
_BACKENDS = ("cpu", *dict.fromkeys(_TURNS))
_REFUSED = [f"refused: {code}" for code in (*CANNOT_FOLLOW, GAVE_UP)]
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {
        "machine": (("l1", 2048), ("l2", 8192), ("l3", 65536))
    },  # small caches: tiles, packs and blocks everywhere
    {"isa": "avx2", "register_tile": (2, 3)},
)


def drawn() -> Iterator[Case]:
    """Random programs with random options, the same whenever it is asked."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    backends = written.available(*_BACKENDS)
    found: list[Case] = []

    @seed(0)
    @settings(
        max_examples=3 * _DRAWN,
        deadline=None,
        database=None,
        suppress_health_check=list[Any](HealthCheck),
        phases=[Phase.generate],
    )
    @given(p=programs(), options=all_options(backends, ("avx2",)), dynamic=st.just(0) | st.integers(1, 15))
    def collect(p: Program, options: dict[str, dict[str, Any]], dynamic: int) -> None:
        other = _TURNS[len(found) // 2 % len(_TURNS)]
        found.extend(Case(p, b, options.get(b, {}), dynamic, 0) for b in ("cpu", other))

    collect()
    yield from (c for c in found if c.backend in backends)


def classics() -> Iterator[Case]:
    """The benchmark's programs at tiny sizes; on the CPU on three machines, some with a dynamic size."""
    from benchmarks.workloads import CASES

    backends = written.available(*_BACKENDS)
    for number, case in enumerate(CASES):
        w = case.workload(tiny=True)
        arrays = [a.make(number) for a in w.inputs]
        sizes = dict(tc.compile(w.source, "reference").sizes_of(*arrays))
        p, terms = Program(w.source, sizes, "small", number), max(1, w.terms)
        bits = number // len(_OPTIONS) % 3  # none, the first or the second size is dynamic
        yield Case(p, "cpu", _OPTIONS[number % len(_OPTIONS)], bits, terms)
        yield from (Case(p, b, {}, bits, terms) for b in _MAPPED if b in backends)


def _traced(trial: Trial) -> tuple[dict[str, frozenset[int]], bytes]:
    """The lines of the compiler that a trial runs, none of what Halide cannot follow, and the digest of its
    code.  AssertionError where it goes wrong on ours."""
    import coverage  # not needed by mutants, which are judged in processes that read what was kept

    watched = [str(ROOT / folder / "*") for folder in ("tc", "backends")]
    looked = coverage.Coverage(data_file=None, config_file=False, include=watched)
    looked.start()
    outcome = trial.run()
    looked.stop()
    if outcome.wrong in _REFUSED:
        return {}, b""
    assert not outcome.wrong, f"{outcome.wrong}: {trial}"
    data = looked.get_data()
    lines = {str(Path(f).resolve().relative_to(ROOT)): data.lines(f) for f in data.measured_files()}
    return {f: frozenset(found) for f, found in lines.items() if found}, outcome.code


def _seconds(trials: list[bytes]) -> list[float]:
    """How long each takes of many, in one process."""
    out: list[float] = []
    for data in trials:
        trial: Trial = pickle.loads(data)
        start = time.perf_counter()
        trial.run()
        out.append(time.perf_counter() - start)
    return out


def make(count: int, jobs: int) -> list[Kept]:
    """At most so many trials.  This process compiles nothing itself, so that none finds caches filled, nor
    asks for devices, whose threads it would have and its children not."""
    for name in _BACKENDS:  # so that what a trial runs is not what importing runs
        importlib.import_module(f"tc_backends.{name}.backend")
    warm_up()
    sources = [classics, drawn, *written.SOURCES]
    cases: list[Case] = []
    while sources and len(cases) < 2 * count:  # for a short battery the first is enough
        some = [sources.pop(0) for _ in range(min(len(sources), jobs if cases else 1))]
        for found in _all("sources", lambda n, some=some: [*islice(some[n](), 2 * count)], len(some), jobs):
            cases += found

    def prepared(number: int) -> bytes | None:
        trial = cases[number].trial()
        return None if trial is None else pickle.dumps(trial)

    found = [x for x in _all("interpreted", prepared, min(len(cases), 2 * count), jobs) if x is not None][
        :count
    ]
    traced = _all("traced", lambda number: _traced(pickle.loads(found[number])), len(found), jobs)
    found, traced = [x for x, (run, _) in zip(found, traced) if run], [t for t in traced if t[0]]
    seconds = _all("shares timed", lambda number: _seconds(found[number::jobs]), jobs, jobs)
    kept = [
        Kept(x, seconds[n % jobs][n // jobs], code, lines)
        for n, (x, (lines, code)) in enumerate(zip(found, traced))
    ]
    random.Random(0).shuffle(kept)
    return kept


def _all(what: str, work: Any, count: int, jobs: int) -> list[Any]:
    answers: dict[int, Any] = {}
    for number, answer in forked(work, count, lambda _: _SECONDS, jobs):
        if isinstance(answer, Ended):
            raise AssertionError(f"program {number}: {answer.how}")
        answers[number] = answer
        sys.stderr.write(f"\r{len(answers)} of {count} {what} ")
    sys.stderr.write("\n")
    return [answers[n] for n in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.battery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=2000, help="programs to make at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    os.environ["TC_VERIFY"] = "1"
    os.environ["TC_CACHE"] = "0"  # kernels of the compiler as it stands would hide a mutant
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    kept = make(chosen.count, chosen.jobs)
    chosen.file.write_bytes(pickle.dumps(kept))
    print(f"{len(kept)} programs, {sum(k.seconds for k in kept):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
