"""Candidates of a farm checked and timed, one at a time, beside the best known one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tc.options import Options
from tc.tuned.pairs import HOPELESS, LEAST_ROUNDS, ROUNDS, SLOW_HOPELESS, SLOWER, Paired
from tc.tuned.records import Status
from tc.tuner.child import SLOW_NS
from tc.tuner.farm import Event, Farm
from tc.tuner.trials import Limits, Outcome, plain

_SAMPLE_NS = 500_000  # a sample is at least so long, or one call
_PAIR_SECONDS = 2.0  # for the rounds of a candidate, if these are enough to tell
PROCESSES = 3  # pairs of them that the winner has to win in
_GRACE = 2.0  # seconds after a deadline in which the answer that it has passed comes


class IncumbentFailed(Exception):
    """The kernel that a candidate is compared with has failed: `status` and `problem` say how."""

    def __init__(self, status: Status, problem: str) -> None:
        super().__init__(problem)
        self.status: Status = status
        self.problem = problem


class ChallengerFailed(Exception):
    """The kernel that is compared with another has failed: `status` and `problem` say how."""

    def __init__(self, status: Status, problem: str) -> None:
        super().__init__(problem)
        self.status: Status = status
        self.problem = problem


class EndedError(Exception):
    """A child answered otherwise than asked."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event


class Stopped(Exception):
    """The budget has ended in the middle."""


