"""Reduction variables that a condition restricts to one remainder."""

from __future__ import annotations

import numpy as np
import pytest

import tc

SPREAD = """
def f(double(N) x, double(K) w) -> (y) {{
  y(i) +=! (i+{p}-u) % {s} == 0 ? x[zero]((i+{p}-u)/{s}) * w(u) : 0 where i in 0:(N-1)*{s}-2*{p}+K
}}
"""


@pytest.mark.parametrize(("s", "p"), [(2, 0), (2, 1), (3, 1), (3, 2)])
def test_the_gradient_of_a_spread_input_is_a_strided_convolution(s: int, p: int) -> None:
    source = SPREAD.format(s=s, p=p)
    text = tc.grad(source)
    assert "%" not in text and "/" not in text
    rng = np.random.default_rng(s + p)
    n, k = 9, 4
    x, w = rng.normal(size=n), rng.normal(size=k)
    g = rng.normal(size=(n - 1) * s - 2 * p + k)
    d_x, d_w = (np.asarray(a) for a in tc.interpret(text, x, w, g))
    whole = np.zeros((n - 1) * s + k)
    whole[p : p + g.size] = g
    at = s * np.arange(n)
    np.testing.assert_allclose(d_x, [whole[i : i + k] @ w for i in at])
    np.testing.assert_allclose(d_w, [whole[at + u] @ x for u in range(k)])


def test_a_short_window_stays_the_sum_over_the_window() -> None:
    """The quotient would have a value for each result."""
    text = tc.grad(
        "def f(double(N) x, double(K) w) -> (y) { y(i) +=! x(2*i+k) * w(k) where i in 0:(N-K)/2 }", "x"
    )
    assert "% 2 == 0" in text and "k in 0:" in text


def test_one_value_is_left() -> None:
    text = tc.grad("def f(double(N) x) -> (y) { y(i) = i % 3 == 0 ? x(i/3) : 0 where i in 0:3*N }")
    assert "d_x(i) = d_y(3 * i)" in text
