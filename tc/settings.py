"""Settings: how `tc` behaves, not what it computes.  Each is read from the environment once per use.

| variable | meaning |
|---|---|
| `TC_VERIFY=1` | follow every pass that moves work by its oracle |
| `TC_DUMP=DIR` | write every stage of every compile into DIR |
| `TC_NUM_THREADS=N` | threads of the CPU backend's pool |
"""

from __future__ import annotations

import os
from pathlib import Path

from tc.errors import ArgumentError

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def verify() -> bool:
    """Whether passes are followed by their oracles (`TC_VERIFY`)."""
    return _flag("TC_VERIFY")


def dump_directory() -> Path | None:
    """Where the stages of a compile are written (`TC_DUMP`), or None."""
    text = os.environ.get("TC_DUMP", "")
    return Path(text) if text else None


def _flag(name: str) -> bool:
    text = os.environ.get(name, "").lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ArgumentError(
        f"the environment variable {name}={text!r} is neither on nor off",
        code="TC0512",
        help=f"set {name}=1 or 0",
    )
