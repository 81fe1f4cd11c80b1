"""Delayed updates: those of a block of iterations of a sequential loop are applied together, as a product.

    for k in 0:N                                for b in 0:N/B
      F(i,k) = F(i,k) / F(k,k)                    for k in B*b:B*b+B
      F(i,j) -= F(i,k) * F(k,j)                     F(i,k) = F(i,k) / F(k,k)
          where i > k, j > k             →          F(i,j) -= F(i,k) * F(k,j)   where i < B*b+B
                                                    F(i,j) -= F(i,k) * F(k,j)   where i >= B*b+B, j < B*b+B
                                                  F(i,j) -= F(i,k) * F(k,j)
                                                      where i, j >= B*b+B, k in B*b:B*b+B

The first form reads and writes the whole trailing part of F in each iteration.  The last statement of the
second form reads and writes it once for B iterations, and is a matrix product (blocked right-looking
factorisation: Dongarra, Duff, Sorensen and van der Vorst, "Numerical Linear Algebra for High-Performance
Computers", 1998, chapter 5).  Each element is updated in the same order as before.  What the product reads of
the tensor that it updates is copied first, so that its results stay in registers.

An instance of an update waits if its variables are in the ranges that they have in the last iteration of the
block.  That is legal if no waiting instance conflicts with an instance that runs later in the block, that is,
accesses the same element, with one of both accesses a write.  Updates of the same element by the same
statement do not count, since they may be summed in any order.  isl decides this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tc.ir.expr import (
    GE,
    LT,
    Call,
    Expr,
    FloorDiv,
    IntImm,
    Mul,
    Sub,
    Variable,
    rebuild,
    variables,
)
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
    stage_at,
    with_temporary,
)

if TYPE_CHECKING:
    import islpy as isl


@dataclass(frozen=True, slots=True)
class Update:
    """A statement of an innermost sequential loop whose instances could wait for the end of a block.

    The variables `waiting` decide which instances do; the loop has `trips` iterations.
    """

    stage: Stage
    waiting: tuple[IterVar, ...]
    trips: int


Block = Callable[[Program, Update], int]


def delay(program: Program, block: Block) -> tuple[Program, tuple[str, ...]]:
    """`program` with such updates applied after blocks of `block(program, update)` iterations, where that is
    not 0; and the tensors that they update."""
    delayed: list[str] = []
    for loop, stages in innermost(program):
        candidates = [u for s in stages if (u := _update(s, loop)) is not None]
        size, candidates = sized(program, loop, candidates, block)
        found = allowed(program, stages, candidates, partial(_legal, loop, size))
        if found:
            program = _blocked(program, stages, loop, found, size)
            delayed += [program.func_buffers[u.stage.func] for u in found]
    return program, tuple(dict.fromkeys(delayed))


def _update(s: Stage, loop: Loop) -> Update | None:
    """A sum, product or extremum with one term for each element and iteration, over at least two variables,
    some of whose ranges shrink from iteration to iteration; None for other statements."""
    if s.op is None or s.init or s.checked or s.scatters or any(v.kind == "reduction" for v in s.domain.vars):
        return None
    if any(c.checked for c in s.calls):
        return None
    s = narrowed(s, loop)
    own = {a.name for a in s.args if isinstance(a, Variable)}
    k = loop.name
    waiting: list[IterVar] = []
    for v in s.domain.vars:
        if k in variables(v.range.min) | variables(v.range.extent):
            if v.name not in own or _kept_end(v, k) is None:
                return None
            waiting.append(v)
    assert isinstance(loop.trips, IntImm)
    return Update(s, tuple(waiting), loop.trips.value) if waiting and len(s.domain.vars) >= 2 else None


def _kept_end(v: IterVar, k: str) -> str | None:
    """The end of a range that stays the same while the other one moves towards it: "min" or "end"; None if
    there is none."""
    low, end = simplify(v.range.min, exact=True), simplify(v.range.end, exact=True)
    if variables(low) | variables(end) != {k}:
        return None
    step_low, step_end = (linear_terms(e)[0].get(Variable(k), 0) for e in (low, end))
    if any(not isinstance(t, Variable) for e in (low, end) for t in linear_terms(e)[0]):
        return None
    if step_low > 0 and step_end == 0:
        return "end"
    return "min" if step_low == 0 and step_end < 0 else None


# ---- legality: which instances may wait


def _legal(loop: Loop, size: int, scop: Scop, u: Update) -> bool:
    """Whether no instance that runs later in a block needs the result of an instance that waits, or changes
    what it reads."""
    s = next(x for x in scop.statements if x.stage.name == u.stage.name)
    for other in scop.statements:
        if s.residual or other.residual or not all(a.must for a in (*s.accesses, *other.accesses)):
            return False
    waiting = _waiting_set(scop, s, loop, u.waiting, size)
    depth = len(u.stage.loops) - 1
    return all(
        waiting.is_disjoint(relation.domain())
        for other in scop.statements
        for relation in _later(s, other, depth, size)
    )


def _later(s: Statement, other: Statement, depth: int, size: int) -> Iterator[isl.Map]:
    """Pairs of instances of `s` and, in the same block, of `other` that share an element and run in this
    order.  The counter of the loop is dimension `depth`."""
    found = order(s, other, depth, size)
    for a, b, relation in conflicts(s, other):
        own = ("update", "write")
        if s is other and a.kind in own and b.kind in own:
            continue  # updates of one element, which commute
        later = found.before
        # Within an iteration statements run in order, and each reads everything before it writes.
        if s.index < other.index or (s is other and a.kind == "read" and b.kind == "write"):
            later = later.union(found.at_once)
        yield relation.intersect(found.same_block).intersect(later)


def _waiting_set(scop: Scop, s: Statement, loop: Loop, waiting: Sequence[IterVar], size: int) -> isl.Set:
    """The instances whose `waiting` variables are in the ranges that these have in the last iteration of the
    block."""
    counter = Variable(loop.name)
    start = Mul(FloorDiv(counter, IntImm(size)), IntImm(size))
    conditions: list[Expr] = []
    for v in waiting:
        low, end = _at_last(v, loop, start, size)
        conditions += [GE(Variable(v.name), low), LT(Variable(v.name), end)]
    stage = replace(
        s.stage, domain=replace(s.stage.domain, conditions=(*s.stage.domain.conditions, *conditions))
    )
    _, domain, _ = Domains(scop.names, scop.parameters, scop.context, {}).of_stage(stage)
    return domain


def _at_last(v: IterVar, loop: Loop, start: Expr, size: int) -> tuple[Expr, Expr]:
    """The range of a variable in the last iteration of the block that begins at `start`."""
    return range_at(v, loop, last_of_block(loop, start, size))


# ---- the program in blocks


def _blocked(
    program: Program, stages: Sequence[Stage], loop: Loop, found: Sequence[Update], size: int
) -> Program:
    """The program with a loop in blocks of `size` iterations, after which the updates `found` are applied."""
    assert isinstance(loop.trips, IntImm)
    taken = names_of(program)
    names = {s.name for s in program.stages}
    block = Loop(fresh(f"{loop.name}_block", taken), IntImm(-(-loop.trips.value // size)))
    inner, start, counter = iterations_of_block(loop, block.name, size)
    updates = {u.stage.name: u for u in found}
    now: list[Stage] = []
    afterwards: list[Stage] = []
    for s in stages:
        loops = (*s.loops[:-1], block, inner)
        if s.name not in updates:
            now.append(replace(stage_at(s, counter), loops=loops))
            continue
        s = updates[s.name].stage
        for n, domain in enumerate(_at_once(updates[s.name], loop, start, size)):
            name = s.name if n == 0 else fresh(f"{s.name}_{n}", names)
            names.add(name)
            now.append(replace(stage_at(replace(s, name=name, domain=domain), counter), loops=loops))
        name = fresh(f"{s.name}_block", names)
        names.add(name)
        summed = IterVar(fresh(f"{loop.name}_sum", taken), Range(start, inner.trips), "reduction")
        taken.add(summed.name)
        waiting = {v.name for v in updates[s.name].waiting}
        pure = tuple(
            ranged(v, *_at_last(v, loop, start, size)) if v.name in waiting else v for v in s.domain.vars
        )
        late = replace(s, name=name, domain=Domain((*pure, summed), s.domain.conditions))
        late = replace(stage_at(late, {loop.name: Variable(summed.name)}), loops=loops[:-1])
        program, copies, late = _apart(program, late, summed, size, names)
        afterwards += [*copies, late]
    return in_place_of(program, stages, [*now, *afterwards])


def _apart(
    program: Program, late: Stage, summed: IterVar, size: int, names: set[str]
) -> tuple[Program, list[Stage], Stage]:
    """The product with copies of what it reads of the tensor that it updates, and the statements that make
    them.

    A statement reads its operands before it writes, so that copies have the same values.  Results of which
    no other elements are read stay in registers.
    """
    of, copies = program.func_buffers, list[Stage]()
    own = [c for c in late.calls if of.get(c.name) == of[late.func]]
    if late.domain.conditions or not all(_is_plain(c, late) for c in own):
        return program, [], late
    made: dict[Call, Call] = {}
    axes = {v.name: v for v in late.domain.vars}
    for c in dict.fromkeys(own):
        box = program.func(c.name).box
        tensors = {f.name for f in program.funcs} | {b.name for b in program.buffers}
        name, number = fresh(f"{of[late.func]}_apart", tensors), fresh(f"{late.name}_apart", names)
        names.add(number)
        moving = [(d, a, axes[n]) for d, a in enumerate(c.args) for n in variables(a) & axes.keys()]
        place = [
            (Sub(a, summed.range.min), Range(IntImm(0), IntImm(size)))
            if v.name == summed.name
            else (a, box[d])
            for d, a, v in moving
        ]
        subscripts = tuple(simplify(a, exact=True) for a, _ in place)
        ranges = tuple(r for _, r in place)
        made[c] = Call(name, subscripts, c.dtype, "func")
        domain = Domain(tuple(replace(v, kind="pure") for _, _, v in moving))
        copies.append(replace(late, name=number, func=name, args=subscripts, op=None, value=c, domain=domain))
        program = with_temporary(program, name, c.dtype, ranges, late.func)

    def read(e: Expr) -> Expr:
        return made[e] if isinstance(e, Call) and e in made else rebuild(e, read)

    # The last one may share its loops with the product: over rows of the tensor, each of which is in a page.
    copies.sort(key=lambda s: late.domain.vars[0].name in s.domain.names)
    return program, copies, replace(late, value=read(late.value))


def _is_plain(c: Call, s: Stage) -> bool:
    """Whether each subscript of a read has at most one variable of the statement, with factor 1, and no two
    the same."""
    names = {v.name for v in s.domain.vars}
    found = [variables(a) & names for a in c.args]
    linear = all(
        linear_terms(a)[0].get(Variable(n)) == 1 for a, own in zip(c.args, found, strict=True) for n in own
    )
    return (
        linear
        and max(map(len, found), default=0) <= 1
        and sum(map(len, found)) == len(set[str]().union(*found))
    )


def _at_once(u: Update, loop: Loop, start: Expr, size: int) -> Iterator[Domain]:
    """The iteration domains of the instances that do not wait: for each waiting variable, the points outside
    of its range in the last iteration, with the variables before it inside theirs."""
    domain, k = u.stage.domain, loop.name
    for n, v in enumerate(u.waiting):
        earlier = {x.name for x in u.waiting[:n]}
        low, end = _at_last(v, loop, start, size)
        beside = (v.range.min, low) if _kept_end(v, k) == "end" else (end, v.range.end)
        # The ranges of the last iteration do not contain the counter, the other points do.
        yield Domain(
            tuple(
                ranged(x, *beside)
                if x.name == v.name
                else ranged(x, *_at_last(x, loop, start, size))
                if x.name in earlier
                else x
                for x in domain.vars
            ),
            domain.conditions,
        )
