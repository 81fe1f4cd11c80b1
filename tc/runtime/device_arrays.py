"""Arrays of any library on a device, without looking into their memory.

The first array of a call decides its device and its stream: PyTorch's and CuPy's current ones; JAX has
none, so a stream of `tc`'s is taken, and of other libraries the default stream.  Arrays that are ready in
the order of another stream are waited for, by DLPack's handshake or by an event, never by the host.

The errors are those of `tc.runtime.arrays`, and BackendError TC0817: arrays on several devices, or some on
the host.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tc import _native
from tc.dtypes import BY_NAME, DType
from tc.errors import ArgumentError, BackendError, DTypeError, Span
from tc.pipeline.devices import Device, Devices, Stream
from tc.runtime.arrays import (
    Array,
    ArrayView,
    Library,
    Role,
    asked,
    dlpack_type,
    from_numpy,
    jax_device,
    numpy_dtype,
    torch_type,
    types_help,
    view,
)

_CUDA = (2, 13)  # DLPack's kinds of memory of a device: its own, and what it shares with the host
_BY_DLPACK = {dlpack_type(t): t for t in BY_NAME.values()}
_DEFAULT: Stream = 0


@dataclass(frozen=True, slots=True)
class DeviceArray(ArrayView):
    """An array on the device `number`, ready in the order of `stream` (None: of the stream of the call).

    `keeper` is what keeps its memory beside `owner`, such as a capsule of DLPack.
    """

    number: int
    stream: Stream | None
    keeper: object = field(repr=False, default=None)


def layout(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> Array:
    """A NumPy array of elements at these places, which must not be read."""
    kind = numpy_dtype(dtype)
    if not all(shape):
        return np.empty(shape, kind)
    plain = np.dtype(f"u{kind.itemsize}") if kind.num >= 256 else kind  # of ml_dtypes

    return np.asarray(_Places(address, shape, strides, plain.str)).view(kind)


class _Places:
    """What NumPy makes an array of."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], typestr: str) -> None:
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
            "data": (address, False),
        }


def on_device(value: object) -> bool:
    """Whether a value is an array on a CUDA device; nothing is asked of a device."""
    if isinstance(value, (np.ndarray, np.generic, int, float, complex)):
        return False
    torch, jax, cupy = (sys.modules.get(n) for n in ("torch", "jax", "cupy"))
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return cast("Any", value).device.type == "cuda"
    if jax is not None and isinstance(value, getattr(jax, "Array", ())):
        return _jax_number(value, jax) is not None
    if cupy is not None and isinstance(value, getattr(cupy, "ndarray", ())):
        return True
    kind = type(value)
    if hasattr(kind, "__dlpack_device__"):
        try:
            return int(cast("Any", value).__dlpack_device__()[0]) in _CUDA
        except (BufferError, RuntimeError, TypeError, ValueError):
            return False
    return not isinstance(value, type) and hasattr(value, "__cuda_array_interface__")


def _jax_number(value: Any, jax: Any) -> int | None:
    """The number of the one CUDA device of a JAX array."""
    if isinstance(value, jax.core.Tracer) or value.is_deleted():
        return None
    devices = value.devices()
    if len(devices) != 1:
        return None
    (device,) = devices
    if device.platform not in ("gpu", "cuda"):
        return None
    return int(getattr(device, "local_hardware_id", None) or 0)


def current_stream(library: Library, number: int) -> Stream | None:
    """The stream on which a library works on a device; None for JAX, which has none."""
    if library == "torch":
        torch: Any = sys.modules["torch"]
        return int(torch.cuda.current_stream(number).cuda_stream)
    if library == "cupy":
        cupy: Any = sys.modules["cupy"]
        return int(cupy.cuda.get_current_stream(number).ptr)
    return None if library == "jax" else _DEFAULT


