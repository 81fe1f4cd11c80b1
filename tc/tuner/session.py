"""A search: proposals become children, which compile side by side, and run one at a time beside the best.

What ends it is the budget, the strategy, or Ctrl-C; all that was measured is on disk by then.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tc.errors import CacheNotice, Error, warn
from tc.options import Options
from tc.tuned.records import Record, Records, Status
from tc.tuner.farm import Event, Farm
from tc.tuner.measure import HOPELESS, SLOWER, Paired
from tc.tuner.space import Point, Space
from tc.tuner.strategies import Strategy

_SAMPLE_NS = 500_000  # a sample is at least so long, or one call
_ROUNDS, _MOST_ROUNDS, _LAST_ROUNDS = 3, 15, 15
_REPEATS = 2000  # proposals in a row that are known already, after which the search ends
_RESERVE, _MOST_RESERVE = 0.1, 6.0  # of the budget for the last comparison: a share, and seconds at most
PRUNE = 4.0  # times the best predicted cost, from which a candidate is not tried


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may use: seconds, candidates, and for each candidate seconds and bytes."""

    seconds: float | None
    trials: int | None
    compile_seconds: float = 60.0
    run_seconds: float = 10.0
    jobs: int = 1
    quiet: bool = True  # compiles are held while a candidate is measured
    prune: float | None = PRUNE


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate and what came of it; `cost` is its time in nanoseconds, put right by that of the kernel it
    was interleaved with; None where it failed."""

    options: Options
    record: Record
    cost: float | None
    elapsed: float

    @property
    def seconds(self) -> float | None:
        """Seconds of a call."""
        return None if self.cost is None else self.cost / 1e9

    @property
    def status(self) -> Status:
        return self.record.status

    @property
    def problem(self) -> str:
        return self.record.problem

    @property
    def predicted(self) -> float | None:
        return self.record.predicted


@dataclass
class _Waiting:
    """A candidate on its way."""

    options: Options
    points: list[Point]
    origin: str
    generation: int
    compiled: Event | None = None


@dataclass
class Progress:
    """What a search has come to, for those who watch."""

    elapsed: float = 0.0
    budget: float | None = None
    tried: int = 0
    trials: int | None = None
    default: float | None = None
    best: float | None = None
    bound: float | None = None
    failed: int = 0
    origin: str = ""


@dataclass
class Session:
    """The state of a search."""

    farm: Farm
    space: Space
    strategy: Strategy
    limits: Limits
    template: Record
    records: Records | None
    known: Mapping[Options, Record]
    begun: float
    show: Callable[[Progress], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    trials: list[Trial] = field(default_factory=list[Trial])
    costs: dict[Options, float | None] = field(default_factory=dict[Options, float | None])
    default: Options = field(init=False)
    best: Options = field(init=False)
    final: Paired = field(default_factory=Paired)
    interrupted: bool = False
    repeats: int = 0
    _flying: dict[int, _Waiting] = field(default_factory=dict[int, _Waiting])
    _ready: list[int] = field(default_factory=list[int])
    _alive: dict[Options, int] = field(default_factory=dict[Options, int])
    _codes: dict[str, Options] = field(default_factory=dict[str, Options])
    _late: list[Event] = field(default_factory=list[Event])
    _predicted: float | None = None  # the least predicted cost
    _kept_back: bool = False  # records could not be written, which was said

    def __post_init__(self) -> None:
        self.default = self.best = self.space.fixed

    # ---- time

    @property
    def elapsed(self) -> float:
        return self.clock() - self.begun

    def left(self) -> float:
        """Seconds until the search for candidates ends."""
        if self.limits.seconds is None:
            return float("inf")
        return self.limits.seconds - self._reserve() - self.elapsed

    def _reserve(self) -> float:
        seconds = self.limits.seconds or 0.0
        return min(_RESERVE * seconds, _MOST_RESERVE)

    @property
    def tried(self) -> int:
        """Candidates besides the default that the budget counts."""
        return sum(t.options != self.default and t.status != "pruned" for t in self.trials)

    def _over(self) -> bool:
        most = self.limits.trials
        return self.left() <= 0 or (most is not None and self.tried >= most)

    # ---- the whole search

    def run(self) -> None:
        """Measure the default, search, and compare the winner with the default once more."""
        try:
            self._measure_default()
            while not self._over():
                self._fill()
                if not self._flying and not self._ready:
                    break
                if not self._ready:
                    e = self._next_event(min(0.5, max(0.0, self.left())))
                    if e is not None:
                        self._handle(e)
                    self._progress("")
                    continue
                number = self._ready.pop(0)
                self._measure(number)
            self._abandon()
            self._confirm()
        except KeyboardInterrupt:
            self.interrupted = True

    def _fill(self) -> None:
        """Keep as many candidates on their way as there are jobs, and one more."""
        most = self.limits.trials
        while len(self._flying) + len(self._ready) < self.limits.jobs + 1:
            if most is not None and self.tried + len(self._flying) + len(self._ready) >= most:
                return
            proposal = self.strategy.ask()
            if proposal is None:
                return
            try:
                options = self.space.options(proposal.point)
            except Error:
                self.strategy.tell(proposal.point, None)
                continue
            if options in self.costs:
                self.repeats += 1
                self.strategy.tell(proposal.point, self.costs[options])
                if self.repeats > _REPEATS:
                    return
                continue
            same = next((w for w in self._flying.values() if w.options == options), None)
            if same is not None:
                same.points.append(proposal.point)
                continue
            before = self.known.get(options)
            if before is not None and before.status not in ("ok", "pruned"):
                self._keep_known(options, before, proposal.point)
                continue
            self.repeats = 0
            limit = None
            if self.limits.prune is not None and self._predicted is not None:
                limit = self.limits.prune * self._predicted
            number = self.farm.start(_plain(options), self.limits.compile_seconds, limit)
            waiting = _Waiting(options, [proposal.point], proposal.origin, proposal.generation)
            self._flying[number] = waiting

    def _keep_known(self, options: Options, before: Record, point: Point) -> None:
        """What failed in an earlier session is not tried again."""
        self.costs[options] = None
        self.strategy.tell(point, None)
        self.trials.append(Trial(options, before, None, self.elapsed))

    def _next_event(self, seconds: float) -> Event | None:
        if self._late:
            return self._late.pop(0)
        return self.farm.poll(seconds)

    def _handle(self, e: Event) -> None:
        """An event of a candidate that compiles."""
        number = int(e["id"])
        waiting = self._flying.get(number)
        if waiting is None:
            if e["event"] == "ended":
                self._forget(number)
            return
        match e["event"]:
            case "compiled":
                waiting.compiled = e
                if e.get("predicted") is not None:
                    self._predicted = min(e["predicted"], self._predicted or e["predicted"])
                self._ready.append(number)
            case "pruned":
                self._judge(number, "pruned", "predicted to be too slow", predicted=e["predicted"])
            case "refused" | "oom":
                self._judge(number, e["event"], e["problem"])
            case "ended":
                self._forget(number)
                if number in self._ready:
                    self._ready.remove(number)
                self._judge(number, *_verdict(e))
            case _:
                pass

    def _forget(self, number: int) -> None:
        for o in [o for o, n in self._alive.items() if n == number]:
            del self._alive[o]

    # ---- measuring

    def _measure_default(self) -> None:
        """The default is right by the oracle, or nothing is tuned."""
        number = self._revive(self.default, first=True)
        if number is None:
            return
        ns = self._time(number, 5)
        if ns is None:
            return
        self.costs[self.default] = statistics.median(ns)
        compiled = self._compiled_default
        self._record(self.default, "ok", "", "default", ns=ns, compiled=compiled)
        self._progress("default")

    _compiled_default: Event | None = None

    def _revive(self, options: Options, *, first: bool = False) -> int | None:
        """A child that has these options and is ready to be timed; None where that is impossible."""
        if options in self._alive:
            return self._alive[options]
        number = self.farm.start(_plain(options), self.limits.compile_seconds)
        e = self._answer(number, self.limits.compile_seconds + 5)
        if e is None or e["event"] != "compiled":
            self._failed_default(options, e, first)
            return None
        if first:
            self._compiled_default = e
            self._predicted = e.get("predicted")
            if e.get("code"):
                self._codes[e["code"]] = options
        self.farm.tell(number, 30 * self.limits.run_seconds, do="check", save=first)
        checked = self._answer(number, 30 * self.limits.run_seconds + 5)
        if checked is None or checked["event"] != "checked" or checked["problem"]:
            self._failed_default(options, checked, first)
            self.farm.kill(number)
            return None
        self._alive[options] = number
        return number

    def _failed_default(self, options: Options, e: Event | None, first: bool) -> None:
        if e is None or not first:
            return
        status, problem = _verdict(e) if e["event"] != "checked" else ("wrong", e["problem"])
        if e["event"] in ("refused", "oom"):
            status, problem = e["event"], e["problem"]
        self.costs[options] = None
        self._record(options, status, problem, "default")

    def _answer(self, number: int, seconds: float) -> Event | None:
        """The next event of a candidate that is not abandoned when the budget ends."""
        return self.farm.wait(number, seconds, self._late)

    def _within(self, seconds: float) -> float:
        """So many seconds, or as many as are left."""
        if self.limits.seconds is None:
            return seconds
        return max(0.0, min(seconds, self.limits.seconds - self.elapsed))

    def _time(self, number: int, samples: int) -> list[int] | None:
        """Times of calls of a child; None where it failed or the budget ended."""
        seconds = self.limits.run_seconds
        self.farm.tell(number, seconds, do="time", samples=samples, least_ns=_SAMPLE_NS, most_s=seconds / 4)
        e = self._answer(number, self._within(seconds + 2))
        if e is None or e["event"] != "timed":
            self._last = e
            return None
        return [int(x) for x in e["ns"]]

    _last: Event | None = None

    def _measure(self, number: int) -> None:
        """Check a candidate and time it beside the best, the others held."""
        waiting = self._flying[number]
        compiled = waiting.compiled or {}
        code = compiled.get("code")
        if code and code in self._codes and self._codes[code] in self.costs:
            same = self._codes[code]
            self._share(number, same)
            return
        others = [n for n in self._flying if n != number and n not in self._ready]
        if self.limits.quiet:
            self.farm.hold(others)
        try:
            self._run_candidate(number, waiting)
        finally:
            if self.limits.quiet:
                self.farm.release(others)
        if code:
            self._codes.setdefault(code, waiting.options)

    def _share(self, number: int, same: Options) -> None:
        """Equal machine code has equal times."""
        before = next((t for t in self.trials if t.options == same), None)
        cost = self.costs[same]
        status: Status = before.record.status if before is not None else "ok"
        problem = before.record.problem if before is not None else ""
        ns = before.record.ns if before is not None else ()
        ref = before.record.ref_ns if before is not None else ()
        self._judge(number, status, problem, ns=ns, ref_ns=ref, cost=cost)

    def _run_candidate(self, number: int, waiting: _Waiting) -> None:
        seconds = self.limits.run_seconds
        self.farm.tell(number, seconds, do="check")
        e = self._answer(number, self._within(seconds + 2))
        if e is None:
            return self._drop(number)
        if e["event"] != "checked":
            return self._judge_event(number, e)
        if e["problem"]:
            return self._judge(number, "wrong", e["problem"])
        best = self.costs.get(self.best)
        one = self._time(number, 1)
        if one is None:
            return self._stopped(number)
        if best is not None and min(one) > HOPELESS * best:
            return self._judge(number, "ok", "", ns=one, cost=float(min(one)))
        few = self._time(number, 3)
        if few is None:
            return self._stopped(number)
        if best is not None and min(few) > SLOWER * best:
            return self._judge(number, "ok", "", ns=few, cost=float(statistics.median(few)))
        incumbent = self._revive(self.best)
        if incumbent is None or best is None:
            return self._judge(number, "ok", "", ns=few, cost=float(statistics.median(few)))
        pairs = self._pairs(number, incumbent, _ROUNDS, _MOST_ROUNDS)
        if pairs is None:
            return self._stopped(number)
        cost = pairs.ratio * best
        previous = self.best
        self._judge(
            number, "ok", "", ns=pairs.challenger, ref_ns=pairs.incumbent, cost=cost, keep=pairs.won
        )
        if pairs.won:
            self.best = waiting.options
            self._alive[waiting.options] = number
            old = self._alive.get(previous)
            if old is not None and previous != self.default:
                self.farm.kill(old)
                self._forget(old)
        return None

    def _pairs(self, number: int, incumbent: int, least: int, most: int) -> Paired | None:
        """Rounds of a candidate and the incumbent in turn, more of them where it is close."""
        pairs = Paired()
        for i in range(most):
            order = (number, incumbent) if i % 2 else (incumbent, number)
            found = {n: self._time(n, 2) for n in order}
            a, b = found[number], found[incumbent]
            if b is None and self._alive.get(self.best) == incumbent:
                self._forget(incumbent)
            if a is None or b is None:
                return pairs if len(pairs.ratios) >= least else None
            pairs = pairs.plus(a, b)
            if i + 1 >= least and (pairs.decided or pairs.ratio > 1.02):
                break
            if self.left() <= 0 and i + 1 >= least and most != _LAST_ROUNDS:
                break
        return pairs

    def _stopped(self, number: int) -> None:
        """A candidate that did not answer: it failed, or the budget ended."""
        e, self._last = self._last, None
        if e is not None and int(e["id"]) == number and e["event"] == "ended":
            return self._judge(number, *_verdict(e))
        return self._drop(number)

    def _judge_event(self, number: int, e: Event) -> None:
        if e["event"] in ("refused", "oom"):
            return self._judge(number, e["event"], e["problem"])
        return self._judge(number, *_verdict(e))

    def _drop(self, number: int) -> None:
        """A candidate of which nothing is known, as the budget has ended."""
        self.farm.kill(number)
        self._flying.pop(number, None)

    def _abandon(self) -> None:
        for number in [*self._flying]:
            self._drop(number)
        self._ready.clear()

    def _confirm(self) -> None:
        """The winner in a fresh process beside the default: it is the best only if it wins again."""
        while self.best != self.default and self.costs.get(self.default) is not None:
            old = self._alive.pop(self.best, None)
            if old is not None:
                self.farm.kill(old)
            number, base = self._revive(self.best), self._revive(self.default)
            pairs = None
            if number is not None and base is not None:
                pairs = self._pairs(number, base, 5, _LAST_ROUNDS)
            if pairs is not None and pairs.won:
                self.final = pairs
                ns, ref = pairs.challenger, pairs.incumbent
                self._write(self._made(self.best, "ok", "", "confirm", ns=ns, ref_ns=ref))
                return
            if number is None:
                self.costs[self.best] = None
                problem = "fails in a second process"
                self._write(self._made(self.best, "crash", problem, "confirm"))
                following = sorted(
                    (t for t in self.trials if self.costs.get(t.options) is not None),
                    key=lambda t: self.costs[t.options] or 0.0,
                )
                self.best = following[0].options if following else self.default
                continue
            if pairs is not None:
                self.final = pairs
            self.best = self.default
        ns = next((t.record.ns for t in self.trials if t.options == self.default), ())
        if ns and not self._over_by_far():
            self._write(self._made(self.default, "ok", "", "confirm", ns=ns, ref_ns=ns))

    def _over_by_far(self) -> bool:
        return self.limits.seconds is not None and self.elapsed > 2 * self.limits.seconds

    # ---- verdicts

    def _judge(
        self,
        number: int,
        status: Status,
        problem: str,
        *,
        ns: Sequence[int] = (),
        ref_ns: Sequence[int] = (),
        cost: float | None = None,
        predicted: float | None = None,
        keep: bool = False,
    ) -> None:
        """What became of a candidate: recorded, told to the strategy, and its child ended unless it stays."""
        waiting = self._flying.pop(number)
        if number in self._ready:
            self._ready.remove(number)
        if not keep:
            self.farm.kill(number)
        self.costs[waiting.options] = cost if status == "ok" else None
        self._record(
            waiting.options,
            status,
            problem,
            waiting.origin,
            ns=ns,
            ref_ns=ref_ns,
            cost=cost if status == "ok" else None,
            compiled=waiting.compiled or {"predicted": predicted},
            generation=waiting.generation,
        )
        for point in waiting.points:
            self.strategy.tell(point, self.costs[waiting.options])
        self._progress(waiting.origin)

    def _record(
        self,
        options: Options,
        status: Status,
        problem: str,
        origin: str,
        *,
        ns: Sequence[int] = (),
        ref_ns: Sequence[int] = (),
        cost: float | None = None,
        compiled: Event | None = None,
        generation: int = 0,
    ) -> None:
        record = self._made(options, status, problem, origin, ns, ref_ns, compiled, generation)
        if cost is None and status == "ok" and ns:
            cost = float(statistics.median(ns))
        self.trials.append(Trial(options, record, cost, self.elapsed))
        self._write(record)

    def _made(
        self,
        options: Options,
        status: Status,
        problem: str,
        origin: str,
        ns: Sequence[int] = (),
        ref_ns: Sequence[int] = (),
        compiled: Event | None = None,
        generation: int = 0,
    ) -> Record:
        e = compiled or {}
        load = 0.0
        with contextlib.suppress(OSError):
            load = os.getloadavg()[0]
        ref = self.default if origin == "confirm" else self.best
        return replace(
            self.template,
            options=_plain(options),
            status=status,
            problem=problem,
            origin=origin,
            predicted=e.get("predicted"),
            compile_s=round(e["seconds"], 4) if "seconds" in e else None,
            code=e.get("code", ""),
            ns=tuple(ns),
            ref_ns=tuple(ref_ns),
            ref=_plain(ref) if ref_ns else {},
            time=round(time.time(), 3),
            generation=generation,
            load=round(load, 2),
        )

    def _write(self, record: Record) -> None:
        """Append to the records; where that is impossible the search goes on without."""
        if self.records is None:
            return
        try:
            self.records.append(record)
        except OSError as e:
            if not self._kept_back:
                self._kept_back = True
                where = self.records.directory
                warn(CacheNotice(f"measurements are not kept: {where}: {e.strerror or e}"), stacklevel=None)

    def _progress(self, origin: str) -> None:
        default, best = self.costs.get(self.default), self.costs.get(self.best)
        self.show(
            Progress(
                self.elapsed,
                self.limits.seconds,
                self.tried,
                self.limits.trials,
                default,
                best,
                self._predicted,
                sum(t.status not in ("ok", "pruned") for t in self.trials),
                origin,
            )
        )


def _plain(options: Options) -> dict[str, Any]:
    """Options as JSON has them."""
    return json.loads(options.to_json())


def _verdict(e: Event) -> tuple[Status, str]:
    """What a child that ended without an answer is called."""
    if e.get("over"):
        return "oom", "takes more memory than it may"
    if e.get("late"):
        return "hang", "takes longer than it may"
    if e.get("signal"):
        return "crash", f"killed by {e['signal']}"
    if e.get("lost"):
        return "crash", "the process that runs candidates died"
    return "crash", f"ended with exit code {e.get('code')}"
