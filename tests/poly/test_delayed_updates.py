"""Updates that wait for the end of a block of iterations: which do, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.program import Program
from tc.pipeline import equivalence
from tc.poly.delayed_updates import Update, delay

LU = """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in 0:N {
    F(i,k) = F(i,k) / F(k,k) where i in k+1:N
    F(i,j) += -F(i,k) * F(k,j) where i in k+1:N, j in k+1:N
  }
}
"""
CONDITIONS = LU.replace("i in k+1:N", "i > k").replace("j in k+1:N", "j > k")
CHOLESKY = """
def f(double(N,N) A) -> (double(N,N) L) {
  L(i,j) = j <= i ? A(i,j) : 0.0
  for k in 0:N {
    L(k,k) = sqrt(L(k,k))
    L(i,k) = L(i,k) / L(k,k) where i in k+1:N
    L(i,j) += -L(i,k) * L(j,k) where i in k+1:N, j in k+1:N, j <= i
  }
}
"""
DOWNWARDS = """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in N-1:-1:-1 {
    F(i,k) = F(i,k) / F(k,k) where i in 0:k
    F(i,j) += -F(i,k) * F(k,j) where i in 0:k, j in 0:k
  }
}
"""
SYSTEM = """
def f(double(N,N) A) -> (double(N,N) X) {
  X(i,m) = A(m,i)
  for k in 0:N {
    X(k,m) = X(k,m) / A(k,k)
    X(i,m) += -A(i,k) * X(k,m) where i in k+1:N
  }
}
"""
TWICE = """
def f(double(N,N) A) -> (double(N,N) F, double(N,N) G) {
  F(i,j) = A(i,j)
  G(i,j) = A(j,i)
  for t in 0:2 {
    for k in 0:N {
      F(i,j) += 0.01 * A(i,k) * A(k,j) where i in k+1:N, j in 0:N
      G(i,j) min= A(i,k) + A(k,j) where i in k+1:N, j in k+1:N
    }
  }
}
"""
WAITS = {
    "LU": (LU, ["F"]),
    "conditions": (CONDITIONS, ["F"]),
    "Cholesky": (CHOLESKY, ["L"]),
    "downwards": (DOWNWARDS, ["F"]),
    "system": (SYSTEM, ["X"]),
    "two in a nest of loops": (TWICE, ["F", "G"]),
}
STAYS = {
    "a later statement reads all of it": """
def f(double(N,N) A) -> (double(N,N) F, double(N) s) {
  F(i,j) = A(i,j)
  s(i) = 0.0 where i in 0:N
  for k in 0:N {
    F(i,j) += A(i,k) * A(k,j) where i in k+1:N, j in k+1:N
    s(k) +=! F(N-1,q)
  }
}
""",
    "it reads the element that it updates": """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in 0:N { F(i,j) += F(i,j) * A(k,j) where i in k+1:N, j in k+1:N }
}
""",
    "each iteration overwrites an operand": """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in 0:N {
    l(i) = F(i,k) / F(k,k) where i in k+1:N
    F(i,j) += -l(i) * F(k,j) where i in k+1:N, j in k+1:N
  }
}
""",
    "another operator writes the element": """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in 0:N {
    F(i,j) += A(i,k) * A(k,j) where i in k+1:N, j in k+1:N
    F(i,j) max= A(k,j) where i in k+1:N, j in k+1:N
  }
}
""",
    "no range moves": """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in 0:N { F(i,j) += A(i,k) * A(k,j) }
}
""",
}


def program(source: str, n: int) -> Program:
    return tc.compile(source, "reference").program({"N": n})


def blocks_of(size: int) -> Any:
    return lambda program, update: size


@pytest.mark.share(4)
@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize(("n", "size"), [(13, 2), (17, 5)])
def test_delayed_updates_compute_the_same(name: str, n: int, size: int) -> None:
    source, tensors = WAITS[name]
    before = program(source, n)
    after, found = delay(before, blocks_of(size))
    assert list(found) == tensors
    assert equivalence.same_results(before, after)
    late = [s for s in after.stages if s.name.endswith("_block")]
    assert len(late) == len(tensors)
    assert all(any(v.kind == "reduction" for v in s.domain.vars) for s in late)


@pytest.mark.parametrize("name", STAYS)
def test_updates_that_are_not_delayed(name: str) -> None:
    before = program(STAYS[name], 24)
    after, found = delay(before, blocks_of(4))
    assert after is before and not found


def test_the_target_decides_about_each_update() -> None:
    before = program(LU, 24)
    told: list[Update] = []

    def none(program: Program, update: Update) -> int:
        told.append(update)
        return 0

    assert delay(before, none) == (before, ())
    (update,) = told
    assert (update.stage.op, update.trips, [v.name for v in update.waiting]) == ("+", 24, ["i", "j"])
    assert delay(before, blocks_of(13)) == (before, ())  # a block of most iterations


@pytest.mark.share(12)
@pytest.mark.parametrize("name", WAITS)
def test_on_the_cpu(name: str) -> None:
    source, tensors = WAITS[name]
    rng = np.random.default_rng(1)
    a = rng.standard_normal((40, 40)) * 0.1
    a = a @ a.T + 40 * np.eye(40)
    kernel = tc.compile(source, "cpu", options={"machine": {"l2": 4096}})
    found, expected = kernel(a), tc.interpret(source, a)
    if len(tensors) == 1:
        found, expected = (found,), (expected,)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
    waits = name != "Cholesky"  # whose update has a condition
    assert (
        f"updated after blocks of iterations: {', '.join(tensors)}" in kernel.inspect("choice", N=40)
    ) == waits
    assert "updated after" not in tc.compile(source, "cpu").inspect("choice", N=40)


def test_arrays_of_dynamic_size_stay() -> None:
    source = """
    def f(double(N,M) A) -> (double(N,M) X) {
      X(i,m) = A(i,m)
      for k in 0:32 { X(i,m) += -0.1 * A(i,m) * X(k,m) where i in k+1:N }
    }"""
    a = np.random.default_rng(1).standard_normal((70, 45))
    kernel = tc.compile(source, "cpu", dynamic=("M",), options={"machine": {"l2": 4096}})
    for columns in (45, 12):
        found, expected = kernel(a[:, :columns]), tc.compile(source, "reference")(a[:, :columns])
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
