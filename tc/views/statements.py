"""The statements of a source, numbered, and what is marked with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tc.errors import Span
from tc.ir.lines import Line
from tc.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Statements:
    """The places of a kernel's statements in its source, in the order of the text.  A number is a position in
    this list; a def that is called twice has its statements once."""

    spans: tuple[Span, ...]

    @staticmethod
    def of(kernel: Kernel) -> Statements:
        """The statements of a kernel, those of the defs that it calls among them."""
        text = kernel.front.source.text
        found = {(s.span.start, s.span.end): s.span for s in kernel.front.checked.statements}
        own = (found[key] for key in sorted(found) if found[key].source.text == text)
        return Statements(tuple(own))

    def number(self, span: Span | None) -> int | None:
        """The number of the innermost statement that a place is in; None outside of all."""
        if span is None:
            return None
        around = [
            (s.end - s.start, i)
            for i, s in enumerate(self.spans)
            if s.start <= span.start and span.end <= s.end
        ]
        return min(around)[1] if around else None

    def row(self, line: Line, origins: Mapping[str, Span]) -> Row:
        """A line with the numbers of its statements, where its stages come from `origins`."""
        own, around = (self._numbers(names, origins) for names in (line.stages, line.around))
        # What holds one statement only is part of it.
        return Row(line.text, own or around) if len(around) == 1 else Row(line.text, own, around)

    def _numbers(self, stages: Iterable[str], origins: Mapping[str, Span]) -> tuple[int, ...]:
        found = {self.number(origins.get(s)) for s in stages}
        return tuple(sorted(n for n in found if n is not None))


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a panel: the statements that it is of, and those that something inside of it is of."""

    text: str
    own: tuple[int, ...] = ()
    around: tuple[int, ...] = ()
