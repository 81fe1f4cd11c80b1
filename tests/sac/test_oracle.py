"""The oracle, which evaluates syntax trees, gives what SaC's documents say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sac.oracle import interpret
from tests.sac.table import TABLE
from tests.sac.test_table import MORE


@pytest.mark.parametrize(
    ("source", "args", "expected"), [*((source, args, out) for _, source, args, out in TABLE), *MORE]
)
def test_example(source: str, args: tuple[Any, ...], expected: Any) -> None:
    (found,) = interpret(source, *args)
    assert np.shape(found) == np.shape(expected)
    assert np.array_equal(found, expected)
