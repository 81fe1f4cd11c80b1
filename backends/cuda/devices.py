"""Devices as calls on their arrays see them (`tc.pipeline.devices`), by the driver that is installed."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from tc.errors import BackendError
from tc.pipeline.devices import Layout
from tc.support import locks

from .copies import Copier
from .driver import CAPTURE, TOO_OLD, Driver, DriverError, OutOfMemory
from .records import Records

Stream = int
_WHAT = "the call"
_current = threading.local()  # `device`: the one whose context this thread has entered last


class StreamMemory:
    """Memory that goes back in the order of its stream, and of the streams that others use it on."""

    def __init__(self, device: CudaDevice, address: int, stream: Stream) -> None:
        self.address = address
        self._device, self._stream = device, stream
        self._others: set[Stream] = set()

    def used_on(self, stream: Stream) -> None:
        """Also read or written in the order of this stream."""
        self._others.add(stream)

    def __del__(self) -> None:
        with suppress(TypeError, AttributeError):  # at the end of the process
            self._device.give_back(self.address, self._stream, self._others)


class CudaDevice:
    """See `tc.pipeline.devices.Device`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.records = Records(driver)
        self.lost = ""  # why, if it is
        self._process = os.getpid()
        self._lock = locks.lock()
        self._own: Stream | None = None
        self._copier: Copier | None = None
        self._events: list[Any] = []
        self._unfreed: deque[tuple[int, Stream, set[Stream]]] = deque()
        self._held: deque[tuple[Any, Sequence[object]]] = deque()

    @property
    def number(self) -> int:
        return self.driver.number

    @property
    def name(self) -> str:
        return self.driver.name

    @contextmanager
    def entered(self, what: str = "") -> Generator[None]:
        """Raises BackendError: TC0819 for a device that is lost, TC0821 in a process that was forked from one
        that had the device; others as `_error` says."""
        before = getattr(_current, "device", None)
        if before is self:
            yield  # the context is current, and who made it so tells of errors
            return
        if self.lost:
            raise _lost(what, self.driver.name, self.lost)
        if os.getpid() != self._process:
            raise BackendError(
                f"{what or _WHAT}: this process was forked from one that used CUDA, which the driver "
                "does not allow",
                code="TC0821",
                help="start processes by 'spawn' or 'forkserver', or fork before the first use of CUDA",
            )
        try:
            with self.driver.entered():
                _current.device = self
                try:
                    yield
                finally:
                    _current.device = before
        except DriverError as error:
            raise self._error(error, what) from error

    def _error(self, error: DriverError, what: str) -> BackendError:
        """What to tell of a refusal: TC0810 (failed), TC0811 (code of another architecture), TC0818 (memory),
        TC0819 (the device is lost), TC0820 (not while a stream is captured)."""
        name, what = self.driver.name, what or _WHAT
        if error.sticky:
            self.lost = str(error)
            return _lost(what, name, self.lost)
        if isinstance(error, OutOfMemory):
            return BackendError(
                f"{what} on 'cuda': out of memory: {error}",
                code="TC0818",
                help="free arrays, have the library give back what it keeps (torch.cuda.empty_cache()), "
                "or compute in parts",
            )
        if error.status.startswith(CAPTURE):
            return BackendError(
                f"{what} on {name} cannot be captured: {error}",
                code="TC0820",
                help="call the kernel once with arrays of these sizes before the capture: that compiles and "
                "loads it",
            )
        if error.status in TOO_OLD:
            return BackendError(
                f"{what} on {name}: {error}",
                code="TC0811",
                help=f"compile it for this device, options={{'isa': '{self.driver.arch}'}}, or update "
                "the driver",
            )
        return BackendError(f"{what} on {name}: {error}", code="TC0810", help="run it on another backend")

    # ---- streams

    def own_stream(self) -> Stream:
        with self._lock:
            if self._own is None:
                self._own = self.driver.stream()
            return self._own

    def new_stream(self) -> Stream:
        return self.driver.stream()

    def order(self, stream: Stream, after: Stream) -> None:
        if stream == after:
            return
        event = self._event()
        try:
            self.driver.record(event, after)
            self.driver.wait(stream, event)
        finally:
            self._events.append(event)

    def _event(self) -> Any:
        try:
            return self._events.pop()
        except IndexError:
            return self.driver.event()

    def hold(self, stream: Stream, objects: Sequence[object]) -> None:
        if self.driver.capturing(stream):
            raise DriverError(
                "arrays of this library are kept until they have been read, which a graph cannot say",
                f"{CAPTURE}UNSUPPORTED",
            )
        event = self._event()
        self.driver.record(event, stream)
        self._held.append((event, objects))
        self._let_go()

    def _let_go(self) -> None:
        """Of what has been read, oldest first."""
        while self._held:
            try:
                event, objects = self._held.popleft()
            except IndexError:  # another thread has just done so
                return
            if not self.driver.done(event):
                self._held.appendleft((event, objects))
                return
            self._events.append(event)
            del objects

    # ---- memory

    def allocate(self, size: int, stream: Stream) -> StreamMemory:
        self._give_back_later()
        with self._counting(size):
            return StreamMemory(self, self.driver.allocate_on(size, stream), stream)

    def buffer(self, size: int) -> Any:
        """Memory in no order, which the driver frees."""
        with self._counting(size):
            return self.driver.allocate(size)

    @contextmanager
    def _counting(self, size: int) -> Generator[None]:
        """Adds to an out-of-memory error how many bytes were requested and how many are free."""
        try:
            yield
        except OutOfMemory as error:
            text = f"{size} bytes are asked for"
            with suppress(DriverError, AttributeError):
                free, total = self.driver.memory()
                text += f", and {free} of {total} are free"
            raise OutOfMemory(f"{text} ({error})", error.status) from error

    def give_back(self, address: int, stream: Stream, others: set[Stream]) -> None:
        """Free memory once these streams have run all earlier work."""
        if self.lost or os.getpid() != self._process:
            return
        try:
            with self.entered():
                if self.driver.capturing(stream):
                    raise DriverError("not now", f"{CAPTURE}UNSUPPORTED")
                for other in others:
                    self.order(stream, other)
                self.driver.free_on(address, stream)
        except (BackendError, DriverError):  # no caller can handle an error when an array is dropped
            self._unfreed.append((address, stream, others))

    def _give_back_later(self) -> None:
        """Free what could not be freed before."""
        for _ in range(len(self._unfreed)):
            with suppress(IndexError):  # another thread does the same
                self.give_back(*self._unfreed.popleft())

    def copy(self, target: Layout, source: Layout, stream: Stream) -> None:
        copier = self._copier
        if copier is None:
            if self.driver.capturing(stream):
                raise DriverError("the kernel that copies is not loaded", f"{CAPTURE}UNSUPPORTED")
            copier = self._load_copier()
        copier.copy(target, source, stream)

    def prepare_copies(self) -> None:
        self._load_copier()

    def _load_copier(self) -> Copier:
        with self._lock:
            if self._copier is None:
                self._copier = Copier(self.driver)
            return self._copier

    def download(self, target: np.ndarray[Any, Any], address: int, stream: Stream) -> None:
        self.driver.synchronize_stream(stream)
        if target.nbytes:
            self.driver.download(target.reshape(-1).view(np.uint8), address)

    # ---- waiting and graphs

    def capturing(self, stream: Stream) -> bool:
        return self.driver.capturing(stream)

    def synchronize(self, stream: Stream) -> None:
        self.driver.synchronize_stream(stream)
        self.raise_pending()

    def synchronize_all(self) -> None:
        """Wait for all that was launched on the device."""
        self.driver.synchronize()
        self._give_back_later()
        self._let_go()
        self.raise_pending()

    def raise_pending(self) -> None:
        """Raise the error of a kernel that has found one, if none has been raised for it yet."""
        if self.records.failed():
            error = self.records.take()
            if error is not None:
                raise error

    @contextmanager
    def capture(self, stream: Stream) -> Generator[list[Any]]:
        made: list[Any] = []
        self.driver.begin_capture(stream)
        try:
            yield made
        except BaseException:
            with suppress(DriverError):
                self.driver.destroy_graph(self.driver.end_capture(stream))
            raise
        made.append(self.driver.end_capture(stream))

    def replay(self, graph: Any, stream: Stream) -> None:
        self.driver.launch_graph(graph, stream)

    def drop(self, graph: Any) -> None:
        if self.lost or os.getpid() != self._process:
            return
        with suppress(BackendError, DriverError), self.entered():
            self.driver.destroy_graph(graph)


def _lost(what: str, name: str, why: str) -> BackendError:
    return BackendError(
        f"{what or _WHAT}: {name} is lost to this process: {why}",
        code="TC0819",
        help="start another process: the driver refuses everything in this one.  If a kernel of tc did it, "
        "please report the program; checks='safe' and compute-sanitizer find indices out of range",
    )
