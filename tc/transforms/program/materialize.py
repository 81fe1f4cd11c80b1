"""Materialization of operands: a part of a value that depends on fewer loops than its statement has is
computed once (Halide's `compute_root`, the opposite of `tc.transforms.program.inline`).

`O(n,f,y,x) +=! (inside(y+ky, x+kx) ? I(n,c,y+ky-1,x+kx-1) : 0) * K(f,c,ky,kx)` chooses the same element, or
the same zero, for every `f`, and for all `y` and `ky` with the same sum.  As a temporary over `n`, `c`,
`y+ky` and `x+kx` it is computed once, and the reduction reads plain arrays.

`y(n,c) = (x(n,c) - m(c)) * rsqrt(v(c) + eps)` takes the root of the same variance for every `n`.  A value
that depends on the row only, such as `m(n)` of a soft-max by rows, is computed once for each row in any case;
a value that depends on the column only would be computed again in every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.ir.evaluate import bytes_of, evaluate
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
    IfThenElse,
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
    without_sites,
)
from tc.ir.program import Buffer, Domain, Func, IterVar, Program, Range, Stage, fresh
from tc.ir.simplify import simplify

Form = tuple[tuple[str, int], ...]  # a sum of variables with factors, in the order of the domain


@dataclass(frozen=True, slots=True)
class Operand:
    """A part of the value of a stage, as a function of coordinates: variables of the stage's domain, or sums
    of several.

    It has `points` values, and the stage computes it `instances` times.
    """

    stage: Stage
    value: Expr
    coordinates: tuple[Form, ...]
    points: int
    instances: int


def materialize(
    program: Program, worth: Callable[[Program, Operand], bool], typical: Mapping[str, int]
) -> tuple[Program, tuple[str, ...]]:
    """The program with temporaries for the operands that are `worth` it, and their names.  The decision is
    made at `typical` values of dynamic sizes."""
    names: list[str] = []
    pending = list(program.stages)
    while pending:
        stage = pending.pop(0)
        if stage.init or not (stage.op or stage.args):
            continue
        chosen: dict[Expr, Operand] = {}
        _Choice(program, stage, worth, typical, chosen).visit(stage.value)
        if chosen:
            program, made, reader = _materialized(program, stage, list(chosen.values()))
            names += (s.func for s in made)
            again = [reader] if isinstance(stage.value, Let) else []  # values that use the name of an operand
            pending = [*made, *again, *pending]  # a part of an operand may have still fewer points
    return program, tuple(names)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The choice of operands in a stage: `chosen` collects them by their values."""

    program: Program
    stage: Stage
    worth: Callable[[Program, Operand], bool]
    typical: Mapping[str, int]
    chosen: dict[Expr, Operand]

    def visit(self, e: Expr, named: frozenset[str] = frozenset()) -> None:
        """Choose the largest parts of a value that are worth it, among those that are evaluated
        unconditionally and contain none of the `named` values.  The value of a `Let` is always evaluated."""
        if isinstance(e, Call) and e.kind != "intrinsic":
            return
        if isinstance(e, Let):
            self.visit(e.value, named)
            self.visit(e.body, named | {e.name})
            return
        free = not named or variables(e).isdisjoint(named)
        found = _operand(self.program, self.stage, e, self.typical) if free else None
        if found is not None and self.worth(self.program, found):
            self.chosen[without_sites(found.value)] = found
        elif not isinstance(e, IfThenElse):
            for part in children(e):
                self.visit(part, named)


def _operand(program: Program, stage: Stage, e: Expr, typical: Mapping[str, int]) -> Operand | None:
    """A part of a value as an operand; None if it must or should not be stored.

    These are not stored: a plain read, or one that only becomes a wider integer (products of integers take it
    directly); a value that reads the results, or is addressed by data; a value with no fewer points than
    instances; one that takes more memory than the caller's arrays; and any value of a stage with conditions.
    """
    while isinstance(e, Cast) and e.dtype.is_int and e.value.dtype.is_int:
        e = e.value
    if isinstance(e, Call | Variable) and not (isinstance(e, Call) and e.kind == "intrinsic"):
        return None
    names = variables(e) & set(stage.domain.names)
    if not names or e.dtype.is_bool or not _exact(e) or not _movable(program, stage, e):
        return None
    if stage.domain.conditions:  # if these exclude all points, the operands need not exist
        return None
    coordinates = _coordinates(stage, e)
    if stage.op is None and names.isdisjoint(variables(stage.args[-1])):
        return None  # a value of the whole row
    ranges = {v.name: v.range for v in stage.domain.vars}
    alone = {form[0][0] for form in coordinates if len(form) == 1}
    for name, r in ranges.items():
        # A loop of dynamic length may have no iterations.
        if not isinstance(r.extent, IntImm) and name not in alone:
            return None
    extents = {n: max(0, evaluate(r.extent, typical)) for n, r in ranges.items()}
    points = math.prod(1 + sum(abs(c) * (extents[n] - 1) for n, c in form) for form in coordinates)
    instances = math.prod(extents.values())
    if not instances or points >= instances or not all(_dense(form, extents) for form in coordinates):
        return None
    if points * e.dtype.itemsize > sum(
        bytes_of(b, typical) for b in program.buffers if b.role != "temporary"
    ):
        return None
    return Operand(stage, e, coordinates, points, instances)


