"""Minima and maxima in bounds, in a form that does not depend on operand order and nesting.

The greatest value of a range is the sum of its least one and its extent.  Range inference writes the same
minimum in several orders, and where it did not cancel in that sum, the range would have a part for each of
its operands.
"""

from __future__ import annotations

from tc.ir.expr import (
    INDEX,
    Add,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Sub,
    rebuild,
    walk,
)
from tc.ir.simplify import linear_terms, simplify

# A sum: terms and a constant, in an order that does not change from run to run.
Sum = tuple[dict[Expr, int], int]


def operands(e: Min | Max) -> tuple[Sum, ...]:
    """The operands of nested minima or maxima, also of `min(a, b) + c`: these are `a + c` and `b + c`.

    Of several that differ by a constant, one is enough.
    """
    return _distinct([y for x in (e.a, e.b) for y in _operand(x, type(e))], type(e))


def _distinct(sums: list[Sum], kind: type[Min] | type[Max]) -> tuple[Sum, ...]:
    found: dict[object, Sum] = {}
    for terms, offset in sums:
        key = frozenset(terms.items())
        if key in found:
            offset = (min if kind is Min else max)(found[key][1], offset)
        found[key] = (terms, offset)
    return tuple(found.values())


def _operand(e: Expr, kind: type[Min] | type[Max]) -> tuple[Sum, ...]:
    terms, offset = linear_terms(e)
    inner = [t for t, c in terms.items() if isinstance(t, Min | Max) and c]
    # Of a sum of two minima the operands would be all pairs.
    if len(inner) == 1:
        t = inner[0]
        assert isinstance(t, Min | Max)
        factor = terms[t]
        if isinstance(t, kind) == (factor > 0) and (t == e or not _reads_data(e)):
            rest = ({u: c for u, c in terms.items() if u != t}, offset)
            return tuple(plus(rest, x, factor) for x in operands(t))
    return (({t: c for t, c in terms.items() if c}, offset),)


def plus(a: Sum, b: Sum, factor: int) -> Sum:
    """`a + factor * b`, without the terms that cancel."""
    terms = dict(a[0])
    for t, c in b[0].items():
        terms[t] = terms.get(t, 0) + factor * c
    return {t: c for t, c in terms.items() if c}, a[1] + factor * b[1]


def _reads_data(e: Expr) -> bool:
    """Whether an expression reads data: arithmetic on data wraps around."""
    return any(isinstance(x, Call | Load) for x in walk(e))


def unified(e: Expr) -> Sum:
    """`e`, with extrema of the same operands, up to a common constant, as the same term."""
    e = simplify(e, exact=True)
    if _reads_data(e):
        return linear_terms(e)
    seen: dict[object, tuple[Expr, int]] = {}

    def visit(x: Expr) -> Expr:
        match x:
            case Add() | Sub() | Mul(a=IntImm()) | Mul(b=IntImm()):
                return rebuild(x, visit)
            case FloorDiv(b=IntImm() as divisor) | FloorMod(b=IntImm() as divisor) if divisor.value > 0:
                return rebuild(x, visit)
            case Min() | Max() if x.dtype == INDEX:
                x = type(x)(visit(x.a), visit(x.b))
            case _:
                # A product of sizes is a parameter, which is known by how it is written.
                return x
        sums = operands(x)
        base = min(offset for _, offset in sums)
        key = (type(x), frozenset((frozenset(terms.items()), offset - base) for terms, offset in sums))
        first, constant = seen.setdefault(key, (x, base))
        return Add(first, IntImm(base - constant))

    return linear_terms(simplify(visit(e), exact=True))
