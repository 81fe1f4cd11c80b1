"""Maxima to whose values results are indifferent get no adjoint; all others do."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.autodiff.gradient import recorded_tape
from tc.autodiff.shift_invariance import without_effect

HEAD = "def f(float(N,D) x, float(N) e) -> (y) {\n  m(n) max=! x(n,d)\n"
MOVED = "  m(n) = m(n) + e(n)\n"

# The statements after `m(n) max=! x(n,d)`, which is added a vector to.
INDIFFERENT = {
    "soft-max": "t(n,d) = exp(x(n,d) - m(n)) s(n) +=! t(n,d) y(n,d) = t(n,d) / s(n)",
    "log-soft-max": "s(n) +=! exp(x(n,d) - m(n)) y(n,d) = x(n,d) - m(n) - log(s(n))",
    "log-sum-exp": "s(n) +=! exp(x(n,d) - m(n)) y(n) = m(n) + log(s(n))",
    "temperature": "s(n) +=! exp((x(n,d) - m(n)) * 0.5) y(n) = 2 * log(s(n)) + m(n)",
    "masked": (
        "t(n,d) = d <= n ? exp(x(n,d) - m(n)) : 0 s(n) +=! t(n,d) y(n,d) = s(n) > 0 ? t(n,d) / s(n) : 0"
    ),
    "an infinite number": (
        "t(n,d) = d <= n ? x(n,d) - m(n) : -inf s(n) +=! exp(t(n,d)) y(n,d) = exp(t(n,d)) / s(n)"
    ),
    "norm of exponentials": "s(n) +=! pow(exp(x(n,d) - m(n)), 2.0) y(n,d) = exp(x(n,d) - m(n)) * rsqrt(s(n))",
    "greatest quotient": "t(n,d) = exp(x(n,d) - m(n)) s(n) max=! t(n,d) y(n,d) = t(n,d) / sqrt(s(n) * s(n))",
    "another row of the maxima": (
        "t(n,d) = exp(x(n,d) - m(N-1-n)) s(n) +=! t(n,d) y(n,d) = t(N-1-n,d) / s(N-1-n)"
    ),
    "weights": "t(n,d) = exp(x(n,d) - m(n)) s(n) +=! t(n,d) o(n) +=! t(n,d) * x(n,d) y(n) = o(n) / s(n)",
    "where it is infinite": (
        "o(n) = m(n) == -inf ? 0 : m(n) t(n,d) = exp(x(n,d) - o(n)) s(n) +=! t(n,d)"
        " s(n) = m(n) == -inf ? 1 : s(n) y(n,d) = t(n,d) / s(n)"
    ),
    "where the maximum is": "t(n,d) = x(n,d) - m(n) k(n) argmax=! t(n,d) y(n) = x(n,k(n))",
    "compared with it": "y(n,d) = x(n,d) - m(n) > m(n) - m(n) + x(n,d) - m(n) ? 1.0 * x(n,d) : 2.0 * x(n,d)",
}
NOT = {
    "a result": "y(n) = m(n)",
    "a number beside the sum": "t(n,d) = exp(x(n,d) - m(n)) s(n) +=! t(n,d) y(n,d) = t(n,d) / (s(n) + 1)",
    "quotients of two rows": "t(n,d) = exp(x(n,d) - m(n)) s(n) +=! t(n,d) y(n,d) = t(n,d) / s(N-1-n)",
    "a sum of all rows": "t(n,d) = exp(x(n,d) - m(n)) s +=! t(n,d) y(n,d) = t(n,d) / s",
    "the square of the sum": "s(n) +=! exp(x(n,d) - m(n)) y(n) = exp(x(n,0) - m(n)) / (s(n) * s(n))",
    "compared with a number": (
        "t(n,d) = exp(x(n,d) - m(n)) s(n) +=! t(n,d) y(n,d) = x(n,d) - m(n) > -0.2 ? t(n,d) / s(n) : x(n,d)"
    ),
    "where it is finite": "o(n) = m(n) < inf ? 0 : m(n) y(n,d) = exp(x(n,d) - o(n)) / exp(x(n,0) - m(n))",
    "where another is infinite": (
        "o(n) = m(n) == -inf ? 0 : m(N-1-n) y(n,d) = exp(x(n,d) - o(n)) / exp(x(n,0) - m(n))"
    ),
    "half of the logarithm": "s(n) +=! exp(x(n,d) - m(n)) y(n) = 0.5 * log(s(n)) + m(n)",
    "squares": "t(n,d) = (x(n,d) - m(n)) * (x(n,d) - m(n)) s(n) +=! t(n,d) y(n,d) = t(n,d) / s(n)",
    "a sine": "y(n,d) = sin(x(n,d) - m(n))",
    "a cut": "t(n,d) = max(x(n,d) - m(n), -0.5) s(n) +=! exp(t(n,d)) y(n) = log(s(n)) + m(n)",
}


def _lines(body: str, moved: bool) -> str:
    return f"{HEAD}{MOVED if moved else ''}  {body}\n}}\n"


def _dropped(source: str) -> set[str]:
    _, tape, _ = recorded_tape(source, None, {}, "gradient")
    return {n for n in without_effect(tape, tape.versions, tape.outputs) if n.startswith("m")}


def _same_result(body: str) -> bool:
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(5, 6)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    with np.errstate(all="ignore"):
        a, b = (tc.interpret(_lines(body, moved), x, e) for moved in (False, True))
    return np.allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("body", INDIFFERENT.values(), ids=INDIFFERENT)
def test_results_are_indifferent(body: str) -> None:
    assert _same_result(body)
    assert _dropped(_lines(body, moved=False)) == {"m"}


@pytest.mark.parametrize("body", NOT.values(), ids=NOT)
def test_results_depend_on_it(body: str) -> None:
    assert not _same_result(body)
    assert not _dropped(_lines(body, moved=False))


def test_soft_max_does_not_search_for_the_maximum() -> None:
    source = tc.grad(_lines(INDIFFERENT["soft-max"], moved=False), "x")
    assert "argmax" not in source and "d_m" not in source


def test_a_maximum_that_is_a_result_has_an_adjoint_only_where_it_is_asked_for() -> None:
    source = """
    def f(float(N,D) x) -> (y, m) {
      m(n) max=! x(n,d)
      s(n) +=! exp(x(n,d) - m(n))
      y(n) = m(n) + log(s(n))
    }
    """
    assert "argmax" in tc.grad(source)
    assert "argmax" not in tc.grad(source, of="y")


def test_a_maximum_in_an_iteration_of_a_loop() -> None:
    source = """
    def f(float(N,D) x, float(T) w) -> (y) {
      y(n,d) = x(n,d)
      for t in 0:T {
        m(n) max=! y(n,d)
        y(n,d) = exp(w(t) * (y(n,d) - m(n)))
        s(n) +=! y(n,d)
        y(n,d) = y(n,d) / s(n)
      }
    }
    """
    assert "argmax" in tc.grad(source)  # of what a factor that is no number says nothing
    assert "argmax" not in tc.grad(source.replace("w(t) *", "0.5 *"))
