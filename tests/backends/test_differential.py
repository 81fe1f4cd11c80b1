"""Random expressions over hard values: every backend must give what the oracle gives, to the bit.

Integers are exact everywhere.  Floating expressions use operations that are exact on the data (small
integers, halves, infinities, NaN), so that equality can be asked of float32 and float64 alike.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.registry import availability, names
from tests.share import examples

# OpenCL's compiler takes a tenth of a second for each expression; tests/codegen/test_numerics.py has them all
# in a few programs.
DEVICES = ("opencl", "cuda")
BACKENDS = tuple(n for n in names() if availability(n).ok and n not in DEVICES)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")


def integer_values(dtype: str) -> list[int]:
    info = np.iinfo(dtype)
    picks = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 2]
    return picks + ([-1, -2, -7] if info.min < 0 else [info.max // 3])


ARITHMETIC = ["({} + {})", "({} - {})", "({} * {})"]
INTEGER_FORMS = [
    *ARITHMETIC,
    "({} / {})",
    "({} % {})",
    "min({}, {}, A(i))",
    "max({}, {}, A(i))",
    "select(A(i) > {}, {}, B(i))",
]
FLOAT_FORMS = [
    *ARITHMETIC,
    "min({}, {})",
    "max({}, {})",
    "fmin({}, {})",
    "fmax({}, {})",
    "(A(i) < {} ? {} : B(i))",
    "select(A(i) != {}, {}, A(i))",
    *(f"{f}({{}})" for f in ("-", "fabs", "floor", "trunc", "round", "abs")),
]
FLOAT_VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 4.0, np.inf, -np.inf, np.nan]


@st.composite
def integer_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """An expression over A(i), B(i) and literals of one integer type."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(["A(i)", "B(i)", "A(i)", "B(i)", "1", "3", "0"]))
    left, right = draw(integer_expressions(depth - 1)), draw(integer_expressions(depth - 1))
    if draw(st.integers(0, 3)) == 0:
        relation = draw(st.sampled_from(["==", "!=", "<", ">", "<=", ">="]))
        return f"(A(i) {relation} B(i) ? {left} + A(i) : {right} + A(i))"
    form = draw(st.sampled_from(INTEGER_FORMS))
    return form.format(left, right)


@st.composite
def float_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(["A(i)", "B(i)", "A(i)", "1.0", "0.5", "-2.0"]))
    left, right = draw(float_expressions(depth - 1)), draw(float_expressions(depth - 1))
    form = draw(st.sampled_from(FLOAT_FORMS))
    return form.format(left, right)


def run(body: str, params: str, arguments: dict[str, Any]) -> None:
    """Compare every backend with the oracle, to the bit but for the payload of NaN and the sign of zero."""
    source = f"def f({params}) -> (O) {{ {body} }}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        try:
            want = np.asarray(tc.interpret(source, **arguments))
        except tc.DTypeError:
            return  # a literal that does not fit: refused by all alike
        for backend in BACKENDS:
            got = np.asarray(tc.compile(source, backend)(**arguments))
            assert got.dtype == want.dtype, (backend, source)
            np.testing.assert_array_equal(got, want, f"{backend}: {source}")


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def pairs(values: list[Any], dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    a, b = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    return a.ravel(), b.ravel()


@given(integer_expressions(), st.sampled_from(INTEGERS))
@settings(max_examples=examples(60, 6), **COMMON)  # type: ignore[arg-type]
def test_integer_arithmetic(expression: str, dtype: str) -> None:
    a, b = pairs(integer_values(dtype), dtype)
    run(f"O(i) = {expression} + A(i)", f"{dtype}(N) A, {dtype}(N) B", {"A": a, "B": b})


@given(float_expressions(), st.sampled_from(FLOATS))
@settings(max_examples=examples(60, 6), **COMMON)  # type: ignore[arg-type]
def test_floating_arithmetic(expression: str, dtype: str) -> None:
    a, b = pairs(FLOAT_VALUES, dtype)
    run(f"O(i) = {expression} + A(i)", f"{dtype}(N) A, {dtype}(N) B", {"A": a, "B": b})


@pytest.mark.share(36)
@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS, "bool"])
@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS, "bool"])
def test_casts(source: str, target: str) -> None:
    if source in FLOATS:
        beyond = [1e10, -1e10, 1e20, -1e20, 127.9, -128.9, 255.5, 2.0**31, 2.0**63]
        values = np.array([*FLOAT_VALUES, *beyond], source)
    elif source == "bool":
        values = np.array([False, True])
    else:
        values = np.array(integer_values(source), source)
    if target in FLOATS:  # only what the target holds exactly: the oracle does not round
        values = values[
            values.astype(np.float64).astype(target).astype(np.float64) == values.astype(np.float64)
        ]
        if source not in FLOATS:
            values = values[np.abs(values.astype(np.float64)) < 2**24]
    run(f"O(i) = {target}(A(i))", f"{source}(N) A", {"A": values})


@pytest.mark.share(18)
@pytest.mark.parametrize("op", ["+=!", "*=!", "min=!", "max=!"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_reductions_with_wrapping_and_nan(op: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    values = FLOAT_VALUES if dtype in FLOATS else integer_values(dtype)
    a = np.array(values, dtype)[rng.integers(0, len(values), (12, 5))]
    if dtype in FLOATS and op in ("+=!", "*=!"):
        a = np.where(np.isfinite(a), a, np.array(2, dtype))
    run(f"O(i) {op} A(i,j)", f"{dtype}(N,M) A", {"A": a})
