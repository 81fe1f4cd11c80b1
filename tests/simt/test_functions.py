"""Functions of float32 that replace those of CUDA, which are less accurate or keep arrays in local memory."""

from __future__ import annotations

import importlib
import math
from typing import Any

import mpmath
import numpy as np
import pytest

import tc
from tc.codegen.dialect import CUDA
from tc.dtypes import BFLOAT16, FLOAT16, DType
from tc.lang.builtins import BUILTINS
from tc.runtime.arrays import numpy_dtype
from tests.simt.mapped import Array, call
from tests.simt.shim import report

compile_text: Any = importlib.import_module("tc_backends.cuda.nvrtc").compile_text
DOUBLED = sorted(CUDA.doubled)
SOURCE = "def f(float(N) A, float(N) B) -> (O) {{ O(i) = {0}({1}) }}"


@pytest.mark.share(12)
@pytest.mark.parametrize("name", DOUBLED)
def test_doubled_functions_are_rounded_once_from_float64(name: str) -> None:
    arity = BUILTINS[name].arity
    low, high = (1, 3) if name == "acosh" else (-0.99, 0.99)
    a = np.linspace(low, high, 101, dtype=np.float32)
    b = np.linspace(2, 5, 101, dtype=np.float32)
    arguments = ("A(i)", "B(i)", "A(i)", "B(i)")[:arity]
    kernel = tc.compile(SOURCE.format(name, ", ".join(arguments)), "cuda", options={"isa": "sm_80"})
    held, found = call(kernel, {"A": a, "B": b}, {})
    assert not found, report(found)
    x = [v.astype(np.float64) for v in (a, b, a, b)[:arity]]
    if name.startswith("norm"):
        wanted = np.sqrt(sum(v * v for v in x))
    else:
        numpy_name = f"arc{name[1:]}" if name.startswith("a") else name
        wanted = getattr(np, numpy_name)(*x)
    np.testing.assert_array_equal(held["O"], wanted.astype(np.float32))
    machine = compile_text(kernel.inspect("code", N=101), "sm_80", contract=True)
    assert not machine.in_memory, str(machine)


def test_other_functions_use_float32() -> None:
    text = tc.compile(SOURCE.format("exp", "A(i)"), "cuda").inspect("code", N=64)
    assert "expf(" in text
    assert "double" not in text


def nearest_to_quadrants() -> set[float]:
    """Numbers of 24 bits, times powers of two, near multiples of pi/2: denominators of the convergents of
    2^e 2/pi (continued fractions)."""
    found: set[float] = set()
    with mpmath.workprec(300):
        for e in range(-23, 105):
            rest = mpmath.ldexp(2 / mpmath.pi, e)
            before, q = 1, 0
            while q < 1 << 24:
                if q:
                    found.add(math.ldexp(q, e))
                whole = int(rest)
                before, q = q, whole * q + before
                rest = 1 / (rest - whole)
    return found


