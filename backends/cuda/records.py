"""Error records that kernels write to host memory, so that no call has to wait for a kernel to know whether a
check failed.

A record is in pinned memory, which kernels reach and the host reads without asking the driver.  Each kernel
has one for each of its streams and sizes; a kernel that finds a subscript out of range fills it, and the
next call, or `tc.synchronize()`, raises the error.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc import _native
from tc.codegen.numerics import ERROR_WORDS
from tc.support import locks

from ..gpu.run import record_of
from .driver import CAPTURE, Driver, DriverError

_BYTES = 8 * ERROR_WORDS
_SLOTS = 256  # of a block of memory
_MOST = 4096  # records; then those used longest ago serve others


@dataclass
class Slot:
    """A record: a row of a block, its address on the device, whose it is.  A graph that was captured may
    run at any time, so what it writes to is `fixed`."""

    block: np.ndarray[Any, np.dtype[np.int64]]
    row: int
    address: int
    stream: int = 0
    failure: Callable[[Any], Exception] | None = None
    fixed: bool = False

    @property
    def words(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return self.block[self.row]


class Records:
    """The records of a device."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._slots: OrderedDict[Hashable, Slot] = OrderedDict()
        self._free: list[Slot] = []
        self._firsts: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        self._fixed = 0
        self._watched: dict[int, int] = {}  # rows of blocks, by their addresses
        self._lock = locks.lock()

    def slot(self, key: Hashable, stream: int, failure: Callable[[Any], Exception]) -> Slot:
        """The record of a kernel on a stream; `key` tells the kernel and its sizes."""
        with self._lock:
            found = self._slots.get((key, stream))
            if found is None:
                found = self._new(stream)
                self._slots[key, stream] = found
            else:
                self._slots.move_to_end((key, stream))
            found.failure = failure
            return found

    def _new(self, stream: int) -> Slot:
        if not self._free and len(self._slots) >= _MOST:
            self._recycle()
        if not self._free:
            if self._driver.capturing(stream):
                raise DriverError("an error record cannot be made now", f"{CAPTURE}UNSUPPORTED")
            memory, address = self._driver.pinned(_SLOTS * _BYTES)
            words = memory.view(np.int64).reshape(_SLOTS, ERROR_WORDS)
            self._firsts.append(words[:, 0])
            self._free = [Slot(words, k, address + k * _BYTES) for k in reversed(range(_SLOTS))]
        made = self._free.pop()
        made.stream = stream
        return made

    def fix(self, slot: Slot) -> bool:
        """Let a graph, or calls of `tc._native`, which look for errors themselves, have a record for good;
        False if they have too many already."""
        with self._lock:
            if not slot.fixed and self._fixed >= _MOST // 2:
                return False
            self._fixed += not slot.fixed
            slot.fixed = True
            first = slot.block.ctypes.data
            self._watched[first] = max(self._watched.get(first, 0), slot.row + 1)
            _native.watch_records(slot.block, self._watched[first])
            return True

    def _recycle(self) -> None:
        """Free the record that was used longest ago, unless it has an error."""
        for key, slot in self._slots.items():
            if not slot.fixed and not slot.words[0]:
                self._driver.synchronize_stream(slot.stream)
                if not slot.words[0]:
                    del self._slots[key]
                    self._free.append(slot)
                    return

    def failed(self) -> bool:
        """Whether a record has an error.  It calls no function of the driver."""
        return any(f.any() for f in self._firsts)

    def take(self) -> Exception | None:
        """One of the errors, whose record is then empty.  It waits for the stream that the error is of, so
        that the record is whole; None while that is captured."""
        with self._lock:
            slots = [s for s in self._slots.values() if s.words[0]]
        for slot in slots:
            if self._driver.capturing(slot.stream):
                continue
            self._driver.synchronize_stream(slot.stream)
            with self._lock:
                record = record_of(slot.words)
                slot.words[:] = 0
            if record is not None and slot.failure is not None:
                return slot.failure(record)
        return None
