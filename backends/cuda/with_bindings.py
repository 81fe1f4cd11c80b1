# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportAttributeAccessIssue=false
"""The CUDA driver by cuda-bindings, NVIDIA's own, which has wheels for all systems.

Buffers are addresses, so that those of other libraries can be passed as well.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .driver import DriverError, OutOfMemory


def _module() -> Any:
    from cuda.bindings import driver

    return driver


def _check(cu: Any, found: tuple[Any, ...]) -> Any:
    """What a call returns besides its status: nothing, one value, or a tuple.  Raises DriverError."""
    status, *values = found
    if status == cu.CUresult.CUDA_SUCCESS:
        return values[0] if len(values) == 1 else tuple(values)
    text = getattr(status, "name", str(status))
    known, described = cu.cuGetErrorString(status)
    if known == cu.CUresult.CUDA_SUCCESS and described:
        text += f", {described.decode()}"
    if status == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise OutOfMemory(text)
    raise DriverError(text)


def count() -> int:
    """The number of devices.  Raises DriverError, or ImportError or OSError where there is no driver."""
    cu = _module()
    try:
        _check(cu, cu.cuInit(0))
    except RuntimeError as error:  # cuda-bindings finds no library of the driver
        raise OSError(" ".join(str(error).split())) from error
    return _check(cu, cu.cuDeviceGetCount())


class BindingsDriver:
    """See `.driver.Driver`."""

    def __init__(self, number: int) -> None:
        """A device after `count`.  Raises DriverError if its context cannot be made."""
        self._cu = cu = _module()
        self._device = _check(cu, cu.cuDeviceGet(number))
        self._context = _check(cu, cu.cuDevicePrimaryCtxRetain(self._device))

    @property
    def name(self) -> str:
        raw = _check(self._cu, self._cu.cuDeviceGetName(128, self._device))
        return raw.split(b"\0")[0].decode()

    @property
    def arch(self) -> str:
        which = self._cu.CUdevice_attribute
        major, minor = (
            self.attribute(a)
            for a in (
                which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        return f"sm_{major}{minor}"

    def attribute(self, which: Any) -> int:
        """An attribute of the device, by its member of CUdevice_attribute."""
        return int(_check(self._cu, self._cu.cuDeviceGetAttribute(which, self._device)))

    @contextmanager
    def entered(self) -> Generator[None]:
        _check(self._cu, self._cu.cuCtxPushCurrent(self._context))
        try:
            yield
        finally:
            self._cu.cuCtxPopCurrent()

    def load(self, image: bytes) -> Any:
        return _check(self._cu, self._cu.cuModuleLoadData(image))

    def function(self, module: Any, name: str, dynamic_shared: int) -> Any:
        cu = self._cu
        found = _check(cu, cu.cuModuleGetFunction(module, name.encode()))
        if dynamic_shared:  # above the limit without this attribute
            which = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _check(cu, cu.cuFuncSetAttribute(found, which, dynamic_shared))
        return found

    def allocate(self, size: int) -> int:
        return int(_check(self._cu, self._cu.cuMemAlloc(size)))

    def free(self, buffer: int) -> None:
        _check(self._cu, self._cu.cuMemFree(buffer))

    def upload(self, buffer: int, content: Any) -> None:
        _check(self._cu, self._cu.cuMemcpyHtoD(buffer, content.ctypes.data, content.nbytes))

    def download(self, content: Any, buffer: int) -> None:
        _check(self._cu, self._cu.cuMemcpyDtoH(content.ctypes.data, buffer, content.nbytes))

    def fill(self, buffer: int, byte: int, size: int) -> None:
        """Set `size` bytes."""
        _check(self._cu, self._cu.cuMemsetD8(buffer, byte, size))

    def launch(
        self, function: Any, arguments: Sequence[Any], blocks: int, threads: int, shared: int, stream: int = 0
    ) -> None:
        self.start(function, self.pack(arguments), blocks, threads, shared, stream)

    def pack(self, arguments: Sequence[Any]) -> Packed:
        """Arguments for `start`: addresses, and NumPy scalars of at most 8 bytes."""
        return Packed(arguments)

    def start(
        self, function: Any, arguments: Packed, blocks: int, threads: int, shared: int, stream: int = 0
    ) -> None:
        """A launch with arguments that are packed already."""
        cu = self._cu
        found = cu.cuLaunchKernel(
            function, blocks, 1, 1, threads, 1, 1, shared, stream, arguments.addresses.ctypes.data, 0
        )
        if found[0] != cu.CUresult.CUDA_SUCCESS:
            _check(cu, found)

    def synchronize(self) -> None:
        _check(self._cu, self._cu.cuCtxSynchronize())


class Packed:
    """Arguments in host memory, a word for each, and the array of the words' addresses."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        words = np.zeros(len(arguments), np.uint64)
        for k, a in enumerate(arguments):
            if isinstance(a, np.generic):
                raw = np.frombuffer(a.tobytes(), np.uint8)
                words[k : k + 1].view(np.uint8)[: raw.size] = raw
            else:
                words[k] = a
        self.words = words
        self.addresses = words.ctypes.data + 8 * np.arange(len(arguments), dtype=np.uint64)
