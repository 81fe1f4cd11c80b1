"""Typed expressions, named after Halide's nodes.

    Expr : IntImm | UIntImm | FloatImm | Variable | Cast
         | Add | Sub | Mul | Div | FloorDiv | FloorMod | Min | Max
         | EQ | NE | LT | LE | GT | GE | And | Or | Not
         | Select | IfThenElse | Let | Call | Load

Both operands of a binary node have one type; comparisons give bool.  Where the meaning differs from
Halide's the node has its own name: `FloorDiv`/`FloorMod` floor, x/0 = x%0 = 0 and INT_MIN/-1 wraps
(Halide's `Div`/`Mod` are Euclidean); `Div` is floating only; `Min`/`Max` propagate NaN (Halide's drop
it); `IfThenElse` is lazy beside the strict `Select`.

Index arithmetic (subscripts, boxes, conditions) has the type `INDEX` and means exact integers.
`Call` reads a Func, an image or applies an intrinsic; `Load` is what a read becomes in a loop nest:
zero-based subscripts into a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import is_
from typing import Literal

from tc.dtypes import BOOL, INT64, DType
from tc.errors import unreachable

INDEX = INT64


@dataclass(frozen=True, slots=True)
class IntImm:
    value: int
    dtype: DType = INDEX


@dataclass(frozen=True, slots=True)
class UIntImm:
    """An unsigned or bool literal."""

    value: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class FloatImm:
    value: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Variable:
    """An index variable, a size, a scalar parameter, a let or a loop iterator."""

    name: str
    dtype: DType = INDEX


@dataclass(frozen=True, slots=True)
class Cast:
    """Between floating types it rounds; float to integer truncates, saturates and maps NaN to 0;
    integer to narrower integer wraps; to bool it compares with 0."""

    dtype: DType
    value: Expr


@dataclass(frozen=True, slots=True)
class _Binary:
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:
        return self.a.dtype


@dataclass(frozen=True, slots=True)
class _Compare:
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:
        return BOOL


class Add(_Binary):
    __slots__ = ()


class Sub(_Binary):
    __slots__ = ()


class Mul(_Binary):
    __slots__ = ()


class Div(_Binary):
    """Floating division."""

    __slots__ = ()


class FloorDiv(_Binary):
    """Integer division towards minus infinity; by 0 it gives 0."""

    __slots__ = ()


class FloorMod(_Binary):
    """`a - FloorDiv(a, b) * b`, and 0 for b = 0."""

    __slots__ = ()


class Min(_Binary):
    """The lesser; NaN if either is NaN."""

    __slots__ = ()


class Max(_Binary):
    """The greater; NaN if either is NaN."""

    __slots__ = ()


class EQ(_Compare):
    __slots__ = ()


class NE(_Compare):
    __slots__ = ()


class LT(_Compare):
    __slots__ = ()


class LE(_Compare):
    __slots__ = ()


class GT(_Compare):
    __slots__ = ()


class GE(_Compare):
    __slots__ = ()


class And(_Compare):
    __slots__ = ()


class Or(_Compare):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Not:
    a: Expr

    @property
    def dtype(self) -> DType:
        return BOOL


@dataclass(frozen=True, slots=True)
class Select:
    """Strict: both values are evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr

    @property
    def dtype(self) -> DType:
        return self.true_value.dtype


@dataclass(frozen=True, slots=True)
class IfThenElse:
    """Lazy: the value not chosen reads nothing."""

    condition: Expr
    then_value: Expr
    else_value: Expr

    @property
    def dtype(self) -> DType:
        return self.then_value.dtype


@dataclass(frozen=True, slots=True)
class Let:
    """`value` is evaluated before `body`, also where the body would not need it."""

    name: str
    value: Expr
    body: Expr

    @property
    def dtype(self) -> DType:
        return self.body.dtype


@dataclass(frozen=True, slots=True)
class Call:
    """A read of a Func or an image at logical coordinates, or an intrinsic of `lang.builtins`.

    Of complex numbers there are the intrinsics `imaginary` (a real number times the unit), `conj real imag
    arg polar abs exp sqrt`, until `tc.transforms.program.complex_parts` has split them.

    `checked` lists the dimensions whose subscript must be checked when the kernel runs; `site`
    numbers the access in `Program.sites` (for messages).
    """

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    kind: Literal["func", "image", "intrinsic"]
    checked: tuple[int, ...] = ()
    site: int = -1


@dataclass(frozen=True, slots=True)
class Load:
    """A read of a buffer in a loop nest at zero-based subscripts; `checked` and `site` as in `Call`.
    `inside`: the element exists at all points of the ranges of its statement, whatever conditions say."""

    buffer: str
    subscripts: tuple[Expr, ...]
    dtype: DType
    checked: tuple[int, ...] = ()
    site: int = -1
    inside: bool = False


