"""Range inference against brute force at small sizes, independently of solver, IR and isl.

A random statement is a list of accesses; the rounds are replayed over explicit sets of integers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tc.errors import RangeError
from tc.ir.evaluate import evaluate
from tc.lang.check import check
from tc.lang.parse import parse
from tc.poly.implication import implies
from tc.ranges import Range, infer
from tests.share import examples

VARIABLES = ("i", "j", "k")
UNIVERSE = range(-400, 401)


@dataclass(frozen=True)
class Subscript:
    coefficients: tuple[int, ...]
    constant: int
    divisor: int = 1
    floor_at: int | None = None  # max(., this)

    def text(self) -> str:
        terms = [f"{c}*{v}" for c, v in zip(self.coefficients, VARIABLES, strict=False) if c]
        text = " + ".join([*terms, f"({self.constant})"])
        if self.divisor != 1:
            text = f"({text})/{self.divisor}"
        return text if self.floor_at is None else f"max({text}, {self.floor_at})"

    def variables(self) -> set[str]:
        return {v for c, v in zip(self.coefficients, VARIABLES, strict=False) if c}

    def at(self, env: dict[str, int]) -> int:
        value = (
            sum(c * env[v] for c, v in zip(self.coefficients, VARIABLES, strict=False) if c) + self.constant
        )
        value //= self.divisor
        return value if self.floor_at is None else max(value, self.floor_at)


@st.composite
def subscripts(draw: st.DrawFn, clamps: bool) -> Subscript:
    live = draw(st.lists(st.sampled_from(range(3)), min_size=1, max_size=3, unique=True))
    coefficients = [0, 0, 0]
    for d in live:
        coefficients[d] = draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2]))
    constant = draw(st.integers(-4, 4))
    divisor = draw(st.sampled_from([1, 1, 1, 2, 3]))
    floor_at = draw(st.sampled_from([None, 0, 1])) if clamps else None
    return Subscript(tuple(coefficients), constant, divisor, floor_at)


@dataclass(frozen=True)
class Problem:
    accesses: tuple[Subscript, ...]
    where: tuple[tuple[str, int, int], ...]

    def used(self) -> list[str]:
        names = {v for a in self.accesses for v in a.variables()} | {w[0] for w in self.where}
        return [v for v in VARIABLES if v in names]

    def source(self) -> str:
        params = ", ".join(f"float(N{n}) A{n}" for n in range(len(self.accesses)))
        value = " + ".join(f"A{n}({a.text()})" for n, a in enumerate(self.accesses))
        where = ", ".join(f"{v} in {lo}:{hi}" for v, lo, hi in self.where)
        return (
            f"def f({params}) -> (O) {{ O({','.join(self.used())}) = {value}"
            + (f" where {where}" if where else "")
            + " }"
        )

    def replay(self, sizes: list[int]) -> dict[str, set[int]] | None:
        """The rounds, on explicit sets; None where they get stuck, or quantify over an empty set.

        A set that reaches the edge of the universe is unbounded on that side, so it solves nothing yet.
        """
        solved = {v: set(range(lo, hi)) for v, lo, hi in self.where}
        open_vars = [v for v in self.used() if v not in solved]
        while open_vars:
            fresh: dict[str, set[int]] = {}
            for v in open_vars:
                sets: list[set[int]] = []
                for a, size in zip(self.accesses, sizes, strict=True):
                    if a.variables() & set(open_vars) != {v}:
                        continue
                    others = sorted(a.variables() - {v})
                    if any(not solved[o] for o in others):
                        return None
                    envs = [
                        dict(zip(others, p, strict=True))
                        for p in itertools.product(*(solved[o] for o in others))
                    ]
                    sets.append({x for x in UNIVERSE if all(0 <= a.at({**e, v: x}) < size for e in envs)})
                values = set.intersection(*sets) if sets else {UNIVERSE[0]}
                if not values & {UNIVERSE[0], UNIVERSE[-1]}:
                    fresh[v] = values
            if not fresh:
                return None
            solved |= fresh
            open_vars = [v for v in open_vars if v not in fresh]
        return solved


@st.composite
def problems(draw: st.DrawFn, clamps: bool = False) -> Problem:
    accesses = tuple(draw(st.lists(subscripts(clamps), min_size=1, max_size=4)))
    where = []
    for v in VARIABLES:
        if draw(st.sampled_from([False, False, False, True])):
            lo = draw(st.integers(-3, 3))
            where.append((v, lo, lo + draw(st.integers(1, 5))))
    return Problem(accesses, tuple(where))


def inferred(p: Problem, sizes: list[int]) -> dict[str, tuple[int, int]] | None:
    try:
        checked = check(parse(p.source()))
        ranges = infer(checked, implies=implies)
    except RangeError:
        return None
    env = {f"N{n}": size for n, size in enumerate(sizes)}
    # What is left as a precondition would refuse these sizes at the call.
    if any(o.condition is None or not evaluate(o.condition, env) for o in ranges.obligations):
        return None
    out: dict[str, tuple[int, int]] = {}
    for v, b in ranges.variables[0].items():
        assert isinstance(b, Range)
        low = evaluate(b.min, env)
        out[v] = (low, low + evaluate(b.extent, env))
    return out


COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.filter_too_much, HealthCheck.too_slow]}


@given(problems(), st.lists(st.integers(1, 12), min_size=4, max_size=4))
@settings(max_examples=examples(300, 6), **COMMON)  # type: ignore[arg-type]
def test_affine_ranges_are_the_maximal_ones(p: Problem, sizes: list[int]) -> None:
    sizes = sizes[: len(p.accesses)]
    expected = p.replay(sizes)
    found = inferred(p, sizes)
    assume(expected is not None and found is not None)
    assert expected is not None and found is not None
    for v, values in expected.items():
        low, high = found[v]
        assert set(range(low, high)) == values, (p.source(), sizes, v)


@given(problems(clamps=True), st.lists(st.integers(1, 12), min_size=4, max_size=4))
@example(
    # A0 leaves i unbounded below: it is A3 that bounds it, a round later.
    Problem(
        (
            Subscript((1, 0, 0), 0, 1, 0),
            Subscript((1, 1, 1), 0),
            Subscript((0, 1, 0), 0),
            Subscript((1, 1, 0), 0),
        ),
        (),
    ),
    [1, 1, 1, 1],
)
@settings(max_examples=examples(200, 12), **COMMON)  # type: ignore[arg-type]
def test_clamped_ranges_are_sound(p: Problem, sizes: list[int]) -> None:
    sizes = sizes[: len(p.accesses)]
    expected = p.replay(sizes)
    found = inferred(p, sizes)
    assume(expected is not None and found is not None)
    assert expected is not None and found is not None
    assume(all(low < high for low, high in found.values()))  # an empty statement reads nothing
    for v, values in expected.items():
        low, high = found[v]
        assert set(range(low, high)) <= values, (p.source(), sizes, v)


def test_the_generator_reaches_both_outcomes() -> None:
    solvable = Problem((Subscript((1, 1, 0), 0), Subscript((0, 1, 0), 0)), ())
    assert solvable.replay([9, 3]) == {"j": {0, 1, 2}, "i": set(range(7))}
    assert inferred(solvable, [9, 3]) == {"j": (0, 3), "i": (0, 7)}
    stuck = Problem((Subscript((1, 1, 0), 0),), ())
    assert stuck.replay([9]) is None and inferred(stuck, [9]) is None
