"""A short share of `python -m fuzz.sac` and of its malformed texts, and faults that the former finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fuzz.sac import faults, malformed
from fuzz.sac.__main__ import main
from fuzz.sac.differential import INTERPRETER, compare, wanted
from fuzz.sac.strategies import program
from fuzz.sac.text import program as text
from fuzz.sac.totals import Totals
from tests.share import examples


def test_programs() -> None:
    count = examples(30)
    report = compare(range(count), (INTERPRETER, "reference"))
    assert not report.found
    assert report.ran >= 0.9 * count


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


@pytest.mark.share(12)
@pytest.mark.parametrize("number", range(len(faults.FAULTS)), ids=[f.name for f in faults.FAULTS])
def test_faults_are_found(number: int) -> None:
    """By the program that was the first to find it; where the generator has changed, search for another."""
    fault = faults.FAULTS[number]
    assert faults.found(number, fault.seed, 1), "python -m fuzz.sac.faults finds another seed"


def test_a_run_goes_on(tmp_path: Path) -> None:
    """Behind what ran, and behind a program that ended the process, which counts as a find."""
    path = tmp_path / "totals.json"
    arguments = ["--seed", "7", "--totals", str(path)]
    assert main([*arguments, "--count", "2"]) == 0
    assert main([*arguments, "--count", "1"]) == 0
    totals = Totals.of(path, 7, ())
    assert (totals.seed, totals.report.ran, [p.programs for p in totals.parts]) == (10, 3, [2, 1, 0])
    assert totals.report.runs == {"interpret": 3, "reference": 3}
    totals.running = 10
    totals.keep()
    assert main([*arguments, "--count", "1"]) == 1
    totals = Totals.of(path, 7, ())
    assert (totals.seed, totals.report.ran) == (12, 4)
    assert totals.report.found == [(10, "?", "the process died")]
