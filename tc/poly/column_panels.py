"""Panels: the columns of a matrix that a block of iterations works on, as rows of a temporary.

    for b in 0:N/B                                  for b in 0:N/B
      for j in B*b:B*b+B                              P(t,i) = L(i,B*b+t)          t in 0:B
        s(i) +=! L(i,k) * L(j,k)   k in B*b:j   →     for j in B*b:B*b+B
        L(i,j) = (C(i,j) - s(i)) / ...                  s(i) +=! P(k-B*b,i) * P(k-B*b,j)
                                                        P(j-B*b,i) = (C(i,j) - s(i)) / ...
                                                      L(i,B*b+t) = P(t,i)

The statements of the first form go down columns, one row apart from element to element, so that vectors would
gather them.  The rows of a panel are contiguous, and a cache holds them (packing: Goto and van de Geijn,
"Anatomy of high-performance matrix multiplication", 2008).

A statement of the loop that leaves the panel, as the row of U of a right-looking factorisation, is split at
its end.  The instances behind it run in a loop of their own, after the panel was written back.  That is legal
if no instance in the panel conflicts with an earlier one outside of it in the same block, which isl decides
(loop distribution: Allen and Kennedy, "Automatic translation of Fortran programs to vector form", 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tc.dtypes import DType
from tc.ir.expr import (
    GE,
    LT,
    ONE,
    ZERO,
    Add,
    Call,
    Expr,
    IntImm,
    Min,
    Sub,
    Variable,
    constant,
    rebuild,
    substitute,
    variables,
)
from tc.ir.program import Domain, IterVar, Loop, Program, Range, Stage, fresh
from tc.ir.simplify import linear_terms, simplify
from tc.poly.context import GaveUp, given_up_after, isl_context
from tc.poly.dependences import conflicts
from tc.poly.iteration_blocks import order, ranged
from tc.poly.scop import Domains, Scop, build
from tc.transforms.program.segments import in_domains
from tc.transforms.program.stages import (
    in_place_of,
    names_of,
    range_between,
    stage_at,
    with_temporary,
)

_OPERATIONS = 2_000_000  # operations of isl for one loop; a loop that needs more stays as it is
_MOST_COLUMNS = 64  # of a panel


@dataclass(frozen=True, slots=True)
class Panel:
    """The `columns` of the tensor `buffer` from `start` on that a block accesses, in rows from `low` on.

    `uses`: how often statements of a block go down one of them, about.
    """

    buffer: str
    start: Expr
    columns: int
    low: Expr
    uses: float


Worth = Callable[[Program, Panel], bool]


def copy_panels(program: Program, worth: Worth) -> tuple[Program, tuple[str, ...]]:
    """`program` with temporaries for the panels that are `worth` it, and the tensors that they are of."""
    names: list[str] = []
    for loop in program.loops:
        stages = [s for s in program.stages if loop in s.loops]
        if len(stages[0].loops) < 2 or any(s.loops[-1] != loop for s in stages):
            continue
        if any(s.checked or s.scatters or any(c.checked for c in s.calls) for s in stages):
            continue
        for name in dict.fromkeys(program.func_buffers[s.func] for s in stages):
            found = _with_panel(program, stages, loop, name, worth)
            if found is not None:
                program = found
                names.append(name)
                break  # the loop has other statements now
    return program, tuple(names)


def _with_panel(
    program: Program, stages: Sequence[Stage], loop: Loop, name: str, worth: Worth
) -> Program | None:
    """The program with a panel of the tensor `name` for a loop; None where there is none that is legal and
    worth it."""
    buffer, columns = program.buffer(name), _most(loop.trips)
    written = [s for s in stages if program.func_buffers[s.func] == name]
    reads = (c.name for s in stages for c in s.calls if program.func_buffers.get(c.name) == name)
    if len(buffer.box) < 2 or columns is None or {s.func for s in written} != {*reads, written[0].func}:
        return None
    start = _first_value(written[0], written[0].args[-1], loop)
    if start is None or loop.name in variables(start):
        return None
    end = Min(Add(start, IntImm(columns)), buffer.box[-1].end)
    parts = _split(program, stages, loop, name, simplify(end, exact=True))
    with isl_context():
        try:
            with given_up_after(_OPERATIONS):
                found = _separated(program, parts, loop, name, (start, columns))
        except GaveUp:
            return None
    if found is None:
        return None
    panel = Panel(name, start, columns, found.low, _uses(program, found.inside, loop, name, columns))
    if not worth(program, panel):
        return None
    return _copied(program, stages, found, loop, panel)


def _most(trips: Expr) -> int | None:
    """The constant that limits the iterations of a loop over a block; None if there is none, or it is
    large."""
    bounds = (trips.a, trips.b) if isinstance(trips, Min) else (trips,)
    known = [int(n) for e in bounds if (n := constant(e)) is not None]
    return min(known) if known and 1 < min(known) <= _MOST_COLUMNS else None


def _first_value(s: Stage, e: Expr, loop: Loop) -> Expr | None:
    """The value of an expression at the first point of a statement, in the first iteration of a loop; None
    where the expression may fall from point to point."""
    terms, _ = linear_terms(e)
    names = {v.name for v in s.domain.vars}
    if any(variables(t) & names and (not isinstance(t, Variable) or c < 0) for t, c in terms.items()):
        return None
    first = {v.name: substitute(v.range.min, {loop.name: ZERO}) for v in s.domain.vars}
    return simplify(substitute(substitute(e, {loop.name: ZERO}), first), exact=True)


# ---- statements that leave the panel


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement, or the part of one up to the end of the panel or behind it (`outside`)."""

    stage: Stage
    outside: bool = False


