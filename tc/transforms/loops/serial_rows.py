"""Single rows in place of vectors across rows, in the body of a sequential loop.

    for d: vector for n: y[n, d + 1] = a * y[n, d] + x[n, d + 1]

has each lane in another row, so that lanes are gathered and scattered.  A loop over single rows accesses each
row contiguously, and keeps in a register what the next iteration needs.  Vectors pay only where an iteration
has many operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Sub, Variable, variables, walk
from tc.ir.loops import Block, Compute, For, If, LoopKind, Stmt, expressions, statements
from tc.ir.simplify import linear_terms, simplify

from .substituted import substituted

_STRIDED = 2.0  # instructions of an element that is gathered or scattered, over those of one in a row


def lanes_across(loop: For) -> bool:
    """Whether a sequential loop has vectors, and all of them have their lanes in different rows."""
    vectors = _vectors(loop)
    return bool(vectors) and all(_strided(v, loop) is not None for v in vectors)


def rows_pay(loop: For, operations: Callable[[Expr], float]) -> bool:
    """Whether such vectors cost more than single rows would; `operations` gives the vector instructions of a
    value."""
    return all(
        sum(operations(c.value) for c in statements(v.body) if isinstance(c, Compute))
        <= _STRIDED * (_strided(v, loop) or 0)
        for v in _vectors(loop)
    )


def _vectors(loop: For) -> list[For]:
    return [x for x in statements(loop.body) if isinstance(x, For) and x.kind is LoopKind.VECTOR]


def _strided(v: For, loop: For) -> int | None:
    """The accesses of a vector loop whose lanes are in different rows; None if lanes are elsewhere."""
    strided = 0
    for c in statements(v.body):
        if not isinstance(c, Compute) or c.op is not None or not c.subscripts:
            return None
        if not _is_strided(c.subscripts, v, loop):
            return None
        for x in (x for x in walk(c.value) if isinstance(x, Load)):
            if _is_strided(x.subscripts, v, loop):
                strided += 1
            elif any(v.var in variables(i) for i in x.subscripts[:-1]):
                return None
        strided += 1
    return strided


def _is_strided(subscripts: Sequence[Expr], v: For, loop: For) -> bool:
    """Whether the lanes of a vector loop are in different rows, along which the iterations of a loop go."""
    if not subscripts:
        return False
    *outer, last = subscripts
    across = any(v.var in variables(x) for x in outer) and v.var not in variables(last)
    return across and loop.var in variables(last)


def in_rows(s: Stmt) -> Stmt:
    """The loops without vectors: their iterations one after the other, from 0."""
    match s:
        case Block():
            return replace(s, body=tuple(in_rows(c) for c in s.body))
        case If():
            return replace(
                s, then=in_rows(s.then), otherwise=None if s.otherwise is None else in_rows(s.otherwise)
            )
        case For(kind=LoopKind.UNROLLED) if (merged := _merged(s)) is not None:
            return in_rows(merged)
        case For(kind=LoopKind.VECTOR | LoopKind.UNROLLED):
            trips = simplify(Sub(s.upper, s.lower), exact=True)
            body = in_rows(s.body)
            if not isinstance(s.lower, IntImm) and isinstance(trips, IntImm):
                body = substituted(body, {s.var: Add(s.lower, Variable(s.var))})
                return For(s.var, ZERO, trips, s.step, LoopKind.SERIAL, body)
            return For(s.var, s.lower, s.upper, s.step, LoopKind.SERIAL, body)
        case For():
            return replace(s, body=in_rows(s.body))
        case _:
            return s


def _merged(s: For) -> For | None:
    """An unrolled loop over vectors that lie one behind the other, as one loop over their lanes."""
    inner = s.body
    if not isinstance(inner, For) or inner.kind is not LoopKind.VECTOR or (s.step, inner.step) != (1, 1):
        return None
    if s.lower != ZERO or s.var in {
        v for x in (y for t in statements(inner.body) for y in expressions(t)) for v in variables(x)
    }:
        return None
    lanes = simplify(Sub(inner.upper, inner.lower), exact=True)
    if not isinstance(lanes, IntImm) or not isinstance(s.upper, IntImm):
        return None
    if linear_terms(inner.lower) != ({Variable(s.var): lanes.value}, 0):
        return None
    return replace(inner, lower=ZERO, upper=IntImm(s.upper.value * lanes.value), lanes=0)
