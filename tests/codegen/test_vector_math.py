"""Vector math in machine code for three processors: accuracy, special values, independence of lanes.

The bounds are those of docs/numerics.md; `benchmarks/vector_math.py` measures the errors more thoroughly.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks import vector_math as bench
from benchmarks.vector_math import MACHINES, Library, Machine
from tc.codegen import llvm_jit, vector_math
from tc.codegen.vector_math.builder import Lines
from tc.dtypes import FLOAT32, FLOAT64, INT32, DType
from tests.share import examples

LANES = {FLOAT32: (1, 2, 4, 8, 16), FLOAT64: (1, 2, 4, 8)}
TYPES = [FLOAT32, FLOAT64]
INF, NAN = float("inf"), float("nan")
WIDER = {(FLOAT64, "normcdf"): 6.0}  # else 2 ulp in float32, 4 in float64


@pytest.fixture(scope="module", params=MACHINES, ids=lambda m: m.name)
def machine(request: pytest.FixtureRequest) -> Machine:
    if request.param not in bench.available():
        pytest.skip("this processor does not have it")
    return request.param


@functools.cache
def library(machine: Machine, dtype: DType) -> Library:
    """All functions in one module, which therefore define no name twice."""
    out = Library(machine)
    for lanes in LANES[dtype]:
        for name in bench.names(dtype):
            out.add(name, dtype, lanes)
    out.compile()
    return out


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_accuracy_and_lanes(dtype: DType) -> None:
    """Every function over its whole range (float32: every 4099th bit pattern or a share of them, all
    exponents swept), subnormal numbers in and out included, and on all pairs of special values; then the same
    bits from all numbers of lanes."""
    wrong: list[str] = []
    references = bench.references(dtype)
    for name in bench.names(dtype):
        quick = dtype == FLOAT32 and vector_math.arity(name) == 1 and name != "exp10"
        args = bench.operands(name, dtype, examples(2**32 // 4099, 20) if quick else examples(60_000, 12))
        if dtype == FLOAT64 and name in ("erf", "erfc", "normcdf"):  # slow references
            args = tuple(a[::7] for a in args)
        true = bench.truth(references[name], dtype, args)
        few = tuple(a[::5] for a in args)
        bound = WIDER.get((dtype, name), 2.0 if dtype == FLOAT32 else 4.0)
        for machine in bench.available():
            code = library(machine, dtype)
            first, *others = LANES[dtype][::-1]
            got = code.run(f"{name}.{dtype}.{first}", *args)
            errors = bench.ulps(got, true)
            worst = int(errors.argmax())
            if not errors[worst] <= bound:
                point = [float(a[worst]) for a in args]
                values = f"{got[worst]!r}, not {true[worst]!r}"
                wrong.append(f"{machine.name} {name}{point} = {values}: {errors[worst]} ulp")
            wrong.extend(
                f"{machine.name} {name} of {lanes} lanes differs from {first}"
                for lanes in others
                if not bench.same_bits(code.run(f"{name}.{dtype}.{lanes}", *few), got[::5])
            )
    assert not wrong


# C99, annex F: function, argument, result.
VALUES = [
    *[(f, 0.0, 1.0) for f in ("exp", "exp2", "exp10", "cosh", "cos", "erfc")],
    *[(f, -0.0, 1.0) for f in ("exp", "exp2", "exp10", "cosh", "cos", "erfc")],
    *[(f, z, z) for f in ("expm1", "log1p", "sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh")
      for z in (0.0, -0.0)],
    *[(f, z, z) for f in ("cbrt", "erf") for z in (0.0, -0.0)],
    *[(f, INF, INF) for f in ("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sinh")],
    *[(f, INF, INF) for f in ("cosh", "asinh", "acosh", "cbrt")],
    *[(f, -INF, 0.0) for f in ("exp", "exp2", "exp10", "sigmoid", "normcdf")],
    *[(f, -INF, -1.0) for f in ("expm1", "tanh", "erf")],
    *[(f, INF, 1.0) for f in ("sigmoid", "tanh", "erf", "normcdf")],
    *[(f, z, -INF) for f in ("log", "log2", "log10") for z in (0.0, -0.0)],
    *[(f, 1.0, 0.0) for f in ("log", "log2", "log10", "acos", "acosh")],
    *[(f, x, NAN) for f in ("log", "log2", "log10", "rsqrt") for x in (-1.0, -INF, -1e-40)],
    *[(f, x, NAN) for f in ("sin", "cos", "tan", "asin", "acos", "atanh") for x in (INF, -INF)],
    *[(f, x, NAN) for f in ("asin", "acos", "atanh") for x in (1.5, -1.5)],
    ("log1p", -1.0, -INF), ("log1p", -2.0, NAN), ("log1p", -INF, NAN), ("atanh", 1.0, INF),
    ("atanh", -1.0, -INF), ("acosh", 0.5, NAN), ("acosh", -INF, NAN), ("asinh", -INF, -INF),
    ("sinh", -INF, -INF), ("cosh", -INF, INF), ("cbrt", -INF, -INF), ("cbrt", -27.0, -3.0),
    ("rcbrt", 0.0, INF), ("rcbrt", -0.0, -INF), ("rsqrt", 0.0, INF), ("rsqrt", -0.0, -INF),
    ("rsqrt", INF, 0.0), ("erfc", INF, 0.0), ("erfc", -INF, 2.0),
    ("exp2", 10.0, 1024.0), ("exp10", 3.0, 1000.0), ("log2", 1024.0, 10.0), ("log10", 1000.0, 3.0),
    ("sigmoid", 0.0, 0.5), ("normcdf", 0.0, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_special_values(machine: Machine, dtype: DType) -> None:
    code = library(machine, dtype)
    t = np.float32 if dtype == FLOAT32 else np.float64
    wrong: list[str] = []
    for name, x, y in VALUES:
        for lanes in LANES[dtype]:
            got = code.run(f"{name}.{dtype}.{lanes}", np.full(3, x, t))[1]
            exact = name in ("exp10", "log10") and abs(x) in (3.0, 1000.0)
            if exact and abs(float(got) - y) <= abs(y) * 2.0**-22:
                continue  # exact powers of ten are not promised
            if not bench.same_bits(np.array([got]), np.array([y], t)):
                wrong.append(f"{name}({x}) = {got}, not {y}, of {lanes} lanes")
    for name in bench.names(dtype):
        nan = np.full(2, NAN, t)
        args = [nan] * vector_math.arity(name)
        if not np.isnan(code.run(f"{name}.{dtype}.4", *args)).all():
            wrong.append(f"{name} of NaN")
    assert not wrong


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_ends_of_the_range(machine: Machine, dtype: DType) -> None:
    """Around the arguments where results overflow, underflow or saturate they rise, but for a unit or two in
    the last place, and end at the limit."""
    code = library(machine, dtype)
    t = np.float32 if dtype == FLOAT32 else np.float64
    info = np.finfo(t)
    least, most = (
        float(np.log(np.longdouble(info.smallest_subnormal))),
        float(np.log(np.longdouble(info.max))),
    )
    ends = {
        "exp": (least, most), "exp2": (least / np.log(2), most / np.log(2)),
        "exp10": (least / np.log(10), most / np.log(10)), "expm1": (most,), "sinh": (most + np.log(2),),
        "sigmoid": (least, -least), "tanh": (10.0, 20.0), "erf": (4.0, 6.0),
    }  # fmt: skip
    for name, points in ends.items():
        for point in points:
            x = t(point) * (1 + np.arange(-40_000, 40_000) * np.longdouble(info.eps)).astype(t)
            x.sort()
            y = code.run(f"{name}.{dtype}.8", x)
            assert not np.isnan(y).any()
            with np.errstate(invalid="ignore"):
                fall = y[:-1] > np.nextafter(np.nextafter(y[1:], t(INF)), t(INF))
            assert not fall.any(), (name, point)
            wide = code.run(f"{name}.{dtype}.8", np.array([point * 0.98, point * 1.02], t))
            if name not in ("tanh", "erf", "sigmoid"):
                limit = INF if point > 0 else 0.0
                assert (wide == limit).tolist() == [point < 0 and False, True], (name, point, wide)


def test_subnormal_results_are_rounded_once(machine: Machine) -> None:
    """Gradual underflow of exp: nothing is flushed, and rounding happens at the end only."""
    code = library(machine, FLOAT32)
    x = np.linspace(-103.5, -87.5, 20_001).astype(np.float32)
    for name, exact in (("exp", np.exp), ("sigmoid", bench.references(FLOAT32)["sigmoid"])):
        y = code.run(f"{name}.float32.16", x)
        assert (y > 0).all()
        assert np.abs(y.astype(np.float64) - exact(x.astype(np.float64))).max() < 2.0**-149


@pytest.mark.share(18)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("native", [False, True], ids=["integers", "F16C"])
def test_conversions_of_16_bit_types(lanes: int, native: bool) -> None:
    machines = [m for m in bench.available() if m.fma or not native]
    if not machines:
        pytest.skip("no F16C")
    code = Library(machines[-1])
    kinds = {"half_to_float": ("i16", "float"), "float_to_half": ("float", "i16"),
             "bfloat_to_float": ("i16", "float"), "float_to_bfloat": ("float", "i16")}  # fmt: skip
    for name, elements in kinds.items():
        code.insert(vector_math.conversion(name, lanes, native=native), name, lanes, elements)
    code.compile()
    every = np.arange(1 << 16, dtype=np.uint16)
    patterns = np.arange(0, 1 << 32, 4099, np.int64).astype(np.uint32)
    ties = np.arange(0, 1 << 32, 1 << 12, np.int64).astype(np.uint32)
    x = np.concatenate([patterns, ties, ties + 1, ties - 1]).view(np.float32)
    nan = np.isnan(x)
    for narrow, kind in ((np.float16, "half"), (ml_dtypes.bfloat16, "bfloat")):
        wide = code.run(f"{kind}_to_float", every, result=np.float32)
        assert bench.same_bits(wide, every.view(narrow).astype(np.float32))
        with np.errstate(all="ignore"):
            true = x.astype(narrow).view(np.uint16)
        got = code.run(f"float_to_{kind}", x, result=np.uint16)
        assert (got == true)[~nan].all()
        quiet = 0x7E00 if kind == "half" else 0x7FC0
        assert ((got & quiet) == quiet)[nan].all()
        assert (got >> 15 == x.view(np.uint32) >> 31).all()
    signalling = np.array([0x7C01, 0xFD00], np.uint16)
    assert (code.run("half_to_float", signalling, result=np.uint32) & 0x7FC00000 == 0x7FC00000).all()


def test_functions_without_a_vector_form() -> None:
    assert vector_math.vector_function("lgamma", FLOAT32, 8, fma=True) is None
    assert vector_math.vector_function("exp", INT32, 8, fma=True) is None
    assert vector_math.paste("lgamma", FLOAT32, 8, ["%x"], Lines(), fma=True) is None


def test_a_scalar_is_no_vector() -> None:
    """One lane means plain scalars, whose text holds no vector type."""
    for name in bench.names(FLOAT32):
        f = vector_math.vector_function(name, FLOAT32, 1, fma=True)
        assert f is not None
        assert "<" not in f.text


@pytest.mark.parametrize("name", ["exp", "sin", "pow"])
def test_pasted_instructions(name: str) -> None:
    """The caller's blocks hold what the function would, sin's rare path included."""
    names = ["%x", "%y"][: vector_math.arity(name)]
    sink = Lines()
    pasted = vector_math.paste(name, FLOAT32, 4, names, sink, fma=False)
    assert pasted is not None
    parameters = ", ".join(f"<4 x float> {n}" for n in names)
    text = "\n".join([
        f"define <4 x float> @f({parameters}) {{", *sink.lines, f"  ret <4 x float> {pasted.operand}", "}",
        *pasted.functions.values(), *sorted(pasted.declarations),
    ])  # fmt: skip
    function = vector_math.vector_function(name, FLOAT32, 4, fma=False)
    assert function is not None
    assert sorted(pasted.declarations) == sorted(function.declarations)
    assert all(line in function.text for line in sink.lines[1:20] if "%x" not in line and "%y" not in line)
    assert llvm_jit.compile_text(text, "f", verify=True).address


def test_no_fused_operation_where_there_is_none() -> None:
    """`llvm.fma` would be a call of libm for each lane."""
    for dtype in TYPES:
        for name in bench.names(dtype):
            f: Any = vector_math.vector_function(name, dtype, 4, fma=False)
            assert not [d for d in f.declarations if "llvm.fma" in d]
            assert not [d for d in f.declarations if "x86" in d]
