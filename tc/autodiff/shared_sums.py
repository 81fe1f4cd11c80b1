"""Sums without factors that do not depend on what is summed over; those that definitions have in common are
computed once.

    d_r(n) +=! d_y(n,d) * g(n) * x(n,d)           p(n) +=! d_y(n,d) * x(n,d)
    d_s +=! d_y(n,d) * x(n,d) * r(n)         →    d_r(n) = g(n) * p(n)
                                                  d_s +=! r(n) * p(n)

This is the distributive law.  Gradients of normalisations sum the same products of data for the mean, the
variance, the gain and the bias.  A sum comes right behind what it reads, or in front of the next one if
nothing between the two needs it, so that they can share a loop with each other and with sums of the program
over the same elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

from tc.autodiff.arithmetic import number, times
from tc.autodiff.tape import Definition, reads
from tc.ir.expr import Call, Div, Expr, Mul, Variable, constant, variables, walk
from tc.ir.program import Domain, IterVar

_MOST = 4  # reduction variables of a sum that is taken apart

_Factor = tuple[Expr, bool]  # an expression, and whether it divides


@dataclass(frozen=True, slots=True)
class _Sum:
    """The sum of a product over reduction variables, for all values of the others in it."""

    core: frozenset[tuple[_Factor, int]]  # with how often each is a factor
    inner: frozenset[IterVar]
    outer: frozenset[IterVar]


# Whether all that an expression reads exists for all values of some variables.
Exist = Callable[[Expr, tuple[IterVar, ...]], bool]


def with_shared_sums(
    definitions: Sequence[Definition], fresh: Callable[[str], str], exist: Exist
) -> list[Definition]:
    """The definitions with such sums as temporaries, whose names `fresh` makes.

    A sum is computed even if another variable of the definition has no values, so all that it reads must
    exist then, too."""
    found = list(definitions)
    made: list[str] = []
    while True:
        sums = [dict(_sums(d, exist)) for d in found]
        uses = Counter(s for own in sums for s in own)
        worth = [s for own in sums for s, has_factor in own.items() if uses[s] > 1 or has_factor]
        if not worth:
            return _together(found, made)
        best = max(worth, key=lambda s: (uses[s], len(s.inner), len(s.core)))
        made.append(fresh("total"))
        found = _with(found, sums, best, made[-1])


def _sums(d: Definition, exist: Exist) -> Iterator[tuple[_Sum, bool]]:
    """The sums of which a definition is a multiple, or a sum of multiples; and whether it is the whole
    definition but for factors that are computed."""
    placed = {n for a in d.args for n in variables(a)}  # a scatter adds to another element for each value
    reductions = [v for v in d.domain.vars if v.kind == "reduction" and v.name not in placed]
    if d.op != "+" or d.loops or d.domain.conditions or not reductions or len(reductions) > _MOST:
        return
    if d.value.dtype.is_half:  # a sum may be too large where its product with a factor is not
        return
    factors = list(_factors(d.value, False))
    for count in range(1, len(reductions) + 1):
        for some in combinations(reductions, count):
            inner = frozenset(v.name for v in some)
            core, rest = _apart(factors, inner)
            named = {n for f, _ in core for n in variables(f)}
            kept = tuple(v for v in d.domain.vars if v.name in named)
            safe = len(kept) == len(d.domain.vars) or all(exist(f, kept) for f, _ in core)
            if inner <= named and safe:
                own = {v.name: replace(v, kind="pure") for v in d.domain.vars}
                outer = frozenset(v for n, v in own.items() if n in named - inner)
                whole = count == len(reductions) and any(
                    isinstance(x, Call) for f, _ in rest for x in walk(f)
                )
                yield _Sum(frozenset(Counter(core).items()), frozenset(own[n] for n in inner), outer), whole


def _factors(e: Expr, divides: bool) -> Iterator[_Factor]:
    match e:
        case Mul():
            yield from _factors(e.a, divides)
            yield from _factors(e.b, divides)
        case Div():
            yield from _factors(e.a, divides)
            yield from _factors(e.b, not divides)
        case _:
            yield e, divides


def _apart(factors: Sequence[_Factor], inner: frozenset[str]) -> tuple[list[_Factor], list[_Factor]]:
    """The factors that depend on some variables, and the others."""
    core = [f for f in factors if variables(f[0]) & inner]
    return core, [f for f in factors if not variables(f[0]) & inner]


def _product(factors: Sequence[_Factor], like: Expr) -> Expr:
    """A product of factors, numbers first and divisors last."""
    ordered = sorted(factors, key=lambda f: (f[1], constant(f[0]) is None))
    start: Expr = number(1, like)
    return reduce(lambda e, f: Div(e, f[0]) if f[1] else times(e, f[0]), ordered, start)


def _with(
    definitions: Sequence[Definition], sums: Sequence[Collection[_Sum]], s: _Sum, name: str
) -> list[Definition]:
    """The definitions with one of their `sums` as a temporary `name`."""
    inner = frozenset(v.name for v in s.inner)
    total: tuple[Definition, Definition] | None = None
    args: tuple[Expr, ...] = ()
    out: list[Definition] = []
    for d, own in zip(definitions, sums, strict=True):
        if s not in own:
            out.append(d)
            continue
        core, rest = _apart(list(_factors(d.value, False)), inner)
        if total is None:
            value = _product(core, d.value)
            order = [x.name for x in walk(value) if isinstance(x, Variable)]
            pure = tuple(sorted(s.outer, key=lambda v: order.index(v.name)))
            args = tuple(Variable(v.name) for v in pure)
            summed = tuple(v for v in d.domain.vars if v.name in inner)
            zero = Definition(name, args, None, number(0, value), Domain(pure), neutral=True)
            total = zero, Definition(name, args, "+", value, Domain((*pure, *summed)))
        value = times(_product(rest, d.value), Call(name, args, d.value.dtype, "func"))
        left = Domain(tuple(v for v in d.domain.vars if v.name not in inner))
        starts = bool(out) and out[-1].neutral and out[-1].target == d.target and out[-1].args == d.args
        if starts and all(v.kind == "pure" for v in left.vars):  # nothing is left to sum
            out[-1] = replace(d, op=None, value=value, domain=left)
        else:
            out.append(replace(d, value=value, domain=left))
    assert total is not None
    read = {c.name for c in reads(total[1])}
    at = max((k + 1 for k, d in enumerate(out) if d.target in read), default=0)
    while out[at].loops:  # a sequential loop is not interrupted
        at += 1
    return [*out[:at], *total, *out[at:]]


def _together(definitions: list[Definition], names: Sequence[str]) -> list[Definition]:
    """The definitions with each of these sums in front of the next one, where nothing between reads it."""
    out = list(definitions)
    following: int | None = None
    for k in reversed(range(len(out) - 1)):
        d = out[k]
        if not d.neutral or d.target not in names:
            continue
        if following is not None and not any(
            c.name == d.target for x in out[k + 2 : following] for c in reads(x)
        ):
            pair = out[k : k + 2]
            out[k:following] = [*out[k + 2 : following], *pair]
            following -= 2
        else:
            following = k
    return out
