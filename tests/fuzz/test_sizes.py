"""Kernels for all sizes, called with some (python -m fuzz.sizes)."""

from __future__ import annotations

from typing import Any

import pytest

import tc
from fuzz import sizes
from tests.share import examples


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_random_sizes(backend: str) -> None:
    start, count = {"reference": (100, 4), "cpu": (200, 8)}[backend]
    found = [sizes.problem(seed, backend) for seed in range(start, start + examples(count, of=4))]
    assert not any(found), next(filter(None, found))


class _Wrong:
    """A kernel whose results are one more, or which writes one element more."""

    def __init__(self, kernel: Any, beside: bool) -> None:
        self.kernel, self.beside, self.front = kernel, beside, kernel.front

    def __call__(self, **given: Any) -> Any:
        found = self.kernel(**given)
        out = given.get("out", ())
        for x in found if isinstance(found, tuple) else (found,):
            if not self.beside:
                x += 1
        for x in out if isinstance(out, tuple) else (out,):
            if self.beside:
                x.base[128 + x.size] = 5
        return found


@pytest.mark.parametrize("beside", [False, True])
def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, beside: bool) -> None:
    compiled = tc.compile
    monkeypatch.setattr(tc, "compile", lambda *a, **o: _Wrong(compiled(*a, **o), beside))
    found = [sizes.problem(seed, "reference") for seed in (1, 2)]
    assert all("wrote beside" in f if beside else " and not " in f for f in found)
