"""Padded accesses: an element of an array, or a constant outside of the array."""

from __future__ import annotations

from tc.ir.expr import Expr, FloatImm, IfThenElse, IntImm, Load, UIntImm, walk

Constant = IntImm | UIntImm | FloatImm


def padding(e: Expr) -> tuple[Load, Constant, bool] | None:
    """The element and the constant of a padded access, and whether its condition selects the element when it
    is true; None for other expressions."""
    if not isinstance(e, IfThenElse):
        return None
    for element, other, chosen in ((e.then_value, e.else_value, True), (e.else_value, e.then_value, False)):
        if isinstance(element, Load) and not element.checked and isinstance(other, Constant):
            return element, other, chosen
    return None


def holds_padding(e: IfThenElse) -> bool:
    """Whether one of the branches of a condition holds a padded access."""
    return any(padding(x) is not None for branch in (e.then_value, e.else_value) for x in walk(branch))
