"""Blocks of iterations of a sequential loop: the ranges of variables in a block, and the order of instances
within one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import islpy as isl

from tc.ir.expr import GE, GT, INDEX, LE, LT, ONE, Add, Expr, IntImm, Min, Sub, Variable, constant, substitute
from tc.ir.program import Domain, IterVar, Loop, Program, Stage
from tc.ir.simplify import from_terms, linear_terms, simplify
from tc.poly.affine import SET
from tc.poly.context import GaveUp, given_up_after, isl_context
from tc.poly.scop import Scop, Statement, build
from tc.transforms.program.segments import in_domains
from tc.transforms.program.stages import range_between

_OPERATIONS = 2_000_000  # operations of isl for one loop; a loop that needs more stays as it is


class Candidate(Protocol):
    """A statement of a loop that could be changed by blocks of iterations."""

    @property
    def stage(self) -> Stage: ...


C = TypeVar("C", bound=Candidate)


def allowed(
    program: Program, stages: Sequence[Stage], found: Sequence[C], legal: Callable[[Scop, C], bool]
) -> list[C]:
    """The candidates that are legal, decided by isl on the scop of the loop's stages; none where isl gives
    up."""
    if not found:
        return []
    part = in_domains(replace(program, stages=tuple(stages), sites=()))
    with isl_context():
        try:
            with given_up_after(_OPERATIONS):
                scop = build(part)
                return [x for x in found if legal(scop, x)]
        except GaveUp:
            return []


def innermost(program: Program) -> Iterator[tuple[Loop, list[Stage]]]:
    """The innermost sequential loops of a constant number of iterations, with their stages."""
    for loop in program.loops:
        stages = [s for s in program.stages if loop in s.loops]
        if isinstance(loop.trips, IntImm) and all(s.loops[-1] == loop for s in stages):
            yield loop, stages


def sized(
    program: Program, loop: Loop, candidates: Sequence[C], block: Callable[[Program, C], int]
) -> tuple[int, list[C]]:
    """The iterations of a block, which is the maximum that `block` gives for a candidate, and the candidates
    for which it gives any; 0 if that is less than two, or more than half of the loop."""
    sizes = {x.stage.name: block(program, x) for x in candidates}
    size = max(sizes.values(), default=0)
    trips = constant(loop.trips)
    if trips is None or not 1 < size <= trips // 2:
        return 0, []
    return size, [x for x in candidates if sizes[x.stage.name]]


def narrowed(s: Stage, loop: Loop) -> Stage:
    """The stage with conditions such as `i > k` made part of the ranges of its variables."""
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
    """A variable with the range from `low` up to, but not including, `end`."""
    return replace(v, range=range_between(low, end))


def range_at(v: IterVar, loop: Loop, counter: Expr) -> tuple[Expr, Expr]:
    """The first point and the end of a variable's range in an iteration of a loop."""
    at: dict[str, Expr] = {loop.name: counter}
    low, end = (simplify(substitute(e, at), exact=True) for e in (v.range.min, v.range.end))
    return low, end


def last_of_block(loop: Loop, start: Expr, size: int) -> Expr:
    """The last iteration of the block that begins at `start`."""
    return Sub(Min(Add(start, IntImm(size)), loop.trips), ONE)


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of instances of two statements: in the same block, in the same iteration of the loop, and with
    the first one in an earlier iteration."""

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
