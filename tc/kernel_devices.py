"""Calls of a kernel on arrays that are on a device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tc import _native
from tc.dtypes import BY_NAME
from tc.errors import BackendError
from tc.instances.compiled import Compiled
from tc.instances.failures import failure
from tc.instances.kernel_signature import foreign_integers
from tc.pipeline.devices import DeviceCall, DeviceLauncher, Devices
from tc.runtime import device_call, device_graph, dispatch
from tc.runtime.device_arrays import on_device
from tc.runtime.signature import Bound, Signature
from tc.warm_start.kernel import ServedCall

if TYPE_CHECKING:
    from tc.dtypes import DType
    from tc.kernel import Kernel, Ready, Request
    from tc.pipeline.front import Front
    from tc.pipeline.target import Backend


_ENTRIES = 1024


@dataclass(frozen=True)
class Launched:
    """What the entries of `tc._native` keep, and who knows what the driver says of them."""

    compiled: Compiled
    launcher: DeviceLauncher
    number: int


class KernelDevices(_native.Dispatcher):
    """A part of `tc.kernel.Kernel`."""

    name: str
    _front: Front
    _signature: Signature
    _devices: Devices | None
    _checks: str
    _asked_backend: str | None
    _elsewhere: Kernel | None = None
    _device_entries: dict[Any, _native.Entry]

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
        return self.for_cuda()

    def _call_elsewhere(self, elsewhere: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call by the kernel for the backend cuda, whose entry then serves this kernel, too."""
        value = elsewhere(*args, **kwargs)
        for entry in elsewhere._entries()[:1]:
            self._add(entry)
        return value

    def _for_backend(self, name: str) -> Kernel:
        asked, make = self.request(), cast("type[Kernel]", type(self))
        return make(self._front, name, asked.options, asked.checks, asked.dynamic)

    def _launch(
        self,
        bound: Bound,
        compiled: Compiled,
        shapes: Mapping[str, tuple[int, ...]],
        reads: Collection[str],
    ) -> Any:
        """The slow call, on a device."""
        launcher, failed = self._launcher(compiled)
        wait = self._checks == "sync"
        value, prepared = device_call.call(bound, shapes, launcher, reads, failed, self.name, wait)
        if not wait and self._accumulated <= bound.out.keys() and device_call.is_plain(bound, prepared):
            entry = self._entry(bound, compiled, shapes, launcher, prepared.call)
            if entry is not None:
                self._add(entry)
        return value

    def _entry(
        self,
        bound: Bound,
        compiled: Compiled,
        shapes: Mapping[str, tuple[int, ...]],
        launcher: DeviceLauncher,
        call: DeviceCall,
    ) -> _native.Entry | None:
        """What `tc._native` launches for calls like this one; None where it cannot."""
        types = {n: a.dtype for n, a in bound.arrays.items()}
        return self._entry_of(compiled, types, shapes, launcher, call)

    def _entry_of(
        self,
        compiled: Compiled,
        types: Mapping[str, DType],
        shapes: Mapping[str, tuple[int, ...]],
        launcher: DeviceLauncher,
        call: DeviceCall,
    ) -> _native.Entry | None:
        key = (id(compiled), call.device.number, call.stream, tuple(types.values()))
        found = self._device_entries.get(key)
        if found is not None:
            return found
        made = launcher.launches(call)
        if made is None:
            return None
        spec = dispatch.call_spec(self._signature, types, shapes, compiled.scalars, compiled.inout)
        owner = Launched(compiled, launcher, call.device.number)
        entry = spec.entry(made.device[3], made.workspace, False, owner, (), made.device)
        if len(self._device_entries) >= _ENTRIES:
            self._device_entries.clear()
        self._device_entries[key] = entry
        return entry

    @property
    def asked_backend(self) -> str | None:
        """The backend that was asked for; None: chosen by the arrays of a call."""
        return self._asked_backend

    def for_cuda(self) -> Kernel:
        """The same kernel for the backend cuda.  BackendError as `tc.compile` for options that it lacks."""
        if self._asked_backend == "cuda":
            return cast("Kernel", self)
        if self._elsewhere is None:
            self._elsewhere = self._for_backend("cuda")
        return self._elsewhere

    def entry_on(
        self, ready: Ready, types: Mapping[str, DType], device: int, stream: int
    ) -> tuple[_native.Entry | None, DeviceLauncher]:
        """What `tc._native` launches on a stream of a device for calls of these sizes, None where it cannot,
        and who knows what the driver says of them; `types` are of parameters with others than declared.
        Raises BackendError as `tc.pipeline.devices.Device` does."""
        compiled, shapes, _ = ready
        self._backend()
        assert self._devices is not None
        launcher, failed = self._launcher(compiled)
        signature, where = self._signature, self._devices.device(device)
        extents = [() if p.scalar else shapes[p.name] for p in signature.params]
        extents += [shapes[o.name] for o in signature.outputs]
        call = DeviceCall(where, stream, [0] * len(extents), extents, None, failed)
        with where.entered(self.name):
            return self._entry_of(compiled, types, shapes, launcher, call), launcher

    def raise_pending(self) -> None:
        """Raise the error that a kernel has left on a device, if it has not been raised yet."""
        self._backend()
        if self._devices is not None:
            self._devices.raise_pending(self.name)

    def _launcher(self, compiled: Compiled) -> tuple[DeviceLauncher, Callable[[Any], Exception]]:
        """What launches a kernel, and what makes errors of what it records."""
        launcher = cast("DeviceLauncher", compiled.compiled)  # as the backend has devices

        def failed(record: _native.ErrorRecord) -> Exception:
            return failure(self.name, compiled.backend, compiled.program, compiled.sizes, record)

        return launcher, failed

    def graph(self, *args: Any, **kwargs: Any) -> device_graph.Graph:
        """A call with these arrays, which are on a device, as a CUDA graph.

        It is recorded now and does not run.  `graph()` launches it: it reads the arrays as they are then,
        and writes `graph.results` (or `out=`), on the current stream.  Raises what the call would, and
        BackendError, code TC0820, for arrays of JAX or of the host.
        """
        elsewhere = self._for_devices(args, kwargs) if self._asked_backend is None else None
        if elsewhere is not None:
            return elsewhere.graph(*args, **kwargs)
        bound, (compiled, shapes, _) = self._bound(args, kwargs)
        reads = compiled.program.images if bound.aliases else ()
        if bound.device is None:
            raise BackendError(
                f"{self.name}: a graph is of arrays on a CUDA device, and these are on the host",
                code="TC0820",
                help="call the kernel itself",
            )
        launcher, failed = self._launcher(compiled)
        return device_graph.record(bound, shapes, launcher, reads, failed, self.name)

    # ---- what calls on the host and on a device share

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Bound, Ready]:
        """A call with its arguments checked, and the kernel for it."""
        self._backend()
        bound = self._signature.bind(args, kwargs, self._devices)
        scalars = bound.integers(self._front.specialized)
        given = frozenset(self._accumulated & bound.out.keys())
        integers = foreign_integers(self._front, bound)
        aliases = tuple(sorted(bound.aliases))
        return bound, self.ready(bound.sizes, scalars, integers, given, aliases)

    @property
    def _accumulated(self) -> set[str]:
        """The results that start from a buffer where the caller gives one."""
        return {x.name for x in self._front.checked.returns if x.mode == "accumulate"}

    def _failed(self, owner: Compiled | Launched | ServedCall, error: _native.ErrorRecord, /) -> Any:
        """Raise the error that a kernel recorded, or what refused to launch it."""
        if isinstance(owner, ServedCall):
            c = owner.call
            integers = {n: BY_NAME[t] for n, t in c.integers.items()}
            owner = self.ready(c.sizes, c.scalars, integers, frozenset(c.given))[0]
        if isinstance(owner, Launched):
            owner.launcher.refused(owner.number, self.name, error[1])
            owner = owner.compiled
        raise failure(self.name, owner.backend, owner.program, owner.sizes, error)

    def _backend(self) -> Backend:
        raise NotImplementedError

    def ready(
        self,
        sizes: Mapping[str, int],
        scalars: Mapping[str, int],
        integers: Mapping[str, DType],
        given: frozenset[str] = frozenset(),
        aliases: tuple[tuple[str, str], ...] = (),
    ) -> Ready:
        """The kernel for these sizes."""
        raise NotImplementedError
