"""Replicated elements, in registers of several threads of a block: all replicas must have the same writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tc.poly.trace.events import Cell, Instance

Write = tuple[int, Instance, frozenset[Cell]]  # the statement, its instance, the partial results in it


@dataclass(slots=True)
class Replicas:
    """The state of replicated elements.

    `last_write`: by element.  `outdated`: by register, the element of which it has the value before the last
    write, which its thread still has to make.  `combined_into`: by partial result that was combined for all
    threads, the partial result that has the combination.
    """

    last_write: dict[Cell, Write] = field(default_factory=dict[Cell, Write])
    outdated: dict[Cell, Cell] = field(default_factory=dict[Cell, Cell])
    combined_into: dict[Cell, Cell] = field(default_factory=dict[Cell, Cell])

    def is_first(self, element: Cell, write: Write, others: Iterable[Cell]) -> bool:
        """Whether a thread is the first to make a write; then the `others`, the other replicas, are
        outdated."""
        if self.last_write.get(element) == write:
            return False
        self.last_write[element] = write
        self.outdated = {c: v for c, v in self.outdated.items() if v != element}
        self.outdated |= dict.fromkeys(others, element)
        return True

    def final_part(self, part: Cell) -> Cell:
        """The partial result with which this one was combined, or itself."""
        while (found := self.combined_into.get(part, part)) != part:
            part = found
        return part
