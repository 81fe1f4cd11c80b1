"""The pass `load`: a kernel that is kept on disk takes the place of all that would compile it.

The key says all that selects machine code: source, entry, backend, options, checks, types, specialised
scalars and sizes (docs/language.md, "Calling"); of dynamic sizes the typical values; and the versions of what
compiles.
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tc import __version__
from tc.cache import disk
from tc.errors import CacheNotice, warn
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import stage
from tc.pipeline.target import Backend, Restoring
from tc.support import settings
from tc.support.float_mode import standard


def load_or_compile(
    backend: Backend, program: Program, options: Options, typical: Mapping[str, int], *key: object
) -> tuple[Any, bool]:
    """What `backend.compile` returns, or from disk what runs the same; and whether it came from there.

    `typical` are values of the sizes that the program leaves symbolic.  `key` and the versions of everything
    that compiles determine the program.  The disk is left alone for backends without `from_blob`, by the
    setting `TC_CACHE=0`, under `TC_VERIFY=1`, which has every pass run, and where an option is a function,
    which no key can tell.
    """
    told = not callable(options.fusion)
    kept = disk.default() if isinstance(backend, Restoring) and told and not settings.verify() else None
    if kept is None or not isinstance(backend, Restoring):
        return compile_program(backend, program, options, typical), False
    with stage("load"):
        name = disk.digest("kernel", versions(), backend.name, backend.version_key(), options, *key)
        blob = kept.get(name)
        if blob is not None:
            try:
                return backend.from_blob(program, blob), True
            except Exception as e:  # what is on disk must not be able to fail a compile
                why = getattr(e, "message", None) or f"{type(e).__name__}: {e}"
                notice = CacheNotice(f"a stored kernel is of no use and is compiled again: {why}")
                warn(notice, stacklevel=4)
    made = compile_program(backend, program, options, typical)
    blob = made.to_blob() if hasattr(made, "to_blob") else None
    if blob is not None:
        kept.put(name, blob)
    return made, False


@standard
def compile_program(backend: Backend, program: Program, options: Options, typical: Mapping[str, int]) -> Any:
    """What the backend makes of a program; only those with dynamic sizes take typical values."""
    compiler: Any = backend
    return compiler.compile(program, options, typical) if typical else compiler.compile(program, options)


@functools.cache
def versions() -> tuple[str, ...]:
    """What compiles, apart from the backend: `tc` and its sources as they are now, isl, LLVM, the system."""
    here = disk.sources(Path(__file__).parent.parent)
    return (__version__, here, sys.platform, platform.machine(), _version("islpy"), _version("llvmlite"))


def _version(package: str) -> str:
    said = getattr(sys.modules.get(package), "__version__", None)
    if said is not None:  # most often it is loaded by now, and nothing need be looked for on disk
        return said
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
