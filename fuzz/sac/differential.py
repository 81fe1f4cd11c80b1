"""One random SaC program on a backend and in `tc.interpret`: results are the evaluator's, to the bit."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tc
from fuzz.sac import tree as s
from fuzz.sac.evaluate import Evaluator, Unfit
from fuzz.sac.scope import BASES
from fuzz.sac.strategies import program
from fuzz.sac.text import program as text

Array = np.ndarray[Any, Any]
INTERPRETER = "interpret"
SLOW = 60.0  # seconds that a program may take on a backend, on an idle processor
# What Halide cannot follow, and schedules that it cannot compile or run.
CANNOT_FOLLOW = frozenset(("TC0805", "TC0806", "TC0810"))
# What a front end may refuse in a program that is right: bounds on its own work.
REFUSALS = frozenset(("TC0265",))


class Disagreement(AssertionError):
    """Something else comes out than the evaluator has."""


@dataclass(slots=True)
class Report:
    """`runs`: programs by backend; `excluded`: backends that cannot follow a program."""

    ran: int = 0
    runs: Counter[str] = field(default_factory=Counter[str])
    unfit: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    excluded: Counter[str] = field(default_factory=Counter[str])
    found: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])


def types(p: s.Program) -> list[str]:
    return [p.body.type] if p.body is not None else [e.type for e in p.functions[-1].results]


def wanted(p: s.Program) -> list[Array]:
    """The results of a program in their types.  Raises Unfit."""
    found = Evaluator().program(p)
    return [np.asarray(a, BASES[t]) for a, t in zip(found, types(p), strict=True)]


def results(found: Any) -> list[Array]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def run(source: str, p: s.Program, backend: str) -> list[Array]:
    given = {n: a if a.ndim else a[()] for n, a in p.arguments.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if backend == INTERPRETER:
            return results(tc.interpret(source, **given, lang="sac"))
        return results(tc.compile(source, lang="sac", backend=backend)(**given))


def compared(seed: int, backends: Sequence[str], report: Report) -> None:
    """The program of a seed; what is wrong goes into the report."""
    p = program(seed)
    source = text(p)
    try:
        right = wanted(p)
    except Unfit as e:
        report.unfit[str(e)] += 1
        return
    for backend in backends:
        start = time.process_time()
        try:
            got = run(source, p, backend)
        except tc.Error as e:
            if backend == "halide" and e.code in CANNOT_FOLLOW:
                report.excluded[backend] += 1
                continue
            if e.code in REFUSALS:
                report.refused[e.code] += 1
                return
            report.found.append((seed, backend, f"{type(e).__name__} {e.code}: {e.message}"))
            continue
        except Exception as e:  # anything else that comes out is a find
            report.found.append((seed, backend, f"{type(e).__name__}: {e}"))
            continue
        for w, g in zip(right, got, strict=True):
            if w.shape != g.shape or w.dtype != g.dtype or not np.array_equal(w, g):
                report.found.append((seed, backend, f"wanted {w!r}, got {g!r}"))
                break
        else:
            report.runs[backend] += 1
        if (seconds := time.process_time() - start) > SLOW:
            report.found.append((seed, backend, f"{seconds:.0f} seconds"))
    report.ran += 1


def compare(seeds: Iterator[int] | range, backends: Sequence[str]) -> Report:
    report = Report()
    for seed in seeds:
        compared(seed, backends, report)
    return report
