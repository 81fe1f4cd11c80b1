"""Ctrl-C, kept back while a library is called that could not be left in the middle.

Python raises KeyboardInterrupt between any two of its instructions, so also between the call that makes an
object of LLVM or Halide and the one that takes charge of it, or with the lock of llvmlite taken and not yet
guarded.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred() -> Generator[None]:
    """Handle SIGINT behind the body instead of in it; only the main thread is ever interrupted."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    frames: list[FrameType | None] = []

    def note(number: int, frame: FrameType | None) -> None:
        frames.append(frame)

    try:
        signal.signal(signal.SIGINT, note)  # handles what is pending first, so it is never lost
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if frames:
            handler(signal.SIGINT, frames[0])
