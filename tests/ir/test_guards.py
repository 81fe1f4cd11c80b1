"""Conditions of values become conditions of domains, where what they leave out adds nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir.printer import text
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.transforms.program.guards import restrict


def restricted(source: str, **sizes: int) -> str:
    """The value of the last statement of a program, its conditions moved: "value where conditions | reduced
    variables"."""
    program = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    stage = restrict(specialize(program, sizes)).stages[-1]
    reduced = " ".join(v.name for v in stage.domain.vars if v.kind == "reduction")
    where = ", ".join(map(text, stage.domain.conditions))
    return f"{text(stage.value)}{' where ' + where if where else ''} | {reduced}"


def product(value: str) -> str:
    inputs = "float(N,K) A, float(K,M) B, float(N) s"
    return f"def f({inputs}) -> (C) {{ C(i,j) +=! {value} where j in 0:M, k in 0:K }}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("k <= i ? A(i,k)*B(k,j) : 0.0", "A(i, k) * B(k, j) where k <= i | k"),
        ("k > i ? 0.0 : A(i,k)*B(k,j)", "A(i, k) * B(k, j) where k <= i | k"),
        ("!(k > i || j == k) ? A(i,k)*B(k,j) : 0.0", "A(i, k) * B(k, j) : 0.0 where k <= i | k"),
        ("k <= i && 2*k >= i - j ? A(i,k)*B(k,j) : 0.0", "where k <= i, 2 * k >= i - j"),
        ("k == i ? A(i,k)*B(k,j) : -0.0", "A(i, k) * B(k, j) where k == i | k"),
        ("k <= i ? (j > k ? A(i,k)*B(k,j) : 0.0) : 0.0", "A(i, k) * B(k, j) where k <= i, j > k | k"),
        ("k <= i && s(i) > 0 ? A(i,k)*B(k,j) : 0.0", "s(i) > 0.0 ? A(i, k) * B(k, j) : 0.0 where k <= i | k"),
    ],
)
def test_instances_that_add_nothing_are_left_out(value: str, expected: str) -> None:
    assert expected in restricted(product(value), N=9, K=8, M=7)


@pytest.mark.parametrize(
    "value",
    [
        "k <= i ? A(i,k)*B(k,j) : 1.0",  # adds something
        "(k <= i ? A(i,k) : 0.0) * B(k,j)",  # 0 * inf is NaN
        "k <= i || j <= k ? A(i,k)*B(k,j) : 0.0",  # no one piece
        "s(i) > 0 ? A(i,k)*B(k,j) : 0.0",  # data
        "k * j <= i ? A(i,k)*B(k,j) : 0.0",  # not affine
        "k * 2000000000 <= i ? A(i,k)*B(k,j) : 0.0",  # wraps around
    ],
)
def test_conditions_that_are_not_moved(value: str) -> None:
    assert " where " not in restricted(product(value), N=9, K=8, M=7)


def test_sums_are_in_the_order_of_their_operands() -> None:
    """As if the condition stood behind the value: an edge is no reason to read a matrix by columns."""
    source = """def f(float(C,H) x, float(C,K) w) -> (y) {
      y(h) +=! h + k - 1 >= 0 && h + k - 1 < H ? x(c,h+k-1) * w(c,k) : 0.0 where h in 0:H, k in 0:3
    }"""
    assert restricted(source, C=4, H=8, K=3).endswith("where h + k - 1 >= 0, h + k - 1 < 8 | c k")


def test_a_sum_with_an_initial_value_keeps_its_zeros() -> None:
    """-0 + 0 is 0."""
    source = "def f(float(N) x, float(N) a) -> (y) { y(i) = a(i)  y(i) += x(i) * 0 + (i > 1 ? x(i) : 0.0) }"
    assert " where " not in restricted(source, N=4)
    source = "def f(float(N) x, float(N) a) -> (y) { y(i) = a(i)  y(i) += i > 1 ? x(i) : 0.0 }"
    assert " where " not in restricted(source, N=4)
    y = tc.compile(source, "cpu")(np.ones(4, np.float32), np.full(4, -0.0, np.float32))
    assert not np.signbit(y).any()


def test_reads_of_a_condition_that_are_checked_stay_where_they_are() -> None:
    source = """def f(float(N,K) A, int32(N) p, float(M) q) -> (C) {
      C(i) +=! k <= i && q(p(i)) > 0 ? A(i,k) : 0.0
    }"""
    assert " where " not in restricted(source, N=4, K=4, M=4)


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_a_strict_choice_reads_whatever_its_condition_is() -> None:
    """A subscript out of range ends the call, also where the condition never holds."""
    source = """def f(float(N) A, int(Q) X) -> (T) {
      T(i) +=! select(i < 0, A(X(k)) * A(i), 0)
    }"""
    a, x = np.ones(3, np.float32), np.asarray([0, 9], np.int32)
    for backend in ("reference", "cpu", "opencl"):
        with pytest.raises(tc.BoundsError):
            tc.compile(source, backend)(a, x)


@pytest.mark.share(18)
@pytest.mark.parametrize("op", ["+=!", "*=!", "min=!", "max=!"])
@pytest.mark.parametrize(
    "dtype",
    ["float", "half", "int8", *(pytest.param(t, marks=pytest.mark.slow) for t in ("double", "int32"))],
)
def test_results_are_those_of_the_program(op: str, dtype: str) -> None:
    """With what would be NaN if it were multiplied by a 0."""
    kind: Any = {"float": np.float32, "double": np.float64, "half": np.float16}.get(dtype, dtype)
    ends = {"+=!": "0", "*=!": "1"}
    nothing = ends.get(op)
    if nothing is None:
        if not np.issubdtype(kind, np.integer):
            nothing = "-(1.0 / 0.0)" if op == "max=!" else "1.0 / 0.0"
        else:
            nothing = str(np.iinfo(kind).max if op == "min=!" else np.iinfo(kind).min + 1)
    source = f"""def f({dtype}(N,K) A, {dtype}(K,M) B) -> (C) {{
      C(i,j) {op} k <= i && k + 3 > j ? A(i,k) * B(k,j) : {nothing} where j in 0:M, k in 0:K
    }}"""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, n).astype(kind) for n in ((19, 17), (17, 21)))
    if not np.issubdtype(kind, np.integer):
        a[0, 3], b[16, 0] = np.inf, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = tc.interpret(source, a, b)
        for backend in ("cpu", "opencl"):
            np.testing.assert_array_equal(tc.compile(source, backend)(a, b), expected)


def test_a_step_of_many_is_known_not_to_wrap_around() -> None:
    """`8 * k` of a short loop; before, the read was thought to be outside for all sizes."""
    source = """def f(float(C,L) x, float(C,K) w) -> (y) {
      y(t) +=! t >= 8*k ? x(c,t-8*k) * w(c,k) : 0.0 where t in 0:L, k in 0:3
    }"""
    x, w = np.arange(80, dtype=np.float32).reshape(2, 40), np.ones((2, 3), np.float32)
    expected = sum(np.pad(x.sum(0), (8 * k, 0))[:40] for k in range(3))
    np.testing.assert_array_equal(tc.compile(source, "cpu")(x, w), expected)
