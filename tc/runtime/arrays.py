"""Arrays of any library, on the host, as NumPy views, and new arrays in the library of the caller.

No framework is imported here: an object can only be a PyTorch tensor if PyTorch is in `sys.modules`
already.  Recognised are NumPy, PyTorch and JAX arrays, then whatever offers DLPack, the array interface or
the buffer protocol.  What cannot be used is refused with what to write instead; the errors are

* `ArgumentError` TC0505 (not an array, or one without host memory), TC0507 (an output that cannot be
  written), TC0509 (a tensor that requires gradients),
* `BackendError` TC0808 (an array on another device),
* `DTypeError` TC0411 (an element type the language has no name for, or byte-swapped elements).
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from tc import _native
from tc.dtypes import BFLOAT16, BY_NAME, DType
from tc.errors import ArgumentError, BackendError, DTypeError, Error, Span

Array = npt.NDArray[Any]
Library = Literal["numpy", "torch", "jax", "cupy", "other"]
Role = Literal["input", "output"]

_FROM_NUMPY: dict[np.dtype[Any], DType] = {np.dtype(t.name): t for t in BY_NAME.values() if t != BFLOAT16}
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}  # DLPack's DLDataTypeCode
_DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda", 14: "oneapi"}
_HOST = (1, 3, 11)  # DLPack: plain memory, and memory pinned for CUDA and for ROCm
_JAX_ALIGNMENT = 64  # what XLA's CPU client asks of a buffer that it takes without a copy


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array of whatever library, on the host or on a device.

    `array` has the places of the elements and the array's own strides; on a device (`DeviceArray`) it must
    not be read.  bfloat16 elements have the type of `ml_dtypes` where that is installed, else they appear
    as uint16; `dtype` always tells the truth.  `owner` is the object that was passed.
    """

    array: Array = field(repr=False)
    dtype: DType
    library: Library
    read_only: bool
    owner: object = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def address(self) -> int:
        """Of the first element."""
        return int(self.array.__array_interface__["data"][0])

    @property
    def is_dense(self) -> bool:
        """Row-major without gaps, each element aligned to its size: what a kernel can take as it is."""
        return self.array.flags.c_contiguous and (
            self.array.size == 0 or self.address % self.dtype.itemsize == 0
        )


@dataclass(frozen=True, slots=True)
class HostArray(ArrayView):
    """An array in host memory: `array` is a NumPy view of it, never a copy, except of PyTorch's lazily
    negated and conjugated views."""

    def dense(self) -> Array:
        """The elements as a dense row-major array: the view itself where it is one, else a copy."""
        return self.array if self.is_dense else np.array(self.array, order="C", copy=True)


