"""Adjoints of reductions that are no sums: minima, maxima and products.

Those into elements that data choose, as `m(p(n)) max= x(n)`, have the same ones: what is known of an element
stands in a tensor of the shape of the target, and an instance looks it up where it writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tc.autodiff.arithmetic import literal, number
from tc.autodiff.cut_ranges import Reduced
from tc.autodiff.index_conditions import conjunction, reduced
from tc.autodiff.loops import Loop, boxed, counters, facts, ranges
from tc.autodiff.names import Names
from tc.autodiff.tape import Definition, Tape, Version, mapped
from tc.dtypes import FLOAT32, INT32
from tc.ir.expr import (
    EQ,
    GE,
    LT,
    NE,
    ONE,
    Call,
    Cast,
    Div,
    Expr,
    IfThenElse,
    Max,
    Mul,
    Or,
    Select,
    Sub,
    Variable,
    imm,
    rebuild,
)
from tc.ir.program import Box, Domain, IterVar, Range
from tc.ir.simplify import simplify


@dataclass(frozen=True, slots=True)
class Made:
    """What the adjoint of a reduction needs besides: versions and their definitions.

    An instance contributes the derivative of its value times `factor`, where all of `chosen` hold.
    """

    versions: tuple[Version, ...]
    definitions: tuple[Definition, ...]
    factor: Expr
    chosen: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class _Elements:
    """The elements that a reduction writes: all of them, as a domain and by its variables, and the one that
    an instance writes."""

    domain: Domain
    at: tuple[Expr, ...]
    written: tuple[Expr, ...]

    @staticmethod
    def of(d: Definition, tape: Tape, names: Names) -> _Elements:
        if not d.scatters:
            pure = tuple(v for v in d.domain.vars if v.kind == "pure")
            at = tuple(Variable(v.name) for v in pure)
            return _Elements(Domain(pure), at, at)
        v, local = tape.versions[d.target], names.local()
        own = tuple(IterVar(local(f"k{n}"), r, "pure") for n, r in enumerate(v.own))
        return _Elements(Domain(own), tuple(Variable(x.name) for x in own), d.args[v.lead :])

    @property
    def box(self) -> Box:
        return tuple(v.range for v in self.domain.vars)


def first_of_scattered(d: Definition, own: Expr, fresh: Callable[[str], str], to: _Elements) -> Made:
    """Of the instances that write the extreme into an element, the first in the order of their variables: the
    least value of one variable after another, among those that have the least of the variables before."""
    versions: list[Version] = []
    definitions: list[Definition] = []
    equal: Expr = Or(EQ(d.value, own), NE(d.value, d.value))
    chosen: list[Expr] = []
    for v in (v for v in d.domain.vars if v.kind == "reduction"):
        name = fresh(f"{d.target}_at")
        index, behind = Cast(INT32, Variable(v.name)), Cast(INT32, simplify(v.range.end, exact=True))
        versions.append(Version(name, name, INT32, to.box, "temporary"))
        least = Select(conjunction([equal, *chosen]), index, behind)
        definitions += (
            Definition(name, to.at, None, behind, to.domain, True, span=d.span),
            Definition(name, to.written, "min", least, d.domain, span=d.span),
        )
        chosen.append(EQ(index, Call(name, to.written, INT32, "func")))
    return Made(tuple(versions), tuple(definitions), number(1, own), tuple(chosen))


def first(d: Definition, own: Expr, fresh: Callable[[str], str], left: Reduced) -> Made:
    """Of the elements that equal the extreme, the first in the order of the reduction variables: an
    arg-reduction over each of them, the last one first, of the extremes over those behind it.

    `left` is what is left of conditions for sizes that are not 0.
    """
    arg: Literal["argmin", "argmax"] = "argmax" if d.op == "max" else "argmin"
    inner = [v for v in d.domain.vars if v.kind == "reduction"]
    pure = tuple(v for v in d.domain.vars if v.kind == "pure")
    name, dtype = d.target, own.dtype
    versions: list[Version] = []
    definitions: list[Definition] = []
    value = d.value
    conditions = d.domain.conditions
    places: list[tuple[str, tuple[str, ...]]] = []
    for k in reversed(range(len(inner))):
        outer = (*pure, *(replace(v, kind="pure") for v in inner[:k]))
        at = tuple(Variable(v.name) for v in outer)
        some, kept = _with_a_value(inner[k], outer, left)
        domain = Domain((*outer, some), (*conditions, *kept))
        place = fresh(f"{name}_at" if k == 0 else f"{name}_at{k}")
        box = tuple(v.range for v in outer)
        versions.append(Version(place, place, INT32, box, "temporary"))
        definitions.append(Definition(place, at, None, value, domain, span=d.span, arg=arg))
        places.append((place, tuple(v.name for v in outer)))
        if k:
            extreme = fresh(f"{name}_of{k}")
            versions.append(Version(extreme, extreme, dtype, box, "temporary"))
            low = dtype.min if d.op == "max" else dtype.max
            start = number(low, own)
            pure_domain = Domain(tuple(outer))
            definitions.append(Definition(extreme, at, None, start, pure_domain, True, span=d.span))
            whole = Domain((*outer, inner[k]), conditions)
            definitions.append(Definition(extreme, at, d.op, value, whole, span=d.span))
            value = Call(extreme, at, dtype, "func")
            conditions = ()
    chosen = tuple(
        EQ(Cast(INT32, Variable(v.name)), Call(place, tuple(map(Variable, names)), INT32, "func"))
        for v, (place, names) in zip(inner, reversed(places), strict=True)
    )
    return Made(tuple(versions), tuple(definitions), number(1, own), chosen)


def of_reduction(d: Definition, own: Expr, names: Names, ties: str, tape: Tape) -> Made:
    """What a minimum, a maximum or a product needs, in the iterations that it is in."""
    to = _Elements.of(d, tape, names)
    if d.op == "*":
        made = product(d, own, names.fresh, to)
    elif ties == "split":
        made = shared(d, own, names.fresh(f"{d.target}_ties"), to)
    elif d.scatters:
        made = first_of_scattered(d, own, names.fresh, to)
    else:
        counted = (*tape.sizes, *(loop.name for loop in d.loops))
        known = (*tape.facts, *facts(d.loops), *(GE(Variable(s), ONE) for s in tape.given))
        made = first(d, own, names.fresh, lambda conditions, vs: reduced(conditions, vs, counted, known))
    return in_iterations(made, d.loops)


def _with_a_value(v: IterVar, outer: Sequence[IterVar], left: Reduced) -> tuple[IterVar, tuple[Expr, ...]]:
    """The variable of an arg-reduction, which needs a value: one whose range may be empty counts to a value
    that a condition leaves out."""
    extent = simplify(v.range.extent, exact=True)
    if left([LT(extent, ONE)], outer) is None:
        return v, ()
    at_least_one = simplify(Max(extent, ONE), exact=True)
    return replace(v, range=Range(v.range.min, at_least_one)), (LT(Variable(v.name), v.range.end),)


def shared(d: Definition, own: Expr, count: str, to: _Elements) -> Made:
    """All elements that equal the extreme, in equal shares."""
    one, zero = number(1, own), number(0, own)
    equal = Or(EQ(d.value, own), NE(d.value, d.value))
    definitions = (
        Definition(count, to.at, None, zero, to.domain, True, span=d.span),
        Definition(count, to.written, "+", Select(equal, one, zero), d.domain, span=d.span),
    )
    version = Version(count, count, own.dtype, to.box, "temporary")
    share = Div(one, Call(count, to.written, own.dtype, "func"))
    return Made((version,), definitions, share, (equal,))


def product(d: Definition, own: Expr, fresh: Callable[[str], str], to: _Elements) -> Made:
    """The product of all other elements, with its derivatives.

    It is the product r of those that are not 0 (over the element, if that is one of them) times the product
    of those that are.  The latter is 1, or 0, but its derivatives are not: with the sum s of the zeros, which
    is 0 and has the derivative 1 by each of them, it is s for one zero, and s less the element for one beside
    the element.  More than that have no second derivatives.
    """
    if _is_never_zero(d.value):  # r, in a second derivative
        return Made((), (), Div(own, d.value))
    zeros, rest, total = (fresh(f"{d.target}_{n}") for n in ("zeros", "rest", "of_zeros"))
    none, one = number(0, own), number(1, own)
    counts = FLOAT32 if own.dtype.is_complex else own.dtype
    nought, single = imm(0, counts), imm(1, counts)
    is_zero = EQ(d.value, none)
    definitions = (
        Definition(zeros, to.at, None, nought, to.domain, True, span=d.span),
        Definition(zeros, to.written, "+", Select(is_zero, single, nought), d.domain, span=d.span),
        Definition(total, to.at, None, none, to.domain, True, span=d.span),
        Definition(total, to.written, "+", Select(is_zero, d.value, none), d.domain, span=d.span),
        Definition(rest, to.at, None, one, to.domain, True, span=d.span),
        Definition(rest, to.written, "*", Select(is_zero, one, d.value), d.domain, span=d.span),
    )
    types = {zeros: counts, total: own.dtype, rest: own.dtype}
    versions = tuple(Version(n, n, t, to.box, "temporary") for n, t in types.items())
    count, zero, others = (Call(n, to.written, t, "func") for n, t in types.items())
    divided = Div(others, d.value)
    of_one = IfThenElse(is_zero, others, _times_zero(divided, zero))
    of_two = IfThenElse(is_zero, _times_zero(others, Sub(zero, d.value)), none)
    more = IfThenElse(EQ(count, imm(2, counts)), of_two, none)
    factor = IfThenElse(EQ(count, nought), divided, IfThenElse(EQ(count, single), of_one, more))
    return Made(versions, definitions, factor)


def _is_never_zero(e: Expr) -> bool:
    """Whether an element is one of r: itself, or 1 in place of 0."""
    if not isinstance(e, Select) or literal(e.true_value) != 1:
        return False
    return e.condition == EQ(e.false_value, number(0, e.false_value))


def _times_zero(a: Expr, zero: Expr) -> Expr:
    """A product with what is 0 and has derivatives: 0, too, where `a` is too large for its type."""
    part = a.dtype.part
    size = Call("abs", (a,), part, "intrinsic")
    return IfThenElse(LT(size, imm(math.inf, part)), Mul(a, zero), zero)


def in_iterations(made: Made, loops: Sequence[Loop]) -> Made:
    """The same in an iteration of sequential loops, with other versions in each."""
    if not loops:
        return made
    names = {v.name for v in made.versions}
    at = counters(loops)

    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        return replace(e, args=(*at, *e.args)) if isinstance(e, Call) and e.name in names else e

    def definition(d: Definition) -> Definition:
        made = mapped(d, visit)
        return replace(made, args=(*at, *made.args), loops=tuple(loops))

    def version(v: Version) -> Version:
        own = tuple(IterVar(f"{k}", r, "pure") for k, r in enumerate(v.box))
        box = (*ranges(loops), *(x.range for x in boxed(Domain(own), loops).vars))
        return replace(v, box=box, loops=tuple(loops))

    return Made(
        tuple(map(version, made.versions)),
        tuple(map(definition, made.definitions)),
        visit(made.factor),
        tuple(map(visit, made.chosen)),
    )