def exact(name: str, x: Array) -> Array:
    """The value in float64, rounded from 200 bits."""
    with mpmath.workprec(200):
        return np.array([float(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x])


BOUNDS = {"sin": 1.5, "cos": 1.5, "tan": 0.501}  # in units in the last place


@pytest.fixture(scope="module", params=BOUNDS)
def functions(request: pytest.FixtureRequest) -> tuple[str, tc.Kernel]:
    return request.param, tc.compile(SOURCE.format(request.param, "A(i)"), "cuda", options={"isa": "sm_80"})


def run(kernel: tc.Kernel, x: Array) -> Array:
    held, found = call(kernel, {"A": x, "B": x}, orders=("ascending",))
    assert not found, report(found)
    return held["O"]


def test_trigonometric_functions_are_accurate_for_all_arguments(functions: tuple[str, tc.Kernel]) -> None:
    """Every exponent, both signs, and neighbours of multiples of pi/2, where all digits cancel."""
    name, kernel = functions
    hardest = nearest_to_quadrants()
    assert 16367173 * 2.0**72 in hardest
    near = np.array(sorted(hardest), np.float32)
    rng = np.random.default_rng(0)
    random = (np.arange(255 * 16) // 16 << 23) + rng.integers(0, 1 << 23, 255 * 16)
    x = np.concatenate([near, np.nextafter(near, np.float32(0)), random.astype(np.uint32).view(np.float32)])
    x = np.concatenate([x, -x])
    wanted = exact(name, x)
    assert np.abs(wanted[np.abs(x) > 1]).min() < 1e-8
    off = np.abs(run(kernel, x) - wanted) / np.spacing(np.abs(wanted.astype(np.float32)))
    assert off.max() < BOUNDS[name], (x[off.argmax()], off.max())


def test_trigonometric_functions_keep_zeros_and_subnormals(functions: tuple[str, tc.Kernel]) -> None:
    """Zeros keep their signs, subnormal numbers are exact, infinities give NaN."""
    name, kernel = functions
    tiny = np.array([0, 1, 2, 0x7FFFFF, 0x800000, 0x38800000], np.uint32).view(np.float32)
    same = np.concatenate([tiny, -tiny])
    out = run(kernel, np.concatenate([same, np.array([np.inf, -np.inf, np.nan], np.float32)]))
    wanted = np.ones_like(same) if name == "cos" else same
    np.testing.assert_array_equal(out[:-3].view(np.uint32), wanted.view(np.uint32))
    assert np.isnan(out[-3:]).all()


@pytest.mark.share(18)
@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("t", [FLOAT16, BFLOAT16], ids=str)
def test_functions_of_halves_are_those_of_float32(name: str, t: DType) -> None:
    source = f"def f({t}(N) A) -> (O) {{ O(i) = {name}(A(i)) }}"
    x = np.random.default_rng(0).integers(0, 1 << 16, 1000).astype(np.uint16).view(numpy_dtype(t))
    x = x[np.isfinite(x.astype(np.float32))]
    held, found = call(tc.compile(source, "cuda", options={"isa": "sm_80"}), {"A": x}, orders=("ascending",))
    assert not found, report(found)
    wanted = exact(name, x).astype(np.float32).astype(x.dtype)
    np.testing.assert_array_equal(held["O"].view(np.uint16), wanted.view(np.uint16))


@pytest.mark.share(18)
@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("n", [101, 1 << 20])
def test_trigonometric_functions_have_no_stack(name: str, arch: str, n: int) -> None:
    """Even if a thread has several points; CUDA's own functions have an array on the stack."""
    kernel = tc.compile(SOURCE.format(name, "A(i)"), "cuda", options={"isa": arch})
    machine = compile_text(kernel.inspect("code", N=n), arch, contract=True)
    assert all(k.stack == 0 for k in machine.resources.values()), str(machine.resources)


def test_helpers_are_emitted_once() -> None:
    """And only in modules that call them."""
    text = tc.compile(SOURCE.format("sin", "cos(A(i)) + sin(B(i))"), "cuda").inspect("code", N=64)
    assert [text.count(f" {name}(") for name in ("tc_reduced_f32", "tc_tan_f32")] == [1, 0]


@pytest.mark.share(36)
@pytest.mark.parametrize("name", ["digamma", "trigamma"])
@pytest.mark.parametrize("t", ["float", "double"])
def test_functions_that_cuda_lacks(name: str, t: str) -> None:
    source = f"def f({t}(N) A) -> (O) {{ O(i) = {name}(A(i)) }}"
    x = np.array([0.3, 1.4616, 1.2, 5.5, 70.0, -0.4, -3.3, 0.0, -2.0, np.inf, -np.inf, np.nan])
    x = x if t == "double" else x.astype(np.float32)
    kernel = tc.compile(source, "cuda", options={"isa": "sm_80"})
    held, found = call(kernel, {"A": x}, orders=("ascending",))
    assert not found, report(found)
    np.testing.assert_allclose(held["O"], tc.interpret(source, x), rtol=1e-14 if t == "double" else 1e-6)
    compile_text(kernel.inspect("code", N=len(x)), "sm_80", contract=True)
