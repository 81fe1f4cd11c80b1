"""Ranges and requirements as users see them: integers, or expressions over sizes as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tc.errors import InternalError, Span
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr
from tc.ir.printer import text
from tc.ir.program import Precondition
from tc.ranges import Bound, Depends

Boxes = Mapping[str, tuple[Bound, ...]]


@dataclass(frozen=True, slots=True)
class Range:
    """`min <= index < min + extent`: integers, or expressions over sizes as text."""

    min: int | str
    extent: int | str

    def __repr__(self) -> str:
        return f"Range({self.min}, {self.extent})"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the sizes of a call must satisfy, as text, and what would happen else."""

    condition: str
    reason: str
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.condition}, else {self.reason}"


def requirements(preconditions: Iterable[Precondition]) -> tuple[Requirement, ...]:
    """Preconditions as users see them."""
    return tuple(Requirement(text(p.condition), p.reason, p.span) for p in preconditions)


class RangeTable(Mapping[str, tuple[Range | str, ...]]):
    """The range of every dimension of every parameter and result, symbolic; `at` gives integers.

    A dimension that waits for scalars is the text "depends on …".
    """

    def __init__(self, boxes: Boxes, refine: Callable[[Mapping[str, int]], Boxes]) -> None:
        self._boxes = boxes
        self._refine = refine

    def __getitem__(self, name: str) -> tuple[Range | str, ...]:
        return tuple(shown(b) for b in self._boxes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._boxes)

    def __len__(self) -> int:
        return len(self._boxes)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {', '.join(map(str, self[name]))}" for name in self)

    def at(self, **values: int) -> dict[str, tuple[Range, ...]]:
        """Integer ranges for given sizes and scalars."""
        boxes = self._refine(values)
        return {name: tuple(_at(b, values) for b in box) for name, box in boxes.items()}


def _at(b: Bound, values: Mapping[str, int]) -> Range:
    if isinstance(b, Depends):
        raise InternalError(f"a range still {b}")
    return Range(evaluate(b.min, values), evaluate(b.extent, values))


def shown(b: Bound) -> Range | str:
    """A bound as users see it."""
    return str(b) if isinstance(b, Depends) else Range(_plain(b.min), _plain(b.extent))


def _plain(e: Expr) -> int | str:
    spelled = text(e)
    return int(spelled) if spelled.lstrip("-").isdigit() else spelled
