"""Backends, found by entry point and loaded on first use.

A wheel adds one with an entry point in the group "tc.backends" whose object is a class without arguments
that follows `Backend`, and nothing else.
"""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from tc.errors import BackendError, BackendNotice, did_you_mean, warn
from tc.pipeline.devices import Runtime
from tc.pipeline.target import Availability, Backend
from tc.support import locks

GROUP = "tc.backends"


_lock = locks.lock()
_found: dict[str, EntryPoint] | None = None
_loaded: dict[str, Backend] = {}


def _entries() -> dict[str, EntryPoint]:
    global _found
    with _lock:
        if _found is None:
            _found = {e.name: e for e in entry_points(group=GROUP)}
        return _found


def names() -> tuple[str, ...]:
    """The names of the installed backends, whether or not they can run here."""
    return tuple(sorted(_entries()))


def load(name: str) -> Backend:
    """A backend, also one that cannot run here.

    Raises BackendError: TC0801 for a name that no installed package has, TC0803 where loading it fails.
    """
    entries = _entries()
    if name not in entries:
        known = ", ".join(names()) or "none"
        raise BackendError(
            f"there is no backend '{name}'",
            code="TC0801",
            help=did_you_mean(name, entries) or f"installed backends: {known}",
        )
    with _lock:
        if name not in _loaded:
            try:
                _loaded[name] = entries[name].load()()
            except ImportError as error:
                raise BackendError(
                    f"the backend '{name}' does not load: {error}",
                    code="TC0803",
                    help=f"install what it needs: pip install 'tensor-comprehensions[{name}]'",
                ) from error
        return _loaded[name]


def runtime(name: str) -> Runtime:
    """The module `runtime` beside a backend, which runs its exported kernels without a compiler
    (`tc.pipeline.devices.Runtime`).

    Raises BackendError: TC0801 for a name that no installed package has, TC0803 where loading it fails.
    """
    entries = _entries()
    if name not in entries:
        raise BackendError(
            f"there is no backend '{name}'",
            code="TC0801",
            help=did_you_mean(name, entries) or f"installed backends: {', '.join(names()) or 'none'}",
        )
    try:
        return cast("Runtime", import_module(f"{entries[name].module}.runtime"))
    except ImportError as error:
        raise BackendError(
            f"the backend '{name}' does not run exported kernels: {error}",
            code="TC0803",
            help=f"install what it needs: pip install 'tensor-comprehensions[{name}]'",
        ) from error


def loaded() -> tuple[Backend, ...]:
    """The backends that have been used."""
    with _lock:
        return tuple(_loaded.values())


def availability(name: str) -> Availability:
    """Whether a backend runs here; a failed import is a reason, not an error."""
    try:
        return load(name).available()
    except BackendError as error:
        if error.code == "TC0801":
            raise
        return Availability(False, error.message, error.help or "")


def get(name: str, *, run: bool = True) -> Backend:
    """A backend that runs here, or without `run` one that compiles.

    Raises BackendError: TC0801 and TC0803 as `load`, TC0802 where it cannot run, with the remedy.
    """
    backend = load(name)
    state = backend.available()
    if not (state.ok or (state.compiles and not run)):
        raise BackendError(
            f"the backend '{name}' is not available: {state.reason}", code="TC0802", help=state.remedy or None
        )
    return backend


_noticed = threading.Event()


def default_backend() -> str:
    """The first of cpu, reference that can run here."""
    for name in ("cpu", "reference"):
        if name in names() and availability(name).ok:
            break
    else:
        name = "reference"
    if name == "reference" and not _noticed.is_set():
        _noticed.set()
        warn(
            BackendNotice(
                "running on the backend 'reference', which is naive and for validation",
                help='pass backend="reference" to say so and silence this notice',
            ),
            stacklevel=4,
        )
    return name
