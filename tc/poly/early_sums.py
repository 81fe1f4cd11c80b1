"""Early sums: terms that are known before a block of iterations of a sequential loop are summed together.

    for i in 0:N                                 for b in 0:N/B
      s(m) +=! L(i,k) * X(k,m)   k in 0:i          S(r,m) +=! L(B*b+r,k) * X(k,m)   r in 0:B, k in 0:B*b
      X(i,m) = (C(i,m) - s(m)) / L(i,i)      →     for i in B*b:B*b+B
                                                     s(m) = S(i-B*b,m)
                                                     s(m) += L(i,k) * X(k,m)        k in B*b:i
                                                     X(i,m) = (C(i,m) - s(m)) / L(i,i)

The first form reads the whole computed part of X in each iteration.  The first statement of the second form
reads it once for B iterations, and is a product of matrices (blocked left-looking algorithms: Dongarra, Duff,
Sorensen and van der Vorst, "Numerical Linear Algebra for High-Performance Computers", 1998, chapter 5).
`tc.poly.delayed_updates` moves updates behind a block; this pass moves terms of sums before it.

The range of a variable of the sum grows from iteration to iteration.  The early instances are those in its
range of the first iteration of the block.  Moving them is legal if no statement that runs before them in the
block writes an element that they read, which isl decides.  If the results move as well, as with `m in i:M`,
the early sums have all results of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tc.dtypes import accumulator
from tc.ir.expr import (
    GE,
    LT,
    Add,
    Call,
    Expr,
    FloorDiv,
    IntImm,
    Mul,
    Sub,
    Variable,
    constant,
    substitute,
    variables,
)
from tc.ir.lower import neutral
from tc.ir.program import Domain, IterVar, Loop, Program, Range, Stage, fresh
from tc.ir.simplify import linear_terms, simplify
from tc.poly.dependences import conflicts
from tc.poly.iteration_blocks import (
    allowed,
    innermost,
    last_of_block,
    narrowed,
    order,
    range_at,
    ranged,
    sized,
)
from tc.poly.scop import Domains, Scop, Statement
from tc.transforms.program.stages import (
    in_place_of,
    iterations_of_block,
    names_of,
    range_between,
    stage_at,
    with_temporary,
)

if TYPE_CHECKING:
    import islpy as isl


@dataclass(frozen=True, slots=True)
class Sum:
    """A reduction in an innermost sequential loop of `trips` iterations; the range of its variable `growing`
    gets longer from iteration to iteration.

    `single` are the variables of one value that are on its left but not in its domain.
    """

    stage: Stage
    growing: IterVar
    trips: int
    single: tuple[IterVar, ...]


Block = Callable[[Program, Sum], int]


def begin_early(program: Program, block: Block) -> tuple[Program, tuple[str, ...]]:
    """`program` with loops in blocks of `block(program, sum)` iterations, where that is not 0, before which
    their sums begin; and the tensors that are summed."""
    early: list[str] = []
    for loop, stages in innermost(program):
        candidates = [u for s in stages if (u := _sum(program, s, loop)) is not None]
        size, candidates = sized(program, loop, candidates, block)
        found = allowed(program, stages, candidates, partial(_legal, loop, size))
        if found:
            program = _blocked(program, stages, loop, found, size)
            early += [program.func_buffers[u.stage.func] for u in found]
    return program, tuple(dict.fromkeys(early))


def _sum(program: Program, s: Stage, loop: Loop) -> Sum | None:
    """A reduction with one growing range, whose results move in one direction or not at all; None for other
    statements."""
    if s.op is None or s.init or s.checked or s.scatters or any(c.checked for c in s.calls):
        return None
    dtype = program.func(s.func).dtype
    if accumulator(dtype, s.value.dtype) != dtype or dtype.is_half:
        return None  # it would be rounded twice
    s = narrowed(s, loop)
    s, single = _at_places(s)
    moved = [v for v in s.domain.vars if _moves(v, loop)]
    summed = [v for v in moved if v.kind == "reduction"]
    if s.domain.conditions or len(summed) != 1 or _growth(summed[0], loop) != 1:
        return None
    first = constant(ranged(summed[0], *range_at(summed[0], loop, IntImm(0))).range.extent)
    if first is None or first < 0:
        return None
    if any(not _growth(v, loop) or _meets_counter(s, v, loop) for v in moved if v.kind == "pure"):
        return None
    pure = [v for v in s.domain.vars if v.kind == "pure"]
    if any(constant(e) is None for v in pure for e in _whole(v, loop)):
        return None
    assert isinstance(loop.trips, IntImm)
    return Sum(s, summed[0], loop.trips.value, single)


def _at_places(s: Stage) -> tuple[Stage, tuple[IterVar, ...]]:
    """The stage with variables of one value replaced by that value, except on its left, and these variables.
    `i` on the left of `X(i,m) = …` in a loop over `i` is one."""
    single = tuple(v for v in s.domain.vars if v.kind == "pure" and constant(v.range.extent) == 1)
    values: dict[str, Expr] = {v.name: v.range.min for v in single}
    axes = tuple(v for v in s.domain.vars if v.name not in values)
    conditions = tuple(substitute(c, values) for c in s.domain.conditions)
    made = replace(s, value=substitute(s.value, values), domain=Domain(axes, conditions))
    return made, single


def _moves(v: IterVar, loop: Loop) -> bool:
    return loop.name in variables(v.range.min) | variables(v.range.extent)


def _growth(v: IterVar, loop: Loop) -> int:
    """1 if one end of a range stays the same and the other one moves away from it, -1 if the other one moves
    towards it, 0 for other ranges."""
    low, end = simplify(v.range.min, exact=True), simplify(v.range.end, exact=True)
    if any(not isinstance(t, Variable) for e in (low, end) for t in linear_terms(e)[0]):
        return 0
    step_low, step_end = (linear_terms(e)[0].get(Variable(loop.name), 0) for e in (low, end))
    if bool(step_low) == bool(step_end):
        return 0
    return 1 if step_low < 0 or step_end > 0 else -1


def _meets_counter(s: Stage, v: IterVar, loop: Loop) -> bool:
    """Whether a variable and the counter are in the same subscript.  Results that only other iterations of
    the block have would then be outside of the tensor."""
    return any({v.name, loop.name} <= variables(a) for c in s.calls for a in c.args)


def _whole(v: IterVar, loop: Loop) -> tuple[Expr, Expr]:
    """The first point and the end of a variable's range in the iteration in which it is longest."""
    assert isinstance(loop.trips, IntImm)
    last = IntImm(loop.trips.value - 1) if _moves(v, loop) and _growth(v, loop) > 0 else IntImm(0)
    return range_at(v, loop, last)


