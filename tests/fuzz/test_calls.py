"""A short share of the spoilt calls of `python -m fuzz`, and that they would show what is wrong."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tc
from fuzz import calls


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", ["cpu", "reference", "halide"])
def test_calls(backend: str) -> None:
    codes = {calls.attempt(random.Random(i), backend) for i in range(600)}
    assert None in codes and len(codes) > 8


@pytest.mark.parametrize("backend", ["cpu", "reference", "halide"])
def test_an_empty_table_has_no_row(backend: str) -> None:
    """Halide has no arrays without elements; what data say is checked all the same."""
    with pytest.warns(tc.DataDependentAccess):
        kernel = tc.compile(calls.SOURCES["lut"], backend)
    index = np.array([0, 4], np.int32)
    with pytest.raises(tc.BoundsError):
        kernel(np.zeros((0, 4), np.float32), index, 2.0)
    assert np.asarray(kernel(np.zeros((0, 4), np.float32), index[:0], 2.0)).tolist() == [0.0] * 4


def test_arguments_of_compile() -> None:
    codes = [calls.compile_attempt(random.Random(i)) for i in range(400)]
    assert set(codes) > {None, "TC0511", "TC0801"}


def test_wrong_results_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tc, "interpret", lambda *args, **named: np.array(0.5))
    with pytest.raises(AssertionError):
        for i in range(200):
            calls.attempt(random.Random(i), "reference")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backend": {}}, "backend is of type dict, not text"),
        ({"entry": 3}, "entry is of type int, not text"),
        ({"sizes": "M"}, "sizes is of type str, not a mapping"),
        ({"sizes": {1: 2}}, "the size 1 is of type int, not text"),
        ({"options": [1]}, "options are of type list, not a mapping"),
    ],
)
def test_what_is_no_argument_of_compile(given: dict[str, Any], message: str) -> None:
    with pytest.raises(tc.ArgumentError, match=message) as found:
        tc.compile(calls.SOURCES["mm"], **given)
    assert found.value.code == "TC0511"


def test_an_array_that_fails_where_it_is_asked() -> None:
    with pytest.raises(tc.ArgumentError, match="cannot be read through DLPack: no device"):
        tc.compile(calls.SOURCES["mm"], "reference")(calls.Broken(), np.ones((2, 2), np.float32))
