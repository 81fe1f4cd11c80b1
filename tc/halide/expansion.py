"""How large an expression is for Halide's front end, which walks shared parts once for each use.

`log1p(x)` uses x ten times; eight of them inside each other are 10^8 nodes to visit, though there are
only some hundred.  (After a definition has been made Halide eliminates common subexpressions.)
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tc.dtypes import DType
from tc.halide import arithmetic
from tc.halide.binding import element, hl
from tc.halide.builtins import FUNCTIONS
from tc.ir import expr as x
from tc.ir.expr import Expr


def expansion(e: Expr, lets: Mapping[str, int] | None = None) -> int:
    """The nodes of an expression once every use of a shared part is counted, about."""
    lets = lets or {}
    match e:
        case x.Variable():
            return lets.get(e.name, 1)
        case x.Let():
            return expansion(e.body, {**lets, e.name: expansion(e.value, lets)})
        case x.Cast():
            return 1 + _uses_of_cast(e.value.dtype, e.dtype) * expansion(e.value, lets)
        case x.Call(kind="intrinsic") if e.name in FUNCTIONS:
            uses = _uses_of_function(e.name, e.dtype, len(e.args))
            return 1 + sum(n * expansion(a, lets) for n, a in zip(uses, e.args, strict=True))
        case _ if type(e) in arithmetic.BINARY:
            a, b = x.children(e)
            of_a, of_b = _uses_of_binary(type(e), a.dtype)
            return 1 + of_a * expansion(a, lets) + of_b * expansion(b, lets)
        case _:
            return 1 + sum(expansion(c, lets) for c in x.children(e))


def _count(made: object, names: list[str]) -> list[int]:
    text = repr(made)
    return [max(1, text.count(n)) for n in names]


@cache
def _uses_of_cast(source: DType, target: DType) -> int:
    (n,) = _count(arithmetic.convert(hl.Param(element(source), "tc__a"), source, target), ["tc__a"])
    return n


@cache
def _uses_of_binary(node: type, dtype: DType) -> list[int]:
    a, b = hl.Param(element(dtype), "tc__a"), hl.Param(element(dtype), "tc__b")
    return _count(arithmetic.BINARY[node](hl.Expr(a), hl.Expr(b), dtype), ["tc__a", "tc__b"])


@cache
def _uses_of_function(name: str, dtype: DType, arity: int) -> list[int]:
    names = [f"tc__{c}" for c in "abcd"[:arity]]
    params = [hl.Expr(hl.Param(element(dtype), n)) for n in names]
    return _count(FUNCTIONS[name](*params, dtype), names)