# ---- legality: which terms are known


def _legal(loop: Loop, size: int, scop: Scop, u: Sum) -> bool:
    """Whether no instance that runs before an early one in its block writes an element that this one
    reads."""
    s = next(x for x in scop.statements if x.stage.name == u.stage.name)
    for other in scop.statements:
        if s.residual or other.residual or not all(a.must for a in (*s.accesses, *other.accesses)):
            return False
    counter = Variable(loop.name)
    start = Mul(FloorDiv(counter, IntImm(size)), IntImm(size))
    low, end = range_at(u.growing, loop, start)
    conditions = (GE(Variable(u.growing.name), low), LT(Variable(u.growing.name), end))
    stage = replace(
        s.stage, domain=replace(s.stage.domain, conditions=(*s.stage.domain.conditions, *conditions))
    )
    _, early, _ = Domains(scop.names, scop.parameters, scop.context, {}).of_stage(stage)
    depth = len(u.stage.loops) - 1
    return all(_is_known(early, s, other, depth, size) for other in scop.statements)


def _is_known(early: isl.Set, s: Statement, other: Statement, depth: int, size: int) -> bool:
    found = order(other, s, depth, size)
    before = found.before.union(found.at_once) if other.index < s.index else found.before
    for a, b, relation in conflicts(other, s):
        if b.kind != "read" or a.kind == "read":
            continue
        earlier = relation.intersect(found.same_block).intersect(before)
        if not earlier.range().is_disjoint(early):
            return False
    return True


