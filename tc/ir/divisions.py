"""Simplification of quotients and remainders: the position of a point inside of a tile does not change the
number of its tile."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from tc.ir.expr import INDEX, Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub
from tc.ir.simplify import linear_terms, simplify

Span = Callable[[Expr], "tuple[int, int] | None"]  # the values that an index may have, if they are known


def shorter(e: FloorDiv, span: Span) -> Expr | None:
    """An equal quotient of fewer terms, if any: `(32 * x + y) / 64` is `x / 2` where 0 <= y < 32."""
    if e.dtype != INDEX or not isinstance(e.b, IntImm) or e.b.value <= 1:
        return None
    terms, constant = linear_terms(e.a)
    for g in sorted({math.gcd(k, e.b.value) for k in terms.values()} - {1}, reverse=True):
        low = high = constant
        for t, k in terms.items():
            if k % g:
                known = span(t)
                if known is None:
                    break
                ends = sorted(k * x for x in known)
                low, high = low + ends[0], high + ends[1]
        else:
            if low // g == high // g:
                whole = (Mul(t, IntImm(k // g)) for t, k in terms.items() if k % g == 0)
                found = reduce(Add, whole, IntImm(low // g))
                return simplify(FloorDiv(found, IntImm(e.b.value // g)), exact=True)
    return None


def remainder(e: Sub, span: Span) -> Expr | None:
    """`x - 2 * (x / 2)` as the remainder `x % 2`."""
    match e.b:
        case Mul(IntImm(d), FloorDiv() as q) | Mul(FloorDiv() as q, IntImm(d)) if e.dtype == INDEX and d > 0:
            q = shorter(q, span) or q
            if isinstance(q, FloorDiv) and q.a == e.a and q.b == IntImm(d):
                return FloorMod(e.a, q.b)
        case _:
            pass
    return None
