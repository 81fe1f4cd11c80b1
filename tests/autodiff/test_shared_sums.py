"""Sums that definitions of a gradient have in common."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tc

NORM = """
def f(double(N,D) x, double(D) gain, double(D) bias) -> (y) {
  m(n) +=! x(n,d)
  m(n) = m(n) / D
  v(n) +=! (x(n,d) - m(n)) * (x(n,d) - m(n))
  r(n) = rsqrt(v(n) / D + 0.001)
  y(n,d) = (x(n,d) - m(n)) * r(n) * gain(d) + bias(d)
}
"""


def sums(text: str) -> list[str]:
    """What is summed over a dimension of the data, in order."""
    return re.findall(r"\+=! (.*?) where", text)


def test_a_factor_leaves_the_sum() -> None:
    text = tc.grad(
        "def f(double(N,D) x, double(N) w) -> (y) { y(n) = w(n) * w(n) s(n) +=! x(n,d) y(n) = y(n) * s(n) }"
    )
    assert all("w(" not in s for s in sums(text))


def test_a_normalisation_reads_the_data_in_few_sums() -> None:
    assert sums(tc.grad(NORM)) == [
        "x(n, d)",
        "d_y(n, d) * gain(d)",
        "x(n, d) - m(n)",
        "e * e",  # e = x(n, d) - m(n)
        "d_y(n, d) * gain(d) * (x(n, d) - m(n))",
        "d_y(n, d) * ((x(n, d) - m(n)) * r(n))",  # over n
        "d_y(n, d)",
    ]


def test_a_sum_over_fewer_variables_serves_another_over_more() -> None:
    source = """
    def f(double(N,C,H) x, double(N,C) r, double(C) g, double(C) b) -> (y) {
      y(n,c,h) = x(n,c,h) * r(n,c) * g(c) + b(c)
    }
    """
    found = sums(tc.grad(source, ["r", "g", "b"]))
    assert sum("d_y" in s and "x(" in s for s in found) == 1
    rng = np.random.default_rng(0)
    x, r = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4))
    g, b, d_y = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(3, 4, 5))
    d_r, d_g, d_b = (np.asarray(a) for a in tc.interpret(tc.grad(source, ["r", "g", "b"]), x, r, g, b, d_y))
    np.testing.assert_allclose(d_r, (d_y * x).sum(2) * g)
    np.testing.assert_allclose(d_g, (d_y * x * r[..., None]).sum((0, 2)))
    np.testing.assert_allclose(d_b, d_y.sum((0, 2)))


@pytest.mark.parametrize("n", [0, 1, 7])
def test_the_gradient_of_a_normalisation(n: int) -> None:
    rng = np.random.default_rng(n)
    d = 5
    x, g, b, d_y = rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=d), rng.normal(size=(n, d))
    found = [np.asarray(a) for a in tc.interpret(tc.grad(NORM), x, g, b, d_y)]
    m = x.mean(1, keepdims=True)
    r = 1 / np.sqrt(((x - m) ** 2).mean(1, keepdims=True) + 0.001)
    h, t = (x - m) * r, d_y * g
    d_x = r * (t - t.mean(1, keepdims=True) - h * (t * h).mean(1, keepdims=True))
    for a, e in zip(found, (d_x, (d_y * h).sum(0), d_y.sum(0)), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-8, atol=1e-10)


def test_divisors_and_half_precision() -> None:
    text = tc.grad("def f(double(N,D) x, double(N) w) -> (y) { y(n) +=! x(n,d) / w(n) }", "w")
    assert "/" not in sums(text)[0]
    text = tc.grad("def f(half(N,D) x, half(N) w) -> (y) { y(n) +=! x(n,d) / w(n) }", "w")
    assert any("w(" in s for s in sums(text))  # the sum alone might be too large


def test_conditions_and_loops_stay() -> None:
    guarded = "def f(double(N,D) x, double(N) w) -> (y) { y(n) +=! x(n,d) * w(n) where d in 0:D, d <= n }"
    assert "total" not in tc.grad(guarded, "w")
    looped = "def f(double(N,D) x, double(N) w) -> (y) { y = 0.0 for n in 0:N { y += x(n,d) * w(n) } }"
    assert "d_w" in tc.grad(looped, "w")


def test_a_sum_of_what_a_loop_makes_comes_after_the_loop() -> None:
    source = """
    def f(double(N) x, double(N,N) w, double(N) g, int T) -> (y) {
      h(i) = x(i)
      for t in 0:T {
        a(i) +=! w(i,j) * h(j)
        h(i) = tanh(a(i)) * g(i)
        c(i) = h(i) * g(i)
      }
      y(i) = h(i) + c(i)
    }
    """
    text = tc.grad(source, scalars={"T": 3})
    rng = np.random.default_rng(0)
    x, w, g, d_y = rng.normal(size=4), rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)
    found = [np.asarray(a) for a in tc.interpret(text, x, w, g, 3, d_y)]

    def loss(*values: np.ndarray) -> float:
        return float(np.asarray(tc.interpret(source, *values, 3)) @ d_y)

    for k, gradient in enumerate(found):
        v = rng.normal(size=gradient.shape)
        ends = [loss(*(a + s * 1e-6 * v if i == k else a for i, a in enumerate((x, w, g)))) for s in (1, -1)]
        np.testing.assert_allclose((gradient * v).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


def test_a_scatter_is_no_sum_over_what_says_where() -> None:
    source = """
    def f(double(N) x, double(M) w, int(N) p) -> (y) {
      y(j) +=! x(p(i)) * w(j) * x(i)
    }
    """
    text = tc.grad(source, "x")
    rng = np.random.default_rng(0)
    x, w, p, d_y = (
        rng.normal(size=5),
        rng.normal(size=3),
        np.array([2, 2, 0, 4, 1], np.int32),
        rng.normal(size=3),
    )
    wanted = x[p] * (d_y @ w)
    np.add.at(wanted, p, x * (d_y @ w))
    np.testing.assert_allclose(np.asarray(tc.interpret(text, x, w, p, d_y)), wanted)
