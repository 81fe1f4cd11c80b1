"""The compile cache: in memory one compile per key, also when many threads ask at once, and kernels on disk.

The key says all that selects machine code: source, entry, backend, options, checks, types, specialised
scalars and sizes (docs/language.md, "Calling"); of dynamic sizes the typical values.  On disk, the versions
of what compiles are part of it too.
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from tc import __version__, locks, settings, store
from tc.errors import CacheNotice, warn
from tc.float_mode import standard
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline import stage
from tc.registry import Backend

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


# ---- on disk


@runtime_checkable
class Restoring(Protocol):
    """A backend whose kernels outlive the process.

    What its `compile` returns has a method `to_blob() -> bytes | None` (see `store.pack`), None for a kernel
    that cannot be kept.  `from_blob` makes of those bytes what runs the same (`address`, `workspace`,
    `release_gil`, or `run`); stages it need not show.  `version_key` says what else the code depends on: the
    machine, its instruction set, the backend's own version and sources (`store.sources`).
    """

    name: str

    def version_key(self) -> str: ...

    def from_blob(self, program: Program, blob: bytes) -> Any: ...


def load_or_compile(
    backend: Backend, program: Program, options: Options, typical: Mapping[str, int], *key: object
) -> tuple[Any, bool]:
    """What `backend.compile` returns, or from disk what runs the same; and whether it came from there.

    `typical` are values of the sizes that the program leaves symbolic.  `key` and the versions of everything
    that compiles determine the program.  The disk is left alone for backends without `from_blob`, by the
    setting `TC_CACHE=0`, under `TC_VERIFY=1`, which has every pass run, and where an option is a function,
    which no key can tell.
    """
    told = not callable(options.fusion)
    kept = store.default() if isinstance(backend, Restoring) and told and not settings.verify() else None
    if kept is None or not isinstance(backend, Restoring):
        return compile_program(backend, program, options, typical), False
    with stage("load"):
        name = store.digest("kernel", versions(), backend.name, backend.version_key(), options, *key)
        blob = kept.get(name)
        if blob is not None:
            try:
                return backend.from_blob(program, blob), True
            except Exception as e:  # what is on disk must not be able to fail a compile
                why = getattr(e, "message", None) or f"{type(e).__name__}: {e}"
                notice = CacheNotice(f"a stored kernel is of no use and is compiled again: {why}")
                warn(notice, stacklevel=4)
    made = compile_program(backend, program, options, typical)
    blob = made.to_blob() if hasattr(made, "to_blob") else None
    if blob is not None:
        kept.put(name, blob)
    return made, False


@standard
def compile_program(backend: Backend, program: Program, options: Options, typical: Mapping[str, int]) -> Any:
    """What the backend makes of a program; only those with dynamic sizes take typical values."""
    compiler: Any = backend
    return compiler.compile(program, options, typical) if typical else compiler.compile(program, options)


@functools.cache
def versions() -> tuple[str, ...]:
    """What compiles, apart from the backend: `tc` and its sources as they are now, isl, LLVM, the system."""
    here = store.sources(Path(__file__).parent)
    return (__version__, here, sys.platform, platform.machine(), _version("islpy"), _version("llvmlite"))


def _version(package: str) -> str:
    said = getattr(sys.modules.get(package), "__version__", None)
    if said is not None:  # most often it is loaded by now, and nothing need be looked for on disk
        return said
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
