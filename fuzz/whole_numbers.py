"""Random programs on whole numbers with sequential loops, boundary modes, scatter, prefixes and
arg-reductions, equal to the bit to what an evaluator of their own computes.

    python -m fuzz.whole_numbers [--count 200] [--seed 0] [--backend NAME …] [--show SEED]

Vectors have up to 64 elements, so that there are full vectors and remainders.  An eighth of the programs has
loops without iterations; those of them are compared that read no row of theirs.  On cpu, half of the programs
run with caches of a few elements, a third with another instruction set, two fifths with dynamic sizes.  Each
runs twice.  The exit code is 1 if anything was found.
"""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import numpy as np

import tc
from fuzz import by_seeds
from fuzz.isas import available_isas
from fuzz.loops import SMALL
from fuzz.whole_programs import Env, program, without_iterations

BACKENDS = ("interpret", "reference", "cpu")


def problem(seed: int, backend: str) -> str:
    """What is wrong with the results of the program of a seed on a backend; empty if nothing is."""
    made = program(seed)
    given: dict[str, Any] = dict(made.arguments)
    env: Env = {n: a.astype(np.int64) for n, a in made.arguments.items()}
    defined = True
    try:
        made.run(env)
    except IndexError:  # rows of loops without iterations, which branches that are not taken may read
        if not without_iterations(seed):
            raise
        defined = False
    options, dynamic = _options(seed) if backend == "cpu" else ({}, ())
    head = f"seed {seed} on {backend} {options} {dynamic}\n{made.source}\n"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tc.Warning)
            if backend == "interpret":
                calls = [tc.interpret(made.source, **given)]
            else:
                kernel = tc.compile(made.source, backend, options=options, dynamic=dynamic)
                calls = [kernel(**given) for _ in range(2)]
    except tc.Error as e:
        return f"{head}{e}" if defined else ""
    for found in calls if defined else ():
        results = found if isinstance(found, tuple) else (found,)
        for name, a in zip(made.results, results, strict=True):
            want = env[name]
            if not np.array_equal(a, want):
                if a.shape != want.shape:
                    return f"{head}{name} has the shape {a.shape} and not {want.shape}"
                where = tuple(np.argwhere(a != want)[0].tolist())
                return f"{head}{name}{list(where)} is {a[where]} and not {want[where]}"
    return ""


def _options(seed: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Options, and sizes that stay dynamic."""
    rng = random.Random(seed)
    found: dict[str, Any] = dict(SMALL) if rng.random() < 0.5 else {}
    if rng.random() < 0.35:
        found["isa"] = rng.choice(available_isas())
    return found, tuple(rng.sample("NMKT", rng.choice((0, 0, 0, 1, 2))))


def main(argv: list[str] | None = None) -> int:
    return by_seeds.main(argv, "whole_numbers", __doc__, lambda seed: program(seed).source, problem, BACKENDS)


if __name__ == "__main__":
    sys.exit(main())
