"""Memory on a device in the library of the caller: results, and what a call needs for itself.

What PyTorch and CuPy allocate belongs to their current streams, as a call does, so it may be given back as
soon as the kernels are launched.  For JAX and others memory is allocated in the order of the call's stream.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tc import _native
from tc.dtypes import DType
from tc.errors import Span
from tc.pipeline.devices import Device, Memory, Stream
from tc.runtime.arrays import ArrayView, dlpack_type, jax_holds, numpy_dtype
from tc.runtime.device_arrays import DeviceArray, dense_strides, layout

_CUDA = 2  # DLPack's number


class DeviceBuffer:
    """A result on a device for callers whose library cannot make one: it speaks DLPack and
    `__cuda_array_interface__`, and `np.asarray` copies it to the host."""

    def __init__(
        self,
        device: Device,
        stream: Stream,
        address: int,
        shape: tuple[int, ...],
        dtype: DType,
        keeper: object,
    ) -> None:
        self._device, self._stream, self._address, self._keeper = device, stream, address, keeper
        self._dtype = dtype
        self.shape = shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """As NumPy has it; bfloat16 is uint16 without `ml_dtypes`."""
        return numpy_dtype(self._dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<DeviceBuffer of {self.dtype}{list(self.shape)} on {self._device.name}>"

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._device.number

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule, whose contents are ready in the order of `stream` (DLPack's numbers)."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("this array is passed on as it is, without a copy")
        if stream == 0:
            raise BufferError("stream 0 may mean two streams: 1 is the default one, 2 that of the thread")
        if stream != -1:
            self._ready_for(0 if stream in (None, 1) else stream)
        versioned = max_version is not None and max_version[0] >= 1
        code, bits = dlpack_type(self._dtype)
        return _native.to_dlpack(
            self._address, self.shape, code, bits, *self.__dlpack_device__(), self, versioned, False
        )

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, False),
            "strides": None,
            "stream": self._stream or 1,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a device is copied to the host")
        made = np.empty(self.shape, self.dtype)
        with self._device.entered():
            self._device.download(made, self._address, self._stream)
        return made if dtype is None else made.astype(dtype, copy=False)

    def _ready_for(self, stream: Stream) -> None:
        if stream == self._stream:
            return
        with self._device.entered():
            self._device.order(stream, self._stream)
        used: Any = getattr(self._keeper, "used_on", None)
        if used is not None:
            used(stream)


class Allocator:
    """Memory for a call on a stream, from the library that the stream is of."""

    def __init__(self, device: Device, stream: Stream, like: ArrayView) -> None:
        self.device, self.stream, self.like = device, stream, like

    def scratch(self, size: int) -> tuple[int, object]:
        """The address of so many bytes, aligned to 16, and what keeps them."""
        size = max(1, size)
        if self.like.library == "torch":
            torch: Any = sys.modules["torch"]
            made = torch.empty(size, dtype=torch.uint8, device=f"cuda:{self.device.number}")
            return int(made.data_ptr()), made
        if self.like.library == "cupy":
            cupy: Any = sys.modules["cupy"]
            with cupy.cuda.Device(self.device.number):
                memory = cupy.cuda.alloc(size)
            return int(memory.ptr), memory
        memory = self.device.allocate(size, self.stream)
        return memory.address, memory

    def result(self, dtype: DType, shape: Sequence[int], name: str, span: Span | None) -> DeviceArray:
        """Uninitialised dense memory for a result, in the library of the caller.  DTypeError TC0411 where
        that cannot hold the type."""
        extents = tuple(shape)
        make = _MAKERS[self.like.library]
        owner, address, keeper = make(self, dtype, extents, name, span)
        places = layout(address, extents, dense_strides(extents, dtype.itemsize), dtype)
        return DeviceArray(places, dtype, self.like.library, False, owner, self.device.number, None, keeper)


_Allocated = tuple[object, int, object]


def _torch(a: Allocator, dtype: DType, shape: tuple[int, ...], name: str, span: Span | None) -> _Allocated:
    torch: Any = sys.modules["torch"]
    made = torch.empty(shape, dtype=getattr(torch, dtype.name), device=f"cuda:{a.device.number}")
    return made, int(made.data_ptr()), None


def _cupy(a: Allocator, dtype: DType, shape: tuple[int, ...], name: str, span: Span | None) -> _Allocated:
    cupy: Any = sys.modules["cupy"]
    with cupy.cuda.Device(a.device.number):
        made = cupy.empty(shape, numpy_dtype(dtype))
    return made, int(made.data.ptr), None


def _jax(a: Allocator, dtype: DType, shape: tuple[int, ...], name: str, span: Span | None) -> _Allocated:
    """In the memory that JAX manages; what the caller gets is an array over it that knows when it is
    ready."""
    jax: Any = sys.modules["jax"]
    jax_holds(dtype, name, span)
    (where,) = cast("Any", a.like.owner).devices()
    inner = jax.numpy.empty(shape, numpy_dtype(dtype), device=where)
    capsule = inner.__dlpack__(stream=a.stream or 1, max_version=(1, 3))
    address, *_ = _native.describe_dlpack(capsule)
    return DeviceBuffer(a.device, a.stream, address, shape, dtype, (inner, capsule)), address, capsule


def _other(a: Allocator, dtype: DType, shape: tuple[int, ...], name: str, span: Span | None) -> _Allocated:
    memory: Memory = a.device.allocate(max(1, math.prod(shape) * dtype.itemsize), a.stream)
    return DeviceBuffer(a.device, a.stream, memory.address, shape, dtype, memory), memory.address, None


_Maker = Callable[[Allocator, DType, tuple[int, ...], str, Span | None], _Allocated]
_MAKERS: dict[str, _Maker] = {"torch": _torch, "cupy": _cupy, "jax": _jax, "other": _other}


def delivered(array: DeviceArray) -> object:
    """What the caller gets for memory that `Allocator.result` made, or for a buffer passed as `out=`."""
    if array.library == "jax" and isinstance(array.owner, DeviceBuffer):
        jax: Any = sys.modules["jax"]
        return jax.dlpack.from_dlpack(array.owner)
    return array.owner
