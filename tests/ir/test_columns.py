"""Columns that many rows read, copied before."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.ir.printer import program_text
from tc.ir.program import Program
from tc.transforms.program import segments
from tc.transforms.program.columns import Column, copy_columns
from tests.backends.cpu_cases import compiled

UPDATE = "L(i,j) += -L(i,k) * L(j,k) where i in k+1:N, j in k+1:N, j <= i"


def made(body: str, head: str = "float(N,N) A", n: int = 20) -> tuple[Program, tuple[str, ...], list[Column]]:
    """The last part of a loop over `k` with its columns copied, their names, and what was offered."""
    source = f"def f({head}) -> (float(N,N) L) {{ L(i,j) = A(i,j) for k in 0:N {{ {body} }} }}"
    parts = list(segments.segments(segments.parts(compiled(source).program({"N": n}))))
    offered: list[Column] = []

    def always(c: Column) -> bool:
        offered.append(c)
        return True

    return *copy_columns(parts[-1].program, always, {"k": n // 2}), offered


def test_a_column_of_the_tensor_that_is_updated() -> None:
    program, names, (column,) = made(UPDATE)
    (name,) = names
    text = program_text(program)
    assert f"{name}(j) = L(j, k)" in text and f"* {name}(j)" in text and "L(i, k)" in text
    assert (column.points, column.times) == (9, 9)
    assert [s.func == name for s in program.stages][-2:] == [True, False]


@pytest.mark.parametrize(
    "body",
    [
        "L(i,j) += -L(i,k) * L(k,j) where i in k+1:N, j in k+1:N",  # a row
        "L(i,j) += L(i,k) * A(j,i) where i in k+1:N, j in k+1:N",  # not of the same elements for every row
        "L(i,j) = i > k ? A(j,c(k)) : 0.0 where i in 0:N, j in 0:N",  # data say which column
    ],
)
def test_reads_that_are_not_copied(body: str) -> None:
    _, names, offered = made(body, "float(N,N) A, int(N) c")
    assert not names and not offered


def test_a_guard_may_keep_a_column_in_bounds_for_its_rows_alone() -> None:
    """Then it is not copied: without rows, the copy would read what is not there."""
    _, names, _ = made("L(i,j) += (j+1 < N ? A(j+1,k) : 0.0) where i in 0:N, j in 0:N")
    assert not names


@pytest.mark.parametrize("n", [1, 2, 17, 40])
def test_the_factor_is_right(n: int) -> None:
    source = f"""def f(double(N,N) A) -> (double(N,N) L) {{
      L(i,j) = A(i,j)
      for k in 0:N {{
        L(k,k) = sqrt(L(k,k))
        L(i,k) = L(i,k) / L(k,k) where i in k+1:N
        {UPDATE}
      }}
    }}"""
    half = np.tril(np.arange(n * n).reshape(n, n) % 3 + 1.0)
    found = np.tril(tc.compile(source, "cpu")(half @ half.T))
    np.testing.assert_allclose(found, half, rtol=1e-9, atol=1e-9 * n)
    if n == 40:
        kernel = tc.compile(source, "cpu", sizes={"N": n})
        assert "L_S3_column" in str(kernel.inspect("loops", N=n))
