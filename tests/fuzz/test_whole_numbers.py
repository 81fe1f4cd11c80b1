"""Random programs with loops, modes, scatter and arg-reductions (python -m fuzz.whole_numbers)."""

from __future__ import annotations

from typing import Any

import pytest

import tc
from fuzz import whole_numbers
from fuzz.whole_programs import program
from tests.share import examples


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
def test_random_programs(backend: str) -> None:
    start, count = {"interpret": (0, 40), "reference": (100, 20), "cpu": (200, 60), "opencl": (300, 10)}[
        backend
    ]
    found = [whole_numbers.problem(seed, backend) for seed in range(start, start + examples(count, of=30))]
    assert not any(found), next(filter(None, found))


def test_each_kind_of_statement_is_made() -> None:
    sources = [program(seed).source for seed in range(300)]
    for text in (
        "for t in",
        "for j in",
        "[clamp",
        "[wrap",
        "argmax=!",
        "argmin=!",
        "k <= i",
        "(q(i)",
        "(n1(i)",
    ):
        assert sum(text in s for s in sources) >= 5, text


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tc.compile

    def off_by_one(*args: Any, **options: Any) -> Any:
        kernel = compiled(*args, **options)

        def run(**given: Any) -> Any:
            made = kernel(**given)
            return tuple(x + 1 for x in made) if isinstance(made, tuple) else made + 1

        return run

    monkeypatch.setattr(tc, "compile", off_by_one)
    assert all(" and not " in whole_numbers.problem(seed, "reference") for seed in (1, 2))
