"""The pass `load`: it takes a kernel from disk, in place of the passes that would compile it.

The key contains everything that selects machine code: source, entry, backend, options, checks, types,
specialised scalars and sizes (docs/language.md, "Calling"); the typical values of dynamic sizes; and the
versions of the tools that compile.
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tc import __version__
from tc.cache import disk
from tc.errors import CacheNotice, warn
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import Pass, PassList
from tc.pipeline.target import Backend, Compiled, Restoring, Runnable, Storable
from tc.support import settings
from tc.support.float_mode import standard


@dataclass(frozen=True, slots=True)
class _LoadState:
    """A kernel is looked up under a name; `found` is the kernel if it is there and usable."""

    backend: Restoring
    program: Program
    key: tuple[object, ...]
    kept: disk.Store
    name: str = ""
    found: Runnable | None = None


def _look(state: _LoadState) -> _LoadState:
    backend = state.backend
    name = disk.digest("kernel", versions(), backend.name, backend.version_key(), *state.key)
    blob = state.kept.get(name)
    found = None
    if blob is not None:
        try:
            found = backend.from_blob(state.program, blob)
        except Exception as e:  # data on disk must not be able to fail a compile
            why = getattr(e, "message", None) or f"{type(e).__name__}: {e}"
            notice = CacheNotice(f"a stored kernel is of no use and is compiled again: {why}")
            warn(notice, stacklevel=4)
    return replace(state, name=name, found=found)


LOAD = PassList[_LoadState](
    "load",
    (
        Pass(
            "load",
            "load the kernel from disk; if it is there, no later pass runs",
            "tc/pipeline/load.py",
            _look,
        ),
    ),
)


def load_or_compile(
    backend: Backend, program: Program, options: Options, typical: Mapping[str, int], *key: object
) -> tuple[Runnable, bool]:
    """The result of `backend.compile`, or an equal kernel from disk; and whether it came from disk.

    `typical` are values of the sizes that the program leaves symbolic.  `key` and the versions of the tools
    determine the program.  The disk is not used for backends without `from_blob`, under the setting
    `TC_CACHE=0`, under `TC_VERIFY=1`, which runs every pass, and where an option is a function, which cannot
    be part of a key.
    """
    kept = None if callable(options.fusion) or settings.verify() else disk.default()
    if kept is None or not isinstance(backend, Restoring):
        return compile_program(backend, program, options, typical), False
    looked = LOAD.run(_LoadState(backend, program, (options, *key), kept))
    if looked.found is not None:
        return looked.found, True
    made = compile_program(backend, program, options, typical)
    blob = made.to_blob() if isinstance(made, Storable) else None
    if blob is not None:
        kept.put(looked.name, blob)
    return made, False


@standard
def compile_program(
    backend: Backend, program: Program, options: Options, typical: Mapping[str, int]
) -> Compiled:
    """The kernel that the backend makes of a program."""
    return backend.compile(program, options, typical)


@functools.cache
def versions() -> tuple[str, ...]:
    """The versions of everything that compiles, apart from the backend: `tc` and its present sources, isl,
    LLVM, the system."""
    here = disk.sources(Path(__file__).parent.parent)
    return (__version__, here, sys.platform, platform.machine(), _version("islpy"), _version("llvmlite"))


def _version(package: str) -> str:
    known = getattr(sys.modules.get(package), "__version__", None)
    if known is not None:  # most often it is loaded by now, and nothing need be looked for on disk
        return known
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
