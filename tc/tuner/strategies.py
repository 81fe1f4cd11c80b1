"""Search strategies behind one interface: `ask` for a point to try, `tell` what it cost.

A strategy asks nothing of the machine and has no clock: with the same seed and the same costs it proposes the
same points.  `ask` returns None where it must be told something first, and for ever when it has no more to
propose, which `done` says.  A cost is a time, less is better; None is a candidate that failed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from tc.errors import ArgumentError, BackendError, did_you_mean
from tc.tuner.genetic import Genetic, GeneticSettings, Proposal
from tc.tuner.space import Point, Space

NAMES = ("combined", "genetic", "random", "model", "local", "tpe", "exhaustive", "given")


class Strategy(Protocol):
    """What a search is."""

    name: str

    @property
    def done(self) -> bool: ...

    def ask(self) -> Proposal | None: ...

    def tell(self, point: Point, cost: float | None) -> None: ...


class Listed:
    """Points in a given order: the model's ranking, or all there are."""

    def __init__(self, name: str, points: Iterator[Point]) -> None:
        self.name = name
        self._points = points
        self._done = False

    @property
    def done(self) -> bool:
        return self._done

    def ask(self) -> Proposal | None:
        point = next(self._points, None)
        self._done = point is None
        return None if point is None else Proposal(point, self.name)

    def tell(self, point: Point, cost: float | None) -> None:
        pass


class Random:
    """Independent draws."""

    name = "random"
    done = False

    def __init__(self, space: Space, rng: random.Random) -> None:
        self._space, self._rng = space, rng

    def ask(self) -> Proposal | None:
        return Proposal(self._space.draw(self._rng), self.name)

    def tell(self, point: Point, cost: float | None) -> None:
        pass


class Local:
    """Climbs from the best point known: its neighbours in turn, the climb going on from each that is better;
    `patience` neighbours in a row that are not better end it."""

    name = "local"

    def __init__(
        self, space: Space, rng: random.Random, start: Point | None = None, patience: int | None = None
    ) -> None:
        self._space, self._rng = space, rng
        self._best: Point = space.default if start is None else start
        self._cost: float | None = None
        self._around = space.neighbours(self._best, rng)
        self._patience, self._failed, self._first = patience, 0, True
        self._seen: set[Point] = set()
        self._empty = False

    @property
    def done(self) -> bool:
        return self._empty or (self._patience is not None and self._failed >= self._patience)

    def ask(self) -> Proposal | None:
        if self._first:
            self._first = False
            self._seen.add(self._best)
            return Proposal(self._best, self.name)
        if self.done:
            return None
        for point in self._around:
            if point not in self._seen:
                self._seen.add(point)
                return Proposal(point, self.name)
        self._empty = True
        return None

    def tell(self, point: Point, cost: float | None) -> None:
        if cost is not None and (self._cost is None or cost < self._cost):
            moved = point != self._best
            self._best, self._cost, self._failed = point, cost, 0
            if moved:
                self._around, self._empty = self._space.neighbours(point, self._rng), False
        elif point != self._best:
            self._failed += 1


class Tpe:
    """Tree-structured Parzen estimators, by optuna."""

    name = "tpe"
    done = False

    def __init__(self, space: Space, seed: int) -> None:
        optuna = _optuna()
        self._failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        self._study = optuna.create_study(direction="minimize", sampler=sampler)
        self._space = space
        self._trials: dict[Point, list[Any]] = {}

    def ask(self) -> Proposal | None:
        for _ in range(100):
            trial = self._study.ask()
            at: list[int] = [
                trial.suggest_categorical(g.name, list(range(len(g.values)))) for g in self._space.genes
            ]
            point: Point = tuple(g.values[i] for g, i in zip(self._space.genes, at))
            if self._space.valid(point):
                self._trials.setdefault(point, []).append(trial)
                return Proposal(point, self.name)
            self._study.tell(trial, state=self._failed)
        return None

    def tell(self, point: Point, cost: float | None) -> None:
        for trial in self._trials.pop(point, []):
            if cost is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, cost)


