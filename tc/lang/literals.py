"""Literals: of what type they are alone, how they take another one, and arithmetic on literals alone."""

from __future__ import annotations

from dataclasses import replace

from tc.dtypes import COMPLEX64, FLOAT32, INT32, INT64, UINT64, DType
from tc.errors import DTypeError
from tc.lang import resolved as r
from tc.lang.builtins import BUILTINS


def typed_literal(c: r.Const, dtype: DType, where: str = "") -> r.Const:
    """A literal of a type; `where` it goes ("stored in 'y'") is for the message.

    DTypeError TC0406 for a literal that the type does not hold.
    """
    if dtype.is_complex:
        return replace(c, value=dtype.part.literal(c.value), dtype=dtype)
    if dtype.is_float:
        return replace(c, value=dtype.literal(c.value), dtype=dtype)
    if isinstance(c.value, float):
        raise DTypeError(
            f"the literal {c.value!r} does not adapt to {dtype}",
            c.span,
            code="TC0406",
            help=f"write the cast: {dtype}({c.span.text})"
            + (
                "; or start from 0.0, or declare the result, -> (float y)"
                if where.startswith("stored")
                else ""
            ),
        )
    if dtype.is_bool or not dtype.min <= c.value <= dtype.max:
        raise DTypeError(
            f"the literal {c.value} does not fit {dtype}",
            c.span,
            code="TC0406",
            help="compare instead: x != 0" if dtype.is_bool else f"write the cast: {dtype}({c.span.text})",
        )
    return replace(c, dtype=dtype)


def own_type(e: r.Exp) -> DType:
    """The type of an expression that nothing else types."""
    if e.dtype is not None:
        return e.dtype
    if imaginary(e):
        return COMPLEX64
    if weak_float(e):
        return FLOAT32
    value = e.value if isinstance(e, r.Const) else 0
    return next((t for t in (INT32, INT64) if t.min <= value <= t.max), UINT64)


def imaginary(e: r.Exp) -> bool:
    """Whether a literal of an expression that is not typed yet is imaginary."""
    return e.dtype is None and any(isinstance(x, r.Imaginary) and x.dtype is None for x in r.walk(e))


def weak_float(e: r.Exp) -> bool:
    """Whether an expression that is not typed yet is a floating number: it has a floating literal, or a
    function of such numbers, outside of conditions."""
    left = [e]
    while left:
        x = left.pop()
        match x:
            case r.Const() if isinstance(x.value, float):
                return True
            case r.Apply() if BUILTINS[x.function].kind == "math":
                return True
            case r.If():
                left += (x.then, x.otherwise)
            case r.Apply(function="select"):
                left += x.args[1:]
            case _:
                left += r.children(x)
    return False


def folded(e: r.Binary, a: r.Exp, b: r.Exp) -> r.Const | None:
    """Arithmetic on literals alone, in exact integers or double precision."""
    if not (isinstance(a, r.Const) and isinstance(b, r.Const)) or a.dtype is not None or b.dtype is not None:
        return None
    x, y = a.value, b.value
    value: int | float
    match e.op:
        case "+":
            value = x + y
        case "-":
            value = x - y
        case "*":
            value = x * y
        case "/" if isinstance(x, int) and isinstance(y, int):
            value = x // y if y else 0
        case "%" if isinstance(x, int) and isinstance(y, int):
            value = x % y if y else 0
        case "/" if y != 0:
            value = x / y
        case _:
            return None
    if isinstance(value, int) and not INT64.min <= value <= UINT64.max:
        value = INT64.wrap(value)
    return r.Const(value, False, e.span)
