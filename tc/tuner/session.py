"""A search on this machine: candidates compile side by side, and run one at a time beside the best.

What ends it is the budget, the strategy, or Ctrl-C.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tc.options import Options
from tc.tuner.bench import Bench, ChallengerFailed, IncumbentFailed, Stopped, verdict
from tc.tuner.farm import Event, Farm
from tc.tuner.search import Search
from tc.tuner.trials import Candidate, Outcome

_TICK = 0.5  # seconds without an event, after which progress is shown


@dataclass
class Session:
    """A search with a farm."""

    search: Search
    farm: Farm
    bench: Bench = field(init=False)
    _flying: dict[int, Candidate] = field(default_factory=dict[int, Candidate])
    _ready: dict[int, Event] = field(default_factory=dict[int, Event])
    _codes: dict[str, Options] = field(default_factory=dict[str, Options])

    def __post_init__(self) -> None:
        self.bench = Bench(self.farm, self.search.limits, lambda: self.search.left)

    def run(self) -> None:
        """Measure the default, search, and compare the winner with the default once more."""
        search = self.search
        try:
            if not self._measure_default():
                return
            while not search.over:
                self._fill()
                if self._ready:
                    number = next(iter(self._ready))
                    self._measure(number, self._ready.pop(number))
                elif self._flying:
                    e = self.bench.event(min(_TICK, max(0.0, search.searching)))
                    if e is not None:
                        self._handle(e)
                    search.progress()
                else:
                    break
            self._abandon()
            confirm(search, self.bench)
        except Stopped:
            self._abandon()
        except KeyboardInterrupt:
            search.interrupted = True

    def _measure_default(self) -> bool:
        candidate = Candidate(self.search.default, [], "default")
        outcome = self.bench.default(candidate.options)
        self.search.settle(candidate, outcome)
        if outcome.code:
            self._codes[outcome.code] = candidate.options
        return outcome.status == "ok"

    def _fill(self) -> None:
        """Keep as many candidates on their way as there are jobs, and one more."""
        while len(self._flying) < self.search.limits.jobs + 1:
            candidate = self.search.next()
            if candidate is None:
                return
            self._flying[self.bench.start(candidate.options, self.search.prune_at)] = candidate

    def _handle(self, e: Event) -> None:
        """An event of a candidate that compiles."""
        number = int(e["id"])
        if number not in self._flying:
            if e["event"] == "ended":
                self.bench.forget(number)
        elif e["event"] == "compiled":
            self.search.saw(e.get("predicted"))
            self._ready[number] = e
        else:
            self._ready.pop(number, None)
            status, problem = verdict(e)
            self._settle(number, Outcome(status, problem, predicted=e.get("predicted")))

    def _measure(self, number: int, compiled: Event) -> None:
        """Measure a candidate, the others held; equal machine code is not measured twice."""
        same = self._codes.get(compiled["code"])
        if same is not None and same in self.search.costs:
            self._settle(number, self._as(same, compiled))
            return
        others = [n for n in self._flying if n != number and n not in self._ready]
        if self.search.limits.quiet:
            self.farm.hold(others)
        try:
            self._judge(number, compiled)
        finally:
            if self.search.limits.quiet:
                self.farm.release(others)

    def _judge(self, number: int, compiled: Event) -> None:
        search, bench = self.search, self.bench
        while True:
            best = search.best
            try:
                outcome = bench.measure(number, compiled, best, search.costs.get(best))
            except Stopped:
                self.farm.kill(number)
                search.drop(self._flying.pop(number))
                return
            except IncumbentFailed as e:
                if best == search.default:
                    raise Stopped from e  # nothing can be compared any more
                search.fails(best, e.status, e.problem)
                continue
            break
        options = self._flying[number].options
        if compiled["code"]:
            self._codes.setdefault(compiled["code"], options)
        if outcome.won:
            bench.keep(options, number)
        self._settle(number, outcome, keep=outcome.won)

    def _as(self, same: Options, compiled: Event) -> Outcome:
        """What came of other options with the same machine code."""
        before = next(t for t in self.search.trials if t.options == same)
        cost = self.search.costs[same]
        status = before.status if cost is not None or before.status != "ok" else "crash"
        problem = "" if status == "ok" else before.problem or f"has the same machine code as {same!r}"
        return Outcome(
            status,
            problem,
            before.record.ns,
            cost=cost,
            predicted=compiled.get("predicted"),
            compile_s=compiled["seconds"],
            code=compiled["code"],
        )

    def _settle(self, number: int, outcome: Outcome, *, keep: bool = False) -> None:
        if not keep:
            self.farm.kill(number)
        self.search.settle(self._flying.pop(number), outcome)

    def _abandon(self) -> None:
        for number, candidate in self._flying.items():
            self.farm.kill(number)
            self.search.drop(candidate)
        self._flying.clear()
        self._ready.clear()


def confirm(search: Search, bench: Bench) -> None:
    """The winner beside the default in fresh processes: it is the best only if it wins again.

    Where the budget ends before that, the rounds that it won in the search count.
    """
    while search.best != search.default:
        try:
            pairs = bench.compare(search.best, search.default)
        except (Stopped, IncumbentFailed):
            return
        except ChallengerFailed as e:
            search.fails(search.best, e.status, e.problem)
            continue
        search.confirm(pairs)
        return
    search.confirm(None)
