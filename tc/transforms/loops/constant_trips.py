"""Loops of a constant trip count, where threads or blocks differ by an iteration or by a partial tile.

Compilers for GPUs unroll a loop of constant trip count fully, so that the loads of all its iterations are in
flight at the same time.  Other loops they unroll by a small factor only.  An innermost loop whose trip count
is `n` in some threads and `n + 1` in others becomes

    for (n iterations)      body
    if (there is another)   body

and one whose trip count is the smaller of a constant and an expression becomes

    if (the constant is the smaller)    for (a constant trip count)    body
    else                                the loop as it was

(index-set splitting: Wolfe, "High Performance Compilers for Parallel Computing", 1996, 9.4.)  The
iterations and their order stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tc.ir.expr import GE, LT, Add, Expr, IntImm, Min, Sub, variables
from tc.ir.intervals import Interval, interval
from tc.ir.loops import MOST_BLOCKS, Block, Compute, For, If, Launch, LoopKind, Promote, Stmt, statements
from tc.ir.simplify import simplify
from tc.transforms.loops.substituted import substituted

_LARGEST_TILE = 32  # iterations of a tile, up to which it has code of its own beside a partial one

Ranges = Mapping[str, Interval | None]


def constant_trips(launch: Launch) -> Launch:
    """A launch whose innermost loops have constant trip counts where that is possible."""
    ranges: dict[str, Interval | None] = {v: (0, n - 1) for v, n in launch.threads}
    for v, count in launch.blocks:
        most = count.value if isinstance(count, IntImm) else MOST_BLOCKS
        ranges[v] = (0, most - 1)
    return replace(launch, body=_visit(launch.body, ranges))


def _visit(s: Stmt, ranges: Ranges) -> Stmt:
    match s:
        case Block():
            return replace(s, body=tuple(_visit(c, ranges) for c in s.body))
        case If():
            otherwise = None if s.otherwise is None else _visit(s.otherwise, ranges)
            return replace(s, then=_visit(s.then, ranges), otherwise=otherwise)
        case Promote():
            return replace(s, body=_visit(s.body, ranges))
        case For() if s.kind is LoopKind.SERIAL and _is_straight_line(s.body):
            return _split(s, ranges)
        case For():
            return replace(s, body=_visit(s.body, _inside(s, ranges)))
        case _:
            return s


def _inside(s: For, ranges: Ranges) -> Ranges:
    low, high = _values(s.lower, ranges), _values(s.upper, ranges)
    if low is None or high is None or low[0] >= high[1]:
        return {**ranges, s.var: None}
    return {**ranges, s.var: (low[0], high[1] - 1)}


def _is_straight_line(s: Stmt) -> bool:
    """Whether a body consists of statements of single threads and unrolled loops alone."""
    return all(
        isinstance(c, Block | Compute | If) or (isinstance(c, For) and c.kind is LoopKind.UNROLLED)
        for c in statements(s)
    )


def _split(s: For, ranges: Ranges) -> Stmt:
    length = simplify(Sub(s.upper, s.lower), exact=True)
    if isinstance(length, IntImm) or s.unroll:
        return s
    found = _values(length, ranges)
    if found is not None:
        least, most = (-(-n // s.step) for n in found)
        if least == most >= 1:
            return _of(s, least)
        if most == least + 1 >= 3:
            return Block((_of(s, least), _iteration(s, least)))
    match s.upper:
        case Min(a=IntImm() as whole, b=rest) | Min(a=rest, b=IntImm() as whole):
            first = s.lower
            if isinstance(first, IntImm) and 2 <= whole.value - first.value <= _LARGEST_TILE * s.step:
                return If(
                    simplify(GE(rest, whole), exact=True),
                    replace(s, upper=whole),
                    replace(s, upper=rest),
                )
        case _:
            pass
    return s


def _of(s: For, trips: int) -> For:
    """The first `trips` iterations of a loop."""
    return replace(s, upper=_plus(s.lower, trips * s.step))


def _iteration(s: For, number: int) -> Stmt:
    """The iteration of a loop with this number, under the condition that it exists."""
    at = _plus(s.lower, number * s.step)
    return If(simplify(LT(at, s.upper), exact=True), substituted(s.body, {s.var: at}))


def _plus(e: Expr, n: int) -> Expr:
    return simplify(Add(e, IntImm(n)), exact=True)


def _values(e: Expr, ranges: Ranges) -> Interval | None:
    """The range of values of an expression of loop variables."""
    return interval(e, ranges) if variables(e) <= set(ranges) else None
