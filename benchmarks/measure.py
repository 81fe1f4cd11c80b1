"""Interleaved measurement: contestants in processes of their own, one running while the others sleep.

Per workload: every contestant makes it and calls it once (the first call), results are compared with the
judge's, a short calibration finds who contends.  Then rounds, in each of which every contender in turn, the
order rotated from round to round, warms up and is timed for about `budget` seconds.  Ratios are taken within
rounds, so that what slows a moment down slows both.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import peers
from benchmarks.stats import Estimate, estimate, paired_ratio
from benchmarks.worker import plan
from benchmarks.workloads.model import Case

ROOT = Path(__file__).resolve().parents[1]
_SETTLE = 0.12  # seconds between two contestants
# A contestant this much slower than the best peer does not enter the rounds; its calibration is reported.
HOPELESS = 3.0


class WorkerError(Exception):
    """A contestant could not do what it was asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure."""

    backend: str = "cpu"
    threads: int = 1
    rounds: int = 15
    budget: float = 0.020  # seconds a contestant is timed for in a round
    warm: float = 0.005  # seconds it warms up for
    patience: float = 300.0  # seconds a contestant may take for its first call
    hopeless: float = HOPELESS
    beyond: int = 128 << 20  # bytes of table rows that rotating look-ups go through
    cold: bool = False  # whether all inputs rotate, so that no cache has them
    isa: str = ""  # the instruction set for everyone; empty: each takes what the machine has


@dataclass(frozen=True, slots=True)
class Outcome:
    """One contestant on one workload."""

    contestant: str
    peer: bool
    failed: str | None = None  # why there is no time
    first_s: float | None = None
    calibrated_s: float | None = None
    medians: tuple[float, ...] = ()  # of each round; empty for one that did not contend
    bests: tuple[float, ...] = ()
    peak_bytes: int | None = None
    result_bytes: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    gathered: tuple[float, ...] = ()  # 10^9 bytes/s of random rows of its own tables, in each round
    multiplied: tuple[float, ...] = ()  # 10^9 operations/s of multiply-adds in registers, in each round

    @property
    def seconds(self) -> float | None:
        """Time per call: the median of the rounds, else the calibration's."""
        if self.failed:
            return None
        return statistics.median(self.medians) if self.medians else self.calibrated_s

    @property
    def compile_s(self) -> float | None:
        """The first call less a later one."""
        if self.first_s is None or self.seconds is None:
            return None
        return max(0.0, self.first_s - self.seconds)

    def memory(self) -> int | None:
        """Bytes of a call: results and scratch (see `benchmarks.memory`), at least the results, which some
        libraries take from memory that they have kept."""
        if self.peak_bytes is None:
            return None
        return max(self.peak_bytes, self.result_bytes) + int(self.details.get("workspace", 0))


@dataclass(frozen=True, slots=True)
class Measurement:
    """All contestants on one workload."""

    case: Case
    outcomes: tuple[Outcome, ...]

    def of(self, name: str) -> Outcome | None:
        return next((o for o in self.outcomes if o.contestant == name), None)

    @property
    def tc(self) -> Outcome | None:
        return next((o for o in self.outcomes if not o.peer), None)

    @property
    def best_peer(self) -> Outcome | None:
        timed = [o for o in self.outcomes if o.peer and o.seconds is not None]
        contended = [o for o in timed if o.medians]
        return min(contended or timed, key=lambda o: o.seconds or 0.0, default=None)

    @property
    def ratio(self) -> Estimate | None:
        """The best peer's time by tc's: above 1, tc is faster."""
        ours, best = self.tc, self.best_peer
        if ours is None or best is None or not ours.medians or not best.medians:
            return None
        return paired_ratio(best.medians, ours.medians)

    @property
    def moved_bytes(self) -> int:
        """Bytes that must move at least: what is read, and results written, once."""
        return self.case.workload().read_bytes() + max(o.result_bytes for o in self.outcomes)

    def interval(self, name: str) -> Estimate | None:
        found = self.of(name)
        return estimate(found.medians) if found and found.medians else None


