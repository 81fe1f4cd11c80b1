"""The syntax tree: what the text says, nothing resolved yet.

    program : Def+
    Def     : name, Param*, Return*, Stmt*
    Stmt    : Assign | TupleCall | For(name, bounds, Stmt*)
    Assign  : Lhs(name, subscripts | None), op, Exp, Clause*
    Clause  : RangeClause | LetClause | ExistsClause | Condition
    Exp     : IntLit | FloatLit | ImaginaryLit | Name | Dim | Call | Unary | Binary | Ternary | Cast

Nodes compare by structure; spans do not take part, so that formatted text parses back to an equal tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from tc.dtypes import DType
from tc.errors import Span


def _span() -> Span:
    return field(compare=False, repr=False)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class IntLit:
    value: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FloatLit:
    """A floating literal; `single` where the suffix `f` fixes it to float32."""

    value: float
    single: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ImaginaryLit:
    """`2.5j`: `value` times the imaginary unit."""

    value: float
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    """A bare name: let, index, scalar, 0-D tensor, size, or a tensor as the argument of a call."""

    id: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Dim:
    """`A.0`: the extent of a dimension."""

    tensor: str
    axis: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """`f(a, b)`: a tensor access, a built-in or a def."""

    name: str
    args: tuple[Exp, ...]
    span: Span = _span()
    name_span: Span = _span()
    modes: tuple[Mode, ...] = ()


@dataclass(frozen=True, slots=True)
class Mode:
    """What an access yields outside its tensor: `zero`, `fill=value`, `clamp`, ..."""

    name: str
    value: Exp | None
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
    """`c ? a : b`, lazy: the branch not taken reads nothing."""

    condition: Exp
    then: Exp
    otherwise: Exp
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Cast:
    dtype: DType
    operand: Exp
    span: Span = _span()


Exp = IntLit | FloatLit | ImaginaryLit | Name | Dim | Call | Unary | Binary | Ternary | Cast


def parts(e: Exp) -> tuple[Exp, ...]:
    """The expressions that one is directly made of."""
    match e:
        case IntLit() | FloatLit() | ImaginaryLit() | Name() | Dim():
            return ()
        case Call():
            return e.args + tuple(m.value for m in e.modes if m.value is not None)
        case Unary() | Cast():
            return (e.operand,)
        case Binary():
            return (e.left, e.right)
        case Ternary():
            return (e.condition, e.then, e.otherwise)


def rebuild(e: Exp, f: Callable[[Exp], Exp]) -> Exp:
    """The same expression with `f` of each of its parts."""
    match e:
        case IntLit() | FloatLit() | ImaginaryLit() | Name() | Dim():
            return e
        case Call():
            modes = tuple(m if m.value is None else replace(m, value=f(m.value)) for m in e.modes)
            return replace(e, args=tuple(map(f, e.args)), modes=modes)
        case Unary() | Cast():
            return replace(e, operand=f(e.operand))
        case Binary():
            return replace(e, left=f(e.left), right=f(e.right))
        case Ternary():
            return replace(e, condition=f(e.condition), then=f(e.then), otherwise=f(e.otherwise))


@dataclass(frozen=True, slots=True)
class RangeClause:
    """`i in lo:hi`, half-open."""

    name: str
    lo: Exp
    hi: Exp
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class LetClause:
    name: str
    value: Exp
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class ExistsClause:
    """`exists A(i)`: only feeds range inference."""

    value: Exp
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Condition:
    """`i <= j`: cuts the iteration domain."""

    value: Exp
    span: Span = _span()


Clause = RangeClause | LetClause | ExistsClause | Condition


@dataclass(frozen=True, slots=True)
class Lhs:
    """`subscripts` is None for a bare name, () for `O()`."""

    name: str
    subscripts: tuple[Exp, ...] | None
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Assign:
    lhs: Lhs
    op: str
    value: Exp
    clauses: tuple[Clause, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Target:
    """One name on the left of a call with several results."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TupleCall:
    """`(a, b) = f(x, y)`."""

    targets: tuple[Target, ...]
    callee: str
    args: tuple[Exp, ...]
    span: Span = _span()
    callee_span: Span = _span()


@dataclass(frozen=True, slots=True)
class For:
    """`for t in lo:hi { ... }`, or `for t in hi:lo:-1 { ... }`, which counts down from the first bound."""

    name: str
    first: Exp
    last: Exp
    down: bool
    body: tuple[Stmt, ...]
    span: Span = _span()
    name_span: Span = _span()


Stmt = Assign | TupleCall | For


def rebuild_assign(st: Assign, f: Callable[[Exp], Exp]) -> Assign:
    """The same assignment with `f` of each of its expressions."""

    def clause(c: Clause) -> Clause:
        if isinstance(c, RangeClause):
            return replace(c, lo=f(c.lo), hi=f(c.hi))
        return replace(c, value=f(c.value))

    subscripts = None if st.lhs.subscripts is None else tuple(map(f, st.lhs.subscripts))
    return replace(
        st,
        lhs=replace(st.lhs, subscripts=subscripts),
        value=f(st.value),
        clauses=tuple(map(clause, st.clauses)),
    )


def assignments(body: tuple[Stmt, ...]) -> Iterator[Assign | TupleCall]:
    """The statements of a body and of the loops in it, in order."""
    for st in body:
        if isinstance(st, For):
            yield from assignments(st.body)
        else:
            yield st


@dataclass(frozen=True, slots=True)
class DimDecl:
    """A declared extent: the name of a size, or a constant."""

    value: str | int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Type:
    """An element type and the declared extents; no extents is a scalar.  `variable` is the type variable that
    `dtype` is the value of."""

    dtype: DType
    dims: tuple[DimDecl, ...]
    span: Span = _span()
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """A variable for an element type, and which types it may be."""

    name: str
    bound: Literal["number", "floating", "integral", "complex"]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Param:
    type: Type
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Return:
    """A returned tensor; `has_dims` tells `float(N) C` from `float C`, which fixes no rank."""

    type: Type | None
    name: str
    has_dims: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Def:
    name: str
    params: tuple[Param, ...]
    returns: tuple[Return, ...]
    body: tuple[Stmt, ...]
    span: Span = _span()
    name_span: Span = _span()
    variables: tuple[TypeVariable, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    defs: tuple[Def, ...]
    span: Span = _span()
