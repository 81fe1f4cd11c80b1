"""Facts of the machine where the system reports more than holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import tc

tc.compile("def f(float(N) A) -> (B) { B(i) = A(i) }", "cpu")
machine: Any = sys.modules["tc_backends.cpu.target"]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    machine.host.cache_clear()
    yield
    machine.host.cache_clear()


@pytest.mark.parametrize(
    ("cores", "reported", "counted"), [(2, 300, 32), (2, 16, 16), (1, 32, 32), (16, 300, 128), (64, 300, 300)]
)
def test_a_shared_last_cache_counts_in_part(
    monkeypatch: pytest.MonkeyPatch, cores: int, reported: int, counted: int
) -> None:
    """A virtual machine sees all of it, and none of the others that use it."""
    real = machine._cache

    def cache(level: int, kind: str, size: int, ways: int) -> tuple[int, int]:
        return (reported * MIB, 16) if level == 3 else real(level, kind, size, ways)

    monkeypatch.setattr(machine, "_cache", cache)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert machine.host().l3 == counted * MIB
