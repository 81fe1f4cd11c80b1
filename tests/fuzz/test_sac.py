"""A short share of `python -m fuzz.sac` and of its malformed texts, and faults that the former finds."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from fuzz.sac import malformed
from fuzz.sac.differential import INTERPRETER, compare, wanted
from fuzz.sac.strategies import program
from fuzz.sac.text import program as text


def test_programs() -> None:
    report = compare(range(30), (INTERPRETER, "reference"))
    assert not report.found
    assert report.ran >= 27


def test_a_seed_is_a_program() -> None:
    a, b = program(7), program(7)
    assert text(a) == text(b)
    for x, y in zip(wanted(a), wanted(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_programs_are_of_all_kinds() -> None:
    texts = [text(program(seed)) for seed in range(300)]
    for word in (
        "genarray",
        "modarray",
        "fold",
        "step",
        "width",
        "...",
        "transpose",
        "take",
        "++",
        "return -77",
    ):
        assert sum(word in t for t in texts) >= 5, word
    sizes = [a.size for seed in range(300) for a in program(seed).arguments.values()]
    assert 0 in sizes and 1 in sizes


@pytest.mark.parametrize(
    ("kind", "count"), [(malformed.sibling, 80), (malformed.mutant, 250), (malformed.soup, 200)]
)
def test_texts(kind: Callable[[random.Random], str], count: int) -> None:
    rng = random.Random(20190925)
    for _ in range(count):
        malformed.attempt(kind(rng), malformed.made)
