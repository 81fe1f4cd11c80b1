"""Kernels as calls of XLA, without Python on the way."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import _native
from tc.dtypes import ALL, COMPLEX64

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")
np_dtype: Any = importlib.import_module("tc.runtime.arrays").numpy_dtype
NATIVE = Path(__file__).parents[2] / "tc/native"
LOOKUP = "def f(float(N,D) table, int(L) at) -> (y) { y(l,d) = table(at(l),d) }"
SOFTMAX = """def softmax(float(N,D) x) -> (y) {
  m(n) max=! x(n,d)
  e(n,d) = exp(x(n,d) - m(n))
  s(n) +=! e(n,d)
  y(n,d) = e(n,d) / s(n)
}"""
ERROR: Any = jax.errors.JaxRuntimeError


def compiled_text(f: Any, *args: Any) -> str:
    return jax.jit(f).lower(*args).compile().as_text()


def test_no_python_is_called() -> None:
    op = tc.jax.op(SOFTMAX)
    x = jnp.ones((3, 5))
    for f, at in ((op, x), (jax.vmap(op), x[None]), (jax.grad(lambda x: op(x).sum()), x)):
        text = compiled_text(f, at)
        assert 'custom_call_target="tc_kernel"' in text and "callback" not in text
    assert compiled_text(lambda x: op(op(x)), x).count('custom_call_target="tc_kernel"') == 2


def test_in_a_loop_and_in_a_batch_of_loops() -> None:
    op = tc.jax.op("def f(float(N) x, float(N,N) w) -> (y) { y(i) +=! tanh(x(j)) * w(i,j) }")
    rng = np.random.default_rng(1)
    x, w = (jnp.asarray(rng.normal(size=s).astype(np.float32)) for s in ((4, 6), (6, 6)))

    def loop(x: Any, f: Any) -> Any:
        return jax.lax.scan(lambda c, _: (f(c, w), c.sum()), x, None, length=5)

    def plain(x: Any, w: Any) -> Any:
        return w @ jnp.tanh(x)

    for transform in (lambda g: g, jax.vmap, lambda g: jax.grad(lambda x: g(x)[0].sum() + g(x)[1].sum())):
        at = x if transform is jax.vmap else x[0]
        ours, theirs = (jax.jit(transform(lambda x, f=f: loop(x, f)))(at) for f in (op, plain))
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("t", [*ALL, COMPLEX64], ids=str)
def test_every_element_type(t: Any) -> None:
    op = tc.jax.op(f"def f({t}(N) x) -> (y) {{ y(i) = x(i) }}")
    want = np.asarray([0, 1, 1, 0, 1]).astype(np_dtype(t))
    with jax.enable_x64(True):
        found = op(jnp.asarray(want))
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(found), want)


def test_scalars_of_every_kind() -> None:
    op = tc.jax.op(
        "def f(float(N) x, double a, int8 b, bool c, half d, int s) -> (y) {"
        " y(i) = c ? x(i*s) * float(a) + float(b) : float(d) * x(i*s) where i in 0:2 }"
    )
    x = jnp.arange(6.0)
    np.testing.assert_array_equal(op(x, 0.5, -3, True, 2.0, 2), [-3, -2])
    np.testing.assert_array_equal(op(x, 0.5, -3, False, 0.25, 3), [0, 0.75])
    np.testing.assert_array_equal(op(x, 4, 1, True, 0.25, 3), [1, 13])


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_integers_that_only_subscript_are_of_any_type() -> None:
    op = tc.jax.op(LOOKUP, checks="none")
    table = jnp.arange(8.0).reshape(4, 2)
    for dtype in (jnp.int8, jnp.uint16, jnp.int32):
        np.testing.assert_array_equal(op(table, jnp.asarray([3, 0], dtype)), [[6, 7], [0, 1]])


@pytest.mark.parametrize("more", [{}, {"dynamic": ("N",)}, {"backend": "reference"}, {"backend": "halide"}])
def test_temporaries_and_dynamic_sizes(more: dict[str, Any]) -> None:
    op = tc.jax.op(SOFTMAX, **more)
    for n in (2, 7):
        x = jnp.asarray(np.random.default_rng(n).normal(size=(n, 300)).astype(np.float32))
        np.testing.assert_allclose(jax.jit(op)(x), jax.nn.softmax(x), rtol=1e-5, atol=1e-7)
    if more.get("backend") != "halide":  # it cannot divide by an empty sum
        assert op(jnp.zeros((0, 300))).shape == (0, 300)


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
@pytest.mark.parametrize("how", ["eager", "jit", "vmap"])
def test_a_subscript_out_of_range_is_an_error_of_jax(how: str) -> None:
    op = tc.jax.op(LOOKUP)
    table, good, bad = jnp.ones((5, 2)), jnp.asarray([1, 4]), jnp.asarray([1, 5])
    f = {"eager": op, "jit": jax.jit(op), "vmap": jax.jit(jax.vmap(op, (None, 0)))}[how]
    if how == "vmap":
        good, bad = good[None], bad[None]
    with pytest.raises(ERROR, match=r"error\[TC0701\]: index 5 is out of range for dimension 0 of 'table'"):
        jax.block_until_ready(f(table, bad))
    assert (f(table, good) == 1).all(), "the next call is right"


def test_what_sizes_must_satisfy_is_said_when_it_is_traced() -> None:
    op = tc.jax.op("def f(float(N) x, float(M) w) -> (y) { y(i) = x(i+2) * w(0) where i in 0:4 }")
    assert op(jnp.ones(6), jnp.ones(1)).shape == (4,)
    for f in (op, jax.jit(op)):
        with pytest.raises(tc.PreconditionError, match="N"):
            f(jnp.ones(5), jnp.ones(1))


def test_several_threads_call_at_once() -> None:
    op = tc.jax.op(SOFTMAX)
    f = jax.jit(lambda x: op(op(x) * 3))
    given = [jnp.asarray(np.random.default_rng(k).normal(size=(33, 65)).astype(np.float32)) for k in range(4)]
    wanted = [np.asarray(jax.nn.softmax(jax.nn.softmax(x) * 3)) for x in given]
    wrong: list[int] = []

    def work(k: int) -> None:
        found = (f(given[k]) for _ in range(20))
        wrong.extend(k for y in found if not np.allclose(y, wanted[k], rtol=1e-4, atol=1e-6))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_kernel_that_is_not_in_this_process() -> None:
    tc.jax.op(SOFTMAX)(jnp.ones((1, 2)))  # registers the handler
    result = jax.ShapeDtypeStruct((2,), np.float32)
    for attributes, text in (
        ({"kernel": "0" * 32, "name": "lost"}, "the kernel of 'lost' is not in this process"),
        ({"name": "lost"}, "a call of tc names no kernel"),
        ({"kernel": np.int32(3)}, "a call of tc names no kernel"),
    ):
        with pytest.raises(ERROR, match=text):
            jax.block_until_ready(jax.ffi.ffi_call("tc_kernel", result)(jnp.ones(2), **attributes))


def test_arrays_of_other_shapes_are_refused() -> None:
    kernel = tc.compile("def f(float(N) x) -> (y) { y(i) = x(i) }", "reference")
    _, _, entry = kernel.ready({"N": 3}, {}, {})
    assert entry is not None
    _native.keep_for_xla("three", entry, [], str, "f")

    def run(x: Any, *shape: int) -> Any:
        call = jax.ffi.ffi_call("tc_kernel", jax.ShapeDtypeStruct(shape, np.float32))
        return jax.block_until_ready(call(x, kernel="three"))

    np.testing.assert_array_equal(run(jnp.arange(3.0), 3), [0, 1, 2])
    with pytest.raises(ERROR, match="f: an array has another shape than the kernel is for"):
        run(jnp.arange(4.0), 3)
    with pytest.raises(ERROR, match="f: a result has another shape than the kernel's"):
        run(jnp.arange(3.0), 2)
    with pytest.raises(ValueError, match="the packed value of each scalar"):
        _native.keep_for_xla("four", entry, [b"1234"], str, "f")
    with pytest.raises(TypeError, match="an Entry"):
        _native.keep_for_xla("four", kernel, [], str, "f")  # type: ignore[arg-type]


def test_other_ways_to_call_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = importlib.import_module("tc.interop.jax")
    x = jnp.arange(3.0)
    for n, (backend, platform, missing, why) in enumerate(
        (
            (None, "tpu", "", "XLA runs on tpu here"),
            (None, "cpu", "jax 0 has no jax.ffi", "jax 0 has no jax.ffi"),
            ("opencl", "cpu", "", "the backend 'opencl' runs kernels itself"),
        )
    ):
        op = tc.jax.op(f"def f(float(N) x) -> (y) {{ y(i) = x(i) + {n} }}", backend=backend)
        module._announce.cache_clear()
        with monkeypatch.context() as m:
            m.setattr(jax, "default_backend", lambda platform=platform: platform)
            m.setattr(module.xla, "unavailable", lambda missing=missing: missing)
            with pytest.warns(tc.PerformanceNotice, match=f"0.1 ms a call: {why}"):
                np.testing.assert_array_equal(op(x), [n, n + 1, n + 2])


def test_a_version_of_jax_that_refuses_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    xla: Any = importlib.import_module("tc.interop.xla")
    assert xla.unavailable() == ""
    monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda *a, **k: 1 / 0)
    monkeypatch.setattr(xla.unavailable, "cache_clear", xla.unavailable.cache_clear)
    assert "refuses the handler: division by zero" in xla.unavailable.__wrapped__()
    monkeypatch.delattr(jax, "ffi")
    assert "has no jax.ffi" in xla.unavailable.__wrapped__()


_KEY = """
import jax, jax.numpy as jnp, tc
def key():
    op = tc.jax.op("def f(float(N) x, float s) -> (y) { y(i) = s * x(i) }", backend="cpu")
    text = jax.jit(lambda x: op(x, 2.5)).lower(jnp.ones(4)).as_text()
    return text[text.index("kernel = "):][:43]
