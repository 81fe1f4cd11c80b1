"""Warnings as plain data, so that a new process issues them without the compiler that found them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tc import errors
from tc.errors import Note, Source, Span

_Place = tuple[int, int] | None  # the first character of a source, and the one behind the last


@dataclass(frozen=True)
class SavedWarning:
    """A warning of `category`, a class of `tc.errors`; `notes` are messages with places."""

    category: str
    message: str
    span: _Place
    help: str | None
    notes: tuple[tuple[str, _Place], ...]

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> SavedWarning:
        """The inverse of `vars`, from what JSON makes of it."""
        notes = tuple((message, _place(at)) for message, at in facts["notes"])
        return cls(facts["category"], facts["message"], _place(facts["span"]), facts["help"], notes)

    def warning(self, source: Source) -> errors.Warning:
        """The warning, of a source with the text that it was saved for."""

        def span(at: _Place) -> Span | None:
            return None if at is None else Span(source, *at)

        kind: type[errors.Warning] = getattr(errors, self.category)
        notes = [Note(message, span(at)) for message, at in self.notes]
        return kind(self.message, span(self.span), help=self.help, notes=notes)


def saved(warnings: Iterable[errors.Warning], source: Source) -> tuple[SavedWarning, ...] | None:
    """The warnings of a source; None if one cannot be told by that source alone."""
    out: list[SavedWarning] = []
    for w in warnings:
        kind = type(w)
        spans = [s for s in (w.span, *(n.span for n in w.notes)) if s is not None]
        if getattr(errors, kind.__name__, None) is not kind or any(s.source != source for s in spans):
            return None
        notes = tuple((n.message, _of(n.span)) for n in w.notes)
        out.append(SavedWarning(kind.__name__, w.message, _of(w.span), w.help, notes))
    return tuple(out)


def _of(span: Span | None) -> _Place:
    return None if span is None else (span.start, span.end)


def _place(facts: Any) -> _Place:
    if facts is None:
        return None
    start, end = facts
    return start, end
