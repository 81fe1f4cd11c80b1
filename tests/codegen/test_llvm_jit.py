"""LLVM IR text to objects and machine code: addresses, lifetimes, and errors instead of a dead process."""

from __future__ import annotations

import ctypes
import gc
import platform
from pathlib import Path
from typing import Any

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


# ---- objects

CALLS = """
@lookup = internal constant [4 x i32] [i32 5, i32 6, i32 7, i32 8]
declare float @expf(float)
declare float @llvm.exp2.f32(float)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define float @exponential(float %x) {
  %y = call float @expf(float %x)
  ret float %y
}
define float @power(float %x) {
  %y = call float @llvm.exp2.f32(float %x)
  ret float %y
}
define i32 @table(ptr %p) {
  call void @llvm.memset.p0.i64(ptr %p, i8 1, i64 5000, i1 false)
  %n = load i32, ptr %p
  %i = and i32 %n, 3
  %at = getelementptr [4 x i32], ptr @lookup, i32 0, i32 %i
  %v = load i32, ptr %at
  ret i32 %v
}
"""


def test_an_object_is_linked_to_what_it_calls() -> None:
    code = llvm_jit.load_object(llvm_jit.object_of(CALLS), "exponential", "power", "table")
    assert code.text == "" and not isinstance(code.object, str)

    def function(name: str) -> Any:
        return ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(code.addresses[name])

    assert function("exponential")(0.0) == 1.0 and function("power")(3.0) == 8.0
    buffer = ctypes.create_string_buffer(5000)
    table = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.addresses["table"])
    assert table(buffer) == 6 and buffer.raw == b"\1" * 5000


def test_every_function_of_the_run_time_can_be_linked() -> None:
    import tc._native as native

    names = sorted(native.symbols())
    assert "tc_parallel_for" in names
    calls = "".join(f"  call void @{n}()\n" for n in names)
    text = "".join(f"declare void @{n}()\n" for n in names) + f"define void @f() {{\n{calls}  ret void\n}}\n"
    code = llvm_jit.object_of(text)
    assert set(llvm_jit.undefined_symbols(code)) == set(names)
    assert llvm_jit.load_object(code, "f").address


def test_an_object_says_what_it_lacks() -> None:
    text = """
declare float @no_such_function_f(float)
declare float @no_such_function_g(float)
define float @f(float %x) {
  %y = call float @no_such_function_f(float %x)
  %z = call float @no_such_function_g(float %y)
  ret float %z
}
"""
    code = llvm_jit.object_of(text)  # which is no error yet
    with pytest.raises(InternalError, match="no definition of no_such_function_f, no_such_function_g"):
        llvm_jit.load_object(code, "f")
    with pytest.raises(InternalError, match="does not define g"):
        llvm_jit.load_object(llvm_jit.object_of(TWO), "one", "g")


def test_calls_of_the_code_generator_are_seen_too() -> None:
    """fmod is no instruction: the declarations of the module do not have it, the object does."""
    text = "define double @f(double %x, double %y) {\n  %z = frem double %x, %y\n  ret double %z\n}\n"
    code = llvm_jit.object_of(text)
    assert list(llvm_jit.undefined_symbols(code)) == ["fmod"]
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
    loaded = llvm_jit.load_object(code, "f")
    assert function(loaded.address)(7.5, 2.0) == 1.5


@pytest.mark.parametrize("code", [b"", b"text", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 100])
def test_bytes_that_are_no_object_are_refused(code: bytes) -> None:
    with pytest.raises(InternalError, match="not an object file") as caught:
        llvm_jit.load_object(code, "f")
    assert caught.value.code == "TC0903"


def test_compiled_code_keeps_its_object() -> None:
    made = llvm_jit.compile_text(TWO, "one", "two")
    loaded = llvm_jit.load_object(made.object, "one", "two")
    assert [called(loaded.addresses[n]) for n in ("one", "two")] == [1, 2]
    with pytest.raises(InternalError, match="no text"):
        loaded.assembly()
    assert "one:" in llvm_jit.load_object(made.object, "one", text=TWO).assembly()


