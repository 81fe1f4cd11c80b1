"""Sums of quotients by what does not change are divided once, behind the sum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tc
from tc.errors import Source, Warning
from tc.ir.printer import text
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.transforms.program.divisors import divide_after

SIZES = {"N": 5, "K": 8, "M": 7}
INPUTS = "float(N,K) A, float(K,M) B, float(N) s, float(K) w, int(N) at, float a"


def divided(statement: str, **sizes: int) -> list[str]:
    """The values of the stages of a program of one statement, the pass run on it."""
    source = f"def f({INPUTS}) -> (C) {{ {statement} }}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Warning)
        program = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    return [text(s.value) for s in divide_after(specialize(program, sizes or SIZES))[0].stages]


@pytest.mark.parametrize(
    ("statement", "total", "result"),
    [
        ("C(i,j) +=! A(i,k) * B(k,j) / s(i)", "A(i, k) * B(k, j)", "C(i, j) / s(i)"),
        ("C(i,j) +=! A(i,k) / s(i) * B(k,j)", "A(i, k) * B(k, j)", "C(i, j) / s(i)"),
        ("C(i,j) +=! A(i,k) * (B(k,j) / a) / s(i)", "A(i, k) * B(k, j)", "C(i, j) / a / s(i)"),
        ("C(i,j) +=! A(i,k) / w(k) * B(k,j) / a", "A(i, k) / w(k) * B(k, j)", "C(i, j) / a"),
        ("C(i) +=! A(i,k) / sqrt(s(i) + 1.0)", "A(i, k)", "C(i) / sqrt(s(i) + 1.0)"),
        ("C(i) +=! A(i,k) / K", "A(i, k)", "C(i) / 8.0"),
        ("C(i) = 0.0 C(i) += A(i,k) / a", "A(i, k)", "C(i) / a"),
        ("C(i) +=! e / s(i) where e = A(i,k)", "A(i, k)", "C(i) / s(i)"),
        ("C(i) +=! A(i,k) / e where e = s(i) + a", "A(i, k)", "C(i) / (s(i) + a)"),
        ("C(i) +=! A(i,k) / (i + 1) where k <= i", "A(i, k)", "C(i) / float32(int32(i) + 1)"),
        ("C(i) +=! A(i,k) / (2*i + 0.5) where k < i", "A(i, k)", "C(i) / (float32(2 * int32(i)) + 0.5)"),
    ],
)
def test_divisors_that_are_applied_after_the_sum(statement: str, total: str, result: str) -> None:
    assert divided(statement) == ["0.0", total, result]


@pytest.mark.parametrize(
    "statement",
    [
        "C(i) +=! A(i,k) / w(k)",  # changes with k
        "C(i) +=! A(i,k) / e where e = s(i) + w(k)",
        "C(i) +=! A(i,k) / s(i) + w(k)",  # is no factor of all
        "C(i) max=! A(i,k) / s(i)",  # no sum
        "C(i) *=! A(i,k) / s(i)",
        "C(i) +=! A(i,k) / s(at(i))",  # checked when it runs
        "C(i) +=! A(i,k) / s(i) where k <= i - 1",  # the first sum has no instance, and is 0 whatever s(0) is
        "C(i) +=! A(i,k) / i where k < i",  # 0 / 0 is NaN
        "C(i) +=! A(i,k) / (3 - i) where k < i",
        "C(i) +=! A(i,k) / (i * 2000000000 + 1) where k < i",  # wraps
        "C(i) +=! 1.0 / s(i) where k in 0:K",  # nothing is left to sum
        "C(i) +=! int(A(i,k)) / 3",  # rounds towards minus infinity each time
        "C(i) = 2.0 * s(i) C(i) += A(i,k) / a",  # does not start from 0
        "C(i) = -0.0 C(i) += A(i,k) / a",  # a sum of nothing but -0 is -0
    ],
)
def test_divisors_that_are_not_moved(statement: str) -> None:
    source = f"def f({INPUTS}) -> (C) {{ {statement} }}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Warning)
        program = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    program = specialize(program, SIZES)
    assert divide_after(program) == (program, ())


def test_sums_of_few_or_of_sizes_that_may_be_0_stay() -> None:
    for sizes in ({"N": 5, "K": 3, "M": 7}, {"N": 5, "M": 7}):
        assert len(divided("C(i,j) +=! A(i,k) * B(k,j) / s(i)", **sizes)) == 2


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
def test_results(backend: str) -> None:
    """Small integers: the quotients are exact, so each order of operations gives the same."""
    a = np.arange(40, dtype=np.float32).reshape(5, 8) % 7
    b = np.arange(56, dtype=np.float32).reshape(8, 7) % 5
    s = np.array([1, 2, 4, 8, -2], np.float32)
    source = "def f(float(N,K) A, float(K,M) B, float(N) s) -> (C) { C(i,j) +=! A(i,k) / s(i) * B(k,j) }"
    np.testing.assert_array_equal(tc.compile(source, backend)(a, b, s), a / s[:, None] @ b)


@pytest.mark.share(8)
@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
@pytest.mark.parametrize("condition", ["k <= d", "k < d", "k >= d", "k <= d, n >= 1"])
def test_running_means(condition: str, backend: str) -> None:
    """A prefix whose summands are divided took instances for every pair."""
    source = f"""def f(float(N,K) x) -> (y) {{
      y(n,d) +=! x(n,k) / (d+1) where {condition}, n in 0:N, d in 0:K
    }}"""
    x = np.random.default_rng(0).integers(-9, 10, (3, 300)).astype(np.float32)
    d = np.arange(300)
    within = {"<=": d[:, None] <= d, "< ": d[:, None] < d, ">=": d[:, None] >= d}[condition[2:4]]
    want = (x.astype(float) @ within) / (d + 1)
    if "n >= 1" in condition:
        want[0] = 0
    np.testing.assert_allclose(tc.compile(source, backend)(x), want, rtol=1e-5, atol=1e-6)
    if backend == "cpu" and condition == "k <= d":
        assert "y_sums" in tc.compile(source, backend).inspect("loops", N=3, K=300)
