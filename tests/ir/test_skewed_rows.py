"""Rows that depend on each other, several at a time, and reads of elements that exist in any case."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tc

EDIT = """def f(int(N) x, int(M) y) -> (d) {
  d(i,0) = i where i in 0:N+1
  d(0,j) = j where j in 0:M+1
  for i in 1:N+1 { for j in 1:M+1 {
    d(i,j) = min(min(d(i-1,j), d(i,j-1)) + 1, d(i-1,j-1) + (x(i-1) == y(j-1) ? 0 : 1))
  } }
}"""
COMMON = """def f(int(N) x, int(M) y) -> (d) {
  d(i,j) = 0 where i in 0:N+1, j in 0:M+1
  for i in 1:N+1 { for j in 1:M+1 {
    d(i,j) = x(i-1) == y(j-1) ? d(i-1,j-1) + 1 : max(d(i-1,j), d(i,j-1))
  } }
}"""
GAPS = """def f(int(N) x, int(M) y) -> (d, e, g) {
  d(i,j) = 0 where i in 0:N+1, j in 0:M+1
  e(i,j) = -99 where i in 0:N+1, j in 0:M+1
  g(i,j) = -99 where i in 0:N+1, j in 0:M+1
  for i in 1:N+1 { for j in 1:M+1 {
    e(i,j) = max(e(i,j-1) - 1, d(i,j-1) - 3)
    g(i,j) = max(g(i-1,j) - 1, d(i-1,j) - 3)
    d(i,j) = max(max(d(i-1,j-1) + (x(i-1) == y(j-1) ? 2 : -1), 0), max(e(i,j), g(i,j)))
  } }
}"""
WARPING = """def f(float(N) x, float(M) y) -> (d) {
  d(i,j) = inf where i in 0:N+1, j in 0:M+1
  d(0,0) = 0
  for i in 1:N+1 { for j in 1:M+1 {
    d(i,j) = fabs(x(i-1) - y(j-1)) + min(min(d(i-1,j), d(i,j-1)), d(i-1,j-1))
  } }
}"""
SEIDEL = """def f(double(N,M) x) -> (y) {
  y(i,j) = x(i,j)
  for t in 0:3 { for i in 1:N-1 { for j in 1:M-1 {
    y(i,j) = 0.25*y(i-1,j+1) + 0.5*y(i,j-1) + y(i,j) - 0.25*y(i+1,j+1) + 0.125*y(i+1,j-1)
  } } }
}"""
UPWARDS = """def f(double(N,M) x) -> (y) {
  y(i,j) = x(i,j)
  for i in N-2:-1:-1 { for j in M-2:-1:-1 { y(i,j) = y(i,j) + 0.5*y(i+1,j) - 0.25*y(i,j+1) } }
}"""
INDEPENDENT = """def f(double(N,M) x) -> (y) {
  y(i,0) = x(i,0)
  for i in 0:N { for j in 1:M { y(i,j) = 0.5*y(i,j-1) + x(i,j) } }
}"""
# Where there is no skew: integers, distances that are not constant, and rows of different lengths.
TRANSPOSED = """def f(double(N,N) x) -> (y) {
  y(i,j) = x(i,j)
  for i in 1:N { for j in 1:N { y(i,j) = 0.5*y(i,j-1) + 0.5*y(j,i) } }
}"""
TRIANGLE = """def f(double(N,N) x) -> (y) {
  y(i,j) = x(i,j)
  for i in 1:N { for j in 1:i { y(i,j) = 0.5*y(i,j-1) + 0.25*y(i-1,j) } }
}"""
ONE_ROW = """def f(double(N,M) x) -> (s) {
  s(j) = x(0,j)
  for i in 1:N { for j in 1:M { s(j) = 0.5*s(j) + 0.25*s(j-1) + x(i,j) } }
}"""


def arguments(source: str, n: int, m: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    if "int(N) x" in source:
        return [rng.integers(0, 3, k).astype("i4") for k in (n, m)]
    if "float(N) x" in source:
        return [rng.integers(-9, 9, k).astype("f4") for k in (n, m)]
    return [rng.integers(-9, 9, (n, n if "(N,N)" in source else m)).astype("f8")]


SKEWED = {
    "time warping": WARPING, "Gauss-Seidel": SEIDEL, "upwards": UPWARDS, "independent rows": INDEPENDENT,
}  # fmt: skip
OTHERS = {
    "edit distance": EDIT, "longest common subsequence": COMMON, "affine gaps": GAPS,
    "transposed": TRANSPOSED, "triangle": TRIANGLE, "one row": ONE_ROW,
}  # fmt: skip


@pytest.mark.share(18)
@pytest.mark.parametrize(("n", "m"), [(3, 3), (9, 50), (17, 64), (40, 7), (34, 129)])
@pytest.mark.parametrize("name", [*SKEWED, *OTHERS])
def test_the_results_are_the_same(name: str, n: int, m: int) -> None:
    source = (SKEWED | OTHERS)[name]
    args = arguments(source, n, m)
    want = tc.compile(source, "reference")(*args)
    for dynamic in (False, True):
        found = tc.compile(source, "cpu", dynamic=dynamic)(*args)
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, want)), strict=True):
            np.testing.assert_array_equal(a, b)


def loops(source: str, stage: str = "skew", **sizes: int) -> str:
    return str(tc.compile(source, "cpu", sizes=sizes).inspect(stage, **sizes))


@pytest.mark.parametrize("name", SKEWED)
def test_rows_are_computed_several_at_a_time(name: str) -> None:
    text = loops(SKEWED[name], N=64, M=100)
    assert f"by {4 if name == 'independent rows' else 8}" in text


@pytest.mark.parametrize("name", OTHERS)
def test_other_rows_are_computed_one_after_the_other(name: str) -> None:
    assert " by " not in loops(OTHERS[name], N=64, **({"M": 100} if "M" in OTHERS[name] else {}))


def test_few_columns_have_fewer_rows_at_a_time() -> None:
    assert " by 8" in loops(WARPING, N=64, M=21)
    assert " by 4" in loops(WARPING, N=64, M=20)
    assert " by 2" in loops(WARPING, N=64, M=3)
    assert " by " not in loops(WARPING, N=1, M=100)


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", range(12))
def test_random_distances(seed: int) -> None:
    """Reads of elements before and after in the order of the loops, a few rows and columns away."""
    draw = random.Random(seed)
    reads = [(0, -draw.randint(1, 2))]
    reads += [(draw.randint(-2, 2), draw.randint(-3, 3)) for _ in range(draw.randint(1, 3))]
    terms = " + ".join(f"{draw.choice((1, 0.5, -1))}*y(i + ({a}), j + ({b}))" for a, b in reads)
    source = f"""def f(double(N,M) x) -> (y) {{
      y(i,j) = x(i,j)
      for i in 2:N-2 {{ for j in 3:M-3 {{ y(i,j) = {terms} }} }}
    }}"""
    for n, m in ((7, 40), (22, 31), (5, 9)):
        x = np.random.default_rng(seed).integers(-3, 4, (n, m)).astype("f8")
        np.testing.assert_array_equal(tc.compile(source, "cpu")(x), tc.compile(source, "reference")(x))


def test_choices_between_elements_have_no_branch() -> None:
    code = loops(COMMON, "llvm", N=64, M=64)
    (body,) = [b for b in code.split("\n\n") if "@kernel" in b]
    assert "!unpredictable" in body
    assert "then" not in body


def test_an_element_that_may_not_exist_is_read_behind_its_condition() -> None:
    """`d(i-2,…)` does not exist in the first row."""
    source = """def f(int(N) x, int(M) y) -> (d) {
      d(i,j) = i + j where i in 0:N, j in 0:M
      for i in 1:N { for j in 1:M {
        d(i,j) = x(i) == y(j) ? (i >= 2 ? d(i-2,j) : 7) : max(d(i-1,j), d(i,j-1))
      } }
    }"""
    args = arguments("int(N) x", 40, 50)
    np.testing.assert_array_equal(tc.compile(source, "cpu")(*args), tc.compile(source, "reference")(*args))


def test_a_statement_reads_what_an_earlier_one_has_just_stored() -> None:
    text = loops(GAPS, "carry", N=1, M=100)
    line = next(x for x in text.splitlines() if "S5: " in x)
    assert "e.carried" in line
    assert "e[" not in line
