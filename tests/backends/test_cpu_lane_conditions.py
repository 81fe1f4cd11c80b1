"""Conditions that are known for each lane at compile time: both sides are loaded and put together."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import code_of, compiled, isas


def numpy_type(name: str) -> Any:
    return {"half": "f2", "double": "f8", "bfloat16": ml_dtypes.bfloat16}.get(name, name)


CHOICES = {
    "two arrays take turns": "i % 2 == 0 ? a(i/2) : b(i/2)",
    "odd elements first": "(i+1) % 2 == 0 ? a(i/2) : b(i/2)",
    "pairs take turns": "i / 2 % 2 == 0 ? a(i/2) : b(i/2)",
    "rows of four": "i % 4 < 3 ? a(i/4) : b(i/4)",
    "a negative dividend": "(i - 5) % 2 == 1 ? a(i/2) : b(i/2)",
    "three arrays": "i % 4 == 0 ? a(i/4) : (i % 4 < 3 ? b(i/4) : a(i/4+1))",
    "no power of two": "i % 3 == 0 ? a(i/3) : b(i/3)",
    "backwards": "(N-1-i) % 2 == 0 ? a(i/2) : b(i/2)",
    "and": "i % 2 == 0 && i / 2 % 2 == 1 ? a(i/2) : b(i/2)",
    "or and not": "!(i % 4 == 1 || i % 4 == 2) ? a(i/2) : b(i/2)",
    "one side is a number": "i % 2 == 0 ? a(i/2) : 7",
    "elements as they lie": "i % 2 == 0 ? a(i) : b(i)",
    "an element that has none": "i % 2 == 0 && i > 0 ? a(i/2 - 1) : b(i/2)",
    "data say where": "i % 2 == 0 ? a(min(max(int(b(i/2)),0),3)) : b(i/2)",
    "one row for all": "i % 2 == 0 ? a(0) : b(i/2)",
}


def run(source: str, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return compiled(source, **options)(*args), tc.interpret(source, *args)


@pytest.mark.share(8)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("n", [8, 37, 64])
@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str, n: int, isa: str) -> None:
    source = f"def f(float(N) a, float(N) b) -> (y) {{ y(i) = {CHOICES[name]} where i in 0:N }}"
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, n).astype("f4") for _ in range(2))
    np.testing.assert_array_equal(*run(source, a, b, isa=isa))


@pytest.mark.parametrize("dtype", ["int8", "half", "double", "int64", "bool"])
def test_types(dtype: str) -> None:
    source = (
        f"def f({dtype}(N) a, {dtype}(N) b) -> (y) {{ y(i) = i % 2 == 0 ? a(i/2) : b(i/2) where i in 0:2*N }}"
    )
    kind = numpy_type(dtype)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 2, 45).astype(kind) for _ in range(2))
    np.testing.assert_array_equal(*run(source, a, b))


ROWS = """def f(float(M,N) a, float(M,N) b) -> (y, s) {
  y(m,i) = i % 2 == 0 ? a(m,i/2) : b(m,i/2) where i in 0:2*N
  s(m) +=! (i % 2 == 0 ? a(m,i/2) : b(m,i/2)) where i in 0:2*N
}"""


@pytest.mark.parametrize("n", [16, 29])
@pytest.mark.parametrize("vector", [-1, 0, 1, None])
def test_rows_and_their_sums(vector: int | None, n: int) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-9, 10, (5, n)).astype("f4") for _ in range(2))
    for got, wanted in zip(*run(ROWS, a, b, vector=vector), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_elements_that_are_not_chosen_are_not_checked() -> None:
    source = "def f(float(N) a, int(N) r) -> (y) { y(i) = i % 2 == 0 ? a(r(i)) : 0 }"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(source, "cpu")
    a, r = np.arange(40, dtype="f4"), np.arange(40, dtype="i4")
    r[1::2] = 99
    np.testing.assert_array_equal(kernel(a, r), np.where(np.arange(40) % 2 == 0, a, 0))
    r[6] = 99
    with pytest.raises(tc.BoundsError, match="i = 6"):
        kernel(a, r)


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_nothing_is_gathered(isa: str) -> None:
    source = "def f(float(N) a, float(N) b) -> (y) { y(i) = i % 2 == 0 ? a(i/2) : b(i/2) where i in 0:2*N }"
    text = code_of(compiled(source).program({"N": 512}), isa=isa).text
    assert "gather" not in text
    assert "shufflevector" in text


@pytest.mark.share(12)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("mode", ["zero", "clamp", "reflect", "symmetric", "wrap", "fill=2"])
@pytest.mark.parametrize("n", [3, 16, 37, 64])
def test_images_that_are_enlarged_have_every_border(n: int, mode: str, isa: str) -> None:
    """All lanes of most vectors are inside, where their addresses are known."""
    source = f"""def f(float(M,N) x) -> (y) {{
      y(h,w) = 2 * x[{mode}](top, left) - x[{mode}](top, left+1)
        where h in 0:2*M, w in 0:2*N, top = (h+1)/2-1, left = (w+1)/2-1
    }}"""
    x = np.random.default_rng(3).integers(-9, 10, (4, n)).astype("f4")
    np.testing.assert_array_equal(*run(source, x, isa=isa))


@pytest.mark.parametrize("dtype", ["half", "bfloat16", "int8", "double", "bool"])
def test_types_of_images_that_are_enlarged(dtype: str) -> None:
    source = f"def f({dtype}(N) x) -> (y) {{ y(w) = x[clamp]((w+1)/2-1) where w in 0:2*N }}"
    x = np.random.default_rng(4).integers(0, 2, 70).astype(numpy_type(dtype))
    np.testing.assert_array_equal(*run(source, x))


def test_lanes_that_are_all_inside_are_loaded_without_a_mask() -> None:
    source = "def f(float(N) x) -> (y) { y(w) = x[clamp]((w+1)/2-1) where w in 0:2*N }"
    text = code_of(compiled(source).program({"N": 512})).text
    inside = text[text.index("\ninside") :]
    inside = inside[: inside.index("br label")]
    assert "shufflevector" in inside and "masked" not in inside
