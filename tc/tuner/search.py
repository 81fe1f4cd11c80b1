"""The state of a search, whoever runs its candidates: what to try next, what came of it, what is the best.

All that is measured is on disk at once.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tc.errors import CacheNotice, Error, warn
from tc.options import Options
from tc.tuned.pairs import Paired
from tc.tuned.records import Record, Records, Status
from tc.tuner.space import Space
from tc.tuner.strategies import Strategy
from tc.tuner.trials import Candidate, Limits, Outcome, Progress, Trial, plain

_REPEATS = 2000  # proposals in a row that are known already, after which the search ends
_LEAST_RESERVE, _MOST_RESERVE = 0.08, 0.4  # of the budget, for the last comparison
_LAST_CALLS = 60  # of the default, that the last comparison takes about as long as


@dataclass
class Search:
    """A search over a space; `template` has what all its records have in common, `known` what earlier ones
    found."""

    space: Space
    strategy: Strategy
    limits: Limits
    template: Record
    records: Records | None
    known: Mapping[Options, Record]
    begun: float
    anew: frozenset[Options] = frozenset()  # these are measured, even if they are known
    show: Callable[[Progress], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    trials: list[Trial] = field(default_factory=list[Trial])
    costs: dict[Options, float | None] = field(default_factory=dict[Options, float | None])
    flying: dict[Options, Candidate] = field(default_factory=dict[Options, Candidate])
    default: Options = field(init=False)
    best: Options = field(init=False)
    final: Paired = field(default_factory=Paired)
    interrupted: bool = False
    exhausted: bool = False  # the strategy has no more to propose
    predicted: float | None = None  # the least cost that the model has predicted
    _repeats: int = 0
    _silent: bool = False  # records could not be written, which was said
    _again: list[Candidate] = field(default_factory=list[Candidate])

    def __post_init__(self) -> None:
        self.default = self.best = self.space.fixed

    # ---- time

    @property
    def elapsed(self) -> float:
        return self.clock() - self.begun

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return float("inf") if self.limits.seconds is None else self.limits.seconds - self.elapsed

    @property
    def searching(self) -> float:
        """Seconds in which candidates may still be tried: what is needed to compare the winner with the
        default is set aside."""
        if self.limits.seconds is None:
            return float("inf")
        call = (self.costs.get(self.default) or 0.0) / 1e9
        reserve = max(_LEAST_RESERVE * self.limits.seconds, _LAST_CALLS * call + 1.0)
        return self.left - min(reserve, _MOST_RESERVE * self.limits.seconds)

    @property
    def tried(self) -> int:
        """Candidates that the budget counts: the default is none, nor is what was not run."""
        mine = (t for t in self.trials if t.record.session == self.template.session)
        return sum(t.options != self.default and t.status != "pruned" for t in mine)

    @property
    def over(self) -> bool:
        most = self.limits.trials
        return self.searching <= 0 or (most is not None and self.tried >= most)

    @property
    def prune_at(self) -> float | None:
        """The predicted cost from which a candidate is not tried."""
        if self.limits.prune is None or self.predicted is None:
            return None
        return self.limits.prune * self.predicted

    # ---- candidates

    def next(self) -> Candidate | None:
        """What to try next; None if there is nothing, or nothing yet."""
        if self._again:
            return self._again.pop(0)
        most = self.limits.trials
        while most is None or self.tried + len(self.flying) < most:
            proposal = self.strategy.ask()
            if proposal is None:
                self.exhausted = not self.flying
                return None
            try:
                options = self.space.options(proposal.point)
            except Error:
                self.strategy.tell(proposal.point, None)
                continue
            if options in self.costs:
                self._repeats += 1
                self.strategy.tell(proposal.point, self.costs[options])
                if self._repeats > _REPEATS:
                    self.exhausted = True
                    return None
                continue
            same = self.flying.get(options)
            if same is not None:
                same.points.append(proposal.point)
                continue
            candidate = Candidate(options, [proposal.point], proposal.origin, proposal.generation)
            before = self.known.get(options)
            if before is not None and before.status != "pruned" and self._is_known(candidate, before):
                continue
            self._repeats = 0
            self.flying[options] = candidate
            return candidate
        return None

    def _is_known(self, candidate: Candidate, before: Record) -> bool:
        """Whether an earlier session settled a candidate: what has failed is never tried again, and what was
        measured only if it may be the best."""
        if before.status == "ok" and (candidate.options in self.anew or not before.ns):
            return False
        cost = before.median
        self.costs[candidate.options] = cost
        self.trials.append(Trial(candidate.options, before, cost, self.elapsed))
        for point in candidate.points:
            self.strategy.tell(point, cost)
        return True

    @property
    def next_is_over(self) -> bool:
        """Whether nothing is on its way and the strategy has no more to propose."""
        return not self.flying and not self._again and self.exhausted

    def again(self, candidate: Candidate) -> bool:
        """Try a candidate once more, whose worker died; False if that was the second time."""
        if candidate.retried:
            return False
        candidate.retried = True
        self._again.append(candidate)
        return True

    def drop(self, candidate: Candidate) -> None:
        """Forget a candidate of which nothing is known, as the budget has ended."""
        self.flying.pop(candidate.options, None)

    def saw(self, predicted: float | None) -> None:
        """The model has predicted this of a candidate."""
        if predicted is not None:
            self.predicted = min(predicted, self.predicted or predicted)

    # ---- verdicts

    def settle(self, candidate: Candidate, outcome: Outcome, reference: Options | None = None) -> None:
        """What became of a candidate: recorded, and told to the strategy.  `reference` is what it was
        interleaved with, by default the best."""
        self.flying.pop(candidate.options, None)
        self.saw(outcome.predicted)
        if outcome.status == "ok" and outcome.cost is None:
            outcome = replace(outcome, cost=float(statistics.median(outcome.ns)))
        cost = outcome.cost if outcome.status == "ok" else None
        self.costs[candidate.options] = cost
        record = self.record(candidate, outcome, self.best if reference is None else reference)
        self.trials.append(Trial(candidate.options, record, cost, self.elapsed))
        self.write(record)
        if outcome.won and outcome.status == "ok":
            self.best = candidate.options
        for point in candidate.points:
            self.strategy.tell(point, cost)
        self.progress(candidate.origin)

    def fails(self, options: Options, status: Status, problem: str) -> None:
        """Options that were right have failed since; if they were the best, the next cheapest is: the last
        comparison judges whether it is faster than the default."""
        self.costs[options] = None
        self.write(self.record(Candidate(options, [], "confirm"), Outcome(status, problem), options))
        if options != self.best:
            return
        right = {o: cost for o, cost in self.costs.items() if cost is not None}
        self.best = min(right, key=right.__getitem__, default=self.default)

    def record(self, candidate: Candidate, outcome: Outcome, reference: Options) -> Record:
        load = 0.0
        with contextlib.suppress(OSError):
            load = os.getloadavg()[0]
        return replace(
            self.template,
            options=plain(candidate.options),
            status=outcome.status,
            problem=outcome.problem,
            origin=candidate.origin,
            predicted=outcome.predicted,
            compile_s=None if outcome.compile_s is None else round(outcome.compile_s, 4),
            code=outcome.code,
            ns=tuple(outcome.ns),
            ref_ns=tuple(outcome.ref_ns),
            ref=plain(reference) if outcome.ref_ns else {},
            time=round(time.time(), 6),
            generation=candidate.generation,
            load=round(load, 2),
        )

    def confirm(self, pairs: Paired | None) -> None:
        """The winner has run once more beside the default, which is the best if it did not win; without
        rounds nothing has beaten the default."""
        if pairs is None:
            trial = next((t for t in self.trials if t.options == self.default and t.record.ns), None)
            if trial is None:
                return
            ns = ref_ns = trial.record.ns
        else:
            self.final = pairs
            ref_ns = pairs.incumbent
            ns = pairs.challenger if pairs.won else ref_ns
            self.best = self.best if pairs.won else self.default
        outcome = Outcome("ok", ns=tuple(ns), ref_ns=tuple(ref_ns))
        self.write(self.record(Candidate(self.best, [], "confirm"), outcome, self.default))

    def write(self, record: Record) -> None:
        """Append to the records; where that is impossible the search goes on without."""
        if self.records is None:
            return
        try:
            self.records.append(record)
        except OSError as e:
            if not self._silent:
                self._silent = True
                where = self.records.directory
                warn(CacheNotice(f"measurements are not kept: {where}: {e.strerror or e}"), stacklevel=None)

    def progress(self, origin: str = "") -> None:
        self.show(
            Progress(
                self.elapsed,
                self.limits.seconds,
                self.tried,
                self.limits.trials,
                sum(t.status not in ("ok", "pruned") for t in self.trials),
                self.costs.get(self.default),
                self.costs.get(self.best),
                self.predicted,
                origin,
            )
        )
