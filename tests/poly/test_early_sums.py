"""Sums of which most summands are known before a block of iterations: which begin there, and that results
stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from fuzz import loops
from tc.ir.program import Program
from tc.pipeline import equivalence
from tc.poly.early_sums import Sum, begin_early

SYSTEM = """
def f(double(N,N) A) -> (double(N,N) X) {
  for i in 0:N {
    s(m) +=! A(i,k) * X(k,m) where k in 0:i, m in 0:N
    X(i,m) = (A(m,i) - s(m)) / A(i,i)
  }
}
"""
IN_PLACE = """
def f(double(N,N) A) -> (double(N,N) X) {
  X(i,m) = A(m,i)
  for i in 0:N {
    X(i,m) += -A(i,k) * X(k,m) where k < i, m in 0:N
    X(i,m) = X(i,m) / A(i,i)
  }
}
"""
UPWARDS = """
def f(double(N,N) A) -> (double(N,N) X) {
  for i in N-1:-1:-1 {
    s(m) +=! A(i,k) * X(k,m) where k in i+1:N, m in 0:N
    X(i,m) = (A(m,i) - s(m)) / A(i,i)
  }
}
"""
CHOLESKY = """
def f(double(N,N) A) -> (double(N,N) L) {
  L(i,j) = 0.0 where i in 0:N, j in 0:N
  for j in 0:N {
    s(i) +=! L(i,k) * L(j,k) where k in 0:j, i in j:N
    d(i) = A(i,j) - s(i) where i in j:N
    L(i,j) = d(i) / sqrt(d(j)) where i in j:N
  }
}
"""
CROUT = """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in 0:N {
    u(j) +=! F(k,p) * F(p,j) where p in 0:k, j in k:N
    F(k,j) = F(k,j) - u(j) where j in k:N
    l(i) +=! F(i,p) * F(p,k) where p in 0:k, i in k+1:N
    F(i,k) = (F(i,k) - l(i)) / F(k,k) where i in k+1:N
  }
}
"""
ONE_RESULT = """
def f(double(N,N) A) -> (double(N) x) {
  for i in 0:N {
    s +=! A(i,k) * x(k) where k in 0:i
    x(i) = (A(i,0) - s) / A(i,i)
  }
}
"""
SHORTEST = """
def f(double(N,N) A) -> (double(N,N) D) {
  D(i,j) = A(i,j)
  for k in 0:N {
    m(j) min=! D(i,k) + D(j,i) where i in 0:k+1, j in 0:N
    D(k,j) = min(D(k,j), m(j) + 1.0)
  }
}
"""
GROWING = """
def f(double(N,N) A) -> (double(N,N) X) {
  X(i,m) = 0.0 where i in 0:N, m in 0:N
  for i in 0:N {
    s(m) +=! A(i,k) * A(k,m) where k in 0:i, m in 0:i+1
    X(i,m) = A(m,i) - s(m) where m in 0:i+1
  }
}
"""
TWICE = """
def f(double(N,N) A) -> (double(N,N) X, double(N,N) Y) {
  Y(i,m) = A(i,m)
  for t in 0:2 {
    for i in 0:N {
      s(m) +=! A(i,k) * X(k,m) where k in 0:i, m in 0:N
      X(i,m) = (Y(m,i) - s(m)) / A(i,i)
      r(m) max=! A(m,k) * 0.1 where k in 0:i+1, m in 0:N
      Y(i,m) = Y(i,m) + r(m)
    }
  }
}
"""
EARLY = {
    "system": (SYSTEM, ["s"]),
    "in place": (IN_PLACE, ["X"]),
    "upwards": (UPWARDS, ["s"]),
    "Cholesky": (CHOLESKY, ["s"]),
    "LU": (CROUT, ["u", "l"]),
    "one result": (ONE_RESULT, ["s"]),
    "results grow": (GROWING, ["s"]),
    "two in a nest of loops": (TWICE, ["s", "r"]),
}
STAYS = {
    "the range shrinks": SYSTEM.replace("k in 0:i", "k in i:N").replace("X(k,m)", "A(k,m)"),
    "no range moves": SYSTEM.replace("k in 0:i", "k in 0:N").replace("X(k,m)", "A(k,m)"),
    "both ends move": SYSTEM.replace("k in 0:i", "k in i:min(i+3,N)").replace("X(k,m)", "A(k,m)"),
    "a condition": SYSTEM.replace("m in 0:N", "m in 0:N, m + k <= i"),
    "an element of the block": """
