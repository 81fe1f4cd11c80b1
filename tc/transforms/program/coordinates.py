"""Parts of a stage's value as functions of coordinates: variables of its domain, or sums of several that
enter the part in no other way.

The value `x(i+p, j)` has the coordinates `i+p` and `j`.  As a temporary over these it has as many elements as
these have values, which may be fewer than the points of the domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

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
    Call,
    Cast,
    Expr,
    IntImm,
    Let,
    Mul,
    Sub,
    Variable,
    children,
    rebuild,
    substitute,
    variables,
    walk,
)
from tc.ir.program import Domain, IterVar, Program, Range, Stage, fresh
from tc.ir.simplify import simplify

Form = tuple[tuple[str, int], ...]  # a sum of variables with factors, in the order of the domain


def movable(program: Program, stage: Stage, e: Expr) -> bool:
    """Whether a value is the same before the stage begins, and needs no check."""
    own = program.func_buffers[stage.func]
    for x in walk(e):
        if isinstance(x, Let):
            return False
        if isinstance(x, Call) and x.kind != "intrinsic":
            data = any(isinstance(y, Call) for a in x.args for y in walk(a))
            if data or x.checked or program.func_buffers.get(x.name) == own:
                return False
    return True


def coordinates_of(stage: Stage, e: Expr) -> tuple[Form, ...]:
    """The coordinates of a value, in the order in which it is read: sums of variables that enter it in no
    other way, otherwise variables."""
    names, e = stage.domain.names, sided(stage, e)
    arguments = (a for x in walk(e) if isinstance(x, Call) and x.kind != "intrinsic" for a in x.args)
    found = tuple(dict.fromkeys(_form(t, names) for a in (*arguments, e) for t in _sums(a, names)))
    out: list[Form] = []
    for form in found:
        own = {n for n, _ in form}
        alone = not any(own & {n for n, _ in other} for other in found if other != form)
        out += [form] if alone else [((n, 1),) for n, _ in form]
    return tuple(dict.fromkeys(out))


def _sums(e: Expr, names: Sequence[str]) -> Iterator[Mapping[str, int]]:
    """The factors of variables in the largest sums of integers in a value."""
    terms = _terms(e, names)
    if terms is None:
        for c in children(e):
            yield from _sums(c, names)
    elif terms:
        yield terms


def _terms(e: Expr, names: Sequence[str]) -> dict[str, int] | None:
    """A sum of integers as factors of variables; in a narrow type it wraps around in the same way if
    variables are combined first."""
    if not e.dtype.is_int or not e.dtype.is_signed:
        return None
    match e:
        case Variable() if e.name in names:
            return {e.name: 1}
        case Cast() if e.value.dtype.is_int and e.value.dtype.bits >= e.dtype.bits:
            return _terms(e.value, names)
        case Add() | Sub():
            a, b = _terms(e.a, names), _terms(e.b, names)
            if a is None or b is None:
                return None
            sign = 1 if isinstance(e, Add) else -1
            total = {n: a.get(n, 0) + sign * b.get(n, 0) for n in (*a, *b)}
            return {n: c for n, c in total.items() if c}
        case Mul(a=IntImm() as k, b=y) | Mul(a=y, b=IntImm() as k):
            terms = _terms(y, names)
            return terms and {n: k.value * c for n, c in terms.items() if k.value}
        case _:
            return None if variables(e) & set(names) else {}


def sided(stage: Stage, e: Expr) -> Expr:
    """A value in which each comparison of integers has its variables on one side, so that `y >= ky` depends
    on `y - ky`, where nothing in it is large enough to wrap around."""
    names = stage.domain.names
    most = {v.name: n for v in stage.domain.vars if (n := _most(v.range)) is not None}
    nothing: dict[str, Expr] = dict.fromkeys(names, ZERO)

    def visit(x: Expr) -> Expr:
        if not isinstance(x, LT | LE | GT | GE | EQ | NE):
            return rebuild(x, visit)
        a, b = _terms(x.a, names), _terms(x.b, names)
        if not a or not b or not {*a, *b} <= most.keys():
            return rebuild(x, visit)
        reach = sum(abs(c) * most[n] for terms in (a, b) for n, c in terms.items())
        reach += sum(abs(y.value) for y in (*walk(x.a), *walk(x.b)) if isinstance(y, IntImm))
        if reach > x.a.dtype.max:
            return x
        rest = simplify(substitute(x.b, nothing))
        return type(x)(Sub(x.a, Sub(x.b, rest)), rest)

    return visit(e)


def _most(r: Range) -> int | None:
    """An upper bound of an index and of its negative; None where that depends on sizes."""
    if not isinstance(r.min, IntImm) or not isinstance(r.extent, IntImm):
        return None
    return max(abs(r.min.value), abs(r.min.value + r.extent.value))


def _form(terms: Mapping[str, int], names: Sequence[str]) -> Form:
    """The primitive sum of which a sum is a multiple."""
    unit = math.gcd(*terms.values()) * (1 if terms[min(terms, key=names.index)] > 0 else -1)
    return tuple((n, terms[n] // unit) for n in names if n in terms)


def points_of(forms: Sequence[Form], extents: Mapping[str, int]) -> int:
    """How many points these coordinates have."""
    return math.prod(1 + sum(abs(c) * (extents[n] - 1) for n, c in form) for form in forms)


def is_dense(form: Form, extents: Mapping[str, int]) -> bool:
    """Whether a sum takes all values between its least and its greatest."""
    reach = 0
    for factor, extent in sorted((abs(c), extents[n]) for n, c in form):
        if factor > reach + 1:
            return False
        reach += factor * (extent - 1)
    return True


def domain_of(program: Program, stage: Stage, coordinates: Sequence[Form]) -> Domain:
    """The domain of a temporary: a loop over the values of each coordinate."""
    ranges = {v.name: v.range for v in stage.domain.vars}
    taken = {*stage.domain.names, *program.sizes, *(s.name for s in program.scalars)}
    out: list[IterVar] = []
    for form in coordinates:
        first, _ = form[0]
        if len(form) == 1:
            out.append(IterVar(first, ranges[first], "pure"))
            continue
        low: Expr = ZERO
        reach: Expr = IntImm(1)
        for n, c in form:
            last = Sub(ranges[n].extent, IntImm(1))
            least = ranges[n].min if c > 0 else Add(ranges[n].min, last)
            low = Add(low, Mul(IntImm(c), least))
            reach = Add(reach, Mul(IntImm(abs(c)), last))
        name = fresh("_".join(n for n, _ in form), taken)
        taken.add(name)
        box = Range(simplify(low, exact=True), simplify(reach, exact=True))
        out.append(IterVar(name, box, "pure"))
    return Domain(tuple(out))


def sum_of(form: Form) -> Expr:
    total: Expr = ZERO
    for n, c in form:
        total = Add(total, Mul(IntImm(c), Variable(n)))
    return simplify(total, exact=True)


def moved(e: Expr, coordinates: Sequence[Form], names: Sequence[str], old: Sequence[str]) -> Expr:
    """A value in terms of the coordinates: each sum of variables that is a coordinate becomes its
    variable."""
    sums: dict[Form, str] = {f: n for f, n in zip(coordinates, names, strict=True) if len(f) > 1}
    nothing: dict[str, Expr] = dict.fromkeys(old, ZERO)
    used = {n for f in coordinates for n, _ in f}
    cancelled: dict[str, Expr] = {n: ZERO for n in old if n not in used}  # such as `j` in `i + j - j`

    def visit(x: Expr) -> Expr:
        terms = _terms(x, old)
        if not terms:
            return rebuild(x, visit)
        form = _form(terms, old)
        if form not in sums:
            return x
        first, unit = form[0]
        at: Expr = Variable(sums[form])
        if x.dtype != at.dtype:
            at = Cast(x.dtype, at)
        rest = substitute(x, nothing)
        factor = IntImm(x.dtype.wrap(terms[first] // unit), x.dtype)
        return simplify(Add(Mul(factor, at), rest), exact=x.dtype == INDEX)

    found = visit(e)
    if variables(found).isdisjoint(cancelled):
        return found
    return simplify(
        substitute(found, cancelled)
    )  # so that a side that is never chosen does not count as read
