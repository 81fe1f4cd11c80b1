"""A search over the workers of Dask: those with the resource `tc-compile` compile, those with `tc-measure`
measure, one candidate at a time.

This process decides what runs where, since a candidate belongs to a worker: where one dies its candidate is
tried once more elsewhere, and workers that join take part.  What they find goes into the records here.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any

from tc.errors import BackendError
from tc.options import Options
from tc.pipeline.load import versions
from tc.tuned.pairs import Paired
from tc.tuner import worker
from tc.tuner.child import Job
from tc.tuner.search import Search
from tc.tuner.trials import Candidate, Outcome, plain
from tc.tuner.worker import Files, Reply, Task

_LOG = logging.getLogger("tc")
COMPILE, MEASURE = "tc-compile", "tc-measure"
_TICK = 0.2  # seconds between looks at the workers
_QUEUE = 2  # compiled candidates for each worker that measures
_GRACE = 5.0  # seconds beyond the budget until an answer is given up
_LOST = ("cancelled", "lost")  # what becomes of a task whose worker, or whose data, went away


def connect(address: str, timeout: str = "20s") -> Any:
    """A client of a scheduler."""
    try:
        return _distributed().Client(address, timeout=timeout)
    except OSError as e:
        raise BackendError(
            f"no Dask scheduler answers at {address}: {e}",
            code="TC0824",
            help="start one: dask scheduler",
        ) from None


def _distributed() -> Any:
    try:
        import distributed  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BackendError(
            "a search on several machines needs dask.distributed, which is not installed",
            code="TC0822",
            help="pip install 'tensor-comprehensions[distributed]'",
        ) from None
    return distributed


def run_on(client: Any, search: Search, job: Job) -> None:
    """The whole search."""
    run = _Run(client, search, job, _distributed())
    try:
        run.run()
    except KeyboardInterrupt:
        search.interrupted = True
    finally:
        run.close()


@dataclass
class _Flight:
    """A task on a worker."""

    future: Any
    address: str
    kind: str
    candidate: Candidate | None = None
    incumbent: Options | None = None


@dataclass
class _Run:
    client: Any
    search: Search
    job: Job
    distributed: Any
    workers: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    refused: set[str] = field(default_factory=set[str])
    flights: list[_Flight] = field(default_factory=list[_Flight])
    compiled: list[tuple[Candidate, Reply]] = field(default_factory=list[tuple[Candidate, Reply]])
    files: dict[Options, Files] = field(default_factory=dict[Options, Files])
    codes: dict[str, Options] = field(default_factory=dict[str, Options])

    def __post_init__(self) -> None:
        search = self.search
        session = search.template.session
        self.base = Task(session, self.job, search.limits, {}, 0.0)
        self.shipped: Any = None

    # ---- workers

    def look(self) -> None:
        """Who is there: those that join are asked what they are; of those that left the candidates are tried
        again."""
        # Not `client.scheduler_info`: every two seconds the client replaces what that returns by an answer
        # without workers.
        client = self.client
        info: Mapping[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        for address in [a for a in self.workers if a not in info]:
            del self.workers[address]
            self.lost(address)
        new = [a for a in info if a not in self.workers and a not in self.refused]
        roles = {a: frozenset({COMPILE, MEASURE} & set(info[a].get("resources", {}))) for a in new}
        asked = [a for a in new if roles[a]]
        self.refused |= {a for a in new if not roles[a]}
        if not asked:
            return
        options = plain(self.search.default)
        found = self.client.run(
            worker.facts, self.job.backend, options, workers=asked, on_error="return", nanny=False
        )
        for address, facts in found.items():
            problem = self.problem(facts, roles[address])
            if problem:
                self.refused.add(address)
                _LOG.warning("the worker %s takes no part: %s", address, problem)
            else:
                self.workers[address] = roles[address]

    def problem(self, facts: Any, roles: frozenset[str]) -> str:
        """Why a worker cannot take part; empty if it can."""
        if not isinstance(facts, dict):
            return f"it fails: {facts}"
        known: dict[str, Any] = facts  # pyright: ignore[reportUnknownVariableType]
        if known["versions"] != list(versions()):
            return "it has another version of tc or of what compiles"
        if MEASURE not in roles:
            return ""
        if not known["machine"]:
            return f"the backend '{self.job.backend}' cannot run there"
        measuring = any(MEASURE in r for r in self.workers.values())
        template = self.search.template
        if known["machine"] != template.machine:
            if measuring or self.search.trials:
                return "it is another machine than those that measure already"
            self.search.template = replace(template, machine=known["machine"])
        return ""

    def free(self, role: str) -> list[str]:
        """Workers of a role that have nothing to do."""
        busy = {f.address for f in self.flights}
        return [a for a, roles in self.workers.items() if role in roles and a not in busy]

    def lost(self, address: str) -> None:
        """A worker has died: its candidate is tried once more, and failed if it dies again."""
        for f in [f for f in self.flights if f.address == address]:
            self.flights.remove(f)
            f.future.cancel()
            self.again(f)

    def again(self, f: _Flight) -> None:
        """Try the candidate of a task that went away once more."""
        if f.candidate is not None and not self.search.again(f.candidate):
            self.search.settle(f.candidate, Outcome("crash", "the worker that ran it died, twice"))

    # ---- tasks

    def submit(self, kind: str, function: Any, address: str, task: Task, *rest: Any, **more: Any) -> None:
        role = COMPILE if kind == "compile" else MEASURE
        if self.shipped is None or self.shipped.status in _LOST:
            self.shipped = self.client.scatter(self.job, broadcast=True, hash=False)
        future = self.client.submit(
            _call,
            function,
            replace(task, job=None),  # type: ignore[arg-type]
            self.shipped,
            *rest,
            pure=False,
            retries=0,
            workers=[address],
            allow_other_workers=False,
            resources={role: 1},
        )
        self.flights.append(_Flight(future, address, kind, **more))

    def task(self, options: Options, **more: Any) -> Task:
        return worker.as_task(self.base, options, min(self.search.left, 1e6), **more)

    def done(self, seconds: float) -> list[_Flight]:
        """Flights that have ended, waiting at most so long for one."""
        if self.flights:
            futures = [f.future for f in self.flights]
            with contextlib.suppress(TimeoutError, CancelledError):
                self.distributed.wait(futures, timeout=max(0.01, seconds), return_when="FIRST_COMPLETED")
        ended = [f for f in self.flights if f.future.status in ("finished", "error", *_LOST)]
        self.flights = [f for f in self.flights if f not in ended]
        return ended

    def reply(self, f: _Flight) -> Reply:
        """What a flight brought; a task that raised is a candidate that failed."""
        if f.future.status == "finished":
            return f.future.result()
        error = f.future.exception() if f.future.status == "error" else f.future.status
        return Reply(Outcome("crash", f"the task failed: {error}"))

    # ---- the search

    def run(self) -> None:
        search = self.search
        self.look()
        for role in (COMPILE, MEASURE):
            if not self.free(role):
                raise BackendError(
                    f"no worker of the scheduler has the resource {role}",
                    code="TC0824",
                    help=f'start some: dask worker ADDRESS --nthreads 1 --resources "{role}=1"',
                )
        if not self.first():
            return
        while not search.over:
            self.fill()
            if not self.flights and not self.compiled and search.next_is_over:
                break
            for f in self.done(min(_TICK, max(0.01, search.searching))):
                self.handle(f)
            self.look()
            search.progress()
        for f in self.flights:
            f.future.cancel()
            if f.candidate is not None:
                search.drop(f.candidate)
        self.flights.clear()
        for candidate, _ in self.compiled:
            search.drop(candidate)
        self.confirm()

    def first(self) -> bool:
        """Measure the default; a worker that dies meanwhile is replaced by another."""
        candidate = Candidate(self.search.default, [], "default")
        reply = self.ask(worker.measure_default, self.task(candidate.options))
        if reply is None and self.search.left > 0:
            raise BackendError(
                "all workers that measure went away before they had timed the default",
                code="TC0824",
                help="their logs say why; start others",
            )
        if reply is None or reply.outcome is None:
            return False
        self.search.settle(candidate, reply.outcome)
        if reply.outcome.code:
            self.codes[reply.outcome.code] = candidate.options
        return reply.outcome.status == "ok"

    def ask(self, function: Any, task: Task, *rest: Any) -> Reply | None:
        """The answer of a worker that measures; None where there is none in time."""
        while self.search.left > 0 and (free := self.free(MEASURE)):
            self.submit("ask", function, free[0], task, *rest)
            address = free[0]
            while address in self.workers and self.search.left > -_GRACE:
                ended = self.done(_TICK)
                if ended and ended[0].future.status not in _LOST:
                    return self.reply(ended[0])
                if ended:
                    break
                self.look()
        return None

    def fill(self) -> None:
        """Give every worker something to do."""
        search = self.search
        for address in self.free(MEASURE):
            if not self.compiled:
                break
            candidate, reply = self.compiled.pop(0)
            best = search.best
            self.submit(
                "measure",
                worker.measure_candidate,
                address,
                self.task(candidate.options, files=reply.files),
                plain(search.default),
                plain(best),
                self.files.get(best, {}),
                candidate=candidate,
                incumbent=best,
            )
            self.files[candidate.options] = reply.files
        waiting = _QUEUE * sum(MEASURE in r for r in self.workers.values())
        for address in self.free(COMPILE):
            if len(self.compiled) >= waiting:
                break
            candidate = search.next()
            if candidate is None:
                break
            task = self.task(candidate.options, prune_at=search.prune_at)
            self.submit("compile", worker.compile_candidate, address, task, candidate=candidate)

    def handle(self, f: _Flight) -> None:
        """What a candidate has come to."""
        if f.future.status in _LOST:
            self.again(f)
            return
        search, reply, candidate = self.search, self.reply(f), f.candidate
        assert candidate is not None
        if reply.over:
            search.drop(candidate)
        elif f.kind == "compile" and reply.outcome is None:
            search.saw(reply.event.get("predicted"))
            same = self.codes.get(reply.event.get("code", ""))
            if same is not None and search.costs.get(same) is not None:
                search.settle(candidate, self.as_other(same, reply))
            else:
                self.compiled.append((candidate, reply))
        elif reply.failed and reply.outcome is not None and f.incumbent is not None:
            if f.incumbent != search.default and f.incumbent == search.best:
                search.fails(f.incumbent, reply.outcome.status, reply.outcome.problem)
            if not search.again(candidate):
                search.settle(candidate, Outcome("crash", reply.outcome.problem))
        elif reply.outcome is not None:
            search.settle(candidate, self.scaled(reply.outcome, f, reply), f.incumbent)
            if reply.outcome.code:
                self.codes.setdefault(reply.outcome.code, candidate.options)
            kept = (search.best, candidate.options)
            self.files = {o: x for o, x in self.files.items() if o in kept or o in search.flying}

    def as_other(self, same: Options, reply: Reply) -> Outcome:
        """What came of other options with the same machine code."""
        before = next(t for t in self.search.trials if t.options == same)
        return Outcome(
            "ok",
            ns=before.record.ns,
            cost=self.search.costs[same],
            predicted=reply.event.get("predicted"),
            code=reply.event["code"],
        )

    def scaled(self, outcome: Outcome, f: _Flight, reply: Reply) -> Outcome:
        """The outcome with a cost in the times of the search, not of one worker.  It has won only if what it
        beat is still the best."""
        best = self.search.costs.get(f.incumbent) if f.incumbent is not None else None
        cost = outcome.cost
        if cost is not None and best is not None and reply.incumbent:
            cost = cost / reply.incumbent * best
        won = outcome.won
        now = self.search.costs.get(self.search.best)
        if won and f.incumbent != self.search.best:
            won = cost is not None and now is not None and cost < now
        return replace(outcome, cost=cost, won=won)

    def confirm(self) -> None:
        """The winner once more beside the default, as in a search on one machine."""
        search = self.search
        while search.best != search.default:
            task = self.task(search.best, files=self.files.get(search.best, {}))
            reply = self.ask(worker.confirm_winner, task, plain(search.default))
            if reply is None or reply.over or reply.failed or reply.outcome is None:
                return
            outcome = reply.outcome
            if outcome.status != "ok":
                search.fails(search.best, outcome.status, outcome.problem)
                continue
            search.confirm(Paired(outcome.ns, outcome.ref_ns))
            return
        search.confirm(None)

    def close(self) -> None:
        """Cancel what still runs, and end the farms of the workers."""
        for f in self.flights:
            f.future.cancel()
        alive = list(self.workers)
        if alive:
            self.client.run(worker.close, self.base.session, workers=alive, on_error="ignore", nanny=False)


def _call(function: Any, task: Task, job: Job, *rest: Any) -> Reply:
    """Put a task and the job, which each worker was sent once, together."""
    return function(replace(task, job=job), *rest)
