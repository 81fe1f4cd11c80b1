"""Kernels that are launched one after the other, on arrays of the host or of a device; shared by kernels that
were compiled in this process and stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from tc.codegen.gpu_module import Kernel
from tc.pipeline.devices import DeviceCall, Launches

from .interface import Interface
from .run import Array, Record


class Functions(Protocol):
    """The kernels of a module, loaded on a device."""

    def run(
        self,
        interface: Interface,
        kernels: Sequence[Kernel],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
    ) -> Record | None:
        """See `.run.run`.  Raises BackendError: TC0810 if the device fails, TC0815 without a device."""
        ...


class DeviceFunctions(Functions, Protocol):
    """Such kernels that also run on arrays that are on a device."""

    def launch(self, interface: Interface, kernels: Sequence[Kernel], call: DeviceCall) -> None:
        """Put the kernels on the stream of a call."""
        ...

    def prepare(self, interface: Interface, kernels: Sequence[Kernel], call: DeviceCall) -> None:
        """Load what `launch` needs."""
        ...

    def launches(self, interface: Interface, kernels: Sequence[Kernel], call: DeviceCall) -> Launches | None:
        """What `launch` does; see `tc.pipeline.devices.DeviceLauncher`."""
        ...

    def refused(self, device: int, what: str, status: int) -> None:
        """Raise the error of a launch."""
        ...


class Launched:
    """The calls of a dataclass with `functions` and an `interface`."""

    functions: Functions
    interface: Interface

    def steps(self) -> tuple[Kernel, ...]:
        """The launches, in order."""
        raise NotImplementedError

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Record | None:
        """Copy dense arrays in signature order to the device, launch, copy the results back.

        Returns the record of a failed check or a failed allocation, as `_native.Entry.run` does.
        """
        return self.functions.run(self.interface, self.steps(), inputs, outputs)

    def launch(self, call: DeviceCall) -> None:
        """Run on arrays of a device; see `tc.pipeline.devices.DeviceLauncher`."""
        self._on_device.launch(self.interface, self.steps(), call)

    def prepare(self, call: DeviceCall) -> None:
        """Make ready for a capture of `launch`."""
        self._on_device.prepare(self.interface, self.steps(), call)

    def launches(self, call: DeviceCall) -> Launches | None:
        """What `launch` does, for `tc._native`."""
        return self._on_device.launches(self.interface, self.steps(), call)

    def refused(self, device: int, what: str, status: int) -> None:
        """Raise the error of a launch that the driver refused."""
        self._on_device.refused(device, what, status)

    @property
    def _on_device(self) -> DeviceFunctions:
        return cast("DeviceFunctions", self.functions)  # whose check takes longer than a launch
