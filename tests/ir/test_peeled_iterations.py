"""Iterations at the ends of sequential loops, for which conditions on the counter have other values."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tc

# A condition on the counter, and the iterations that run before and behind the loop at D = 40.
PEELED = {
    "d >= 1": (1, 0),
    "d > 1": (2, 0),
    "1 <= d": (1, 0),
    "d < 2": (2, 0),
    "d == 0": (1, 0),
    "d != 1": (2, 0),
    "d < D-1": (0, 1),
    "d <= D-3": (0, 2),
    "D-1 > d": (0, 1),
    "d == D-2": (0, 2),
    "D-1-d >= 3": (0, 3),
    "d >= 1 && d < D-1": (1, 1),
    "d < 1 || x(n,d) > 0": (1, 0),
}
LEFT = ["d >= 4", "d < D-4", "2*d >= 1", "d % 2 == 0", "x(n,d) > 0", "d == 20", "d >= n"]


def source(condition: str, head: str = "0:D") -> str:
    return f"""def f(int(N,D) x) -> (s) {{
      s(n) = 0 where n in 0:N
      for d in {head} {{ s(n) = 3*s(n) + ({condition} ? x(n,d) : 7) where n in 0:N }}
    }}"""


def bounds(text: str, dynamic: tuple[str, ...] = ()) -> tuple[int, int]:
    """By how much a loop over d is shorter at its beginning and at its end, at D = 40."""
    nest = str(tc.compile(text, "cpu", dynamic=dynamic).inspect("peel", N=9, D=40))
    found = re.search(r"for d\w* in \[(\d+), ([^)]*)\)", nest)
    assert found is not None
    end = found[2].replace("D", "40")
    first, _, less = end.partition(" - ")
    return int(found[1]), 40 - int(first) + int(less or 0)


@pytest.mark.parametrize("condition", PEELED)
@pytest.mark.parametrize("dynamic", [(), ("D",)])
def test_iterations_that_are_peeled(condition: str, dynamic: tuple[str, ...]) -> None:
    assert bounds(source(condition), dynamic) == PEELED[condition]


@pytest.mark.parametrize("condition", LEFT)
def test_loops_that_stay_whole(condition: str) -> None:
    """Too many iterations, several values of the counter, or none."""
    assert bounds(source(condition)) == (0, 0)


@pytest.mark.parametrize("head", ["0:D", "D-1:-1:-1"])
@pytest.mark.parametrize("condition", [*PEELED, *LEFT])
def test_results(condition: str, head: str) -> None:
    text = source(condition, head)
    for dynamic in ((), ("D",), ("N", "D")):
        kernel = tc.compile(text, "cpu", dynamic=dynamic)
        for n, d in ((9, 0), (1, 1), (2, 2), (9, 3), (5, 4), (4, 9)):
            x = np.random.default_rng(d).integers(-9, 9, (n, d)).astype("i4")
            np.testing.assert_array_equal(kernel(x), tc.interpret(text, x))


def test_a_read_beside_the_tensor_is_left_out() -> None:
    """In the first iteration, not only guarded: `p(n,-1)` is in no statement."""
    text = """def f(float(N,D) x) -> (y) {
      for d in 0:D { p(n,d) = x(n,d) + (d >= 1 ? p(n,d-1) : 0) - (d >= 2 ? p(n,d-2) : 0) }
      y(n,d) = p(n,d)
    }"""
    kernel = tc.compile(text, "cpu")
    nest = str(kernel.inspect("inward", N=40, D=30))
    assert "?" not in nest and "transposed for d_k" in nest
    for n, d in ((1, 1), (40, 30), (9, 2), (17, 3)):
        x = np.random.default_rng(d).integers(-9, 9, (n, d)).astype("f4")
        np.testing.assert_array_equal(kernel(x), tc.compile(text, "reference")(x))


@pytest.mark.filterwarnings("ignore:.*TC1003")
@pytest.mark.parametrize("dynamic", [(), ("N", "D")])
def test_an_error_in_a_peeled_iteration_names_it(dynamic: tuple[str, ...]) -> None:
    """The iteration runs outside of the loop whose variable the message has."""
    text = """def f(int(N,D) x, int(D) p) -> (s) {
      s(n) = 0 where n in 0:N
      for d in 0:D { s(n) = s(n) + (d >= 1 ? x(n,p(d)) : 2*x(n,p(d))) where n in 0:N }
    }"""
    kernel = tc.compile(text, "cpu", dynamic=dynamic)
    x = np.arange(12, dtype="i4").reshape(3, 4)
    np.testing.assert_array_equal(kernel(x, np.arange(4, dtype="i4")), x.sum(1) + x[:, 0])
    for d in (0, 2):
        p = np.arange(4, dtype="i4")
        p[d] = 7
        with pytest.raises(tc.BoundsError, match=f"d = {d}") as caught:
            kernel(x, p)
        with pytest.raises(tc.BoundsError) as wanted:
            tc.compile(text, "reference")(x, p)
        assert caught.value.message == wanted.value.message
