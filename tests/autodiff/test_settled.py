"""What ranges settle in values: conditions, remainders and minima.  Gradients of boundary modes need it."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.autodiff.settled import settled
from tc.ir.printer import text
from tc.pipeline.front import Variant, build


def before_and_after(value: str) -> tuple[str, str]:
    source = f"def f(double(N) x, double(N) p) -> (y) {{ y(i) = {value} + p(i) where i in 0:N }}"
    kernel = tc.compile(source, "reference")
    program = build(kernel.front, Variant(checks=False)).program
    (s,) = program.stages
    return text(s.value), text(settled(s.value, s.domain, program.sizes))


REST = " + p(i)"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((f"x[{mode}](i)", "x(i)") for mode in ("zero", "clamp", "reflect", "symmetric", "wrap")),
        ("x[symmetric](i+1)", "(int32(i) + 1 < int32(N) ? x(i + 1) : x(2 * N - i - 2))"),
        ("x[symmetric](i-1)", "(int32(i) - 1 >= 0 ? x(i - 1) : x(-i))"),
        ("x[wrap](i+1)", "(int32(i) + 1 < int32(N) ? x(i + 1) : x(i - N + 1))"),
        ("x[wrap](i-1)", "(int32(i) - 1 >= 0 ? x(i - 1) : x(i + N - 1))"),
        ("x[clamp](i+3)", "(int32(i) + 3 < int32(N) ? x(i + 3) : x(N - 1))"),
        ("(i < 0 ? 1.0 : i >= N ? 2.0 : x(i))", "x(i)"),
        ("(i >= 1 ? (i >= 1 ? x(i-1) : 3.0) : (i >= 1 ? 4.0 : x(i)))", "(int32(i) >= 1 ? x(i - 1) : x(i))"),
        ("(i >= 0 && p(i) > 0.0 ? x(i) : 1.0)", "(p(i) > 0.0 ? x(i) : 1.0)"),
        ("x(min(i, N - 1))", "x(i)"),
    ],
)
def test_what_ranges_settle_is_left_out(value: str, expected: str) -> None:
    before, after = before_and_after(value)
    assert after == expected + REST
    assert before != after


@pytest.mark.parametrize(
    "value",
    [
        "(i >= 1 ? x(i - 1) : 0.0)",
        "(p(i) > 0.0 ? x(i) : 1.0)",
        "(p(i) > 0.0 ? 1.0 : (p(i) > 0.0 ? 2.0 : x(i)))",  # it is for data to say
        "x(min(i, N / 2))",
    ],
)
def test_what_may_hold_or_not_stays(value: str) -> None:
    before, after = before_and_after(value)
    assert after == before


@pytest.mark.parametrize("mode", ["clamp", "symmetric", "wrap"])
def test_gradients_of_modes_one_element_away_have_no_remainders_nor_tables(mode: str) -> None:
    gradient = tc.grad(f"def f(double(N) x) -> (y) {{ y(i) = x[{mode}](i+1) * x(i) where i in 0:N }}")
    assert "%" not in gradient and "place" not in gradient


LENGTH = """
def f(double(W) u) -> (l) { l +=! sqrt((u[symmetric](j+1)-u(j))*(u[symmetric](j+1)-u(j)) + 0.01) }
"""
VARIATION = """
def f(double(H,W) u) -> (l) {
  l +=! sqrt((u[symmetric](i+1,j)-u(i,j))*(u[symmetric](i+1,j)-u(i,j))
           + (u[symmetric](i,j+1)-u(i,j))*(u[symmetric](i,j+1)-u(i,j)) + 0.01)
}
"""


@pytest.mark.parametrize(
    ("source", "shape"),
    [(LENGTH, (7,)), pytest.param(VARIATION, (4, 5), marks=pytest.mark.slow)],  # whose text has 30,000 signs
    ids=["length", "variation"],
)
def test_second_derivatives_of_total_variations(source: str, shape: tuple[int, ...]) -> None:
    first = tc.compile(tc.grad(source), backend="cpu")
    second = tc.compile(tc.grad(tc.grad(source), wrt="u", of="d_u"), backend="cpu")
    u, along = np.random.default_rng(0).standard_normal((2, *shape))
    step = 1e-6 * along
    expected = (first(u + step, 1.0) - first(u - step, 1.0)) / 2e-6
    np.testing.assert_allclose(second(u, 1.0, along), expected, rtol=1e-6, atol=1e-7)


def test_what_only_branches_read_that_are_never_taken_is_not_computed() -> None:
    source = """def f(double(N) x, double(N) w) -> (t, y) {
      t(j) +=! 1.0 where j in 0:N, i in 0:N
      y(i) +=! (i > 1 ? w(j) + t(j) : exp(x(i))) where i in 0:N, j in 0:N
    }"""
    g = tc.grad(source)
    assert "d_x(i) +=! d_y(i) * exp(x(i)) where" in g and " t(j)" not in g
    x, d_y = np.arange(3.0), np.array([1.0, 10.0, 100.0])
    d_x, d_w = tc.compile(g, backend="reference")(x, x, np.ones(3, "f4"), d_y)
    np.testing.assert_allclose(d_x, [3, 30 * np.exp(1), 0])
    np.testing.assert_allclose(d_w, [100] * 3)
