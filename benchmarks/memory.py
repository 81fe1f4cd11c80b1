"""The memory of one call: how far it raises the high-water mark of the process.

The mark is reset before (Linux: `/proc/self/clear_refs`) after the C library has given back what it keeps
free, so that what a call allocates shows, its results included.  Buffers that a library keeps between calls
do not; for `tc` the workspace, which it keeps too, is added by whoever reports.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path
from typing import Any


class HighWater:
    """Takes the mark when made; `growth()` is what was added since, in bytes, or None where Linux's files
    cannot be read."""

    def __init__(self) -> None:
        gc.collect()
        with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
        self.before = self._reset()

    def growth(self) -> int | None:
        after = _status("VmHWM")
        return None if self.before is None or after is None else max(0, after - self.before)

    def _reset(self) -> int | None:
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return None
        return _status("VmRSS")


def of_call(kernel: Any, *arguments: Any) -> int | None:
    """Bytes of a call of a `tc` kernel that has run on such arguments before: results and scratch."""
    from tc.ir.evaluate import evaluate

    water = HighWater()
    found = kernel(*arguments)
    growth = water.growth()
    if growth is None:
        return None
    results = found if isinstance(found, tuple) else (found,)
    made = kernel.specialize(**kernel.sizes_of(*arguments))
    workspace = made.compiled.workspace
    space = workspace if isinstance(workspace, int) else evaluate(workspace, made.sizes)
    return max(growth, sum(int(r.nbytes) for r in results)) + space


def _status(key: str) -> int | None:
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(key + ":"):
            return 1024 * int(line.split()[1])
    return None
