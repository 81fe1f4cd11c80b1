"""Functions of the driver by ctypes, in the manner of cuda-bindings, for what pycuda lacks (`streams.py`).

A function returns a tuple of its status and its outputs.  Handles are numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

_POINTER, _SIZE, _UINT, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int
# Types of the inputs and of the outputs, which come first; the symbol, where it is not the name.
_FUNCTIONS: dict[str, tuple[Sequence[Any], Sequence[Any], str]] = {
    "cuStreamCreate": ((_POINTER,), (_UINT,), ""),
    "cuStreamSynchronize": ((), (_POINTER,), ""),
    "cuStreamWaitEvent": ((), (_POINTER, _POINTER, _UINT), ""),
    "cuStreamBeginCapture": ((), (_POINTER, _INT), "cuStreamBeginCapture_v2"),
    "cuEventCreate": ((_POINTER,), (_UINT,), ""),
    "cuEventRecord": ((), (_POINTER, _POINTER), ""),
    "cuEventQuery": ((), (_POINTER,), ""),
    "cuEventDestroy": ((), (_POINTER,), "cuEventDestroy_v2"),
    "cuMemAlloc": ((_POINTER,), (_SIZE,), "cuMemAlloc_v2"),
    "cuMemFree": ((), (_POINTER,), "cuMemFree_v2"),
    "cuMemAllocAsync": ((_POINTER,), (_SIZE, _POINTER), ""),
    "cuMemFreeAsync": ((), (_POINTER, _POINTER), ""),
    "cuMemHostAlloc": ((_POINTER,), (_SIZE, _UINT), ""),
    "cuMemHostGetDevicePointer": ((_POINTER,), (_POINTER, _UINT), "cuMemHostGetDevicePointer_v2"),
    "cuMemGetInfo": ((_SIZE, _SIZE), (), "cuMemGetInfo_v2"),
    "cuDeviceGetAttribute": ((_INT,), (_INT, _INT), ""),
    "cuDeviceGetDefaultMemPool": ((_POINTER,), (_INT,), ""),
    "cuPointerGetAttribute": ((_INT,), (_INT, _POINTER), ""),
    "cuGraphLaunch": ((), (_POINTER, _POINTER), ""),
    "cuGraphDestroy": ((), (_POINTER,), ""),
    "cuGraphExecDestroy": ((), (_POINTER,), ""),
}
# The same of functions whose outputs come last.
_LAST: dict[str, tuple[Sequence[Any], Sequence[Any], str]] = {
    "cuStreamIsCapturing": ((_POINTER,), (_INT,), ""),
    "cuStreamEndCapture": ((_POINTER,), (_POINTER,), ""),
    "cuGetErrorString": ((ctypes.c_char_p,), (_INT,), ""),
}


class CUresult(IntEnum):
    """The statuses that this module's users tell apart; others have the number alone."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_READY = 600


class Status(int):
    """Another status, with its name."""

    name: str


class _Flags:
    """Numbers of cuda.h by the names of its enumerations."""

    CU_STREAM_NON_BLOCKING = 1
    CU_EVENT_DISABLE_TIMING = 2
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
    CU_STREAM_CAPTURE_STATUS_NONE = 0
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1


class Entries:
    """The functions, of the library of the driver.  Raises OSError where there is none."""

    CUresult = CUresult
    CUstream_flags = CUevent_flags = CUdevice_attribute = CUmemPool_attribute = _Flags
    CUpointer_attribute = CUstreamCaptureStatus = CUstreamCaptureMode = _Flags
    CU_MEMHOSTALLOC_PORTABLE = 1
    CU_MEMHOSTALLOC_DEVICEMAP = 2
    cuuint64_t = ctypes.c_uint64

    def __init__(self, path: str = "libcuda.so.1") -> None:
        self.library = ctypes.CDLL(path)

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        last = name in _LAST
        if not last and name not in _FUNCTIONS:
            raise AttributeError(name)
        outputs, inputs, symbol = (_LAST if last else _FUNCTIONS)[name]
        found = getattr(self.library, symbol or name)

        def call(*given: Any) -> tuple[Any, ...]:
            made = [t() for t in outputs]
            values = [t(int(x)) for t, x in zip(inputs, given, strict=True)]
            pointers = [ctypes.byref(m) for m in made]
            status = found(*values, *pointers) if last else found(*pointers, *values)
            return (self.status_of(status), *(m.value or 0 for m in made))

        setattr(self, name, call)
        return call

    def cuGraphInstantiate(  # noqa: N802
        self, graph: int, flags: int
    ) -> tuple[Any, int]:
        made = _POINTER()
        status = self.library.cuGraphInstantiateWithFlags(
            ctypes.byref(made), _POINTER(graph), ctypes.c_ulonglong(flags)
        )
        return self.status_of(status), made.value or 0

    def cuMemPoolSetAttribute(  # noqa: N802
        self, pool: int, which: int, value: ctypes.c_uint64
    ) -> tuple[Any]:
        return (
            self.status_of(self.library.cuMemPoolSetAttribute(_POINTER(pool), which, ctypes.byref(value))),
        )

    def status_of(self, number: int) -> int:
        """A status by its number, with its name."""
        if number in CUresult.__members__.values():
            return CUresult(number)
        other = Status(number)
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(number, ctypes.byref(text))
        other.name = text.value.decode() if text.value else f"CUDA error {number}"
        return other
