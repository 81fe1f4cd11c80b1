"""Sequential loops moved into loops whose iterations have elements of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tc

SUM = """def f(float(N,D) x) -> (y) {
  y(n,0) = x(n,0)
  for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) }
}"""
BOTH = """def f(float(N,D) x) -> (y, z) {
  y(n,0) = x(n,0)
  for d in 1:D {
    y(n,d) = y(n,d-1) + x(n,d)
    z(n,d) = 2*y(n,d-1)
  }
}"""
SHIFTED = """def f(float(N,D) x) -> (y) {
  y(n,0) = x(n,0)
  for d in 1:D { y(n,d) = (n >= 1 ? y(n-1,d-1) : 0) + x(n,d) where n in 0:N }
}"""
TRIANGLE = """def f(float(N,D) x) -> (y) {
  y(n,d) = x(n,d)
  for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) where n in 0:d }
}"""
STATE = """def f(float(N,D) x) -> (s) {
  s(n) = x(n,0)
  for d in 1:D { s(n) = 2*s(n) - x(n,d) }
}"""


def loops(source: str, n: int, d: int) -> list[str]:
    kernel = tc.compile(source, "cpu", sizes={"N": n, "D": d})
    return str(kernel.inspect("inward", N=n, D=d)).splitlines()


def inside(source: str, n: int, d: int) -> bool:
    """Whether the sequential loop is inside of the loop over rows."""
    around: list[str] = []
    for line in loops(source, n, d):
        depth = (len(line) - len(line.lstrip())) // 2
        around[depth:] = [line.strip()]
        if line.strip().startswith("for d in") and any("for n" in x for x in around[:depth]):
            return True
    return False


@pytest.mark.share(3)
@pytest.mark.parametrize(("n", "d"), [(1, 5), (3, 9), (37, 50), (100, 1000)])
@pytest.mark.parametrize("source", [SUM, BOTH, SHIFTED, TRIANGLE, STATE])
def test_the_results_are_the_same(source: str, n: int, d: int) -> None:
    x = np.random.default_rng(n).integers(-3, 4, (n, max(d, n))).astype("f4")
    x = x if source is not STATE else x[:, :7]
    if source is TRIANGLE:
        x = x[:, : n + 1]
    found = tc.compile(source, "cpu")(x)
    want = tc.compile(source, "reference")(x)
    pairs = zip(found, want, strict=True) if source is BOTH else [(found, want)]
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)


def test_rows_of_their_own_run_along_the_row() -> None:
    assert inside(SUM, 1000, 60)
    lines = loops(SUM, 1000, 1000)
    assert any(line.strip().startswith("parallel for n") for line in lines)  # there is work for threads


@pytest.mark.parametrize("source", [SHIFTED, TRIANGLE, STATE])
def test_what_stays(source: str) -> None:
    """Rows that read others, rows of which there are more in later iterations, and elements side by side."""
    assert not inside(source, 1000, 1001)
