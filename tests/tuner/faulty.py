"""A backend for tests: its kernels add 1, take as long as their options say, and some fail on purpose.

`FAULTY_PLAN` names a JSON file: {"base_us": …, "faults": {"<unroll>": "crash", …}}.  A kernel takes
base_us * (1 + |log2(unroll) - 3| / 2), so unroll=8 is the fastest.  Only kernels
advance the clock of a candidate's process: what else runs on the machine changes no verdict.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tc.errors import BackendError
from tc.options import Options
from tc.pipeline.target import Availability
from tc.tuner import child

_calls = 0


class Clock:
    """What a candidate's process reads in place of the module `time`."""

    ns = 0

    @classmethod
    def perf_counter_ns(cls) -> int:
        return cls.ns

    @classmethod
    def perf_counter(cls) -> float:
        return cls.ns / 1e9


def plan() -> dict[str, Any]:
    return json.loads(Path(os.environ["FAULTY_PLAN"]).read_text())


def kill_worker() -> None:
    """Kill the process above the one that this one is a fork of."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    time.sleep(60)


class Kernel:
    address = None
    workspace = 0
    release_gil = True
    notices: tuple[str, ...] = ()

    def __init__(self, unroll: int | None) -> None:
        self.fault = plan()["faults"].get(str(unroll), "")
        steps = 2.0 if unroll is None else abs(math.log2(unroll) - 3) / 2
        self.seconds = plan()["base_us"] / 1e6 * (1 + steps)

    def run(self, inputs: Any, outputs: Any) -> None:
        global _calls
        _calls += 1
        child.time = Clock  # pyright: ignore[reportAttributeAccessIssue]
        Clock.ns += round(self.seconds * 1e9)
        outputs[0][...] = inputs[0] + 1
        match self.fault:
            case "crash" | "late crash":
                if self.fault == "crash" or _calls > 4:
                    os.kill(os.getpid(), signal.SIGSEGV)
            case "crash in a second process":
                first = Path(os.environ["FAULTY_PLAN"] + ".first")
                if not first.exists():
                    first.write_text(str(os.getpid()))
                if first.read_text() != str(os.getpid()):
                    os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                time.sleep(3600)
            case "leak":
                kept = []
                while True:
                    kept.append(b"x" * (16 << 20))
            case "kill worker":
                kill_worker()
            case "kill worker once":
                mark = Path(os.environ["FAULTY_PLAN"] + ".killed")
                if not mark.exists():
                    mark.touch()
                    kill_worker()
            case "exit":
                os._exit(3)
            case "wrong":
                outputs[0][...] += 1
            case "slightly wrong":
                outputs[0].reshape(-1)[-1] += 1
            case _:
                pass

    def artifact(self, stage: str) -> str:
        raise BackendError("none", code="TC0804")


class Backend:
    name = "faulty"
    options_used = frozenset({"unroll", "prefetch", "tile"})
    dynamic_sizes = False
    cost_unit = "cycles"

    def available(self) -> Availability:
        return Availability(True)

    def passes(self, options: Options) -> Any:
        raise NotImplementedError

    def compile(self, program: Any, options: Options | None = None, typical: Any = None) -> Any:
        made = Kernel((options or Options()).unroll)
        match made.fault:
            case "crash in compile":
                os.abort()
            case "hang in compile":
                time.sleep(3600)
            case "bug":
                raise ZeroDivisionError("a bug of the compiler")
            case _:
                return made

    def candidates(self, program: Any, count: int, options: Options) -> Any:
        return tuple((options.replace(unroll=1 << k), 1.0 + k) for k in range(2))[:count]

    def loops(self, program: Any, options: Options) -> tuple[int, ...]:
        return (256,)

    def predict(self, program: Any, options: Options) -> float | None:
        return 1.0 + 9.0 * (options.unroll == 64)

    def limits(self, options: Options) -> Mapping[str, Any]:
        return {"cores": plan().get("cores", 1)}
