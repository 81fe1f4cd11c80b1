"""The only importer of halide: its solver as functions on tuples (`solve`), its front end (`funcs`).

Importing this package loads nothing; `load_library` loads libHalide at first need.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path

from tc.errors import BackendError

_LIBRARIES = {"darwin": "libHalide.dylib"}  # by platform; elsewhere libHalide.so


def _built_version() -> str:
    """The version of halide that tc._halide was built against."""
    try:
        from tc._build_info import HALIDE_VERSION
    except ModuleNotFoundError:
        raise BackendError(
            "the extension tc._halide has not been built", code="TC0807", help="run: pip install -e ."
        ) from None
    return HALIDE_VERSION


def _installed_version(folder: Path) -> str | None:
    """The version of the distribution the package `folder` belongs to; None if nothing says it."""
    # The name of the metadata folder says it; importing the reader of metadata would cost 60 ms.
    found = list(folder.parent.glob("halide-*.dist-info"))
    if len(found) == 1:
        return found[0].name.removeprefix("halide-").removesuffix(".dist-info")
    from importlib import metadata

    try:
        return metadata.version("halide")
    except metadata.PackageNotFoundError:
        return None


@cache
def load_library() -> Path:
    """Load the installed libHalide and return the `halide` package's folder.

    libHalide has no version in its name and keeps its ABI only within a release, so the version is compared
    before anything is loaded.  It is loaded by its path: `tc._halide` finds it so wherever the wheel lies,
    and `import halide`, before or after, maps the same one.

    Raises BackendError (TC0807) when halide is missing or is not the version tc was built against.
    """
    built = _built_version()
    remedy = f"install the version tc was built against: pip install halide=={built}"
    spec = importlib.util.find_spec("halide")
    if spec is None or not spec.submodule_search_locations:
        raise BackendError("halide is not installed", code="TC0807", help=remedy)
    folder = Path(spec.submodule_search_locations[0])
    installed = _installed_version(folder)
    if installed != built:
        raise BackendError(
            f"tc was built against halide {built}, but {installed or 'an unknown version'} is installed",
            code="TC0807",
            help=remedy,
        )
    import ctypes

    path = folder / "lib64" / _LIBRARIES.get(sys.platform, "libHalide.so")
    try:
        ctypes.CDLL(str(path))
    except OSError as e:
        raise BackendError(
            f"libHalide cannot be loaded: {e}",
            code="TC0807",
            help=f"install halide again: pip install --force-reinstall --no-deps halide=={built}",
        ) from e
    return folder
