# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Streams, events, memory in the order of streams, and graphs, of the driver's own functions.

`cu` has these as cuda-bindings has them: called with the inputs, they return a tuple of a status and the
outputs.  Where pycuda is used, which lacks most of them, `entries.py` calls them by ctypes.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .driver import DriverError, OutOfMemory

_KEPT = (1 << 64) - 1  # bytes that the pool may keep across synchronisations: all


def check(cu: Any, found: tuple[Any, ...]) -> Any:
    """The outputs of a call besides its status: nothing, one value, or a tuple.  Raises DriverError."""
    status, *values = found
    if status == cu.CUresult.CUDA_SUCCESS:
        return values[0] if len(values) == 1 else tuple(values)
    text = name = getattr(status, "name", str(status))
    known, described = cu.cuGetErrorString(status)
    if known == cu.CUresult.CUDA_SUCCESS and described:
        text += f", {described.decode()}"
    if status == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise OutOfMemory(text, name)
    raise DriverError(text, name)


class Streams:
    """A part of `.driver.Driver`."""

    _raw: Any
    _device_handle: Any
    _has_pool: bool | None = None
    number: int

    def stream(self) -> int:
        flags = int(self._raw.CUstream_flags.CU_STREAM_NON_BLOCKING)
        return int(check(self._raw, self._raw.cuStreamCreate(flags)))

    def synchronize_stream(self, stream: int) -> None:
        check(self._raw, self._raw.cuStreamSynchronize(stream))

    def event(self) -> Any:
        flags = int(self._raw.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        return check(self._raw, self._raw.cuEventCreate(flags))

    def record(self, event: Any, stream: int) -> None:
        check(self._raw, self._raw.cuEventRecord(event, stream))

    def wait(self, stream: int, event: Any) -> None:
        check(self._raw, self._raw.cuStreamWaitEvent(stream, event, 0))

    def done(self, event: Any) -> bool:
        found = self._raw.cuEventQuery(event)
        if found[0] == self._raw.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check(self._raw, found)
        return True

    def destroy_event(self, event: Any) -> None:
        check(self._raw, self._raw.cuEventDestroy(event))

    def allocate_on(self, size: int, stream: int) -> int:
        if not self._pool():
            return int(check(self._raw, self._raw.cuMemAlloc(size)))
        return int(check(self._raw, self._raw.cuMemAllocAsync(size, stream)))

    def free_on(self, address: int, stream: int) -> None:
        if self._pool():
            check(self._raw, self._raw.cuMemFreeAsync(address, stream))
        else:  # it waits for the device
            check(self._raw, self._raw.cuMemFree(address))

    def _pool(self) -> bool:
        """Whether the device has memory pools; its default pool is configured to keep freed memory."""
        if self._has_pool is None:
            cu, device = self._raw, self._device_handle
            which = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
            self._has_pool = bool(check(cu, cu.cuDeviceGetAttribute(which, device)))
            if self._has_pool:
                pool = check(cu, cu.cuDeviceGetDefaultMemPool(device))
                most = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
                check(cu, cu.cuMemPoolSetAttribute(pool, most, cu.cuuint64_t(_KEPT)))
        return self._has_pool

    def pinned(self, size: int) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], int]:
        cu = self._raw
        host = int(
            check(cu, cu.cuMemHostAlloc(size, cu.CU_MEMHOSTALLOC_PORTABLE | cu.CU_MEMHOSTALLOC_DEVICEMAP))
        )
        seen = int(check(cu, cu.cuMemHostGetDevicePointer(host, 0)))
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(host))
        memory[:] = 0
        return memory, seen

    def device_of(self, address: int) -> int | None:
        cu = self._raw
        which = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        found = cu.cuPointerGetAttribute(which, address)
        if found[0] == cu.CUresult.CUDA_ERROR_INVALID_VALUE:
            return None
        number = int(check(cu, found))
        return number if number >= 0 else None

    def memory(self) -> tuple[int, int]:
        free, total = check(self._raw, self._raw.cuMemGetInfo())
        return int(free), int(total)

    def capturing(self, stream: int) -> bool:
        none = self._raw.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
        found = self._raw.cuStreamIsCapturing(stream)
        if getattr(found[0], "name", "") == "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT":
            return True  # of the default stream, while one is captured that is ordered with it
        return check(self._raw, found) != none

    def begin_capture(self, stream: int) -> None:
        mode = self._raw.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(self._raw, self._raw.cuStreamBeginCapture(stream, mode))

    def end_capture(self, stream: int) -> Any:
        graph = check(self._raw, self._raw.cuStreamEndCapture(stream))
        try:
            return check(self._raw, self._raw.cuGraphInstantiate(graph, 0))
        finally:
            self._raw.cuGraphDestroy(graph)

    def launch_graph(self, graph: Any, stream: int) -> None:
        check(self._raw, self._raw.cuGraphLaunch(graph, stream))

    def destroy_graph(self, graph: Any) -> None:
        check(self._raw, self._raw.cuGraphExecDestroy(graph))
