"""Arg-reductions over prefixes and suffixes become prefix reductions."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir.printer import program_text
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.transforms.program.prefix_places import into_prefixes

RANGES = "d in 0:N, k in 0:N"


def transformed(statement: str) -> tuple[str, str]:
    """A program of one statement, before and after the pass."""
    source = f"def f(float(N) x, float(N,N) A, int(N) p) -> (i) {{ {statement} }}"
    program = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    program = specialize(program, {"N": 40})
    return program_text(program), program_text(into_prefixes(program)[0])


def test_the_place_moves_where_the_extreme_changes() -> None:
    after = transformed(f"i(d) argmax=! p(k) where k <= d, {RANGES}")[1]
    assert (
        "i(d) max= select(i_extreme(k) != i_extreme(max(k - 1, 0)), int32(k), int32(0))   for d in [0, 40); "
        "reduce k in [0, 40) where k <= d" in after
    )


def test_of_a_suffix_the_first_extreme_from_there_on_counts() -> None:
    after = transformed(f"i(d) argmin=! x(k) where k >= d, {RANGES}")[1]
    assert "i(d) min= select(x(k) == i_extreme(k) || x(k) != x(k), int32(k), 2147483647)" in after


def test_stored_values_have_no_dimension_for_the_results() -> None:
    before, after = transformed(f"i(d) argmax=! x(k) * x(k) where k <= d, {RANGES}")
    assert "i_value(d, k) = " in before and "i_value(k) = x(k) * x(k)   for k in [0, 40)\n" in after


@pytest.mark.parametrize(
    "statement",
    [
        "i(d) argmax=! A(d,k)",  # all values of a row
        f"i(d) argmax=! A(d,k) where k <= d, {RANGES}",  # values of each result
        "i(d) argmax=! x(k) where k < d, d in 1:N, k in 0:N",  # the first result has a value beside it
        f"i(d) argmax=! x(k) where k <= d, k >= d - 3, {RANGES}",  # a window
        f"i(d) min=! x(k) > x(d) ? k : N where k <= d, {RANGES}",  # compares with no extreme
    ],
)  # fmt: skip
def test_others_stay(statement: str) -> None:
    before, after = transformed(statement)
    assert before == after


def places(x: np.ndarray, pick: str, suffix: bool) -> np.ndarray:
    """The place of the extreme up to each element of a row, or from it on."""
    n = x.shape[-1]
    found = getattr(np, pick)
    parts = [found(x[..., d:], axis=-1) + d if suffix else found(x[..., : d + 1], axis=-1) for d in range(n)]
    return np.stack(parts, axis=-1)


@pytest.mark.share(6)
@pytest.mark.parametrize("condition", ["k <= d", "k >= d"])
@pytest.mark.parametrize("pick", ["argmax", "argmin"])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_places_of_few_values_and_of_nan(backend: str, pick: str, condition: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (6, 90)).astype(np.float32)
    x[1, 40] = x[1, 50] = x[2, 0] = x[3, -1] = np.nan
    x[4], x[5, ::2] = -np.inf, np.inf
    source = f"def f(float(B,N) x) -> (i) {{ i(n,d) {pick}=! x(n,k) where {condition}, {RANGES} }}"
    kernel = tc.compile(source, backend)
    np.testing.assert_array_equal(kernel(x), places(x, pick, condition == "k >= d"))


@pytest.mark.parametrize("condition", ["k <= d", "k >= d"])
def test_places_down_columns_of_computed_values(condition: str) -> None:
    x = np.random.default_rng(1).integers(-5, 6, (60, 20)).astype(np.int32)
    source = f"def f(int(N,M) x) -> (i) {{ i(d,m) argmax=! x(k,m) * x(k,m) where {condition}, {RANGES} }}"
    want = places((x * x).T, "argmax", condition == "k >= d").T
    np.testing.assert_array_equal(tc.compile(source, "cpu")(x), want)


def test_places_on_a_gpu_backend() -> None:
    x = np.random.default_rng(2).integers(-5, 6, 200).astype(np.float64)
    source = f"def f(double(N) x) -> (i) {{ i(d) argmin=! x(k) where k <= d, {RANGES} }}"
    np.testing.assert_array_equal(tc.compile(source, "opencl")(x), places(x, "argmin", False))


def test_the_extreme_beside_its_place() -> None:
    x = np.random.default_rng(3).integers(-9, 10, (4, 70)).astype(np.float32)
    source = f"""def f(float(B,N) x) -> (i, m) {{
      i(n,d) argmax=! x(n,k) where k <= d, {RANGES}
      m(n,d) max=! x(n,k) where k <= d, {RANGES}
    }}"""
    i, m = tc.compile(source, "cpu")(x)
    np.testing.assert_array_equal(i, places(x, "argmax", False))
    np.testing.assert_array_equal(m, np.maximum.accumulate(x, axis=1))