class Process:
    """A contestant's process, started at its first need and again after a failure that ended it."""

    def __init__(self, name: str, settings: Settings, folder: Path) -> None:
        self.name, self.settings, self.folder = name, settings, folder
        self.process: subprocess.Popen[bytes] | None = None
        self.pending = b""

    def start(self) -> None:
        """Start it without waiting until it is ready, so that several load their libraries at once."""
        if self.process is not None:
            return
        cache = self.folder / f"cache-{self.name}"
        environment = {
            **os.environ,
            **peers.environment(self.settings.threads, str(cache), self.settings.isa),
        }
        self.log = (self.folder / f"{self.name}.log").open("ab")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", "-m", "benchmarks.worker"),
                *(self.name, self.settings.backend, str(self.settings.threads), self.settings.isa),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=ROOT,
            env=environment,
        )
        self.pending, self.ready = b"", False

    def ask(self, do: str, timeout: float | None = None, **arguments: Any) -> dict[str, Any]:
        """The answer to a request; WorkerError with the reason where there is none."""
        self.start()
        if not self.ready:
            self._answer(self.settings.patience)
            self.ready = True
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self.process.stdin.flush()
        return self._answer(timeout or self.settings.patience)

    def _answer(self, timeout: float) -> dict[str, Any]:
        assert self.process is not None and self.process.stdout is not None
        descriptor, until = self.process.stdout.fileno(), time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self.pending:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self.stop()
                    raise WorkerError(f"no answer in {timeout:.0f} s")
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    code = self.process.wait()
                    self.stop()
                    raise WorkerError(f"the process ended with {code}")
                self.pending += piece
        line, _, self.pending = self.pending.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()
            self.log.close()
            self.process = None


