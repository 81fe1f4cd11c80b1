"""Random programs of complex numbers against their own evaluator."""

from __future__ import annotations

import pytest

from fuzz.complex_programs import difference, program
from tests.share import examples


@pytest.mark.parametrize("seed", range(examples(36, 18)))
def test_random_programs(seed: int) -> None:
    p = program(seed)
    for backend in ("interpret", "reference", "cpu", "opencl"):
        assert not difference(p, backend), f"{backend}\n{p.source}"
