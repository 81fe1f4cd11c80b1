"""Panels: which columns of a matrix a block of iterations works on in a copy, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.program import Program
from tc.pipeline import equivalence
from tc.poly.column_panels import Panel, copy_panels
from tc.poly.delayed_updates import delay
from tc.poly.early_sums import begin_early

LU = """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for k in 0:N {
    F(i,k) = F(i,k) / F(k,k) where i in k+1:N
    F(i,j) += -F(i,k) * F(k,j) where i in k+1:N, j in k+1:N
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
CHOLESKY = """
def f(double(N,N) A) -> (double(N,N) L) {
  L(i,j) = A(i,j)
  for j in 0:N {
    s(i) +=! L(i,k) * L(j,k) where k in 0:j, i in j:N
    d(i) = L(i,j) - s(i) where i in j:N
    L(i,j) = d(i) / sqrt(d(j)) where i in j:N
  }
}
"""
# Blocks as the source has them: the first columns, several times.
OWN_BLOCKS = """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for t in 0:3 {
    for k in 0:4 {
      F(i,k) = 0.5 * F(i,k) + 0.25 * F(i,k/2) where i in 0:N
      F(i,j) += 0.1 * F(i,k) * F(k,j) where i in 4:N, j in k+1:N
    }
  }
}
"""
BATCH = """
def f(double(B,N,N) A) -> (double(B,N,N) F) {
  F(b,i,j) = A(b,i,j)
  for b in 0:B {
    for k in 0:N {
      F(b,i,k) = F(b,i,k) / F(b,k,k) where i in k+1:N
      F(b,i,j) += -F(b,i,k) * F(b,k,j) where i in k+1:N, j in k+1:N
    }
  }
}
"""
WORKED_ON = {
    "LU by updates": (LU, "F"),
    "LU by sums": (CROUT, "F"),
    "Cholesky": (CHOLESKY, "L"),
    "blocks of the source": (OWN_BLOCKS, "F"),
    "a batch": (BATCH, "F"),
}
STAYS = {
    "a column beside the panel is read": OWN_BLOCKS.replace("F(i,k/2)", "F(i,k+1)"),
    "what runs behind the panel is read in it": """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for t in 0:3 {
    for k in 0:4 {
      w(j) = F(k,j) where j in k+1:N
      F(i,k) = 0.5 * F(i,k) + 0.1 * w(N-1) where i in 0:N
      F(i,j) += 0.1 * F(i,k) * w(j) where i in 0:N, j in k+1:N
    }
  }
}
""",
    "rows, which are contiguous": """
def f(double(N,N) A) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for t in 0:3 { for k in 0:4 { F(k,j) = 0.5 * F(k,j) + F(0,j) where j in 0:N } }
}
""",
    "subscripts that data choose": """
def f(double(N,N) A, int(N) I) -> (double(N,N) F) {
  F(i,j) = A(i,j)
  for t in 0:3 { for k in 0:4 { y(i) = F(I(i),k)  F(i,k) = 0.5 * y(i) } }
}
""",
}


def program(source: str, **sizes: int) -> Program:
    return tc.compile(source, "reference").program(sizes)


def size_of(n: int) -> Any:
    return lambda program, found: n


def in_blocks(source: str, n: int, size: int) -> Program:
    """The program with its loops in blocks, as a target makes them before it asks for panels."""
    sizes = {"N": n, "B": 3} if "B" in source else {"N": n}
    before, _ = begin_early(program(source, **sizes), size_of(size))
    return delay(before, size_of(size))[0]


@pytest.mark.share(4)
@pytest.mark.parametrize("name", WORKED_ON)
@pytest.mark.parametrize(("n", "size"), [(13, 3), (16, 8)])
def test_panels_compute_the_same(name: str, n: int, size: int) -> None:
    source, tensor = WORKED_ON[name]
    before = in_blocks(source, n, size)
    after, found = copy_panels(before, lambda program, panel: True)
    assert tensor in found
    assert equivalence.same_results(before, after)
    names = {b.name for b in after.buffers}
    assert f"{tensor}_panel" in names
    inner = [s for s in after.stages if s.func == f"{tensor}_panel"]
    assert len(inner) > 1  # the copy, and a statement that works on it


@pytest.mark.filterwarnings("ignore:.*TC1003")
@pytest.mark.parametrize("name", STAYS)
def test_columns_that_stay(name: str) -> None:
    before = program(STAYS[name], N=9)
    worth: list[Panel] = []

    def told(program: Program, panel: Panel) -> bool:
        worth.append(panel)
        return panel.uses > 4

    assert copy_panels(before, told) == (before, ())
    assert all(p.uses == 0 for p in worth)


def test_the_target_knows_what_a_panel_is() -> None:
    told: list[Panel] = []

    def none(program: Program, panel: Panel) -> bool:
        told.append(panel)
        return False

    before = in_blocks(CHOLESKY, 40, 8)
    assert copy_panels(before, none) == (before, ())
    (panel,) = told
    assert (panel.buffer, panel.columns) == ("L", 8)
    assert panel.uses == 6  # four terms of the sum in the middle of a block, a read and a write
    assert panel.low == panel.start


@pytest.mark.share(12)
@pytest.mark.parametrize("source", [LU, CROUT, CHOLESKY], ids=["LU", "Crout", "Cholesky"])
@pytest.mark.parametrize("dtype", ["double", "float"])
def test_on_the_cpu(source: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((45, 45)) * 0.1
    a = (a @ a.T + 45 * np.eye(45)).astype("float64" if dtype == "double" else "float32")
    source = source.replace("double", dtype)
    kernel = tc.compile(source, "cpu", options={"machine": {"l1": 4096, "l2": 4096}})
    accuracy = 1e-10 if dtype == "double" else 2e-5
    np.testing.assert_allclose(kernel(a), tc.interpret(source, a), rtol=accuracy, atol=accuracy)
    assert "works on in a copy" in kernel.inspect("choice", N=45)
    assert "works on in a copy" not in tc.compile(source, "cpu").inspect("choice", N=45)
