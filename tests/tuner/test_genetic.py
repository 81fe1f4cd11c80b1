"""The genetic search does what the report says (section 6.2), on a synthetic space."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tc.options import Options
from tc.tuner.genetic import (
    Genetic,
    GeneticSettings,
    breed,
    cross,
    mutate,
    select,
    selection_probabilities,
)
from tc.tuner.space import Gene, Point, Space

SPACE = Space(tuple(Gene(f"tile.{i}", "tile", tuple(range(1, 11)), i) for i in range(6)))


def close(count: int, draws: int, p: float) -> bool:
    """Within 5 standard deviations of the binomial distribution."""
    return abs(count - draws * p) <= 5 * (draws * p * (1 - p)) ** 0.5


def test_parents_are_drawn_by_fitness_which_is_inverse_to_time() -> None:
    assert selection_probabilities([1.0, 2.0, 4.0]) == pytest.approx((4 / 7, 2 / 7, 1 / 7))
    valid: list[tuple[Point, float]] = [((1,), 1.0), ((2,), 2.0), ((4,), 4.0)]
    rng = random.Random(0)
    draws = 20_000
    triples = [select(valid, 3, rng) for _ in range(draws)]
    for place in range(3):
        found = Counter(t[place][0] for t in triples)
        assert all(close(found[n], draws, p) for n, p in ((1, 4 / 7), (2, 2 / 7), (4, 1 / 7)))
    # Each is drawn by itself: the same may come twice.
    same = sum(t[0] == t[1] for t in triples)
    assert close(same, draws, (4 / 7) ** 2 + (2 / 7) ** 2 + (1 / 7) ** 2)


def test_each_gene_comes_from_a_parent_drawn_uniformly() -> None:
    parents = [(i,) * 6 for i in range(3)]
    rng = random.Random(1)
    draws = 10_000
    children = [cross(parents, rng) for _ in range(draws)]
    for gene in range(6):
        found = Counter(c[gene] for c in children)
        assert all(close(found[i], draws, 1 / 3) for i in range(3))
    together = sum(c[0] == c[1] for c in children)
    assert close(together, draws, 1 / 3), "genes are independent"


@pytest.mark.parametrize("rate", [0.0, 0.07, 1.0])
def test_each_gene_mutates_with_the_rate_to_any_value(rate: float) -> None:
    rng = random.Random(2)
    draws = 10_000
    start = (5,) * 6
    found = [mutate(SPACE, start, rate, rng) for _ in range(draws)]
    for gene in range(6):
        changed = sum(p[gene] != 5 for p in found)
        assert changed == 0 if rate == 0 else close(changed, draws, rate * 9 / 10)
    if rate == 1.0:
        values = Counter(p[0] for p in found)
        assert all(close(values[v], draws, 1 / 10) for v in range(1, 11))


def test_a_child_is_bred_with_the_crossover_rate() -> None:
    valid = [((i,) * 6, 1.0) for i in range(1, 4)]
    rng = random.Random(3)
    settings = GeneticSettings(crossover=0.8, mutation=0.0)
    draws = 10_000
    children = [breed(SPACE, valid, settings, rng) for _ in range(draws)]
    uniform = sum(len(set(c)) == 1 for c in children)
    # A copy, or all six genes of one value: given parents of k distinct kinds.
    chance = 0.2 + 0.8 * sum(p for p in (_all_equal(),))
    assert close(uniform, draws, chance)


def _all_equal() -> float:
    """The probability that six genes, each of one of three parents, are of one value."""
    total = 0.0
    for a in range(3):
        for b in range(3):
            for c in range(3):
                counts = Counter((a, b, c))
                total += sum((n / 3) ** 6 for n in counts.values()) / 27
    return total


def test_children_that_are_not_valid_are_drawn_again() -> None:
    space = Space(SPACE.genes, legal=lambda o: o.tile is not None and sum(o.tile) % 2 == 0)
    valid = [((2,) * 6, 1.0), ((1,) * 6, 1.0), ((3, 1, 1, 1, 1, 1), 2.0)]
    rng = random.Random(4)
    children = [breed(space, valid, GeneticSettings(), rng) for _ in range(500)]
    assert all(map(space.valid, children)) and len(set(children)) > 50


def cost(p: Point) -> float:
    return 1.0 + sum(abs(int(v or 0) - 7) for v in p)


def run(genetic: Genetic, fails: float = 0.0) -> list[tuple[int, Point]]:
    asked: list[tuple[int, Point]] = []
    rng = random.Random(5)
    while not genetic.done:
        proposal = genetic.ask()
        if proposal is None:
            break
        asked.append((proposal.generation, proposal.point))
        genetic.tell(proposal.point, None if rng.random() < fails else cost(proposal.point))
    return asked


def test_elites_live_on_and_all_others_are_children() -> None:
    settings = GeneticSettings(population=40, generations=2, elites=6)
    genetic = Genetic(SPACE, random.Random(6), settings)
    first = list(genetic.population)
    while genetic.generation == 0 and (p := genetic.ask()) is not None:
        if p.generation == 1:
            break
        genetic.tell(p.point, cost(p.point))
    ranked = sorted(dict.fromkeys(first), key=cost)
    assert len(genetic.population) == 40
    assert list(genetic.population[:6]) == ranked[:6], "the elites come first, as they are"
    copies = sum(p in first for p in genetic.population[6:])
    assert copies < 20, "the original keeps every valid one; the report does not"


def test_the_search_improves_and_has_its_generations() -> None:
    settings = GeneticSettings(population=30, generations=12, elites=5)
    asked = run(Genetic(SPACE, random.Random(7), settings), fails=0.3)
    assert {g for g, _ in asked} == set(range(12))
    best = {g: min(cost(p) for h, p in asked if h <= g) for g in range(12)}
    assert best[11] < best[0] and best[11] <= 8
    assert len(asked) == len(set(asked)), "no point is asked for twice in a generation"
    again = run(Genetic(SPACE, random.Random(7), settings), fails=0.3)
    assert again == asked


def test_a_population_that_fails_starts_anew_and_the_best_is_kept() -> None:
    settings = GeneticSettings(population=10, generations=3, elites=2)
    genetic = Genetic(SPACE, random.Random(8), settings)
    good = (7,) * 6
    genetic.population = (good, *genetic.population[1:])
    genetic._begin(genetic.population, {})  # pyright: ignore[reportPrivateUsage]
    before = set(genetic.population)
    while (p := genetic.ask()) is not None and p.generation == 0:
        genetic.tell(p.point, cost(p.point) if p.point == good else None)
    assert good in genetic.population and len(before & set(genetic.population)) <= 2


def test_start_configurations_come_first() -> None:
    start = [(3,) * 6, (4,) * 6]
    genetic = Genetic(SPACE, random.Random(9), GeneticSettings(population=10, elites=2), start)
    assert list(genetic.population[:2]) == start and len(genetic.population) == 10
    assert SPACE.options(start[0]) == Options(tile=(3,) * 6)
