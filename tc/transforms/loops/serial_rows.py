"""Single rows in place of vectors across rows, in the body of a sequential loop.

    for d: vector for n: y[n, d + 1] = a * y[n, d] + x[n, d + 1]

has each lane in another row, so that lanes are gathered and scattered.  A loop over single rows accesses each
row contiguously, and keeps in a register what the next iteration needs.  Vectors pay only where an iteration
has many operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Sub, Variable, variables, walk
from tc.ir.loops import Block, Compute, For, If, LoopKind, Stmt, statements
from tc.ir.simplify import simplify

from .substituted import substituted

_STRIDED = 2.0  # instructions of an element that is gathered or scattered, over those of one in a row


def rows_pay(loop: For, operations: Callable[[Expr], float]) -> bool:
    """Whether a sequential loop has vectors across its rows that cost more than single rows would;
    `operations` gives the vector instructions of a value."""
    vectors = [x for x in statements(loop.body) if isinstance(x, For) and x.kind is LoopKind.VECTOR]
    return bool(vectors) and all(_is_across(v, loop, operations) for v in vectors)


def _is_across(v: For, loop: For, operations: Callable[[Expr], float]) -> bool:
    strided, cost = 0, 0.0
    for c in statements(v.body):
        if not isinstance(c, Compute) or c.op is not None or not c.subscripts:
            return False
        loads = [x for x in walk(c.value) if isinstance(x, Load)]
        for subscripts in (c.subscripts, *(x.subscripts for x in loads)):
            if not any(v.var in variables(x) for x in subscripts):
                continue  # one element for all lanes
            if v.var in variables(subscripts[-1]) or loop.var not in variables(subscripts[-1]):
                return False
            strided += 1
        cost += operations(c.value)
    return cost <= _STRIDED * strided


def in_rows(s: Stmt) -> Stmt:
    """The loops without vectors: their iterations one after the other, from 0."""
    match s:
        case Block():
            return replace(s, body=tuple(in_rows(c) for c in s.body))
        case If():
            return replace(
                s, then=in_rows(s.then), otherwise=None if s.otherwise is None else in_rows(s.otherwise)
            )
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
