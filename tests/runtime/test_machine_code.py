"""Machine code from object files without LLVM: the same functions, and no file brings the process down."""

from __future__ import annotations

import ctypes
import random
import struct
from typing import Any

import numpy as np
import pytest

import tc
from tc import _native
from tc.codegen import llvm_jit
from tc.runtime.symbols import address

SOFTMAX = """
def softmax(float(N,D) X) -> (m, Y, s) {
  m(n) max=! X(n,d)
  Y(n,d) = exp(X(n,d) - m(n))
  s(n) +=! Y(n,d)
  Y(n,d) = Y(n,d) / s(n)
}
"""
SOURCES = {
    "double": "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }",
    "softmax": SOFTMAX,
    "libm": "def f(double(N) x) -> (y) { y(i) = pow(x(i), 2.5) + sin(x(i)) + lgamma(x(i)) }",
    "product": "def mm(float(N,K) A, float(K,M) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
}
SIZES = {"N": 40, "D": 33, "K": 21, "M": 17}


def made(source: str, **options: Any) -> tuple[Any, bytes, str]:
    """A compiled kernel, its object file, and the function's name."""
    kernel = tc.compile(source, "cpu", options=options)
    known = {n: v for n, v in SIZES.items() if n in kernel.front.checked.sizes}
    compiled = kernel.specialize(**known)
    return kernel, *compiled.compiled.object_code


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("isa", ["sse4.2", None])
def test_the_code_computes_what_it_computes_loaded_by_llvm(name: str, isa: str | None) -> None:
    kernel, file, function = made(SOURCES[name], **({"isa": isa} if isa else {}))
    code = _native.MachineCode(file, address)
    rng = np.random.default_rng(0)
    arrays = [
        rng.random([SIZES[d] for d in p.dims]).astype(p.dtype.name.replace("double", "float64"))
        for p in kernel._signature.params
    ]
    want = kernel(*arrays)
    want = want if isinstance(want, tuple) else (want,)
    got = [np.zeros_like(w) for w in want]
    error, workspace = np.zeros(32, np.int64), np.zeros(1 << 16, np.uint8)
    data = [a.ctypes.data for a in (*arrays, *got, error, workspace)]
    data[-1] += -data[-1] % 64
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.address(function))
    assert run((ctypes.c_void_p * len(data))(*data)) == 0
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_what_a_file_does_not_define_is_no_function() -> None:
    _, file, function = made(SOURCES["double"])
    code = _native.MachineCode(file, address)
    with pytest.raises(KeyError):
        code.address("nothing")
    assert code.address(function) % 16 == 0


def test_a_function_that_is_not_here_is_refused() -> None:
    _, file, _ = made(SOURCES["libm"])
    asked: list[str] = []
    with pytest.raises(ValueError, match="not here"):
        _native.MachineCode(file, lambda name: asked.append(name) or 0)
    assert asked[0] in ("pow", "sin", "lgamma")


def test_an_error_while_resolving_is_raised() -> None:
    _, file, _ = made(SOURCES["libm"])

    def fails(name: str) -> int:
        raise OSError(name)

    with pytest.raises(OSError, match=r"pow|sin|lgamma"):
        _native.MachineCode(file, fails)


@pytest.mark.parametrize("name", ["double", "softmax"])
def test_a_file_that_is_cut_off_is_refused(name: str) -> None:
    _, file, function = made(SOURCES[name])
    for length in range(0, len(file), 7):
        with pytest.raises(ValueError):
            _native.MachineCode(file[:length], address)
    _native.MachineCode(file, address).address(function)


def test_altered_files_are_refused_or_loaded() -> None:
    """Nothing is run; that the process lives is the test."""
    _, file, function = made(SOFTMAX)
    rng = random.Random(1)
    refused = 0
    (sections,) = struct.unpack_from("<Q", file, 40)
    for _ in range(3000):
        altered = bytearray(file)
        where = rng.choice([range(64), range(sections, len(file)), range(len(file))])
        for _ in range(rng.randint(1, 4)):
            altered[rng.choice(where)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            _native.MachineCode(bytes(altered), address).address(function)
        except (ValueError, KeyError, MemoryError, UnicodeDecodeError):
            refused += 1
    assert refused > 500


def test_code_of_other_forms_is_left_to_llvm() -> None:
    text = "@x = global i32 1\ndefine i32 @f() {\n  %v = load i32, ptr @x\n  ret i32 %v\n}\n"
    with pytest.raises(ValueError, match="written"):
        _native.MachineCode(llvm_jit.object_of(text), address)
    small = "declare double @sin(double)\ndefine double @f(double %x) {\n  %v = call double @sin(double %x)\n"
    with pytest.raises(ValueError, match="relocation"):
        _native.MachineCode(llvm_jit.object_of(small + "  ret double %v\n}\n", shared=True), address)
    with pytest.raises(ValueError, match="ELF"):
        _native.MachineCode(b"\x7fELF\x01\x01" + bytes(100), address)
