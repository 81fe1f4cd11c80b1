"""Arrays of PyTorch, CuPy, JAX and others on a device of a stand-in `Machine`.

Of PyTorch the real tensors are used, which say that they are on a device; of CuPy and JAX, and of PyTorch's
streams and allocator, what a call asks of them is here.  Memory that a library takes back is overwritten in
the order of the stream that it was allocated on, as its next owner would.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tc import _native
from tests.simt.machine import Machine, Stream

if TYPE_CHECKING:
    import pytest

Array = np.ndarray[Any, Any]


class Allocator:
    """What a library keeps for itself: memory in the order of its current streams."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.current: dict[int, Stream] = {}

    def stream(self, device: int) -> Stream:
        found = self.current.get(device)
        if found is None:
            found = self.current[device] = self.machine.stream(device, 0)
        return found

    @contextmanager
    def on(self, stream: Stream) -> Generator[None]:
        before = self.stream(stream.device)
        self.current[stream.device] = stream
        try:
            yield
        finally:
            self.current[stream.device] = before

    def empty(self, size: int, device: int, offset: int = 0) -> Array:
        """Bytes that go back when the array dies; its views do not keep it."""
        stream = self.stream(device)
        block = self.machine.memory(size, device, offset)
        given = block.memory.view()
        private = stream.capture is not None  # the memory then stays with the graph

        def back() -> None:
            def run() -> None:
                block.memory[:] = 0xDD
                block.live = private

            if self.machine.streams.get((device, stream.number)) is stream:
                self.machine.put(stream, "reuse", run)

        weakref.finalize(given, back)
        return given

    def put(self, target: Array, values: Any) -> None:
        """Compute `values` into memory, in the order of the current stream."""
        device = self.machine.block(target.ctypes.data)
        assert device is not None and device.device is not None
        stream = self.stream(device.device)

        def run() -> None:
            target[...] = values

        self.machine.put(stream, "produce", run)


# ---- PyTorch


class Tensor(torch.Tensor):
    """A tensor that is on the device whose memory it has."""

    machine: Machine

    @property
    def number(self) -> int:
        block = self.machine.block(torch.Tensor.data_ptr(self.as_subclass(torch.Tensor)))
        return 0 if block is None else block.device or 0

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", self.number)


class Torch:
    """PyTorch's tensors on the devices of a machine."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine, self.allocator = machine, Allocator(machine)
        plain = torch.empty

        def empty(*shape: Any, device: Any = "cpu", dtype: Any = torch.float32, **more: Any) -> torch.Tensor:
            where = torch.device(device)
            if where.type != "cuda":
                return plain(*shape, device=device, dtype=dtype, **more)
            extents = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
            return self.empty(tuple(extents), dtype, where.index or 0)

        monkeypatch.setattr(Tensor, "machine", machine, raising=False)
        monkeypatch.setattr(torch, "empty", empty)
        monkeypatch.setattr(torch.cuda, "current_stream", self.current_stream)

    def current_stream(self, device: int = 0) -> Any:
        return SimpleNamespace(cuda_stream=self.allocator.stream(device).number)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: int = 0, offset: int = 0) -> Tensor:
        size = int(np.prod(shape)) * torch.empty((), dtype=dtype).element_size()
        memory = self.allocator.empty(size, device, offset)
        made = (
            torch.frombuffer(memory, dtype=torch.uint8, count=size)
            if size
            else torch.zeros(0, dtype=torch.uint8)
        )
        return made.view(dtype).reshape(shape).as_subclass(Tensor)

    def tensor(self, values: Array, device: int = 0, offset: int = 0) -> Tensor:
        """Values that are computed in the order of the current stream."""
        made = self.empty(values.shape, torch.from_numpy(values).dtype, device, offset)
        if values.size:
            self.allocator.put(torch.Tensor.numpy(made.as_subclass(torch.Tensor)), values)
        return made

    def read(self, tensor: torch.Tensor) -> Array:
        """The values once the current stream has run."""
        assert isinstance(tensor, Tensor)
        self.machine.drain(self.allocator.stream(tensor.number))
        return tensor.as_subclass(torch.Tensor).numpy().copy()


# ---- CuPy


class CupyArray:
    """What a call asks of `cupy.ndarray`."""

    def __init__(self, memory: Array, device: int, keeper: object) -> None:
        self.memory, self.keeper = memory, keeper
        self.dtype, self.shape, self.strides = memory.dtype, memory.shape, memory.strides
        self.data = SimpleNamespace(ptr=memory.__array_interface__["data"][0], device_id=device)
        self.device = SimpleNamespace(id=device)

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Cupy:
    """CuPy on the devices of a machine, as `sys.modules["cupy"]`."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine, self.allocator = machine, Allocator(machine)
        self._device = 0
        module: Any = ModuleType("cupy")
        self.kind = type("ndarray", (CupyArray,), {})  # which tc._native knows with this module's functions
        module.ndarray, module.empty = self.kind, self.empty
        module.cuda = SimpleNamespace(get_current_stream=self._stream, Device=self._on, alloc=self._alloc)
        monkeypatch.setitem(__import__("sys").modules, "cupy", module)

    def _stream(self, device: int) -> Any:
        return SimpleNamespace(ptr=self.allocator.stream(device).number)

    @contextmanager
    def _on(self, device: int) -> Generator[None]:
        before, self._device = self._device, device
        yield
        self._device = before

    def _alloc(self, size: int) -> Any:
        memory = self.allocator.empty(size, self._device)
        return SimpleNamespace(ptr=memory.ctypes.data, memory=memory)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> CupyArray:
        kind = np.dtype(dtype)
        memory = self.allocator.empty(int(np.prod(shape)) * kind.itemsize, self._device)
        return self.kind(memory.view(kind).reshape(shape), self._device, memory)

    def array(self, values: Array, device: int = 0) -> CupyArray:
        with self._on(device):
            made = self.empty(values.shape, values.dtype)
        if values.size:
            self.allocator.put(made.memory, values)
        return made

    def read(self, array: CupyArray) -> Array:
        self.machine.drain(self.allocator.stream(array.device.id))
        return array.memory.copy()