class Race:
    """The processes of a run.  A context manager: leaving it ends them."""

    def __init__(self, names: Sequence[str], settings: Settings) -> None:
        self.settings = settings
        self.contestants = peers.contestants(settings.backend, settings.isa)
        self.names = list(names)
        self.folder = tempfile.TemporaryDirectory(prefix="tc-bench-", ignore_cleanup_errors=True)
        path = Path(self.folder.name)
        self.processes = {n: Process(n, settings, path) for n in (*names, peers.JUDGE.name)}

    def __enter__(self) -> Race:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.stop()
        self.folder.cleanup()

    def measure(self, case: Case, note: Callable[[str], None] = lambda text: None) -> Measurement:
        """All contestants that handle a case; `note` hears what is going on.

        Raises WorkerError where the judge has no results to compare with.
        """
        workload = case.workload()
        names = [n for n in self.names if self.contestants[n].handles(workload)]
        # Libraries are loaded side by side, and nothing is measured before all are.
        present = [n for n in (peers.JUDGE.name, *names) if peers.available(n) is None]
        for name in present:
            self.processes[name].start()
        for name in present:
            with contextlib.suppress(WorkerError):
                self.processes[name].ask("ping")
        outcomes: dict[str, Outcome] = {}
        with tempfile.TemporaryDirectory(dir=self.folder.name) as truth:
            judge = self.processes[peers.JUDGE.name]
            try:
                judge.ask("prepare", workload=case.key, beyond=0)
                judge.ask("write", folder=truth)
                judge.ask("drop")
            except WorkerError as error:
                raise WorkerError(f"no results to compare with: {error}") from None
            for name in names:
                note(name)
                outcomes[name] = self._first(name, case, truth)
        timed = {n: o for n, o in outcomes.items() if not o.failed}
        limit = self._limit(timed)
        for name, outcome in timed.items():
            # One unlucky moment must not keep a contestant out.
            if (outcome.calibrated_s or 0.0) > limit:
                timed[name] = self._again(outcome)
        limit = self._limit(timed)
        contend = [
            n for n, o in timed.items() if not o.failed and (not o.peer or (o.calibrated_s or 0.0) <= limit)
        ]
        medians: dict[str, list[float]] = {n: [] for n in contend}
        bests: dict[str, list[float]] = {n: [] for n in contend}
        gathered: dict[str, list[float]] = {n: [] for n in contend}
        multiplied: dict[str, list[float]] = {n: [] for n in contend}
        threads = self.settings.threads
        plans = {n: plan(timed[n].calibrated_s or 1.0, self.settings.budget) for n in contend}
        for number in range(self.settings.rounds):
            note(f"round {number + 1}")
            turn = number % max(1, len(contend))
            for name in contend[turn:] + contend[:turn]:
                if timed[name].failed:
                    continue
                calls, batch = plans[name]
                if (timed[name].calibrated_s or 0.0) > 1.0:
                    calls = 1
                try:
                    answer = self.processes[name].ask(
                        "round", calls=calls, batch=batch, warm=self.settings.warm
                    )
                    if not timed[name].peer:
                        # The best that could be had just now: a processor that others share has no one peak.
                        if any((workload.gathered or {}).values()):
                            rate = self.processes[name].ask("gather", threads=threads)["rate"]
                            gathered[name].append(rate)
                        if workload.precision:
                            rate = self.processes[name].ask(
                                "multiply", kind=workload.precision, threads=threads
                            )["rate"]
                            multiplied[name].append(rate)
                except WorkerError as error:
                    timed[name] = replace(timed[name], failed=str(error))
                    continue
                medians[name].append(answer["median"])
                bests[name].append(answer["best"])
                # Threads that spin after their last call (OpenBLAS for tens of milliseconds) must have
                # stopped before the next contestant starts.
                time.sleep(_SETTLE)
        for name in contend:
            timed[name] = replace(
                timed[name],
                medians=tuple(medians[name]),
                bests=tuple(bests[name]),
                gathered=tuple(gathered[name]),
                multiplied=tuple(multiplied[name]),
            )
        for name in names:
            # One that ended is started again by its next workload.
            with contextlib.suppress(WorkerError):
                if self.processes[name].process is not None:
                    self.processes[name].ask("drop")
        return Measurement(case, tuple({**outcomes, **timed}.values()))

    def _limit(self, timed: Mapping[str, Outcome]) -> float:
        """Seconds above which a peer is hopeless."""
        some = (o.calibrated_s or 0.0 for o in timed.values() if o.peer and not o.failed)
        return self.settings.hopeless * min(some, default=float("inf"))

    def _again(self, outcome: Outcome) -> Outcome:
        """The outcome with a second calibration, if that is faster."""
        if (outcome.calibrated_s or 0.0) > 1.0:
            return outcome
        try:
            answer = self.processes[outcome.contestant].ask("calibrate", budget=5 * self.settings.budget)
        except WorkerError as error:
            return replace(outcome, failed=str(error))
        return replace(outcome, calibrated_s=min(outcome.calibrated_s or 0.0, answer["seconds"]))

    def _first(self, name: str, case: Case, truth: str) -> Outcome:
        """First call, agreement, calibration."""
        peer, process = self.contestants[name].peer, self.processes[name]
        missing = peers.available(name)
        if missing:
            return Outcome(name, peer, failed=missing)
        try:
            made = process.ask(
                "prepare", workload=case.key, beyond=self.settings.beyond, cold=self.settings.cold
            )
            judged = process.ask("check", folder=truth)
            if judged["wrong"]:
                process.ask("drop")
                return Outcome(name, peer, failed=f"wrong: {judged['wrong']}", first_s=made["first_s"])
            calibrated = process.ask("calibrate", budget=5 * self.settings.budget)
        except WorkerError as error:
            return Outcome(name, peer, failed=str(error))
        return Outcome(
            name,
            peer,
            first_s=made["first_s"],
            calibrated_s=calibrated["seconds"],
            peak_bytes=calibrated["peak_bytes"],
            result_bytes=judged["result_bytes"],
            details=made["details"],
        )
