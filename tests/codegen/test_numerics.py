"""Every operation of the IR, in C and in LLVM IR, against the language's rules in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tc.codegen.numerics import bits16
from tc.dtypes import ALL, BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, DType
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    imm,
)  # fmt: skip
from tc.ir.program import Program
from tc.lang.builtins import BUILTINS
from tests.codegen.kernels import both, lowered, numpy_dtype
from tests.codegen.launches import launched, on_device
from tests.codegen.rounding import exact, hard
from tests.poly.programs import Build, axis, box

Results = dict[str, tuple[DType, Callable[[Expr, Expr], Expr]]]
INTEGERS = [t for t in ALL if t.is_int]
FLOATS = [FLOAT32, FLOAT64]
COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    EQ: lambda a, b: a == b, NE: lambda a, b: a != b, LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b, GT: lambda a, b: a > b, GE: lambda a, b: a >= b,
}  # fmt: skip


def pairwise(dtype: DType, results: Results) -> Program:
    """A kernel that applies several functions of two values to the elements of A and B."""
    b = Build("pairs", "N")
    b.input("A", dtype, "N")
    b.input("B", dtype, "N")
    x, y = b.read("A", "i"), b.read("B", "i")
    for name, (out, function) in results.items():
        b.tensor(name, out, *box("N"))
        b.stage(name, ("i",), None, function(x, y), axis("i", 0, "N"), text=name)
    return b.done()


def run(dtype: DType, a: Any, b: Any, results: Results) -> list[dict[str, Any]]:
    nest = lowered(pairwise(dtype, results), {"N": len(a)})
    out = *both(nest, {"A": a, "B": b}), on_device(launched(nest), {"A": a, "B": b})
    assert [r.code for r in out] == [0, 0, 0]
    return [r.outputs for r in out]


def integers(t: DType) -> list[int]:
    low, high = int(t.min), int(t.max)
    few = {low, low + 1, -7, -3, -2, -1, 0, 1, 2, 3, 5, 100, high - 1, high, high // 2}
    return sorted(v for v in few if low <= v <= high)


@pytest.mark.share(12)
@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_integer_arithmetic_wraps_and_division_floors_without_traps(t: DType) -> None:
    pairs = list(itertools.product(integers(t), repeat=2))
    a, b = (np.array(v, numpy_dtype(t)) for v in zip(*pairs, strict=True))
    exact: dict[type, Callable[[int, int], int]] = {
        Add: lambda x, y: x + y, Sub: lambda x, y: x - y, Mul: lambda x, y: x * y, Min: min, Max: max,
        FloorDiv: lambda x, y: x // y if y else 0, FloorMod: lambda x, y: x % y if y else 0,
    }  # fmt: skip
    results: Results = {n.__name__: (t, n) for n in exact}  # type: ignore[misc]
    results |= {n.__name__: (BOOL, n) for n in COMPARISONS}  # type: ignore[misc]
    results["abs"] = (t, lambda x, y: Call("abs", (x,), t, "intrinsic"))
    for outputs in run(t, a, b, results):
        for n, f in exact.items():
            want = np.array([t.wrap(f(x, y)) for x, y in pairs], numpy_dtype(t))
            np.testing.assert_array_equal(outputs[n.__name__], want, n.__name__)
        for n, g in COMPARISONS.items():
            np.testing.assert_array_equal(outputs[n.__name__], [g(x, y) for x, y in pairs], n.__name__)
        np.testing.assert_array_equal(
            outputs["abs"], np.array([t.wrap(abs(x)) for x, _ in pairs], numpy_dtype(t))
        )


@pytest.mark.share(12)
@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_integer_division_by_literals(t: DType) -> None:
    a = np.array(integers(t), numpy_dtype(t))
    divisors = [d for d in (-128, -2, -1, 0, 1, 2, 3, 7, 64, 100) if int(t.min) <= d <= int(t.max)]
    results: Results = {}
    for k, d in enumerate(divisors):
        results[f"q{k}"] = (t, lambda x, y, d=d: FloorDiv(x, imm(d, t)))
        results[f"r{k}"] = (t, lambda x, y, d=d: FloorMod(x, imm(d, t)))
    for outputs in run(t, a, a, results):
        for k, d in enumerate(divisors):
            quotients = [t.wrap(int(x) // d if d else 0) for x in a]
            np.testing.assert_array_equal(outputs[f"q{k}"], np.array(quotients, numpy_dtype(t)), f"/ {d}")
            rests = [int(x) % d if d else 0 for x in a]
            np.testing.assert_array_equal(outputs[f"r{k}"], np.array(rests, numpy_dtype(t)), f"% {d}")


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.5, 1e-45, 1e-310, 127.0, 127.5, 128.0, -128.9, -129.0, 255.9, 256.0,
    32767.9, 65504.0, 65519.99, 65520.0, 2147483647.0, 2147483648.0, -2147483648.0, -2147483649.0,
    4294967295.9, 4294967296.0, 9.2233720368547748e18, 9.2233720368547758e18, -9.2233720368547758e18,
    1.8446744073709552e19, 1e30, -1e30, 3e38, math.inf, -math.inf, math.nan,
    # Just beyond a tie of float16 and of bfloat16: rounding to float32 first would lose the excess.
    1 + 2**-11 + 2**-40, 1 + 2**-8 + 2**-40, -(1 + 3 * 2**-11 - 2**-40), 1 + 3 * 2**-8 - 2**-40,
    2**-25 + 2**-70,
]  # fmt: skip


def saturated(t: DType, v: float) -> int:
    if math.isnan(v):
        return 0
    if math.isinf(v):
        return int(t.max if v > 0 else t.min)
    return min(max(math.trunc(v), int(t.min)), int(t.max))


@pytest.mark.share(4)
@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_floating_arithmetic_and_nan(t: DType) -> None:
    pairs = list(itertools.product(SPECIAL, repeat=2))
    a, b = (np.array(v, numpy_dtype(FLOAT64)).astype(numpy_dtype(t)) for v in zip(*pairs, strict=True))
    results: Results = {
        n.__name__: (t, n)
        for n in (Add, Sub, Mul, Div, Min, Max)  # type: ignore[misc]
    }
    results |= {n.__name__: (BOOL, n) for n in COMPARISONS}  # type: ignore[misc]
    results["fmin"] = (t, lambda x, y: Call("fmin", (x, y), t, "intrinsic"))
    with np.errstate(all="ignore"):
        want = {
            "Add": a + b, "Sub": a - b, "Mul": a * b, "Div": a / b,
            "Min": np.minimum(a, b), "Max": np.maximum(a, b), "fmin": np.fmin(a, b),
            "EQ": a == b, "NE": a != b, "LT": a < b, "LE": a <= b, "GT": a > b, "GE": a >= b,
        }  # fmt: skip
    for outputs in run(t, a, b, results):
        for n, w in want.items():
            np.testing.assert_array_equal(outputs[n], w, n)  # NaN equals NaN, -0 equals 0
        for n in ("Add", "Sub", "Mul", "Div"):
            ok = ~np.isnan(want[n])
            np.testing.assert_array_equal(np.signbit(outputs[n][ok]), np.signbit(want[n][ok]), n)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_floats_to_every_other_type(t: DType) -> None:
    grid = np.concatenate(
        [SPECIAL, np.random.default_rng(0).standard_normal(500) * 10.0 ** np.arange(-250, 250)]
    )
    with np.errstate(all="ignore"):
        a = grid.astype(numpy_dtype(t))
    targets = [o for o in ALL if o != t]
    results: Results = {f"to_{o}": (o, lambda x, y, o=o: Cast(o, x)) for o in targets}
    for outputs in run(t, a, a, results):
        for o in targets:
            got = outputs[f"to_{o}"]
            if o.is_int:
                np.testing.assert_array_equal(
                    got, np.array([saturated(o, float(v)) for v in a], got.dtype), str(o)
                )
            elif o.is_bool:
                np.testing.assert_array_equal(got, [bool(v) for v in a])
            elif o.is_half:
                want = np.array([bits16(float(v), o) for v in a], np.uint16)
                nan = np.isnan(a)
                np.testing.assert_array_equal(got.view(np.uint16)[~nan], want[~nan], str(o))
                assert np.isnan(got[nan].astype(np.float32)).all()
            else:
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(got, a.astype(got.dtype), str(o))


@pytest.mark.share(12)
@pytest.mark.parametrize("t", [BOOL, *INTEGERS], ids=str)
def test_integers_to_every_other_type(t: DType) -> None:
    values = (
        [0, 1]
        if t.is_bool
        else integers(t)
        + (hard(t.name, 6) if t.bits >= 32 else [v for v in (2049, 65519) if v <= int(t.max)])
    )
    a = np.array(values, numpy_dtype(t))
    targets = [o for o in ALL if o != t]
    results: Results = {f"to_{o}": (o, lambda x, y, o=o: Cast(o, x)) for o in targets}
    for outputs in run(t, a, a, results):
        for o in targets:
            got = outputs[f"to_{o}"]
            if o.is_int:
                want = np.array([o.wrap(v) for v in values], got.dtype)
            elif o.is_half:
                want = exact(values, o.name)
            else:
                want = a.astype(got.dtype)
            np.testing.assert_array_equal(got, want, str(o))


@pytest.mark.parametrize("t", [FLOAT16, BFLOAT16], ids=str)
def test_all_16_bit_patterns_survive_conversion(t: DType) -> None:
    a = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(t))
    results: Results = {
        "wide": (FLOAT32, lambda x, y: Cast(FLOAT32, x)),
        "back": (t, lambda x, y: Cast(t, Cast(FLOAT32, x))),
        "whole": (INT32, lambda x, y: Cast(INT32, x)),
    }
    program = pairwise(t, results)
    n = lowered(program, {"N": 1 << 16}, traced=False)
    with np.errstate(all="ignore"):
        want = a.astype(np.float32)
    nan = np.isnan(want)
    for r in both(n, {"A": a, "B": a}):
        np.testing.assert_array_equal(r.outputs["wide"], want)
        np.testing.assert_array_equal(r.outputs["back"].view(np.uint16)[~nan], a.view(np.uint16)[~nan])
        assert np.isnan(r.outputs["back"][nan].astype(np.float32)).all()
        np.testing.assert_array_equal(r.outputs["whole"], [saturated(INT32, float(v)) for v in want])


def test_float32_rounds_to_16_bits_as_numpy_does() -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, 4000, dtype=np.uint32)
    # Ties, and neighbours of ties, at every exponent.
    exponents = (np.arange(256, dtype=np.uint32) << 23)[:, None]
    fractions = np.array(
        [0, 0x1000, 0x0FFF, 0x1001, 0x3000, 0x8000, 0x7FFF, 0x8001, 0x18000, 0x7FFFFF], np.uint32
    )
    a = np.concatenate(
        [bits, (exponents | fractions).ravel(), (exponents | fractions).ravel() | 1 << 31]
    ).view(np.float32)
    a = a[~np.isnan(a)][:1900]
    results: Results = {
        "half": (FLOAT16, lambda x, y: Cast(FLOAT16, x)),
        "brain": (BFLOAT16, lambda x, y: Cast(BFLOAT16, x)),
    }
    with np.errstate(all="ignore"):
        half, brain = a.astype(np.float16), a.astype(ml_dtypes.bfloat16)
    for outputs in run(FLOAT32, a, a, results):
        np.testing.assert_array_equal(outputs["half"].view(np.uint16), half.view(np.uint16))
        np.testing.assert_array_equal(outputs["brain"].view(np.uint16), brain.view(np.uint16))


def test_logic_on_truth_values() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    results: Results = {
        "both": (BOOL, And), "either": (BOOL, Or),
        "mixed": (BOOL, lambda x, y: Or(And(x, Not(y)), And(Not(x), y))),
        "least": (BOOL, Min), "most": (BOOL, Max), "same": (BOOL, EQ),
        "chosen": (BOOL, lambda x, y: Select(x, Not(y), y)),
        "order": (BOOL, lambda x, y: EQ(LT(x, y), GT(y, x))),
    }  # fmt: skip
    for outputs in run(BOOL, a, b, results):
        np.testing.assert_array_equal(outputs["both"], a & b)
        np.testing.assert_array_equal(outputs["either"], a | b)
        np.testing.assert_array_equal(outputs["mixed"], a ^ b)
        np.testing.assert_array_equal(outputs["least"], a & b)
        np.testing.assert_array_equal(outputs["most"], a | b)
        np.testing.assert_array_equal(outputs["same"], a == b)
        np.testing.assert_array_equal(outputs["chosen"], np.where(a, ~b, b))
        np.testing.assert_array_equal(outputs["order"], True)


@pytest.mark.share(12)
@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_intermediate_values_wrap_too(t: DType) -> None:
    """C would compute narrow integers in int: each operation must come back to its type."""
    pairs = list(itertools.product(integers(t), repeat=2))
    a, b = (np.array(v, numpy_dtype(t)) for v in zip(*pairs, strict=True))
    three = imm(3, t)
    results: Results = {
        "sum": (t, lambda x, y: FloorDiv(Add(x, y), three)),
        "difference": (t, lambda x, y: FloorDiv(Sub(x, y), three)),
        "product": (t, lambda x, y: FloorMod(Mul(x, y), three)),
        "order": (BOOL, lambda x, y: LT(Add(x, y), x)),
        "negated": (BOOL, lambda x, y: GT(Sub(imm(0, t), x), y)),
    }
    for outputs in run(t, a, b, results):
        np.testing.assert_array_equal(outputs["sum"], [t.wrap(x + y) // 3 for x, y in pairs])
        np.testing.assert_array_equal(outputs["difference"], [t.wrap(x - y) // 3 for x, y in pairs])
        np.testing.assert_array_equal(outputs["product"], [t.wrap(x * y) % 3 for x, y in pairs])
        np.testing.assert_array_equal(outputs["order"], [t.wrap(x + y) < x for x, y in pairs])
        np.testing.assert_array_equal(outputs["negated"], [t.wrap(-x) > y for x, y in pairs])


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_every_built_in_function(t: DType) -> None:
    a = np.array([0.25, 0.5, 0.9, 1.0], numpy_dtype(t))
    names = [b for b in BUILTINS.values() if b.kind == "math"]
    results: Results = {
        f"f_{f.name}": (t, lambda x, y, f=f: Call(f.name, (x, y, y, x)[: f.arity], t, "intrinsic"))
        for f in names
    }
    in_text, in_process, on_opencl = run(t, a, a[::-1].copy(), results)
    for f in names:
        x, y = in_text[f"f_{f.name}"], in_process[f"f_{f.name}"]
        np.testing.assert_array_max_ulp(np.where(np.isnan(x), 7, x), np.where(np.isnan(y), 7, y), 2)
        z = on_opencl[f"f_{f.name}"]
        if f.name in ("j0", "j1", "y0", "y1"):  # close to a zero their error is that of the amplitude
            np.testing.assert_allclose(z, x, rtol=0, atol=8 * np.finfo(x.dtype).eps)
        else:
            np.testing.assert_array_max_ulp(np.where(np.isnan(x), 7, x), np.where(np.isnan(z), 7, z), 4)
    np.testing.assert_allclose(in_process["f_hypot"], np.hypot(a, a[::-1]), rtol=1e-6)
    np.testing.assert_allclose(in_process["f_tanh"], np.tanh(a), rtol=1e-6)
    np.testing.assert_allclose(in_process["f_sigmoid"], 1 / (1 + np.exp(-a)), rtol=1e-6)


def test_round_is_half_away_from_zero() -> None:
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, -0.0], np.float32)
    results: Results = {"rounded": (FLOAT32, lambda x, y: Call("round", (x,), FLOAT32, "intrinsic"))}
    for outputs in run(FLOAT32, a, a, results):
        np.testing.assert_array_equal(outputs["rounded"], [1, 2, 3, -1, -2, 0, 0])
        assert list(np.signbit(outputs["rounded"])) == [False, False, False, True, True, False, True]


def test_constants_are_exact() -> None:
    values = [0.1, 1e-45, 3.4028234663852886e38, -0.0, math.pi, 1e-12, 16777217.0, math.inf, -math.inf]
    doubles = [0.1, 5e-324, 1.7976931348623157e308, -0.0, math.pi, 1e-12]
    a = np.zeros(1, np.float32)
    results: Results = {}
    for k, v in enumerate(values):
        results[f"s{k}"] = (FLOAT32, lambda x, y, v=v: FloatImm(v, FLOAT32))
    for k, v in enumerate(doubles):
        results[f"d{k}"] = (FLOAT64, lambda x, y, v=v: FloatImm(v, FLOAT64))
    for t in INTEGERS:
        results[f"low_{t}"] = (t, lambda x, y, t=t: imm(int(t.min), t))
        results[f"high_{t}"] = (t, lambda x, y, t=t: imm(int(t.max), t))
    for outputs in run(FLOAT32, a, a, results):
        for k, v in enumerate(values):
            with np.errstate(all="ignore"):
                assert outputs[f"s{k}"].tobytes() == np.array([v], np.float64).astype(np.float32).tobytes()
        for k, v in enumerate(doubles):
            assert outputs[f"d{k}"].tobytes() == np.array([v], np.float64).tobytes()
        for t in INTEGERS:
            assert int(outputs[f"low_{t}"][0]) == t.min
            assert int(outputs[f"high_{t}"][0]) == t.max


def test_precedence_and_grouping_survive_printing() -> None:
    """Values that differ if C regroups the expression."""
    a = np.array([1e8, 3.0, -7.0], np.float32)
    b = np.array([-1e8, 2.0, 5.0], np.float32)
    one = np.float32(0.25)
    c = FloatImm(0.25, FLOAT32)
    results: Results = {
        "right": (FLOAT32, lambda x, y: Add(c, Add(x, y))),
        "left": (FLOAT32, lambda x, y: Add(Add(c, x), y)),
        "minus": (FLOAT32, lambda x, y: Sub(c, Sub(x, y))),
        "over": (FLOAT32, lambda x, y: Div(x, Div(y, c))),
        "times": (FLOAT32, lambda x, y: Mul(Add(x, c), Sub(y, c))),
        "truth": (BOOL, lambda x, y: And(Or(LT(x, y), EQ(x, y)), NE(y, c))),
        "nested": (BOOL, lambda x, y: EQ(LT(x, y), LT(y, c))),
    }
    for outputs in run(FLOAT32, a, b, results):
        np.testing.assert_array_equal(outputs["right"], one + (a + b))
        np.testing.assert_array_equal(outputs["left"], (one + a) + b)
        np.testing.assert_array_equal(outputs["minus"], one - (a - b))
        np.testing.assert_array_equal(outputs["over"], a / (b / one))
        np.testing.assert_array_equal(outputs["times"], (a + one) * (b - one))
        np.testing.assert_array_equal(outputs["truth"], ((a < b) | (a == b)) & (b != one))
        np.testing.assert_array_equal(outputs["nested"], (a < b) == (b < one))
