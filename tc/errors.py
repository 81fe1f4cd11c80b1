"""Diagnostics: source spans, caret rendering, and every error and warning class.

An error is data first (code, message, span, notes, help) and text second, so that tools can read it
(`as_dict`), processes can pass it on (it pickles) and people can see it (`str`).  The codes are stable;
`docs/errors.md` has one entry, with a tested example, for each.
"""

from __future__ import annotations

import inspect
import warnings as _warnings
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NoReturn


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name it is shown under (a path, or ``<string>``)."""

    text: str
    name: str = "<string>"
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0]
        starts += [i + 1 for i, c in enumerate(self.text) if c == "\n"]
        object.__setattr__(self, "_starts", tuple(starts))

    def location(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        line = bisect_right(self._starts, offset) - 1
        return line + 1, offset - self._starts[line] + 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its end."""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def location(self) -> tuple[int, int]:
        return self.source.location(self.start)

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))


_MAX_SHOWN = 160  # a megabyte on one line is shown by the part around the caret


def _excerpt(span: Span, label: str, gutter: int) -> list[str]:
    line, column = span.location
    text = span.source.line(line)
    width = max(1, min(span.end - span.start, len(text) - (column - 1)))
    first = 0
    if len(text) > _MAX_SHOWN:
        first = max(0, column - 1 - _MAX_SHOWN // 2)
        text = text[first : first + _MAX_SHOWN]
        width = min(width, max(1, len(text) - (column - 1 - first)))
    # A binary file must not reach the terminal as it is.
    text = "".join(c if c == "\t" or c.isprintable() else "\ufffd" for c in text)
    lead = "".join("\t" if c == "\t" else " " for c in text[: column - 1 - first])
    carets = "^" * width + (f" {label}" if label else "")
    return [f"{line:>{gutter}} | {text}", f"{'':>{gutter}} | {lead}{carets}"]


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that belongs to a diagnostic, for example "first defined here"."""

    message: str
    span: Span | None = None


def render(
    severity: str, code: str, message: str, span: Span | None, notes: Iterable[Note], help: str | None
) -> str:
    """A diagnostic as people read it: headline, place, excerpt with carets, notes, help."""
    notes = tuple(notes)
    lines = [f"{severity}[{code}]: {message}"]
    spans = [s for s in (span, *(n.span for n in notes)) if s is not None]
    gutter = max((len(str(s.location[0])) for s in spans), default=1)
    if span is not None:
        line, column = span.location
        lines.append(f"{'':>{gutter}}--> {span.source.name}:{line}:{column}")
        lines += _excerpt(span, "", gutter)
    for note in notes:
        if note.span is None:
            lines.append(f"{'':>{gutter}} = note: {note.message}")
        else:
            line, column = note.span.location
            lines.append(f"{'':>{gutter}}::: {note.span.source.name}:{line}:{column}")
            lines += _excerpt(note.span, note.message, gutter)
    if help:
        lines.append(f"{'':>{gutter}} = help: {help}")
    return "\n".join(lines)


def suggest(name: str, known: Iterable[str]) -> str | None:
    """The known name a misspelt one most likely stands for, or None."""
    pool = sorted(set(known) - {name})
    folded = {k.lower(): k for k in reversed(pool)}
    if name.lower() in folded:
        return folded[name.lower()]
    for k in pool:  # letters in another order
        if sorted(k) == sorted(name):
            return k
    near = get_close_matches(name, pool, n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A help line for a misspelt name, or None."""
    near = suggest(name, known)
    return f"did you mean '{near}'?" if near else None


class Error(Exception):
    """Base of every error `tc` raises on purpose.

    Attributes: `code` (stable, "TC0203"), `message`, `span` (None where no source is involved),
    `notes`, `help`.
    """

    default_code = "TC0000"

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        code: str | None = None,
        help: str | None = None,
        notes: Iterable[Note] = (),
    ) -> None:
        self.code = code or self.default_code
        self.message = message
        self.span = span
        self.help = help
        self.notes = tuple(notes)
        super().__init__(message)

    def __str__(self) -> str:
        return render("error", self.code, self.message, self.span, self.notes, self.help)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.span, self.code, self.help, self.notes)

    def as_dict(self) -> dict[str, Any]:
        """The diagnostic as plain data, for tools (`python -m tc check --json`)."""
        return _as_dict("error", self)


