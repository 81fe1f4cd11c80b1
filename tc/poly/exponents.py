"""Exponents that are never positive: a value minus the maximum over values of which it is one.

Soft-max and the logarithm of a sum of exponentials subtract the maximum of a row first, so that nothing
overflows.  What computes `exp` of that needs neither a test for the upper end nor a second step of scaling.

`exp(T(...) - M(...))` is such where `M` was last written by `M(...) max= T(...)`, `T` is not written in
between, and each pair of elements that the difference is made of is one that the maximum compared.
A difference of two numbers of which the first is not larger rounds to one that is not positive; NaN and
infinities give NaN and minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tc.ir.expr import Call, Cast, Expr, Load, Sub, rebuild
from tc.poly.scop import Access, Scop, Statement
from tc.poly.tiles.builder import loads

NAME = "exp_nonpositive"  # what a call of `exp` becomes


def nonpositive_exponents(scop: Scop) -> Scop:
    """The program with calls of `exp` renamed whose argument is never positive."""

    def named(s: Statement, e: Expr, access: Callable[[Load], Access]) -> Expr:
        if isinstance(e, Call) and e.kind == "intrinsic" and e.name == "exp":
            (x,) = e.args
            pair, least = (read_of(x.a), read_of(x.b)) if isinstance(x, Sub) else (None, None)
            if pair and least and _compared(scop, s, access(pair), access(least)):
                return replace(e, name=NAME)
        return e

    return renamed(scop, named)


def renamed(scop: Scop, change: Callable[[Statement, Expr, Callable[[Load], Access]], Expr]) -> Scop:
    """The program with `change` applied to each expression of a statement, outer ones first; `change` gets
    the accesses of the statement's loads."""
    bodies = dict(scop.bodies)
    for s in scop.statements:
        bodies[s.stage.name] = _changed(s, bodies[s.stage.name], change)
    return replace(scop, bodies=bodies)


def _changed(
    s: Statement, body: Expr, change: Callable[[Statement, Expr, Callable[[Load], Access]], Expr]
) -> Expr:
    accesses = {id(x): s.reads[i] for i, x in enumerate(loads(body))}

    def visit(e: Expr) -> Expr:
        return rebuild(change(s, e, lambda load: accesses[id(load)]), visit)

    return visit(body)


def read_of(e: Expr) -> Load | None:
    """The read that a value is, perhaps converted from a narrower type."""
    if isinstance(e, Cast) and e.dtype.is_float and isinstance(e.value, Load) and e.value.dtype.is_float:
        e = e.value if e.value.dtype.bits <= e.dtype.bits else e
    return e if isinstance(e, Load) else None


def _compared(scop: Scop, s: Statement, value: Access, most: Access) -> bool:
    """Whether the second element is the maximum over elements of which the first is one."""
    before = [x for x in scop.statements if x.index < s.index]
    last = max((x for x in before if x.write.buffer == most.buffer), key=lambda x: x.index, default=None)
    if last is None or last.stage.op != "max" or last.residual:
        return False
    reads = last.reads
    if (
        read_of(scop.bodies[last.stage.name]) is None
        or len(reads) != 1
        or reads[0].buffer != value.buffer
        or not reads[0].must
    ):
        return False
    # What s itself writes it has read before.
    if any(x.index >= last.index and x.write.buffer == value.buffer for x in before):
        return False
    if value.buffer == most.buffer or not last.write.must:
        return False
    compared = reads[0].map.reverse().apply_range(last.write.map)
    return value.map.reverse().apply_range(most.map).is_subset(compared)