Expr = (
    IntImm | UIntImm | FloatImm | Variable | Cast
    | Add | Sub | Mul | Div | FloorDiv | FloorMod | Min | Max
    | EQ | NE | LT | LE | GT | GE | And | Or | Not
    | Select | IfThenElse | Let | Call | Load
)  # fmt: skip

Binary = Add | Sub | Mul | Div | FloorDiv | FloorMod | Min | Max
Compare = EQ | NE | LT | LE | GT | GE

ZERO, ONE = IntImm(0), IntImm(1)
TRUE, FALSE = UIntImm(1, BOOL), UIntImm(0, BOOL)


def imm(value: int | float, dtype: DType) -> Expr:
    """A literal of a type; integers wrap to it, and of a complex one it is the real part."""
    if dtype.is_complex:
        return Cast(dtype, imm(value, dtype.part))
    if dtype.is_float:
        return FloatImm(dtype.literal(value), dtype)
    if dtype.is_bool:
        return UIntImm(int(bool(value)), dtype)
    value = dtype.wrap(int(value))
    return IntImm(value, dtype) if dtype.is_signed else UIntImm(value, dtype)


def constant(e: Expr) -> int | float | None:
    """The value of a literal, else None."""
    return e.value if isinstance(e, (IntImm, UIntImm, FloatImm)) else None


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions."""
    match e:
        case IntImm() | UIntImm() | FloatImm() | Variable():
            return ()
        case Cast():
            return (e.value,)
        case _Binary() | _Compare():
            return (e.a, e.b)
        case Not():
            return (e.a,)
        case Select():
            return (e.condition, e.true_value, e.false_value)
        case IfThenElse():
            return (e.condition, e.then_value, e.else_value)
        case Let():
            return (e.value, e.body)
        case Call():
            return e.args
        case Load():
            return e.subscripts
        case _:
            unreachable(e)


def rebuild(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """`e` with `f` applied to its direct sub-expressions; `e` itself where these stay."""
    match e:
        case IntImm() | UIntImm() | FloatImm() | Variable():
            return e
        case _Binary() | _Compare():
            a, b = f(e.a), f(e.b)
            return e if a is e.a and b is e.b else type(e)(a, b)  # type: ignore[return-value]
        case Cast():
            value = f(e.value)
            return e if value is e.value else Cast(e.dtype, value)
        case Call():
            args = tuple(map(f, e.args))
            return e if all(map(is_, args, e.args)) else replace(e, args=args)
        case Load():
            subscripts = tuple(map(f, e.subscripts))
            return e if all(map(is_, subscripts, e.subscripts)) else replace(e, subscripts=subscripts)
        case Not():
            a = f(e.a)
            return e if a is e.a else Not(a)
        case Select():
            return Select(f(e.condition), f(e.true_value), f(e.false_value))
        case IfThenElse():
            return IfThenElse(f(e.condition), f(e.then_value), f(e.else_value))
        case Let():
            return Let(e.name, f(e.value), f(e.body))
        case _:
            unreachable(e)


def walk(e: Expr) -> Iterator[Expr]:
    """An expression and all its sub-expressions, outermost first."""
    left = [e]
    while left:
        e = left.pop()
        yield e
        left += reversed(children(e))


def without_sites(e: Expr, of_checked: bool = True) -> Expr:
    """`e` without the numbers of its accesses, so that reads of one element are equal wherever the source has
    them; those of accesses that are checked stay on request, since messages need them."""
    e = rebuild(e, lambda c: without_sites(c, of_checked))
    return (
        replace(e, site=-1) if isinstance(e, Call) and e.site != -1 and (of_checked or not e.checked) else e
    )


def variables(e: Expr) -> set[str]:
    """The names of the free variables."""
    match e:
        case Variable():
            return {e.name}
        case Let():
            return variables(e.value) | (variables(e.body) - {e.name})
        case _:
            return {n for c in children(e) for n in variables(c)}


def substitute(e: Expr, values: dict[str, Expr]) -> Expr:
    """`e` with free variables replaced; let-bound names shadow."""
    match e:
        case Variable():
            return values.get(e.name, e)
        case Let():
            inner = {k: v for k, v in values.items() if k != e.name}
            return Let(e.name, substitute(e.value, values), substitute(e.body, inner))
        case _:
            return rebuild(e, lambda c: substitute(c, values))


def inline_lets(e: Expr, values: dict[str, Expr] | None = None) -> Expr:
    """`e` without `Let`s (use where an expression is analysed, not where it is computed)."""

    def inlined(e: Expr, values: dict[str, Expr]) -> Expr:
        match e:
            case Variable():
                return values.get(e.name, e)
            case Let():
                return inlined(e.body, {**values, e.name: inlined(e.value, values)})
            case _:
                return rebuild(e, lambda c: inlined(c, values))

    return inlined(e, values or {}) if values or any(isinstance(x, Let) for x in walk(e)) else e
