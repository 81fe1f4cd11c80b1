"""Unroll and jam: several rows at a time, where the iterations along a row depend on each other.

    for n                              for n by 4
      for d                              for d
        y[n, d] = y[n, d - 1] + …   →      y[n, d] = y[n, d - 1] + …
                                           y[n + 1, d] = …

While the element of one row waits for its predecessor, the processor computes elements of other rows.
"""

from __future__ import annotations

from dataclasses import replace

from tc.ir.expr import (
    LE,
    Add,
    Call,
    Expr,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Sub,
    Variable,
    children,
    walk,
)
from tc.ir.loops import Block, For, If, LoopKind
from tc.ir.simplify import simplify
from tc.transforms.loops.carried import recurrences
from tc.transforms.loops.substituted import substituted

_ROWS = 4  # at a time: as many as an addition takes cycles
_LONG_ROWS = 8  # at a time, where an iteration waits for several operations
_FEWER = (4, 2)
_EXTREMUM = 2  # dependent operations of the maximum of two floating-point numbers
_FUNCTION = 8  # dependent operations of another function


def interleaved(rows: For) -> For:
    """The rows, several at a time where the iterations along a row depend on each other (unroll and jam)."""
    loop, count = rows.body, rows_together(rows)
    if not isinstance(loop, For) or count == 1:
        return rows
    row = Variable(rows.var)
    several = Block(tuple(substituted(loop.body, {rows.var: Add(row, IntImm(i))}) for i in range(count)))
    trips = simplify(Sub(rows.upper, rows.lower), exact=True)
    if isinstance(trips, IntImm) and trips.value % count == 0:
        return replace(rows, step=count, body=replace(loop, body=several))
    one = f"{rows.var}_r"
    rest = For(one, row, rows.upper, 1, LoopKind.SERIAL, substituted(loop, {rows.var: Variable(one)}))
    enough = LE(Add(row, IntImm(count)), rows.upper)
    return replace(rows, step=count, body=If(enough, replace(loop, body=several), rest))


def rows_together(rows: For) -> int:
    """How many rows are computed at a time; 1 where no iteration waits for the one before it."""
    loop = rows.body
    found = recurrences(loop) if isinstance(loop, For) else ()
    if not found:
        return 1
    most = _ROWS if max(chain(s.value, s.buffer) for s in found) <= 1 else _LONG_ROWS
    trips = simplify(Sub(rows.upper, rows.lower), exact=True)
    if not isinstance(trips, IntImm):
        return most
    return next((n for n in (most, *_FEWER) if n <= min(most, trips.value)), 1)


def chain(e: Expr, buffer: str) -> int:
    """The length of the longest chain of dependent operations from an element of a buffer to a value; a
    product and its sum are one operation."""
    if isinstance(e, Load) and e.buffer == buffer:
        return 0
    if not any(isinstance(x, Load) and x.buffer == buffer for x in walk(e)):
        return 0
    match e:
        case Add() | Sub():
            factors = [x for c in (e.a, e.b) for x in ((c.a, c.b) if isinstance(c, Mul) else (c,))]
            return 1 + max(chain(x, buffer) for x in factors)
        case Min() | Max() | Call(name="fmin" | "fmax"):
            own = _EXTREMUM if e.dtype.is_float else 1
        case Call():
            own = _FUNCTION
        case _:
            own = 1
    return own + max(chain(x, buffer) for x in children(e))
