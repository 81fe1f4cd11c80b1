"""Long reductions in parts: which stages there are then, and in which order."""

from __future__ import annotations

import pytest

import tc
from tc.ir.program import Program
from tc.ir.rfactor import split_reductions


def program(source: str, **sizes: int) -> Program:
    return tc.compile(source, "reference").specialize(**sizes).program


def stages(source: str, **sizes: int) -> list[tuple[str, str | None]]:
    """The Func and the operator of each stage, with at most 8 chunks of reductions of 1000 instances."""
    return [(s.func, s.op) for s in split_reductions(program(source, **sizes), 8, 1000).stages]


@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
def test_results_start_where_parts_are_combined(op: str) -> None:
    """So that they can stay in registers from their first value on."""
    want = [("s_part", None), ("s_part", op), ("s", None), ("s", op)]
    assert stages(f"def f(float(N) A) -> (s) {{ s {op}=! A(i) }}", N=4096) == want


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_results_that_are_read_start_before_that() -> None:
    """The sums need elements of the same tensor, which are not among their results."""
    source = """def f(float(N) A) -> (O) {
      O(i) = 1 where i in 0:10
      O(i) += A(j) * O(k) where i in 0:5, k in 5:10
    }"""
    found = stages(source, N=4096)
    assert found == [("O", None), ("O_part", None), ("O_part", "+"), ("O", "+")]


def test_short_reductions_stay() -> None:
    assert stages("def f(float(N) A) -> (s) { s +=! A(i) }", N=999) == [("s", None), ("s", "+")]
    assert stages("def f(float(N,M) A) -> (s) { s(n) +=! A(n,m) }", N=8, M=999) == [("s", None), ("s", "+")]


@pytest.mark.parametrize("backend", ["opencl"])
def test_two_kernels_sum_to_one_result(backend: str) -> None:
    """Of chunks, and of their sums: none only writes zeros."""
    text = tc.compile("def f(float(N) A) -> (s) { s +=! A(i) }", backend).inspect("code", N=1 << 20)
    assert text.count("__kernel") == 2
