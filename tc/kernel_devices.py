"""Calls of a kernel on arrays that are on a device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from tc.compiled import Compiled
from tc.failures import failure
from tc.pipeline.devices import DeviceLauncher
from tc.runtime import device_call
from tc.runtime.device_arrays import on_device
from tc.runtime.signature import Bound

if TYPE_CHECKING:
    from tc import _native
    from tc.kernel import Kernel, Request


class KernelDevices:
    """A part of `tc.kernel.Kernel`."""

    name: str
    _checks: str
    _elsewhere: Kernel | None = None

    def request(self) -> Request:
        """What was asked for when the kernel was compiled."""
        raise NotImplementedError

    def _for_devices(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Kernel | None:
        """The same kernel for the backend cuda, if an array is on such a device."""
        out = kwargs.get("out")
        buffers: Iterable[object] = (out,)
        if isinstance(out, Mapping):
            buffers = cast("Mapping[object, object]", out).values()
        elif isinstance(out, tuple):
            buffers = cast("tuple[object, ...]", out)
        if not any(map(on_device, (*args, *kwargs.values(), *buffers))):
            return None
        if self._elsewhere is None:
            self._elsewhere = self._for_backend("cuda")
        return self._elsewhere

    def _for_backend(self, name: str) -> Kernel:
        raise NotImplementedError

    def _launch(
        self,
        bound: Bound,
        compiled: Compiled,
        shapes: Mapping[str, tuple[int, ...]],
        reads: Collection[str],
    ) -> Any:
        """The slow call, on a device."""
        launcher = compiled.compiled
        assert isinstance(launcher, DeviceLauncher)

        def failed(record: _native.ErrorRecord) -> Exception:
            return failure(self.name, compiled.backend, compiled.program, compiled.sizes, record)

        return device_call.call(bound, shapes, launcher, reads, failed, self.name, self._checks == "sync")
