"""Subscripts and conditions that the language types as float, or that a cast cuts: each backend computes them
in these types."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.running import BACKENDS, run

N = np.arange(16)
WIDE = np.arange(300)
SCALED = (N.astype(np.float32) * np.float32(0.75)).astype(int)

# A body over the tensor X(W) and the scalars s (0.75) and n (3), and the elements of X that it must read.
CASES: dict[str, tuple[str, np.ndarray[Any, Any]]] = {
    "a float literal": ("Y(x) = X(int(float(x)*0.75)) where x in 0:W", SCALED),
    "a clamp": ("Y(x) = X(min(max(int(float(x)*0.75), 0), W-1)) where x in 0:W", SCALED),
    "a float scalar": ("Y(x) = X(int(float(x)*s)) where x in 0:W", SCALED),
    "a clamped float scalar": ("Y(x) = X(clip) where x in 0:W, clip = min(int(float(x)*s), W-1)", SCALED),
    "a size times a literal": ("Y(x) = X(min(x, int(0.5*W))) where x in 0:W", np.minimum(N, 8)),
    "a choice of floats": ("Y(x) = X(select(x*0.5 > 3.5, 0, x)) where x in 0:W", np.where(N > 7, 0, N)),
    "a lazy choice": ("Y(x) = x*0.5 > 3.5 ? X(max(x-7, 0)) : X(x) where x in 0:W", np.where(N > 7, N - 7, N)),
    "in a sum": ("Y(x) = X(int(float(x)*0.25) + x/2) where x in 0:W", N // 4 + N // 2),
    "a quotient of integers in a float": ("Y(x) = X(int(float(x/3))) where x in 0:W", N // 3),
    "a double": ("Y(x) = X(int(double(x)/2.5)) where x in 0:W", (N / 2.5).astype(int)),
    "a half": ("Y(x) = X(int(half(x)*0.75)) where x in 0:W", SCALED),
    "a function": ("Y(x) = X(int(sqrt(float(x)))) where x in 0:W", np.sqrt(N).astype(int)),
    "rounded": ("Y(x) = X(int(round(float(x)/2.0))) where x in 0:W", np.floor(N / 2 + 0.5).astype(int)),
    "an absolute value": ("Y(x) = X(abs(x-1)) where x in 0:W", abs(N - 1)),
    "a float's absolute value": ("Y(x) = X(int(abs(float(x)-7.5))) where x in 0:W", abs(N - 7.5).astype(int)),
    "a remainder of floats": ("Y(x) = X(int(fmod(float(x), 5.0))) where x in 0:W", N % 5),
    "an integer scalar in a float": ("Y(x) = X(int(float(x)/float(n))) where x in 0:W", N // 3),
    "an int64": ("Y(x) = X(int64(float(x)*0.75)) where x in 0:W", SCALED),
}  # fmt: skip
HEAD = "def f(float(W) X, float s, int n) -> (Y) {{ {} }}"


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_subscripts(name: str, backend: str) -> None:
    body, places = CASES[name]
    values = np.random.default_rng(0).random(16, np.float32)
    if backend == "halide" and "fmod" in body:
        pytest.skip("Halide has no fmod")
    found = run(backend, HEAD.format(body), values, np.float32(0.75), 3)
    np.testing.assert_array_equal(found, values[places])


@pytest.mark.share(54)
@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
@pytest.mark.parametrize("name", CASES)
def test_subscripts_at_dynamic_sizes(name: str, backend: str) -> None:
    body, places = CASES[name]
    values = np.random.default_rng(0).random(16, np.float32)
    found = run(backend, HEAD.format(body), values, np.float32(0.75), 3, dynamic=("W",))
    np.testing.assert_array_equal(found, values[places])


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("cast", "places"),
    [
        ("uint8(x)", WIDE % 256),
        ("int(uint8(x))", WIDE % 256),
        ("int(int8(x)) + 128", WIDE.astype(np.int8).astype(int) + 128),
        ("abs(int(int8(x)))", abs(WIDE.astype(np.int8).astype(int))),
        ("uint16(x)", WIDE),
    ],
)
def test_casts_that_wrap(cast: str, places: np.ndarray[Any, Any], backend: str) -> None:
    values = np.random.default_rng(0).random(300, np.float32)
    source = f"def f(float(W) X) -> (Y) {{ Y(x) = X({cast}) where x in 0:W }}"
    np.testing.assert_array_equal(run(backend, source, values), values[places])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_subscript_out_of_range_is_an_error(backend: str) -> None:
    source = "def f(float(W) X) -> (Y) { Y(x) = X(int(float(x)*1.5)) where x in 0:W }"
    with pytest.raises(tc.BoundsError, match="X"):
        run(backend, source, np.zeros(16, np.float32))


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("kind", "subscript", "data", "places"),
    [
        ("int8", "max(A(i), 0) + 100", [-128, 0, 27], [100, 100, 127]),
        ("int8", "-min(A(i), 0)", [-127, 5], [127, 0]),
        ("int8", "abs(A(i))", [-127, 127], [127, 127]),
        ("uint8", "100 - min(A(i), 100)", [0, 99, 255], [100, 1, 0]),
        ("uint8", "A(i) * 2", [0, 127, 128, 255], [0, 254, 0, 254]),
        ("int16", "(min(max(A(i), 0), 200) * 200) / 200", [-3, 0, 163], [0, 0, 163]),
    ],
)
def test_arithmetic_on_data_wraps_in_its_type(
    kind: str, subscript: str, data: list[int], places: list[int], backend: str
) -> None:
    """Range inference must not take it to be exact: what is proved in range is not checked."""
    source = f"def f(float(300) B, {kind}(N) A) -> (Y) {{ Y(i) = B({subscript}) }}"
    found = run(backend, source, np.arange(300, dtype=np.float32), np.array(data, kind))
    np.testing.assert_array_equal(found, places)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("kind", "subscript", "bad"),
    [
        ("int8", "max(A(i), 0) + 100", 28),
        ("int8", "-min(A(i), 0)", -128),
        ("int8", "abs(A(i))", -128),
        ("int16", "(min(max(A(i), 0), 200) * 200) / 200", 164),
    ],
)
def test_wrapped_arithmetic_reads_no_foreign_memory(
    kind: str, subscript: str, bad: int, backend: str
) -> None:
    source = f"def f(float(300) B, {kind}(N) A) -> (Y) {{ Y(i) = B({subscript}) }}"
    with pytest.raises(tc.BoundsError):
        run(backend, source, np.zeros(300, np.float32), np.array([0, bad], kind))


def test_a_check_that_is_left_is_announced() -> None:
    with pytest.warns(tc.DataDependentAccess, match="computed in a type that may change it"):
        tc.compile("def f(float(W) X) -> (Y) { Y(x) = X(int(x*0.75)) where x in 0:W }", "reference")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tc.compile(
            "def f(float(W) X) -> (Y) { Y(x) = X(max(min(int(x*0.75), W-1), 0)) where x in 0:W }", "reference"
        )


@pytest.mark.share(54)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("subscript", ["I(n)+1", "2*I(n)-3", "max(min(I(n)-3, V-1), 0)", "abs(I(n)-7)"])
def test_an_index_of_any_type_does_not_wrap(subscript: str, dtype: str, backend: str) -> None:
    """`int I` takes arrays of other integer types, whose own arithmetic would wrap."""
    i = np.array([2, 5, 120], dtype)
    wide = i.astype(np.int64)
    places = {
        "I(n)+1": wide + 1,
        "2*I(n)-3": 2 * wide - 3,
        "max(min(I(n)-3, V-1), 0)": np.maximum(wide - 3, 0),
        "abs(I(n)-7)": abs(wide - 7),
    }
    x = np.arange(300, dtype=np.float32)
    source = f"def f(float(V) X, int(N) I) -> (Y) {{ Y(n) = X({subscript}) }}"
    np.testing.assert_array_equal(run(backend, source, x, i), x[places[subscript]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_constant_in_what_a_subscript_converts(backend: str) -> None:
    x = np.arange(16, dtype=np.float32)
    source = "def f(float(W) X) -> (Y) { Y(x) = X(int(pi*float(x))) where x in 0:5 }"
    np.testing.assert_array_equal(run(backend, source, x), [0, 3, 6, 9, 12])
    as_index = "def f(float(W) X) -> (Y) { Y(pi) = X(int(float(pi)*0.5)) where pi in 0:5 }"
    np.testing.assert_array_equal(run(backend, as_index, x), [0, 0, 1, 1, 2])
