# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false
"""The CUDA driver by pycuda, which builds with an installed CUDA toolkit; the only module that imports it.

pycuda has a stack of contexts for each thread, on which a call pushes the context and pops it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from .driver import DriverError, OutOfMemory


def _module() -> Any:
    # A pycuda that was built without the driver does not name its library.
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    import pycuda.driver as cu

    return cu


@contextmanager
def _errors(cu: Any) -> Generator[None]:
    try:
        yield
    except cu.MemoryError as error:
        raise OutOfMemory(str(error)) from error
    except cu.Error as error:
        raise DriverError(str(error)) from error


def count() -> int:
    """The number of devices.  Raises DriverError, or ImportError or OSError where there is no driver."""
    cu = _module()
    with _errors(cu):
        cu.init()
        return int(cu.Device.count())


class PycudaDriver:
    """See `.driver.Driver`."""

    def __init__(self, cu: Any, device: Any, context: Any) -> None:
        self._cu, self._device, self._context = cu, device, context

    @staticmethod
    def of(number: int) -> PycudaDriver:
        """A device after `count`.  Raises DriverError if its context cannot be made."""
        cu = _module()
        with _errors(cu):
            device = cu.Device(number)
            return PycudaDriver(cu, device, device.retain_primary_context())

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
        function(*arguments, grid=(blocks, 1), block=(threads, 1, 1), shared=shared, **on)

    def synchronize(self) -> None:
        self._context.synchronize()
