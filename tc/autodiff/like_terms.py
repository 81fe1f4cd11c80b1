"""Sums without terms that are alike.

    g * x * 0.5 + g * (0.5 * x)          is  g * x
    (c ? a : 0) + (!c ? b : 0)           is  c ? a : b
    (c ? a : 0) + (c ? b : 0)            is  c ? a + b : 0

Each part of a derivative comes from one read.  Those of a square, or of two branches, make such sums.
Results differ in rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tc.autodiff.arithmetic import literal, minus, number, times
from tc.ir.expr import Add, Div, Expr, IfThenElse, Mul, Not, Sub, rebuild, without_sites


@dataclass(frozen=True, slots=True)
class _Product:
    """A number times some factors, of which those with False divide."""

    coefficient: float
    factors: tuple[tuple[Expr, bool], ...]


def combined(e: Expr) -> Expr:
    """An expression with the value of `e` but for rounding, in which no terms of a sum are alike.

    Conditions stay: they compare what the program computes, to the bit.
    """
    if e.dtype.is_bool:
        return e
    if not isinstance(e, Add | Sub) or not e.dtype.is_inexact:
        return rebuild(e, combined)
    found = list(_terms(e))
    inner = [rebuild(t, combined) for t, _ in found]
    terms = [minus(t) if negated else t for t, (_, negated) in zip(inner, found, strict=True)]
    fewer = _products(_choices(terms))
    if len(fewer) < len(terms):
        return _sum(fewer)
    rest = iter(inner)

    def as_it_was(x: Expr) -> Expr:
        return rebuild(x, as_it_was) if isinstance(x, Add | Sub) else next(rest)

    return as_it_was(e)


def _terms(e: Expr, negated: bool = False) -> Iterator[tuple[Expr, bool]]:
    """The terms of a sum, in order, and whether each is taken away."""
    match e:
        case Add() | Sub():
            yield from _terms(e.a, negated)
            yield from _terms(e.b, negated != isinstance(e, Sub))
        case _:
            yield e, negated


def _together(values: Sequence[Expr]) -> Expr:
    """The sum of values whose own terms are not alike."""
    terms = [minus(t) if negated else t for v in values for t, negated in _terms(v)]
    return _sum(_products(_choices(terms)))


def _sum(terms: Sequence[Expr]) -> Expr:
    total, *rest = terms
    for t in rest:
        match t:
            case Mul(a=a, b=b) if literal(b) == -1:
                total = Sub(total, a)
            case _:
                total = Add(total, t)
    return total


def _choices(terms: Sequence[Expr]) -> list[Expr]:
    """The terms, with one choice for those that one condition decides and that are 0 otherwise."""
    branches = [_branch(t) for t in terms]
    chosen: dict[Expr, tuple[Expr, list[Expr], list[Expr]]] = {}  # with the values of both branches
    order: list[Expr] = []  # other terms, and conditions in place of their terms
    for t, branch in zip(terms, branches, strict=True):
        if branch is None:
            order.append(t)
            continue
        condition, value = branch
        plain, holds = (condition.a, False) if isinstance(condition, Not) else (condition, True)
        key = without_sites(plain)
        if key not in chosen:
            chosen[key] = plain, [], []
            order.append(key)
        _, then, otherwise = chosen[key]
        (then if holds else otherwise).append(value)
    return [_choice(*chosen[x]) if x in chosen else x for x in order]


def _branch(e: Expr) -> tuple[Expr, Expr] | None:
    """The condition and the value of what is 0 where the condition does not hold."""
    match e:
        case IfThenElse() if literal(e.else_value) == 0:
            return e.condition, e.then_value
        case IfThenElse() if literal(e.then_value) == 0:
            return Not(e.condition), e.else_value
        case Mul(a=IfThenElse() as inner, b=factor) if literal(factor) == -1:
            found = _branch(inner)
            return None if found is None else (found[0], minus(found[1]))
        case _:
            return None


def _choice(condition: Expr, then: Sequence[Expr], otherwise: Sequence[Expr]) -> Expr:
    some = (then or otherwise)[0]
    if not then:
        return IfThenElse(Not(condition), _together(otherwise), number(0, some))
    rest = _together(otherwise) if otherwise else number(0, some)
    return IfThenElse(condition, _together(then), rest)


def _products(terms: Sequence[Expr]) -> list[Expr]:
    """The terms, with one for those that differ in a number only."""
    groups: dict[frozenset[tuple[tuple[Expr, bool], int]], list[int]] = {}
    products = [_product(t) for t in terms]
    for k, p in enumerate(products):
        counts: dict[tuple[Expr, bool], int] = {}
        for f, multiplies in p.factors:
            key = (without_sites(f), multiplies)
            counts[key] = counts.get(key, 0) + 1
        groups.setdefault(frozenset(counts.items()), []).append(k)
    found: dict[int, Expr] = {}
    for members in groups.values():
        first, *others = members
        total = sum(products[k].coefficient for k in members)
        if others and products[first].factors and total != 0:
            found[first] = _written(_Product(total, products[first].factors), terms[first])
        else:
            found |= {k: terms[k] for k in members}
    return [found[k] for k in sorted(found)]


def _product(e: Expr) -> _Product:
    coefficient, factors = 1.0, list[tuple[Expr, bool]]()

    def visit(x: Expr, multiplies: bool) -> None:
        nonlocal coefficient
        value = literal(x)
        if multiplies and isinstance(value, int | float):
            coefficient *= value
        elif isinstance(x, Mul):
            visit(x.a, multiplies)
            visit(x.b, multiplies)
        elif isinstance(x, Div) and multiplies:
            visit(x.a, True)
            visit(x.b, False)
        else:
            factors.append((x, multiplies))

    visit(e, True)
    return _Product(coefficient, tuple(factors))


def _written(p: _Product, like: Expr) -> Expr:
    above = [f for f, multiplies in p.factors if multiplies]
    total = number(p.coefficient, like)
    for f in above:
        total = times(total, f)
    for f, multiplies in p.factors:
        if not multiplies:
            total = Div(total, f)
    return total