def _exact(e: Expr) -> bool:
    """Whether storing a value does not round it."""
    return not e.dtype.is_half or isinstance(e, IfThenElse)


def _movable(program: Program, stage: Stage, e: Expr) -> bool:
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


# Coordinates: sums of variables, if these variables enter a value in no other way.


def _coordinates(stage: Stage, e: Expr) -> tuple[Form, ...]:
    """The coordinates of a value, in the order in which it is read: sums of variables that enter it in no
    other way, otherwise variables."""
    names, e = stage.domain.names, _sided(stage, e)
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


def _sided(stage: Stage, e: Expr) -> Expr:
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


def _dense(form: Form, extents: Mapping[str, int]) -> bool:
    """Whether a sum takes all values between its least and its greatest."""
    reach = 0
    for factor, extent in sorted((abs(c), extents[n]) for n, c in form):
        if factor > reach + 1:
            return False
        reach += factor * (extent - 1)
    return True


# The new program.


def _materialized(
    program: Program, stage: Stage, operands: Sequence[Operand]
) -> tuple[Program, Sequence[Stage], Stage]:
    """The program with stages for the operands of one stage, and that stage reading them."""
    reads: dict[Expr, Expr] = {}
    stages: list[Stage] = []
    for o in operands:
        taken = {b.name for b in program.buffers} | {f.name for f in program.funcs}
        name = fresh(f"{stage.func}_operand", taken)
        domain = _domain(program, stage, o.coordinates)
        args = tuple(Variable(v.name) for v in domain.vars)
        box = tuple(v.range for v in domain.vars)
        value = _moved(_sided(stage, o.value), o.coordinates, domain.names, stage.domain.names)
        number = fresh(f"{stage.name}o", {s.name for s in (*program.stages, *stages)})
        stages.append(Stage(number, name, args, None, value, domain, stage.text, False, stage.span))
        where = next(i for i, f in enumerate(program.funcs) if f.name == stage.func)
        func = Func(name, name, value.dtype, box, None)
        program = replace(
            program,
            buffers=(*program.buffers, Buffer(name, value.dtype, box, "temporary")),
            funcs=(*program.funcs[:where], func, *program.funcs[where:]),
        )
        reads[without_sites(o.value)] = Call(name, tuple(map(_sum, o.coordinates)), value.dtype, "func")

    def visit(e: Expr) -> Expr:
        return reads.get(without_sites(e)) or rebuild(e, visit)

    # Not between a result's first values and its sums, which one loop nest computes.
    own = program.func_buffers[stage.func]
    at = position = program.stages.index(stage)
    while at and program.func_buffers[program.stages[at - 1].func] == own:
        at -= 1
    reader = replace(stage, value=_without_names(visit(stage.value), {o.func for o in stages}))
    before, between, after = program.stages[:at], program.stages[at:position], program.stages[position + 1 :]
    return replace(program, stages=(*before, *stages, *between, reader, *after)), stages, reader


def _without_names(e: Expr, funcs: Collection[str]) -> Expr:
    """A value in which reads of these Funcs replace their names."""
    if not isinstance(e, Let):
        return e
    body = _without_names(e.body, funcs)
    if isinstance(e.value, Call) and e.value.name in funcs:
        return _without_names(substitute(body, {e.name: e.value}), funcs)
    return replace(e, body=body)


def _domain(program: Program, stage: Stage, coordinates: Sequence[Form]) -> Domain:
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


def _sum(form: Form) -> Expr:
    total: Expr = ZERO
    for n, c in form:
        total = Add(total, Mul(IntImm(c), Variable(n)))
    return simplify(total, exact=True)


def _moved(e: Expr, coordinates: Sequence[Form], names: Sequence[str], old: Sequence[str]) -> Expr:
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
