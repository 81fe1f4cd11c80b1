"""Sums without terms that are alike: as they are written, and with equal values."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import tc
from tc.autodiff.like_terms import combined
from tc.dtypes import FLOAT64
from tc.ir.expr import Add, Expr, Mul, Variable


def gradient(formula: str, params: str = "double(N) x, double(N) y") -> str:
    made = tc.grad(f"def f({params}) -> (z) {{ z(n) = {formula} }}", wrt=("x",))
    (found,) = re.findall(r"d_x\(n\) = (.*) where", made)
    return found


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("0.5 * x(n) * x(n)", "d_z(n) * x(n)"),
        ("x(n) * x(n)", "2.0 * (d_z(n) * x(n))"),
        ("x(n) * x(n) * x(n)", "3.0 * d_z(n) * x(n) * x(n)"),
        ("x(n) * y(n) + y(n) * x(n)", "2.0 * (d_z(n) * y(n))"),
        ("x(n) / y(n) + 2 * x(n) / y(n)", "3.0 * d_z(n) / y(n)"),
        ("(y(n) > 0 ? x(n) * y(n) : sin(x(n)))", "y(n) > 0.0 ? d_z(n) * y(n) : d_z(n) * cos(x(n))"),
        ("x(n) * y(n)", "d_z(n) * y(n)"),
        ("x(n) * y(n) - x(n)", "d_z(n) * y(n) + (-d_z(n))"),
    ],
)
def test_what_is_written(formula: str, wanted: str) -> None:
    assert gradient(formula).replace("(2.0 * d_z(n))", "2.0 * d_z(n)") == wanted


def test_terms_that_cancel_stay() -> None:
    """Their sum is no zero where one is infinite or no number."""
    assert gradient("x(n) * y(n) - y(n) * x(n)").count("y(n)") == 2


def test_parts_of_either_sign_of_one_choice() -> None:
    found = gradient("(y(n) > 0 ? x(n) * x(n) : 3.0 * x(n)) - (y(n) > 0 ? 0.0 : x(n) * y(n))")
    assert found.count("?") == 1


def _formula(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["x(n)", "y(n)", "x(n)", "2.0", "0.5"])
    a, b = _formula(rng, depth - 1), _formula(rng, depth - 1)
    kind = rng.random()
    if kind < 0.45:
        return f"({a} * {b})"
    if kind < 0.75:
        return f"({a} {rng.choice('+-')} {b})"
    if kind < 0.85:
        return f"({a} / (1.5 + y(n) * y(n)))"
    return f"({rng.choice(['x(n) > 0', 'y(n) < 0.3'])} ? {a} : {b})"


@pytest.mark.share(10)
@pytest.mark.parametrize("seed", range(60))
def test_random_formulas(seed: int) -> None:
    rng = random.Random(seed)
    formula = _formula(rng, 4)
    source = f"def f(double(N) x, double(N) y) -> (z) {{ z(n) = {formula} + x(n) + 0.0 * y(n) }}"
    g = np.random.default_rng(seed)
    x, y, d_z, v, w = g.uniform(0.4, 1.4, (5, 7)) * g.choice([-1, 1], (5, 7))
    _, t_z = tc.interpret(tc.jvp(source), x, y, v, w)
    d_x, d_y = tc.interpret(tc.grad(source), x, y, d_z)
    np.testing.assert_allclose((d_x * v + d_y * w), d_z * t_z, rtol=1e-10, atol=1e-10)


def test_sums_in_sums_take_one_walk() -> None:
    """Each level once: of forty levels, two walks a level would not end."""
    x = Variable("x", FLOAT64)
    e: Expr = x
    for k in range(40):
        e = Add(Mul(e, x), Variable(f"y{k}", FLOAT64))
    assert combined(e) == e


def test_conditions_compare_what_the_program_computes() -> None:
    """Rounded otherwise, no element would equal the extreme, and another branch could be taken."""
    source = "def f(double(N,M) x, double(N) z) -> (y) { y(n) min=! x(n,m) + z(n) + z(n) + z(n) }"
    made = tc.grad(source, ties="split")
    assert "3.0 * z(n) " not in made.split("d_x")[1]
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 1, (50, 4)), rng.uniform(-1, 1, 50)
    d_x, d_z = tc.compile(made, "reference")(x, z, np.ones(50))
    np.testing.assert_array_equal(d_x.sum(1), np.ones(50))
    np.testing.assert_array_equal(d_z, np.full(50, 3.0))
    branches = tc.grad("def f(double(N) x) -> (y) { y(n) = x(n) + x(n) + x(n) > 0.3 ? x(n) * x(n) : 0 }")
    assert "x(n) + x(n) + x(n) > 0.3" in branches
