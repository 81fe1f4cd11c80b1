"""What is tried, what came of it, and how far a search is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tc.options import Options
from tc.tuned.records import Record, Status
from tc.tuner.space import Point

PRUNE = 4.0  # times the best predicted cost, from which a candidate is not tried


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may use: seconds, candidates, and for each candidate seconds and bytes."""

    seconds: float | None
    trials: int | None
    compile_seconds: float = 60.0
    run_seconds: float = 10.0
    memory: int = 4 << 30
    jobs: int = 1
    quiet: bool = True  # compiles are held while a candidate is measured
    prune: float | None = PRUNE


@dataclass
class Candidate:
    """Options on their way, and the points of the strategy that they stand for."""

    options: Options
    points: list[Point]
    origin: str
    generation: int = 0
    retried: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a candidate.  `cost` is its time in nanoseconds, put right by that of the incumbent, which
    it was interleaved with (`ref_ns`); `won` says that it is faster, beyond noise."""

    status: Status
    problem: str = ""
    ns: tuple[int, ...] = ()
    ref_ns: tuple[int, ...] = ()
    cost: float | None = None
    won: bool = False
    predicted: float | None = None
    compile_s: float | None = None
    code: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate with its record; `cost` as in `Outcome`, `elapsed` seconds after the search began."""

    options: Options
    record: Record
    cost: float | None
    elapsed: float

    @property
    def seconds(self) -> float | None:
        """Seconds of a call; None where it failed."""
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


@dataclass(frozen=True, slots=True)
class Progress:
    """What a search has come to, for those who watch: seconds, candidates, and nanoseconds of a call with the
    default options and the best ones; `bound` is the least cost that the model has predicted, in its unit."""

    elapsed: float
    budget: float | None
    tried: int
    trials: int | None
    failed: int
    default: float | None
    best: float | None
    bound: float | None
    origin: str = field(default="")


def plain(options: Options) -> dict[str, Any]:
    """Options as JSON has them."""
    return json.loads(options.to_json())