def _split(program: Program, stages: Sequence[Stage], loop: Loop, name: str, end: Expr) -> list[_Part]:
    """The statements, of which those that go along columns of the panel and farther are split at its `end`.

    So are the statements that define or read what these have for each column.
    """
    of = program.func_buffers
    places = {(name, len(program.buffer(name).box) - 1)}
    axes: dict[str, IterVar] = {}
    while True:
        for s in stages:
            accesses = [(of[s.func], s.args), *((of.get(c.name, c.name), c.args) for c in s.calls)]
            subscripts = {a for b, args in accesses for d, a in enumerate(args) if (b, d) in places}
            along = (v for v in s.domain.vars if v.kind == "pure" and Variable(v.name) in subscripts)
            found = next((v for v in along if _leaves(v, loop, end)), None)
            if found is not None:
                axes[s.name] = found
        more = {
            (of[s.func], s.args.index(Variable(axes[s.name].name)))
            for s in stages
            if s.name in axes and Variable(axes[s.name].name) in s.args
        }
        if more <= places:
            break
        places |= more
    out: list[_Part] = []
    taken = {s.name for s in program.stages}
    for s in stages:
        if s.name not in axes:
            out.append(_Part(s))
            continue
        v = axes[s.name]
        for low, high, outside in ((v.range.min, end, False), (end, v.range.end, True)):
            cut = tuple(ranged(x, low, high) if x.name == v.name else x for x in s.domain.vars)
            number = fresh(f"{s.name}_right", taken) if outside else s.name
            taken.add(number)
            out.append(_Part(replace(s, name=number, domain=replace(s.domain, vars=cut)), outside))
    return out


def _leaves(v: IterVar, loop: Loop, end: Expr) -> bool:
    """Whether a variable begins in the panel, in every iteration of its loop, and ends at a constant behind
    it."""
    last = simplify(v.range.end, exact=True)
    return constant(last) is not None and loop.name in variables(v.range.min) and last != end


# ---- legality


@dataclass(frozen=True, slots=True)
class _Separated:
    """The statements in a panel, and those that run after it; the panel has rows from `low` on."""

    inside: Sequence[Stage]
    outside: Sequence[Stage]
    low: Expr


