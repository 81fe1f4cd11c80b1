"""Random recurrences along rows (python -m fuzz.rows)."""

from __future__ import annotations

from typing import Any

import pytest

import tc
from fuzz import rows
from tests.share import examples


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
def test_random_rows(backend: str) -> None:
    start, count = {"interpret": (0, 6), "reference": (100, 10), "cpu": (200, 60), "opencl": (300, 6)}[
        backend
    ]
    found = [rows.problem(seed, backend) for seed in range(start, start + examples(count, of=16))]
    assert not any(found), next(filter(None, found))


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tc.compile

    def off_by_one(*args: Any, **options: Any) -> Any:
        kernel = compiled(*args, **options)

        def call(**given: Any) -> Any:
            found = kernel(**given)
            return tuple(x + 1 for x in found) if isinstance(found, tuple) else found + 1

        return call

    monkeypatch.setattr(tc, "compile", off_by_one)
    found = [rows.problem(seed, "reference") for seed in (1, 2)]
    assert all(" and not " in f for f in found)