"""


def test_the_name_of_a_kernel_is_the_same_in_every_process() -> None:
    """So that what XLA keeps on disk is found again."""
    here: dict[str, Any] = {}
    exec(_KEY, here)
    there = subprocess.run(
        [sys.executable, "-c", f"{_KEY}print(key())"],
        env={**os.environ, "PYTHONHASHSEED": "7", "TC_VERIFY": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert there == here["key"]() + "\n" and there.startswith('kernel = "')


_LAYOUT = """
#include <cstddef>
#include "xla/ffi/api/c_api.h"
#include "xla_abi.h"
using namespace tc::xla;
#define SAME(ours, field, theirs, name)                                                    \\
  static_assert(offsetof(ours, field) == offsetof(theirs, name), #theirs "." #name);       \\
  static_assert(sizeof(ours::field) == sizeof(static_cast<theirs *>(nullptr)->name), #theirs "." #name)
"""
_FIELDS = {
    "Extension": ("XLA_FFI_Extension_Base", "struct_size type next"),
    "ApiVersion": ("XLA_FFI_Api_Version", "struct_size extension_start major_version minor_version"),
    "ErrorCreateArgs": ("XLA_FFI_Error_Create_Args", "struct_size extension_start message code=errc"),
    "Api": (
        "XLA_FFI_Api",
        "struct_size extension_start api_version internal_api error_create=XLA_FFI_Error_Create "
        "error_destroy=XLA_FFI_Error_Destroy stream_get=XLA_FFI_Stream_Get "
        "memory_allocate=XLA_FFI_DeviceMemory_Allocate memory_free=XLA_FFI_DeviceMemory_Free "
        "ordinal_get=XLA_FFI_DeviceOrdinal_Get",
    ),
    "StreamGetArgs": ("XLA_FFI_Stream_Get_Args", "struct_size extension_start context=ctx stream"),
    "MemoryAllocateArgs": (
        "XLA_FFI_DeviceMemory_Allocate_Args",
        "struct_size extension_start context=ctx size alignment data",
    ),
    "MemoryFreeArgs": ("XLA_FFI_DeviceMemory_Free_Args", "struct_size extension_start context=ctx size data"),
    "OrdinalGetArgs": (
        "XLA_FFI_DeviceOrdinal_Get_Args",
        "struct_size extension_start context=ctx device_ordinal",
    ),
    "ErrorDestroyArgs": ("XLA_FFI_Error_Destroy_Args", "struct_size extension_start error"),
    "Buffer": ("XLA_FFI_Buffer", "struct_size extension_start dtype data rank dims"),
    "ByteSpan": ("XLA_FFI_ByteSpan", "ptr len"),
    "Args": ("XLA_FFI_Args", "struct_size extension_start size types args"),
    "Rets": ("XLA_FFI_Rets", "struct_size extension_start size types rets"),
    "Attrs": ("XLA_FFI_Attrs", "struct_size extension_start size types names attrs"),
    "CallFrame": ("XLA_FFI_CallFrame", "struct_size extension_start api context=ctx stage args rets attrs"),
    "Metadata": ("XLA_FFI_Metadata", "struct_size api_version traits"),
    "MetadataExtension": ("XLA_FFI_Metadata_Extension", "base=extension_base metadata"),
}  # fmt: skip
_CONSTANTS = {
    "kApiMajor": "XLA_FFI_API_MAJOR", "kApiMinor": "XLA_FFI_API_MINOR",
    "kExtensionMetadata": "XLA_FFI_Extension_Metadata", "kStageExecute": "XLA_FFI_ExecutionStage_EXECUTE",
    "kAttributeString": "XLA_FFI_AttrType_STRING", "kOutOfRange": "XLA_FFI_Error_Code_OUT_OF_RANGE",
    "kInvalidArgument": "XLA_FFI_Error_Code_INVALID_ARGUMENT", "kNotFound": "XLA_FFI_Error_Code_NOT_FOUND",
    "kResourceExhausted": "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED", "kInternal": "XLA_FFI_Error_Code_INTERNAL",
    "kUnimplemented": "XLA_FFI_Error_Code_UNIMPLEMENTED",
}  # fmt: skip


def test_the_layouts_are_those_of_jaxlib(tmp_path: Path) -> None:
    lines = [_LAYOUT]
    for ours, (theirs, fields) in _FIELDS.items():
        pairs = (f.partition("=") for f in fields.split())
        lines += [f"SAME({ours}, {a}, {theirs}, {b or a});" for a, _, b in pairs]
    lines += [f"static_assert(int({a}) == int({b}));" for a, b in _CONSTANTS.items()]
    source = tmp_path / "layout.cpp"

    def accepted(text: str) -> bool:
        source.write_text(text)
        compiler = (sysconfig.get_config_var("CXX") or "c++").split()
        includes = [f"-I{NATIVE}", "-isystem", jax.ffi.include_dir()]
        command = [*compiler, "-std=c++17", "-Wno-invalid-offsetof", "-fsyntax-only", *includes, str(source)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert accepted("\n".join(lines))
    assert not accepted("\n".join([*lines, "SAME(Args, size, XLA_FFI_Args, types);"])), "the test can fail"
