"""Integers and doubles become shorter floats with one rounding, to nearest even, everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tests.backends.cpu_cases import Array, isas, results
from tests.codegen.rounding import BITS, NUMPY, exact, hard, nearest

pytestmark = pytest.mark.filterwarnings("ignore::tc.Warning")

CASTS = "def f({t}(N) A) -> (B, H, F, D) {{ " + " ".join(
    f"{o}(i) = {t}(A(i))" for o, t in zip("BHFD", BITS)
)  # fmt: skip


def agree(got: tuple[Array, ...], values: list[int]) -> None:
    for g, t in zip(got, BITS, strict=True):
        assert g.dtype == np.dtype(NUMPY[t])
        np.testing.assert_array_equal(g.astype("f8"), exact(values, t).astype("f8"), t)


@pytest.mark.share(12)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("who", ["interpreter", "reference", "halide", "opencl", *isas()])
def test_conversions(who: str, dtype: str) -> None:
    values = hard(dtype)
    source, a = CASTS.format(t=dtype) + " }", np.array(values, dtype)
    if who == "interpreter":
        agree(results(tc.interpret(source, a)), values)
        return
    backend, options = (who, {}) if who not in isas() else ("cpu", {"isa": who})
    agree(results(tc.compile(source, backend, options=options)(a)), values)
    if backend == "cpu":
        agree(results(tc.compile(source, backend, options={**options, "vector": -1})(a)), values)


@pytest.mark.parametrize("who", ["interpreter", "reference", "halide", "opencl", *isas()])
def test_doubles(who: str) -> None:
    """Ties and what is next to them, brought to numbers of about 16 that all types have."""
    values = [v for v in hard("int64") if v and int(float(v)) == v]
    down = [5 - abs(v).bit_length() for v in values]
    source = (
        "def f(double(N) A) -> (B, H, F) { B(i) = bfloat16(A(i)) H(i) = float16(A(i)) F(i) = float(A(i)) }"
    )
    a = np.ldexp([float(v) for v in values], down)
    backend, options = (who, {}) if who not in isas() else ("cpu", {"isa": who})
    got = tc.interpret(source, a) if who == "interpreter" else tc.compile(source, backend, options=options)(a)
    for g, t in zip(results(got), ("bfloat16", "float16", "float"), strict=True):
        wanted = np.ldexp([float(nearest(v, BITS[t])) for v in values], down)
        np.testing.assert_array_equal(g.astype("f8"), wanted, t)


@pytest.mark.parametrize("backend", ["interpreter", "reference", "cpu", "halide"])
def test_what_is_converted_implicitly(backend: str) -> None:
    values = hard("int64")
    source = "def f(int64(N) A, bfloat16 b, float s) -> (B, F) { B(i) = A(i) * b F(i) = A(i) * s }"
    args = np.array(values, "i8"), 1.0, 1.0
    got = tc.interpret(source, *args) if backend == "interpreter" else tc.compile(source, backend)(*args)
    for g, t in zip(results(got), ("bfloat16", "float"), strict=True):
        np.testing.assert_array_equal(g.astype("f8"), exact(values, t).astype("f8"), t)


@pytest.mark.parametrize("backend", ["interpreter", "reference", "cpu", "halide"])
def test_literals(backend: str) -> None:
    literals = (2**55 + 2**47 + 1, 2**62 + 2**54 + 1, 2**62 + 2**38 + 1, 2**62 + 2**38 - 1, 2**63 - 1)
    for v in literals:
        source = "def f(float(N) A) -> (B, H, F, D, G) { " + " ".join(
            f"{o}(i) = {t}({v}) where i in 0:N" for o, t in zip("BHFD", BITS, strict=True)
        )
        source += f" G(i) = A(i) * {v} }}"
        a = np.ones(3, "f4")
        got = tc.interpret(source, a) if backend == "interpreter" else tc.compile(source, backend)(a)
        agree(results(got)[:4], [v] * 3)
        np.testing.assert_array_equal(results(got)[4], exact([v] * 3, "float"))


def test_literals_of_halves() -> None:
    """Just beyond a tie: float32 would lose the excess."""
    for text, want in (("1.00390625000001", 1.0078125), ("1.01171874999999", 1.0078125)):
        source = f"def f(float(N) A) -> (B) {{ B(i) = bfloat16({text}) where i in 0:N }}"
        for backend in ("reference", "cpu", "halide"):
            (got,) = results(tc.compile(source, backend)(np.ones(1, "f4")))
            assert float(got[0]) == want, backend


def test_literals_as_doubles() -> None:
    """Each is a double that rounds as the integer does, and of halves also by way of float32."""
    types = {"bfloat16": BFLOAT16, "float16": FLOAT16, "float": FLOAT32, "double": FLOAT64}
    values = hard("int64") + hard("uint64")
    for name, t in types.items():
        wide = np.array([t.literal(v) for v in values])
        with np.errstate(over="ignore"):
            if t.is_half:
                wide = wide.astype("f4")
            np.testing.assert_array_equal(wide.astype(NUMPY[name]), exact(values, name), name)
    for t in types.values():
        assert t.literal(float("inf")) == float("inf")
        assert np.isnan(t.literal(float("nan"))) and t.literal(0.1) == 0.1
        assert np.signbit(t.literal(-0.0))
