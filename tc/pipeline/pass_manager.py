"""The pass manager: runs a list of passes, times and verifies each, records texts, refuses unknown names.

A *pass* is a named function from one state of a compile to the next; states are frozen.  A *search* runs the
passes inside of it once for each candidate that it tries.  A *pass list* is a sequence of both: it is what
runs, and what `python -m tc show passes` prints.

Inside `recording()` every pass records its time and, under `TC_VERIFY=1`, which oracle judged it.  Passes
whose names were given also record the text of the state after them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from tc.errors import InternalError
from tc.support import settings

S = TypeVar("S")


def later() -> Any:
    """A field of a state that a pass sets."""
    return field(default=None)


def changed(state: S, **fields: Any) -> S:
    """The state with these fields; itself, which costs nothing, where it has them already."""
    if all(getattr(state, name) is value for name, value in fields.items()):
        return state
    before: Any = state
    if not hasattr(before, "__dict__"):  # it has slots
        return replace(before, **fields)
    # States have tens of fields and nothing to check: their dictionary is copied, not passed field by field.
    made: Any = object.__new__(type(state))
    made.__dict__.update(before.__dict__, **fields)
    return made


@dataclass(frozen=True)
class Pass(Generic[S]):
    """A named step of a compile.

    `run` maps the state before to the state after and changes neither.  Under `TC_VERIFY=1` `verify` gets
    both.  It raises InternalError where the step was wrong, and returns which oracle judged it, or "" where
    there was nothing to judge.  `show` is the text of the state after the pass.  `file` is the source file of
    the transformation, for readers.
    """

    name: str
    does: str
    file: str
    run: Callable[[S], S]
    show: Callable[[S], str] | None = None
    verify: Callable[[S, S], str] | None = None


@dataclass(frozen=True)
class Search(Generic[S]):
    """A step that runs `passes` for several candidates and continues with one of them.

    `run` gets the state and a function that runs the passes on a state.
    """

    name: str
    does: str
    file: str
    passes: tuple[Pass[S] | Search[S], ...]
    run: Callable[[S, Callable[[S], S]], S]


@dataclass(frozen=True)
class PassList(Generic[S]):
    """Passes in the order in which they run."""

    name: str
    passes: tuple[Pass[S] | Search[S], ...]

    def __post_init__(self) -> None:
        names = self.names
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise InternalError(f"the pass list {self.name} has the pass {twice[0]} twice")

    @property
    def names(self) -> list[str]:
        return [p.name for p, _ in self.walk()]

    def walk(self) -> Iterator[tuple[Pass[S] | Search[S], int]]:
        """All passes in order, each with the number of searches around it."""

        def inside(
            passes: tuple[Pass[S] | Search[S], ...], depth: int
        ) -> Iterator[tuple[Pass[S] | Search[S], int]]:
            for p in passes:
                yield p, depth
                if isinstance(p, Search):
                    yield from inside(p.passes, depth + 1)

        return inside(self.passes, 0)

    def run(self, state: S) -> S:
        """The state after all passes."""
        return self._run_all(self.passes, state, settings.verify())

    def _run_all(self, passes: tuple[Pass[S] | Search[S], ...], state: S, verify: bool) -> S:
        for p in passes:
            state = self._search(p, state, verify) if isinstance(p, Search) else self._pass(p, state, verify)
        return state

    def run_pass(self, p: Pass[S], state: S) -> S:
        """The state after one of these passes, for a search that completes the candidate that it takes."""
        return self._pass(p, state, settings.verify())

    def _pass(self, p: Pass[S], state: S, verify: bool) -> S:
        record = _record.get()
        start = time.perf_counter()
        after = p.run(state)
        end = time.perf_counter()
        oracle, judging = "", 0.0
        if verify and p.verify is not None:
            oracle = p.verify(state, after)
            judging = time.perf_counter() - end
        if record is not None:
            record.note(p.name, end - start, judging, oracle)
            if p.show is not None and record.wants(p.name):
                record.texts[p.name] = p.show(after)
        return after

    def _search(self, p: Search[S], state: S, verify: bool) -> S:
        record = _record.get()
        inside = 0.0

        def candidate(state: S) -> S:
            nonlocal inside
            start = time.perf_counter()
            try:
                return self._run_all(p.passes, state, verify)
            finally:
                inside += time.perf_counter() - start

        start = time.perf_counter()
        after = p.run(state, candidate)
        if record is not None:
            record.note(p.name, time.perf_counter() - start - inside)
        return after


# ---- what is recorded


@dataclass(slots=True)
class Ran:
    """The record of a pass in a compile: how often it ran, the seconds of its own and of its oracles, and the
    names of these."""

    times: int = 0
    seconds: float = 0.0
    oracle_seconds: float = 0.0
    oracles: dict[str, None] = field(default_factory=dict[str, None])


@dataclass(slots=True)
class Record:
    """The passes that ran, in the order in which each ran first, and the texts of those in `wanted`."""

    wanted: Collection[str] | None = ()  # None: all
    ran: dict[str, Ran] = field(default_factory=dict[str, Ran])
    texts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by pass, without those of oracles."""
        return {n: r.seconds for n, r in self.ran.items()}

    def wants(self, name: str) -> bool:
        return self.wanted is None or name in self.wanted

    def note(self, name: str, seconds: float, oracle_seconds: float = 0.0, oracle: str = "") -> None:
        """A pass ran once more."""
        ran = self.ran.get(name)
        if ran is None:
            ran = self.ran[name] = Ran()
        ran.times += 1
        ran.seconds += seconds
        ran.oracle_seconds += oracle_seconds
        if oracle:
            ran.oracles[oracle] = None


_record: ContextVar[Record | None] = ContextVar("record", default=None)


@contextmanager
def recording(wanted: Collection[str] | None = ()) -> Generator[Record, None, None]:
    """Record the passes that run in this context, with the texts after those in `wanted` (None: all)."""
    record = Record(wanted)
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)
