"""Quotients and remainders without what does not matter: where in a tile a point is, of its tile's number."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from tc.ir.expr import INDEX, Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub
from tc.ir.simplify import linear_terms, simplify

Span = Callable[[Expr], "tuple[int, int] | None"]  # the values that an index may have, if they are known


def shorter(e: FloorDiv, span: Span) -> Expr | None:
    """A quotient of fewer terms, if any: of `32 * x + y` by 64 that of x by 2 where 0 <= y < 32."""
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
    """`x - 2 * (x / 2)` as what it is."""
    match e.b:
        case Mul(IntImm(d), FloorDiv() as q) | Mul(FloorDiv() as q, IntImm(d)) if e.dtype == INDEX and d > 0:
            q = shorter(q, span) or q
            if isinstance(q, FloorDiv) and q.a == e.a and q.b == IntImm(d):
                return FloorMod(e.a, q.b)
        case _:
            pass
    return None
