"""Contestants of a row, each in a process of its own, that are timed in turn.

A module that has contestants runs itself with `--worker NAME ROW`; there it calls `serve`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

THREADS = 2


def serve(calls: Mapping[str, Callable[[], Any]], results: Callable[[], Iterable[Any]]) -> None:
    """Answer one JSON line per line: save the tensors of `results`, or time one of the calls for a while."""
    import torch

    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "file" in asked:
            torch.save([x.detach() for x in results()], asked["file"])
            print(json.dumps({}), flush=True)
            continue
        call = calls[asked["call"]]
        call()
        count, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < asked["budget"] or count < 2:
            call()
            count += 1
        print(json.dumps({"seconds": spent / count}), flush=True)


class Contestant:
    """A process that serves."""

    def __init__(self, module: str, name: str, row: int) -> None:
        env = {**os.environ, "TC_NUM_THREADS": str(THREADS), "OMP_NUM_THREADS": str(THREADS)}
        command = [sys.executable, "-m", module, "--worker", name, str(row)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a contestant ended")
        return json.loads(line)

    def ask(self, **what: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def difference(contestants: Mapping[str, Contestant], one: str, other: str) -> str:
    """Empty, or how the results of two differ."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        files = {n: f"{folder}/{n}.pt" for n in contestants}
        for n, c in contestants.items():
            c.ask(file=files[n])
        found = {n: torch.load(f) for n, f in files.items()}
    for a, b in zip(found[one], found[other], strict=True):
        error = float((a - b).abs().max()) / max(1.0, float(b.abs().max()))
        if error > 1e-4:
            return f"differs by {error:.1e}"
    return ""


def in_turns(
    contestants: Mapping[str, Contestant], calls: Sequence[str], rounds: int, budget: float
) -> dict[str, dict[str, list[float]]]:
    """By call and contestant the seconds of a call in each round; every other round goes backwards."""
    names = list(contestants)
    out: dict[str, dict[str, list[float]]] = {}
    for call in calls:
        times = out[call] = {name: list[float]() for name in names}
        for k in range(rounds):
            for name in (names, names[::-1])[k % 2]:
                times[name].append(contestants[name].ask(call=call, budget=budget)["seconds"])
    return out
