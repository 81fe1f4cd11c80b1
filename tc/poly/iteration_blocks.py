"""Blocks of iterations of a sequential loop: the ranges that variables have in them, and which instances of
statements come after each other within one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import islpy as isl

from tc.ir.expr import GE, GT, INDEX, LE, LT, ONE, Add, Expr, IntImm, Sub, Variable, constant
from tc.ir.program import Domain, IterVar, Loop, Stage
from tc.ir.simplify import from_terms, linear_terms, simplify
from tc.poly.affine import SET
from tc.poly.scop import Statement
from tc.transforms.program.stages import range_between


def narrowed(s: Stage, loop: Loop) -> Stage:
    """The stage with conditions such as `i > k` in the ranges of its variables."""
    ranges = {v.name: v for v in s.domain.vars}
    conditions: list[Expr] = []
    for c in s.domain.conditions:
        found = _bound(c, ranges, loop)
        if found is None:
            conditions.append(c)
        else:
            ranges[found.name] = found
    return replace(s, domain=Domain(tuple(ranges[v.name] for v in s.domain.vars), tuple(conditions)))


def _bound(c: Expr, ranges: Mapping[str, IterVar], loop: Loop) -> IterVar | None:
    """A variable with its range cut by a condition that compares it with the counter; None for other
    conditions, and where the range would be other than one of constants between those bounds."""
    if not isinstance(c, LT | LE | GT | GE) or c.a.dtype != INDEX:
        return None
    less = isinstance(c, LT | LE)
    # What is not negative where the condition holds.
    form = Sub(c.b, c.a) if less else Sub(c.a, c.b)
    terms, offset = linear_terms(Sub(form, ONE) if isinstance(c, LT | GT) else form)
    names = [t.name for t in terms if isinstance(t, Variable) and t.name in ranges]
    if len(names) != 1 or {*terms} - {Variable(names[0]), Variable(loop.name)}:
        return None
    v = ranges[names[0]]
    low, end = (constant(simplify(e, exact=True)) for e in (v.range.min, v.range.end))
    step, factor = terms.get(Variable(loop.name), 0), terms[Variable(v.name)]
    if low is None or end is None or abs(factor) != 1 or not step or not isinstance(loop.trips, IntImm):
        return None
    # v >= bound for factor 1, v <= bound for factor -1.
    bound = from_terms({Variable(loop.name): -factor * step}, -factor * offset)
    edge = bound if factor == 1 else Add(bound, ONE)
    at_ends = [-factor * (step * k + offset) + (factor == -1) for k in (0, loop.trips.value - 1)]
    if not all(low <= x <= end for x in at_ends):
        return None
    return ranged(v, edge, v.range.end) if factor == 1 else ranged(v, v.range.min, edge)


def ranged(v: IterVar, low: Expr, end: Expr) -> IterVar:
    """A variable with the range from `low` on, before `end`."""
    return replace(v, range=range_between(low, end))


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of instances of two statements: in one block, in one iteration of the loop, and the first one in
    an earlier iteration than the second one."""

    same_block: isl.Map
    at_once: isl.Map
    before: isl.Map


def order(s: Statement, other: Statement, depth: int, size: int) -> Order:
    """The counter of the loop is dimension `depth` of both; blocks have `size` iterations."""
    same_block = _blocks(s, depth, size).apply_range(_blocks(other, depth, size).reverse())
    counters = [x.coordinates([depth]) for x in (s, other)]
    before = counters[0].apply_range(isl.Map.lex_lt(counters[0].range().get_space()))
    return Order(
        same_block,
        counters[0].apply_range(counters[1].reverse()),
        before.apply_range(counters[1].reverse()),
    )


def _blocks(s: Statement, depth: int, size: int) -> isl.Map:
    """From instances to the counters of the loops around the loop, and the number of the block."""
    space = s.domain.get_space()
    local = isl.LocalSpace.from_space(space)
    affs = isl.AffList.alloc(s.domain.get_ctx(), depth + 1)
    for d in range(depth):
        affs = affs.add(isl.Aff.var_on_domain(local, SET, d))
    ctx = s.domain.get_ctx()
    affs = affs.add(
        isl.Aff.var_on_domain(local, SET, depth).scale_down_val(isl.Val.int_from_si(ctx, size)).floor()
    )
    out = space.from_domain().add_dims(isl.dim_type.out, depth + 1)
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(out, affs)).intersect_domain(s.domain)
