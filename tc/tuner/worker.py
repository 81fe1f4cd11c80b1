"""What workers of a distributed search do: compile candidates, or measure them, in children of their own.

A worker keeps a farm for each search.  Only plain data and machine code travel.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tc.options import Options
from tc.tuner.bench import Bench, ChallengerFailed, EndedError, IncumbentFailed, Stopped, verdict
from tc.tuner.child import Job
from tc.tuner.farm import Farm
from tc.tuner.trials import Limits, Outcome, plain

Files = dict[str, bytes]  # machine code as the disk cache keeps it, by name


@dataclass(frozen=True)
class Task:
    """A candidate for a worker; `left` are the seconds until the budget ends, `files` its machine code."""

    session: str
    job: Job = field(repr=False)
    limits: Limits
    options: Mapping[str, Any]
    left: float
    prune_at: float | None = None
    files: Files = field(default_factory=dict[str, bytes], repr=False)


@dataclass(frozen=True)
class Reply:
    """What a worker says of a candidate: `outcome` is None where it compiled, or the budget ended (`over`).
    `incumbent` is the time of the incumbent on this machine; `failed` says that it was the incumbent that
    failed."""

    outcome: Outcome | None = None
    files: Files = field(default_factory=dict[str, bytes], repr=False)
    event: Mapping[str, Any] = field(default_factory=dict[str, Any])
    incumbent: float | None = None
    failed: bool = False
    over: bool = False


class _State:
    """The farm of a search on this worker."""

    def __init__(self, task: Task) -> None:
        self.lock = threading.Lock()
        self.farm = Farm(task.job, task.limits.memory)
        self.farm.__enter__()
        self.kernels = Path(tempfile.mkdtemp(prefix="tc-tune-"))
        self.end = 0.0
        self.bench = Bench(self.farm, task.limits, lambda: self.end - time.monotonic())
        self.default: Outcome | None = None
        self.times: dict[Options, float] = {}

    def close(self) -> None:
        self.farm.__exit__()
        shutil.rmtree(self.kernels, ignore_errors=True)


_states: dict[str, _State] = {}
_lock = threading.Lock()


def _state(task: Task) -> _State:
    with _lock:
        if task.session not in _states:
            _states[task.session] = _State(task)
        found = _states[task.session]
    found.end = time.monotonic() + task.left
    return found


def close(session: str) -> None:
    """End the farm of a search."""
    with _lock:
        found = _states.pop(session, None)
    if found is not None:
        found.close()


def facts(backend: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What must agree among the machines of a search."""
    from tc.pipeline.load import versions
    from tc.registry import load
    from tc.tuned.target import Tunable, machine_name

    found = load(backend)
    machine = ""
    if isinstance(found, Tunable) and found.available().ok:
        machine = machine_name(found.limits(Options.from_mapping(options)))
    return {"versions": list(versions()), "machine": machine}


def compile_candidate(task: Task) -> Reply:
    """Compile a candidate; its machine code, or what went wrong."""
    state = _state(task)
    with state.lock:
        cache = Path(tempfile.mkdtemp(dir=state.kernels))
        number = -1
        try:
            number = state.farm.start(task.options, task.limits.compile_seconds, task.prune_at, cache)
            e = state.bench.compiled(number)
            if e["event"] != "compiled":
                status, problem = verdict(e)
                return Reply(Outcome(status, problem, predicted=e.get("predicted")))
            return Reply(files=_read(cache), event=e)
        except Stopped:
            return Reply(over=True)
        finally:
            state.farm.kill(number)
            shutil.rmtree(cache, ignore_errors=True)


def _read(folder: Path) -> Files:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _write(files: Files, folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def measure_default(task: Task) -> Reply:
    """Check the default against the oracle and time it; what a worker that measures does first."""
    state = _state(task)
    with state.lock:
        try:
            return Reply(_default(state, task, Options.from_mapping(task.options)))
        except Stopped:
            return Reply(over=True)


def _default(state: _State, task: Task, options: Options) -> Outcome:
    if state.default is None:
        state.default = state.bench.default(options)
        if state.default.cost is not None:
            state.times[options] = state.default.cost
    return state.default


def measure_candidate(
    task: Task, default: Mapping[str, Any], incumbent: Mapping[str, Any], incumbent_files: Files
) -> Reply:
    """Check a candidate and time it beside the incumbent."""
    state, best = _state(task), Options.from_mapping(incumbent)
    bench = state.bench
    with state.lock:
        number = -1
        try:
            made = _default(state, task, Options.from_mapping(default))
            if made.status != "ok":
                return Reply(made, failed=True)
            _write({**incumbent_files, **task.files}, state.farm.kernels)
            if best not in state.times:
                state.times[best] = statistics.median(bench.time(bench.revive(best), 3))
            number = bench.start(Options.from_mapping(task.options))
            e = bench.compiled(number)
            if e["event"] != "compiled":
                status, problem = verdict(e)
                return Reply(Outcome(status, problem))
            outcome = bench.measure(number, e, best, state.times[best])
            if outcome.won and outcome.cost is not None:
                state.times[Options.from_mapping(task.options)] = outcome.cost
            return Reply(outcome, incumbent=state.times[best])
        except Stopped:
            return Reply(over=True)
        except IncumbentFailed as e:
            return Reply(Outcome(e.status, e.problem), failed=True)
        except EndedError as e:
            return Reply(Outcome(*verdict(e.event)), failed=True)
        finally:
            if number not in bench.alive.values():
                state.farm.kill(number)


def confirm_winner(task: Task, default: Mapping[str, Any]) -> Reply:
    """The winner in a fresh process beside the default; its rounds are the times of the outcome."""
    state = _state(task)
    options, usual = Options.from_mapping(task.options), Options.from_mapping(default)
    with state.lock:
        try:
            made = _default(state, task, usual)
            if made.status != "ok":
                return Reply(made, failed=True)
            _write(task.files, state.farm.kernels)
            pairs = state.bench.compare(options, usual)
            return Reply(Outcome("ok", ns=pairs.challenger, ref_ns=pairs.incumbent, won=pairs.won))
        except Stopped:
            return Reply(over=True)
        except IncumbentFailed as e:
            return Reply(Outcome(e.status, e.problem), failed=True)
        except ChallengerFailed as e:
            return Reply(Outcome(e.status, e.problem))


def as_task(base: Task, options: Options, left: float, **more: Any) -> Task:
    """A task of a search for one candidate."""
    return replace(base, options=plain(options), left=left, **more)
