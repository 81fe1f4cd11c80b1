"""Dividends that are known to be from 0 to 1, such as those that a soft-max divides by their sum.

Division by multiplication with a reciprocal is exact unless the dividend is so large or so small that a step
of it overflows or loses bits.  Of exponentials that are at most 1 only the small ones need a test.

`E(...) / s` qualifies if the elements of `E` were last written by a statement whose values are from 0 to 1
(or NaN): `exp` of an argument that is never positive, or a function whose values are probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

from tc.ir.expr import Call, Cast, Div, Expr, Load
from tc.poly import exponents
from tc.poly.scop import Access, Scop, Statement

NAME = "fraction_over"  # the name of the call that replaces a quotient
_FRACTIONS = frozenset([exponents.NAME, "sigmoid", "normcdf"])


def divided_fractions(scop: Scop) -> Scop:
    """The program with quotients renamed where the dividend is from 0 to 1; run it after
    `nonpositive_exponents`."""

    def named(s: Statement, e: Expr, access: Callable[[Load], Access]) -> Expr:
        if isinstance(e, Div) and e.dtype.is_float:
            read = exponents.read_of(e.a)
            if read is not None and _fractions(scop, s, access(read)):
                return Call(NAME, (e.a, e.b), e.dtype, "intrinsic")
        return e

    return exponents.renamed(scop, named)


def _fractions(scop: Scop, s: Statement, value: Access) -> bool:
    """Whether the elements of a read were last written by a statement whose values are from 0 to 1."""
    before = [x for x in scop.statements if x.index < s.index and x.write.buffer == value.buffer]
    last = max(before, key=lambda x: x.index, default=None)
    if last is None or last.stage.op is not None or last.residual or not last.write.must:
        return False
    # `s` has read these elements before it overwrites them.
    if s.write.buffer == value.buffer and not (s.stage.op is None and value.map.is_subset(s.write.map)):
        return False
    body = scop.bodies[last.stage.name]
    while isinstance(body, Cast) and body.dtype.is_float:  # the bounds 0 and 1 are exact in every type
        body = body.value
    computed = isinstance(body, Call) and body.kind == "intrinsic" and body.name in _FRACTIONS
    return computed and value.map.range().is_subset(last.write.map.range())
