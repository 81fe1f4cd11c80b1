"""Loop peeling: the first and the last iterations of a sequential loop, where conditions on its counter have
other values than in all iterations between, run before and behind it.

    for d in [0, D)                              y[n, 0] = x[n, 0] + 0
      y[n, d] = x[n, d] + (d >= 1 ?       →      for d in [1, D)
                           y[n, d - 1] : 0)        y[n, d] = x[n, d] + y[n, d - 1]

Without the condition the loop has no branch, and every iteration reads the same elements, as other passes
need it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tc.ir.expr import (
    EQ,
    FALSE,
    GE,
    GT,
    LE,
    LT,
    NE,
    TRUE,
    Add,
    Cast,
    Expr,
    IntImm,
    Load,
    Mul,
    Sub,
    Variable,
    constant,
    rebuild,
    variables,
    walk,
)
from tc.ir.loops import Block, Compute, For, If, LoopKind, Promote, Stmt, expressions, rebuilt, statements
from tc.ir.simplify import linear_terms, simplify
from tc.transforms.loops.substituted import substituted
from tc.transforms.loops.unswitch import assuming

_MOST = 3  # iterations at an end
_STATEMENTS = 16  # of a body, at most, since there are several copies of it

Comparison = LT | LE | GT | GE | EQ | NE


def peeled(s: Stmt, counters: Collection[str]) -> Stmt:
    """A loop nest with iterations of the loops over these counters peeled."""
    s = rebuilt(s, lambda c: peeled(c, counters))
    if not isinstance(s, For) or s.var not in counters or s.kind is not LoopKind.SERIAL or s.step != 1:
        return s
    return _peeled(s) or s


def _peeled(loop: For) -> Stmt | None:
    body = tuple(statements(loop.body))
    if sum(isinstance(x, Compute) for x in body) > _STATEMENTS:
        return None
    if not all(isinstance(x, Block | For | If | Promote | Compute) for x in body):
        return None
    before = behind = 0
    between: dict[Comparison, Expr] = {}
    for c in dict.fromkeys(_comparisons(body)):
        found = _change(c, loop) if loop.var in variables(c) else None
        if found is not None:
            first, last, between[c] = found
            before, behind = max(before, first), max(behind, last)
    if not before + behind:
        return None
    values = [e for x in body if isinstance(x, Compute) for e in expressions(x)]
    checked = any(isinstance(e, Load) and e.checked for v in values for e in walk(v))
    start, end = _plus(loop.lower, before), _plus(loop.upper, -behind)
    middle: Stmt = replace(loop, lower=start, upper=end)
    for c, value in between.items():
        middle = assuming(middle, c, value)

    def iteration(at: Expr, exists: Expr) -> Stmt:
        one = _decided(substituted(loop.body, {loop.var: at}))
        if checked:  # the error names the iteration
            one = replace(loop, lower=at, upper=_plus(at, 1), body=one)
        some = simplify(exists, exact=True)
        return one if some == TRUE else Block(()) if some == FALSE else If(some, one)

    firsts = (_plus(loop.lower, k) for k in range(before))
    lasts = (_plus(loop.upper, -k) for k in range(behind, 0, -1))
    parts = [iteration(at, LT(at, loop.upper)) for at in firsts]
    parts.append(substituted(middle, {}))
    parts += [iteration(at, LE(start, at)) for at in lasts]
    return Block(tuple(p for p in parts if p != Block(())))


def _decided(s: Stmt) -> Stmt:
    """A statement without the conditions that are constant."""
    for c in dict.fromkeys(_comparisons(tuple(statements(s)))):
        value = simplify(type(c)(_without_casts(c.a), _without_casts(c.b)), exact=True)
        if value in (TRUE, FALSE):
            s = assuming(s, c, value)
    return assuming(s, TRUE, TRUE)


def _comparisons(body: Sequence[Stmt]) -> Iterator[Comparison]:
    for s in body:
        if isinstance(s, If | Compute):
            for e in expressions(s):
                yield from (x for x in walk(e) if isinstance(x, Comparison))


def _change(c: Comparison, loop: For) -> tuple[int, int, Expr] | None:
    """For how many of the first and of the last iterations a comparison has another value than in those
    between, and its value there; None where that is not known, or for too many."""
    terms, offset = linear_terms(_without_casts(Sub(c.a, c.b)))
    factor = terms.pop(Variable(loop.var), 0)
    if factor not in (1, -1) or any(loop.var in variables(t) for t in terms):
        return None
    # The counter at which both sides are equal, relative to the first and to the last iteration.
    equal: Expr = IntImm(-factor * offset)
    for t, n in terms.items():
        equal = Add(equal, _times(t, -factor * n))
    at = constant(simplify(Sub(equal, loop.lower), exact=True))
    if at is not None and at >= 0:
        first = int(at) + _first(type(c), factor)
        if 0 < first <= _MOST:
            return first, 0, _beyond(type(c), factor)
    at = constant(simplify(Sub(loop.upper, equal), exact=True))
    if at is not None and at > 0:
        last = int(at) - _first(type(c), factor) + (1 if isinstance(c, EQ | NE) else 0)
        if 0 < last <= _MOST:
            return 0, last, _beyond(type(c), -factor)
    return None


def _times(t: Expr, factor: int) -> Expr:
    return t if factor == 1 else Sub(IntImm(0), t) if factor == -1 else Mul(IntImm(factor), t)


def _first(kind: type[Comparison], factor: int) -> int:
    """How many iterations behind the one in which both sides are equal the value changes last."""
    if kind in (EQ, NE):
        return 1
    return int((kind in (GT, LE)) if factor > 0 else (kind in (LT, GE)))


def _beyond(kind: type[Comparison], factor: int) -> Expr:
    """The value of a comparison where its left side less its right side is large, or, with a negative
    factor, small."""
    if kind in (EQ, NE):
        return TRUE if kind is NE else FALSE
    return TRUE if (kind in (GT, GE)) == (factor > 0) else FALSE


def _without_casts(e: Expr) -> Expr:
    """An expression without its casts to long integers, which hold all counters and sizes."""
    if isinstance(e, Cast) and e.dtype.kind == e.value.dtype.kind == "int" and e.dtype.bits >= 32:
        return _without_casts(e.value)
    return rebuild(e, _without_casts)


def _plus(e: Expr, n: int) -> Expr:
    return simplify(Add(e, IntImm(n)), exact=True)
