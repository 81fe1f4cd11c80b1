"""Replicated elements, in registers of several threads of a block: all copies must have been written equally
often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tc.poly.trace.events import Cell, Instance

Write = tuple[int, Instance, frozenset[Cell]]  # the statement, its instance, the parts that go in


@dataclass(slots=True)
class Replicas:
    """`last`: of elements, the write that was the last; `behind`: of registers, the element that they hold as
    it was before that write, which their threads have still to make; `heads`: of parts that were combined for
    all threads, those that all of them are in."""

    last: dict[Cell, Write] = field(default_factory=dict[Cell, Write])
    behind: dict[Cell, Cell] = field(default_factory=dict[Cell, Cell])
    heads: dict[Cell, Cell] = field(default_factory=dict[Cell, Cell])

    def begins(self, element: Cell, write: Write, others: Iterable[Cell]) -> bool:
        """Whether a thread is the first to make a write: then the `others` with the element are behind."""
        if self.last.get(element) == write:
            return False
        self.last[element] = write
        self.behind = {c: v for c, v in self.behind.items() if v != element}
        self.behind |= dict.fromkeys(others, element)
        return True

    def head(self, part: Cell) -> Cell:
        """The part that this one has become, as all threads got a combination."""
        while (found := self.heads.get(part, part)) != part:
            part = found
        return part
