"""Factors and divisors of products, which sums do without: `(a(k) * w(d)) / c` is `a(k)` and `w(d) / c`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tc.ir.expr import Call, Div, Expr, Let, Mul, Variable, substitute, variables
from tc.ir.program import Domain, Stage


@dataclass(frozen=True, slots=True)
class Product:
    """A product without some factors and divisors, and these."""

    value: Expr
    factors: tuple[Expr, ...] = ()
    divisors: tuple[Expr, ...] = ()

    def after(self, sums: Stage, name: str, conditions: tuple[Expr, ...]) -> Stage:
        """The stage of a name that multiplies and divides the results of a stage where conditions hold."""
        result: Expr = Call(sums.func, sums.args, sums.value.dtype, "func")
        for e in self.factors:
            result = Mul(result, e)
        for e in self.divisors:
            result = Div(result, e)
        pure = tuple(v for v in sums.domain.vars if v.kind == "pure")
        return replace(sums, name=name, op=None, value=result, domain=Domain(pure, conditions))


def without_terms(
    e: Expr, divisor: Callable[[Expr], bool], factor: Callable[[Expr], bool] | None = None
) -> Product:
    """A product without the divisors and factors for which a function is true; without the second function
    all factors stay."""
    match e:
        case Mul() if factor is not None and factor(e.a):
            rest = without_terms(e.b, divisor, factor)
            return replace(rest, factors=(e.a, *rest.factors))
        case Mul() if factor is not None and factor(e.b):
            rest = without_terms(e.a, divisor, factor)
            return replace(rest, factors=(*rest.factors, e.b))
        case Mul():
            a, b = without_terms(e.a, divisor, factor), without_terms(e.b, divisor, factor)
            return Product(Mul(a.value, b.value), a.factors + b.factors, a.divisors + b.divisors)
        case Div():
            rest = without_terms(e.a, divisor, factor)
            if divisor(e.b):
                return replace(rest, divisors=(*rest.divisors, e.b))
            return replace(rest, value=Div(rest.value, e.b))
        case Let():
            return _of_let(e, divisor, factor)
        case _:
            return Product(e)


def _of_let(e: Let, divisor: Callable[[Expr], bool], factor: Callable[[Expr], bool] | None) -> Product:
    def whole(x: Expr) -> Expr:
        return substitute(x, {e.name: e.value})

    body = without_terms(
        e.body, lambda x: divisor(whole(x)), None if factor is None else lambda x: factor(whole(x))
    )
    value = body.value
    if isinstance(value, Variable):
        value = whole(value)
    elif e.name in variables(value):
        value = Let(e.name, e.value, value)
    return Product(value, tuple(map(whole, body.factors)), tuple(map(whole, body.divisors)))
