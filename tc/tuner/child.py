"""One candidate in a process of its own: it compiles, and then checks and times calls as it is told.

It answers with one JSON object a line.  Whatever happens to it, the processes above it see no more than the
end of a pipe.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tc.errors import Error
from tc.lang.notations import Known
from tc.options import Dynamic, Options
from tc.pipeline.target import Storable
from tc.tuned.target import Tunable
from tc.tuner.check import agrees_whole, disagreement, expected, named, plain_results

if TYPE_CHECKING:
    from tc.kernel import Kernel

Array = np.ndarray[Any, Any]
SLOW_NS = 20_000_000  # nanoseconds of a call, from which it needs no warm caches and threads
_ROTATED = 64 << 20  # bytes of arguments, up to which there are several sets of them


@dataclass(frozen=True)
class Job:
    """What all candidates of a search have in common, as far as a child needs it.

    `arrays` and `buffers` are arguments and the values that in/out results start from, `scratch` is a folder
    for results to compare with.
    """

    source: str
    name: str
    entry: str
    backend: str
    checks: str
    dynamic: dict[str, int | None]
    sizes: dict[str, int]
    scalars: dict[str, int]
    scratch: Path
    arrays: dict[str, Any] = field(repr=False, default_factory=dict[str, Any])
    buffers: dict[str, Array] = field(repr=False, default_factory=dict[str, Array])
    points: int = 256
    seed: int = 0
    rotate: int = 2
    lang: str = "tc"
    known: Known = ()  # of SaC: ranks and element types that its source leaves open

    def kernel(
        self, backend: str, options: Options | None = None, checks: str = "safe", dynamic: Dynamic = ()
    ) -> Kernel:
        """The program compiled for a backend."""
        from tc.api import compile_source
        from tc.errors import Source
        from tc.open_kernels.open_kernel import OpenKernel

        source = Source(self.source, self.name)
        made: Any = compile_source(source, backend, self.entry, options, checks, self.lang, dynamic=dynamic)
        return made.of(self.known) if isinstance(made, OpenKernel) else made


def run(job: Job, request: Mapping[str, Any], commands: Iterator[str], answers: int) -> None:
    """Do what a request says: `oracle` computes values to compare with, `candidate` is one."""

    def say(**what: Any) -> None:
        os.write(answers, (json.dumps(what) + "\n").encode())

    os.environ["TC_CACHE_DIR"] = request["cache"]  # candidates do not fill the user's
    if request.get("nice"):
        os.nice(int(request["nice"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _candidate(job, request, commands, say)
        except Error as e:
            say(event="refused", problem=e.message, code=e.code)
        except MemoryError as e:
            say(event="oom", problem=f"not enough memory: {e}" if str(e) else "not enough memory")
        except Exception as e:  # a bug of the compiler ends a candidate, and nothing else
            say(event="refused", problem=f"{type(e).__name__}: {e}", code="")


def _candidate(job: Job, request: Mapping[str, Any], commands: Iterator[str], say: Any) -> None:
    options = Options.from_mapping(request["options"])
    start = time.perf_counter()
    kernel = job.kernel(job.backend, options, job.checks, job.dynamic)
    predicted = _predicted(kernel, job, options)
    limit = request.get("limit")
    if predicted is not None and limit is not None and predicted > limit:
        say(event="pruned", predicted=predicted)
        return
    made = kernel.specialize(**job.sizes, **job.scalars).compiled
    blob = made.to_blob() if isinstance(made, Storable) else None
    say(
        event="compiled",
        seconds=time.perf_counter() - start,
        predicted=predicted,
        code=hashlib.sha256(blob).hexdigest()[:16] if blob else "",
    )
    runner = _Runner(job, kernel)
    for line in commands:
        command = json.loads(line)
        match command["do"]:
            case "check":
                say(event="checked", **runner.check(save=bool(command.get("save"))))
            case "time":
                say(event="timed", ns=runner.time(command["samples"], command["least_ns"], command["most_s"]))
            case _:
                return


def _predicted(kernel: Any, job: Job, options: Options) -> float | None:
    backend = kernel.backend_object
    if not isinstance(backend, Tunable) or job.dynamic:
        return None
    try:
        return backend.predict(kernel.program({**job.sizes, **job.scalars}), options)
    except Error:
        raise
    except Exception:
        return None


class _Runner:
    """Calls of a kernel with arguments of its own, which rotate, so that no place in memory is lucky."""

    def __init__(self, job: Job, kernel: Any) -> None:
        self.job, self.kernel = job, kernel
        self.sets: list[dict[str, Any]] = []
        self.outs: list[dict[str, Array]] = []
        self.turn = 0

    def _prepare(self, results: Mapping[str, Any]) -> None:
        size = sum(getattr(a, "nbytes", 0) for a in (*self.job.arrays.values(), *results.values()))
        for i in range(self.job.rotate if size < _ROTATED else 1):
            given = self.job.arrays.items()
            self.sets.append({n: a.copy() if i and hasattr(a, "copy") else a for n, a in given})
            made = {n: np.asarray(v) if not i else np.array(v) for n, v in results.items()}
            self.outs.append(made)

    def check(self, *, save: bool) -> dict[str, Any]:
        """Call it once; the time of that in nanoseconds, and what is wrong with the results."""
        job, kernel = self.job, self.kernel
        out = {n: b.copy() for n, b in job.buffers.items()} or None
        start = time.perf_counter_ns()
        value = kernel(**job.arrays, out=out)
        ns = time.perf_counter_ns() - start
        found, eps = plain_results(kernel, value)
        problem = disagreement(found, expected(job), job.sizes, eps)
        whole = job.scratch / "whole.npz"
        if not problem and save:
            temporary = job.scratch / f".whole-{os.getpid()}.npz"
            np.savez(temporary, allow_pickle=False, **found)
            os.replace(temporary, whole)
        elif not problem and whole.exists():
            with np.load(whole) as wanted:
                problem = agrees_whole(found, {n: wanted[n] for n in found}, job.sizes, eps)
        if not problem:
            self._prepare(named(kernel, value))
        return {"problem": problem, "ns": ns}

    def time(self, samples: int, least_ns: int, most_s: float) -> list[int]:
        """The times of a call in nanoseconds, each the mean of as many as take `least_ns`; fewer samples if
        they would take longer than `most_s`."""
        end = time.perf_counter() + most_s
        inout = bool(self.job.buffers)
        one = self._calls(1, inout)  # threads and caches are warm when the clock starts
        count = 1 if inout else max(1, min(10_000, -(-least_ns // max(1, one))))
        out = [one] if one > SLOW_NS else []  # of a slow kernel the first call is as good as others
        for _ in range(samples - len(out)):
            out.append(max(1, self._calls(count, inout) // count))
            if time.perf_counter() > end:
                break
        return out

    def _calls(self, count: int, inout: bool) -> int:
        self.turn += 1
        arrays = self.sets[self.turn % len(self.sets)]
        outs = self.outs[self.turn % len(self.outs)]
        for n, b in self.job.buffers.items():
            outs[n][...] = b
        kernel, given = self.kernel, {**arrays, "out": outs}
        collecting = gc.isenabled()
        gc.disable()
        try:
            start = time.perf_counter_ns()
            for _ in range(count):
                kernel(**given)
            return time.perf_counter_ns() - start
        finally:
            if collecting:
                gc.enable()
