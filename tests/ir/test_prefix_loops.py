"""Prefix reductions as sequential loops: down columns, and along many rows."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir.printer import program_text
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.transforms.program.prefix_loops import into_loops

N, M = 9, 40
RANGES = "d in 0:N, k in 0:N"
BEFORE, AFTER = np.tril(np.ones((N, N))), np.triu(np.ones((N, N)))


def programs(statement: str) -> tuple[str, str]:
    """A program of one statement, before and after the pass."""
    source = f"def f(float(N,M) x, float(N) w, float(N,M,C) u, float(M,N) t) -> (y) {{ {statement} }}"
    program = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    program = specialize(program, {"N": N, "M": M, "C": 3})
    return program_text(program), program_text(into_loops(program, lambda found: found.width >= 8).program)


@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        (
            f"y(d,m) +=! x(k,m) where k <= d, {RANGES}",
            (
                "y(d, m) = 0.0   for d in [0, 1)",
                "y(d, m) += x(0, m)   for d in [0, 1)",
                "for d_row < 8: S1r: y(d, m) = y(d - 1, m) + x(d_row + 1, m)   for d in [d_row + 1,",
            ),
        ),
        (
            f"y(d,m) max=! x(k,m) where k > d, {RANGES}",
            (
                "y(d, m) = -inf   for d in [8, 9)",
                "for d_row < 8: S1r: y(d, m) = max(y(d + 1, m), x(8 - d_row, m))   for d in [7 - d_row,",
            ),
        ),
        (
            f"y(d,m) +=! u(k,m,c) where k < d, {RANGES}",
            (
                "for d_row < 8: S1b: y(d, m) = y(d - 1, m)   for d in [d_row + 1, d_row + 2)",
                "for d_row < 8: S1r: y(d, m) += u(d_row, m, c)   for d in [d_row + 1, d_row + 2)",
            ),
        ),
        (
            f"y(d,m) +=! x(k,m) / w(d) where k <= d, {RANGES}",
            (
                "for d_row < 8: S1r: y(d, m) = y(d - 1, m) + x(d_row + 1, m)",
                "S1f: y(d, m) = y(d, m) / w(d)   for d in [0, 9)",
            ),
        ),
    ],
    ids=["sums", "suffix maxima", "sums of sums", "running means"],
)
def test_prefixes_become_loops(statement: str, lines: tuple[str, ...]) -> None:
    text = programs(statement)[1]
    assert all(line in text for line in lines), text


@pytest.mark.parametrize(
    "statement",
    [
        f"y(m,d) +=! t(m,k) where k <= d, {RANGES}",  # along a row, in chunks
        "y(d,m) +=! x(k,m) where k <= d, d in 1:N, k in 0:N",  # the first result has two values
        f"y(d,m) +=! x(k,m) where k <= 2*d, {RANGES}, 2*d < N",
        f"y(d,m) +=! x(k,m) where k <= d, m > 3, {RANGES}",  # some results have no values
        f"y(d,m) +=! x(k,m) where {RANGES}",
        f"y(d,m) +=! x(k,m) * x(d,m) where k <= d, k >= 2, {RANGES}",  # the first sums are 0
        f"y(d,m) = w(d) where m in 0:M y(d,m) += x(k,m) where k <= d, {RANGES}",  # starts from others
    ],
)
def test_others_stay(statement: str) -> None:
    before, after = programs(statement)
    assert before == after


_TWO_CORES = (("cores", 2),)

CASES = {
    "k <= d": BEFORE,
    "k < d": BEFORE - np.eye(N),
    "k >= d": AFTER,
    "k > d": AFTER - np.eye(N),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("condition", CASES)
@pytest.mark.parametrize("type", ["float", "double", "int", "half"])
def test_sums(condition: str, type: str) -> None:
    dtype = {"float": np.float32, "double": np.float64, "int": np.int32, "half": np.float16}[type]
    x = np.random.default_rng(0).integers(-9, 10, (3, N, M)).astype(dtype)
    source = f"def f({type}(B,N,M) x) -> (y) {{ y(b,d,m) +=! x(b,k,m) where {condition}, {RANGES} }}"
    kernel = tc.compile(source, "cpu")
    want = np.einsum("dk,bkm->bdm", CASES[condition], x.astype(np.float64))
    np.testing.assert_array_equal(np.asarray(kernel(x), np.float64), want)
    assert "for d_row in [0, 8)" in kernel.inspect("loops", B=3, N=N, M=M)


@pytest.mark.parametrize("op", ["min", "max", "*"])
def test_extremes_and_products(op: str) -> None:
    x = np.random.default_rng(1).choice([-2.0, -1.0, 1.0, 2.0], (N, M)).astype(np.float32)
    x[3, 5] = np.nan
    source = f"def f(float(N,M) x) -> (y) {{ y(d,m) {op}=! x(k,m) where k <= d, {RANGES} }}"
    want = {"min": np.minimum, "max": np.maximum, "*": np.multiply}[op].accumulate(x, axis=0)
    np.testing.assert_array_equal(tc.compile(source, "cpu")(x), want)


def test_values_under_conditions_and_of_reductions() -> None:
    u = np.random.default_rng(2).integers(-9, 10, (N, M, 5)).astype(np.float32)
    source = f"def f(float(N,M,C) u) -> (y) {{ y(d,m) +=! u(k,m,c) where k < d, k > c, {RANGES} }}"
    within = np.arange(N)[:, None] > np.arange(5)
    want = CASES["k < d"] @ np.einsum("kmc,kc->km", u, within)
    np.testing.assert_array_equal(tc.compile(source, "cpu")(u), want)


def test_running_means_between_other_statements() -> None:
    """What is summed down columns is computed before, and read after the loop."""
    x = np.random.default_rng(3).integers(-9, 10, (N, M)).astype(np.float32)
    source = f"""def f(float(N,M) x) -> (y) {{
      z(k,m) = x(k,m) * x(k,m)
      s(d,m) +=! z(k,m) / (d + 1) where k <= d, {RANGES}
      y(d,m) = x(d,m) - s(d,m)
    }}"""
    want = x - np.cumsum(x.astype(np.float64) ** 2, axis=0) / np.arange(1, N + 1)[:, None]
    kernel = tc.compile(source, "cpu")
    np.testing.assert_allclose(kernel(x), want, rtol=1e-6)
    assert kernel.notes == ("s is multiplied or divided after its sum, which rounds once",)


def test_narrow_rows_and_sizes_that_change_stay_in_chunks() -> None:
    source = f"def f(float(N,M) x) -> (y) {{ y(d,m) +=! x(k,m) where k <= d, {RANGES} }}"
    x = np.ones((400, 2), np.float32)
    for kernel in (tc.compile(source, "cpu"), tc.compile(source, "cpu", dynamic=True)):
        np.testing.assert_array_equal(kernel(x), np.cumsum(x, axis=0))


@pytest.mark.parametrize("rows", [64, 75])
@pytest.mark.parametrize("op", ["+", "min", "max"])
def test_many_rows_of_prefixes_are_loops(op: str, rows: int) -> None:
    """In lanes, a row in each."""
    source = f"def f(float(M,N) x) -> (y) {{ y(m,d) {op}=! x(m,k) where k <= d, {RANGES} }}"
    x = np.random.default_rng(4).integers(-9, 10, (rows, 37)).astype(np.float32)
    if op != "+":
        x[5, 20] = x[rows - 1, 36] = np.nan
    want = {"+": np.add, "min": np.minimum, "max": np.maximum}[op].accumulate(x, axis=1)
    kernel = tc.compile(source, "cpu", options={"machine": _TWO_CORES})
    np.testing.assert_array_equal(kernel(x), want)
    text = kernel.inspect("loops", M=rows, N=37)
    assert "for d_row in [0, 3" in text and "transposed for d_row_k" in text and "y_sums" not in text


@pytest.mark.parametrize(
    "body",
    [
        f"y(m,d) +=! exp(x(m,k)) where k <= d, {RANGES}",
        f"y(m,d) +=! x(m,k) where k <= d, {RANGES} z(m,d) = 2*y(m,d)",
        f"y(m,d) +=! u(m,k,c) where k <= d, {RANGES}",
    ],
    ids=["costly values", "read by another statement", "sums of sums"],
)
def test_rows_of_prefixes_that_stay_in_chunks(body: str) -> None:
    source = f"def f(float(M,N) x, float(M,N,C) u) -> (y{', z' * ('z(' in body)}) {{ {body} }}"
    kernel = tc.compile(source, "cpu", options={"machine": _TWO_CORES})
    assert "d_row" not in kernel.inspect("loops", M=64, N=100, C=3)
