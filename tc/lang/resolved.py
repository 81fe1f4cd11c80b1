"""The checked tree: one def with its calls inlined, every name resolved.

    Checked   : params, returns, Statement*, equalities, arguments
    Statement : target(subscript*) op value, with its index variables, ranges, lets and conditions
    Exp       : Const | Imaginary | Index | Size | Scalar | Counter | ExtentOf | OriginOf | LastIndex | Access
              | Let | Apply | Unary | Binary | If | Cast

`check` builds it without types; `types` returns it with every expression's `dtype` set and every
conversion written out as a `Cast`.  Range inference and the oracle read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from tc.dtypes import DType
from tc.errors import Span, Warning, unreachable


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor variable of the flattened program; every object is a variable of its own.

    `base`: this variable is `base` seen across a call: the same storage, subscripts from 0.  `kept`: its
    elements are compared with each other, so no pass may compute one of them twice.
    """

    name: str
    rank: int
    role: Literal["param", "return", "temporary"]
    declared: DType | None
    dims: tuple[Exp, ...] | None  # declared extents of a parameter
    span: Span = field(repr=False)
    base: Tensor | None = None
    kept: bool = False

    @property
    def storage(self) -> Tensor:
        """The variable that owns the elements."""
        return self if self.base is None else self.base.storage

    def view(self, name: str, span: Span) -> Tensor:
        """This tensor as it looks from the other side of a call."""
        return Tensor(name, self.rank, self.role, self.declared, None, span, self)


def _span() -> Span:
    return field(compare=False, repr=False)  # type: ignore[return-value]


