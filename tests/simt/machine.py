"""A machine with CUDA devices whose memory is the host's: streams, events, graphs, and what the driver
refuses.

Work that is put on a stream waits there until something asks for it: a copy to the host, a synchronisation,
another stream that waits for an event.  So what is read in the order of the wrong stream, or before what
makes it, is seen to be wrong.  Memory begins with, and is given back as, bytes that no program computes.
"""

from __future__ import annotations

import bisect
import importlib
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, Any]
POISON = 0xCB


def refuse(name: str, text: str = "") -> Exception:
    """The error of a call of the driver, of the package that is in use: a script on a rented device imports
    it as `backends`, and `tc` as `tc_backends`."""
    found = sys.modules.get("tc_backends.cuda.driver") or importlib.import_module("backends.cuda.driver")
    status = f"CUDA_ERROR_{name}"
    kind = found.OutOfMemory if name == "OUT_OF_MEMORY" else found.DriverError
    return kind(f"{status}{', ' if text else ''}{text}", status)


@dataclass
class Block:
    """Memory of a device (None: pinned memory of the host)."""

    memory: Bytes
    device: int | None
    live: bool = True

    @property
    def begin(self) -> int:
        return int(self.memory.ctypes.data)


@dataclass
class Operation:
    """What waits on a stream; `after` is what has to run before, on other streams."""

    name: str
    run: Callable[[], None]
    after: tuple[Operation, Stream] | None = None
    done: bool = False


@dataclass
class Stream:
    number: int
    device: int
    queue: deque[Operation] = field(default_factory=deque[Operation])
    capture: list[Operation] | None = None


@dataclass
class Event:
    recorded: tuple[Operation, Stream] | None = None
    captured: bool = False