def test_objects_outlive_each_other() -> None:
    code = llvm_jit.object_of(TWO)
    first = llvm_jit.load_object(code, "one")
    for _ in range(20):
        assert called(llvm_jit.load_object(code, "two").address) == 2
    gc.collect()
    assert called(first.address) == 1


SUM = """
define void @f(ptr %p, ptr %q) {
  %a = load <8 x float>, ptr %p, align 4
  %b = load <8 x float>, ptr %q, align 4
  %c = fadd <8 x float> %a, %b
  store <8 x float> %c, ptr %p, align 4
  ret void
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of processors")
def test_code_for_another_processor_than_this_one() -> None:
    registers = {}
    for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        text = llvm_jit.load_object(llvm_jit.object_of(SUM, cpu=cpu), "f", text=SUM, cpu=cpu).assembly()
        registers[cpu] = ("xmm" in text, "ymm" in text)
    assert registers == {"x86-64-v2": (True, False), "x86-64-v3": (False, True), "x86-64-v4": (False, True)}
    text = llvm_jit.compile_text(SUM, "f", cpu="x86-64-v3", features="-avx,-avx2").assembly()
    assert "ymm" not in text
    made = llvm_jit.compile_text(SUM, "f", cpu="x86-64-v2")  # every machine that runs this has SSE4.2
    a, b = (ctypes.c_float * 8)(*range(8)), (ctypes.c_float * 8)(*[1] * 8)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(made.address)(a, b)
    assert list(a) == list(range(1, 9))


def test_functions_that_ask_for_it_are_inlined() -> None:
    text = """
define internal i32 @helper(i32 %x) alwaysinline {
  %y = add i32 %x, 1
  ret i32 %y
}
define i32 @f(i32 %x) {
  %y = call i32 @helper(i32 %x)
  ret i32 %y
}
"""
    assert "helper" not in llvm_jit.compile_text(text, "f").assembly()


# ---- objects on disk


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The texts that were compiled, with an empty directory for their objects."""
    monkeypatch.delenv("TC_VERIFY")
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path))
    real, seen = llvm_jit.object_of, list[str]()

    def counted(text: str, **how: Any) -> bytes:
        seen.append(text)
        return real(text, **how)

    monkeypatch.setattr(llvm_jit, "object_of", counted)
    return seen


def test_a_text_is_compiled_once(compiles: list[str]) -> None:
    for names in (["one"], ["two"], ["one", "two"]):
        code = llvm_jit.cached_code(TWO, names)
        assert [called(a) for a in code.addresses.values()] == [{"one": 1, "two": 2}[n] for n in names]
        assert "two:" in code.assembly()
    assert compiles == [TWO]


@pytest.mark.parametrize(
    "how", [{"level": 2}, {"cpu": "x86-64-v2"}, {"features": "-avx512f"}, {"key_parts": ["more"]}], ids=str
)
def test_the_key_of_a_text(compiles: list[str], how: dict[str, Any]) -> None:
    for _ in range(2):
        llvm_jit.cached_code(TWO, ["one"])
        llvm_jit.cached_code(TWO, ["one"], **how)
    assert len(compiles) == 2


@pytest.mark.parametrize("name, value", [("TC_VERIFY", "1"), ("TC_CACHE", "0")])
def test_texts_are_compiled_each_time_where_the_settings_say_so(
    compiles: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    for _ in range(2):
        assert called(llvm_jit.cached_code(TWO, ["one"]).address) == 1
    assert len(compiles) == 2 and not list(tmp_path.iterdir())


def test_an_object_that_does_not_link_is_compiled_again(compiles: list[str]) -> None:
    text = CALLS.replace("expf", "no_such_function_f")
    for _ in range(2):
        with pytest.raises(InternalError, match="no definition of no_such_function_f"):
            llvm_jit.cached_code(text, ["exponential"])
    assert len(compiles) == 2
