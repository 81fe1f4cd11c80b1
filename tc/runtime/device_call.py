"""A call on arrays of a device: copies of what lies otherwise than kernels take it, results, the launch.

The host waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tc.ir.loops import VECTOR
from tc.pipeline.devices import Device, DeviceCall, DeviceLauncher, Layout, Stream
from tc.runtime.arrays import ArrayView, mark_written
from tc.runtime.device_arrays import DeviceArray, dense_strides
from tc.runtime.device_memory import Allocator, delivered
from tc.runtime.dispatch import result_type, scalar
from tc.runtime.signature import Bound

Shapes = Mapping[str, tuple[int, ...]]


@dataclass
class Prepared:
    """A call whose arguments are where kernels take them, and what remains to be done after the launch."""

    call: DeviceCall
    buffers: list[DeviceArray]
    first: list[tuple[Layout, Layout]]  # copies before the launch: target and source
    back: list[tuple[Layout, Layout]]  # and after it
    kept: list[object] = field(default_factory=list[object])

    def launch(self, launcher: DeviceLauncher) -> None:
        """Put copies and kernels on the stream."""
        device, stream = self.call.device, self.call.stream
        for target, source in self.first:
            device.copy(target, source, stream)
        launcher.launch(self.call)
        for target, source in self.back:
            device.copy(target, source, stream)


def call(
    bound: Bound,
    shapes: Shapes,
    launcher: DeviceLauncher,
    reads: Collection[str],
    failure: Callable[[Any], Exception],
    what: str,
    wait: bool,
) -> tuple[Any, Prepared]:
    """Run kernels on a bound call whose arrays are on a device; `reads`: the inputs that they read.

    `failure` makes the error of a record that a kernel leaves; with `wait` it is raised now.  Returns the
    results, and what was launched.  Raises BackendError as `tc.pipeline.devices.Device` does.
    """
    bound.check_outputs(shapes)
    device = bound.device
    assert device is not None
    with device.entered(what):
        with ordered(bound, device):
            prepared = prepare(bound, shapes, reads, failure, wait)
            prepared.launch(launcher)
        return results(bound, prepared), prepared


def is_plain(bound: Bound, prepared: Prepared) -> bool:
    """Whether `tc._native` can do such a call by itself: of dense arrays of PyTorch, or of CuPy, on the
    current stream."""
    arrays = (*bound.arrays.values(), *bound.out.values())
    libraries = {a.library for a in arrays}
    return (
        not prepared.first
        and not prepared.back
        and not bound.aliases
        and libraries in ({"torch"}, {"cupy"})
        and all(isinstance(a, DeviceArray) and a.stream is None for a in arrays)
        and not any(isinstance(x, complex) for x in bound.scalars.values())
        and (not bound.out or len(bound.out) == len(bound.signature.outputs))
    )


def prepare(
    bound: Bound, shapes: Shapes, reads: Collection[str], failure: Callable[[Any], Exception], wait: bool
) -> Prepared:
    """The arguments of a launch, with memory for copies where kernels cannot take an array as it is."""
    device, stream, first = bound.device, bound.stream, bound.first
    assert device is not None and first is not None
    memory = Allocator(device, stream, first)
    aliased = {name for _, name in bound.aliases if name in reads}
    kept: list[object] = []
    before: list[tuple[Layout, Layout]] = []
    back: list[tuple[Layout, Layout]] = []

    def scratch(size: int) -> int:
        address, keeper = memory.scratch(size)
        kept.append(keeper)
        return address

    def taken(array: ArrayView, copied: bool, written: bool) -> int:
        """The address at which kernels find the elements."""
        if not copied and array.is_dense and array.address % VECTOR == 0:
            return array.address
        size = array.dtype.itemsize
        source = Layout(array.address, array.shape, array.array.strides, size)
        target = Layout(scratch(array.array.size * size), array.shape, dense_strides(array.shape, size), size)
        if array.array.size:
            before.append((target, source))
            if written:
                back.append((source, target))
        return target.address

    arguments: list[Any] = []
    extents: list[tuple[int, ...]] = []
    for p in bound.signature.params:
        if p.scalar:
            arguments.append(scalar(p, bound))
            extents.append(())
        else:
            array = bound.arrays[p.name]
            arguments.append(taken(array, p.name in aliased, False))
            extents.append(array.shape)
    buffers: list[DeviceArray] = []
    for o in bound.signature.outputs:
        given = bound.out.get(o.name)
        buffer = given or memory.result(o.dtype, shapes[o.name], o.name, o.span)
        assert isinstance(buffer, DeviceArray)
        buffers.append(buffer)
        arguments.append(taken(buffer, False, True))
        extents.append(buffer.shape)
    made = DeviceCall(device, stream, arguments, extents, scratch, failure, wait)
    return Prepared(made, buffers, before, back, kept)


@contextmanager
def ordered(bound: Bound, device: Device, holding: bool = True) -> Generator[None]:
    """What is launched in the body runs after what makes the arrays, and before what uses the buffers;
    `holding`: arrays whose library knows nothing of the stream are kept until then."""
    stream = bound.stream
    arrays = [a for a in (*bound.arrays.values(), *bound.out.values()) if isinstance(a, DeviceArray)]
    streams: set[Stream] = {a.stream for a in arrays if a.stream is not None}
    foreign = [a for a in arrays if a.stream is not None or a.library in ("jax", "other")]
    for other in streams:
        device.order(stream, other)
    try:
        yield
    finally:  # also where only a part was launched
        if foreign and holding:
            device.hold(stream, [(a.owner, a.keeper) for a in foreign])
    for other in {b.stream for b in bound.out.values() if isinstance(b, DeviceArray)}:
        if other is not None:
            device.order(other, stream)


def results(bound: Bound, prepared: Prepared) -> Any:
    """What a call returns."""
    for o, buffer in zip(bound.signature.outputs, prepared.buffers, strict=True):
        if o.name in bound.out:
            mark_written(buffer)
    made = [delivered(b) for b in prepared.buffers]
    kind = result_type(bound.signature)
    return made[0] if kind is None else kind(*made)
