"""A contestant's process: answers one JSON line per JSON line, and sleeps in between.

Every contestant has a process of its own, so that no library's threads spin on another's time: while it waits
for the next line its threads come to rest.  It is pinned to as many processors as it may have threads.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.agreement import compare
from benchmarks.memory import HighWater
from benchmarks.peaks import Gather, Multiplies, vector_bytes
from benchmarks.workloads import find
from benchmarks.workloads.model import Workload

SEED = 20180213


class Worker:
    def __init__(self, name: str, backend: str, threads: int, isa: str = "") -> None:
        self.contestant = peers.contestants(backend, isa)[name]
        self.width = vector_bytes(isa)
        self.contestant.start(threads)
        self.workload: Workload | None = None
        self.result: Any = None
        self.multiplies: dict[str, Multiplies] = {}

    def ping(self) -> dict[str, Any]:
        return {}

    def prepare(self, workload: str, beyond: int, cold: bool = False) -> dict[str, Any]:
        """Make a workload and call it once; `cold`: all its inputs rotate."""
        self.drop()
        found = find(workload).workload()
        if cold and not found.rotate:
            found = replace(found, rotate=tuple(a.name for a in found.inputs))
        self.workload = found
        arrays = found.arrays(SEED)
        made = self.contestant.make(found)
        self.numpy = made.numpy
        sets = [made.convert(tuple(arrays.values()))]
        for turn in range(1, found.turns(beyond)):
            sets.append(_turned(found, made, sets[0], arrays, turn))
        gathered = found.gathered or {}
        self.tables = [x for a, x in zip(found.inputs, sets[0], strict=True) if gathered.get(a.name)]
        self.rows: Gather | None = None
        del arrays
        start = time.perf_counter()
        self.result = made.call(*sets[0])
        first = time.perf_counter() - start
        call = peers.settled(made.call)
        if len(sets) == 1:
            args = sets[0]
            self.call: Callable[[], Any] = lambda: call(*args)
        else:
            turns = itertools.cycle(sets)
            self.call = lambda: call(*next(turns))
        return {"first_s": first, "details": made.details()}

    def write(self, folder: str) -> dict[str, Any]:
        """The judge's results, for the others to compare with."""
        results = self._results()
        for i, r in enumerate(results):
            np.save(Path(folder) / f"{i}.npy", r)
        return {"results": len(results)}

    def check(self, folder: str) -> dict[str, Any]:
        """Compare the results of the first call with the judge's."""
        assert self.workload is not None
        wanted = [
            np.load(Path(folder) / f"{i}.npy", mmap_mode="r")
            for i in range(len(list(Path(folder).glob("*.npy"))))
        ]
        results = self._results()
        wrong = compare(results, wanted, self.workload.terms)
        nbytes = sum(r.nbytes for r in results)
        self.result = None
        return {"wrong": wrong, "result_bytes": nbytes}

    def _results(self) -> list[np.ndarray]:
        some = self.result if isinstance(self.result, tuple | list) else (self.result,)
        return [np.asarray(self.numpy(r)) for r in some]

    def calibrate(self, budget: float) -> dict[str, Any]:
        """A first idea of the time per call, the least of some, and the memory of one call."""
        water = HighWater()
        self.call()
        peak = water.growth()
        times: list[float] = []
        until = time.perf_counter() + budget
        while len(times) < 3 or (time.perf_counter() < until and len(times) < 1000):
            start = time.perf_counter()
            self.call()
            times.append(time.perf_counter() - start)
        return {"seconds": min(times), "peak_bytes": peak}

    def round(self, calls: int, batch: int, warm: float) -> dict[str, Any]:
        """Warm up, then time `calls` times `batch` calls."""
        call, clock = self.call, time.perf_counter
        gc.disable()
        until = clock() + warm
        call()
        while clock() < until:
            call()
        times: list[float] = []
        for _ in range(calls):
            start = clock()
            for _ in range(batch):
                call()
            times.append((clock() - start) / batch)
        gc.enable()
        return {"median": statistics.median(times), "best": min(times)}

    def gather(self, threads: int) -> dict[str, Any]:
        """What can be read of the tables that rows are looked up in, 10^9 bytes a second."""
        if self.rows is None:
            self.rows = Gather([np.asarray(self.numpy(t)) for t in self.tables], threads, self.width)
        return {"rate": self.rows.rate(50_000, 3)}

    def multiply(self, kind: str, threads: int) -> dict[str, Any]:
        """What the processors can do at best just now, 10^9 multiplications and additions a second."""
        if kind not in self.multiplies:
            self.multiplies[kind] = Multiplies(kind, threads, 0.002, self.width)
        return {"rate": self.multiplies[kind].rate(3)}

    def drop(self) -> dict[str, Any]:
        self.workload = self.result = self.rows = None
        self.tables = []
        self.call = lambda: None
        gc.collect()
        return {}


def _turned(
    workload: Workload,
    made: peers.Implementation,
    first: tuple[Any, ...],
    arrays: dict[str, np.ndarray],
    turn: int,
) -> tuple[Any, ...]:
    """Arguments of a further turn: what rotates is new, tables are those of the first."""
    rotating = [a.name in workload.rotate for a in workload.inputs]
    # Tables are not converted again; a row stands in for them where a contestant converts all together.
    given = (
        a.make(SEED, turn) if new else arrays[a.name][:1]
        for a, new in zip(workload.inputs, rotating, strict=True)
    )
    converted = made.convert(tuple(given))
    return tuple(c if new else kept for c, new, kept in zip(converted, rotating, first, strict=True))


def plan(seconds: float, budget: float) -> tuple[int, int]:
    """(calls, batch) so that a round lasts about `budget`: at least three calls, short ones in batches that
    the clock can tell."""
    batch = max(1, math.ceil(20e-6 / max(seconds, 1e-9))) if seconds < 10e-6 else 1
    return max(3, round(budget / (seconds * batch))), batch


def main() -> int:
    name, backend, threads, isa = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, peers.cores()[:threads])
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    try:
        worker = Worker(name, backend, threads, isa)
    except BaseException as error:
        answers.write(json.dumps({"error": _reason(error)}) + "\n")
        return 1
    answers.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": _reason(error)}
        answers.write(json.dumps(answer) + "\n")
    # Some libraries take seconds to tear down, or hang; there is nothing left to lose.
    os._exit(0)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


if __name__ == "__main__":
    raise SystemExit(main())