def _separated(
    program: Program, parts: Sequence[_Part], loop: Loop, name: str, panel: tuple[Expr, int]
) -> _Separated | None:
    """The two groups of statements; None where no row or column is sure, or where their order matters."""
    inside = [p.stage for p in parts if not p.outside]
    outside = [p.stage for p in parts if p.outside]
    around = inside[0].loops[:-1]
    # One block, of which the counters around are symbols.
    made = tuple(replace(p.stage, loops=(loop,)) for p in parts)
    sizes = (*program.sizes, *(x.name for x in around))
    part = in_domains(replace(program, stages=made, sizes=sizes, sites=()))
    scop = build(part)
    if any(s.residual or not all(a.must for a in s.accesses) for s in scop.statements):
        return None
    accesses = list(_accesses(program, scop, {s.name for s in inside}, name))
    start, columns = panel
    leading = {args[:-2] for _, args in accesses}
    if len(leading) != 1 or any(
        variables(a) & ({v.name for s in inside for v in s.domain.vars} | {loop.name})
        for args in leading
        for a in args
    ):
        return None
    last = simplify(Add(start, IntImm(columns)), exact=True)
    for s, args in accesses:
        if not (_never(scop, s, LT(args[-1], start)) and _never(scop, s, GE(args[-1], last))):
            return None
    rows = (_first_value(s, args[-2], loop) for s, args in accesses)
    candidates = [*dict.fromkeys(r for r in rows if r is not None), program.buffer(name).box[-2].min]
    low = next(c for c in candidates if all(_never(scop, s, LT(args[-2], c)) for s, args in accesses))
    if not _may_wait(scop, {s.name for s in outside}):
        return None
    return _Separated(inside, outside, low)


def _accesses(
    program: Program, scop: Scop, names: set[str], buffer: str
) -> Iterator[tuple[Stage, tuple[Expr, ...]]]:
    """The accesses of a tensor by the statements `names`, with counters in their domains."""
    for s in scop.statements:
        if s.stage.name not in names:
            continue
        if program.func_buffers[s.stage.func] == buffer:
            yield s.stage, _places(s.stage)
        for c in s.stage.calls:
            if program.func_buffers.get(c.name) == buffer:
                yield s.stage, c.args


def _places(s: Stage) -> tuple[Expr, ...]:
    """The subscripts on the left of a statement, with its variables of one value replaced by that value."""
    single = {v.name: v.range.min for v in s.domain.vars if constant(v.range.extent) == 1}
    return tuple(simplify(substitute(a, single), exact=True) for a in s.args)


def _never(scop: Scop, s: Stage, condition: Expr) -> bool:
    """Whether isl knows that a condition holds at no point of a statement."""
    if not variables(condition) <= {*s.domain.names, *scop.program.sizes}:
        return False
    stage = replace(s, domain=replace(s.domain, conditions=(*s.domain.conditions, condition)))
    _, domain, residual = Domains(scop.names, scop.parameters, scop.context, {}).of_stage(stage)
    return not residual and domain.is_empty()


def _may_wait(scop: Scop, names: set[str]) -> bool:
    """Whether the statements `names` may run after all iterations of the others: no other instance that runs
    later conflicts with one of theirs."""
    for s in scop.statements:
        for other in scop.statements:
            if s.stage.name not in names or other.stage.name in names:
                continue
            found = order(s, other, 0, _MOST_COLUMNS)
            later = found.before.union(found.at_once) if s.index < other.index else found.before
            if any(not relation.intersect(later).is_empty() for _, _, relation in conflicts(s, other)):
                return False
    return True


def _uses(program: Program, stages: Sequence[Stage], loop: Loop, name: str, columns: int) -> float:
    """How often statements go down a column of the panel in a block: instances for a row, in an iteration in
    the middle, in a block that has all of its columns."""
    of, total = program.func_buffers, 0.0
    for s in stages:
        pure = {v.name for v in s.domain.vars if v.kind == "pure"}
        accesses = [c.args for c in s.calls if of.get(c.name) == name]
        accesses += [s.args] * (1 if s.op is None else 2) if of[s.func] == name else []
        for args in accesses:
            rows = variables(args[-2]) & pure
            if rows and any(constant(v.range.extent) != 1 for v in s.domain.vars if v.name in rows):
                inner = (v for v in s.domain.vars if v.name not in rows)
                total += math.prod(_middle(v, loop, columns) for v in inner)
    return total


