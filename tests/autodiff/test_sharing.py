"""Parts of values that occur several times: which of them get names in the text of a gradient."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.autodiff.sharing import shared
from tc.ir.printer import text
from tc.pipeline.front import Variant, build


def named(value: str) -> tuple[str, list[str]]:
    source = f"def f(double(N) x, double(N) p) -> (y) {{ y(i) = {value} where i in 0:N }}"
    (s,) = build(tc.compile(source, "reference").front, Variant(checks=False)).program.stages
    count = 0

    def fresh(name: str) -> str:
        nonlocal count
        count += 1
        return f"{name}{count}"

    found, lets = shared(s.value, fresh)
    return text(found), [f"{n} = {text(e)}" for n, e in lets]


def test_parts_that_occur_twice_have_names() -> None:
    assert named("exp(x(i) + 1.0) * exp(x(i) + 1.0)") == ("e1 * e1", ["e1 = exp(x(i) + 1.0)"])
    assert named("exp(x(i) + 1.0) * exp(x(i) + 1.0) - (x(i) + 1.0)") == (
        "e2 * e2 - e1",
        ["e1 = x(i) + 1.0", "e2 = exp(e1)"],
    )
    assert named("exp(x(i) * p(i)) + x(i) * p(i)") == ("exp(e1) + e1", ["e1 = x(i) * p(i)"])


@pytest.mark.parametrize(
    "value",
    [
        "x(i) * x(i)",  # reads
        "(x(i) > 0.0 ? sqrt(x(i)) * p(i) : 0.0) + (x(i) > 0.0 ? 1.0 - sqrt(x(i)) * p(i) : 0.0)",
        "float(i) * 0.5 * x(i) + float(i) * 0.5 * p(i)",  # no data
    ],
)
def test_reads_and_what_conditions_guard_have_none(value: str) -> None:
    assert named(value)[1] == []


def test_a_guarded_part_has_the_name_of_one_that_is_computed_anyway() -> None:
    value, lets = named("(x(i) > 0.0 ? exp(p(i) * 2.0) : 0.0) + exp(p(i) * 2.0)")
    assert lets == ["e1 = exp(p(i) * 2.0)"]
    assert value == "(x(i) > 0.0 ? e1 : 0.0) + e1"


def test_the_gradient_of_an_activation_computes_it_once() -> None:
    source = """
    def gelu(double(N) x) -> (y) {
      y(n) = 0.5 * x(n) * (1 + tanh(0.79788456 * (x(n) + 0.044715 * x(n) * x(n) * x(n))))
    }"""
    gradient = tc.grad(source)
    assert gradient.count("tanh") == 1
    x = np.linspace(-3, 3, 13)
    step = 1e-6
    kernel = tc.compile(source, backend="reference")
    expected = (kernel(x + step) - kernel(x - step)) / (2 * step)
    found = tc.compile(gradient, backend="cpu")(x, np.ones(13))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_sums_keep_their_factors_in_sight() -> None:
    gradient = tc.grad("def f(float(N,D) x) -> (v) { v(n) +=! sin(x(n,d)) * sin(x(n,d)) / D }", "x")
    assert all(" e = " not in line for line in gradient.splitlines() if "+=" in line)
