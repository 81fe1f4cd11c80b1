"""Sequential loops whose iterations do not depend on each other, as dimensions of their statements.

    for b in 0:B {                              h(b,0,d) = x(b,0,d)
      h(b,0,d) = x(b,0,d)                       for t in 1:T {
      for t in 1:T {                      →       g(b,d) +=! W(d,e) * h(b,t-1,e)
        g(d) +=! W(d,e) * h(b,t-1,e)              h(b,t,d) = tanh(g(b,d))
        h(b,t,d) = tanh(g(d))                   }
      }
    }

The statements then run for all iterations at once: in threads and lanes, as one kernel of a GPU, and a
product of a matrix and a vector becomes one of matrices.  That is legal where isl finds no element that two
iterations access, one of them as a write (loop distribution; Allen and Kennedy, "Automatic translation of
Fortran programs to vector form", 1987).  A temporary that each iteration defines before it reads it, as `g`,
gets a dimension for the loop (array expansion).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tc.ir.expr import ONE, ZERO, Add, Call, Expr, Sub, Variable, constant, rebuild, substitute, variables
from tc.ir.program import Buffer, Domain, IterVar, Loop, Program, Range, Stage
from tc.ir.simplify import linear_terms, simplify
from tc.poly.affine import SET
from tc.poly.checks import reads_of_nothing
from tc.poly.context import GaveUp, given_up_after, isl_context
from tc.poly.dependences import conflicts
from tc.poly.scop import build
from tc.poly.times import execution_times
from tc.transforms.program.segments import in_domains
from tc.transforms.program.stages import in_place_of, stage_at

_OPERATIONS = 1_000_000  # operations of isl for one loop; a loop that needs more stays as it is
_SMALL = 1 << 20  # elements of a temporary that may be larger than all tensors of the caller


def into_dimensions(program: Program, worth: Callable[[int | None], bool]) -> tuple[Program, tuple[str, ...]]:
    """`program` without such loops, and their names.

    Where there are sequential loops inside of one, its iterations share theirs: an iteration of these goes
    through the elements of all of them.  A loop stays that is not `worth` it at so many bytes, None if that
    is not known.
    """
    names: list[str] = []
    left = list(program.loops)
    while left:
        loop = left.pop(0)
        found = _without(program, loop) if worth(_bytes_in_turn(program, loop)) else None
        if found is not None:
            program = found
            names.append(loop.name)
    return program, tuple(names)


def _without(program: Program, loop: Loop) -> Program | None:
    """The program with a loop as a dimension of its statements; None where that is not legal."""
    stages = [s for s in program.stages if loop in s.loops]
    inner = [x.trips for s in stages for x in s.loops]
    if not _counts(loop.trips, program.sizes) or any(loop.name in variables(e) for e in inner):
        return None
    if any(s.checked or s.scatters or any(c.checked for c in s.calls) for s in stages):
        return None
    carriers = [_carrier(s, loop) for s in stages]
    if any(c is None and _ranges_with(s, loop) for s, c in zip(stages, carriers, strict=True)):
        return None  # the range of a variable would depend on another one
    buffers = program.func_buffers
    shared = {buffers[s.func] for s, c in zip(stages, carriers, strict=True) if c is None}
    if not all(_is_private(program, b, stages, loop) for b in shared):
        return None
    if any(c is not None and buffers[s.func] in shared for s, c in zip(stages, carriers, strict=True)):
        return None
    if not _is_independent(program, stages, loop, shared):
        return None
    return _spread(program, stages, carriers, loop, shared)


def _counts(trips: Expr, sizes: Sequence[str]) -> bool:
    """Whether trips are an extent, a number that is not negative whatever the sizes are: a loop over `1:N`
    has none for a size of 0, where a dimension of `N - 1` would be an error."""
    terms, offset = linear_terms(trips)
    positive = offset >= 0 and all(f > 0 for f in terms.values())
    return positive and all(isinstance(t, Variable) and t.name in sizes for t in terms)


def _bytes_in_turn(program: Program, loop: Loop) -> int | None:
    """The bytes that all iterations of a loop write in an iteration of the loops inside of it; 0 without such
    loops, None if that is not known."""
    most = 0
    trips = constant(loop.trips)
    for s in program.stages:
        if loop not in s.loops or s.loops[-1] == loop:
            continue
        box = program.func(s.func).box
        sizes = [trips]
        for v in s.domain.vars:
            if v.kind == "pure" and constant(v.range.extent) != 1 and Variable(v.name) in s.args:
                of_tensor = box[s.args.index(Variable(v.name))].extent
                known = constant(v.range.extent)
                sizes.append(constant(of_tensor) if known is None else known)
        if None in sizes:
            return None
        elements = math.prod(int(n) for n in sizes if n is not None)
        most = max(most, elements * program.func(s.func).dtype.itemsize)
    return most


# ---- what a statement writes


@dataclass(frozen=True, slots=True)
class _Carrier:
    """The variable that has one value in each iteration of a loop, its values in all of them, and the counter
    of the loop in terms of the variable, which gets its name."""

    var: IterVar
    values: Range
    counter: Expr


def _ranges_with(s: Stage, loop: Loop) -> list[IterVar]:
    """The variables of a statement whose range has the counter of a loop."""
    return [v for v in s.domain.vars if loop.name in variables(v.range.min) | variables(v.range.extent)]


def _carrier(s: Stage, loop: Loop) -> _Carrier | None:
    """The variable of a subscript on the left that tells the iterations of a loop apart; None if there is
    none."""
    found = _ranges_with(s, loop)
    if len(found) != 1 or found[0].kind != "pure" or constant(found[0].range.extent) != 1:
        return None
    (var,) = found
    if Variable(var.name) not in s.args:
        return None
    terms, _ = linear_terms(var.range.min)
    factor = terms.pop(Variable(loop.name), 0)
    if abs(factor) != 1 or any(loop.name in variables(t) for t in terms):
        return None
    rest = simplify(substitute(var.range.min, {loop.name: ZERO}), exact=True)
    here = Variable(loop.name)
    if factor == 1:
        return _Carrier(var, Range(rest, loop.trips), simplify(Sub(here, rest), exact=True))
    first = simplify(Add(Sub(rest, loop.trips), ONE), exact=True)
    return _Carrier(var, Range(first, loop.trips), simplify(Sub(rest, here), exact=True))


def _is_private(program: Program, buffer: str, stages: Sequence[Stage], loop: Loop) -> bool:
    """Whether each iteration defines what it reads of a temporary, which nothing else reads, and the
    temporary may have a dimension more."""
    b = program.buffer(buffer)
    if b.role != "temporary" or not _may_grow(program, b, loop):
        return False
    if any(s not in stages for s in program.stages if _uses(program, s, buffer)):
        return False
    # One iteration, of which the counters around are symbols.
    depth = stages[0].loops.index(loop) + 1
    around = tuple(x.name for x in stages[0].loops[:depth])
    inside = tuple(replace(s, loops=s.loops[depth:]) for s in stages)
    part = replace(program, stages=inside, sizes=(*program.sizes, *around), sites=())
    with isl_context():
        try:
            with given_up_after(_OPERATIONS):
                scop = build(in_domains(part))
                times = execution_times(scop, inside)
                return all(x.is_empty() for _, _, x in reads_of_nothing(scop, buffer, times))
        except GaveUp:
            return False


def _uses(program: Program, s: Stage, buffer: str) -> bool:
    of = program.func_buffers
    return of[s.func] == buffer or any(of.get(c.name, c.name) == buffer for c in s.calls)


def _may_grow(program: Program, b: Buffer, loop: Loop) -> bool:
    """Whether a temporary with a dimension for the loop is no larger than the caller's largest tensor, or
    small."""
    size = _elements((*(r.extent for r in b.box), loop.trips))
    others = [_elements(r.extent for r in x.box) for x in program.buffers if x.role != "temporary"]
    return size is not None and size <= max([_SMALL, *(n for n in others if n is not None)])


def _elements(extents: Iterator[Expr] | tuple[Expr, ...]) -> int | None:
    sizes = [constant(e) for e in extents]
    return None if None in sizes else math.prod(int(n) for n in sizes if n is not None)


# ---- dependences


def _is_independent(program: Program, stages: Sequence[Stage], loop: Loop, private: set[str]) -> bool:
    """Whether no two iterations of a loop, in one iteration of the loops around it, access one element of a
    tensor that is not private, one of them as a write."""
    part = in_domains(replace(program, stages=tuple(stages), sites=()))
    depth = stages[0].loops.index(loop)
    with isl_context():
        try:
            with given_up_after(_OPERATIONS):
                scop = build(part)
                places = [s.coordinates(range(depth + 1)) for s in scop.statements]
                for s in scop.statements:
                    for other in scop.statements:
                        for access, _, relation in conflicts(s, other):
                            if access.buffer in private:
                                continue
                            zero = isl.Val.zero(relation.get_ctx())
                            moved = places[s.index].reverse().apply_range(relation)
                            delta = moved.apply_range(places[other.index]).deltas()
                            for d in range(depth):
                                delta = delta.fix_val(SET, d, zero)
                            if not delta.is_subset(delta.fix_val(SET, depth, zero)):
                                return False
        except GaveUp:
            return False
    return True


# ---- the program without the loop


def _spread(
    program: Program,
    stages: Sequence[Stage],
    carriers: Sequence[_Carrier | None],
    loop: Loop,
    expanded: set[str],
) -> Program:
    buffers = program.func_buffers
    here = Variable(loop.name)
    made: list[Stage] = []
    for s, carrier in zip(stages, carriers, strict=True):
        s = replace(s, loops=tuple(x for x in s.loops if x != loop))
        if carrier is None:
            counter: Expr = here
            dims = (IterVar(loop.name, Range(ZERO, loop.trips), "pure"), *s.domain.vars)
            s = replace(s, args=(here, *s.args), domain=Domain(dims, s.domain.conditions))
        else:
            counter, old = carrier.counter, carrier.var
            s = stage_at(s, {old.name: here, loop.name: counter})
            dims = tuple(
                IterVar(loop.name, carrier.values, "pure") if v.name == old.name else v for v in s.domain.vars
            )
            s = replace(s, domain=Domain(dims, s.domain.conditions))
        made.append(replace(s, value=_read_at(s.value, counter, expanded, program)))
    result = in_place_of(program, stages, made)
    return replace(
        result,
        buffers=tuple(
            replace(b, box=(Range(ZERO, loop.trips), *b.box)) if b.name in expanded else b
            for b in result.buffers
        ),
        funcs=tuple(
            replace(f, box=(Range(ZERO, loop.trips), *f.box)) if buffers[f.name] in expanded else f
            for f in result.funcs
        ),
    )


def _read_at(e: Expr, counter: Expr, expanded: set[str], program: Program) -> Expr:
    """A value that reads the elements of one iteration in the temporaries that have a dimension for these."""
    e = rebuild(e, lambda c: _read_at(c, counter, expanded, program))
    if isinstance(e, Call) and e.kind == "func" and program.func_buffers[e.name] in expanded:
        return replace(e, args=(counter, *e.args))
    return e