def _optuna() -> Any:
    try:
        import optuna  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BackendError(
            "the strategy 'tpe' needs optuna, which is not installed",
            code="TC0822",
            help="pip install 'tensor-comprehensions[tune]'",
        ) from None
    module: Any = optuna
    module.logging.set_verbosity(module.logging.ERROR)
    return module


class Combined:
    """The model's first, then neighbours of the best, then the genetic search from all that is known.

    `first` candidates of the model; `patience` neighbours that are not better before the genetic search.
    """

    name = "combined"
    done = False

    def __init__(
        self,
        space: Space,
        rng: random.Random,
        ranked: Callable[[], Sequence[Point]],
        start: Sequence[Point] = (),
        settings: GeneticSettings | None = None,
        first: int = 12,
        patience: int = 24,
    ) -> None:
        self._space, self._rng = space, rng
        self._settings = settings or GeneticSettings(population=30, elites=5, generations=1 << 30)
        self._patience = patience
        self._waiting = 0
        self._known: dict[Point, float] = {}
        self._stage = 0

        def points() -> Iterator[Point]:
            yield from start
            yield from ranked()[:first]

        self._now: Strategy = Listed("model", points())

    def ask(self) -> Proposal | None:
        found = self._now.ask()
        if found is None and self._now.done and not self._waiting:
            self._advance()
            found = self._now.ask()
        self._waiting += found is not None
        return found

    def _advance(self) -> None:
        best = sorted(self._known, key=lambda p: (self._known[p], repr(p)))
        self._stage += 1
        if self._stage % 2:
            at = best[0] if best else self._space.default
            self._now = Local(self._space, self._rng, at, self._patience)
        else:
            size = self._settings.population
            once = GeneticSettings(
                size,
                4 if self._stage < 8 else 1 << 30,  # then neighbours of a better one, if there is one
                self._settings.parents,
                self._settings.crossover,
                self._settings.mutation,
                self._settings.elites,
            )
            self._now = Genetic(self._space, self._rng, once, best[: size // 2])

    def tell(self, point: Point, cost: float | None) -> None:
        self._waiting = max(0, self._waiting - 1)
        if cost is not None:
            self._known[point] = min(cost, self._known.get(point, cost))
        self._now.tell(point, cost)


def make(
    name: str,
    space: Space,
    seed: int,
    ranked: Callable[[], Sequence[Point]],
    start: Sequence[Point] = (),
    settings: GeneticSettings | None = None,
) -> Strategy:
    """A strategy by name; `ranked` gives the model's ranking when it is needed, `start` points that worked
    for the same program elsewhere.  Raises ArgumentError (TC0511) for a name that there is not."""
    rng = random.Random(seed)
    match name:
        case "combined":
            return Combined(space, rng, ranked, start, settings)
        case "genetic":
            return Genetic(space, rng, settings or GeneticSettings(), start)
        case "random":
            return Random(space, rng)
        case "model":
            return Listed("model", iter([*start, *ranked()]))
        case "given":
            return Listed("given", iter(start))
        case "local":
            return Local(space, rng, start[0] if start else None)
        case "tpe":
            return Tpe(space, seed)
        case "exhaustive":
            return Listed("exhaustive", exhaustive(space))
        case _:
            raise ArgumentError(
                f"there is no strategy '{name}'",
                code="TC0511",
                help=did_you_mean(name, NAMES) or f"strategies are {', '.join(NAMES)}",
            )


def exhaustive(space: Space) -> Iterator[Point]:
    """All valid points, the default first, the last gene fastest."""

    def rest(i: int) -> Iterator[Point]:
        if i == len(space.genes):
            yield ()
            return
        for v in space.genes[i].values:
            for tail in rest(i + 1):
                yield (v, *tail)

    yield from filter(space.valid, rest(0))
