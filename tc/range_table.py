"""Ranges and requirements as users see them: integers, or expressions over sizes as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from tc.errors import InternalError, Span
from tc.ir.expr import Add, Expr
from tc.ir.printer import compile_python, text
from tc.ir.program import Precondition
from tc.ir.simplify import simplify
from tc.ranges import Bound, Depends

Boxes = Mapping[str, tuple[Bound, ...]]


@dataclass(frozen=True, slots=True)
class Range:
    """`min <= index < min + extent`: integers, or expressions over sizes as text."""

    min: int | str
    extent: int | str
    _end: int | str | None = field(default=None, repr=False, compare=False)

    @property
    def end(self) -> int | str:
        """`min + extent`, which is no index any more."""
        if self._end is not None:
            return self._end
        if isinstance(self.min, int) and isinstance(self.extent, int):
            return self.min + self.extent
        return str(self.extent) if self.min == 0 else f"{self.min} + {self.extent}"

    def __repr__(self) -> str:
        return f"[{self.min}, {self.end})"


Integers = dict[str, tuple[Range, ...]]


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
    return tuple(Requirement(text(p.display), p.reason, p.span) for p in preconditions)


class RangeTable(Mapping[str, tuple[Range | str, ...]]):
    """The range of every dimension of every parameter and result, symbolic; `at` gives integers.

    A dimension that waits for scalars is the text "depends on …".
    """

    def __init__(self, boxes: Boxes, refine: Callable[[Mapping[str, int]], Integers]) -> None:
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

    def html(self) -> str:
        """The table as HTML."""
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td><code>{escape(', '.join(map(str, self[name])))}</code></td></tr>"
            for name in self
        )
        return f"<table>{rows}</table>"

    _repr_html_ = html  # what notebooks show

    def at(self, **values: int) -> dict[str, tuple[Range, ...]]:
        """Integer ranges for given sizes and scalars."""
        return self._refine(values)


def compile_boxes(boxes: Boxes, names: Sequence[str]) -> Callable[[Mapping[str, int]], Integers]:
    """A function from the values of `names` to integer ranges: about a microsecond a dimension.

    No dimension may wait for scalars.
    """
    functions: dict[str, list[tuple[Callable[..., int], Callable[..., int]]]] = {}
    for name, box in boxes.items():
        for b in box:
            if isinstance(b, Depends):
                raise InternalError(f"a range still {b}")
            pair = compile_python(b.min, names), compile_python(b.extent, names)
            functions.setdefault(name, []).append(pair)
        functions.setdefault(name, [])

    def at(values: Mapping[str, int]) -> Integers:
        args = [values[n] for n in names]
        return {n: tuple(Range(low(*args), extent(*args)) for low, extent in f) for n, f in functions.items()}

    return at


def shown(b: Bound) -> Range | str:
    """A bound as users see it."""
    if isinstance(b, Depends):
        return str(b)
    end = simplify(Add(b.min, b.extent), exact=True)
    return Range(_plain(b.min), _plain(b.extent), _plain(end))


def _plain(e: Expr) -> int | str:
    spelled = text(e)
    return int(spelled) if spelled.lstrip("-").isdigit() else spelled
