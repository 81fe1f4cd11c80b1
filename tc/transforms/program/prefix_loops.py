"""Prefix reductions as sequential loops: `y(d,m) op= e(k,m) where k <= d` goes from row to row.

    y(0,m)  = neutral
    y(0,m) op= e(0,m)
    for d                                   a row from the one before it
      y(d,m) = y(d-1,m) op e(d,m)

Each value is read once, and each result written once; rows that are long enough fill vectors, and many
prefixes side by side keep a scalar processor busy (`tc.transforms.program.prefixes` has chunks for the rest).
Values that are reductions themselves are combined behind a copy of the row before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tc.dtypes import accumulator
from tc.ir.expr import ONE, Add, Call, Cast, Expr, IntImm, Mul, Sub, Variable, constant, substitute
from tc.ir.lower import neutral
from tc.ir.program import Domain, IterVar, Loop, Op, Program, Range, Stage, combined, fresh
from tc.ir.simplify import simplify
from tc.transforms.program.prefix_factors import Split, split
from tc.transforms.program.prefix_forms import Prefix, each_is_a_point, prefix_of
from tc.transforms.program.reductions import neutral_start


@dataclass(frozen=True, slots=True)
class Columns:
    """A prefix reduction down columns: `rows` results one below the other, of `width` bytes each.

    There are `count` of them, one for each point of the other dimensions; `value` is what an iteration
    combines, and is a reduction itself if it `reduces`.  It stands `alone` if no other statement could share
    its loops.
    """

    rows: int
    width: int
    count: int
    value: Expr
    reduces: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class Found:
    """`program` with the prefix reductions of tensors of these `names` as loops; of some the factors went
    behind the sums (`multiplied`)."""

    program: Program
    names: tuple[str, ...] = ()
    multiplied: tuple[str, ...] = ()


def into_loops(program: Program, worth: Callable[[Columns], bool]) -> Found:
    """`program` with the prefix reductions down columns that are worth it as sequential loops."""
    versions = [f.buffer for f in program.funcs]
    if len(set(versions)) < len(versions) or any(s.scatters for s in program.stages):
        return Found(program)  # with loops a tensor has one version
    names: list[str] = []
    multiplied: list[str] = []
    stages: list[Stage] = []
    for s in program.stages:
        found = _columns(program, s)
        if found is None or not worth(found[1]):
            stages.append(s)
            continue
        one, _ = found
        stages.pop()  # the start, which the loop has for its first row
        made = (*program.stages, *stages)
        stages += _loop(program, one, {x.name for x in made}, {loop.name for x in made for loop in x.loops})
        names.append(program.func_buffers[s.func])
        if one.behind is not None:
            multiplied.append(names[-1])
    if not names:
        return Found(program)
    return Found(replace(program, stages=tuple(stages)), tuple(names), tuple(multiplied))


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A prefix reduction whose first result is of one value, and the factors that come behind it."""

    stage: Stage
    prefix: Prefix
    along: IterVar
    behind: Split | None


def _columns(program: Program, s: Stage) -> tuple[_Prefix, Columns] | None:
    """A stage as a prefix reduction down columns; None if it is none."""
    if s.loops or not s.domain.constant or neutral_start(program, s) is None:
        return None
    behind = None
    prefix = prefix_of(program, s)
    if prefix is None:
        behind = split(program, s)
        if behind is None:
            return None
        s, prefix = behind.stage, behind.prefix
    func = program.func(s.func)
    if prefix.of_results or accumulator(func.dtype, s.value.dtype) != func.dtype or len(prefix.along) != 1:
        return None
    if prefix.offset not in (0, 1 if prefix.suffix else -1):
        return None
    (name,) = prefix.along
    d, k = next(v for v in s.domain.vars if v.name == name), prefix.var.range
    starts = (k.end, d.range.end) if prefix.suffix else (k.min, d.range.min)
    if constant(simplify(Sub(*starts), exact=True)) != 0 or not each_is_a_point(prefix, d.range):
        return None
    rows = constant(d.range.extent)
    if Variable(name) not in s.args or rows is None or rows < 2:
        return None
    ranges = {Variable(v.name): v.range for v in s.domain.vars}
    extents = [constant(ranges[a].extent) if a in ranges else None for a in s.args]
    at = s.args.index(Variable(name))
    if None in extents[at + 1 :]:
        return None
    below = math.prod(int(n) for n in extents[at + 1 :] if n is not None)
    found = Columns(
        int(rows),
        below * func.dtype.itemsize,
        below * math.prod(1 if n is None else int(n) for n in extents[:at]),
        s.value,
        bool(prefix.inner or prefix.of_values),
        all(x.func == s.func for x in program.stages),
    )
    return _Prefix(s, prefix, d, behind), found


def _loop(program: Program, one: _Prefix, names: set[str], loops: set[str]) -> list[Stage]:
    """The stages of a prefix reduction as a loop."""
    s, p, d = one.stage, one.prefix, one.along
    op, dtype = s.op, program.func(s.func).dtype
    assert op is not None
    counter = Variable(fresh(f"{d.name}_row", loops | set(program.sizes) | set(s.domain.names)))
    step = IntImm(-1 if p.suffix else 1)
    first = simplify(Sub(d.range.end, ONE) if p.suffix else d.range.min, exact=True)
    row = simplify(Add(first, Mul(step, Add(counter, ONE))), exact=True)
    exclusive = p.offset != 0

    def of(at: Expr, e: Expr) -> Expr:
        """An expression of the point of the reduction that goes into the result of a row."""
        point = simplify(Sub(at, step) if exclusive else at, exact=True)
        return simplify(substitute(e, {p.var.name: point}), exact=True)

    def made(
        stem: str, at: Expr, op: Op | None, value: Expr, reduced: bool, around: tuple[Loop, ...]
    ) -> Stage:
        name = fresh(f"{s.name}{stem}", names)
        names.add(name)
        dims = tuple(
            replace(v, range=Range(at, ONE)) if v == d else v for v in s.domain.vars if v.kind == "pure"
        )
        domain = Domain(dims)
        if reduced:
            domain = Domain((*dims, *p.inner), tuple(of(at, c) for c in p.of_values))
        return replace(s, name=name, op=op, value=value, domain=domain, loops=around, init=stem == "i")

    def value(at: Expr) -> Expr:
        found = of(at, s.value)
        return found if found.dtype == dtype else Cast(dtype, found)

    before = Call(
        s.func, tuple(substitute(a, {d.name: Sub(Variable(d.name), step)}) for a in s.args), dtype, "func"
    )
    around = (Loop(counter.name, simplify(Sub(d.range.extent, ONE), exact=True)),)
    stages = [made("i", first, None, neutral(op, dtype), False, ())]
    if not exclusive:
        stages.append(made("", first, op, value(first), True, ()))
    if p.inner or p.of_values:
        stages.append(made("b", row, None, before, False, around))
        stages.append(made("r", row, op, value(row), True, around))
    else:
        stages.append(made("r", row, None, combined(op, before, value(row)), False, around))
    if one.behind is not None:
        name = fresh(f"{s.name}f", names)
        names.add(name)
        stages.append(one.behind.scaled(name))
    return stages
