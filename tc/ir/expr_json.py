"""Index expressions as plain data: what `tc.ir.evaluate` evaluates, written to a file and read again.

An integer stands for itself, true and false for conditions, a text for a variable; other expressions are
lists of an operator and its operands, such as `["Add", "N", 1]`.
"""

from __future__ import annotations

from typing import Any, cast

from tc.dtypes import BOOL
from tc.errors import InternalError
from tc.ir import expr as x
from tc.ir.expr import Expr

_OPERATORS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        x.Add, x.Sub, x.Mul, x.FloorDiv, x.FloorMod, x.Min, x.Max, x.EQ, x.NE, x.LT, x.LE, x.GT, x.GE, x.And,
        x.Or, x.Not, x.Select,
    )
}  # fmt: skip
_DEPTH = 400  # of nested operators: what is deeper is no expression that this project wrote


def to_json(e: Expr) -> Any:
    """Plain data for an expression of type `INDEX` or bool; InternalError for one that is neither."""
    match x.inline_lets(e):
        case x.IntImm() as e:
            return e.value
        case x.UIntImm() as e:
            return bool(e.value) if e.dtype.is_bool else e.value
        case x.Variable() as e:
            return e.name
        case x.Cast() as e:  # index expressions are exact integers, which conversions leave alone
            return to_json(e.value)
        case x.IfThenElse() as e:
            return ["Select", *map(to_json, x.children(e))]
        case e if type(e).__name__ in _OPERATORS:
            return [type(e).__name__, *map(to_json, x.children(e))]
        case e:
            raise InternalError(f"not an index expression: {e!r}")


def from_json(data: Any, depth: int = _DEPTH) -> Expr:
    """The inverse of `to_json`; ValueError for data that is not its result."""
    match data:
        case bool():
            return x.UIntImm(int(data), BOOL)
        case int():
            return x.IntImm(data)
        case str():
            return x.Variable(data)
        case [str(name), *operands] if name in _OPERATORS and depth:
            kind = _OPERATORS[name]
            wanted = 3 if kind is x.Select else 1 if kind is x.Not else 2
            if len(operands) == wanted:
                return cast("Expr", kind(*(from_json(o, depth - 1) for o in operands)))
        case _:
            pass
    raise ValueError(f"not an expression: {str(data)[:80]}")
