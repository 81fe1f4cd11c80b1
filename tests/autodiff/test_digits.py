"""Adjoints of subscripts that multiply and divide by sizes: gathers, equal to what tangents say."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import tc

CASES = {
    "heads": (
        "def f(double(T,N) x, double(H,D) w) -> (y) { y(t,h) +=! x(t, D*h+d) * w(h,d) * x(t,0) }",
        [
            {"T": 2, "N": 6, "H": 3, "D": 2},
            {"T": 1, "N": 7, "H": 3, "D": 2},
            {"T": 2, "N": 3, "H": 1, "D": 3},
        ],
    ),
    "an offset": (
        "def f(double(N) x, double(H,D) w) -> (y) { y(h,d) = x(D*h+d+1) * w(h,d) }",
        [{"N": 7, "H": 3, "D": 2}, {"N": 9, "H": 3, "D": 2}],
    ),
    "backwards": (
        "def f(double(N) x, double(H,D) w) -> (y) { y(h,d) = x(N-1-D*h-d) * w(h,d) }",
        [{"N": 7, "H": 3, "D": 2}],
    ),
    "three digits": (
        "def f(double(N) x, double(A,B,C) w) -> (y) { y(a,c) +=! x(B*C*a+C*b+c) * w(a,b,c) }",
        [{"N": 12, "A": 2, "B": 3, "C": 2}, {"N": 13, "A": 3, "B": 2, "C": 2}],
    ),
    "groups and their members": (
        """def f(double(N) x, double(G) w) -> (y) {
          s(g) +=! x(N/G*g+c) * x(N/G*g+c) where g in 0:G, c in 0:N/G
          y(n) = x(n) * s(n/(N/G)) * w(n/(N/G)) where n in 0:N/G*G
        }""",
        [{"N": 6, "G": 3}, {"N": 4, "G": 4}, {"N": 5, "G": 2}, {"N": 2, "G": 3}],
    ),
    "quotients": (
        "def f(double(N) x, double(P) w) -> (y) { y(n) = x(n/P) * x(n) where n in 0:N }",
        [{"N": 6, "P": 2}, {"N": 7, "P": 3}, {"N": 3, "P": 5}, {"N": 3, "P": 0}],
    ),
    "both digits": (
        "def f(double(A,B) x, double(B) w) -> (y) { y(n) = x(n/B, n%B) * x(0,0) + w(0) where n in 0:A*B }",
        [{"A": 3, "B": 2}, {"A": 1, "B": 4}],
    ),
    "a loop around": (
        """def f(double(N) x, double(H,D) w) -> (y) {
          y(h) = 1.0 where h in 0:H
          for t in 0:3 {
            z(h) +=! x(D*h+d) * w(h,d)
            y(h) = y(h) * z(h) + x(D*h) where h in 0:H
          }
        }""",
        [{"N": 6, "H": 3, "D": 2}],
    ),
}
GATHERED = set(CASES) - {"a loop around"}


@pytest.mark.share(5)
@pytest.mark.filterwarnings("ignore::tc.EmptyRange")
@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_adjoints_against_tangents(name: str, backend: str) -> None:
    source, cases = CASES[name]
    made, along = tc.grad(source, wrt="x"), tc.jvp(source, wrt="x")
    if name in GATHERED:
        assert "place" not in made
    gradient, tangent = tc.compile(made, backend=backend), tc.compile(along, backend="reference")
    shapes = {n: dims.split(",") for dims, n in re.findall(r"double\(([^)]*)\) (\w+)", source.split("->")[0])}
    for sizes in cases:
        rng = np.random.default_rng(3)
        given = {n: rng.uniform(0.5, 1.5, [sizes[d] for d in dims]) for n, dims in shapes.items()}
        v = rng.standard_normal(given["x"].shape)
        taken = [n for n in inspect.signature(tangent).parameters if n in given]
        _, t_y = tangent(**{n: given[n] for n in taken}, t_x=v)
        d_y = rng.standard_normal(t_y.shape)
        d_x = gradient(**given, d_y=d_y)
        assert (d_x * v).sum() == pytest.approx((d_y * t_y).sum(), rel=1e-10, abs=1e-10)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["heads", "groups and their members"])
def test_second_derivatives(name: str) -> None:
    source, cases = CASES[name]
    torch = pytest.importorskip("torch")
    op = tc.torch.op(source)
    sizes = cases[0]
    shapes = [dims.split(",") for dims, _ in re.findall(r"double\(([^)]*)\) (\w+)", source.split("->")[0])]
    torch.manual_seed(0)
    given = [torch.rand([sizes[d] for d in dims], dtype=torch.float64, requires_grad=True) for dims in shapes]
    assert torch.autograd.gradcheck(op, given)
    assert torch.autograd.gradgradcheck(op, given)


def test_a_divisor_of_0_divides_everything_to_0() -> None:
    """The language has 0 for quotients by 0."""
    source = CASES["quotients"][0]
    d_x = tc.compile(tc.grad(source, wrt="x"), backend="reference")(
        np.array([2.0, 3.0, 5.0]), np.zeros(0), np.ones(3)
    )
    np.testing.assert_array_equal(d_x, [2 + (2 + 3 + 5), 2, 2])
