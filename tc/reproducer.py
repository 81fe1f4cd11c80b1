"""A bug in tc becomes an InternalError that leaves a file with all that is needed to see it again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import tempfile
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tc.errors import Error, InternalError


@contextmanager
def reporting(source: str, **context: Any) -> Generator[None, None, None]:
    """Turn what should not happen in the body into an InternalError that names a reproducer.

    `context`: entry, backend, options, sizes, … as plain data.
    """
    try:
        yield
    except InternalError as e:
        if e.help:
            raise
        raise InternalError(e.message, e.span, code=e.code, help=_help(source, context, e)) from e
    except (Error, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as e:
        message = f"a bug in tc: {type(e).__name__}: {e}"
        raise InternalError(message, code="TC0901", help=_help(source, context, e)) from e


def _help(source: str, context: Mapping[str, Any], error: BaseException) -> str:
    try:
        return f"please report it with the reproducer {write(source, context, error)}"
    except OSError as e:
        return f"please report it (no reproducer could be written: {e.strerror})"


def write(source: str, context: Mapping[str, Any], error: BaseException) -> Path:
    """Write a reproducer into the directory for temporary files; the same failure gives the same file."""
    versions: dict[str, str] = {"python": platform.python_version()}
    for name in ("tensor-comprehensions", "numpy", "halide", "islpy", "llvmlite", "lark"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "absent"
    content = {
        "source": source,
        **{k: v for k, v in context.items() if v is not None},
        "error": f"{type(error).__name__}: {error}",
        "versions": versions,
        "traceback": traceback.format_exception(error),
    }
    text = json.dumps(content, indent=2, default=str)
    digest = hashlib.sha256(json.dumps([source, context], default=str, sort_keys=True).encode()).hexdigest()[
        :12
    ]
    path = Path(tempfile.gettempdir()) / f"tc-reproducer-{digest}.json"
    path.write_text(text, encoding="utf-8")
    return path
