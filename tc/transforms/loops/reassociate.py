"""Reassociation of products: factors that an inner loop does not change are multiplied first, outside of it.

    for j: for k: for i: O(i) += X(i,j,k) * B(j) * C(k)     one multiplication more for each i
    for j: for k: for i: O(i) += B(j) * C(k) * X(i,j,k)     B(j) * C(k) is one value for all of them

Floating-point products are not associative, so this is for `fast_math`: a product of n factors stays within
(n - 1) / 2 units in the last place of the exact one in any order, as long as no partial product overflows or
underflows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from tc.ir.expr import Expr, Mul, rebuild, variables
from tc.ir.loops import Block, Compute, For, If, LoopKind, Promote, Stmt


def reassociate(s: Stmt) -> Stmt:
    """A loop nest whose floating-point products have the factors of outer loops first."""
    return _visit(s, {})


def _visit(s: Stmt, depth: Mapping[str, int]) -> Stmt:
    """`depth` gives the number of loops around each variable; the lanes of a vector loop do not count."""
    match s:
        case Block():
            return replace(s, body=tuple(_visit(c, depth) for c in s.body))
        case For():
            here = depth if s.kind is LoopKind.VECTOR else {**depth, s.var: len(depth) + 1}
            return replace(s, body=_visit(s.body, here))
        case Promote():
            return replace(s, body=_visit(s.body, depth))
        case If():
            otherwise = None if s.otherwise is None else _visit(s.otherwise, depth)
            return replace(s, then=_visit(s.then, depth), otherwise=otherwise)
        case Compute():
            return replace(s, value=_ordered(s.value, depth))
        case _:
            return s


def _ordered(e: Expr, depth: Mapping[str, int]) -> Expr:
    if isinstance(e, Mul) and e.dtype.is_float:
        factors = sorted((_ordered(f, depth) for f in _factors(e)), key=lambda f: _deepest(f, depth))
        return reduce(Mul, factors)
    return rebuild(e, lambda c: _ordered(c, depth))


def _factors(e: Expr) -> tuple[Expr, ...]:
    return (*_factors(e.a), *_factors(e.b)) if isinstance(e, Mul) else (e,)


def _deepest(e: Expr, depth: Mapping[str, int]) -> int:
    """The depth of the innermost loop that changes a value."""
    return max((depth.get(v, 0) for v in variables(e)), default=0)