@dataclass
class Bench:
    """Measures candidates of a farm; `left` says how many seconds of the budget there are."""

    farm: Farm
    limits: Limits
    left: Callable[[], float]
    late: list[Event] = field(default_factory=list[Event])  # events of other candidates
    alive: dict[Options, int] = field(default_factory=dict[Options, int])  # those ready to be timed

    # ---- children

    def start(self, options: Options, prune_at: float | None = None) -> int:
        """Begin to compile a candidate; its number."""
        return self.farm.start(plain(options), self.limits.compile_seconds, prune_at)

    def event(self, seconds: float) -> Event | None:
        """The next event of any candidate."""
        return self.late.pop(0) if self.late else self.farm.poll(seconds)

    def answer(self, number: int, seconds: float) -> Event:
        """The next event of a candidate, which has so many seconds; Stopped where the budget ends first."""
        early = next((e for e in self.late if e["id"] == number), None)
        if early is not None:
            self.late.remove(early)
            return early
        e = self.farm.wait(number, max(0.0, min(seconds + _GRACE, self.left())), self.late)
        if e is None:
            raise Stopped
        return e

    def forget(self, number: int) -> None:
        """A child has ended."""
        for o in [o for o, n in self.alive.items() if n == number]:
            del self.alive[o]

    def keep(self, options: Options, number: int) -> None:
        """Let a child live on as the incumbent, and end the one before it."""
        for n in self.alive.values():
            if n != number:
                self.farm.kill(n)
        self.alive = {options: number}

    def compiled(self, number: int) -> Event:
        """Wait for a candidate to be compiled, or not."""
        return self.answer(number, self.limits.compile_seconds)

    def revive(self, options: Options) -> int:
        """A child that has these options and is right; IncumbentFailed where there is none."""
        if options in self.alive:
            return self.alive[options]
        number = self.start(options)
        try:
            e = self.compiled(number)
            if e["event"] == "compiled":
                self.farm.tell(number, self.limits.run_seconds, do="check")
                e = self.answer(number, self.limits.run_seconds)
        except Stopped:
            self.farm.kill(number)
            raise
        if e["event"] != "checked" or e["problem"]:
            self.farm.kill(number)
            raise IncumbentFailed(*verdict(e))
        self.alive[options] = number
        return number

    # ---- measuring

    def default(self, options: Options) -> Outcome:
        """The default, whose results are kept to compare others with; they are judged by the oracle."""
        number = self.start(options)
        e = self.compiled(number)
        made = Outcome(
            "refused", predicted=e.get("predicted"), compile_s=e.get("seconds"), code=e.get("code", "")
        )
        if e["event"] == "compiled":
            # The oracle computes some elements of each result first, which takes as long as it takes.
            self.farm.tell(number, 30 * self.limits.run_seconds, do="check", save=True)
            e = self.answer(number, 30 * self.limits.run_seconds)
        if e["event"] == "checked" and not e["problem"]:
            self.alive[options] = number
            try:
                ns = self.time(number, 5)
            except EndedError as ended:
                e = ended.event
            else:
                return replace(made, status="ok", ns=tuple(ns), cost=float(statistics.median(ns)))
        self.forget(number)
        self.farm.kill(number)
        status, problem = verdict(e)
        return replace(made, status=status, problem=problem)

    def time(self, number: int, samples: int) -> list[int]:
        """Times of calls of a child."""
        seconds = self.limits.run_seconds
        self.farm.tell(number, seconds, do="time", samples=samples, least_ns=_SAMPLE_NS, most_s=seconds / 4)
        e = self.answer(number, seconds)
        if e["event"] != "timed":
            raise EndedError(e)
        return [int(x) for x in e["ns"]]

    def measure(self, number: int, compiled: Event, incumbent: Options, best: float | None) -> Outcome:
        """Check a compiled candidate, and time it beside the incumbent, whose cost is `best`; it is given up
        early where it cannot win.  Raises Stopped, and IncumbentFailed."""
        made = Outcome(
            "ok", predicted=compiled.get("predicted"), compile_s=compiled["seconds"], code=compiled["code"]
        )
        try:
            self.farm.tell(number, self.limits.run_seconds, do="check")
            e = self.answer(number, self.limits.run_seconds)
            if e["event"] != "checked" or e["problem"]:
                raise EndedError(e)
            few: list[int] = []
            for samples, worse in ((1, HOPELESS), (3, SLOWER)):
                few = self.time(number, samples)
                worse = min(worse, SLOW_HOPELESS) if few[0] > SLOW_NS else worse
                if best is not None and min(few) > worse * best:
                    return replace(made, ns=tuple(few), cost=float(statistics.median(few)))
            pairs = self.pairs(number, self.revive(incumbent))
        except EndedError as ended:
            status, problem = verdict(ended.event)
            return replace(made, status=status, problem=problem)
        cost = pairs.ratio * best if best is not None else float(statistics.median(pairs.challenger))
        return replace(made, ns=pairs.challenger, ref_ns=pairs.incumbent, cost=cost, won=pairs.won)

    def pairs(self, number: int, incumbent: int, rounds: int | None = None) -> Paired:
        """Rounds of a candidate and the incumbent in turn: so many, or until it is clear which is faster.

        Slow kernels get fewer, but not fewer than can tell.
        """
        pairs, samples = Paired(), 2
        begun = time.monotonic()
        while len(pairs.ratios) < (rounds or ROUNDS):
            found: dict[int, list[int]] = {}
            for n in (number, incumbent) if len(pairs.ratios) % 2 else (incumbent, number):
                try:
                    found[n] = self.time(n, samples)
                    samples = 1 if found[n][0] > SLOW_NS else samples
                except Stopped:
                    if pairs.won:
                        return pairs
                    raise
                except EndedError as ended:
                    if n != incumbent:
                        raise
                    self.forget(incumbent)
                    raise IncumbentFailed(*verdict(ended.event)) from None
            pairs = pairs.plus(found[number], found[incumbent])
            slow = len(pairs.ratios) >= LEAST_ROUNDS and time.monotonic() - begun > _PAIR_SECONDS
            if rounds is None and (pairs.decided or slow):
                break
        return pairs

    def compare(self, options: Options, base: Options) -> Paired:
        """Rounds of two kernels in several pairs of fresh processes, as where its data lie makes a process
        faster or slower for as long as it lives.  Raises ChallengerFailed, and what `pairs` does; where the
        budget ends, the rounds until then count if they tell."""
        found = Paired()
        for _ in range(PROCESSES):
            for o in (options, base):
                old = self.alive.pop(o, None)
                if old is not None:
                    self.farm.kill(old)
            try:
                number = self._challenger(options)
                some = self.pairs(number, self.revive(base), ROUNDS // PROCESSES)
            except Stopped:
                if found.won:
                    return found
                raise
            except EndedError as ended:
                raise ChallengerFailed(*verdict(ended.event)) from None
            found = Paired((*found.challenger, *some.challenger), (*found.incumbent, *some.incumbent))
            if some.ratio > 1:
                break
        return found

    def _challenger(self, options: Options) -> int:
        try:
            return self.revive(options)
        except IncumbentFailed as e:
            raise ChallengerFailed(e.status, e.problem) from None


def verdict(e: Event) -> tuple[Status, str]:
    """What a child that failed, or ended without an answer, is called."""
    if e["event"] == "checked":
        return "wrong", e["problem"]
    if e["event"] in ("refused", "oom", "pruned"):
        return e["event"], e.get("problem", "predicted to be too slow")
    if e.get("over"):
        return "oom", "takes more memory than it may"
    if e.get("late"):
        return "hang", "takes longer than it may"
    if e.get("signal"):
        return "crash", f"killed by {e['signal']}"
    if e.get("lost"):
        return "crash", "the process that runs candidates died"
    return "crash", f"ended with exit code {e.get('code')}"
