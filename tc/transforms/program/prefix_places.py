"""Arg-reductions over prefixes as prefix reductions, whose values do not depend on the result.

An arg-reduction compares each value with the extreme of its result (`tc.lang.extremes`):

    m(d) max= v(k)                                   where k <= d, a prefix
    i(d) min= v(k) == m(d) ? k : last                where k <= d, none: the values depend on d

The place moves on to d where a value is beyond all before it, which is where the extremes change:

    i(d) max= m(k) != m(k-1) ? k : first             where k <= d

Over a suffix, `k >= d`, the place is the first k whose value is the extreme from there on:

    i(d) min= v(k) == m(k) ? k : last                where k >= d

An extreme that is NaN stays NaN, so that it changes once, as it should.  Values that are stored for the
comparison lose the dimension of the results, on which they do not depend either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tc.ir.expr import (
    EQ,
    NE,
    ONE,
    ZERO,
    And,
    Call,
    Cast,
    Expr,
    IfThenElse,
    Max,
    Not,
    Or,
    Select,
    Sub,
    Variable,
    children,
    constant,
    rebuild,
    substitute,
    variables,
    walk,
    without_sites,
)
from tc.ir.lower import neutral
from tc.ir.program import Domain, IterVar, Program, Stage
from tc.ir.simplify import simplify
from tc.transforms.program.prefix_forms import Prefix, prefix_of
from tc.transforms.program.reductions import neutral_start


@dataclass(frozen=True, slots=True)
class _Place:
    """The reduction to the places of extremes over prefixes, or suffixes, that begin with the first result.

    `value` is compared with `extreme`; `point` is the variable of the reduction as a value of the result,
    `otherwise` stands where the comparison fails.
    """

    stage: Stage
    prefix: Prefix
    along: IterVar
    value: Expr
    extreme: Call
    point: Expr
    otherwise: Expr


def into_prefixes(program: Program) -> tuple[Program, tuple[str, ...]]:
    """`program` with arg-reductions over prefixes as prefix reductions; and the tensors that they define."""
    names: list[str] = []
    for s in program.stages:
        found = _with_smaller_values(program, s.name)
        place = _place(found, found.stage(s.name))
        if place is None:
            continue
        program = _rewritten(found, place)
        names.append(program.func_buffers[s.func])
    return program, tuple(names)


def _rewritten(program: Program, p: _Place) -> Program:
    start = neutral_start(program, p.stage)
    assert start is not None
    k = Variable(p.prefix.var.name)

    def extreme(at: Expr) -> Expr:
        return substitute(p.extreme, {p.along.name: at})

    if p.prefix.suffix:
        is_nan = NE(p.value, p.value)
        found: Expr = EQ(p.value, extreme(k))
        found = Or(found, is_nan) if p.value.dtype.is_float else found
        value = Select(found, p.point, p.otherwise)
        new = [replace(p.stage, value=value)]
        init = start
    else:
        first = p.prefix.var.range.min
        here, before = extreme(k), extreme(Max(Sub(k, ONE), first))
        found = NE(here, before)
        if here.dtype.is_float:
            found = And(found, Not(And(NE(here, here), NE(before, before))))
        dtype = p.stage.value.dtype
        value = Select(found, p.point, Cast(dtype, first))
        new = [replace(p.stage, value=value, op="max")]
        init = replace(start, value=neutral("max", program.func(p.stage.func).dtype))
    stages: list[Stage] = []
    for s in program.stages:
        stages += [init] if s is start else new if s is p.stage else [s]
    return replace(program, stages=tuple(stages))


def _place(program: Program, s: Stage) -> _Place | None:
    """A stage as such a reduction; None if it is another one."""
    start, prefix = neutral_start(program, s), _prefix_of_places(program, s)
    if prefix is None or start is None or not start.init:
        return None
    (name,) = prefix.along
    along = next(v for v in s.domain.vars if v.name == name)
    k = prefix.var
    if any(_differ(a, b) for a, b in ((along.range.min, k.range.min), (along.range.end, k.range.end))):
        return None
    condition, point, otherwise = _choice(s.value)
    equal = condition.a if isinstance(condition, Or) else condition
    if not isinstance(equal, EQ) or not isinstance(equal.b, Call) or variables(point) != {k.name}:
        return None
    value, extreme = equal.a, equal.b
    if isinstance(condition, Or) and without_sites(condition.b) != without_sites(NE(value, value)):
        return None
    if name in variables(value) or variables(otherwise) or not _is_extreme(program, s, extreme, value):
        return None
    return _Place(s, prefix, along, value, extreme, point, otherwise)


def _prefix_of_places(program: Program, s: Stage) -> Prefix | None:
    """The prefix over which a stage finds the least of some values, chosen by a condition."""
    if s.op != "min" or s.loops or not isinstance(s.value, Select | IfThenElse):
        return None
    prefix = prefix_of(program, replace(s, value=ZERO))
    if prefix is None or prefix.offset != 0 or prefix.inner or prefix.of_values or prefix.of_results:
        return None
    return prefix


def _choice(e: Expr) -> tuple[Expr, Expr, Expr]:
    """A condition, the value where it holds and the value elsewhere."""
    assert isinstance(e, Select | IfThenElse)
    condition, here, elsewhere = children(e)
    return condition, here, elsewhere


def _differ(a: Expr, b: Expr) -> bool:
    return constant(simplify(Sub(a, b), exact=True)) != 0


def _is_extreme(program: Program, s: Stage, read: Call, value: Expr) -> bool:
    """Whether a read in a stage is of the extreme of these values over the domain of the stage."""
    defining = [x for x in program.stages if x.func == read.name and not x.init]
    if len(defining) != 1 or defining[0].op not in ("min", "max"):
        return False
    m = defining[0]
    same = m.args == read.args and m.domain == s.domain and without_sites(m.value) == without_sites(value)
    return same and not m.loops and not any(isinstance(e, Call) and e.checked for e in walk(value))


# ---- values that are stored for the comparison


def _with_smaller_values(program: Program, name: str) -> Program:
    """`program` in which the values that an arg-reduction reads have no dimension for its results, if they do
    not depend on them."""
    s = program.stage(name)
    prefix = _prefix_of_places(program, s)
    if prefix is None:
        return program
    (along,) = prefix.along
    for read in _reads_at(s, along):
        made = [x for x in program.stages if x.func == read.name]
        buffer = program.buffer(program.func_buffers[read.name])
        if len(made) != 1 or buffer.role != "temporary" or made[0].op is not None or made[0].loops:
            continue
        (source,) = made
        if source.args != read.args or source.domain.conditions != s.domain.conditions:
            continue
        at = source.args.index(Variable(along))
        others = [c for x in program.stages for c in x.calls if c.name == read.name and c.args != read.args]
        if along in variables(source.value) or others or any(c.checked for c in source.calls):
            continue
        return _without_dimension(program, source, along, at)
    return program


def _reads_at(s: Stage, along: str) -> Iterator[Call]:
    for e in walk(s.value):
        if isinstance(e, Call) and e.kind == "func" and Variable(along) in e.args:
            yield e


def _without_dimension(program: Program, source: Stage, along: str, at: int) -> Program:
    """`program` with the tensor that a stage defines without one of its dimensions."""
    name, buffer = source.func, program.func_buffers[source.func]

    def without(e: Expr) -> Expr:
        e = rebuild(e, without)
        if isinstance(e, Call) and e.name == name and e.kind == "func":
            return replace(e, args=(*e.args[:at], *e.args[at + 1 :]))
        return e

    kept = Domain(tuple(v for v in source.domain.vars if v.name != along))
    stages = tuple(
        replace(x, args=(*x.args[:at], *x.args[at + 1 :]), domain=kept)
        if x is source
        else replace(x, value=without(x.value))
        for x in program.stages
    )
    buffers = tuple(
        replace(b, box=(*b.box[:at], *b.box[at + 1 :])) if b.name == buffer else b for b in program.buffers
    )
    funcs = tuple(
        replace(f, box=(*f.box[:at], *f.box[at + 1 :])) if f.name == name else f for f in program.funcs
    )
    return replace(program, stages=stages, buffers=buffers, funcs=funcs)
