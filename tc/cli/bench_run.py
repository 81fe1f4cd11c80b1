"""`python -m tc bench`: a program beside spellings of it in other libraries, timed in turn."""

from __future__ import annotations

import argparse
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tc.cli import bench_report
from tc.cli.bench import NAMESPACES, Peer, peer
from tc.cli.bench_report import OURS
from tc.cli.data import arguments_of
from tc.cli.request import Request
from tc.errors import ArgumentError
from tc.lang import resolved as r
from tc.support.contestants import Contestant, ContestantFailed, in_turns
from tc.tuner.data import epsilon

_BUDGET = 0.03  # seconds of calls in a turn
_TOLERANCE, _HALF = 1024, 16  # epsilons of the largest element; of 16-bit types


def run(args: argparse.Namespace, kernel: Any, request: Request) -> tuple[int, dict[str, Any]]:
    """Compare the results of all, time all in turn, and report."""
    from tc._native import get_num_threads

    peers = list(dict.fromkeys(peer(text) for text in args.against))
    if args.rounds < 1 or (args.threads is not None and args.threads < 1):
        raise ArgumentError("--rounds and --threads are at least 1", code="TC0515")
    threads = args.threads or get_num_threads()
    arguments, buffers = arguments_of(kernel, request)
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as folder:
        for name, what in (("arguments", arguments), ("buffers", buffers), ("kernel", kernel)):
            with Path(folder, name).open("wb") as f:
                pickle.dump(what, f)
        contestants: dict[str, Contestant] = {}
        try:
            for p in [Peer(OURS, ""), *peers]:
                command = ["-m", "tc.cli.bench_worker", folder, p.library, p.expression]
                contestants[p.name if p.expression else OURS] = Contestant(command, threads)
            _started(contestants, arguments | buffers)
            _compared(kernel, contestants, folder)
            with bench_report.progress(args.rounds * len(contestants)) as done:
                times = in_turns(contestants, ["call"], args.rounds, _BUDGET, done)["call"]
        finally:
            for c in contestants.values():
                c.close()
    rows = bench_report.rows_of(times)
    if args.plot:
        bench_report.draw(kernel.name, rows, Path(args.plot))
    sizes = {n: _size(kernel, n, arguments, request) for n in kernel.front.checked.sizes}
    report = bench_report.report(kernel, rows, sizes, threads, args.rounds)
    if not args.json:
        print(bench_report.table(report))
        if args.plot:
            print(f"times: {args.plot}")
    return 0, report


def _size(kernel: Any, name: str, arguments: Mapping[str, Any], request: Request) -> int:
    for p in kernel.front.checked.params:
        if isinstance(p, r.Tensor):
            for d, extent in zip(p.dims or (), np.shape(arguments[p.name]), strict=True):
                if isinstance(d, r.Size) and d.name == name:
                    return int(extent)
    return request.sizes[name]


# ---- before anything is timed


def _started(contestants: Mapping[str, Contestant], arguments: Mapping[str, Any]) -> None:
    for name, c in contestants.items():
        try:
            c.wait()
        except ContestantFailed as e:
            if name == OURS:
                raise ArgumentError(f"the kernel fails: {e}", code="TC0529") from None
            raise ArgumentError(
                f"--against '{name}' fails: {e}",
                code="TC0529",
                help=f"the names in it are {', '.join(arguments)}, and {_modules(name)}",
            ) from None


def _modules(name: str) -> str:
    return ", ".join(NAMESPACES[name.partition(":")[0]])


def _compared(kernel: Any, contestants: Mapping[str, Contestant], folder: str) -> None:
    """Every spelling gives what the kernel gives; ArgumentError TC0529 for one that does not."""
    found: dict[str, list[Any]] = {}
    for k, (name, c) in enumerate(contestants.items()):
        file = Path(folder, f"results{k}")
        c.ask(file=str(file))
        with file.open("rb") as f:
            found[name] = pickle.load(f)
    returns = kernel.front.checked.returns
    for name, values in found.items():
        if len(values) != len(returns):
            raise ArgumentError(
                f"--against '{name}' gives {len(values)} results, and {kernel.name} gives {len(returns)}",
                code="TC0529",
                help=f"write a tuple of {', '.join(x.name for x in returns)}",
            )
        for x, ours, theirs in zip(returns, found[OURS], values, strict=True):
            if np.shape(ours) != np.shape(theirs):
                raise ArgumentError(
                    f"--against '{name}': {x.name} has the shape {np.shape(theirs)}, and that of "
                    f"{kernel.name} has {np.shape(ours)}",
                    code="TC0529",
                    help="write the expression so that the shapes are the same",
                )
            problem = difference(ours, theirs, kernel.front.typed.dtype(x.tensor))
            if problem:
                raise ArgumentError(
                    f"--against '{name}': {x.name} {problem}",
                    code="TC0529",
                    help="nothing was timed, since they do not compute the same",
                )


def difference(ours: Any, theirs: Any, dtype: Any) -> str:
    """Empty, or how two arrays of one shape differ: numbers that are no floats at all, floats by more than
    1024 epsilons of the largest element, of 16-bit types by more than 16."""
    a, b = np.asarray(ours), np.asarray(theirs)
    if not dtype.is_float:
        wrong = int(np.sum(a != b))
        return f"differs in {wrong} of {a.size} elements" if wrong else ""
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        largest = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
    worst = float(np.max(np.where(np.isnan(gap), np.inf, gap), initial=0.0))
    allowed = (_HALF if dtype.bits == 16 else _TOLERANCE) * epsilon(dtype) * max(1.0, largest)
    return f"differs by {worst:.2g}, where elements are up to {largest:.2g}" if worst > allowed else ""
