"""A bug in tc becomes an InternalError that leaves a file with all that is needed to see it again.

The file is a JSON object; `tc.cli.replay` reads it, and `python -m tc run FILE` runs it.

| member | what it holds |
|---|---|
| `reproducer` | the format, a number |
| `source`, `entry` | the program |
| `backend`, `options`, `checks`, `dynamic` | what `tc.compile` was told; functions are in `omitted` |
| `sizes`, `scalars` | those that it was compiled for; absent where it failed before it knew any |
| `dtypes` | the element type of each tensor, as passed |
| `given` | results whose buffers the caller passed to be accumulated into |
| `command` | the command line that failed, instead of a program |
| `error`, `traceback`, `versions` | for who reads it |
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import tempfile
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from tc.errors import Error, InternalError

FORMAT = 1
_PACKAGES = ("tensor-comprehensions", "numpy", "halide", "islpy", "llvmlite", "lark")

Context = Callable[[], Mapping[str, Any]]

_known: ContextVar[tuple[str, tuple[Context, ...]]] = ContextVar("known", default=("", ()))


@contextmanager
def reporting(source: str, context: Context) -> Generator[None, None, None]:
    """Turn what should not happen in the body into an InternalError that names a reproducer.

    `context`: says the members of the file, and is asked only on a failure; inside another use for the same
    source it adds to what that one knows.
    """
    outer, known = _known.get()
    contexts = (*known, context) if outer == source else (context,)
    token = _known.set((source, contexts))
    try:
        yield
    except InternalError as e:
        if e.help:
            raise
        raise InternalError(e.message, e.span, code=e.code, help=_help(source, contexts, e)) from e
    except (Error, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as e:
        if _raised_by_a_signal(e):
            raise
        message = f"a bug in tc: {type(e).__name__}: {e}"
        raise InternalError(message, code="TC0901", help=_help(source, contexts, e)) from e
    finally:
        _known.reset(token)


def _raised_by_a_signal(error: BaseException) -> bool:
    """Whether the handler of a signal raised an exception, for example at the end of a time limit."""
    handlers = {getattr(signal.getsignal(n), "__code__", None) for n in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _help(source: str, contexts: Sequence[Context], error: BaseException) -> str:
    context = {k: v for c in contexts for k, v in c().items()}
    try:
        return f"please report it with the reproducer {write(source, context, error)}"
    except OSError as e:
        return f"please report it (no reproducer could be written: {e.strerror})"


def write(source: str, context: Mapping[str, Any], error: BaseException) -> Path:
    """Write a reproducer into the directory for temporary files; the same failure gives the same file."""
    case = _case(source, context)
    content = {
        **case,
        "error": f"{type(error).__name__}: {error}",
        "versions": versions(),
        "traceback": traceback.format_exception(error),
    }
    digest = hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()[:12]
    path = Path(tempfile.gettempdir()) / f"tc-reproducer-{digest}.json"
    # Renamed into place: other threads and processes may write the same one.
    number, beside = tempfile.mkstemp(prefix=path.stem, suffix=".new", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as f:
            f.write(json.dumps(content, indent=2) + "\n")
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    return path


def versions() -> dict[str, str]:
    """Of Python and of what compiles."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def _case(source: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the failure, as plain data, without what is not known."""
    case = {"reproducer": FORMAT, "source": source, **{k: v for k, v in context.items() if v is not None}}
    options = cast("Mapping[str, Any]", case.get("options", {}))
    omitted = sorted(k for k, v in options.items() if callable(v))
    if omitted:
        case["options"] = {k: v for k, v in options.items() if k not in omitted}
        case["omitted"] = omitted
    return cast("dict[str, Any]", json.loads(json.dumps(case, default=str)))
