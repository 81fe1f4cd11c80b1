"""The tree of random SaC programs.

A node knows the shape and the element type that it is made for, so that the evaluator can hold what it
computes against them.  A partition knows the bounds that are not written and what they come to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """`type`: int, long, double or bool."""

    shape: Shape
    type: str


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: int | float | bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    id: str


@dataclass(frozen=True, slots=True)
class Vector(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    op: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Ternary(Node):
    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`array[a, b]`, or with one node of rank 1 `array[iv]`."""

    array: Node
    index: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`function`: None for one of the prelude."""

    name: str
    args: tuple[Node, ...]
    function: Function | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """One side of an interval: `node` as it is written, None for a side that is left away, "." for a dot."""

    node: Node | str | None
    strict: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A partition or a generator.

    `vector`: the name of an index vector of as many components as `implied` has, or "" where `slots` are
    names and dots.  `implied`: low and end for each variable, taken for a side that is no expression.
    """

    vector: str
    slots: tuple[str, ...]
    low: Bound
    high: Bound
    implied: tuple[tuple[int, int], ...]
    body: Node | None
    step: tuple[int, ...] = ()
    width: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(x for x in self.slots if x not in (".", "..."))


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`axes`: how many the frame has, the axes of dots among them."""

    parts: tuple[Part, ...]
    axes: int


@dataclass(frozen=True, slots=True)
class WithLoop(Node):
    """`operator`: genarray, modarray or fold; `args` as they are written."""

    parts: tuple[Part, ...]
    operator: str
    fold: str
    args: tuple[Node, ...]
    axes: int


@dataclass(frozen=True, slots=True)
class Function:
    """`types` as they are written; `decoys`: texts of overloads that a call must not take."""

    name: str
    params: tuple[tuple[str, str], ...]
    lets: tuple[tuple[str, Node], ...]
    results: tuple[Node, ...]
    types: tuple[str, ...]
    decoys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """`arguments`: arrays and scalars by name; `entry`: None for a bare expression."""

    functions: tuple[Function, ...]
    body: Node | None
    arguments: dict[str, Any]
    types: dict[str, str]


def children(e: Node) -> tuple[Node, ...]:
    match e:
        case Vector():
            return e.items
        case Unary():
            return (e.operand,)
        case Binary():
            return (e.left, e.right)
        case Ternary():
            return (e.condition, e.then, e.otherwise)
        case Select():
            return (e.array, *e.index)
        case Call():
            return e.args
        case Comprehension() | WithLoop():
            args = e.args if isinstance(e, WithLoop) else ()
            return (*(x for p in e.parts for x in of_part(p)), *args)
        case _:
            return ()


def of_part(p: Part) -> tuple[Node, ...]:
    sides = tuple(b.node for b in (p.low, p.high) if isinstance(b.node, Node))
    return sides if p.body is None else (*sides, p.body)


def walk(e: Node) -> Iterator[Node]:
    left = [e]
    while left:
        e = left.pop()
        yield e
        left += children(e)
