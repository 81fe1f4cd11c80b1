"""Arrays of every library seen as host arrays, and results in the caller's library."""

from __future__ import annotations

import array
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from tc import _native
from tc.dtypes import ALL, BFLOAT16, BOOL, BY_NAME, FLOAT32, FLOAT64, INT32, UINT8, DType
from tc.errors import ArgumentError, BackendError, DTypeError, Error, Source, Span
from tc.runtime import arrays
from tc.runtime.arrays import HostArray, view

SPAN = Span(Source("def f(float(N) A) -> (B) { B(i) = A(i) }"), 6, 16)
JAX_TYPES = {t for t in BY_NAME.values() if t.part.bits < 64}


def address(value: Any) -> int:
    match value:
        case torch.Tensor():
            return value.data_ptr()
        case jax.Array():
            return value.unsafe_buffer_pointer()
        case _:
            return np.asarray(value).ctypes.data


class WithDLPack:
    """A library of its own that speaks DLPack 1.x."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()


class WithOldDLPack(WithDLPack):
    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.data.__dlpack__()


class WithInterface:
    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.__array_interface__ = data.__array_interface__
        self.data = data


def refuses(kind: type[Error], code: str, message: str, value: object, role: Any = "input") -> Error:
    with pytest.raises(kind, match=message) as caught:
        view(value, "A", SPAN, role)
    assert caught.value.code == code
    assert caught.value.span == SPAN
    assert caught.value.help
    return caught.value


# ---- NumPy


@pytest.mark.parametrize("dtype", BY_NAME.values(), ids=str)
def test_numpy(dtype: DType) -> None:
    value = np.ones((2, 3), arrays.numpy_dtype(dtype))[:, ::2]
    seen = view(value, "A")
    assert (seen.dtype, seen.library, seen.read_only) == (dtype, "numpy", False)
    assert seen.owner is value
    assert seen.array.strides == value.strides
    assert seen.address == value.ctypes.data
    assert seen.shape == (2, 2)
    assert not seen.is_dense
    assert seen.dense().flags.c_contiguous
    np.testing.assert_array_equal(seen.dense(), value)


def test_numpy_variants() -> None:
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    assert view(frozen, "A").read_only
    assert view(np.zeros((), np.float32), "A").dense().shape == ()
    assert view(np.float32(2), "A").array[()] == 2
    assert type(view(np.zeros(3).view(np.recarray), "A").array) is np.ndarray
    assert view(np.zeros((3, 0))[:, :0], "A").is_dense


def test_dense_repairs_alignment() -> None:
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)
    seen = view(odd, "A")
    assert seen.address % 4
    assert not seen.is_dense
    assert seen.dense().ctypes.data % 4 == 0


def test_masked_arrays_are_refused() -> None:
    error = refuses(ArgumentError, "TC0505", "masked", np.ma.masked_array([1.0, 2.0], [0, 1]))
    assert error.help == "A.filled(0), or another value for what is masked"


@pytest.mark.parametrize(
    ("dtype", "help"),
    [
        ("O", "convert it"),
        ("U3", "convert it"),
        ("M8[s]", "convert it"),
        ("c32", "convert it"),
        ("f4,i4", "convert it"),
        ("g", "convert it"),
        (ml_dtypes.float8_e4m3, "convert it"),
        (">f4", r"A.astype(np.float32)"),
        (">i8", r"A.astype(np.int64)"),
    ],
)
def test_element_types_that_are_refused(dtype: Any, help: str) -> None:
    error = refuses(DTypeError, "TC0411", "A has ", np.zeros(2, dtype))
    assert help in (error.help or "")


# ---- PyTorch


@pytest.mark.parametrize("dtype", BY_NAME.values(), ids=str)
def test_torch(dtype: DType) -> None:
    value = torch.ones(3, 4, dtype=getattr(torch, dtype.name)).t()
    seen = view(value, "A")
    assert (seen.dtype, seen.library, seen.read_only) == (dtype, "torch", False)
    assert seen.address == value.data_ptr()
    assert seen.shape == (4, 3)
    assert seen.array.strides == tuple(s * value.itemsize for s in value.stride())
    assert (seen.array.astype(np.complex128) == 1).all()
    assert seen.owner is value


def test_torch_shares_memory_for_writing() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        value = torch.zeros(4, dtype=dtype)
        view(value, "A", role="output").array[1:3] = 2
        assert value.tolist() == [0, 2, 2, 0]


def test_torch_zero_dimensions() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        assert view(torch.ones((), dtype=dtype), "A").array[()] == 1


def test_torch_lazy_negation_is_resolved_for_reading_only() -> None:
    value = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    assert value.is_neg()
    np.testing.assert_array_equal(view(value, "A").array, [-2, -4])
    refuses(ArgumentError, "TC0507", "lazily negated", value, "output")


def test_torch_gradients() -> None:
    leaf = torch.ones(3, requires_grad=True)
    for value in (leaf, leaf * 2, torch.nn.Parameter(torch.ones(3))):
        error = refuses(ArgumentError, "TC0509", "requires gradients", value)
        assert "torch.no_grad()" in (error.help or "")
        assert "A.detach()" in (error.help or "")
        with torch.no_grad():
            assert view(value, "A").address == value.data_ptr()
    assert view(leaf.detach(), "A").address == leaf.data_ptr()


def test_torch_tensors_that_are_refused() -> None:
    refuses(DTypeError, "TC0411", "float8", torch.zeros(2, dtype=torch.float8_e5m2))
    assert refuses(ArgumentError, "TC0505", "sparse", torch.eye(2).to_sparse()).help == "A.to_dense()"
    refuses(ArgumentError, "TC0505", "meta device", torch.zeros(2, device="meta"))


def test_torch_tensors_on_another_device() -> None:
    class Elsewhere(torch.Tensor):
        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("cuda", 1)

    error = refuses(BackendError, "TC0808", "A is on cuda:1", torch.zeros(2).as_subclass(Elsewhere))
    assert "A.cpu()" in (error.help or "")


def test_torch_tensors_without_memory() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(3)
    refuses(ArgumentError, "TC0505", "FakeTensor|meta", fake)

    def inside(x: torch.Tensor) -> torch.Tensor:
        refuses(ArgumentError, "TC0505", "without memory", x)
        return x

    torch.func.vmap(inside)(torch.zeros(2, 3))


# ---- JAX


@pytest.mark.parametrize("dtype", sorted(JAX_TYPES, key=str), ids=str)
def test_jax(dtype: DType) -> None:
    value = jnp.ones((2, 3), dtype.name)
    seen = view(value, "A")
    assert (seen.dtype, seen.library, seen.read_only) == (dtype, "jax", True)
    assert seen.address == value.unsafe_buffer_pointer()
    assert (seen.array.astype(np.complex128) == 1).all()


def test_jax_arrays_that_are_refused() -> None:
    gone = jnp.ones(3)
    gone.delete()
    refuses(ArgumentError, "TC0505", "donated or deleted", gone)
    refuses(DTypeError, "TC0411", "key<", jax.random.key(0))

    @jax.jit
    def traced(x: Any) -> Any:
        refuses(ArgumentError, "TC0505", "being traced", x)
        return x

    traced(jnp.ones(3))


# ---- protocols


@pytest.mark.parametrize("kind", [WithDLPack, WithOldDLPack])
@pytest.mark.parametrize(
    "data", [np.arange(6, dtype=np.int32).reshape(2, 3).T, torch.ones(2, 3, dtype=torch.bfloat16)]
)
def test_dlpack(kind: Callable[[Any], Any], data: Any) -> None:
    value = kind(data)
    seen = view(value, "A")
    assert (seen.library, seen.owner) == ("other", value)
    assert seen.dtype == (INT32 if isinstance(data, np.ndarray) else BFLOAT16)
    assert seen.address == address(data)
    assert seen.shape == tuple(data.shape)
    np.testing.assert_array_equal(seen.array.astype(np.float64), view(data, "A").array.astype(np.float64))
    # What the old protocol does not say may not be written.
    assert seen.read_only == (kind is WithOldDLPack)


def test_dlpack_keeps_memory_alive_and_frees_it() -> None:
    import gc
    import weakref

    data = np.arange(1000.0)
    alive = weakref.ref(data)
    seen = view(WithDLPack(data), "A").array
    del data
    gc.collect()
    assert alive() is not None
    assert seen[999] == 999
    del seen
    gc.collect()
    assert alive() is None


def test_dlpack_of_no_elements_and_no_dimensions() -> None:
    assert view(WithDLPack(torch.zeros(0, 3)), "A").shape == (0, 3)
    assert view(WithDLPack(torch.tensor(2.5)), "A").array[()] == 2.5


def test_dlpack_that_fails() -> None:
    class Broken(WithDLPack):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("not today")

    refuses(ArgumentError, "TC0505", "not today", Broken(np.zeros(2)))

    class Elsewhere(WithDLPack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    error = refuses(BackendError, "TC0808", "A is on cuda", Elsewhere(np.zeros(2)))
    assert "host memory" in (error.help or "")


def test_dlpack_capsules_are_checked() -> None:
    with pytest.raises(TypeError):
        _native.from_dlpack(3)
    capsule = np.zeros(3).__dlpack__()
    torch.utils.dlpack.from_dlpack(capsule)
    with pytest.raises(TypeError, match="unused"):
        _native.from_dlpack(capsule)


def test_array_interface() -> None:
    data = np.arange(6.0).reshape(2, 3)
    value = WithInterface(data)
    seen = view(value, "A")
    assert (seen.library, seen.dtype, seen.address) == ("other", FLOAT64, data.ctypes.data)
    refuses(DTypeError, "TC0411", "byte-swapped", WithInterface(data.astype(">f8")))


def test_cuda_array_interface_is_on_a_device() -> None:
    class OnDevice:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}

    refuses(BackendError, "TC0808", "CUDA device", OnDevice())


def test_buffers() -> None:
    numbers = array.array("f", [1, 2, 3])
    seen = view(numbers, "A")
    assert (seen.dtype, seen.library, seen.read_only) == (FLOAT32, "other", False)
    seen.array[0] = 9
    assert numbers[0] == 9
    assert view(b"abc", "A").read_only
    assert view(bytearray(3), "A").dtype == UINT8
    assert view(memoryview(np.zeros((2, 2), bool)), "A").dtype == BOOL


@pytest.mark.parametrize("value", [None, 1, 1.5, "abc", [1.0, 2.0], (1, 2), {"a": 1}, object(), np.float32])
def test_what_is_not_an_array(value: object) -> None:
    error = refuses(ArgumentError, "TC0505", "A is not an array but an? ", value)
    assert "np.asarray(A)" in (error.help or "")


# ---- results


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize(
    "like", [None, np.zeros(2), torch.zeros(2), b"ab"], ids=["none", "numpy", "torch", "bytes"]
)
def test_allocate(dtype: DType, like: Any) -> None:
    seen = None if like is None else view(like, "A")
    new = arrays.allocate(seen, dtype, (2, 3), "B")
    assert (new.dtype, new.shape, new.is_dense, new.read_only) == (dtype, (2, 3), True, False)
    new.array[...] = 1
    out: Any = arrays.result(new)
    assert isinstance(out, torch.Tensor if isinstance(like, torch.Tensor) else np.ndarray)
    assert address(out) == new.address
    assert (view(out, "B").dtype, out.shape) == (dtype, (2, 3))
    assert (view(out, "B").array.astype(np.float64) == 1).all()


@pytest.mark.share(18)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
@pytest.mark.parametrize("dtype", sorted(JAX_TYPES, key=str), ids=str)
def test_allocate_for_jax(dtype: DType, shape: tuple[int, ...]) -> None:
    like = view(jnp.ones(2), "A")
    new = arrays.allocate(like, dtype, shape, "B")
    assert new.is_dense
    new.array[...] = 1
    out: Any = arrays.result(new)
    assert isinstance(out, jax.Array)
    assert (out.shape, str(out.dtype), out.devices()) == (shape, dtype.name, like.owner.devices())  # type: ignore[attr-defined]
    if out.size:
        assert out.unsafe_buffer_pointer() == new.address
    wide = np.complex128 if dtype.is_complex else np.float64
    assert (np.asarray(out).astype(wide) == 1).all()
    np.testing.assert_array_equal(
        np.asarray(out + out).astype(wide), np.asarray(out).astype(wide) * (1 if dtype.is_bool else 2)
    )


def test_jax_does_not_narrow_silently() -> None:
    like = view(jnp.ones(2), "A")
    with pytest.raises(DTypeError, match="result B has type float64") as caught:
        arrays.allocate(like, FLOAT64, (2,), "B", SPAN)
    assert caught.value.code == "TC0411"
    assert "jax_enable_x64" in (caught.value.help or "")
    with jax.enable_x64(True):
        new = arrays.allocate(like, FLOAT64, (2,), "B")
        new.array[...] = 0.1
        out: Any = arrays.result(new)
        assert out.dtype == np.float64
        assert out[0] == 0.1


def test_results_of_a_buffer_are_the_buffer() -> None:
    for value in (np.zeros(2), torch.zeros(2), bytearray(2), WithDLPack(np.zeros(2))):
        assert arrays.result(view(value, "B", role="output")) is value


def test_mark_written() -> None:
    tensor = torch.zeros(2)
    before = tensor._version
    arrays.mark_written(view(tensor, "B"))
    assert tensor._version == before + 1
    with torch.inference_mode():
        arrays.mark_written(view(torch.zeros(2), "B"))
    arrays.mark_written(view(np.zeros(2), "B"))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("make", [np.ones, torch.ones, jnp.ones, lambda n: array.array("i", [1] * n)])
def test_the_conversion_that_is_advised_works(make: Callable[[int], Any], dtype: DType) -> None:
    A = make(3)  # noqa: N806
    seen = view(A, "A")
    if seen.library == "jax" and dtype not in JAX_TYPES:
        dtype = FLOAT32
    converted = eval(arrays.conversion("A", seen.library, dtype))
    assert view(converted, "A").dtype == dtype


def test_dlpack_types() -> None:
    for dtype in BY_NAME.values():
        if dtype == BFLOAT16:
            assert arrays.dlpack_type(dtype) == (4, 16)
            continue
        _, code, bits = _native.from_dlpack(np.zeros(1, dtype.name).__dlpack__())
        assert arrays.dlpack_type(dtype) == (code, bits)


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
from tc.dtypes import BFLOAT16
from tc.runtime import arrays
new = arrays.allocate(None, BFLOAT16, (2,), "B")
assert new.dtype == BFLOAT16 and new.array.dtype == np.uint16, new
import torch
seen = arrays.view(torch.ones(2, dtype=torch.bfloat16), "A")
assert seen.dtype == BFLOAT16 and seen.array.tolist() == [0x3f80] * 2, seen
"""

LAZY = """
import sys
import numpy as np
from tc.runtime import arrays, signature
arrays.view(np.zeros(3), "A")
arrays.view(b"abc", "A")
loaded = {"torch", "jax", "ml_dtypes", "cupy", "halide", "islpy"} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "script", [WITHOUT_ML_DTYPES, LAZY], ids=["without ml_dtypes", "no framework is imported"]
)
def test_in_a_fresh_interpreter(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_host_array_is_data() -> None:
    seen = view(np.zeros(2), "A")
    assert isinstance(seen, HostArray)
    with pytest.raises(AttributeError):
        seen.dtype = FLOAT32  # type: ignore[misc]
