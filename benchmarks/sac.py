"""Programs in the SaC notation beside the same in TC, NumPy and PyTorch, and the time of their front end.

    python -m benchmarks.sac [--rounds 15] [--threads 1] [loops] [ranks] [front]

Contestants of a program are called in turn, the order rotated from round to round, each as often as fits some
milliseconds; ratios are taken within rounds, and their median is printed.  `front`: milliseconds of processor
time of each pass of the front end for every program of the paper, medians, all tables loaded.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tc
from benchmarks.table import aligned
from tc.errors import Source
from tc.pipeline.front import FRONT, _FrontState
from tc.pipeline.pass_manager import Pass
from tests.sac.pairs import PAIRS, Pair
from tests.sac.table import ALONG, TABLE
from tests.sac.test_ranks import NORMALISE

_BUDGET = 0.02  # seconds a contestant is timed for in a round
Call = Callable[[], Any]
SHAPES = ((1_000_000,), (1000, 1000), (100, 100, 100), (30, 30, 30, 30))


def measured(contestants: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Seconds a call, by round."""
    repeats: dict[str, int] = {}
    for name, call in contestants.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, min(10_000, int(_BUDGET / max(1e-7, time.perf_counter() - start))))
    out: dict[str, list[float]] = {n: [] for n in contestants}
    names = list(contestants)
    for k in range(rounds):
        for name in (*names[k % len(names) :], *names[: k % len(names)]):
            call = contestants[name]
            call()
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            out[name].append((time.perf_counter() - start) / repeats[name])
    return out


def ratio(times: Mapping[str, list[float]], one: str, other: str) -> str:
    """How many times as fast `one` is as `other`: the median over rounds, and the quartiles."""
    found = sorted(b / a for a, b in zip(times[one], times[other], strict=True))
    low, middle, high = statistics.quantiles(found, n=4)
    return f"{middle:.3f} ({low:.2f} to {high:.2f})"


def micro(times: list[float]) -> str:
    return f"{1e6 * statistics.median(times):.1f}"


def pair_row(p: Pair, rounds: int, options: dict[str, Any]) -> list[str]:
    rng = np.random.default_rng(1)
    args = [rng.integers(0, 2, s).astype(p.dtype) for s in p.shapes]
    one = tc.compile(p.tc, "cpu", options=options)
    other: Any = tc.compile(p.sac, lang="sac", backend="cpu", options=options)
    out = np.empty_like(one(*args))
    calls: dict[str, Call] = {"TC": lambda: one(*args, out=out), "SaC": lambda: other(*args, out=out)}
    times = measured(calls, rounds)
    return [p.name, micro(times["TC"]), micro(times["SaC"]), ratio(times, "SaC", "TC")]


def rank_row(
    name: str, source: str, like: Mapping[str, Any], shape: tuple[int, ...], rounds: int, options: Any
) -> list[str]:
    a = np.random.default_rng(1).random(shape)
    kernel: Any = tc.compile(source, lang="sac", backend="cpu", options=options)
    calls: dict[str, Call] = {"SaC": lambda: kernel(a)}
    calls |= {n: (lambda f=f: f(a)) for n, f in like.items()}
    np.testing.assert_allclose(kernel(a), np.asarray(like["NumPy"](a)), rtol=1e-9)
    times = measured(calls, rounds)
    cells = [f"{name} {'x'.join(map(str, shape))}", micro(times["SaC"])]
    for n in ("NumPy", "PyTorch"):
        cells += [micro(times[n]), ratio(times, "SaC", n)] if n in times else ["–", "–"]
    return cells


def programs(threads: int) -> list[tuple[str, str, dict[str, Any]]]:
    def whole(a: Any) -> Any:
        return a / ((a * a).sum(-1, keepdims=True) + 1)

    found: list[tuple[str, str, dict[str, Any]]] = [
        ("inc", "{ iv -> A[iv] + 1 }", {"NumPy": lambda a: a + 1}),
        ("sum along the last axis", ALONG, {"NumPy": lambda a: a.sum(-1)}),
        ("normalise", NORMALISE, {"NumPy": whole}),
    ]
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(threads)
    like = (lambda t: t + 1, lambda t: t.sum(-1), lambda t: t / ((t * t).sum(-1, keepdim=True) + 1))
    for (_, _, calls), f in zip(found, like, strict=True):
        calls["PyTorch"] = lambda a, f=f: f(torch.from_numpy(a))
    return found


def front_rows(repeats: int) -> list[list[str]]:
    rows: list[list[str]] = []
    for _, source, args, _ in TABLE:
        made: Any = tc.compile(source, lang="sac", backend="reference")
        kernel = made.kernel_for(*args) if hasattr(made, "kernel_for") else made
        spent: dict[str, list[float]] = {}
        for _ in range(repeats):
            state = _FrontState(Source(source), None, "sac", kernel.front.known)
            for p in FRONT.passes:
                assert isinstance(p, Pass)
                start = time.process_time()
                state = p.run(state)
                spent.setdefault(p.name, []).append(1e3 * (time.process_time() - start))
        medians = [statistics.median(x) for x in spent.values()]
        rows.append(
            [f"{source[:60]} {[np.ndim(a) for a in args]}", *(f"{x:.1f}" for x in (*medians, sum(medians)))]
        )
    return sorted(rows, key=lambda row: -float(row[-1]))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sac",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", help="loops, ranks, front (default: all)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    options = {"threads": chosen.threads}
    parts = chosen.parts or ["loops", "ranks", "front"]
    if "loops" in parts:
        rows = [pair_row(p, chosen.rounds, options) for p in PAIRS]
        print(aligned(["program", "TC us", "SaC us", "SaC against TC"], rows), flush=True)
    if "ranks" in parts:
        head = ["program", "SaC us", "NumPy us", "against NumPy", "PyTorch us", "against PyTorch"]
        rows = [
            rank_row(name, source, like, shape, chosen.rounds, options)
            for name, source, like in programs(chosen.threads)
            for shape in SHAPES
        ]
        print(aligned(head, rows), flush=True)
    if "front" in parts:
        names = [p.name for p in FRONT.passes]
        print(aligned(["program, ranks", *(f"{n} ms" for n in names), "all ms"], front_rows(9)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
