"""Random tables of rows and columns that depend on each other (python -m fuzz.tables)."""

from __future__ import annotations

from typing import Any

import pytest

import tc
from fuzz import tables
from tests.share import examples


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
def test_random_tables(backend: str) -> None:
    start, count = {"interpret": (0, 6), "reference": (100, 10), "cpu": (200, 60), "opencl": (300, 6)}[
        backend
    ]
    found = [tables.problem(seed, backend) for seed in range(start, start + examples(count, of=16))]
    assert not any(found), next(filter(None, found))


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tc.compile

    def off_by_one(*args: Any, **options: Any) -> Any:
        kernel = compiled(*args, **options)
        return lambda **given: tuple(x + 1 for x in kernel(**given))

    monkeypatch.setattr(tc, "compile", off_by_one)
    found = [tables.problem(seed, "reference") for seed in (1, 2)]  # of integers, and of floating numbers
    assert all(" and not " in f for f in found)
