"""The cache in memory: one value per key, made once, also where many threads ask for it at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tc.support import locks

T = TypeVar("T")


class CompileCache(Generic[T]):
    """Values by key, least recently used dropped first; `capacity` bounds their number."""

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = capacity
        self.hits = self.misses = 0
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, threading.RLock] = {}
        self._lock = locks.lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of `key`, made by the first who asks; an exception of `make` is not remembered."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                self.hits += 1
                return self._values[key]
            making = self._making.setdefault(key, locks.lock())
        with making:
            with self._lock:
                if key in self._values:
                    self.hits += 1
                    return self._values[key]
            try:
                value = make()
            except BaseException:
                with self._lock:
                    self._making.pop(key, None)
                raise
            with self._lock:  # at once: whoever comes now finds the value or the lock
                self.misses += 1
                self._values[key] = value
                self._making.pop(key, None)
                while len(self._values) > self.capacity:
                    self._values.popitem(last=False)
            return value

    def clear(self) -> None:
        """Forget everything; kernels that are in use keep their code."""
        with self._lock:
            self._values.clear()
