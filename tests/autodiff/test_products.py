"""Derivatives of products, of the first and second order, where elements are 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

Array = np.ndarray[Any, Any]
SOURCE = "def f(double(N) x) -> (y) { y *=! x(i) }"
ZEROS = [(2, 3, 5), (2, 0, 5), (0, 0, 5), (0, 0, 0), (0, 0, 3, 4), (0, 2, 0, 0, 5), (-2, 0, 3), (7,), (0,)]


def others(x: Array, *left_out: int) -> float:
    return float(np.prod(np.delete(x, left_out)))


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu"])
@pytest.mark.parametrize("values", ZEROS)
def test_first_and_second_derivatives(values: tuple[int, ...], backend: str) -> None:
    x = np.array(values, float)
    n = len(x)
    first = np.array([others(x, i) for i in range(n)])
    hessian = np.array([[others(x, i, j) if i != j else 0.0 for j in range(n)] for i in range(n)])
    gradient = tc.grad(SOURCE)
    np.testing.assert_array_equal(run(backend, gradient, x, 1.0), first)
    for along in np.eye(n):
        found = run(backend, tc.jvp(gradient, "x"), x, 1.0, along)
        np.testing.assert_allclose(found[1], hessian @ along, rtol=1e-14, atol=1e-14)
        again = run(backend, tc.grad(gradient, "x"), x, 1.0, along)
        np.testing.assert_allclose(again, hessian @ along, rtol=1e-14, atol=1e-14)


def run(backend: str, source: str, *args: Any) -> Any:
    return tc.interpret(source, *args) if backend == "interpret" else tc.compile(source, backend)(*args)


@pytest.mark.parametrize("values", [(np.inf, 0, 3), (1e200, 0, 1e200, 1e200)])
def test_products_that_are_no_number_beside_a_zero(values: tuple[float, ...]) -> None:
    x = np.array(values)
    want = np.where(x == 0, np.inf, 0.0)
    np.testing.assert_array_equal(tc.compile(tc.grad(SOURCE), "reference")(x, 1.0), want)


def test_prefixes() -> None:
    """The second derivative in two directions, against finite differences of the first."""
    source = "def f(double(N) x) -> (y) { y(i) *=! x(k) where k <= i, i in 0:N }"
    x, d, v = np.array([2.0, 0, 3, 0, 4]), np.array([1.0, -2, 3, 1, 2]), np.array([1.0, 2, -1, 3, 1])
    gradient = tc.compile(tc.grad(source), "reference")
    step = 1e-3
    want = (gradient(x + step * v, d) - gradient(x - step * v, d)) / (2 * step)
    found = tc.compile(tc.jvp(tc.grad(source), "x"), "reference")(x, d, v)
    np.testing.assert_allclose(found[1], want, rtol=1e-4, atol=1e-3)
