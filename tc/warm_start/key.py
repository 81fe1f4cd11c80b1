"""The name of a card: a digest of all that the machine code of a call of `tc.compile` depends on.

These are the arguments, the sources and versions of what compiles, and the processor.  Where one of them
cannot be told without the compiler there is no card.
"""

from __future__ import annotations

import json
import operator
import os
import platform
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tc import __version__, _native
from tc.cache import disk
from tc.support import settings

_BACKENDS = (None, "cpu")  # those whose code `tc._native.MachineCode` loads, and what chooses among backends
_PACKAGES = ("islpy", "llvmlite", "halide", "lark")  # besides tc, what compiles
_OF_THE_MOMENT = ("processor", "cpu MHz", "bogomips", "BogoMIPS", "core id", "apicid", "initial apicid")


def key(source: object, backend: object, **arguments: Any) -> str | None:
    """The name of the card of a call of `tc.compile`; None where there can be none: another backend, an
    argument that JSON has not, a setting that looks at compiles, another system than Linux."""
    if not isinstance(source, str) or backend not in _BACKENDS or not _wanted():
        return None
    try:
        text = json.dumps(arguments, sort_keys=True, allow_nan=False, default=_plain)
    except (TypeError, ValueError):
        return None
    here = _environment()
    return None if here is None else disk.digest("card", here, _records(), source, str(backend), text)


def _plain(value: Any) -> Any:
    """What JSON has in place of a value: integers of other libraries, and options, as those that differ from
    the defaults.  Raises TypeError for others."""
    options = sys.modules.get("tc.options")
    if options is not None and isinstance(value, options.Options):
        return value.changed()
    return operator.index(value)


def _wanted() -> bool:
    """Whether the settings let kernels come from disk, and none of them looks at a compile."""
    linux = sys.platform == "linux"
    return linux and settings.cache() and not settings.verify() and settings.dump_directory() is None


def _records() -> tuple[object, ...]:
    """What options may be taken from, and how: the files of records as they are now."""
    how, folder = os.environ.get("TC_TUNED", ""), settings.records_directory()
    if how == "off" or not folder.is_dir():
        return (how,)
    return (how, *(_status(str(p)) for p in sorted(folder.iterdir())))


@cache
def _environment() -> str | None:
    """A digest of what compiles here and for which processor; None where that cannot be told."""
    backends = find_spec("tc_backends")
    folders = (backends.submodule_search_locations if backends else None) or []
    processor = _processor()
    if not folders or not processor:
        return None
    sources = [disk.sources(Path(__file__).parent.parent), *(disk.sources(f) for f in folders)]
    files = [_native.__file__, *(s.origin for s in map(find_spec, _PACKAGES) if s is not None)]
    return disk.digest(
        __version__,
        sources,
        [_status(f) for f in files],
        sys.version_info[:2],
        platform.machine(),
        processor,
        len(os.sched_getaffinity(0)),
    )


def _status(path: str | None) -> tuple[str, int, int]:
    """A file with what changes when another version of it is installed."""
    if path is None:
        return "", 0, 0
    found = os.stat(path)
    return path, found.st_size, found.st_mtime_ns


def _processor() -> str:
    """What the system says of the first processor and its caches; empty if it does not."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as f:
            first = f.read(8192).split(b"\n\n")[0].decode()
        lines = [x for x in first.splitlines() if x.split(":")[0].strip() not in _OF_THE_MOMENT]
        caches = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
        return "\n".join([*lines, *(p.read_text() for p in caches)])
    except (OSError, ValueError):
        return ""
