"""Contestants that are timed in turn, each in a process of its own: the threads of one would spin on the
time of another.

A contestant answers a line of JSON with a line of JSON.  `{"file": …}` saves its results, `{"call": …,
"budget": …}` runs a call for that many seconds and gives the seconds of one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class ContestantFailed(Exception):
    """What a contestant says went wrong, or that it ended."""


def serve(calls: Mapping[str, Callable[[], Any]], save: Callable[[str], None]) -> None:
    """Answer on stdout what is asked on stdin; `save` writes the results to a file."""
    answer({})
    for line in sys.stdin:
        asked = json.loads(line)
        if "file" in asked:
            save(asked["file"])
            answer({})
        else:
            answer({"seconds": seconds(calls[asked["call"]], asked["budget"])})


def answer(what: Mapping[str, Any]) -> None:
    """Say something to the process that asks: `{"error": text}` makes it raise ContestantFailed.

    It goes to the first stdout, so that a process may point `sys.stdout` elsewhere.
    """
    assert sys.__stdout__ is not None
    sys.__stdout__.write(json.dumps(what) + "\n")
    sys.__stdout__.flush()


def seconds(call: Callable[[], Any], budget: float) -> float:
    """The mean seconds of a call, repeated after one that does not count until `budget` seconds are over."""
    call()
    count, batch, spent = 0, 1, 0.0
    while spent < budget or count < 2:
        start = time.perf_counter()
        for _ in range(batch):
            call()
        last = time.perf_counter() - start
        spent += last
        count += batch
        if last < budget / 16:
            batch *= 2
    return spent / count


class Contestant:
    """A process that serves, with so many threads."""

    def __init__(self, command: Sequence[str], threads: int) -> None:
        names = ("TC_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **dict.fromkeys(names, str(threads))},
        )

    def wait(self) -> dict[str, Any]:
        """Its next answer; ContestantFailed if that is an error, or if there is none."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ContestantFailed(f"its process ended with {self.process.wait()}")
        found = json.loads(line)
        if "error" in found:
            raise ContestantFailed(found["error"])
        return found

    def ask(self, **what: Any) -> dict[str, Any]:
        """Ask for results or times, and wait for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.wait()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def in_turns(
    contestants: Mapping[str, Contestant],
    calls: Sequence[str],
    rounds: int,
    budget: float,
    done: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, list[float]]]:
    """By call and contestant the seconds of a call in each round; every other round goes backwards."""
    names = list(contestants)
    out: dict[str, dict[str, list[float]]] = {}
    for call in calls:
        times = out[call] = {name: list[float]() for name in names}
        for k in range(rounds):
            for name in (names, names[::-1])[k % 2]:
                times[name].append(contestants[name].ask(call=call, budget=budget)["seconds"])
                done()
    return out
