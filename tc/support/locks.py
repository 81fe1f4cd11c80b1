"""Locks that the child of a fork can take.

The child of `os.fork()` has one thread, and a copy of every lock as it was at that moment: one that another
thread of its parent held is never released there.  What these locks guard changes only while the interpreter
lock is held, so that the child finds it whole; `abandoned` clears what its maker would have.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

_locks: WeakKeyDictionary[Any, Callable[[], None] | None] = WeakKeyDictionary()


def lock(abandoned: Callable[[], None] | None = None) -> threading.RLock:
    """A re-entrant lock, free in the child of a fork unless the thread that forked holds it.

    `abandoned` is called in the child if a thread that is not there held it.
    """
    made = threading.RLock()
    _locks[made] = abandoned
    return made


def _forked() -> None:
    for held, abandoned in list(_locks.items()):
        if held.acquire(blocking=False):  # free, or ours
            held.release()
            continue
        held._at_fork_reinit()  # as the standard library does with its own
        if abandoned is not None:
            abandoned()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
