"""Products of narrow integers less zero points become products, and sums that correct them."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir.printer import text
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.transforms.program.zero_points import expand

INPUTS = "int8(M,K) a, uint8(K,N) b, int(M,K) big, int(M) p, int q, int(K) w"


def program(statement: str) -> Program:
    source = f"def f({INPUTS}) -> (c) {{ {statement} }}"
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    return specialize(built, {"M": 5, "K": 4, "N": 3})


def results(statement: str) -> list[str]:
    return [text(s.value) for s in expand(program(statement))[0].stages]


def test_both_have_a_zero_point() -> None:
    assert results("c(i,j) +=! (int32(a(i,k)) - p(i)) * (int32(b(k,j)) - q)") == [
        "0", "int32(a(i, k))", "0", "int32(b(k, j))", "0", "int32(a(i, k)) * int32(b(k, j))",
        "c(i, j) - q * c_sums(i) - p(i) * c_sums_(j) + p(i) * q * 4",
    ]  # fmt: skip


def test_one_has_a_zero_point() -> None:
    assert results("c(i,j) +=! int32(a(i,k)) * (int32(b(k,j)) + 128)") == [
        "0", "int32(a(i, k))", "0", "int32(a(i, k)) * int32(b(k, j))", "c(i, j) - (-128) * c_sums(i)",
    ]  # fmt: skip


def test_a_zero_point_that_is_added() -> None:
    assert results("c(i,j) +=! int32(a(i,k)) * (int32(b(k,j)) + p(i))")[-1] == (
        "c(i, j) - (-p(i)) * c_sums(i)"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "c(i,j) +=! int32(a(i,k)) * int32(b(k,j))",  # nothing to move
        "c(i,j) +=! (big(i,k) - q) * (int32(b(k,j)) - q)",  # no instruction would take the product
        "c(i,j) +=! (int32(a(i,k)) - w(k)) * (int32(b(k,j)) - q)",  # changes with k
        "c(i) +=! (int32(a(i,k)) - q) * (int32(b(k,i)) - q)",  # no factor is shared
        "c(i,j) +=! (int32(a(i,k)) - q) * (int32(b(k,j)) - q) where k <= i",  # counts differ
        "c(i,j) max=! (int32(a(i,k)) - q) * (int32(b(k,j)) - q)",
        "c(i,j) = q + p(i) where j in 0:N c(i,j) += (int32(a(i,k)) - q) * (int32(b(k,j)) - q)",
    ],
)
def test_products_that_are_unchanged(statement: str) -> None:
    before = program(statement)
    assert expand(before) == (before, ())


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
def test_results_are_exact(backend: str) -> None:
    """Also where the zero points are so large that products wrap."""
    source = """def f(int8(M,K) a, uint8(K,N) b, int p, int q) -> (c) {
      c(i,j) +=! (int32(a(i,k)) - p) * (int32(b(k,j)) - q)
    }"""
    r = np.random.default_rng(0)
    a, b = r.integers(-128, 128, (7, 33)).astype(np.int8), r.integers(0, 256, (33, 9)).astype(np.uint8)
    kernel = tc.compile(source, backend)
    for p, q in ((0, 0), (3, -2), (2**31 - 1, -(2**31))):
        expected = (a.astype(np.int64) - p) @ (b.astype(np.int64) - q)
        np.testing.assert_array_equal(kernel(a, b, p, q), expected.astype(np.int32))
