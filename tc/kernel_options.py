"""The options of a kernel at sizes: those that it was given, or those that records of measurements have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from tc.errors import Error
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import Front
from tc.pipeline.target import Backend
from tc.support import locks
from tc.tuned.choice import choose

_LOG = logging.getLogger("tc")
_MOST = 1024  # sizes that are remembered
_Result = TypeVar("_Result")


class TunedOptions:
    """Options from records, looked up once for each sizes and scalars; `given` where there are none."""

    def __init__(self, front: Front, given: Options) -> None:
        self._front, self._given = front, given
        self._known: dict[Hashable, tuple[Options, str]] = {}
        self._lock = locks.lock()

    @property
    def notes(self) -> tuple[str, ...]:
        """From where options came, for each sizes at which records had some."""
        with self._lock:
            return tuple(note for _, note in self._known.values() if note)

    def compile(
        self,
        backend: Backend,
        sizes: Mapping[str, int],
        scalars: Mapping[str, int],
        program: Callable[[], Program | None],
        dynamic: tuple[str, ...],
        make: Callable[[Options], _Result],
    ) -> _Result:
        """What `make` makes with the options for these sizes; with the given ones where it refuses them."""
        place = (tuple(sizes.items()), tuple(scalars.items()))
        with self._lock:
            known = self._known.get(place)
        if known is None:
            found = choose(self._front, backend, self._given, sizes, scalars, program, dynamic)
            known = (self._given, "") if found is None else (found.options, found.note)
            self._keep(place, *known)
        options, note = known
        if options != self._given:
            try:
                return make(options)
            except Error as e:  # what fitted once need not fit what is compiled today
                self._keep(place, self._given, f"{note}, which are of no use: {e.message}")
        return make(self._given)

    def _keep(self, place: Hashable, options: Options, note: str) -> None:
        if note:
            _LOG.debug("%s: %s", self._front.checked.name, note)
        with self._lock:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[place] = (options, note)
