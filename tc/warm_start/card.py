"""Cards: the calls of a kernel that a new process can make at once, in the store of compiled kernels.

A card belongs to a call of `tc.compile`.  Its key says all that machine code depends on: the arguments, the
sources and versions of what compiles, and the processor.  Where one of these cannot be told without the
compiler there is no card.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tc import __version__, _native
from tc.cache import disk
from tc.runtime.call_spec import CallSpec
from tc.support import settings

_MOST = 16  # calls of a card
_BACKENDS = (None, "cpu")  # those whose code `tc._native.MachineCode` loads, and what chooses among backends
_PACKAGES = ("islpy", "llvmlite", "halide", "lark")  # besides tc, what compiles
_OF_THE_MOMENT = ("processor", "cpu MHz", "bogomips", "BogoMIPS", "core id", "apicid", "initial apicid")


@dataclass(frozen=True)
class SavedCall:
    """A kernel and the exact arguments that it is for.

    `sizes`, `scalars`, `integers` (types of arrays that came in another integer type than declared) and
    `given` (results that start from the caller's buffer) are those of `tc.kernel.Kernel.ready`.  `code` is an
    object file, `function` the name of the kernel in it; `workspace` is in bytes.
    """

    spec: CallSpec
    workspace: int
    release_gil: bool
    sizes: Mapping[str, int]
    scalars: Mapping[str, int]
    integers: Mapping[str, str]
    given: tuple[str, ...]
    function: str
    code: bytes = field(repr=False)


def key(source: object, backend: object, **arguments: Any) -> str | None:
    """The name of the card of a call of `tc.compile`; None where there can be none: another backend, dynamic
    sizes, an argument that JSON has not, a setting that looks at compiles, another system than Linux."""
    if not isinstance(source, str) or backend not in _BACKENDS or arguments["dynamic"] or not _wanted():
        return None
    try:
        text = json.dumps(arguments, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        return None
    here = _environment()
    return None if here is None else disk.digest("card", here, _records(), source, str(backend), text)


def read(name: str) -> tuple[SavedCall, ...]:
    """The calls of a card; none where there is no card."""
    kept = disk.default()
    blob = None if kept is None else kept.get(name)
    if blob is None:
        return ()
    try:
        facts, codes = disk.unpack(blob)
        return tuple(_call(f, codes) for f in facts["calls"])
    except (ValueError, KeyError, TypeError, IndexError):
        return ()


def add(name: str, call: SavedCall) -> None:
    """Put a call on a card, in front; the oldest one makes room."""
    kept = disk.default()
    if kept is None:
        return
    calls = [call, *(c for c in read(name) if c.spec != call.spec)][:_MOST]
    facts: list[dict[str, Any]] = []
    at = 0
    for c in calls:
        facts.append(_facts(c, at))
        at += len(c.code)
    kept.put(name, disk.pack({"calls": facts}, b"".join(c.code for c in calls)))


def _facts(c: SavedCall, at: int) -> dict[str, Any]:
    s = c.spec
    return {
        "name": s.name,
        "inputs": s.inputs,
        "outputs": s.outputs,
        "parameters": s.parameters,
        "results": s.results,
        "workspace": c.workspace,
        "release_gil": c.release_gil,
        "sizes": dict(c.sizes),
        "scalars": dict(c.scalars),
        "integers": dict(c.integers),
        "given": c.given,
        "function": c.function,
        "code": [at, len(c.code)],
    }


def _call(f: Mapping[str, Any], codes: bytes) -> SavedCall:
    at, length = f["code"]
    if at + length > len(codes):
        raise ValueError("the code is cut off")
    spec = CallSpec(
        f["name"],
        tuple((kind, code, bits, tuple(x) if kind == "tensor" else x) for kind, code, bits, x in f["inputs"]),
        tuple((code, bits, tuple(shape), inout) for code, bits, shape, inout in f["outputs"]),
        tuple(f["parameters"]),
        tuple(f["results"]),
    )
    return SavedCall(
        spec,
        f["workspace"],
        f["release_gil"],
        f["sizes"],
        f["scalars"],
        f["integers"],
        tuple(f["given"]),
        f["function"],
        codes[at : at + length],
    )


# ---- what machine code depends on


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
