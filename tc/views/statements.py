"""The statements of a source, numbered, and what is marked with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tc.errors import Span
from tc.ir.expr import Call, walk
from tc.ir.lines import Line
from tc.ir.program import Program
from tc.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Statements:
    """The places of a kernel's statements in its source, in the order of the text.  A number is a position in
    this list; a def that is called twice has its statements once.

    `inlined` has those that are computed where another statement, the key, reads them.
    """

    spans: tuple[Span, ...]
    inlined: Mapping[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])

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
        if len(around) == 1:  # what holds one statement only is part of it
            own, around = own or around, ()
        inside = {i for n in (*own, *around) for i in self.inlined.get(n, ())}
        return Row(line.text, own, tuple(sorted({*around, *inside} - {*own})))

    def compiled(self, program: Program, origins: Mapping[str, Span]) -> Statements:
        """The same, with those of `program` that no stage of a compile is of, given the origins of its
        stages."""
        left = {self.number(span) for span in origins.values()}
        buffers = program.func_buffers
        readers: dict[int, set[int]] = {}
        for s in program.stages:
            reads = {buffers.get(e.name) for e in walk(s.value) if isinstance(e, Call)}
            reader = self.number(s.span)
            for w in program.stages:
                written = self.number(w.span)
                if reader is not None and written is not None and buffers[w.func] in reads:
                    readers.setdefault(written, set()).add(reader)
        inlined: dict[int, set[int]] = {}
        for gone in {*range(len(self.spans))} - left:
            reached, new = set[int](), {gone}
            while new:
                reached |= new
                new = {r for n in new if n not in left for r in readers.get(n, ())} - reached
            for n in reached & left:
                inlined.setdefault(n, set()).add(gone)
        return replace(self, inlined={n: frozenset(found) for n, found in inlined.items()})

    def _numbers(self, stages: Iterable[str], origins: Mapping[str, Span]) -> tuple[int, ...]:
        found = {self.number(origins.get(s)) for s in stages}
        return tuple(sorted(n for n in found if n is not None))


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a panel: the statements that it is of, and those that something inside of it is of."""

    text: str
    own: tuple[int, ...] = ()
    around: tuple[int, ...] = ()