class Machine:
    """`log` has the calls of the driver as tuples; `fail_at` is the number of the call, from 1 on, that fails
    with the status `failure`; `room` limits the memory of each device.  An `eager` machine has one order
    for all streams and does at once what is put on them."""

    def __init__(self, devices: int = 1, room: int = 1 << 28, eager: bool = False) -> None:
        self.devices, self.room, self.eager = devices, room, eager
        self.log: list[tuple[Any, ...]] = []
        self.calls = 0
        self.fail_at, self.failure = 0, "UNKNOWN"
        self.lost: Exception | None = None
        self.streams: dict[tuple[int, int], Stream] = {}
        self.graphs: dict[int, list[Operation]] = {}
        self._begins: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._numbers = itertools.count(0x1000, 0x10)
        self._threads = threading.local()
        self._process = os.getpid()
        self.lock = threading.RLock()

    # ---- calls

    @property
    def contexts(self) -> list[int]:
        """The devices whose contexts this thread has entered."""
        if not hasattr(self._threads, "contexts"):
            self._threads.contexts = []
        return self._threads.contexts

    def enter(self, device: int, name: str, *more: Any) -> None:
        """Each call of the driver comes here first."""
        self.calls += 1
        self.log.append((name, *more))
        if os.getpid() != self._process:
            raise refuse("NOT_INITIALIZED", "after a fork")
        if self.lost is not None:
            raise self.lost
        if self.fail_at == self.calls:
            error = refuse(self.failure, "injected")
            if getattr(error, "sticky", False):
                self.lost = error
            raise error
        if name != "entered" and (not self.contexts or self.contexts[-1] != device):
            raise refuse("INVALID_CONTEXT", f"{name} outside the context of device {device}")

    def not_while_capturing(self, name: str) -> None:
        """A call that a thread which captures may not make."""
        for s in self.streams.values():
            if s.capture is not None:
                raise refuse("STREAM_CAPTURE_UNSUPPORTED", name)

    @contextmanager
    def inside(self, device: int) -> Generator[None]:
        self.contexts.append(device)
        try:
            yield
        finally:
            assert self.contexts.pop() == device

    # ---- memory

    def memory(self, size: int, device: int | None, offset: int = 0, fill: int = POISON) -> Block:
        """New memory, `offset` bytes behind a multiple of 256."""
        with self.lock:
            if device is not None and self.used(device) + size > self.room:
                raise refuse("OUT_OF_MEMORY")
            raw = np.empty(size + 512 + offset, np.uint8)
            first = -raw.ctypes.data % 256 + offset
            return self.adopt(raw[first : first + size], device, fill)

    def adopt(self, memory: Bytes, device: int | None, fill: int | None = None) -> Block:
        """Memory of others as that of a device."""
        if fill is not None:
            memory[:] = fill
        block = Block(memory, device)
        begin, end = block.begin, block.begin + memory.size
        with self.lock:
            # What lay there before has been given back to the system.
            first = bisect.bisect_right(self._begins, begin)
            while first and self._end(first - 1) > begin:
                first -= 1
            last = bisect.bisect_left(self._begins, end)
            for old in self._begins[first:last]:
                del self._blocks[old]
            self._begins[first:last] = [begin]
            self._blocks[begin] = block
        return block

    def _end(self, k: int) -> int:
        block = self._blocks[self._begins[k]]
        return block.begin + block.memory.size

    def used(self, device: int) -> int:
        return sum(b.memory.size for b in self._blocks.values() if b.live and b.device == device)

    def live(self) -> list[Block]:
        """The memory of devices that has not been given back."""
        return [b for b in self._blocks.values() if b.live and b.device is not None]

    def release(self, address: int) -> None:
        block = self._blocks.get(address)
        if block is None or not block.live:
            raise refuse("INVALID_VALUE", f"{address:#x} is no memory that can be freed")
        block.live = False
        block.memory[:] = POISON

    def block(self, address: int) -> Block | None:
        """The memory that an address lies in."""
        k = bisect.bisect_right(self._begins, address)
        if not k:
            return None
        found = self._blocks[self._begins[k - 1]]
        return found if address <= found.begin + found.memory.size else None

    def at(self, address: int, device: int) -> Bytes:
        """The memory from an address on, as the device sees it."""
        block = self.block(address)
        if block is None:
            raise refuse("ILLEGAL_ADDRESS", f"{address:#x} is no memory")
        if not block.live:
            raise refuse("ILLEGAL_ADDRESS", f"{address:#x} has been freed")
        if block.device not in (None, device):
            raise refuse("ILLEGAL_ADDRESS", f"{address:#x} is memory of device {block.device}")
        return block.memory[address - block.begin :]

    # ---- streams

    def stream(self, device: int, number: int) -> Stream:
        if number == 0 and (device, 0) not in self.streams:
            self.streams[device, 0] = Stream(0, device)
        found = self.streams.get((device, number))
        if found is None:
            raise refuse("INVALID_HANDLE", f"{number:#x} is no stream of device {device}")
        return found

    def new_stream(self, device: int) -> Stream:
        number = next(self._numbers)
        self.streams[device, number] = Stream(number, device)
        return self.streams[device, number]

    def put(self, stream: Stream, name: str, run: Callable[[], None]) -> None:
        with self.lock:
            (stream.queue if stream.capture is None else stream.capture).append(Operation(name, run))
            if self.eager:
                self.drain(stream)

    def record(self, event: Event, stream: Stream) -> None:
        with self.lock:
            mark = Operation("mark", lambda: None)
            event.recorded, event.captured = (mark, stream), stream.capture is not None
            (stream.queue if stream.capture is None else stream.capture).append(mark)

    def wait(self, stream: Stream, event: Event) -> None:
        with self.lock:
            if event.recorded is None:
                return
            if event.captured:
                source = event.recorded[1]
                if source.capture is None:
                    raise refuse("STREAM_CAPTURE_ISOLATION")
                stream.capture = source.capture  # it joins the capture
            elif stream.capture is not None:
                raise refuse("STREAM_CAPTURE_ISOLATION", "an event from outside the capture")
            else:
                stream.queue.append(Operation("wait", lambda: None, event.recorded))

    def drain(self, stream: Stream, until: Operation | None = None) -> None:
        """Run what waits on a stream, and what that waits for on others."""
        with self.lock:
            while stream.queue and not (until is not None and until.done):
                one = stream.queue.popleft()
                if one.after is not None and not one.after[0].done:
                    self.drain(one.after[1], one.after[0])
                one.done = True
                try:
                    one.run()
                except Exception as error:
                    if getattr(error, "sticky", False):
                        self.lost = error
                    raise

    def drain_all(self, device: int) -> None:
        for stream in list(self.streams.values()):
            if stream.device == device:
                self.drain(stream)

    def begin_capture(self, stream: Stream) -> None:
        if stream.capture is not None or stream.number == 0:
            raise refuse("STREAM_CAPTURE_UNSUPPORTED", "begin")
        stream.capture = []

    def end_capture(self, stream: Stream) -> int:
        if stream.capture is None:
            raise refuse("ILLEGAL_STATE", "no capture")
        made = stream.capture
        for other in self.streams.values():
            if other.capture is made:
                other.capture = None
        number = next(self._numbers)
        self.graphs[number] = made
        return number

    def end_captures(self) -> None:
        """What a caller would do that fails in the middle of one."""
        for stream in self.streams.values():
            stream.capture = None

    def replay(self, graph: int, stream: Stream) -> None:
        for o in self.graphs[graph]:
            self.put(stream, o.name, o.run)

    def names(self, skip: Sequence[str] = ("entered",)) -> list[str]:
        """The calls in the log."""
        return [x[0] for x in self.log if x[0] not in skip]
