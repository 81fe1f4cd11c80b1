"""What a caller may say about a search."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tc.errors import ArgumentError, did_you_mean
from tc.options import Options
from tc.tuner.genetic import GeneticSettings
from tc.tuner.strategies import NAMES
from tc.tuner.trials import PRUNE, Limits, Progress

_GENETIC = ("population", "generations", "parents", "crossover", "mutation", "elites")
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of `tc.tune` and `kernel.tune`.

    `budget`: seconds, or None for no limit.  `trials`: candidates, or None.  `strategy`: one of `"combined"`
    (the model's first, neighbours of the best, then genetic), `"genetic"`, `"random"`, `"model"`, `"local"`,
    `"tpe"`, `"exhaustive"`, `"given"` (only those of `start`).  `seed`: of the strategy and the sampled
    elements.  `start`: options to try first.  `fix`: options by name that no candidate changes.
    `population`, `generations`, `parents`, `crossover`, `mutation`, `elites`: of the genetic search; by
    default those of the report.
    `jobs`: compiles side by side.  `quiet`: hold them while a candidate is measured.  `compile_seconds`,
    `run_seconds`, `memory_mib`: what one candidate may take.  `prune`: candidates that the model predicts to
    be so many times worse than the best are not tried; None: all are.
    `records`: the directory of records, False for none.  `resume`: go on from what it holds.
    `client`: a `distributed.Client` whose workers compile and measure.
    `show`: is called with a `Progress` after each candidate; True prints a line.
    """

    budget: float | None = 60.0
    trials: int | None = None
    strategy: str = "combined"
    seed: int = 0
    start: Sequence[Options] = ()
    fix: Mapping[str, Any] = field(default_factory=dict[str, Any])
    population: int | None = None
    generations: int | None = None
    parents: int | None = None
    crossover: float | None = None
    mutation: float | None = None
    elites: int | None = None
    jobs: int | None = None
    quiet: bool = True
    compile_seconds: float = 60.0
    run_seconds: float = 10.0
    memory_mib: int = 4096
    prune: float | None = PRUNE
    records: str | os.PathLike[str] | bool | None = None
    resume: bool = True
    client: Any = None
    show: Callable[[Progress], None] | bool | None = None

    def __post_init__(self) -> None:
        for name in ("budget", "compile_seconds", "run_seconds", "prune"):
            _positive(name, getattr(self, name), optional=name in ("budget", "prune"))
        for name in ("trials", "jobs", "memory_mib"):
            _positive(name, getattr(self, name), optional=name != "memory_mib", whole=True)
        if (
            self.budget is None
            and self.trials is None
            and self.strategy not in ("model", "given", "exhaustive")
        ):
            raise ArgumentError(
                "the search would never end",
                code="TC0511",
                help="give a budget in seconds, or a number of trials",
            )
        if self.strategy not in NAMES:
            raise ArgumentError(
                f"there is no strategy '{self.strategy}'",
                code="TC0511",
                help=did_you_mean(self.strategy, NAMES) or f"strategies are {', '.join(NAMES)}",
            )
        _ = self.genetic

    @property
    def genetic(self) -> GeneticSettings | None:
        """What was said about the genetic search; None if nothing was."""
        given = {n: v for n in _GENETIC if (v := getattr(self, n)) is not None}
        if not given:
            return None
        if "population" in given and "elites" not in given and isinstance(given["population"], int):
            given["elites"] = min(GeneticSettings().elites, given["population"] // 2)
        return GeneticSettings(**given)

    @property
    def limits(self) -> Limits:
        jobs = self.jobs or max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        return Limits(
            self.budget,
            self.trials,
            self.compile_seconds,
            self.run_seconds,
            self.memory_mib * _MIB,
            jobs,
            self.quiet,
            self.prune,
        )

    def directory(self, default: Path) -> Path | None:
        """Where records are kept; None: nowhere."""
        if self.records is False:
            return None
        if self.records is None or self.records is True:
            return default
        return Path(self.records)


def settings(given: Mapping[str, Any]) -> Settings:
    """Settings by name; an unknown name is refused with a suggestion."""
    known = [f.name for f in fields(Settings)]
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"tc.tune has no setting '{name}'",
                code="TC0511",
                help=did_you_mean(name, known) or f"settings are {', '.join(known)}",
            )
    return Settings(**given)


def _positive(name: str, value: Any, *, optional: bool, whole: bool = False) -> None:
    if value is None and optional:
        return
    kinds = (int,) if whole else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool) or not value > 0:
        raise ArgumentError(
            f"{name}={value!r} is not valid",
            code="TC0511",
            help=f"{name} is a {'whole ' if whole else ''}number above 0{' or None' if optional else ''}",
        )
