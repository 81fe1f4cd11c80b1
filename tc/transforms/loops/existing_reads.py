"""Reads of elements that exist in all iterations of the loops around a statement, whatever conditions say.

`tc.poly.inside` marks such reads of a part of a program, in which the variables of the sequential loops
around it are symbols.  Here these are loops with bounds, so that `D(i,j) = X(i) == Y(j) ? D(i-1,j-1) + 1 : …`
in loops over `i` and `j` may read the elements of both sides, and then choose.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, IntImm, Load, rebuild, walk
from tc.ir.loops import Block, Compute, For, If, LoopNest, Promote, Stmt
from tc.transforms.loops.unswitch import Interval, values, within

_POINTS = 64  # of a statement that the oracle draws


def marked(nest: LoopNest) -> LoopNest:
    """A loop nest with `inside` set for these reads, which have no checks, of tensors of constant sizes."""
    shapes = _shapes(nest)

    def of(e: Expr, ranges: Mapping[str, Interval]) -> Expr:
        e = rebuild(e, lambda c: of(c, ranges))
        if not isinstance(e, Load) or e.inside or e.checked or e.buffer not in shapes:
            return e
        found = [values(s, ranges) for s in e.subscripts]
        ends = zip(found, shapes[e.buffer], strict=True)
        inside = all(f is not None and f[0] >= 0 and f[1] < n for f, n in ends)
        return replace(e, inside=True) if inside else e

    def visit(s: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
        match s:
            case Block():
                return replace(s, body=tuple(visit(c, ranges) for c in s.body))
            case If():
                otherwise = None if s.otherwise is None else visit(s.otherwise, ranges)
                return replace(s, then=visit(s.then, ranges), otherwise=otherwise)
            case For():
                return replace(s, body=visit(s.body, within(ranges, s)))
            case Compute():
                return replace(s, value=of(s.value, ranges))
            case Promote():
                return replace(s, body=visit(s.body, ranges))
            case _:
                return s

    return replace(nest, body=visit(nest.body, {}))


def check(before: LoopNest, after: LoopNest, sizes: Mapping[str, int]) -> str:
    """The oracle: each element that has been marked exists at random iterations of the loops around its
    statement.  Returns "" if none has been.  Raises InternalError, code TC0908, if an element does not
    exist."""
    shapes = _shapes(after)
    draw = random.Random(0)
    found = False
    statements = zip(_computed(before.body, ()), _computed(after.body, ()), strict=True)
    for (old, _), (s, loops) in statements if after.body != before.body else ():
        pairs = zip(walk(old.value), walk(s.value), strict=True)
        reads = [e for o, e in pairs if isinstance(e, Load) and isinstance(o, Load) and e.inside > o.inside]
        found |= bool(reads)
        for _ in range(_POINTS if reads else 0):
            point = _iteration(loops, sizes, draw)
            for e in reads if point is not None else ():
                at = [evaluate(x, point or {}) for x in e.subscripts]
                if not all(0 <= i < n for i, n in zip(at, shapes[e.buffer], strict=True)):
                    raise InternalError(f"{s.stage} reads {e.buffer}{at} for {point}", code="TC0908")
    return "points" if found else ""


def _shapes(nest: LoopNest) -> dict[str, tuple[int, ...]]:
    """The sizes of the tensors of constant sizes."""
    out: dict[str, tuple[int, ...]] = {}
    for a in nest.arrays:
        sizes = [n.value for n in a.shape if isinstance(n, IntImm)]
        if len(sizes) == len(a.shape) and a.role in ("input", "output", "temporary"):
            out[a.name] = tuple(sizes)
    return out


def _computed(s: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Compute, tuple[For, ...]]]:
    """The statements, each with the loops around it, the outermost first."""
    match s:
        case Block():
            for c in s.body:
                yield from _computed(c, loops)
        case If():
            yield from _computed(s.then, loops)
            if s.otherwise is not None:
                yield from _computed(s.otherwise, loops)
        case For():
            yield from _computed(s.body, (*loops, s))
        case Compute():
            yield s, loops
        case Promote():
            yield from _computed(s.body, loops)
        case _:
            return


def _iteration(
    loops: tuple[For, ...], sizes: Mapping[str, int], draw: random.Random
) -> dict[str, int] | None:
    """An iteration of some loops; None if one of them has none."""
    point = dict(sizes)
    for loop in loops:
        low, high = evaluate(loop.lower, point), evaluate(loop.upper, point)
        counted = range(low, high, loop.step)
        if not counted:
            return None
        point[loop.var] = draw.choice((counted[0], counted[-1], draw.choice(counted)))
    return point
