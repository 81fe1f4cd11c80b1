"""Strides of dense arrays."""

from __future__ import annotations

from tc.ir.expr import Expr, IntImm, Mul
from tc.ir.loops import Array
from tc.ir.simplify import simplify


def strides(array: Array) -> tuple[int | Expr, ...]:
    """The stride of each dimension of a dense array, in elements."""
    out: list[int | Expr] = []
    step: int | Expr = 1
    for extent in reversed(array.shape):
        out.append(step)
        if isinstance(extent, IntImm) and isinstance(step, int):
            step *= max(extent.value, 1)
        else:
            step = simplify(Mul(extent, IntImm(step) if isinstance(step, int) else step), exact=True)
    return tuple(reversed(out))
