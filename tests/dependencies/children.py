"""Processes that a bug of a dependency may end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]

# Bytes of C's heap that a call leaves behind, on average.
LEAKED = """
import ctypes, gc

class Heap(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(n, ctypes.c_size_t) for n in names.split()]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Heap

def leaked(call, times):
    for k in range(times):
        call(k)
    gc.collect()
    before = mallinfo().uordblks
    for k in range(times, 2 * times):
        call(k)
    gc.collect()
    return (mallinfo().uordblks - before) / times
"""


def run(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a Python script did, in a process of its own; `variables` are of its environment."""
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    environment = {**os.environ, "TC_CACHE": "0", **variables}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=_ROOT, env=environment, timeout=100, check=False
    )


def output(script: str, *arguments: str) -> str:
    """What a script prints that ends well."""
    done = run(script, *arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
