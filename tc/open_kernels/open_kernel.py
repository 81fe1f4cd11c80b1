"""Kernels of programs that leave something open until arrays arrive: ranks, or element types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tc.dtypes import BY_NAME
from tc.errors import ArgumentError, Source
from tc.kernel import Kernel
from tc.lang.notations import Known
from tc.range_table import RangeTable
from tc.support import locks
from tc.warm_start.card import Known as KnownByName
from tc.warm_start.card import Place

Make = Callable[[Known], Kernel]


class OpenKernel:
    """Specialises itself for its arguments, and keeps the kernels."""

    def __init__(self, name: str, source: Source, make: Make) -> None:
        self.name = name
        self.source = source.text
        self._make = make
        self._kernels: dict[Known, Kernel] = {}
        self._lock = locks.lock()
        self.recipe: tuple[Any, ...] = ()  # what it is compiled from, to travel
        self.card: Place | None = None  # of the call of `tc.compile` that made it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel_for(*args, **kwargs)(*args, **kwargs)

    def kernel_for(self, *args: Any, **kwargs: Any) -> Kernel:
        """The kernel that a call with these arguments runs."""
        raise NotImplementedError

    def decided_by_arrays(self, known: Known) -> bool:
        """Whether arrays, not numbers, say what was open; only then does the type of an argument tell the
        instance."""
        raise NotImplementedError

    def how(self) -> str:
        """What to write for the kernel of something given."""
        raise NotImplementedError

    def export(self, path: Any, sizes: Any = (), **targets: Any) -> Path:
        """Write a bundle; arguments as in `Kernel.export`.  `types` has the types of type variables; of a SaC
        program it holds the kernels that were made so far."""
        return import_module("tc.bundle.export").export(self, path, sizes, **targets)

    def export_c(self, path: Any, sizes: Any = (), **targets: Any) -> tuple[Path, Path]:
        """Write a C header and a shared object; arguments as in `Kernel.export_c`."""
        return import_module("tc.bundle.c_interface").export_c(self, path, sizes, **targets)

    def of(self, known: Known) -> Kernel:
        """The kernel of what was open, as `kernels` names it."""
        return self._kernel(known)

    def named(self, known: KnownByName) -> Kernel:
        """The same, with types by name."""
        return self._kernel(tuple((n, rank, BY_NAME[t]) for n, rank, t in known))

    @property
    def kernels(self) -> Mapping[Known, Kernel]:
        """The kernels so far, by what was open."""
        with self._lock:
            return dict(self._kernels)

    def _kernel(self, known: Known) -> Kernel:
        with self._lock:
            if known in self._kernels:
                return self._kernels[known]
        made = self._make(known)
        if self.decided_by_arrays(known):
            made.card = self.card
        with self._lock:
            return self._kernels.setdefault(known, made)

    @property
    def ranges(self) -> RangeTable:
        """The ranges of the kernel that was used first; see `at` for those of others."""
        return self._first("ranges").ranges

    @property
    def notes(self) -> tuple[str, ...]:
        return self._first("notes").notes

    def _first(self, what: str) -> Kernel:
        for kernel in self.kernels.values():
            return kernel
        raise ArgumentError(
            f"{self.name} has no {what} before it was called",
            code="TC0552",
            help=f"write kernel.{self.how()}.{what}",
        )
