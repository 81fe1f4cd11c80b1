"""The protocols of a backend with devices, whose kernels take arrays in the memory of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tc.pipeline.target import Launcher

Stream = int  # a handle of the driver's, 0 for its default stream


@dataclass(frozen=True, slots=True)
class Layout:
    """Elements in the memory of a device: the first one's address, extents, and strides in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int


class Memory(Protocol):
    """Device memory; it is freed, in the order of its stream, when the object is deleted."""

    @property
    def address(self) -> int: ...


class Device(Protocol):
    """A device.

    Its methods are called inside `entered()`, which raises errors of the driver as BackendError: TC0810,
    TC0818 (memory), TC0819 (the device is lost), TC0820 (not while a graph is captured).
    """

    @property
    def number(self) -> int: ...

    @property
    def name(self) -> str: ...

    def entered(self, what: str = "") -> AbstractContextManager[None]:
        """Make it the device of the calling thread; `what` names the operation in errors."""
        ...

    def own_stream(self) -> Stream:
        """A stream of `tc`, for libraries that have no current one."""
        ...

    def order(self, stream: Stream, after: Stream) -> None:
        """Let all later work on `stream` run after the present work on the stream `after`."""
        ...

    def hold(self, stream: Stream, objects: Sequence[object]) -> None:
        """Keep objects until the present work on the stream has run."""
        ...

    def allocate(self, size: int, stream: Stream) -> Memory:
        """At least `size` bytes, aligned to 256, for later work on the stream."""
        ...

    def copy(self, target: Layout, source: Layout, stream: Stream) -> None:
        """Copy elements, with any strides, to as many others."""
        ...

    def download(self, target: Any, address: int, stream: Stream) -> None:
        """Copy to a dense NumPy array, once the present work on the stream has run."""
        ...

    def capturing(self, stream: Stream) -> bool:
        """Whether work on the stream is captured in a graph."""
        ...

    def synchronize(self, stream: Stream) -> None:
        """Wait for the work on the stream, and raise the errors of kernels that ran there."""
        ...

    def prepare_copies(self) -> None:
        """Load what `copy` needs, so that a capture can follow."""
        ...

    def raise_pending(self) -> None:
        """Raise the error of a kernel that has ended with one, if it has not been raised yet."""
        ...

    def capture(self, stream: Stream) -> AbstractContextManager[list[Any]]:
        """Capture the work that the body puts on the stream in a graph, which is then the one element of the
        list."""
        ...

    def replay(self, graph: Any, stream: Stream) -> None: ...

    def drop(self, graph: Any) -> None:
        """Release a graph that will not be launched again and does not run any more."""
        ...

    def new_stream(self) -> Stream: ...


class Devices(Protocol):
    """The devices of a backend, all of one DLPack kind."""

    @property
    def kind(self) -> str:
        """Such as cuda, as PyTorch names its devices."""
        ...

    def device(self, number: int) -> Device:
        """By the driver's number.  Raises BackendError, code TC0815, where there is none."""
        ...

    def holding(self, address: int) -> int | None:
        """The number of the device whose memory this is; None for memory of no device."""
        ...

    def describe(self) -> tuple[str, ...]:
        """A line for each device that there is; none where there is no driver."""
        ...

    def synchronize(self) -> None:
        """Wait for all that was launched, and raise what went wrong there."""
        ...

    def raise_pending(self, what: str) -> None:
        """Raise the error of a kernel that has ended with one, on any device; `what` names the operation that
        is about to run."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """A call of kernels on a device.

    `arguments` are in signature order, inputs, then outputs: addresses of dense arrays that begin at
    multiples of 16 bytes, and scalars as 0-D NumPy arrays; `shapes` are those of the arrays.  `workspace`
    allocates so many bytes for work on the stream.  `failure` makes the error of a record that a kernel
    leaves.  `wait`: wait until the kernels have run, and raise their errors.
    """

    device: Device
    stream: Stream
    arguments: Sequence[Any]
    shapes: Sequence[tuple[int, ...]]
    workspace: Any
    failure: Any
    wait: bool = False


@runtime_checkable
class DeviceLauncher(Launcher, Protocol):
    """Kernels that also run on arrays of a device."""

    def launch(self, call: DeviceCall) -> None:
        """Put the kernels on the stream.  Raises BackendError as `Device` does, and BoundsError with
        `wait`."""
        ...

    def prepare(self, call: DeviceCall) -> None:
        """Load what `launch` needs, and have its memory made, so that a capture can follow."""
        ...

    def launches(self, call: DeviceCall) -> Launches | None:
        """The launches of `launch` for calls like this one, for `tc._native`; None where the driver has no
        such entry points."""
        ...

    def refused(self, device: int, what: str, status: int) -> None:
        """Raise the error of a launch that the driver refused with a status."""
        ...


@dataclass(frozen=True, slots=True)
class Launches:
    """The work that a call puts on a stream, for `tc._native`; `workspace` is in bytes."""

    device: Any  # tc._native.DeviceSpec
    workspace: int


@runtime_checkable
class HasDevices(Protocol):
    """A backend whose kernels are such launchers."""

    @property
    def devices(self) -> Devices: ...


class Runtime(Protocol):
    """The module `runtime` of a backend whose bundles have modules: it loads no compiler."""

    devices: Devices

    def choose(self, targets: Sequence[str], name: str, number: int | None = None) -> int:
        """The target, of these, whose code is best for a device, by default the usual one; `name` is the
        kernel's.  Raises BackendError, code TC0830, if none fits."""
        ...

    def restored(self, name: str, facts: Mapping[str, Any], code: bytes) -> Launcher:
        """A kernel from exported code."""
        ...
