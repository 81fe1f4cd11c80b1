"""The device that kernels run on, by the driver of pycuda, else of cuda-bindings.

The context is the primary one, which PyTorch and others share.  Calls on arrays of the host use the default
stream, those on arrays of a device the current one of their library.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tc.codegen.gpu_module import Kernel
from tc.errors import BackendError, PerformanceNotice, warn
from tc.pipeline.devices import DeviceCall, Launches
from tc.pipeline.target import Availability
from tc.support import locks, settings

from ..gpu.interface import Interface
from ..gpu.plan import ERROR, WORKSPACE, Place, Plan, sizes_of
from ..gpu.plan import plan as plan_of
from ..gpu.run import Array, Record, run, scalar_value
from . import with_bindings, with_pycuda
from .devices import CudaDevice
from .driver import CAPTURE, Driver, DriverError
from .records import Slot

_STEPS, _PARAMETERS = 1024, 256  # the most launches, and parameters of one, that tc._native does
_PLANS = 1024  # sizes for which a kernel's launches are remembered
_INSTALL = "pip install 'tensor-comprehensions[cuda]', which brings cuda-bindings"


def _no_memory(size: int) -> int:
    return 0


_told: set[str] = set()


def _tell_of_copies(name: str) -> None:
    """Issue a notice at a process's first call with host arrays."""
    if _told:
        return
    _told.add(name)
    text = f"{name} on cuda: arrays of the host are copied to the device at every call, and results back"
    warn(PerformanceNotice(text, help="pass arrays that are on the device"), stacklevel=None)


@dataclass
class Kernels:
    """The functions of a cubin, which the first call on a device loads there."""

    cubin: bytes = field(repr=False)
    _functions: dict[CudaDevice, Sequence[Any]] = field(
        repr=False, default_factory=dict[CudaDevice, "Sequence[Any]"]
    )
    _plans: dict[tuple[int, ...], Plan] = field(repr=False, default_factory=dict[tuple[int, ...], Plan])
    _lock: Any = field(repr=False, default_factory=locks.lock)
    _serial: int = field(repr=False, default_factory=itertools.count().__next__)

    def run(
        self,
        interface: Interface,
        kernels: Sequence[Kernel],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
    ) -> Record | None:
        """See `..gpu.run.run`.  Raises BackendError: TC0815 without a device, and as `CudaDevice.entered`."""
        found = device(settings.cuda_device())
        _tell_of_copies(interface.name)
        with found.entered(interface.name):
            functions = self._loaded(found, kernels, None)
            return run(_Session(found), interface, kernels, functions, inputs, outputs)

    def launch(self, interface: Interface, kernels: Sequence[Kernel], call: DeviceCall) -> None:
        """Put the kernels on the stream of a call whose arrays are on its device."""
        found = call.device
        assert isinstance(found, CudaDevice)
        CudaDevices().raise_pending(interface.name)
        functions, plan, slot, workspace = self._ready(found, interface, kernels, call)
        values: list[Any] = [a if isinstance(a, int) else scalar_value(a) for a in call.arguments]
        values += [workspace, slot.address if slot else 0]  # at -2 and -1, as in `Step.places`
        for step in plan.steps:
            kernel = kernels[step.kernel]
            given = [values[p] if isinstance(p, int) else p for p in step.places]
            found.driver.launch(
                functions[step.kernel],
                given,
                step.blocks,
                kernel.threads,
                kernel.dynamic_shared,
                call.stream,
            )
        if call.wait and slot is not None:
            found.synchronize(call.stream)

    def prepare(self, interface: Interface, kernels: Sequence[Kernel], call: DeviceCall) -> None:
        """Load the functions, and make the error record and the workspace."""
        found = call.device
        assert isinstance(found, CudaDevice)
        _, _, slot, _ = self._ready(found, interface, kernels, call)
        if slot is not None:
            found.records.fix(slot)

    def launches(self, interface: Interface, kernels: Sequence[Kernel], call: DeviceCall) -> Launches | None:
        """What `launch` does, for `tc._native`; None for a driver whose functions have no addresses."""
        found = call.device
        assert isinstance(found, CudaDevice)
        entries = found.driver.entries()
        if entries is None:
            return None
        quiet = replace(call, workspace=_no_memory)
        functions, plan, slot, _ = self._ready(found, interface, kernels, quiet)
        count = len(call.arguments)
        if len(plan.steps) > _STEPS or any(len(s.places) > _PARAMETERS for s in plan.steps):
            return None
        if slot is not None and not found.records.fix(slot):
            return None
        constants: list[int] = []

        def word(place: Place) -> int:
            """Of a call: arguments, workspace, record, constants."""
            if isinstance(place, int):
                return place if place >= 0 else {WORKSPACE: count, ERROR: count + 1}[place]
            constants.append(int(place) & (1 << 64) - 1)
            return count + 1 + len(constants)

        steps = tuple(
            (
                int(functions[s.kernel]),
                s.blocks,
                kernels[s.kernel].threads,
                kernels[s.kernel].dynamic_shared,
                tuple(word(p) for p in s.places),
            )
            for s in plan.steps
        )
        record, stream = (0, None) if slot is None else (slot.address, call.stream)
        spec = (found.number, *entries, steps, tuple(constants), record, stream)
        return Launches(spec, plan.workspace)

    def refused(self, device: int, what: str, status: int) -> None:
        """Raise the error of a launch that the driver refused."""
        found = _devices[device]
        with found.entered(what):
            found.driver.refused(status)

    def _ready(
        self, on: CudaDevice, interface: Interface, kernels: Sequence[Kernel], call: DeviceCall
    ) -> tuple[Sequence[Any], Plan, Slot | None, int]:
        """The functions, the launches, the error record, the address of the workspace."""
        functions = self._loaded(on, kernels, call.stream)
        sizes = sizes_of(interface, dict(zip(interface.params, call.shapes, strict=True)))
        key = tuple(sizes.values())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = plan_of(interface, kernels, sizes)
        slot = None
        if plan.checked:
            slot = on.records.slot((self._serial, key), call.stream, call.failure)
        return functions, plan, slot, call.workspace(plan.workspace) if plan.workspace else 0

    def _loaded(self, on: CudaDevice, kernels: Sequence[Kernel], stream: int | None) -> Sequence[Any]:
        """The functions on a device; loading them is not possible while the stream is captured."""
        functions = self._functions.get(on)
        if functions is not None:
            return functions
        with self._lock:
            functions = self._functions.get(on)
            if functions is None:
                driver = on.driver
                if stream is not None and driver.capturing(stream):
                    raise DriverError("the kernel is not loaded", f"{CAPTURE}UNSUPPORTED")
                module = driver.load(self.cubin)
                functions = [driver.function(module, k.name, k.dynamic_shared) for k in kernels]
                self._functions[on] = functions
            return functions