def _middle(v: IterVar, loop: Loop, columns: int) -> float:
    """The points of a variable in an iteration in the middle of the first block."""
    at: dict[str, Expr] = dict.fromkeys(variables(v.range.extent), ZERO)
    at[loop.name] = IntImm(columns // 2)
    n = constant(simplify(substitute(v.range.extent, at), exact=True))
    return max(1.0, float(columns if n is None else n))


# ---- the program with a panel


@dataclass(frozen=True, slots=True)
class _Copy:
    """The temporary `name`, with a row for each column from `start` on of the Func `func`."""

    name: str
    func: str
    start: Expr
    dtype: DType

    def element(self, row: Expr, column: Expr) -> Call:
        """The element of a row and column of the tensor."""
        return Call(self.name, (self._place(column), row), self.dtype, "func")

    def used(self, s: Stage) -> Stage:
        """A statement that works on the temporary instead of the tensor."""
        conditions = tuple(map(self._read, s.domain.conditions))
        s = replace(s, value=self._read(s.value), domain=replace(s.domain, conditions=conditions))
        if s.func != self.func:
            return s
        return replace(s, func=self.name, args=(self._place(s.args[-1]), s.args[-2]))

    def _read(self, e: Expr) -> Expr:
        e = rebuild(e, self._read)
        if isinstance(e, Call) and e.name == self.func and e.kind == "func":
            return self.element(e.args[-2], e.args[-1])
        return e

    def _place(self, column: Expr) -> Expr:
        return simplify(Sub(column, self.start), exact=True)


def _copied(
    program: Program, stages: Sequence[Stage], found: _Separated, loop: Loop, panel: Panel
) -> Program:
    """The program with the panel: copied, used by the loop, written back; then the statements that waited."""
    buffer = program.buffer(panel.buffer)
    first = next(s for s in stages if program.func_buffers[s.func] == panel.buffer)
    tensors = {f.name for f in program.funcs} | {b.name for b in program.buffers}
    name = fresh(f"{panel.buffer}_panel", tensors)
    copy = _Copy(name, first.func, panel.start, buffer.dtype)
    taken = names_of(program)
    behind = Loop(fresh(f"{loop.name}_right", taken), loop.trips)
    counter = {loop.name: Variable(behind.name)}
    outside = [replace(stage_at(s, counter), loops=(*first.loops[:-1], behind)) for s in found.outside]
    there, back = _moves(program, first, panel, copy)
    box = (Range(ZERO, IntImm(panel.columns)), buffer.box[-2])
    program = with_temporary(program, name, buffer.dtype, box, first.func)
    return in_place_of(program, stages, [there, *map(copy.used, found.inside), back, *outside])


def _moves(program: Program, first: Stage, panel: Panel, copy: _Copy) -> tuple[Stage, Stage]:
    """The statements that copy the columns to the temporary and back; `first` writes the tensor."""
    buffer, taken = program.buffer(panel.buffer), names_of(program)
    numbers = {s.name for s in program.stages}
    end = simplify(Min(Add(panel.start, IntImm(panel.columns)), buffer.box[-1].end), exact=True)
    row = IterVar(fresh("row", taken), range_between(panel.low, buffer.box[-2].end), "pure")
    number = IterVar(fresh("number", taken), range_between(ZERO, Sub(end, panel.start)), "pure")
    column = IterVar(fresh("column", taken), range_between(panel.start, end), "pure")
    fixed = _places(first)[:-2]
    i, t, j = (Variable(v.name) for v in (row, number, column))
    source = Call(copy.func, (*fixed, i, Add(panel.start, t)), buffer.dtype, "func")
    text = f"the columns of {panel.buffer} that a block works on"
    plain = replace(first, op=None, init=False, text=text, loops=first.loops[:-1])
    there = replace(
        plain,
        name=fresh(f"{first.name}_panel", numbers),
        func=copy.name,
        args=(t, i),
        value=source,
        domain=Domain((number, row)),
    )
    ones = (IterVar(fresh(f"at_{d}", taken), Range(e, ONE), "pure") for d, e in enumerate(fixed))
    written = (*ones, row, column)
    back = replace(
        plain,
        name=fresh(f"{first.name}_back", numbers),
        args=tuple(Variable(v.name) for v in written),
        value=copy.element(i, j),
        domain=Domain(written),
    )
    return there, back
