"""Functions of float32 that CUDA's own are not near enough to the true value for."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tc
from tc.codegen.dialect import CUDA
from tc.lang.builtins import BUILTINS
from tests.simt.mapped import call
from tests.simt.shim import report

compile_text: Any = importlib.import_module("tc_backends.cuda.nvrtc").compile_text
DOUBLED = sorted(CUDA.doubled)
SOURCE = "def f(float(N) A, float(N) B) -> (O) {{ O(i) = {0}({1}) }}"


@pytest.mark.share(2)
@pytest.mark.parametrize("name", DOUBLED)
def test_they_are_computed_in_float64_and_rounded_once(name: str) -> None:
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


def test_others_are_not() -> None:
    text = tc.compile(SOURCE.format("exp", "A(i)"), "cuda").inspect("code", N=64)
    assert "expf(" in text
    assert "double" not in text