def dlpack_type(dtype: DType) -> tuple[int, int]:
    """DLPack's code and number of bits, which `_native.Entry` takes; a bool is one byte."""
    return _CODES[dtype.kind], dtype.itemsize * 8


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy type of the elements; bfloat16 is uint16 where `ml_dtypes` is not installed."""
    if dtype != BFLOAT16:
        return np.dtype(dtype.name)
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    return np.dtype(ml_dtypes.bfloat16)


def conversion(name: str, library: Library, dtype: DType) -> str:
    """What to write to convert the array `name` to `dtype`."""
    match library:
        case "torch":
            return f"{name}.to(torch.{dtype})"
        case "jax":
            return f"{name}.astype(jnp.{'bool_' if dtype.is_bool else dtype})"
        case "numpy" | "cupy":
            return f"{name}.astype({_numpy_name(dtype)})"
        case "other":
            return f"np.asarray({name}).astype({_numpy_name(dtype)})"


def _numpy_name(dtype: DType) -> str:
    if dtype == BFLOAT16:
        return "ml_dtypes.bfloat16"
    return f"np.{'bool_' if dtype.is_bool else dtype}"


def view(value: object, name: str, span: Span | None = None, role: Role = "input") -> HostArray:
    """The host array behind `value`; `name` and `span` say in errors which parameter it is.

    An output is refused where writing to the view would not reach the object.
    """
    if isinstance(value, np.ndarray):
        return _numpy(cast("Array", value), name, span)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return _torch(value, torch, name, span, role)
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "Array"):
        if isinstance(value, jax.core.Tracer):
            raise ArgumentError(
                f"{name} is being traced by JAX and has no values yet",
                span,
                code="TC0505",
                help="call the kernel outside jax.jit, jax.grad and jax.vmap, or through jax.pure_callback",
            )
        if isinstance(value, jax.Array):
            return _jax(value, name, span)
    return _protocols(value, name, span)


def _checked(
    array: Array, library: Library, read_only: bool, owner: object, name: str, span: Span | None
) -> HostArray:
    return HostArray(array, from_numpy(array.dtype, name, span), library, read_only, owner)


def from_numpy(dtype: np.dtype[Any], name: str, span: Span | None) -> DType:
    """The element type of an array whose elements have a type of NumPy.  Raises DTypeError, code TC0411."""
    found = _FROM_NUMPY.get(dtype)
    if found is None and dtype.name == "bfloat16":
        found = BFLOAT16
    if found is None:
        raise _dtype_error(dtype, name, span)
    return found


def _dtype_error(dtype: np.dtype[Any], name: str, span: Span | None) -> DTypeError:
    swapped = _FROM_NUMPY.get(dtype.newbyteorder("="))
    if not dtype.isnative and swapped is not None:
        message = f"{name} has byte-swapped elements ({dtype.str})"
        help = f"{name}.astype({_numpy_name(swapped)})"
    else:
        message = f"{name} has elements of type {dtype}, which no tensor can have"
        help = types_help()
    return DTypeError(message, span, code="TC0411", help=help)


def types_help() -> str:
    """What to write where elements are of no type of the language."""
    return "convert it to one of " + ", ".join(BY_NAME)


def _numpy(array: Array, name: str, span: Span | None) -> HostArray:
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(
            f"{name} is a masked array, and its mask would be lost",
            span,
            code="TC0505",
            help=f"{name}.filled(0), or another value for what is masked",
        )
    return _checked(array.view(np.ndarray), "numpy", not array.flags.writeable, array, name, span)


def _torch(tensor: Any, torch: Any, name: str, span: Span | None, role: Role) -> HostArray:
    if tensor.device.type not in ("cpu", "meta"):
        raise _device_error(name, str(tensor.device), f"{name}.cpu()", span)
    dtype = torch_type(tensor, torch, name, span, role)
    try:
        data = tensor.detach().resolve_conj().resolve_neg()
        array: Array = data.view(torch.int16).numpy() if dtype == BFLOAT16 else data.numpy()
    except (RuntimeError, TypeError) as e:
        raise ArgumentError(
            f"{name} is a {type(tensor).__name__} without memory that can be read: {str(e).splitlines()[0]}",
            span,
            code="TC0505",
            help="call the kernel outside torch.compile, torch.func transforms and FakeTensorMode",
        ) from None
    if dtype == BFLOAT16:
        array = array.view(numpy_dtype(dtype))
    return HostArray(array, dtype, "torch", False, tensor)


def torch_type(tensor: Any, torch: Any, name: str, span: Span | None, role: Role) -> DType:
    """The element type of a PyTorch tensor that a kernel can take."""
    if tensor.layout is not torch.strided:
        raise ArgumentError(
            f"{name} is a tensor with layout {tensor.layout}, not a dense one",
            span,
            code="TC0505",
            help=f"{name}.to_dense()",
        )
    if tensor.device.type == "meta":
        raise ArgumentError(
            f"{name} is on PyTorch's meta device and has no values",
            span,
            code="TC0505",
            help=f"torch.empty_like({name}, device='cpu') makes a tensor with memory",
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            f"{name} requires gradients, which this kernel does not have",
            span,
            code="TC0509",
            help="tc.torch.op(kernel) is an operator with gradients; without them call the kernel inside "
            f"`with torch.no_grad():`, or pass {name}.detach()",
        )
    dtype = BY_NAME.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        raise DTypeError(
            f"{name} has elements of type {tensor.dtype}, which no tensor of the language can have",
            span,
            code="TC0411",
            help=types_help(),
        )
    lazy = "negated" if tensor.is_neg() else "conjugated" if tensor.is_conj() else ""
    if lazy and role == "output":
        raise ArgumentError(
            f"{name} is a lazily {lazy} view, which cannot be written through",
            span,
            code="TC0507",
            help=f"pass a buffer of its own, for example torch.empty_like({name})",
        )
    return dtype


def _jax(value: Any, name: str, span: Span | None) -> HostArray:
    device = jax_device(value, name, span)
    if device.platform != "cpu":
        raise _device_error(name, str(device), f"jax.device_put({name}, jax.devices('cpu')[0])", span)
    return _checked(np.asarray(value), "jax", True, value, name, span)


def jax_device(value: Any, name: str, span: Span | None) -> Any:
    """The one device of a JAX array that a kernel can take."""
    if value.is_deleted():
        raise ArgumentError(
            f"{name} is a JAX array whose memory was given away (donated or deleted)",
            span,
            code="TC0505",
            help="pass an array that is still alive",
        )
    devices = value.devices()
    if len(devices) != 1:
        raise ArgumentError(
            f"{name} is spread over {len(devices)} JAX devices",
            span,
            code="TC0505",
            help=f"jax.device_put({name}, {name}.devices().pop())",
        )
    if not isinstance(value.dtype, np.dtype):
        raise DTypeError(
            f"{name} has elements of type {value.dtype}, which no tensor can have",
            span,
            code="TC0411",
            help=types_help(),
        )
    (device,) = devices
    return device


def _device_error(name: str, device: str, help: str, span: Span | None) -> BackendError:
    return BackendError(
        f"{name} is on {device}, and this kernel runs on the host",
        span,
        code="TC0808",
        help=f"pass {help}, or compile with a backend for that device",
    )


def _protocols(value: object, name: str, span: Span | None) -> HostArray:
    kind = type(value)
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return _dlpack(cast("Any", value), name, span)
    if hasattr(value, "__cuda_array_interface__") and not isinstance(value, type):
        raise _device_error(name, "a CUDA device", f"a copy of {name} in host memory", span)
    try:
        if hasattr(value, "__array_interface__") and not isinstance(value, type):
            array: Array = np.asarray(value)
        else:
            array = np.asarray(memoryview(cast("Any", value)))
    except TypeError:
        raise ArgumentError(
            f"{name} is not an array but {article(kind.__name__)}",
            span,
            code="TC0505",
            help=f"np.asarray({name}) makes an array of numbers in lists, tuples and array-likes",
        ) from None
    except ValueError as e:
        raise ArgumentError(
            f"{name} ({article(kind.__name__)}) cannot be read as an array: {e}",
            span,
            code="TC0505",
            help=f"pass np.asarray({name})",
        ) from None
    # A NumPy scalar gives a copy: what is written there is lost.
    scalar = issubclass(kind, np.generic)
    library: Library = "numpy" if scalar else "other"
    return _checked(array, library, scalar or not array.flags.writeable, value, name, span)


def _dlpack(value: Any, name: str, span: Span | None) -> HostArray:
    with asked(value, name, span):
        device = int(value.__dlpack_device__()[0])
    if device not in _HOST:
        shown = _DEVICES.get(device, f"a device of DLPack type {device}")
        raise _device_error(name, shown, f"a copy of {name} in host memory", span)
    with asked(value, name, span):
        try:
            capsule = value.__dlpack__(max_version=(1, 3))
        except TypeError:  # a producer from before DLPack 1.0 knows no such argument
            capsule = value.__dlpack__()
        array, code, bits = _native.from_dlpack(capsule)
    if (code, bits) == dlpack_type(BFLOAT16):
        array = array.view(numpy_dtype(BFLOAT16))
        return HostArray(array, BFLOAT16, "other", not array.flags.writeable, value)
    return _checked(array, "other", not array.flags.writeable, value, name, span)


@contextmanager
def asked(value: object, name: str, span: Span | None, protocol: str = "DLPack") -> Generator[None]:
    """Raises ArgumentError where an array cannot give what a protocol asks of it."""
    try:
        yield
    except (BufferError, KeyError, RuntimeError, TypeError, ValueError) as e:
        if isinstance(e, Error):
            raise
        raise ArgumentError(
            f"{name} ({article(type(value).__name__)}) cannot be read through {protocol}: {e}",
            span,
            code="TC0505",
            help=f"pass np.asarray({name})",
        ) from None


def article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def allocate(
    like: HostArray | None, dtype: DType, shape: Sequence[int], name: str, span: Span | None = None
) -> HostArray:
    """Uninitialised dense memory for a result in the library of `like` (None: NumPy).

    `DTypeError` TC0411 where that library cannot hold the type.
    """
    library = "numpy" if like is None else like.library
    if library == "torch":
        torch: Any = sys.modules["torch"]
        tensor = torch.empty(tuple(shape), dtype=getattr(torch, dtype.name), device="cpu")
        return view(tensor, name, span, "output")
    if library == "jax":
        jax_holds(dtype, name, span)
        assert like is not None
        return HostArray(_aligned(dtype, shape), dtype, "jax", False, like.owner)
    array = _native.empty(shape, numpy_dtype(dtype))
    return HostArray(array, dtype, "numpy", False, array)


def jax_holds(dtype: DType, name: str, span: Span | None) -> None:
    """Raises DTypeError, code TC0411, where JAX would narrow a result."""
    jax: Any = sys.modules["jax"]
    if dtype.part.bits == 64 and not jax.config.jax_enable_x64:
        raise DTypeError(
            f"the result {name} has type {dtype}, which JAX narrows unless told otherwise",
            span,
            code="TC0411",
            help="jax.config.update('jax_enable_x64', True), or pass NumPy arrays",
        )


def _aligned(dtype: DType, shape: Sequence[int]) -> Array:
    count = int(np.prod(tuple(shape), dtype=object)) if shape else 1
    raw = np.empty(count * dtype.itemsize + _JAX_ALIGNMENT, np.uint8)
    first = -int(raw.__array_interface__["data"][0]) % _JAX_ALIGNMENT
    return raw[first : first + count * dtype.itemsize].view(numpy_dtype(dtype)).reshape(tuple(shape))


def result(array: HostArray) -> object:
    """What the caller gets for memory made by `allocate`, or for a buffer passed as `out=`."""
    if array.library == "jax" and not array.read_only:
        jax: Any = sys.modules["jax"]
        (device,) = cast("Any", array.owner).devices()
        return jax.device_put(array.array, device)
    return array.owner


def mark_written(array: ArrayView) -> None:
    """Tell the library that the memory of a caller's buffer changed, so that autograd notices."""
    if array.library == "torch":
        torch: Any = sys.modules["torch"]
        if not cast("Any", array.owner).is_inference():
            torch.autograd.graph.increment_version(array.owner)


def is_zero_dimensional(value: object) -> bool:
    """Whether a value is an array without dimensions, which may stand for a scalar."""
    return getattr(value, "ndim", None) == 0 and not isinstance(value, (bool, int, float, complex))
