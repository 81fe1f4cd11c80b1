"""The device that kernels run on, by the driver of pycuda, else of cuda-bindings.

The context is the primary one, which PyTorch and others share, and the stream the default one, which is
ordered with theirs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tc.codegen.gpu_module import Kernel
from tc.errors import BackendError
from tc.pipeline.target import Availability
from tc.support import locks, settings

from ..gpu.run import OUT_OF_MEMORY, Array, Interface, Record, run
from . import with_bindings, with_pycuda
from .driver import Driver, DriverError, OutOfMemory

_INSTALL = "pip install 'tensor-comprehensions[cuda]', which brings cuda-bindings"


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
        driver = find()
        try:
            with driver.entered():
                functions = self._load(driver, kernels)
                return run(_Session(driver), interface, kernels, functions, inputs, outputs)
        except OutOfMemory:
            return OUT_OF_MEMORY
        except DriverError as error:
            raise BackendError(
                f"{interface.name} on {driver.name}: {error}",
                code="TC0810",
                help="run it on another backend",
            ) from error

    def _load(self, driver: Driver, kernels: Sequence[Kernel]) -> Sequence[Any]:
        with self._lock:
            if self._module is None:
                module = driver.load(self.cubin)
                self._functions = [driver.function(module, k.name, k.dynamic_shared) for k in kernels]
                self._module = module
            return self._functions


@dataclass(frozen=True)
class _Session:
    driver: Driver

    def allocate(self, size: int) -> Any:
        return self.driver.allocate(size)

    def upload(self, buffer: Any, content: Array) -> None:
        self.driver.upload(buffer, content)

    def download(self, content: Array, buffer: Any) -> None:
        self.driver.download(content, buffer)

    def launch(self, function: Any, arguments: Sequence[Any], blocks: int, kernel: Kernel) -> None:
        self.driver.launch(function, arguments, blocks, kernel.threads, kernel.dynamic_shared)

    def free(self, buffer: Any) -> None:
        with suppress(DriverError):  # after a fault in a kernel everything fails
            self.driver.free(buffer)


def availability() -> Availability:
    try:
        find()
    except BackendError as error:
        return Availability(False, error.message, error.help or "")
    return Availability(True)


def find() -> Driver:
    """The device of the setting `TC_CUDA_DEVICE`.  Raises BackendError, code TC0815, where there is none."""
    return _find(settings.cuda_device())


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a package that it is in
        return False


@cache
def _find(number: int) -> Driver:
    if _installed("pycuda"):
        count, make = with_pycuda.count, with_pycuda.PycudaDriver.of
    elif _installed("cuda.bindings"):
        count, make = with_bindings.count, with_bindings.BindingsDriver
    else:
        raise BackendError("neither cuda-bindings nor pycuda is installed", code="TC0815", help=_INSTALL)
    try:
        found = count()
        if number >= found:
            raise BackendError(
                f"there are {found} CUDA devices, and none is TC_CUDA_DEVICE={number}",
                code="TC0815",
                help="devices are numbered from 0 on",
            )
        return make(number)
    except OSError as error:
        raise BackendError(
            f"there is no NVIDIA driver: {error}", code="TC0815", help="install the driver of the device"
        ) from error
    except DriverError as error:
        raise BackendError(
            f"the NVIDIA driver finds no device: {error}", code="TC0815", help="nvidia-smi shows what it sees"
        ) from error
