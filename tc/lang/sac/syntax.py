"""The syntax tree of the SaC notation.

    Program   : Function* | a bare expression
    Function  : Type* name Param* Assign* exp*
    Exp       : Int | Float | Bool | Name | Vector | Call | Select | Unary | Binary | Ternary
              | Comprehension | WithLoop
    Partition : Pattern -> body | Bounds
    Generator : Bounds [step [width]] : body

Trees compare by what they say, not by where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, cast

from tc.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)
from tc.errors import Span

BASES: dict[str, DType] = {
    "bool": BOOL,
    "byte": INT8,
    "short": INT16,
    "int": INT32,
    "long": INT64,
    "ubyte": UINT8,
    "ushort": UINT16,
    "uint": UINT32,
    "ulong": UINT64,
    "float": FLOAT32,
    "double": FLOAT64,
    "_T": FLOAT64,  # the prelude's any type
}


def _span() -> Span:
    return field(compare=False, repr=False)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Int:
    value: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Float:
    """`single`: with the suffix f."""

    value: float
    single: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bool:
    value: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    id: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Vector:
    """`[e1, …, en]`: n expressions of one shape along a new first axis."""

    items: tuple[Exp, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    args: tuple[Exp, ...]
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Select:
    """`A[iv]`, or `A[i, j]`, which is `A[[i, j]]`."""

    array: Exp
    index: tuple[Exp, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    op: Literal["-", "!"]
    operand: Exp
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Exp
    right: Exp
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Ternary:
    condition: Exp
    then: Exp
    otherwise: Exp
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Slot:
    """An item of a pattern: a name, or `.` or `...`, which the axes of the body fill."""

    name: str
    span: Span = _span()

    @property
    def dot(self) -> bool:
        return self.name in (".", "...")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A vector variable, or the variables and dots of `[i, ., j]`."""

    name: str | None
    slots: tuple[Slot, ...]
    span: Span = _span()

    @property
    def variables(self) -> tuple[Slot, ...]:
        """The slots without dots (strip-dots of §5.2)."""
        return tuple(s for s in self.slots if not s.dot)


@dataclass(frozen=True, slots=True)
class Dot:
    """`.` as a bound: that of the result."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bounds:
    """`lower <= index < upper`; None for a side that is not written; `strict` where a relation is `<`."""

    lower: Exp | Dot | None
    upper: Exp | Dot | None
    strict: tuple[bool, bool]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Partition:
    index: Pattern
    body: Exp
    bounds: Bounds | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Comprehension:
    partitions: tuple[Partition, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator of a with-loop; without a body it takes the default."""

    index: Pattern
    bounds: Bounds
    step: Exp | None
    width: Exp | None
    body: Exp | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class WithLoop:
    """`args`: shape and default of genarray, the array of modarray, the neutral element of fold."""

    generators: tuple[Generator, ...]
    operator: Literal["genarray", "modarray", "fold"]
    function: str
    args: tuple[Exp, ...]
    span: Span = _span()
    operator_span: Span = _span()


Exp = Int | Float | Bool | Name | Vector | Call | Select | Unary | Binary | Ternary | Comprehension | WithLoop


@dataclass(frozen=True, slots=True)
class Type:
    """`dims`: None for a scalar, "*" and "+" for any rank (at least 1), else an extent or None an axis."""

    base: str
    dims: Literal["*", "+"] | tuple[int | None, ...] | None
    span: Span = _span()

    @property
    def dtype(self) -> DType:
        return BASES[self.base]

    @property
    def rank(self) -> int | None:
        """The rank, or None where any will do."""
        return 0 if self.dims is None else None if isinstance(self.dims, str) else len(self.dims)


@dataclass(frozen=True, slots=True)
class Param:
    type: Type
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Exp
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Function:
    types: tuple[Type, ...]
    name: str
    params: tuple[Param, ...]
    body: tuple[Assign, ...]
    results: tuple[Exp, ...]
    span: Span = _span()
    name_span: Span = _span()
    return_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Program:
    """`bare`: the expression of a program without functions."""

    functions: tuple[Function, ...]
    bare: Exp | None
    span: Span = _span()


def children(e: Exp) -> tuple[Exp, ...]:
    """The direct sub-expressions, bounds among them, in the order in which they are written."""
    match e:
        case Int() | Float() | Bool() | Name():
            return ()
        case Vector():
            return e.items
        case Call():
            return e.args
        case Select():
            return (e.array, *e.index)
        case Unary():
            return (e.operand,)
        case Binary():
            return (e.left, e.right)
        case Ternary():
            return (e.condition, e.then, e.otherwise)
        case Comprehension():
            return tuple(x for p in e.partitions for x in (p.body, *sides(p.bounds)))
        case WithLoop():
            found: list[Exp] = []
            for g in e.generators:
                found += [*sides(g.bounds), *(x for x in (g.step, g.width, g.body) if x is not None)]
            return (*found, *e.args)


def sides(b: Bounds | None) -> tuple[Exp, ...]:
    """The expressions of bounds."""
    both = () if b is None else (b.lower, b.upper)
    return tuple(x for x in both if x is not None and not isinstance(x, Dot))


def placed(node: Any, span: Span) -> Any:
    """A node, or a tuple of nodes, of which every part stands at one place of a source."""
    if isinstance(node, tuple):
        return tuple(placed(x, span) for x in cast("tuple[Any, ...]", node))
    if isinstance(node, Span):
        return span
    if not is_dataclass(node) or isinstance(node, (type, DType)):
        return node
    return replace(node, **{f.name: placed(getattr(node, f.name), span) for f in fields(node)})


def walk(e: Exp) -> Iterator[Exp]:
    """An expression and all its sub-expressions, outermost first."""
    left = [e]
    while left:
        e = left.pop()
        yield e
        left += reversed(children(e))
