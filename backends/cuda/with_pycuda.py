# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false
"""The CUDA driver by pycuda, which builds with an installed CUDA toolkit; the only module that imports it.

pycuda has a stack of contexts for each thread, on which a call pushes the context and pops it.  Streams,
graphs and memory in the order of streams are the driver's own functions (`entries.py`), in the same context.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .driver import DriverError, OutOfMemory
from .entries import Entries
from .streams import Streams, check


def _module() -> Any:
    # A pycuda that was built without the driver does not name its library.
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    import pycuda.driver as cu

    return cu


# pycuda's errors have what the driver says, and not the name of the result.
_STATUS = {
    "out of memory": "CUDA_ERROR_OUT_OF_MEMORY",
    "illegal memory access": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "misaligned address": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
    "launch timed out": "CUDA_ERROR_LAUNCH_TIMEOUT",
    "illegal instruction": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "uncorrectable ECC": "CUDA_ERROR_ECC_UNCORRECTABLE",
    "no kernel image": "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "stream is capturing": "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
}


@contextmanager
def _errors(cu: Any) -> Generator[None]:
    try:
        yield
    except cu.Error as error:
        text = str(error)
        status = next((s for part, s in _STATUS.items() if part in text), "")
        kind = OutOfMemory if isinstance(error, cu.MemoryError) else DriverError
        raise kind(text, status) from error


def count() -> int:
    """The number of devices.  Raises DriverError, or ImportError or OSError where there is no driver."""
    cu = _module()
    with _errors(cu):
        cu.init()
        return int(cu.Device.count())


class PycudaDriver(Streams):
    """See `.driver.Driver`."""

    package = "pycuda"

    def __init__(self, cu: Any, device: Any, context: Any, number: int = 0, raw: Any = None) -> None:
        self._cu, self._device, self._context = cu, device, context
        self._raw, self._device_handle, self.number = raw, number, number

    @staticmethod
    def of(number: int) -> PycudaDriver:
        """A device after `count`.  Raises DriverError if its context cannot be made."""
        cu = _module()
        with _errors(cu):
            device = cu.Device(number)
            return PycudaDriver(cu, device, device.retain_primary_context(), number, Entries())

    @property
    def name(self) -> str:
        return str(self._device.name())

    @property
    def arch(self) -> str:
        major, minor = self._device.compute_capability()
        return f"sm_{major}{minor}"

    @contextmanager
    def entered(self) -> Generator[None]:
        with _errors(self._cu):
            self._context.push()
            try:
                yield
            finally:
                self._context.pop()

    def load(self, image: bytes) -> Any:
        return self._cu.module_from_buffer(image)

    def function(self, module: Any, name: str, dynamic_shared: int) -> Any:
        found = module.get_function(name)
        if dynamic_shared:  # above the limit without this attribute
            which = self._cu.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            found.set_attribute(which, dynamic_shared)
        return found

    def allocate(self, size: int) -> Any:
        with _errors(self._cu):
            return self._cu.mem_alloc(size)

    def free(self, buffer: Any) -> None:
        with _errors(self._cu):
            buffer.free()

    def upload(self, buffer: Any, content: Any) -> None:
        self._cu.memcpy_htod(buffer, content)

    def download(self, content: Any, buffer: Any) -> None:
        self._cu.memcpy_dtoh(content, buffer)

    def launch(
        self, function: Any, arguments: Sequence[Any], blocks: int, threads: int, shared: int, stream: int = 0
    ) -> None:
        on = {"stream": self._cu.ExternalStream(stream)} if stream else {}
        given = [np.uintp(a) if type(a) is int else a for a in arguments]
        function(*given, grid=(blocks, 1), block=(threads, 1, 1), shared=shared, **on)

    def entries(self) -> tuple[int, int, int, int] | None:
        return None  # functions are objects of pycuda's

    def refused(self, status: int) -> None:
        check(self._raw, (self._raw.status_of(status),))

    def synchronize(self) -> None:
        self._context.synchronize()
