"""LLVM IR text to machine code: addresses, lifetimes, and errors instead of a dead process."""

from __future__ import annotations

import ctypes
import gc

import pytest

from tc.codegen import llvm_jit
from tc.errors import InternalError

TWO = """
define i32 @one(ptr %x) {
  ret i32 1
}
define i32 @two(ptr %x) {
  %s = alloca i32
  store i32 2, ptr %s
  %v = load i32, ptr %s
  ret i32 %v
}
"""


def called(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)(None)


def test_several_functions_of_one_module() -> None:
    code = llvm_jit.compile_text(TWO, "one", "two")
    assert [called(code.addresses[n]) for n in ("one", "two")] == [1, 2]
    with pytest.raises(ValueError, match="unpack"):
        _ = code.address
    assert "two:" in code.assembly()


def test_engines_share_nothing() -> None:
    """A target machine belongs to the engine made with it: reusing one ends the process."""
    first = llvm_jit.compile_text(TWO, "one")
    for _ in range(3):
        llvm_jit.compile_text(TWO, "two")
        gc.collect()
    assert called(first.address) == 1


def test_text_that_llvm_refuses() -> None:
    with pytest.raises(InternalError, match="LLVM refuses the text") as caught:
        llvm_jit.compile_text("define i32 @f() { ret i32 %nothing }", "f")
    assert caught.value.code == "TC0903"


def test_a_symbol_that_nothing_defines() -> None:
    text = """
declare float @no_such_function_f(float)
define float @f(float %x) {
  %y = call float @no_such_function_f(float %x)
  ret float %y
}
"""
    with pytest.raises(InternalError, match="no definition of no_such_function_f"):
        llvm_jit.compile_text(text, "f")
    with pytest.raises(InternalError, match="does not define g"):
        llvm_jit.compile_text(TWO, "g")


def test_the_host_is_known() -> None:
    name, features = llvm_jit.host_cpu()
    assert name
    assert features