def f(double(N,N) A) -> (double(N,N) X) {
  X(i,m) = A(i,m)
  for i in 0:N {
    s(m) +=! A(i,k) * X(k,m) where k in 0:i+1, m in 0:N
    X(i,m) = A(m,i) - s(m)
  }
}
""",
    "each iteration writes all that it reads": SHORTEST.replace("D(k,j) =", "D(j,k) ="),
    "a subscript of both": """
def f(double(N,N) A, double(N) c) -> (double(N,N) X) {
  X(i,m) = 0.0 where i in 0:N, m in 0:N
  for i in 0:N {
    s(m) +=! c(m-i) * A(k,m) where k in 0:i, m in i:N
    X(i,m) = A(m,i) - s(m) where m in i:N
  }
}
""",
}  # fmt: skip


def program(source: str, n: int) -> Program:
    return tc.compile(source, "reference").program({"N": n})


def blocks_of(size: int) -> Any:
    return lambda program, found: size


@pytest.mark.parametrize("name", EARLY)
@pytest.mark.parametrize(("n", "size"), [(13, 2), (17, 5)])
def test_early_sums_compute_the_same(name: str, n: int, size: int) -> None:
    source, tensors = EARLY[name]
    before = program(source, n)
    after, found = begin_early(before, blocks_of(size))
    assert list(found) == tensors
    assert equivalence.same_results(before, after)
    early = [s for s in after.stages if s.name.endswith("_early")]
    assert len(early) == len(tensors)
    assert {len(s.loops) for s in early} == {len(before.loops)}  # around the block, not in it


@pytest.mark.parametrize("name", STAYS)
def test_sums_that_do_not_begin_early(name: str) -> None:
    before = program(STAYS[name], 24)
    after, found = begin_early(before, blocks_of(4))
    assert after is before and not found


def test_the_target_decides_about_each_sum() -> None:
    before = program(SYSTEM, 24)
    told: list[Sum] = []

    def none(program: Program, found: Sum) -> int:
        told.append(found)
        return 0

    assert begin_early(before, none) == (before, ())
    (found,) = told
    assert (found.stage.op, found.trips, found.growing.name) == ("+", 24, "k")
    assert begin_early(before, blocks_of(13)) == (before, ())  # a block of most iterations


def test_sums_of_halves_are_those_of_float32() -> None:
    source = """
    def f(half(N,N) A) -> (half(N,N) S) {
      for i in 0:N { S(i,m) +=! A(i,k) * A(k,m) where k in 0:i, m in 0:N }
    }"""
    before = program(source, 13)
    after, found = begin_early(before, blocks_of(4))
    assert found == ("S_f32",)
    assert equivalence.same_results(before, after)


@pytest.mark.slow
def test_random_loops() -> None:
    begun = 0
    for seed in range(60):
        p = loops.program(seed)
        before = tc.compile(p.source, "reference").program({"T": 7, "N": 3})
        after, found = begin_early(before, blocks_of(3))
        if found:
            begun += 1
            assert equivalence.same_results(before, after), p.source
    assert begun >= 5


@pytest.mark.share(8)
@pytest.mark.parametrize("name", EARLY)
def test_on_the_cpu(name: str) -> None:
    source, tensors = EARLY[name]
    rng = np.random.default_rng(1)
    a = rng.standard_normal((40, 40)) * 0.1
    a = a @ a.T + 40 * np.eye(40)
    kernel = tc.compile(source, "cpu", options={"machine": {"l1": 64}})
    found, expected = kernel(a), tc.interpret(source, a)
    pairs = [(found, expected)] if isinstance(expected, np.ndarray) else zip(found, expected, strict=True)
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
    assert f"summed before blocks of iterations: {', '.join(tensors)}" in kernel.inspect("choice", N=40)
    assert "summed before" not in tc.compile(source, "cpu").inspect("choice", N=40)


def test_integers_are_exact() -> None:
    source = SYSTEM.replace("double", "int64").replace("/ A(i,i)", "% 7")
    a = np.random.default_rng(1).integers(-3, 4, (50, 50))
    kernel = tc.compile(source, "cpu", options={"machine": {"l1": 64}})
    np.testing.assert_array_equal(kernel(a), tc.interpret(source, a))


def test_arrays_of_dynamic_size_stay() -> None:
    source = """
    def f(double(N,N) A, double(N,M) B) -> (double(N,M) X) {
      for i in 0:N {
        s(m) +=! A(i,k) * X(k,m) where k in 0:i, m in 0:M
        X(i,m) = B(i,m) - s(m)
      }
    }"""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((40, 40)) * 0.1, rng.standard_normal((40, 45))
    kernel = tc.compile(source, "cpu", dynamic=("M",), options={"machine": {"l1": 64}})
    for columns in (45, 12):
        found, expected = kernel(a, b[:, :columns]), tc.compile(source, "reference")(a, b[:, :columns])
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
