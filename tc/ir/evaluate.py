"""Index expressions at given sizes, in exact Python integers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tc.errors import InternalError
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import Buffer


def evaluate(e: Expr, values: Mapping[str, int | float]) -> int:
    """The value of an expression of type `INDEX` or bool; `/` and `%` floor, and give 0 for a divisor 0."""
    match e:
        case x.IntImm() | x.UIntImm():
            return e.value
        case x.Variable():
            return int(values[e.name])
        case x.Cast():
            return evaluate(e.value, values)
        case x.Add():
            return evaluate(e.a, values) + evaluate(e.b, values)
        case x.Sub():
            return evaluate(e.a, values) - evaluate(e.b, values)
        case x.Mul():
            return evaluate(e.a, values) * evaluate(e.b, values)
        case x.FloorDiv():
            b = evaluate(e.b, values)
            return evaluate(e.a, values) // b if b else 0
        case x.FloorMod():
            b = evaluate(e.b, values)
            return evaluate(e.a, values) % b if b else 0
        case x.Min():
            return min(evaluate(e.a, values), evaluate(e.b, values))
        case x.Max():
            return max(evaluate(e.a, values), evaluate(e.b, values))
        case x.EQ():
            return evaluate(e.a, values) == evaluate(e.b, values)
        case x.NE():
            return evaluate(e.a, values) != evaluate(e.b, values)
        case x.LT():
            return evaluate(e.a, values) < evaluate(e.b, values)
        case x.LE():
            return evaluate(e.a, values) <= evaluate(e.b, values)
        case x.GT():
            return evaluate(e.a, values) > evaluate(e.b, values)
        case x.GE():
            return evaluate(e.a, values) >= evaluate(e.b, values)
        case x.And():
            return bool(evaluate(e.a, values) and evaluate(e.b, values))
        case x.Or():
            return bool(evaluate(e.a, values) or evaluate(e.b, values))
        case x.Not():
            return not evaluate(e.a, values)
        case x.Select() | x.IfThenElse():
            condition, then, otherwise = x.children(e)
            return evaluate(then if evaluate(condition, values) else otherwise, values)
        case _:
            raise InternalError(f"not an index expression: {e!r}")


def bytes_of(b: Buffer, sizes: Mapping[str, int]) -> int:
    """The bytes of a buffer at these sizes."""
    return math.prod(max(0, evaluate(r.extent, sizes)) for r in b.box) * b.dtype.itemsize
