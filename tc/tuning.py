"""Tuning, first form: measure what a backend's model thinks best, and keep the fastest that is right.

A backend that can be tuned has `candidates(program, count, options)`: these options with others, and the
cost that its model predicts of them.  Each candidate is compiled, compared with the oracle at sampled
elements, and timed; rounds interleave, so that a disturbance of the machine meets all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from tc.api import compile, interpret
from tc.errors import BackendError, Error
from tc.ir.program import Program
from tc.options import Options
from tc.registry import get


@runtime_checkable
class Tunable(Protocol):
    """A backend with candidates: options and predicted costs (in its own unit), the best prediction first."""

    name: str

    def candidates(
        self, program: Program, count: int, options: Options
    ) -> tuple[tuple[Options, float], ...]: ...


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate: `predicted` is the model's cost (None: the options given), `seconds` the median time of
    a call, None if it could not be used, and `problem` why."""

    options: Options
    predicted: float | None
    seconds: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The trials, fastest first; what failed is at the end."""

    trials: tuple[Trial, ...]

    @property
    def best(self) -> Options:
        """The options of the fastest candidate that is right."""
        return self.trials[0].options


def tune(
    src: str,
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    out: Any = None,
    backend: str = "cpu",
    entry: str | None = None,
    options: Options | None = None,
    candidates: int = 8,
    rounds: int = 7,
    points: int = 256,
    seed: int = 0,
) -> Tuned:
    """Measure `candidates` tilings of a program on these arguments (by name, or in order), each with
    `options`, and these alone.

    What is in `out` is what each call starts from, and stays as it is.

    Each must agree with `tc.interpret` at `points` random elements of every result (within 64 eps of
    max(1, |value|) times the root of the number of terms that a sum may have).  Raises BackendError (TC0812)
    for a backend without candidates.
    """
    args = () if isinstance(arguments, Mapping) else tuple(arguments)
    kwargs: dict[str, Any] = dict(arguments) if isinstance(arguments, Mapping) else {}

    def given() -> dict[str, Any]:
        return kwargs if out is None else {**kwargs, "out": _copies(out)}

    tunable = get(backend)
    if not isinstance(tunable, Tunable):
        raise BackendError(
            f"the backend '{backend}' has nothing to tune",
            code="TC0812",
            help="cpu has",
        )
    options = options or Options()
    default = compile(src, backend, entry=entry, options=options)
    sizes = default.sizes_of(*args, **given())
    found = tunable.candidates(default.program(sizes), candidates, options)
    trials: list[tuple[Options, float | None]] = [(options, None), *found]
    kernels: list[tuple[int, Any]] = []
    problems: dict[int, str] = {}
    wanted: dict[str, tuple[Any, Any]] | None = None
    for i, (chosen, _) in enumerate(trials):
        kernel = compile(src, backend, entry=entry, options=chosen)
        try:
            results = _named(kernel, kernel(*args, **given()))
            if wanted is None:
                wanted = _expected(src, entry, results, points, seed, args, given())
            problem = _disagrees(results, wanted, sizes)
        except Error as e:
            problem = e.message
        if problem:
            problems[i] = problem
        else:
            kernels.append((i, kernel))
    times: dict[int, list[float]] = {i: [] for i, _ in kernels}
    for _ in range(rounds):
        for i, kernel in kernels:
            kernel(*args, **given())  # caches and threads are warm when the clock starts
            passed = given()
            start = time.perf_counter()
            kernel(*args, **passed)
            times[i].append(time.perf_counter() - start)
    done = [
        Trial(o, p, statistics.median(times[i]) if i in times else None, problems.get(i, ""))
        for i, (o, p) in enumerate(trials)
    ]
    done.sort(key=lambda t: (t.seconds is None, t.seconds or 0.0))
    return Tuned(tuple(done))


def _copies(out: Any) -> Any:
    """`out=` with buffers of its own: arrays of any library, alone, in order or by name."""
    if isinstance(out, Mapping):
        return {n: _copies(x) for n, x in cast("Mapping[str, Any]", out).items()}
    if isinstance(out, tuple | list):
        return tuple(map(_copies, cast("Sequence[Any]", out)))
    return out.clone() if hasattr(out, "clone") else out.copy()


def _named(kernel: Any, value: Any) -> dict[str, Any]:
    names = [x.name for x in kernel.front.checked.returns]
    values = (value,) if len(names) == 1 else value
    return dict(zip(names, values, strict=True))


def _expected(
    src: str,
    entry: str | None,
    results: Mapping[str, Any],
    points: int,
    seed: int,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, tuple[Any, Any]]:
    """Random positions of each result and the oracle's values there."""
    rng = np.random.default_rng(seed)
    where: dict[str, Any] = {}
    for name, value in results.items():
        shape = tuple(value.shape)
        count = 0 if 0 in shape else points
        where[name] = (
            np.stack([rng.integers(0, max(1, n), count) for n in shape], -1)
            if shape
            else np.zeros((1, 0), int)
        )
    values = interpret(src, *args, entry=entry, points=where, exact=True, **kwargs)
    if not isinstance(values, Mapping):
        values = dict(zip(results, (values,) if len(results) == 1 else values, strict=True))
    found = cast("Mapping[str, Any]", values)
    return {n: (where[n], np.asarray(found[n])) for n in results}


def _disagrees(
    results: Mapping[str, Any], wanted: Mapping[str, tuple[Any, Any]], sizes: Mapping[str, int]
) -> str:
    """What is wrong with results at the sampled positions; empty if nothing is."""
    longest = max([1, *sizes.values()])
    for name, (where, values) in wanted.items():
        found = np.asarray(results[name])
        at = found[tuple(where.T)] if where.size or not found.ndim else found[:0].ravel()
        at = cast("Any", at)
        if found.dtype.kind in "iub":
            if not np.array_equal(at, values):
                return f"{name} differs from the oracle"
            continue
        eps = float(np.finfo(found.dtype).eps)
        bound = 64 * eps * np.sqrt(longest) * np.maximum(1.0, np.abs(values))
        with np.errstate(all="ignore"):
            gap = np.abs(at.astype(np.float64) - values)
        same = (at == values) | (np.isnan(at) & np.isnan(values))
        if not np.all(same | (gap <= bound)):
            return f"{name} differs from the oracle by up to {float(np.nanmax(gap)):.3g}"
    return ""
