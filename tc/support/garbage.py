"""No cyclic garbage collection while a compile runs."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """No cyclic garbage collection meanwhile: beside a large library one takes as long as a compile."""
    thread = threading.get_ident()
    if thread in _uncollected:
        yield
        return
    try:
        _uncollected[thread] = gc.isenabled()
        gc.disable()
        yield
    finally:
        if _uncollected.pop(thread, False):
            gc.enable()


_uncollected: dict[int, bool] = {}  # whether garbage was collected before, by thread


def _forked() -> None:
    """In the child of a fork the compiles of other threads never end: do what they would at their end."""
    thread = threading.get_ident()
    mine = thread in _uncollected
    theirs = [_uncollected.pop(t) for t in list(_uncollected) if t != thread]
    enable = any(theirs)
    if enable and mine:
        _uncollected[thread] = True
    elif enable:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
