"""Fibres of accesses: which instances of a statement read a given element.

The adjoint of a read `X(e(v))` adds up, for each element u of X, over all instances v with e(v) = u.  With
the equations solved for as many variables as there are, this is a reduction over the ones that are left, so
that each element is computed on its own: a gather, where a loop over the instances would have to scatter.

    O(h) += X(h + k - p) * W(k)     d_X(u) += d_O(u - k + p) * W(k)   where 0 <= u - k + p < H'
    O(h) += X(2*h + k) * W(k)       d_X(u) += d_O((u - k)/2) * W(k)   where (u - k) % 2 == 0, …
    y(i) = x(i/2)                   d_x(u) += d_y(2*u + t)            where t in 0:2, 2*u + t < N

A variable with a coefficient of 1 or -1 is an affine function of u and the rest; one with another coefficient
s needs the rest to be divisible by s.  A division by a constant leaves an interval for a new variable.  Of
products with sizes, those that are digits are solved, `D*h + d` for a d in 0:D, and quotients, `c / D`.
This is what the Smith form of the index matrix gives, one dimension at a time (as Halide's derivatives solve
them, Li et al. 2018, but for any number of variables in a dimension).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeGuard

from tc.ir.expr import (
    EQ,
    GE,
    LT,
    ONE,
    ZERO,
    Add,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Variable,
    rebuild,
    substitute,
    variables,
    walk,
)
from tc.ir.program import Box, IterVar, Range
from tc.ir.simplify import from_terms, linear_terms, simplify

MOST_CASES = 64  # of subscripts with `min` and `max`; three that are clamped have as many
_EXACT = (IntImm, Variable, Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)


@dataclass(frozen=True, slots=True)
class Fibre:
    """The instances that read the element `args` of a tensor.

    `args` are variables of `element`.  `values` has each variable of the statement in terms of `element` and
    `rest`; `conditions` must hold.
    """

    args: tuple[Expr, ...]
    element: tuple[IterVar, ...]
    rest: tuple[IterVar, ...]
    values: Mapping[str, Expr]
    conditions: tuple[Expr, ...]
    divisible: frozenset[Expr] = frozenset()  # quotients without a remainder

    def resolved(self, e: Expr) -> Expr:
        """An expression of the fibre's variables, simplified with what is known of its quotients."""
        return _whole(simplify(e, exact=True), self.divisible)