def _dtype() -> DType | None:
    return field(default=None, compare=False, repr=False)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; `single` fixes a floating one to float32."""

    value: int | float
    single: bool
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Imaginary:
    """A literal: `value` times the imaginary unit."""

    value: float
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Index:
    name: str
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Size:
    """A size of the entry's parameters."""

    name: str
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar parameter of the entry."""

    name: str
    declared: DType
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """`for name in first:last`, or down from `first`; every object is a loop of its own, and no two of a def
    have the same name.  Bounds are known before data is read; they may hold counters of outer loops."""

    name: str
    first: Exp
    last: Exp
    down: bool
    span: Span = field(repr=False)


@dataclass(frozen=True, slots=True)
class Counter:
    """The variable of a sequential loop."""

    loop: Loop
    span: Span = _span()
    dtype: DType | None = _dtype()

    @property
    def name(self) -> str:
        return self.loop.name


@dataclass(frozen=True, slots=True)
class ExtentOf:
    """`A.0`, and what a size of an inlined def is bound to."""

    tensor: Tensor
    axis: int
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class OriginOf:
    """The first subscript of a dimension: 0 for parameters and across calls."""

    tensor: Tensor
    axis: int
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class LastIndex:
    """The greatest number of the type of index variables, which is none of their values."""

    span: Span = _span()
    dtype: DType | None = _dtype()


ModeName = Literal["none", "fill", "clamp", "reflect", "symmetric", "wrap"]
MODES = ("none", "zero", "fill", "clamp", "reflect", "symmetric", "wrap")  # as they are written


@dataclass(frozen=True, slots=True)
class Mode:
    """What an access yields outside a dimension of its tensor; `value` for "fill" alone."""

    name: ModeName
    value: Exp | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """A read; `site` numbers the accesses of a checked def (a let's access has one number).

    `modes` has one for each dimension, or none at all; `types` writes them out (`tc.lang.boundaries`).
    """

    tensor: Tensor
    subscripts: tuple[Exp, ...]
    span: Span = _span()
    dtype: DType | None = _dtype()
    site: int = field(default=-1, compare=False, repr=False)
    modes: tuple[Mode, ...] = ()

    @property
    def text(self) -> str:
        """As the source has it; with three dots for subscripts of which it only says where they come from."""
        own = (
            e.name if isinstance(e, Index) else "…" if e.span == self.span else e.span.text
            for e in self.subscripts
        )
        return f"{self.tensor.name}({', '.join(own)})"

    def constrained(self, d: int) -> bool:
        """Whether a subscript must be in range in dimension `d`: it has no boundary mode there."""
        return not self.modes or self.modes[d].name == "none"

    @property
    def fills(self) -> tuple[Exp, ...]:
        return tuple(m.value for m in self.modes if m.value is not None)


@dataclass(frozen=True, slots=True)
class Let:
    """A use of a name that the statement's `lets` define."""

    name: str
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Apply:
    """A built-in."""

    function: str
    args: tuple[Exp, ...]
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Unary:
    op: Literal["-", "!"]
    operand: Exp
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Exp
    right: Exp
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class If:
    """A lazy ternary."""

    condition: Exp
    then: Exp
    otherwise: Exp
    span: Span = _span()
    dtype: DType | None = _dtype()


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion to `target`; `written` in the source, or implied and then never narrowing."""

    target: DType
    operand: Exp
    written: bool
    span: Span = _span()
    dtype: DType | None = _dtype()


# What has no sub-expressions.
Leaf = Const | Imaginary | Index | Size | Scalar | Counter | ExtentOf | OriginOf | LastIndex | Let
Exp = Leaf | Access | Apply | Unary | Binary | If | Cast


@dataclass(frozen=True, slots=True)
class LetBinding:
    name: str
    value: Exp
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class IndexRange:
    """`name in lo:hi`; bounds hold sizes, specialised scalars, literals and extents."""

    name: str
    lo: Exp
    hi: Exp
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Subscript:
    """A left-hand-side subscript `index + offset`; one without an index variable has one of its own, whose
    range is the single `point`.  A scatter has `data` instead, which reads tensors, and no index; `site`
    numbers it among the accesses."""

    index: str
    offset: Exp | None
    span: Span = _span()
    point: Exp | None = None
    data: Exp | None = None
    site: int = field(default=-1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment.

    `indices` are the left-hand side's variables in order, `reductions` the others the right-hand side
    iterates over, `auxiliary` those that only `exists` mentions.  `box` gives the tensor's range
    where the statement alone does not (a part of a `concat`).  `loops` are the sequential loops around it,
    outermost first.  `needs` are variables that must have a value.
    """

    target: Tensor
    subscripts: tuple[Subscript, ...]
    op: str
    value: Exp
    reductions: tuple[str, ...]
    auxiliary: tuple[str, ...]
    ranges: tuple[IndexRange, ...]
    lets: tuple[LetBinding, ...]
    exists: tuple[Exp, ...]
    conditions: tuple[Exp, ...]
    span: Span = _span()
    box: tuple[tuple[Exp, Exp], ...] | None = None
    index_spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)
    loops: tuple[Loop, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(s.index for s in self.subscripts if s.data is None)

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables the statement iterates over, left-hand side first."""
        return self.indices + self.reductions

    @property
    def reduces(self) -> bool:
        return self.op != "="

    @property
    def initializes(self) -> bool:
        return self.op.endswith("!")

    def let(self, name: str) -> Exp:
        return next(b.value for b in reversed(self.lets) if b.name == name)

    def roots(self) -> Iterator[Exp]:
        """The expressions that are evaluated: the value, the lets, and subscripts of a scatter."""
        yield self.value
        yield from (b.value for b in self.lets)
        yield from self.scattered

    @property
    def scattered(self) -> tuple[Exp, ...]:
        """The subscripts that data decide."""
        return tuple(s.data for s in self.subscripts if s.data is not None)

    def span_of(self, index: str) -> Span:
        """Where a variable first occurs."""
        return dict(reversed(self.index_spans)).get(index, self.span)


@dataclass(frozen=True, slots=True)
class ScalarParam:
    name: str
    dtype: DType
    specialized: bool  # part of the compile key: occurs in a subscript, a bound or a condition
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Returned:
    """`mode`: `fresh` is made by the kernel, `inout` is read before it is written and must come from
    the caller, `accumulate` adds to the caller's buffer if one is given.  `recurrent`: it is `inout` only
    because a loop reads it in the statements that define it, maybe what earlier iterations have defined."""

    name: str
    tensor: Tensor
    mode: Literal["fresh", "inout", "accumulate"]
    dims: tuple[Exp, ...] | None
    span: Span = _span()
    recurrent: bool = False


@dataclass(frozen=True, slots=True)
class Equality:
    """Two extents that must agree."""

    left: Exp
    right: Exp
    reason: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that crosses a call as a parameter of a declared type."""

    tensor: Tensor
    dtype: DType
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Derived:
    """Lines on where the ranges of an expression come from."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Checked:
    name: str
    params: tuple[Tensor | ScalarParam, ...]
    returns: tuple[Returned, ...]
    statements: tuple[Statement, ...]
    sizes: tuple[str, ...]
    equalities: tuple[Equality, ...]
    arguments: tuple[Argument, ...]
    warnings: tuple[Warning, ...] = field(compare=False)
    span: Span = _span()
    derivation: tuple[Derived, ...] = field(default=(), compare=False)  # of ranges, in a notation's words

    @property
    def loops(self) -> int:
        """The most loops that a statement has."""
        return max(len(s.variables) for s in self.statements)


def children(e: Exp) -> tuple[Exp, ...]:
    """The direct sub-expressions."""
    if isinstance(e, Leaf):
        return ()
    match e:
        case Access():
            return e.subscripts + e.fills
        case Apply():
            return e.args
        case Unary() | Cast():
            return (e.operand,)
        case Binary():
            return (e.left, e.right)
        case If():
            return (e.condition, e.then, e.otherwise)
        case _:
            unreachable(e)


def walk(e: Exp) -> Iterator[Exp]:
    """An expression and all its sub-expressions, outermost first (lets are not followed)."""
    yield e
    for c in children(e):
        yield from walk(c)


def accesses(e: Exp) -> Iterator[Access]:
    return (x for x in walk(e) if isinstance(x, Access))


def rebuild(e: Exp, f: Callable[[Exp], Exp]) -> Exp:
    """`e` with `f` applied to its direct sub-expressions."""
    if isinstance(e, Leaf):
        return e
    match e:
        case Access():
            modes = tuple(m if m.value is None else Mode(m.name, f(m.value)) for m in e.modes)
            return replace(e, subscripts=tuple(map(f, e.subscripts)), modes=modes)
        case Apply():
            return replace(e, args=tuple(map(f, e.args)))
        case Unary() | Cast():
            return replace(e, operand=f(e.operand))
        case Binary():
            return replace(e, left=f(e.left), right=f(e.right))
        case If():
            return replace(e, condition=f(e.condition), then=f(e.then), otherwise=f(e.otherwise))
        case _:
            unreachable(e)


def map_statement(st: Statement, f: Callable[[Exp], Exp]) -> Statement:
    """`st` with `f` applied to each of its expressions except ranges and offsets."""
    return replace(
        st,
        value=f(st.value),
        lets=tuple(replace(b, value=f(b.value)) for b in st.lets),
        exists=tuple(map(f, st.exists)),
        conditions=tuple(map(f, st.conditions)),
        subscripts=tuple(s if s.data is None else replace(s, data=f(s.data)) for s in st.subscripts),
    )


def expand_lets(e: Exp, s: Statement) -> Exp:
    """`e` with the statement's lets substituted."""
    if isinstance(e, Let):
        return expand_lets(s.let(e.name), s)
    return rebuild(e, lambda c: expand_lets(c, s))
