"""Conditions in values become conditions of iteration domains: `s += c ? e : 0` adds `e` where `c` holds.

An iteration that adds the neutral element changes nothing, so it can be left out.  A condition of the domain
becomes a bound of loops, and whole tiles need no test.  The terms of the sum are products of two operands
again, as in a matrix product.  A condition inside of the value would be tested in the innermost loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tc.dtypes import DType, accumulator
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    TRUE,
    ZERO,
    Add,
    And,
    Call,
    Cast,
    Compare,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
    constant,
    imm,
    rebuild,
    variables,
    walk,
)
from tc.ir.intervals import Interval, box_interval, compared, interval, is_index
from tc.ir.lower import neutral
from tc.ir.program import Domain, IterVar, Program, Stage, moved_sites
from tc.ir.simplify import conjunction, is_pure, simplify
from tc.transforms.program.reductions import neutral_start

_NEGATED: Mapping[type, type[Compare]] = {LT: GE, LE: GT, GT: LE, GE: LT, EQ: NE, NE: EQ}


def restrict(program: Program) -> Program:
    """`program` with the conditions of reductions moved into their domains, as far as they are affine in
    iteration variables of known ranges."""
    for s in program.stages:
        if s.op is None:
            continue
        nothing = neutral(s.op, accumulator(program.func(s.func).dtype, s.value.dtype))
        started = neutral_start(program, s) is not None
        # A sum that starts from 0 is never the -0 which adding 0 would change.
        other = _restricted(s, nothing) if started or s.op != "+" or nothing.dtype.is_int else s
        if other is not s:
            stages = tuple(other if x is s else x for x in program.stages)
            program = replace(program, stages=stages, sites=moved_sites(program, other))
    return program


def _restricted(s: Stage, nothing: Expr) -> Stage:
    """A stage that leaves out the instances that would combine `nothing`, its neutral element, under a
    condition of its value."""
    names = _intervals(s.domain)
    value, conditions = s.value, list[Expr]()
    while (found := _guarded(value, nothing)) is not None:
        condition, value = found
        if any(isinstance(e, Call) and e.checked for e in walk(condition)):
            return s  # a failed check would end the call, even where the rest of the condition is false
        rest: Expr | None = None
        for c in _conjuncts(condition):
            index = _affine_condition(c, names)
            if index is not None:
                conditions.append(index)
            else:
                rest = c if rest is None else And(rest, c)
        if rest is not None:
            value = IfThenElse(rest, value, imm(constant(nothing) or 0, value.dtype))
            break
    if not conditions:
        return s
    conditions = [c for c in dict.fromkeys([*s.domain.conditions, *conditions]) if c != TRUE]
    return replace(s, value=value, domain=Domain(_in_order(s.domain, value), tuple(conditions)))


def in_exact_integers(value: Expr, domain: Domain) -> Expr:
    """A value with conditions in exact integers, as far as they are affine in variables of known ranges:
    equivalent conditions that are simpler."""
    names = _intervals(domain)

    def of(e: Expr) -> Expr:
        e = rebuild(e, of)
        if not isinstance(e, IfThenElse):
            return e
        parts = [_affine_condition(c, names) or c for c in _conjuncts(e.condition)]
        left = [c for c in parts if _truth(c, names) is not True]
        if any(_truth(c, names) is False for c in left):
            return e.else_value
        return replace(e, condition=conjunction(left)) if left else e.then_value

    return of(value)


def needed(conditions: Iterable[Expr], domain: Domain) -> tuple[Expr, ...]:
    """The conditions of a domain without those that hold at all of its points, and without terms that are on
    both sides."""
    names = _intervals(domain)
    shortened = dict.fromkeys(map(_shortened, conditions))
    return tuple(c for c in shortened if _truth(c, names) is not True)


def _shortened(e: Expr) -> Expr:
    """A comparison without terms that are on both sides."""
    if not isinstance(e, LT | LE | GT | GE | EQ | NE) or e.a.dtype != INDEX:
        return e
    difference = simplify(Sub(e.a, e.b), exact=True)
    fewer = len(list(walk(difference))) < len(list(walk(e.a))) + len(list(walk(e.b)))
    return type(e)(difference, ZERO) if fewer and variables(difference) != variables(e) else e


def _intervals(domain: Domain) -> Mapping[str, Interval]:
    """The values of the variables whose ranges are known and not empty."""
    ranges = {v.name: box_interval((v.range,), 0) for v in domain.vars}
    return {n: r for n, r in ranges.items() if r is not None and r[0] <= r[1]}


def _truth(e: Expr, names: Mapping[str, Interval]) -> bool | None:
    """True if a comparison holds for all values of the variables, False if for none; None if it depends on
    them, or is not known."""
    if not isinstance(e, LT | LE | GT | GE | EQ | NE) or not (is_index(e.a, names) and is_index(e.b, names)):
        return True if e == TRUE else None
    a, b = interval(e.a, names), interval(e.b, names)
    return None if a is None or b is None else compared(e, a, b)


def _in_order(domain: Domain, value: Expr) -> tuple[IterVar, ...]:
    """The variables of a domain, those of the reduction in the order in which the value names them; variables
    that only conditions name come last."""
    named = [e.name for e in walk(value) if isinstance(e, Variable)]
    place = {n: i for i, n in reversed(list(enumerate(named)))}
    pure = [v for v in domain.vars if v.kind != "reduction"]
    rest = [v for v in domain.vars if v.kind == "reduction"]
    return (*pure, *sorted(rest, key=lambda v: place.get(v.name, len(named))))


def _guarded(e: Expr, nothing: Expr) -> tuple[Expr, Expr] | None:
    """A condition, and the value that is combined where it holds, if nothing is combined where it does
    not."""
    match e:
        case Cast():
            inner = _guarded(e.value, nothing)
            return None if inner is None else (inner[0], replace(e, value=inner[1]))
        case IfThenElse():
            condition, then, other = e.condition, e.then_value, e.else_value
        case Select() if is_pure(e.true_value) and is_pure(e.false_value):
            # Otherwise both sides are evaluated, and a failed check in one of them ends the call.
            condition, then, other = e.condition, e.true_value, e.false_value
        case _:
            return None
    for chosen, left, c in ((then, other, condition), (other, then, Not(condition))):
        if constant(left) is not None and constant(left) == constant(nothing):
            return c, chosen
    return None


def _conjuncts(e: Expr) -> list[Expr]:
    """The conditions whose conjunction is `e`, with negations applied to comparisons."""
    match e:
        case And():
            return [*_conjuncts(e.a), *_conjuncts(e.b)]
        case Not(a=Not(a=inner)):
            return _conjuncts(inner)
        case Not(a=Or(a=a, b=b)):
            return [*_conjuncts(Not(a)), *_conjuncts(Not(b))]
        case Not(a=LT() | LE() | GT() | GE() | EQ() | NE() as c) if c.a.dtype.is_int:
            return [_NEGATED[type(c)](c.a, c.b)]
        case _:
            return [e]


def _affine_condition(e: Expr, names: Mapping[str, Interval]) -> Expr | None:
    """A comparison in exact integers, if it is affine and cannot wrap around; not `!=`, whose points are not
    convex."""
    match e:
        case UIntImm():
            return e if e == TRUE else None
        case LT() | LE() | GT() | GE() | EQ() if e.a.dtype.is_int:
            a, b = _quasi_affine(e.a, names), _quasi_affine(e.b, names)
            return None if a is None or b is None else simplify(type(e)(a, b), exact=True)
        case _:
            return None


def _quasi_affine(e: Expr, names: Mapping[str, Interval]) -> Expr | None:
    """An affine expression in exact integers, or a quotient or remainder of one by a positive constant."""
    if isinstance(e, FloorDiv | FloorMod) and isinstance(e.b, IntImm) and e.b.value > 0:
        a = _affine(e.a, names)
        return None if a is None else type(e)(a, IntImm(e.b.value))
    return _affine(e, names)


def _affine(e: Expr, names: Mapping[str, Interval]) -> Expr | None:
    """An affine expression in exact integers, if none of its parts can wrap around."""
    match e:
        case IntImm() | UIntImm():
            return IntImm(int(e.value))
        case Variable():
            return e if e.dtype == INDEX and e.name in names else None
        case Cast() if e.dtype.is_int and e.value.dtype.is_int:
            inner = _affine(e.value, names)
            return inner if inner is not None and _holds(e.dtype, inner, names) else None
        case Add() | Sub() | Mul():
            a, b = _affine(e.a, names), _affine(e.b, names)
            if a is None or b is None or (isinstance(e, Mul) and not {type(a), type(b)} & {IntImm}):
                return None
            exact = type(e)(a, b)
            return exact if _holds(e.dtype, exact, names) else None
        case _:
            return None


def _holds(t: DType, e: Expr, names: Mapping[str, Interval]) -> bool:
    found = interval(e, names)
    return found is not None and t.min <= found[0] and found[1] <= t.max