def cases(
    subscripts: Sequence[Expr], divisors: Sequence[Expr] = ()
) -> Iterator[tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
    """Subscripts without `min` and `max`, and the conditions under which they are those that were given.

    A quotient by one of the `divisors` is 0 where that is 0, and else what `fibre` solves.  Where there would
    be more than 64 cases, `min` and `max` stay, which `fibre` does not solve.
    """
    for args, known in _of_divisors(tuple(subscripts), divisors):
        found = list(islice(_of_extremes(args), MOST_CASES + 1))
        for chosen, conditions in found if len(found) <= MOST_CASES else ((args, ()),):
            yield chosen, (*known, *conditions)


def divisors_of(subscripts: Sequence[Expr], sizes: Collection[str]) -> tuple[Expr, ...]:
    """What variables are divided by, of sizes."""
    return tuple(dict.fromkeys(x.b for e in subscripts for x in walk(e) if _is_quotient(x, sizes)))


def _is_quotient(e: Expr, sizes: Collection[str]) -> TypeGuard[FloorDiv]:
    return (
        isinstance(e, FloorDiv)
        and isinstance(e.a, Variable)
        and not isinstance(e.b, IntImm)
        and _is_of_sizes(e.b, sizes)
    )


def _is_of_sizes(e: Expr, sizes: Collection[str]) -> bool:
    """Whether an expression depends on sizes alone, and is not negative."""
    match e:
        case Variable():
            return e.name in sizes
        case IntImm():
            return e.value >= 0
        case Add() | Mul() | Min() | Max() | FloorDiv() | FloorMod():
            return _is_of_sizes(e.a, sizes) and _is_of_sizes(e.b, sizes)
        case _:
            return False


def _of_divisors(
    subscripts: tuple[Expr, ...], divisors: Sequence[Expr]
) -> Iterator[tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
    if not divisors:
        yield subscripts, ()
        return
    p, *others = divisors

    def without(e: Expr) -> Expr:
        return ZERO if isinstance(e, FloorDiv | FloorMod) and e.b == p else rebuild(e, without)

    zero = tuple(simplify(without(e), exact=True) for e in subscripts)
    for args, condition in ((subscripts, GE(p, ONE)), (zero, EQ(p, ZERO))):
        for found, conditions in _of_divisors(args, others):
            yield found, (condition, *conditions)


def _of_extremes(subscripts: Sequence[Expr]) -> Iterator[tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
    for d, e in enumerate(subscripts):
        for x in walk(e):
            if isinstance(x, (Min, Max)) and not any(
                isinstance(y, (Call, Min, Max)) for y in walk(x) if y is not x
            ):
                first, second = (x.a, x.b) if isinstance(x, Min) else (x.b, x.a)
                for chosen, condition in ((first, LT(x.a, x.b)), (second, GE(x.a, x.b))):
                    parts = list(subscripts)
                    parts[d] = _replaced(e, x, chosen)
                    for args, conditions in _of_extremes(parts):
                        yield args, (condition, *conditions)
                return
    yield tuple(subscripts), ()


def _replaced(e: Expr, old: Expr, new: Expr) -> Expr:
    return new if e == old else rebuild(e, lambda c: _replaced(c, old, new))


def fibre(
    subscripts: Sequence[Expr],
    domain: Sequence[IterVar],
    box: Box,
    fresh: Callable[[str], str],
    sizes: Collection[str] = (),
) -> Fibre | None:
    """The fibre of an access over the instances of a rectangle, or None if a subscript is beyond the solver.

    `box` is that of the tensor that is read; `fresh` makes names of variables; `sizes` are names of what is
    not negative and the same for all instances.
    """
    return _Solver(subscripts, domain, box, fresh, sizes).run()


class _Solver:
    def __init__(
        self,
        subscripts: Sequence[Expr],
        domain: Sequence[IterVar],
        box: Box,
        fresh: Callable[[str], str],
        sizes: Collection[str],
    ) -> None:
        self.sizes = sizes
        self.subscripts = tuple(simplify(e, exact=True) for e in subscripts)
        self.free = {v.name: v for v in domain}
        self.box = box
        self.fresh = fresh
        self.values: dict[str, Expr] = {}
        self.conditions: list[Expr] = []
        self.element: dict[str, IterVar] = {}
        self.divisible: set[Expr] = set()  # quotients without a remainder
        self.inner: dict[str, Expr] = {v.name: Variable(v.name) for v in domain}  # what they are solved as

    def run(self) -> Fibre | None:
        if not all(isinstance(x, _EXACT) for e in self.subscripts for x in walk(e)):
            return None
        args: list[Expr] = []
        equations: list[tuple[Expr, Expr]] = []
        for d, e in enumerate(self.subscripts):
            u = self._element(e, d)
            args.append(u)
            equations.append((u, e))
        # Divisions first: the variables that they leave are what remainders of the same sum need.
        left = sorted(equations, key=lambda q: not any(isinstance(x, FloorDiv) for x in walk(q[1])))
        while left:
            u, e = left.pop(0)
            if not self._solve(u, self._resolved(substitute(e, self.inner))):
                return None
        rest = tuple(v for n, v in self.free.items() if n not in self.values)
        values = {n: self._resolved(e) for n, e in self.inner.items()}
        kept = tuple(dict.fromkeys(map(self._resolved, self.conditions)))
        element = tuple(self.element.values())
        return Fibre(tuple(args), element, rest, values, kept, frozenset(self.divisible))

    def _resolved(self, e: Expr) -> Expr:
        """An expression without the variables that are solved for."""
        return _whole(simplify(substitute(e, self.values), exact=True), self.divisible)

    def _element(self, e: Expr, d: int) -> Variable:
        """The variable of a dimension: named as the only variable of its subscript, if there is one."""
        own = sorted(variables(e) & self.inner.keys())
        wanted = own[0] if len(own) == 1 and own[0] not in self.element else f"u{d}"
        name = wanted if wanted in self.free else self.fresh(wanted)
        if wanted in self.free:  # the statement's own variable gets another name while it is solved for
            inner = self.fresh(f"{wanted}_")
            self._rename(wanted, inner)
        self.element[name] = IterVar(name, self.box[d], "pure")
        return Variable(name)

    def _rename(self, old: str, new: str) -> None:
        self.free = {
            new if n == old else n: replace(v, name=new) if n == old else v for n, v in self.free.items()
        }
        self.inner[old] = Variable(new)

    def _solve(self, u: Expr, e: Expr) -> bool:
        """Use the equation u = e; False if it is beyond this solver."""
        terms, offset = linear_terms(e)
        free = self.free.keys() - self.values.keys()
        linear = {t.name: c for t, c in terms.items() if isinstance(t, Variable) and t.name in free and c}
        other = [t for t, c in terms.items() if not isinstance(t, Variable) and variables(t) & free and c]
        if other:
            (t, *more) = other
            if self._solve_digits(u, terms, offset, linear):
                return True
            if not more and terms[t] == 1 and self._solve_sizes(u, t, terms, offset, linear):
                return True
            match t:
                case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0 and not more and not linear:
                    # u = ±(a / c) + rest, so that a = c * ±(u - rest) + s for an s in 0:c.
                    sign = terms[t]
                    if abs(sign) != 1:
                        return False
                    rest = from_terms({x: c for x, c in terms.items() if x is not t}, offset)
                    quotient = Sub(u, rest) if sign > 0 else Sub(rest, u)
                    s = IterVar(self.fresh("s"), Range(ZERO, IntImm(divisor)), "reduction")
                    self.free[s.name] = s
                    whole = Add(Mul(IntImm(divisor), quotient), Variable(s.name))
                    return self._solve(simplify(whole, exact=True), a)
                case FloorMod(a=a, b=IntImm(value=divisor)) if divisor > 0:
                    known = simplify(self._remainder(a, divisor), exact=True)
                    if known != t:
                        replaced = from_terms({(known if x == t else x): c for x, c in terms.items()}, offset)
                        return self._solve(u, simplify(replaced, exact=True))
                    if more or linear or terms[t] != 1:
                        return False
                    # u - rest = a % c: a = c * q + (u - rest) for some q, and 0 <= u - rest < c.
                    rest = from_terms({x: c for x, c in terms.items() if x is not t}, offset)
                    remainder = simplify(Sub(u, rest), exact=True)
                    self.conditions += [GE(remainder, ZERO), LT(remainder, IntImm(divisor))]
                    return self._congruent(a, remainder, divisor)
                case _:
                    return False
        if not linear:
            self.conditions.append(EQ(u, e))
            return True
        name = min(linear, key=lambda n: self._preference(n, linear[n]))
        c = linear[name]
        terms = {t: k for t, k in terms.items() if t != Variable(name)}
        rest = Sub(u, from_terms(terms, offset)) if c > 0 else Sub(from_terms(terms, offset), u)
        value = simplify(rest, exact=True)
        if abs(c) != 1:
            step = IntImm(abs(c))
            self.conditions.append(EQ(FloorMod(value, step), ZERO))
            value = FloorDiv(value, step)
            self.divisible.add(value)
        self._bind(name, value)
        return True

    def _solve_digits(
        self, u: Expr, terms: Mapping[Expr, int], offset: int, linear: Mapping[str, int]
    ) -> bool:
        """Use u = ±(p * g + v) + rest for a v in 0:p, where p is of sizes: g and v are digits."""
        if len(linear) != 1:
            return False
        ((name, sign),) = linear.items()
        r = self.free[name].range
        found = [(t, g) for t in terms if (g := self._multiplied(t, simplify(r.extent, exact=True)))]
        if abs(sign) != 1 or r.min != ZERO or len(found) != 1 or terms[found[0][0]] != sign:
            return False
        ((t, g),) = found
        p, of_g = simplify(r.extent, exact=True), self.free[g].range
        others = {x: c for x, c in terms.items() if x not in (t, Variable(name))}
        if not any(variables(x) & self.free.keys() for x in others):
            rest = from_terms(others, offset)
            whole = simplify(Sub(u, rest) if sign > 0 else Sub(rest, u), exact=True)
            self.conditions.append(GE(p, ONE))
            self._set(name, FloorMod(whole, p))
            self._bind(g, FloorDiv(whole, p))
            return True
        if of_g.min != ZERO:
            return False
        # They are the last digits: together one digit w of the whole number.
        extent = simplify(Mul(simplify(of_g.extent, exact=True), p), exact=True)
        w = Variable(self.fresh("w"))
        self.free[w.name] = IterVar(w.name, Range(ZERO, extent), self.free[g].kind)
        self._set(name, FloorMod(w, p))
        self._set(g, FloorDiv(w, p))
        return self._solve(u, from_terms({**others, w: sign}, offset))

    def _multiplied(self, t: Expr, p: Expr) -> str | None:
        """The variable that a term multiplies by p."""
        if isinstance(t, Mul) and _is_of_sizes(p, self.sizes):
            for a, b in ((t.a, t.b), (t.b, t.a)):
                if a == p and isinstance(b, Variable) and b.name in self.free:
                    return b.name
        return None

    def _solve_sizes(
        self, u: Expr, t: Expr, terms: Mapping[Expr, int], offset: int, linear: Mapping[str, int]
    ) -> bool:
        """Use u = t + rest where t divides a variable by sizes, or is what such a division leaves."""
        others = {x: c for x, c in terms.items() if x is not t}
        whole = simplify(Sub(u, from_terms(others, offset)), exact=True)
        match t:
            case FloorDiv(a=Variable(name=name), b=p) if _is_quotient(t, self.sizes) and not linear:
                if name in self.free and self.free[name].range.min == ZERO:
                    # u = v / p for a p that is not 0 (see `cases`): v = p * u + s for an s in 0:p.
                    s = Variable(self.fresh("s"))
                    self.free[s.name] = IterVar(s.name, Range(ZERO, p), "reduction")
                    self._bind(name, simplify(Add(Mul(p, whole), s), exact=True))
                    return True
            case FloorMod(a=a, b=p) if not linear and not isinstance(p, IntImm):
                # The last digit of p * w + v.
                inner, rest = linear_terms(a)
                last = {x: c for x, c in inner.items() if not (isinstance(x, Mul) and p in (x.a, x.b))}
                ((v, c),) = last.items() if len(last) == 1 else ((ZERO, 0),)
                if isinstance(v, Variable) and (c, rest) == (1, 0) and v.name in self.free:
                    r = self.free[v.name].range
                    if (r.min, simplify(r.extent, exact=True)) == (ZERO, p):
                        return self._solve(whole, v)
            case _:
                pass
        return False

    def _congruent(self, a: Expr, remainder: Expr, divisor: int) -> bool:
        """Use a = remainder modulo a divisor, for an affine `a`, whose variables all stay."""
        difference = simplify(Sub(a, remainder), exact=True)
        self.conditions.append(EQ(FloorMod(difference, IntImm(divisor)), ZERO))
        return True

    def _remainder(self, a: Expr, divisor: int) -> Expr:
        """`a % divisor` without what is a multiple, and without `%` where the rest is in its range."""
        terms, offset = linear_terms(a)
        rest = {t: c % divisor for t, c in terms.items() if c % divisor}
        if len(rest) == 1 and offset % divisor == 0:
            ((t, c),) = rest.items()
            r = self.free[t.name].range if isinstance(t, Variable) and t.name in self.free else None
            if c == 1 and r == Range(ZERO, IntImm(divisor)):
                return t
        return FloorMod(from_terms(rest, offset % divisor), IntImm(divisor))

    def _preference(self, name: str, coefficient: int) -> tuple[int, int, int, int]:
        """Which variable to solve for, best first: one of the result rather than of a reduction, one of an
        extent that takes more to say (H - K + 1 before K: it is the longer one), one without divisions."""
        v = self.free[name]
        size = sum(1 for _ in walk(simplify(v.range.extent, exact=True)))
        longest = v.range.extent.value if isinstance(v.range.extent, IntImm) else 1 << 62
        return (v.kind != "pure", -longest, -size, abs(coefficient))

    def _bind(self, name: str, value: Expr) -> None:
        r = self.free[name].range
        self.conditions += [GE(value, r.min), LT(value, simplify(r.end, exact=True))]
        self._set(name, value)

    def _set(self, name: str, value: Expr) -> None:
        self.values = {n: substitute(e, {name: value}) for n, e in self.values.items()} | {name: value}


def _whole(e: Expr, divisible: Collection[Expr]) -> Expr:
    """`c * (x / c)` as x, where x is divisible by c."""
    if not divisible:
        return e

    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        if not isinstance(e, (Add, Sub, Mul)):
            return e
        terms, offset = linear_terms(e)
        for t, c in list(terms.items()):
            if isinstance(t, FloorDiv) and t in divisible and isinstance(t.b, IntImm) and c % t.b.value == 0:
                del terms[t]
                whole, more = linear_terms(Mul(IntImm(c // t.b.value), t.a))
                for x, k in whole.items():
                    terms[x] = terms.get(x, 0) + k
                offset += more
        return from_terms(terms, offset)

    return simplify(visit(e), exact=True)


def in_box(args: Iterable[Expr], box: Box) -> list[Expr]:
    """The conditions under which an element is one of a box."""
    out: list[Expr] = []
    for a, r in zip(args, box, strict=True):
        out += [GE(a, r.min), LT(a, simplify(r.end, exact=True))]
    return out
