"""Padding: an element of an array, or a constant outside of it."""

from __future__ import annotations

from tc.ir.expr import Expr, FloatImm, IfThenElse, IntImm, Load, UIntImm

Constant = IntImm | UIntImm | FloatImm


def padding(e: Expr) -> tuple[Load, Constant, bool] | None:
    """The element and the constant that a value is, and for which outcome of its condition it is the element;
    None of another value."""
    if not isinstance(e, IfThenElse):
        return None
    for element, other, chosen in ((e.then_value, e.else_value, True), (e.else_value, e.then_value, False)):
        if isinstance(element, Load) and not element.checked and isinstance(other, Constant):
            return element, other, chosen
    return None