class Placement:
    """Where a call runs: settled by its first array, and the same for all others.

    `device` is None as long as no array has been seen, and for a call on the host.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self.device: Device | None = None
        self.stream: Stream = _DEFAULT
        self._library: Library = "numpy"
        self._first = ""

    def view(self, value: object, name: str, span: Span | None = None, role: Role = "input") -> ArrayView:
        """The array behind a value.  Raises as `tc.runtime.arrays.view`."""
        if not on_device(value):
            found = view(value, name, span, role)
            if self.device is not None:
                raise self._mixed(name, "the host", self._first, self._place(), span)
            self._first = self._first or name
            return found
        if self.device is None and self._first:
            raise self._mixed(self._first, "the host", name, f"a {self._devices.kind} device", span)
        torch, jax, cupy = (sys.modules.get(n) for n in ("torch", "jax", "cupy"))
        if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
            return self._torch(value, torch, name, span, role)
        if cupy is not None and isinstance(value, getattr(cupy, "ndarray", ())):
            return self._cupy(value, name, span)
        if jax is not None and isinstance(value, getattr(jax, "Array", ())):
            return self._jax(value, jax, name, span)
        if hasattr(type(value), "__dlpack__"):
            return self._dlpack(value, name, span)
        return self._interface(value, name, span)

    def _place(self) -> str:
        assert self.device is not None
        return f"{self._devices.kind}:{self.device.number}"

    def _mixed(self, name: str, here: str, other: str, there: str, span: Span | None) -> BackendError:
        if here == "the host":
            name, here, other, there = other, there, name, here
        help = "copy one of them to where the other is"
        return BackendError(f"{name} is on {here}, and {other} on {there}", span, code="TC0817", help=help)

    def _settle(
        self, number: int, library: Library, stream: Stream | None, name: str, span: Span | None
    ) -> None:
        """The device of an array; `stream` is the current one of its library there, None if it has none."""
        if self.device is None:
            self.device = self._devices.device(number)
            self._library, self._first = library, name
            if stream is None:
                with self.device.entered():
                    stream = self.device.own_stream()
            self.stream = stream
        elif self.device.number != number:
            here = f"{self._devices.kind}:{number}"
            raise self._mixed(name, here, self._first, self._place(), span)

    def _made(
        self,
        places: tuple[int, tuple[int, ...], tuple[int, ...]],
        dtype: DType,
        library: Library,
        read_only: bool,
        owner: object,
        stream: Stream | None,
        keeper: object = None,
        name: str = "",
        span: Span | None = None,
    ) -> DeviceArray:
        assert self.device is not None
        address, shape, strides = places
        if address == 0 and all(shape):
            count = " x ".join(map(str, shape)) or "one"
            raise ArgumentError(
                f"{name} has {count} elements and no memory: it has been freed",
                span,
                code="TC0505",
                help="pass an array that is still alive",
            )
        array = layout(address, shape, strides, dtype)
        ready = None if stream == self.stream else stream
        return DeviceArray(array, dtype, library, read_only, owner, self.device.number, ready, keeper)

    # ---- libraries

    def _torch(self, tensor: Any, torch: Any, name: str, span: Span | None, role: Role) -> DeviceArray:
        dtype = torch_type(tensor, torch, name, span, role)
        number = int(tensor.device.index or 0)
        stream = current_stream("torch", number)
        self._settle(number, "torch", stream, name, span)
        data = tensor.detach()
        if tensor.is_conj() or tensor.is_neg():
            data = data.resolve_conj().resolve_neg()  # on the current stream, in memory of its own
        try:
            address = int(data.data_ptr())
        except RuntimeError as e:
            raise ArgumentError(
                f"{name} is a {type(tensor).__name__} without memory that can be read: "
                f"{str(e).splitlines()[0]}",
                span,
                code="TC0505",
                help="call the kernel outside torch.compile, torch.func transforms and FakeTensorMode",
            ) from None
        strides = tuple(int(s) * dtype.itemsize for s in data.stride())
        places = address, tuple(map(int, data.shape)), strides
        return self._made(places, dtype, "torch", False, tensor, stream, data, name, span)

    def _cupy(self, value: Any, name: str, span: Span | None) -> DeviceArray:
        dtype = from_numpy(value.dtype, name, span)
        number = int(value.device.id)
        stream = current_stream("cupy", number)
        self._settle(number, "cupy", stream, name, span)
        places = int(value.data.ptr), tuple(map(int, value.shape)), tuple(map(int, value.strides))
        return self._made(places, dtype, "cupy", False, value, stream, None, name, span)

    def _jax(self, value: Any, jax: Any, name: str, span: Span | None) -> DeviceArray:
        jax_device(value, name, span)
        number = _jax_number(value, jax)
        assert number is not None
        self._settle(number, "jax", None, name, span)
        return self._imported(value, "jax", name, span)

    def _dlpack(self, value: Any, name: str, span: Span | None) -> DeviceArray:
        with asked(value, name, span):
            number = int(value.__dlpack_device__()[1])
        self._settle(number, "other", _DEFAULT, name, span)
        return self._imported(value, "other", name, span)

    def _imported(self, value: Any, library: Library, name: str, span: Span | None) -> DeviceArray:
        """By DLPack: the producer makes the stream of the call wait for what it has under way."""
        assert self.device is not None
        stream = self.stream or 1  # how DLPack calls the default stream
        with asked(value, name, span), self.device.entered():
            try:
                capsule = value.__dlpack__(stream=stream, max_version=(1, 3))
            except TypeError:  # a producer from before DLPack 1.0 knows no such argument
                capsule = value.__dlpack__(stream=stream)
            address, shape, strides, code, bits, lanes, kind, number, read_only = _native.describe_dlpack(
                capsule
            )
        dtype = _BY_DLPACK.get((code, bits)) if lanes == 1 else None
        if dtype is None:
            raise DTypeError(
                f"{name} has elements of DLPack's type (code {code}, {bits} bits, {lanes} lanes), which no "
                "tensor can have",
                span,
                code="TC0411",
                help=types_help(),
            )
        if kind not in _CUDA or number != self.device.number:
            raise ArgumentError(
                f"{name} says that it is on {self._place()}, and its capsule of DLPack is of another device",
                span,
                code="TC0505",
                help="the library that made it has to mend that; pass a copy",
            )
        places = address, shape, strides
        made = self._made(
            places, dtype, library, read_only or library == "jax", value, None, capsule, name, span
        )
        return made

    def _interface(self, value: Any, name: str, span: Span | None) -> DeviceArray:
        with asked(value, name, span, "__cuda_array_interface__"):
            told = value.__cuda_array_interface__
            address, read_only = told["data"]
            address = int(address or 0)
            shape = tuple(int(n) for n in told["shape"])
            kind = np.dtype(told["typestr"])
            given, stream = told.get("strides"), told.get("stream")
            if told.get("mask") is not None:
                raise ValueError("it has a mask, which would be lost")
            if stream == 0:
                raise ValueError("its stream is 0, which the interface forbids as it may mean two streams")
        dtype = from_numpy(kind, name, span)
        strides = dense_strides(shape, dtype.itemsize) if given is None else tuple(int(s) for s in given)
        if all(shape) and address:
            number = self._devices.holding(address)
            if number is None:
                raise ArgumentError(
                    f"{name} is at {address:#x}, which is no memory of a {self._devices.kind} device",
                    span,
                    code="TC0505",
                    help="pass an array that is still alive, or the array of the host",
                )
        else:
            number = 0 if self.device is None else self.device.number
        # 1 is the default stream, 2 that of the thread, whose handles of the driver are the same numbers.
        ready = _DEFAULT if stream in (None, 1) else int(stream)
        self._settle(number, "other", ready, name, span)
        if stream is None:
            ready = self.stream  # the producer asks for no order
        places = address, shape, strides
        return self._made(places, dtype, "other", bool(read_only), value, ready, told, name, span)


def dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Row-major, in bytes."""
    strides, step = [0] * len(shape), itemsize
    for d in reversed(range(len(shape))):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def element_type(value: Any, name: str, span: Span | None = None) -> DType:
    """The element type of an array on the host or a device."""
    if not on_device(value):
        return view(value, name, span).dtype
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return torch_type(value, torch, name, span, "input")
    kind: Any = getattr(value, "dtype", None)
    if isinstance(kind, np.dtype):
        return from_numpy(cast("np.dtype[Any]", kind), name, span)
    if hasattr(cast("type[Any]", type(value)), "__dlpack__"):
        with asked(value, name, span):
            _, _, _, code, bits, *_ = _native.describe_dlpack(value.__dlpack__(stream=-1))
        if (code, bits) in _BY_DLPACK:
            return _BY_DLPACK[code, bits]
    return from_numpy(np.dtype(value.__cuda_array_interface__["typestr"]), name, span)


def rank(value: Any) -> int:
    """The number of dimensions of an array on a device."""
    shape = getattr(value, "shape", None)
    return len(value.__cuda_array_interface__["shape"] if shape is None else shape)
