"""Functions of literals adapt as literals do: in a program of doubles they are exact to a double."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tc

VALUES = {
    "sqrt(2.0)": math.sqrt(2),
    "sqrt(2)": math.sqrt(2),
    "exp(1.0) / 3": math.e / 3,
    "sqrt(sqrt(3.0))": math.sqrt(math.sqrt(3)),
    "fmax(0.1, 0.05)": 0.1,
    "min(0.1, 1)": 0.1,
    "-log(10.0)": -math.log(10),
    "(1 > 0 ? sqrt(5.0) : 0.0)": math.sqrt(5),
    "double(sqrt(2.0))": math.sqrt(2),
}


@pytest.mark.parametrize("text", VALUES)
def test_in_doubles(text: str) -> None:
    source = f"def f(double(N) x) -> (y, z) {{ y(i) = x(i) * {text} z(i) = c + x(i) where c = {text} }}"
    x = np.arange(1.0, 4.0)
    found = [tc.interpret(source, x), *(tc.compile(source, backend=b)(x) for b in ("reference", "cpu"))]
    for y, z in found:
        assert y.dtype == z.dtype == np.float64
        np.testing.assert_allclose(y, x * VALUES[text], rtol=4e-16)
        np.testing.assert_allclose(z, x + VALUES[text], rtol=4e-16)


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        ("def f(float(N) x) -> (y) { y(i) = sqrt(2.0) * x(i) }", "f4"),
        ("def f(float16(N) x) -> (y) { y(i) = sqrt(2.0) * x(i) }", "f2"),
        ("def f(int(N) x) -> (y) { y(i) = sqrt(2) * x(i) }", "f4"),
        ("def f(int(N) x) -> (y) { y(i) = sqrt(2) where i in 0:N }", "f4"),
        ("def f(double(N) x) -> (double(N) y) { y(i) = sqrt(2) where i in 0:N }", "f8"),
        ("def f(double(N) x) -> (y) { y(i) = sqrt(2.0f) * x(i) }", "f8"),
    ],
)
def test_types(source: str, dtype: str) -> None:
    x = np.ones(2, {"f2": "f2", "f8": "f8"}.get(dtype, "i4" if "int" in source else "f4"))
    assert tc.compile(source, backend="reference")(x).dtype == np.dtype(dtype)


def test_an_integer_takes_no_function_of_literals() -> None:
    with pytest.raises(tc.Error) as error:
        tc.compile("def f(int(N) x) -> (int(N) y) { y(i) = sqrt(2) where i in 0:N }")
    assert error.value.code == "TC0404"


def test_conditions_are_no_operands() -> None:
    """The literal of a condition does not make floats of those that it chooses."""
    source = "def f(double x, int(N) v) -> (y) { y(i) = (x > 3.0 ? 7 : -2) * v(i) + select(x > 3.0, 1, 2) }"
    found = tc.compile(source, backend="reference")(2.0, np.array([1, 2], np.int32))
    assert found.dtype == np.int32 and found.tolist() == [0, -2]
