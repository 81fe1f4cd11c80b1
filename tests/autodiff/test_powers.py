"""Derivatives of `pow` and of functions of two arguments at their kinks: those of PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tc

torch: Any = pytest.importorskip("torch")
Array = np.ndarray[Any, Any]
TYPES = ("float32", "float64")
EDGES = (0.0, -0.0, 1.0, 2.0, 0.5, -2.0, np.inf)
EXPONENTS = (0, 1, 2, 3, -1, 0.5, 2.5)


def _tc_type(dtype: str) -> str:
    return {"float32": "float", "float64": "double"}[dtype]


def _run(source: str, *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return tc.interpret(source, *args)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", EXPONENTS)
def test_a_literal_exponent(n: float, dtype: str) -> None:
    source = f"def f({_tc_type(dtype)}(N) x) -> (y) {{ y(i) = pow(x(i), {n}) }}"
    x = np.array(EDGES, dtype)
    one = np.ones_like(x)
    t = torch.tensor(x, requires_grad=True)
    (first,) = torch.autograd.grad((t**n).sum(), t, create_graph=True)
    grad = tc.grad(source)
    np.testing.assert_allclose(_run(grad, x, one), first.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(_run(tc.jvp(source), x, one)[1], first.detach().numpy(), rtol=1e-6)
    if n not in (0, 1):  # the first is a constant of those
        (second,) = torch.autograd.grad(first.sum(), t)
        again = _run(tc.grad(grad, wrt=["x"]), x, one, one)
        kept = ~((x == 0) & np.signbit(x))  # PyTorch's square root of -0 is -0
        np.testing.assert_allclose(again[kept], second.numpy()[kept], rtol=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_tensor_of_exponents(dtype: str) -> None:
    t = _tc_type(dtype)
    source = f"def f({t}(N) x, {t}(N) p) -> (y) {{ y(i) = pow(x(i), p(i)) }}"
    x, p = np.array([*itertools.product(EDGES, EXPONENTS)], dtype).T
    one = np.ones_like(x)
    tx, tp = torch.tensor(x.copy(), requires_grad=True), torch.tensor(p.copy(), requires_grad=True)
    firsts = torch.autograd.grad((tx**tp).sum(), (tx, tp), create_graph=True)
    grad = tc.grad(source)
    found = _run(grad, x, p, one)
    for a, b in zip(found, firsts, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-6)
    for wrt, first in zip(("x", "p"), firsts, strict=True):
        made = _run(tc.jvp(source, wrt=[wrt]), x, p, one)[1]
        np.testing.assert_allclose(made, first.detach().numpy(), rtol=1e-6)
    once = tc.grad(source, wrt=["x"])
    (second,) = torch.autograd.grad(firsts[0].sum(), tx)
    again = _run(tc.grad(once, wrt=["x"]), x, p, one, one)
    # PyTorch's second derivative of a power of 0 is NaN at 0, though the first is 0 everywhere.
    np.testing.assert_allclose(again, np.where(p == 0, 0, second.numpy()), rtol=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_whole_numbers_and_scalars_as_exponents(dtype: str) -> None:
    t = _tc_type(dtype)
    x = np.array(EDGES, dtype)
    tx = torch.tensor(x, requires_grad=True)
    for k in (0, 1, 2, 3):
        (first,) = torch.autograd.grad((tx**k).sum(), tx)
        numbers = f"def f({t}(N) x, int(N) k) -> (y) {{ y(i) = pow(x(i), k(i)) }}"
        found = _run(tc.grad(numbers, wrt=["x"]), x, np.full(x.shape, k, np.int32), np.ones_like(x))
        np.testing.assert_allclose(found, first.numpy(), rtol=1e-6)
        scalar = f"def f({t}(N) x, {t} k) -> (y) {{ y(i) = pow(x(i), k) }}"
        found = _run(tc.grad(scalar, wrt=["x"]), x, float(k), np.ones_like(x))
        np.testing.assert_allclose(found, first.numpy(), rtol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_power_of_0_is_constant_whatever_arrives(backend: str) -> None:
    x, p = np.array([0, 0, 3], np.float32), np.array([0, 2, 0], np.float32)
    source = "def f(float(N) x, float(N) p) -> (y) { y(i) = pow(x(i), p(i)) }"
    kernel = tc.compile(tc.grad(source, wrt=["x"]), backend=backend)
    assert kernel(x, p, np.array([np.inf, 1, np.inf], np.float32)).tolist() == [0, 0, 0]
    literal = "def f(float(N) x) -> (y) { y(i) = pow(x(i), 0) }"
    assert tc.compile(tc.grad(literal), backend=backend)(x, np.ones(3, np.float32)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["atan2", "copysign"])
def test_functions_of_two_arguments_at_0(name: str) -> None:
    source = f"def f(double(N) x, double(N) z) -> (y) {{ y(i) = {name}(x(i), z(i)) }}"
    x, z = np.array([*itertools.product((0.0, -0.0, 1.0, -2.0), repeat=2)]).T
    tx, tz = torch.tensor(x.copy(), requires_grad=True), torch.tensor(z.copy(), requires_grad=True)
    wanted = torch.autograd.grad(getattr(torch, name)(tx, tz).sum(), (tx, tz))
    found = _run(tc.grad(source, wrt=["x", "z"]), x, z, np.ones_like(x))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-12)


def test_the_length_of_nothing_has_no_slope_and_that_of_nan_has_nan() -> None:
    source = "def f(double(N) x, double(N) z) -> (y) { y(i) = hypot(x(i), z(i)) }"
    found = _run(tc.grad(source), np.array([0.0, 3.0, 1.0]), np.array([0.0, 4.0, np.nan]), np.ones(3))
    np.testing.assert_allclose(found, ([0, 0.6, np.nan], [0, 0.8, np.nan]))
