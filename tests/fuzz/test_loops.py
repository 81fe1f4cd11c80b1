"""Random programs with sequential loops, and their gradients (python -m fuzz.loops)."""

from __future__ import annotations

import pytest

from fuzz import loops
from tests.share import examples


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_random_loops(backend: str) -> None:
    found = loops.Found()
    start = {"reference": 0, "cpu": 5000}[backend]
    for seed in range(start, start + examples(30, of=30)):
        loops.compared(seed, ("interpret", backend), found)
    assert not found.wrong
    assert found.right > found.ran // 2


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", [23, 50, 1003, 1026])
def test_gradients_that_were_refused(seed: int) -> None:
    """Adjoints of rows whose number a parameter has, and rows that begin with numbers."""
    found = loops.Found()
    loops.compared(seed, ("reference",), found)
    assert not found.wrong


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loops.Found()
    monkeypatch.setattr(loops, "TOLERANCE", -1.0)
    loops.compared(1, ("reference",), found)
    assert found.wrong[0].startswith("seed 1 on reference")