# ---- DLPack and the array interface


class WithDlpack:
    """An array of a library whose work is on a stream of its own."""

    def __init__(
        self, machine: Machine, values: Array, device: int = 0, stream: Stream | None = None
    ) -> None:
        self.machine, self.device_number = machine, device
        self.stream = stream or machine.new_stream(device)
        self.allocator = Allocator(machine)
        self.allocator.current[device] = self.stream
        self.keeper: object = (whole := self.allocator.empty(max(1, values.nbytes), device))
        self.memory = whole[: values.nbytes].view(values.dtype).reshape(values.shape)
        self.asked: list[int] = []
        if values.size:
            self.allocator.put(self.memory, values)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device_number

    def _capsule(self, stream: int | None, versioned: bool) -> object:
        from tests.simt.machine import Event

        assert stream not in (None, 0), "a consumer says which stream it reads on"
        self.asked.append(stream)
        if stream != -1:
            event = Event()
            self.machine.record(event, self.stream)
            number = 0 if stream == 1 else stream
            self.machine.wait(self.machine.stream(self.device_number, number), event)
        kind = self.memory.dtype
        code = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[kind.kind]
        return _native.to_dlpack(
            self.memory.__array_interface__["data"][0],
            self.memory.shape,
            code,
            8 * kind.itemsize,
            2,
            self.device_number,
            self.keeper,
            versioned,
            False,
        )

    def __dlpack__(self, *, stream: int | None = None, max_version: Any = None) -> object:
        return self._capsule(stream, max_version is not None)

    def read(self) -> Array:
        self.machine.drain(self.stream)
        return self.memory.copy()


class WithOldDlpack(WithDlpack):
    """From before DLPack 1.0."""

    def __dlpack__(self, *, stream: int | None = None) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._capsule(stream, False)


class WithInterface:
    """An array with `__cuda_array_interface__` alone."""

    def __init__(self, memory: Array, **more: Any) -> None:
        self.memory = memory
        plain = memory.__array_interface__
        self.__cuda_array_interface__ = {
            "shape": memory.shape,
            "typestr": memory.dtype.str,
            "data": (plain["data"][0], False),
            "strides": None if memory.flags.c_contiguous else memory.strides,
            "version": 3,
            **more,
        }


# ---- JAX


class JaxArray(WithDlpack):
    """What a call asks of `jax.Array`; its work is on the stream of XLA."""

    deleted = False

    def is_deleted(self) -> bool:
        return self.deleted

    @property
    def dtype(self) -> Any:
        return self.memory.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape

    def devices(self) -> set[Any]:
        return {JaxDevice(self.device_number)}


class JaxDevice:
    platform = "gpu"

    def __init__(self, number: int) -> None:
        self.local_hardware_id = number

    def __hash__(self) -> int:
        return self.local_hardware_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JaxDevice) and other.local_hardware_id == self.local_hardware_id


class Jax:
    """JAX on the devices of a machine, as `sys.modules["jax"]`."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = machine
        self.streams = [machine.new_stream(d) for d in range(machine.devices)]
        module: Any = ModuleType("jax")
        module.Array = JaxArray
        module.core = SimpleNamespace(Tracer=type("Tracer", (), {}))
        module.config = SimpleNamespace(jax_enable_x64=False)
        module.numpy = SimpleNamespace(empty=self._empty)
        module.dlpack = SimpleNamespace(from_dlpack=self._from_dlpack)
        monkeypatch.setitem(__import__("sys").modules, "jax", module)

    def _empty(self, shape: tuple[int, ...], dtype: Any, device: JaxDevice) -> JaxArray:
        return self.array(np.zeros(shape, dtype), device.local_hardware_id)

    def array(self, values: Array, device: int = 0) -> JaxArray:
        return JaxArray(self.machine, values, device, self.streams[device])

    def _from_dlpack(self, source: Any) -> JaxArray:
        _, device = source.__dlpack_device__()
        capsule = source.__dlpack__(stream=self.streams[device].number, max_version=(1, 0))
        address, shape, _, code, bits, *_ = _native.describe_dlpack(capsule)
        kind = np.dtype(f"{'iuf..cb'[code]}{bits // 8}")
        made = JaxArray.__new__(JaxArray)
        made.machine, made.device_number, made.stream = self.machine, device, self.streams[device]
        made.asked = []
        found = self.machine.at(address, device)
        made.memory = found[: int(np.prod(shape)) * kind.itemsize].view(kind).reshape(shape)
        made.keeper = capsule
        return made


Make = Callable[[Array], Any]
