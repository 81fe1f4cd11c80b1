"""Reduction variables that a condition restricts to one remainder, as in the gradient of a convolution that
spreads its input with a stride.

    d_w(u) += d_y(i) * x((i - u)/2)   where i in 0:N, (i - u) % 2 == 0, (i - u)/2 >= 0, (i - u)/2 < M
    d_w(u) += d_y(2*q + u) * x(q)     where q in 0:M, 2*q + u >= 0, 2*q + u < N

Such a variable is i = 2*q + u for a quotient q, which takes its place where it has fewer values: no iteration
is tested in vain, and the accesses are those of a strided convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tc.ir.expr import (
    EQ,
    GE,
    LE,
    LT,
    ONE,
    ZERO,
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    Variable,
    substitute,
    variables,
)
from tc.ir.program import Domain, IterVar, Range
from tc.ir.simplify import linear_terms, simplify
from tc.poly.implication import implied

_MORE = 8  # values that a quotient may have beyond the part of the variable's


def quotients(
    domain: Domain, fresh: Callable[[str], str], sizes: Collection[str], given: Sequence[Expr]
) -> tuple[Domain, dict[str, Expr]]:
    """The domain with such quotients, and what the variables are in terms of them.  `fresh` makes names;
    `given` is known of the sizes."""

    def fewer(of_quotient: Expr, of_variable: Expr, step: int) -> bool:
        most = Add(of_variable, IntImm(step * _MORE))
        return implied(LE(Mul(IntImm(step), of_quotient), most), given, sizes)

    values: dict[str, Expr] = {}
    while True:
        for c in domain.conditions:
            found = _quotient(domain, c, fresh, fewer)
            if found is not None:
                domain, name, value = found
                values = {n: substitute(e, {name: value}) for n, e in values.items()} | {name: value}
                break
        else:
            return domain, values


def _quotient(
    domain: Domain, condition: Expr, fresh: Callable[[str], str], fewer: Callable[[Expr, Expr, int], bool]
) -> tuple[Domain, str, Expr] | None:
    match condition:
        case EQ(a=FloorMod(a=whole, b=IntImm(value=step)), b=IntImm(value=0)) if step > 1:
            pass
        case _:
            return None
    terms, _ = linear_terms(whole)
    reductions = {v.name: v for v in domain.vars if v.kind == "reduction"}
    for t, c in terms.items():
        if not isinstance(t, Variable) or t.name not in reductions or abs(c) != 1:
            continue
        v = reductions[t.name]
        rest = substitute(whole, {v.name: ZERO})  # whole = c * v + rest
        if any(v.name in variables(x) for x in terms if x != t):
            continue
        range_of = _range(domain, v, c, rest, whole, step)
        if range_of is None or not fewer(range_of.extent, v.range.extent, step):
            continue
        q = IterVar(fresh("q"), range_of, "reduction")
        spread = Mul(IntImm(step), Variable(q.name))
        value = simplify(Sub(spread, rest) if c == 1 else Sub(rest, spread), exact=True)
        if range_of.extent == ONE:
            value = simplify(substitute(value, {q.name: range_of.min}), exact=True)
        inside = (GE(Variable(v.name), v.range.min), LT(Variable(v.name), v.range.end))
        others = tuple(x for x in (*domain.conditions, *inside) if x != condition)
        moved = tuple(simplify(substitute(x, {v.name: value}), exact=True) for x in others)
        own = () if range_of.extent == ONE else (q,)
        vars_ = tuple(y for x in domain.vars for y in (own if x.name == v.name else (x,)))
        return replace(domain, vars=vars_, conditions=moved), v.name, value
    return None


def _range(domain: Domain, v: IterVar, c: int, rest: Expr, whole: Expr, step: int) -> Range | None:
    """The values of the quotient that is `whole` over `step`: all of them, or those that conditions leave."""
    names = {x.name for x in domain.vars}
    if not variables(rest) & names:
        ends = (v.range.min, simplify(Sub(v.range.end, ONE), exact=True))
        first, last = (Add(Mul(IntImm(c), e), rest) for e in (ends if c == 1 else ends[::-1]))
        low = simplify(FloorDiv(Add(first, IntImm(step - 1)), IntImm(step)), exact=True)
        end = Add(FloorDiv(last, IntImm(step)), ONE)
        return Range(low, simplify(Sub(end, low), exact=True))
    quotient = simplify(FloorDiv(whole, IntImm(step)), exact=True)
    lows = [x.b for x in domain.conditions if isinstance(x, GE) and x.a == quotient]
    highs = [x.b for x in domain.conditions if isinstance(x, LT) and x.a == quotient]
    known = [e for e in (*lows[:1], *highs[:1]) if not variables(e) & names]
    if len(known) != 2:
        return None
    return Range(known[0], simplify(Sub(known[1], known[0]), exact=True))