def _rebuild(
    cls: type[Error], message: str, span: Span | None, code: str, help: str | None, notes: tuple[Note, ...]
) -> Error:
    return cls(message, span, code=code, help=help, notes=notes)


class ParseError(Error):
    """The text is not a program."""

    default_code = "TC0100"


class SemanticError(Error):
    """Names, reductions, statement order, calls between defs."""

    default_code = "TC0200"


class RangeError(Error):
    """A range cannot be inferred, is contradictory or negative."""

    default_code = "TC0300"


class DTypeError(Error, TypeError):
    """Element types do not fit, in the source or at a call."""

    default_code = "TC0400"


class ArgumentError(Error, TypeError, ValueError):
    """A call does not fit the kernel's signature: count, rank, size, device, aliasing, read-only."""

    default_code = "TC0500"


class PreconditionError(Error, ValueError):
    """Sizes for which the program would read out of bounds, or that the source rules out."""

    default_code = "TC0600"


class BoundsError(Error, IndexError):
    """A data-dependent index left its tensor."""

    default_code = "TC0700"


class BackendError(Error, RuntimeError):
    """A backend is missing a driver, a device or a compiler, or does not know an option."""

    default_code = "TC0800"


class InternalError(Error, RuntimeError):
    """A bug in `tc`, never the user's fault."""

    default_code = "TC0900"


class Warning(UserWarning):
    """Base of every warning `tc` issues; filters work per category."""

    code = "TC1000"

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        help: str | None = None,
        notes: Iterable[Note] = (),
    ) -> None:
        self.message = message
        self.span = span
        self.help = help
        self.notes = tuple(notes)
        super().__init__(message)

    def __str__(self) -> str:
        return render("warning", self.code, self.message, self.span, self.notes, self.help)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_warning, (type(self), self.message, self.span, self.help, self.notes)

    def as_dict(self) -> dict[str, Any]:
        """The diagnostic as plain data."""
        return _as_dict("warning", self)


def _rebuild_warning(
    cls: type[Warning], message: str, span: Span | None, help: str | None, notes: tuple[Note, ...]
) -> Warning:
    return cls(message, span, help=help, notes=notes)


class UninitializedReduction(Warning):
    """`op=` on a tensor that nothing defined before: probably `op=!` was meant."""

    code = "TC1001"


class LoneReduction(Warning):
    """A reduction variable that occurs in one access only: probably misspelt."""

    code = "TC1002"


class DataDependentAccess(Warning):
    """A subscript that depends on data: checked at run time unless `checks="none"`."""

    code = "TC1003"


class BackendNotice(Warning):
    """The backend that was chosen is not the one a user would expect, or calls a fact otherwise now."""

    code = "TC1004"


class CacheNotice(Warning):
    """Compiled kernels cannot be kept on disk, or what is kept there is of no use."""

    code = "TC1005"


class PerformanceNotice(Warning):
    """Part of a kernel is simpler, and slower, than what options ask for or one would expect."""

    code = "TC1006"


class NarrowedRange(Warning):
    """An access in a branch of a ternary makes a range smaller than the other accesses allow."""

    code = "TC1007"


class EmptyRange(Warning):
    """A range is empty for the sizes of a call, though none of these is 0."""

    code = "TC1008"


def _as_dict(severity: str, d: Error | Warning) -> dict[str, Any]:
    def place(span: Span | None) -> dict[str, Any] | None:
        if span is None:
            return None
        line, column = span.location
        return {"file": span.source.name, "line": line, "column": column, "length": span.end - span.start}

    return {
        "severity": severity,
        "code": d.code,
        "category": type(d).__name__,
        "message": d.message,
        "span": place(d.span),
        "notes": [{"message": n.message, "span": place(n.span)} for n in d.notes],
        "help": d.help,
    }


def warn(warning: Warning, *, stacklevel: int | None = 2) -> None:
    """Issue a warning as a Python warning; without a `stacklevel`, of the line that called `tc`."""
    if stacklevel is None:
        frame, stacklevel = inspect.currentframe(), 0
        while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
            frame, stacklevel = frame.f_back, stacklevel + 1
    _warnings.warn(warning, stacklevel=stacklevel + 1)


_OURS = ("tc", "tc_backends")


def unreachable(value: object) -> NoReturn:
    """For the last arm of a `match` that pyright cannot see to be exhaustive."""
    raise InternalError(f"unexpected {type(value).__name__}: {value!r}")
