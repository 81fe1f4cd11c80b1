"""The report's genetic search (section 6.2).

A generation is a population of points.  Each point gets a fitness that is inverse to its time.  The next
generation keeps the fittest (the elites) as they are; all others are children.  A child has three parents,
each drawn with a probability proportional to fitness, and each of its genes is that of a parent drawn
uniformly from the three.  Then each gene is replaced by a random value with a low probability, the mutation
rate.  Children that are not valid are drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tc.errors import ArgumentError
from tc.tuner.space import Point, Space

_TRIES = 1000  # draws of a valid child, before the first parent is taken
_LEAST_VALID = 3  # parents, below which a population starts anew


@dataclass(frozen=True, slots=True)
class GeneticSettings:
    """`population` points in each of `generations`; `parents` of a child; the probabilities that a child is
    bred from them and not a copy of the first (`crossover`), and that a gene is drawn anew (`mutation`);
    `elites` that live on, at most half of the population."""

    population: int = 100
    generations: int = 25
    parents: int = 3
    crossover: float = 0.8
    mutation: float = 0.07
    elites: int = 10

    def __post_init__(self) -> None:
        for name in ("population", "generations", "parents"):
            if getattr(self, name) < 1:
                raise ArgumentError(
                    f"{name}={getattr(self, name)} is not valid", code="TC0511", help=f"{name} is at least 1"
                )
        for name in ("crossover", "mutation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(
                    f"{name}={getattr(self, name)} is not valid",
                    code="TC0511",
                    help=f"{name} is a probability, from 0 to 1",
                )
        if not 0 <= self.elites <= self.population // 2:
            raise ArgumentError(
                f"elites={self.elites} is not valid",
                code="TC0511",
                help=f"elites are from 0 to half of the population, {self.population // 2}",
            )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A point to try, who proposed it, and in which generation."""

    point: Point
    origin: str
    generation: int = 0


def selection_probabilities(costs: Sequence[float]) -> tuple[float, ...]:
    """The probability of each of a population to be drawn as a parent: its share of all fitness."""
    fitness = [1.0 / c for c in costs]
    total = sum(fitness)
    return tuple(f / total for f in fitness)


def select(valid: Sequence[tuple[Point, float]], count: int, rng: random.Random) -> tuple[Point, ...]:
    """Parents, each drawn by itself from points and their costs."""
    weights = selection_probabilities([c for _, c in valid])
    return tuple(rng.choices([p for p, _ in valid], weights, k=count))


def cross(parents: Sequence[Point], rng: random.Random) -> Point:
    """Uniform crossover: each gene of a parent drawn uniformly."""
    return tuple(rng.choice(genes) for genes in zip(*parents, strict=True))


def mutate(space: Space, point: Point, rate: float, rng: random.Random) -> Point:
    """Each gene with this probability replaced by one of its values."""
    return tuple(
        rng.choice(g.values) if rng.random() < rate else v for g, v in zip(space.genes, point, strict=True)
    )


def breed(
    space: Space, valid: Sequence[tuple[Point, float]], settings: GeneticSettings, rng: random.Random
) -> Point:
    """A valid child."""
    parents = select(valid, settings.parents, rng)
    for _ in range(_TRIES):
        child = cross(parents, rng) if rng.random() < settings.crossover else parents[0]
        child = mutate(space, child, settings.mutation, rng)
        if space.valid(child):
            return child
        parents = select(valid, settings.parents, rng)
    return parents[0]


class Genetic:
    """The search: generation after generation."""

    name = "genetic"

    def __init__(
        self, space: Space, rng: random.Random, settings: GeneticSettings, start: Sequence[Point] = ()
    ) -> None:
        self._space, self._rng, self.settings = space, rng, settings
        self.generation = 0
        self._costs: dict[Point, float | None] = {}
        first = list(dict.fromkeys([*start, space.default]))[: settings.population]
        first += [space.draw(rng) for _ in range(settings.population - len(first))]
        self._begin(first, {})

    def _begin(self, population: Sequence[Point], known: Mapping[Point, float]) -> None:
        self.population = tuple(population)
        self._costs = dict(known)
        self._asked = [p for p in dict.fromkeys(population) if p not in known]
        self._open = set(self._asked)

    @property
    def done(self) -> bool:
        last = self.generation + 1 >= self.settings.generations
        return last and not self._open

    def ask(self) -> Proposal | None:
        if not self._open and not self.done:
            self._following()
        if self._asked:
            return Proposal(self._asked.pop(0), self.name, self.generation)
        return None

    def tell(self, point: Point, cost: float | None) -> None:
        if point in self._open:
            self._open.discard(point)
            self._costs[point] = cost

    def _following(self) -> None:
        """The next generation: elites, and children for all others."""
        s = self.settings
        costs = self._costs
        ranked = sorted(
            ((p, c) for p in self.population if (c := costs.get(p)) is not None), key=lambda x: x[1]
        )
        self.generation += 1
        if len({p for p, _ in ranked}) < _LEAST_VALID:
            kept = [p for p, _ in ranked[:1]]
            fresh = [self._space.draw(self._rng) for _ in range(s.population - len(kept))]
            self._begin([*kept, *fresh], dict(ranked[:1]))
            return
        elites = list(dict(ranked).items())[: s.elites]
        children = [breed(self._space, ranked, s, self._rng) for _ in range(s.population - len(elites))]
        self._begin([*(p for p, _ in elites), *children], dict(elites))
