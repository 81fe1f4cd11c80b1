# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Arithmetic on scalar expressions, and their text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tc.dtypes import BOOL, INT32
from tc.errors import Span
from tc.lang import resolved as r
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Type, converted

COMPARE = ("==", "!=", "<", ">", "<=", ">=")


def adapted(value: Any, dtype: Type, target: Type) -> Any:
    """A literal as it adapts; typed operands are converted by the types of the IR."""
    return converted(value, dtype, target) if isinstance(dtype, str) else value


def arithmetic(op: str, x: Any, y: Any, dtype: Type, span: Span) -> Any:
    """`x op y`; known numbers are computed, and `/` and `%` of integers truncate."""
    integral = dtype == "int" or (not isinstance(dtype, str) and dtype.is_int)
    a, b = (_value(x), _value(y))
    if a is not None and b is not None and op in COMPARE:
        return t.truth(_COMPARISONS[op](a, b), span)
    if op in COMPARE:
        if integral and t.same(x, y) and is_static(x) and is_static(y):
            return t.truth(op in ("==", "<=", ">="), span)
        return r.Binary(op, x, y, span)
    if integral and op in ("/", "%"):
        if type(a) is int and type(b) is int and _fits_int(dtype, a, b):
            q = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return t.const(q if op == "/" else 0 if b == 0 else a - q * b, span)
        if _unsigned(dtype):
            return r.Binary(op, x, y, span)
        if is_static(x) and is_static(y) and t.not_negative(y, {}):
            return t.truncated(op, x, y, span)
        return r.Binary("quo" if op == "/" else "rem", x, y, span)
    if dtype == "float" and a is not None and b is not None:
        found = _folded(op, float(a), float(b))
        return r.Const(found, False, span) if found is not None else r.Binary(op, x, y, span)
    if op in ("+", "-", "*") and dtype in ("int", INT32) and is_static(x) and is_static(y):
        out = t.simplify(r.Binary(op, x, y, span))
        if all(abs(k) <= INT32.max for k in (*t.linear(out)[0].values(), t.linear(out)[1])):
            return _at(out, span)
        if dtype == "int" and t.number(out) is not None:
            return r.Const(INT32.wrap(t.number(out) or 0), False, span)
    return r.Binary(op, x, y, span)


def _at(e: Any, span: Span) -> Any:
    return replace(e, span=span)


def _fits_int(dtype: Type, a: int, b: int) -> bool:
    return dtype != "int" or max(abs(a), abs(b)) <= INT32.max


def _folded(op: str, a: float, b: float) -> float | None:
    try:
        return {"+": a + b, "-": a - b, "*": a * b}[op] if op != "/" else a / b
    except (ArithmeticError, OverflowError):
        return None


def _unsigned(dtype: Type) -> bool:
    return not isinstance(dtype, str) and not dtype.is_signed


def _value(e: Any) -> int | float | None:
    return e.value if isinstance(e, r.Const) and not e.single else None


def is_static(e: Any) -> bool:
    """Whether a scalar is made of indices and sizes.  It looks at whatever is nearest first, so that a long
    chain of operators on data costs little each time that it grows."""
    level: list[Any] = [e]
    while level:
        if not all(map(_is_static_node, level)):
            return False
        level = [c for x in level for c in t.children(x)]
    return True


def _is_static_node(x: Any) -> bool:
    match x:
        case r.Const() | r.Index() | r.Size():
            return True
        case r.Binary():
            return x.op in ("+", "-", "*", "/", "%")
        case r.Unary():
            return x.op == "-"
        case r.Apply():
            return x.function in ("min", "max")
        case _:
            return False


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def truth_of(e: Any) -> bool | None:
    """The value of a condition that is known."""
    match e:
        case r.Cast(operand=r.Const() as known) if e.target == BOOL:
            return bool(known.value)
        case r.Binary(op="<" | "<=" | "==" | "!=" | ">" | ">=") if is_static(e.left) and is_static(e.right):
            d = t.number(t.minus(e.right, e.left))
            if d is not None:
                return _COMPARISONS[e.op](0, d)
            if e.op == "<=" and t.not_negative(t.minus(e.right, e.left), {}):
                return True
            return None
        case _:
            return None


def conjuncts(c: Any) -> list[Any]:
    """Conditions that together are one: each may say of fewer variables what has to hold."""
    match c:
        case r.Binary(op="&&"):
            return conjuncts(c.left) + conjuncts(c.right)
        case r.Unary(op="!", operand=r.Unary(op="!", operand=inner)):
            return conjuncts(inner)
        case r.Unary(op="!", operand=r.Binary(op="||", left=left, right=right)):
            return [x for side in (left, right) for x in conjuncts(r.Unary("!", side, c.span))]
        case _:
            return [c]


def facts(e: Any, value: bool) -> list[Any]:
    """Integers that are not negative where a condition has this value, as far as it compares integers that
    are made of indices and sizes."""
    match e:
        case r.Unary(op="!"):
            return facts(e.operand, not value)
        case r.Binary(op="&&" | "||") if (e.op == "&&") == value:
            return facts(e.left, value) + facts(e.right, value)
        case r.Binary(op="<" | "<=" | ">" | ">=" | "==" | "!=") if is_static(e.left) and is_static(e.right):
            one = t.const(1, e.span)
            less, more = t.minus(e.right, e.left), t.minus(e.left, e.right)
            match (e.op, value):
                case ("<", True) | (">=", False):
                    return [t.minus(less, one)]
                case (">=", True) | ("<", False):
                    return [more]
                case (">", True) | ("<=", False):
                    return [t.minus(more, one)]
                case ("<=", True) | (">", False):
                    return [less]
                case ("==", True) | ("!=", False):
                    return [less, more]
                case _:
                    return []
        case _:
            return []


def t_text(e: Any) -> str:
    """An extent or subscript as a SaC program would write it."""
    match e:
        case r.Const():
            return str(e.value)
        case r.Index():
            return e.name.partition("$")[0] or "i"
        case r.Scalar():
            return e.name
        case r.Size():
            base, _, axis = e.name.rpartition("_")
            return f"shape({base})[{axis}]"
        case r.Unary():
            return f"-{t_text(e.operand)}"
        case r.Binary(op="+" | "-"):
            right = t_text(e.right)
            if isinstance(e.right, r.Binary) and e.right.op in ("+", "-"):
                right = f"({right})"
            return f"{t_text(e.left)} {e.op} {right}"
        case r.Binary(op="*" | "/" | "%"):
            sides = (
                f"({t_text(x)})" if isinstance(x, r.Binary | r.Unary) else t_text(x)
                for x in (e.left, e.right)
            )
            return f" {e.op} ".join(sides)
        case r.Apply():
            return f"{e.function}({', '.join(t_text(a) for a in e.args)})"
        case _:
            return e.span.text
