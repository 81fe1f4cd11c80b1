# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportAttributeAccessIssue=false
"""The CUDA driver by cuda-bindings, NVIDIA's own, which has wheels for all systems.

Buffers are addresses, so that those of other libraries can be passed as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .streams import Streams, check


def _module() -> Any:
    from cuda.bindings import driver

    return driver


def count() -> int:
    """The number of devices.  Raises DriverError, or ImportError or OSError where there is no driver."""
    cu = _module()
    try:
        check(cu, cu.cuInit(0))
    except RuntimeError as error:  # cuda-bindings finds no library of the driver
        raise OSError(" ".join(str(error).split())) from error
    return check(cu, cu.cuDeviceGetCount())


class BindingsDriver(Streams):
    """See `.driver.Driver`."""

    package = "cuda-bindings"

    def __init__(self, number: int) -> None:
        """A device after `count`.  Raises DriverError if its context cannot be made."""
        self.number = number
        self._cu = self._raw = cu = _module()
        self._device = self._device_handle = check(cu, cu.cuDeviceGet(number))
        self._context = check(cu, cu.cuDevicePrimaryCtxRetain(self._device))

    @property
    def name(self) -> str:
        raw = check(self._cu, self._cu.cuDeviceGetName(128, self._device))
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
        return int(check(self._cu, self._cu.cuDeviceGetAttribute(which, self._device)))

    @contextmanager
    def entered(self) -> Generator[None]:
        check(self._cu, self._cu.cuCtxPushCurrent(self._context))
        try:
            yield
        finally:
            self._cu.cuCtxPopCurrent()

    def load(self, image: bytes) -> Any:
        return check(self._cu, self._cu.cuModuleLoadData(image))

    def function(self, module: Any, name: str, dynamic_shared: int) -> Any:
        cu = self._cu
        found = check(cu, cu.cuModuleGetFunction(module, name.encode()))
        if dynamic_shared:  # above the limit without this attribute
            which = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cu, cu.cuFuncSetAttribute(found, which, dynamic_shared))
        return found

    def allocate(self, size: int) -> int:
        return int(check(self._cu, self._cu.cuMemAlloc(size)))

    def free(self, buffer: int) -> None:
        check(self._cu, self._cu.cuMemFree(buffer))

    def upload(self, buffer: int, content: Any) -> None:
        check(self._cu, self._cu.cuMemcpyHtoD(buffer, content.ctypes.data, content.nbytes))

    def download(self, content: Any, buffer: int) -> None:
        check(self._cu, self._cu.cuMemcpyDtoH(content.ctypes.data, buffer, content.nbytes))

    def fill(self, buffer: int, byte: int, size: int) -> None:
        """Set `size` bytes."""
        check(self._cu, self._cu.cuMemsetD8(buffer, byte, size))

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
            check(cu, found)

    def entries(self) -> tuple[int, int, int, int] | None:
        try:
            library = ctypes.CDLL("libcuda.so.1")  # which the module has loaded
        except OSError:
            return None
        names = "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuLaunchKernel"
        push, pop, launch = (ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0 for n in names)
        return push, pop, launch, int(self._context)

    def refused(self, status: int) -> None:
        check(self._cu, (self._cu.CUresult(status),))

    def synchronize(self) -> None:
        check(self._cu, self._cu.cuCtxSynchronize())


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
