"""Every strategy is reproducible, proposes legal options only, and ends where it says so."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tc.errors import ArgumentError
from tc.options import Options
from tc.tuner.genetic import GeneticSettings
from tc.tuner.space import MAX_UNROLL, Point, Space, powers_and_ceil_divisors, space_for
from tc.tuner.strategies import NAMES, exhaustive, make


class Cpu:
    name = "cpu"
    options_used = frozenset({"tile", "unroll", "vector", "order", "pack", "register_tile", "fusion"})


class Gpu:
    name = "cuda"
    options_used = frozenset(
        {"tile", "threads", "blocks", "unroll", "use_shared_memory", "max_shared_memory", "fusion"}
    )


LIMITS = {"max_threads": 1024, "shared": 49152, "vector_bytes": 64}


def space(backend: Any = Cpu, loops: Sequence[int] = (100, 60), **more: Any) -> Space:
    return space_for(backend, loops, loops, Options(), LIMITS, **more)


def cost(p: Point) -> float:
    return 1.0 + sum(len(repr(v)) * (i + 1) for i, v in enumerate(p)) % 17


def run(name: str, seed: int, count: int, fails: float = 0.2) -> list[Point]:
    s = space()
    ranked = [p for p in (s.point(Options(tile=(64,))), s.point(Options(vector=1))) if p is not None]
    assert len(ranked) == 2
    strategy = make(name, s, seed, lambda: ranked, [s.default], GeneticSettings(population=12, elites=2))
    out: list[Point] = []
    waiting: list[Point] = []
    rng = random.Random(0)
    while len(out) < count and not strategy.done:
        proposal = strategy.ask()
        if proposal is None and not waiting:
            break
        if proposal is not None:
            out.append(proposal.point)
            waiting.append(proposal.point)
        if proposal is None or len(waiting) > 2:  # answers come later, as from a farm
            point = waiting.pop(0)
            strategy.tell(point, None if rng.random() < fails else cost(point))
    return out


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_points_and_all_are_legal(name: str) -> None:
    count = 40 if name == "tpe" else 150
    found = run(name, 3, count)
    assert found == run(name, 3, count) and found
    assert all(map(space().valid, found))
    if name not in ("model", "given", "exhaustive"):
        assert len(set(found)) > 20
        assert run(name, 4, count) != found


def test_combined_starts_with_the_models_first_and_climbs() -> None:
    s = space()
    found = run("combined", 0, 400)
    assert found[:3] == [s.default, s.point(Options(tile=(64,))), s.point(Options(vector=1))]
    assert min(map(cost, found)) <= min(map(cost, found[:30]))


def test_local_search_finds_the_optimum_of_a_bowl() -> None:
    s = space()

    def bowl(p: Point) -> float:
        return 1.0 + sum(abs(g.values.index(v) - len(g.values) // 2) for g, v in zip(s.genes, p))

    strategy = make("local", s, 0, list)
    best: float = math.inf
    for _ in range(3000):
        proposal = strategy.ask()
        if proposal is None:
            break
        best = min(best, bowl(proposal.point))
        strategy.tell(proposal.point, bowl(proposal.point))
    assert best <= 1.0 + len(s.genes) // 2


def test_exhaustive_is_every_legal_point_once() -> None:
    s = space(loops=(3,), fix=dict.fromkeys(("register_tile", "fusion", "order")))
    found = list(exhaustive(s))
    assert found[0] == s.default and len(found) == len(set(found)) == s.size


def test_an_unknown_strategy() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'random'"):
        make("randm", space(), 0, list)


# ---- the space


@pytest.mark.parametrize(
    ("extent", "values"),
    [
        (1, [1]),
        (5, [1, 2, 3, 4, 5, 8]),
        (8, [1, 2, 4, 8]),
        (10, [1, 2, 3, 4, 5, 8, 10, 16]),
        (100, [1, 2, 4, 7, 8, 13, 16, 25, 32, 50, 64, 100, 128]),
    ],
)
def test_powers_of_two_and_ceil_divisors(extent: int, values: list[int]) -> None:
    assert list(powers_and_ceil_divisors(extent)) == values


def test_options_and_points_are_each_others_inverse() -> None:
    s = space()
    rng = random.Random(0)
    for _ in range(500):
        point = s.draw(rng)
        options = s.options(point)
        again = s.point(options)
        assert again is not None and s.options(again) == options
    assert s.options(s.default) == Options() and s.point(Options(tile=(9999,))) is None


def test_what_others_propose_is_in_the_space() -> None:
    odd = Options(tile=(11, 7), register_tile=(9,), vector=1)
    s = space(include=[odd])
    point = s.point(odd)
    assert point is not None and s.options(point) == odd
    assert space().point(odd) is None


def test_the_gpu_space_keeps_the_limits_of_the_device() -> None:
    s = space(Gpu, (1000, 700, 30))
    assert max(v for g in s.genes if g.option == "unroll" for v in g.values if v) == MAX_UNROLL == 4096
    rng = random.Random(1)
    for _ in range(300):
        o = s.options(s.draw(rng))
        threads = math.prod(o.threads or (32,))
        assert 32 <= threads <= 1024 and (len(o.threads or ()) < 3 or (o.threads or ())[2] <= 64)
        assert (o.max_shared_memory or 0) <= 49152


def test_what_is_given_is_not_tuned() -> None:
    given = Options(tile=(8,))
    s = space_for(Cpu, (100, 60), (100, 60), given, LIMITS, fix={"vector": 1})
    assert not {g.option for g in s.genes} & {"tile", "vector"}
    o = s.options(s.draw(random.Random(0)))
    assert (o.tile, o.vector) == ((8,), 1)
    assert s.fingerprint != space().fingerprint
