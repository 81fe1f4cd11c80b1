# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false
"""The device that kernels run on; the only module that imports pycuda.

The context is the primary one, which PyTorch and others share, and the stream the default one, which is
ordered with theirs.  pycuda has a stack of contexts for each thread, on which a call pushes the context and
pops it.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tc.codegen.gpu_source import Kernel
from tc.errors import BackendError
from tc.pipeline.target import Availability
from tc.support import locks, settings

from ..gpu.run import OUT_OF_MEMORY, Array, Interface, Record, run

_INSTALL = "pip install 'tensor-comprehensions[cuda]', which builds pycuda with an installed CUDA toolkit"


@dataclass(frozen=True)
class Device:
    """A CUDA device; `cu` is pycuda.driver."""

    cu: Any
    device: Any
    context: Any

    @property
    def name(self) -> str:
        return str(self.device.name())

    @property
    def arch(self) -> str:
        major, minor = self.device.compute_capability()
        return f"sm_{major}{minor}"

    @contextmanager
    def entered(self) -> Generator[None]:
        """Make the device's context that of the calling thread."""
        self.context.push()
        try:
            yield
        finally:
            self.context.pop()


@dataclass
class Kernels:
    """The functions of a cubin, which the first call loads."""

    cubin: bytes = field(repr=False)
    _functions: Sequence[Any] = ()
    _module: Any = None
    _lock: Any = field(repr=False, default_factory=locks.lock)

    def run(
        self,
        interface: Interface,
        kernels: Sequence[Kernel],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
    ) -> Record | None:
        """See `..gpu.run.run`.  Raises BackendError: TC0815 without a device, TC0810 if the device fails."""
        device = find()
        cu = device.cu
        with device.entered():
            try:
                return run(_Session(cu), interface, kernels, self._load(cu, kernels), inputs, outputs)
            except cu.MemoryError:
                return OUT_OF_MEMORY
            except cu.Error as error:
                raise BackendError(
                    f"{interface.name} on {device.name}: {error}",
                    code="TC0810",
                    help="run it on another backend",
                ) from error

    def _load(self, cu: Any, kernels: Sequence[Kernel]) -> Sequence[Any]:
        with self._lock:
            if self._module is None:
                module = cu.module_from_buffer(self.cubin)
                functions = [module.get_function(k.name) for k in kernels]
                for k, f in zip(kernels, functions, strict=True):
                    if k.dynamic_shared:  # above the limit without this attribute
                        f.set_attribute(cu.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, k.dynamic_shared)
                self._functions, self._module = functions, module
            return self._functions


@dataclass(frozen=True)
class _Session:
    cu: Any

    def allocate(self, size: int) -> Any:
        return self.cu.mem_alloc(size)

    def upload(self, buffer: Any, content: Array) -> None:
        self.cu.memcpy_htod(buffer, content)

    def download(self, content: Array, buffer: Any) -> None:
        self.cu.memcpy_dtoh(content, buffer)

    def launch(self, function: Any, arguments: Sequence[Any], blocks: int, kernel: Kernel) -> None:
        function(*arguments, grid=(blocks, 1), block=(kernel.threads, 1, 1), shared=kernel.dynamic_shared)

    def free(self, buffer: Any) -> None:
        with suppress(self.cu.Error):  # after a fault in a kernel everything fails
            buffer.free()


def availability() -> Availability:
    try:
        find()
    except BackendError as error:
        return Availability(False, error.message, error.help or "")
    return Availability(True)


def find() -> Device:
    """The device of the setting `TC_CUDA_DEVICE`.  Raises BackendError, code TC0815, where there is none."""
    return _find(settings.cuda_device())


@cache
def _find(number: int) -> Device:
    if importlib.util.find_spec("pycuda") is None:
        raise BackendError("pycuda is not installed", code="TC0815", help=_INSTALL)
    try:
        # A pycuda that was built without the driver does not name its library.
        ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise BackendError(
            f"there is no NVIDIA driver: {error}", code="TC0815", help="install the driver of the device"
        ) from error
    import pycuda.driver as cu

    try:
        cu.init()
        count = cu.Device.count()
        if number >= count:
            raise BackendError(
                f"there are {count} CUDA devices, and none is TC_CUDA_DEVICE={number}",
                code="TC0815",
                help="devices are numbered from 0 on",
            )
        device = cu.Device(number)
        return Device(cu, device, device.retain_primary_context())
    except cu.Error as error:
        raise BackendError(
            f"the NVIDIA driver finds no device: {error}", code="TC0815", help="nvidia-smi shows what it sees"
        ) from error
