"""Sums of indices in int32 that could wrap around, and the sizes for which they do not.

Indices as values are int32.  A sum of few of them does not wrap around for arrays that fit into a memory;
`16 * i + k` may.  Where such a sum guards an access, a call has to satisfy a condition under which it does
not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tc.dtypes import INT32
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    ZERO,
    Add,
    Cast,
    Expr,
    IntImm,
    Let,
    Max,
    Mul,
    Sub,
    Variable,
    children,
    inline_lets,
    walk,
)
from tc.ir.intervals import INT32_SUMMANDS, ends
from tc.ir.program import Range, Stage
from tc.ir.simplify import linear_terms, simplify

MOST = 1 << 12  # indices of a sum for which there is a condition
_INT32_MAX = (1 << 31) - 1


def conditions(stage: Stage, sizes: Collection[str]) -> tuple[Expr, ...]:
    """Conditions on `sizes` under which no comparison of a stage wraps around: of those between sums of
    indices whose coefficients add up to more than INT32_SUMMANDS, and to at most MOST."""
    ranges = {v.name: v.range for v in stage.domain.vars}
    ranges |= {loop.name: Range(ZERO, loop.trips) for loop in stage.loops}
    out: dict[Expr, None] = {}
    for terms, constant in filter(None, map(_linear, _compared(stage))):
        if not INT32_SUMMANDS < sum(map(abs, terms.values())) <= MOST:
            continue
        most: Expr = IntImm(abs(constant))
        for index, factor in terms.items():
            most = Add(most, Mul(IntImm(abs(factor)), _most(index, ranges)))
        greatest = ends(most, sizes)[1]
        if greatest is None or greatest > _INT32_MAX:
            out[simplify(LE(most, IntImm(_INT32_MAX)), exact=True)] = None
    return tuple(out)


def _compared(stage: Stage) -> Iterator[Expr]:
    """The sums of indices in comparisons in int32."""
    for whole in (stage.value, *stage.domain.conditions):
        for e in walk(inline_lets(whole) if any(isinstance(x, Let) for x in walk(whole)) else whole):
            if isinstance(e, EQ | NE | LT | LE | GT | GE) and e.a.dtype == INT32:
                yield from _sums(e.a)
                yield from _sums(e.b)


def _sums(e: Expr) -> Iterator[Expr]:
    """The largest parts of an expression that are sums of indices."""
    if e.dtype == INT32 and _linear(e) is not None:
        yield e
        return
    for c in children(e):
        yield from _sums(c)


def _linear(e: Expr) -> tuple[Mapping[Expr, int], int] | None:
    """A sum of indices with their coefficients, and its constant; None for anything else.  The index of a
    loop that counts down is a sum itself, `N - 1 - j`."""
    terms, constant = linear_terms(e)
    out: dict[Expr, int] = {}
    for t, factor in terms.items():
        if not (isinstance(t, Cast) and t.value.dtype == INDEX):
            return None
        if not all(isinstance(x, Variable) for x in linear_terms(t.value)[0]):
            return None
        out[t.value] = out.get(t.value, 0) + factor
    return out, constant


def _most(index: Expr, ranges: Mapping[str, Range]) -> Expr:
    """The greatest magnitude of an index, or of a size."""
    if isinstance(index, Variable) and index.name not in ranges:
        return index
    terms, constant = linear_terms(index)
    low: Expr = IntImm(constant)
    last: Expr = IntImm(constant)
    for x, c in terms.items():
        assert isinstance(x, Variable)
        r = ranges.get(x.name)
        least, greatest = (x, x) if r is None else (r.min, Sub(r.end, IntImm(1)))
        if c < 0:
            least, greatest = greatest, least
        low, last = Add(low, Mul(IntImm(c), least)), Add(last, Mul(IntImm(c), greatest))
    low, last = simplify(low, exact=True), simplify(last, exact=True)
    if isinstance(low, IntImm) and low.value >= 0:
        return Max(last, ZERO)
    return Max(Max(last, Sub(ZERO, low)), ZERO)