# ---- the program in blocks


def _blocked(
    program: Program, stages: Sequence[Stage], loop: Loop, found: Sequence[Sum], size: int
) -> Program:
    """The program with a loop in blocks of `size` iterations, before which the sums `found` begin."""
    assert isinstance(loop.trips, IntImm)
    taken = names_of(program)
    tensors = {f.name for f in program.funcs} | {b.name for b in program.buffers}
    names = {s.name for s in program.stages}
    block = Loop(fresh(f"{loop.name}_block", taken), IntImm(-(-loop.trips.value // size)))
    inner, start, counter = iterations_of_block(loop, block.name, size)
    row = IterVar(fresh(f"{loop.name}_row", taken), Range(IntImm(0), inner.trips), "pure")
    sums = {u.stage.name: u for u in found}
    before: list[Stage] = []
    now: list[Stage] = []

    def named(s: Stage, suffix: str) -> str:
        name = fresh(f"{s.name}_{suffix}", names)
        names.add(name)
        return name

    for s in stages:
        loops = (*s.loops[:-1], block, inner)
        if s.name not in sums:
            now.append(replace(stage_at(s, counter), loops=loops))
            continue
        u = sums[s.name]
        s, outer = u.stage, loops[:-1]
        assert s.op is not None
        tensor = fresh(f"{s.func}_early", tensors)
        tensors.add(tensor)
        pure = tuple(v for v in s.domain.vars if v.kind == "pure")
        of_block = {v.name: _of_block(v, loop, start, size) for v in pure}
        box = (range_between(*_whole(v, loop)) for v in pure)
        dtype = program.func(s.func).dtype
        program = with_temporary(program, tensor, dtype, (Range(IntImm(0), IntImm(size)), *box), s.func)
        places = tuple(Variable(v.name) for v in pure)
        low, end = range_at(u.growing, loop, start)
        begun = replace(s, func=tensor, args=(Variable(row.name), *places), loops=outer)
        before.append(
            replace(
                begun, name=named(s, "start"), op=None, value=neutral(s.op, dtype), init=True,
                domain=Domain((row, *of_block.values())), text=f"{s.text}  # starts from the neutral element",
            )
        )  # fmt: skip
        axes = tuple(
            ranged(v, low, end) if v.name == u.growing.name else of_block.get(v.name, v)
            for v in s.domain.vars
        )
        whole = replace(begun, name=named(s, "early"), domain=Domain((row, *axes)))
        before.append(stage_at(whole, {loop.name: Add(start, Variable(row.name))}))
        here = (Sub(Variable(loop.name), start), *places)
        added = replace(s, name=named(s, "sum"), value=Call(tensor, here, dtype, "func"))
        added = replace(added, domain=Domain((*u.single, *pure)))
        late_low, late_end = (
            (end, u.growing.range.end) if _stays(u.growing, loop) else (u.growing.range.min, low)
        )
        axes = tuple(ranged(v, late_low, late_end) if v.name == u.growing.name else v for v in s.domain.vars)
        late = replace(s, domain=Domain((*u.single, *axes)))
        now += [replace(stage_at(x, counter), loops=loops) for x in (added, late)]
    return in_place_of(program, stages, [*before, *now])


def _of_block(v: IterVar, loop: Loop, start: Expr, size: int) -> IterVar:
    """A variable of results with the range of the iteration of the block in which this is longest."""
    if not _moves(v, loop):
        return v
    last = last_of_block(loop, start, size)
    return ranged(v, *range_at(v, loop, last if _growth(v, loop) > 0 else start))


def _stays(v: IterVar, loop: Loop) -> bool:
    """Whether the end of a range that stays the same is its first point."""
    return Variable(loop.name) not in linear_terms(simplify(v.range.min, exact=True))[0]