@dataclass(frozen=True)
class _Session:
    device: CudaDevice

    @property
    def driver(self) -> Driver:
        return self.device.driver

    def allocate(self, size: int) -> Any:
        return self.device.buffer(size)

    def upload(self, buffer: Any, content: Array) -> None:
        self.driver.upload(buffer, content)

    def download(self, content: Array, buffer: Any) -> None:
        self.driver.download(content, buffer)

    def launch(self, function: Any, arguments: Sequence[Any], blocks: int, kernel: Kernel) -> None:
        self.driver.launch(function, arguments, blocks, kernel.threads, kernel.dynamic_shared)

    def free(self, buffer: Any) -> None:
        with suppress(DriverError):  # after a fault in a kernel everything fails
            self.driver.free(buffer)


class CudaDevices:
    """See `tc.pipeline.devices.Devices`."""

    kind = "cuda"

    def device(self, number: int) -> CudaDevice:
        return device(number)

    def holding(self, address: int) -> int | None:
        first = device(settings.cuda_device())
        with first.entered():
            return first.driver.device_of(address)

    def describe(self) -> tuple[str, ...]:
        try:
            return tuple(_described(find(n)) for n in range(_package()[0]()))
        except (BackendError, DriverError, OSError):
            return ()

    def synchronize(self) -> None:
        for one in list(_devices.values()):
            with one.entered("tc.synchronize"):
                one.synchronize_all()

    def raise_pending(self, what: str) -> None:
        for one in list(_devices.values()):
            if one.records.failed():
                with one.entered(what):
                    one.raise_pending()


def _described(driver: Driver) -> str:
    with driver.entered():
        free, total = driver.memory()
    memory = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    return f"cuda:{driver.number} {driver.name}, {driver.arch}, {memory}, by {driver.package}"


_devices: dict[int, CudaDevice] = {}
_devices_lock = locks.lock()


def device(number: int) -> CudaDevice:
    """By number.  Raises BackendError, code TC0815, where there is none."""
    driver = find(number)
    found = _devices.get(number)
    if found is None or found.driver is not driver:
        with _devices_lock:
            found = _devices.get(number)
            if found is None or found.driver is not driver:
                found = _devices[number] = CudaDevice(driver)
    return found


def availability() -> Availability:
    try:
        find()
    except BackendError as error:
        return Availability(False, error.message, error.help or "")
    return Availability(True)


def find(number: int | None = None) -> Driver:
    """The driver with a device, by default that of the setting `TC_CUDA_DEVICE`.  Raises BackendError, code
    TC0815, where there is none."""
    return _find(settings.cuda_device() if number is None else number)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a package that it is in
        return False


def _package() -> tuple[Callable[[], int], Callable[[int], Driver]]:
    """How devices are counted and made, by the package that is installed."""
    if _installed("pycuda"):
        return with_pycuda.count, with_pycuda.PycudaDriver.of
    if _installed("cuda.bindings"):
        return with_bindings.count, with_bindings.BindingsDriver
    raise BackendError("neither cuda-bindings nor pycuda is installed", code="TC0815", help=_INSTALL)


@cache
def _find(number: int) -> Driver:
    count, make = _package()
    try:
        found = count()
        if number >= found:
            raise BackendError(
                f"there are {found} CUDA devices, and none is {number}, of TC_CUDA_DEVICE or an array",
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
