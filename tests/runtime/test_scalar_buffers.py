"""`out=` for a result of one element: an array, not a number."""

from __future__ import annotations

import numpy as np
import pytest

import tc

SOURCE = "def f(float(N) A) -> (T) { T += A(i) }"


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_an_array_without_dimensions(backend: str) -> None:
    buffer = np.array(5, np.float32)
    result = tc.compile(SOURCE, backend)(np.ones(3, np.float32), out={"T": buffer})
    assert (result, buffer) == (8, 8)


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_number_is_no_buffer(backend: str) -> None:
    with pytest.raises(tc.ArgumentError):
        tc.compile(SOURCE, backend)(np.ones(3, np.float32), out={"T": np.float32(5)})
