"""The search loses no candidate: what options fix is never predicted to be better than what it chose."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tc
from tc.errors import Error
from tc.registry import get

TYPES = ("float", "double", "int8", "half", "int64")
EXTENTS = (1, 3, 16, 33, 100, 700)


def program(seed: int) -> tuple[str, dict[str, int]]:
    """A nest of two or three loops over arrays whose dimensions stand in any order, with or without a sum,
    and sometimes a second statement that may share its loops."""
    rng = random.Random(seed)
    kind = rng.choice(TYPES)
    loops = ["i", "j", "k"][: rng.choice((2, 2, 3))]
    sizes = {n.upper(): rng.choice(EXTENTS) for n in loops}
    params: list[str] = []

    def array(name: str, indices: list[str]) -> str:
        rng.shuffle(indices)
        params.append(f"{kind}({','.join(n.upper() for n in indices)}) {name}")
        return f"{name}({','.join(indices)})"

    a = array("a", list(loops))
    b = array("b", rng.sample(loops, rng.randint(1, len(loops))))
    kept = list(loops)
    summed = rng.choice(("", rng.choice(loops)))
    if summed:
        kept.remove(summed)
    rng.shuffle(kept)
    where = ", ".join(f"{n} in 0:{n.upper()}" for n in loops)
    body = f"y({','.join(kept)}) {'+=!' if summed else '='} {a} {rng.choice('*+')} {b} where {where}"
    if rng.random() < 0.5:
        body += f" z({','.join(kept)}) = y({','.join(kept)}) * y({','.join(kept)})"
        return f"def f({', '.join(params)}) -> (y, z) {{ {body} }}", sizes
    return f"def f({', '.join(params)}) -> (y) {{ {body} }}", sizes


def predicted(source: str, sizes: dict[str, int], **options: Any) -> float | None:
    """Cycles by the model; None where the options cannot be had."""
    try:
        kernel = tc.compile(source, "cpu", options=options)
        return get("cpu").predict(kernel.program(sizes), kernel.options)
    except Error:
        return None


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", range(40))
def test_no_loop_would_have_better_lanes(seed: int) -> None:
    source, sizes = program(seed)
    chosen = predicted(source, sizes)
    assert chosen is not None
    others: list[dict[str, Any]] = [{"vector": k} for k in range(-1, len(sizes))]
    found = {str(o): cycles for o in others if (cycles := predicted(source, sizes, **o)) is not None}
    assert len(found) > 1, source
    better = {o: c for o, c in found.items() if c < 0.999 * chosen}
    assert not better, f"{chosen} for {source} at {sizes}"


# Sums whose reductions run in blocks, and what uses them: nothing but the sum is stored again for each block.
BLOCKED = {
    "lanes along a short row": (
        "y(i,k) +=! a(j,k,i) * b(j,i)",
        "float(J,K,I) a, float(J,I) b",
        "i,k",
        {"I": 1500, "J": 1500, "K": 3},
    ),
    "two arrays that are read once": (
        "y(k,i) +=! a(i,j,k) * b(j,i,k)",
        "double(I,J,K) a, double(J,I,K) b",
        "k,i",
        {"I": 3, "J": 700, "K": 1500},
    ),
    "integers": (
        "y(k,j) +=! a(j,i,k) * b(k,i)",
        "int64(J,I,K) a, int64(K,I) b",
        "k,j",
        {"I": 100, "J": 3, "K": 700},
    ),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_statements_after_a_sum_are_not_counted_for_each_block_of_it(name: str) -> None:
    total, params, row, sizes = BLOCKED[name]
    source = f"def f({params}) -> (y, z) {{ {total} z({row}) = y({row}) * y({row}) }}"
    shared, apart = predicted(source, sizes), predicted(source, sizes, fusion="min")
    assert shared is not None and apart is not None
    assert shared <= 1.01 * apart
