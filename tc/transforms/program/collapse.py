"""Loop collapsing: neighbouring dimensions that are always used together become one, so that
`O(n,c,h,w) = fmax(I(n,c,h,w), 0)` needs a single loop.

Two neighbouring dimensions of an array are merged if every access to it has two variables as subscripts
there, both over the whole of their dimension, and these variables occur only in such pairs.  A read may have
a constant as the second subscript, in a row of few elements.  The last two dimensions, with short rows, are
also merged if only other statements than the one with the most points have other subscripts there: these
statements then address `extent * i + j`.  Subscripts with a boundary mode keep their dimensions.

Vectors then have one remainder in all, not one in each short row, and one loop has enough iterations for all
cores.  The arrays are dense, so no subscript needs a division (as for `collapse` in OpenMP).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from tc.ir.expr import (
    Add,
    Call,
    Expr,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Select,
    Variable,
    children,
    rebuild,
    variables,
    walk,
)
from tc.ir.program import Box, Buffer, IterVar, Program, Range, Stage, fresh

_MOST = 1 << 31  # points of a merged dimension
# Elements of a row of which single ones may be read, such as the two parts of a complex number: up to this
# stride the cpu backend loads contiguous vectors and picks lanes from them (`load_store.MAX_PICK_STRIDE`).
_SHORT = 4
# Elements of a row of which the last vector is a large part.
_FEW = 32


@dataclass(frozen=True, slots=True)
class _Access:
    buffer: str
    args: tuple[Expr, ...]
    checked: bool = False


@dataclass(frozen=True, slots=True)
class _Uses:
    """The accesses of a stage, and the variables that occur outside of their subscripts, or in a subscript
    that is not a variable alone."""

    accesses: tuple[_Access, ...]
    elsewhere: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Merge:
    """The merged pairs: by buffer the first dimension of each pair, by stage the pairs of variables."""

    dims: Mapping[str, frozenset[int]]
    pairs: Mapping[str, frozenset[tuple[str, str]]]


def collapse(program: Program) -> Program:
    """The program with fewer dimensions where that is possible.  Sizes must be known."""
    while True:
        uses = {s.name: _uses(program, s) for s in program.stages}
        found = next(
            (
                m
                for b in program.buffers
                for d in range(len(b.box) - 1)
                if (m := _merge(program, uses, b.name, d)) is not None
            ),
            None,
        )
        if found is None:
            return program
        program = _merged(program, found)


def _uses(program: Program, stage: Stage) -> _Uses:
    buffers = program.func_buffers
    accesses = [_Access(buffers[stage.func], stage.args, bool(stage.checked))]
    elsewhere = {v for c in stage.domain.conditions for v in variables(c)}

    def visit(e: Expr) -> None:
        if isinstance(e, Variable):
            elsewhere.add(e.name)
        if isinstance(e, Call) and e.kind != "intrinsic":
            accesses.append(_Access(buffers.get(e.name, e.name), e.args, bool(e.checked)))
            if e.checked:  # error messages name its variables
                elsewhere.update(stage.domain.names)
            for a in e.args:
                if not isinstance(a, Variable):
                    visit(a)
            return
        if isinstance(e, Let) and e.name in stage.domain.names:
            elsewhere.update(stage.domain.names)
        for c in children(e):
            visit(c)

    visit(stage.value)
    for a in stage.args:
        if not isinstance(a, Variable):
            visit(a)
    return _Uses(tuple(accesses), frozenset(elsewhere))


def _merge(program: Program, uses: Mapping[str, _Uses], buffer: str, dim: int) -> _Merge | None:
    """Everything that must be merged together with two dimensions of a buffer; None if something cannot
    be."""
    buffers = {b.name: b for b in program.buffers}
    stages = {s.name: s for s in program.stages}
    versions = {f.name: [s.name for s in program.stages if s.func == f.name] for f in program.funcs}
    dims: dict[str, set[int]] = {}
    pairs: dict[str, set[tuple[str, str]]] = {}
    apart: dict[str, set[str]] = {}  # the variables of merged dimensions that a stage uses separately
    open_dims, open_pairs = [(buffer, dim)], list[tuple[str, str, str]]()
    while open_dims or open_pairs:
        if open_dims:
            name, d = open_dims.pop()
            if d in dims.get(name, set()):
                continue
            if any(abs(d - x) == 1 for x in dims.get(name, set())) or not _alike(program, buffers[name], d):
                return None
            dims.setdefault(name, set()).add(d)
            for s, u in uses.items():
                for a in u.accesses:
                    if a.buffer == name:
                        i, j = a.args[d : d + 2]
                        if a is not u.accesses[0] and not a.checked and _is_fixed(buffers[name], d, i, j):
                            continue  # a read with a stride
                        own = [s] if a is not u.accesses[0] else versions[stages[s].func]
                        if all(_side_by_side(stages[t], uses[t], name, d) for t in own):
                            assert isinstance(i, Variable) and isinstance(j, Variable)
                            open_pairs.append((s, i.name, j.name))
                        elif _is_short(buffers[name], d, _FEW) and d + 2 == len(a.args) and _plain(a, i, j):
                            apart.setdefault(s, set()).update(variables(i) | variables(j))
                        else:
                            return None
            continue
        s, i, j = open_pairs.pop()
        if (i, j) in pairs.get(s, set()):
            continue
        if not _together(stages[s], uses[s], i, j) or any({i, j} & set(x) for x in pairs.get(s, set())):
            return None
        pairs.setdefault(s, set()).add((i, j))
        ranges = {v.name: v.range for v in stages[s].domain.vars}
        for a in uses[s].accesses:
            for d, e in enumerate(a.args):
                if e == Variable(i):
                    if (ranges[i], ranges[j]) != buffers[a.buffer].box[d : d + 2]:
                        return None
                    open_dims.append((a.buffer, d))
    if apart and not _worthwhile(program, pairs, apart):
        return None
    return _Merge({b: frozenset(x) for b, x in dims.items()}, {s: frozenset(x) for s, x in pairs.items()})


def _side_by_side(stage: Stage, uses: _Uses, buffer: str, dim: int) -> bool:
    """Whether the subscripts of a stage at two dimensions of a buffer are pairs of variables that occur only
    as such pairs."""
    pairs = {a.args[dim : dim + 2] for a in uses.accesses if a.buffer == buffer}
    return all(
        isinstance(i, Variable) and isinstance(j, Variable) and _together(stage, uses, i.name, j.name)
        for i, j in pairs
    )


def _worthwhile(
    program: Program, pairs: Mapping[str, AbstractSet[tuple[str, str]]], apart: Mapping[str, AbstractSet[str]]
) -> bool:
    """Whether the stage with the most points is a reduction that gets fewer loops.  No stage may use some
    merged variables separately and others in pairs."""
    stages = {s.name: s for s in program.stages}
    if any({v for pair in pairs.get(s, ()) for v in pair} & names for s, names in apart.items()):
        return False

    def points(name: str) -> float:
        extents = [v.range.extent for v in stages[name].domain.vars]
        return math.prod(e.value if isinstance(e, IntImm) else math.inf for e in extents)

    reductions = [
        s
        for s, found in pairs.items()
        if any(v.kind == "reduction" and all(v.name not in p for p in found) for v in stages[s].domain.vars)
    ]
    return max(map(points, reductions), default=0.0) >= max(map(points, apart))


def _alike(program: Program, buffer: Buffer, dim: int) -> bool:
    """Whether two dimensions have known extents, the same in all versions of the tensor."""
    pair = buffer.box[dim : dim + 2]
    low = [r.min.value for r in pair if isinstance(r.min, IntImm)]
    extents = [r.extent.value for r in pair if isinstance(r.extent, IntImm)]
    if len(low) < 2 or len(extents) < 2 or not 0 < extents[0] * extents[1] < _MOST:
        return False
    return all(f.box[dim : dim + 2] == pair for f in program.funcs if f.buffer == buffer.name)


def _is_fixed(buffer: Buffer, dim: int, i: Expr, j: Expr) -> bool:
    """Whether the second of two neighbouring subscripts is a constant in a short row."""
    return isinstance(i, Variable) and isinstance(j, IntImm) and _is_short(buffer, dim, _SHORT)


def _plain(a: _Access, i: Expr, j: Expr) -> bool:
    """Whether an access has no check, which counts its dimensions, and no boundary mode in these subscripts:
    a backend finds the lanes at a border by the subscript of one dimension."""
    borders = (Min, Max, Select)
    return not a.checked and not any(isinstance(e, borders) for x in (i, j) for e in walk(x))


def _is_short(buffer: Buffer, dim: int, most: int) -> bool:
    """Whether the second of two neighbouring dimensions is a short row, and both start from 0."""
    extent = buffer.box[dim + 1].extent
    return (
        isinstance(extent, IntImm)
        and extent.value <= most
        and all(r.min == IntImm(0) for r in buffer.box[dim : dim + 2])
    )


def _together(stage: Stage, uses: _Uses, i: str, j: str) -> bool:
    """Whether two variables of a stage occur only as a pair, in this order, and can become one loop."""
    order = list(stage.domain.names)
    if i == j or i not in order or j not in order or {i, j} & uses.elsewhere:
        return False
    kinds = {v.kind for v in stage.domain.vars if v.name in (i, j)}
    if len(kinds) > 1 or order.index(i) > order.index(j):
        return False
    for a in uses.accesses:
        names = [e.name if isinstance(e, Variable) else None for e in a.args]
        where = [d for d, n in enumerate(names) if n == i]
        if [d for d, n in enumerate(names) if n == j] != [d + 1 for d in where]:
            return False
    return True


def _merged(program: Program, m: _Merge) -> Program:
    buffers = program.func_buffers
    extents = {(b.name, d): r.extent for b in program.buffers for d, r in enumerate(b.box)}

    def box(b: Box, dims: frozenset[int]) -> Box:
        out: list[Range] = []
        for d, r in enumerate(b):
            if d in dims:
                out.append(Range(IntImm(0), IntImm(_points(b[d : d + 2]))))
            elif d - 1 not in dims:
                out.append(r)
        return tuple(out)

    def stage(s: Stage) -> Stage:
        pairs = m.pairs.get(s.name, frozenset())
        names = {i: _fresh(f"{i}_{j}", s, program) for i, j in pairs}
        second = {j for _, j in pairs}
        variable_pairs = {(Variable(i), Variable(j)) for i, j in pairs}

        def args(buffer: str, old: Sequence[Expr]) -> Iterator[Expr]:
            dims = m.dims.get(buffer, frozenset())
            for d, e in enumerate(old):
                if d in dims and isinstance(e, Variable) and (e, old[d + 1]) in variable_pairs:
                    yield Variable(names[e.name])
                elif d in dims:
                    yield Add(Mul(extents[buffer, d + 1], visit(e)), visit(old[d + 1]))
                elif d - 1 not in dims:
                    yield visit(e)

        def visit(e: Expr) -> Expr:
            if isinstance(e, Call) and e.kind != "intrinsic":
                return replace(e, args=tuple(args(buffers.get(e.name, e.name), e.args)))
            return rebuild(e, visit)

        ranges = {v.name: v.range for v in s.domain.vars}
        partner = dict(pairs)
        axes = tuple(
            IterVar(
                names[v.name],
                Range(IntImm(0), IntImm(_points((v.range, ranges[partner[v.name]])))),
                v.kind,
            )
            if v.name in names
            else v
            for v in s.domain.vars
            if v.name not in second
        )
        target = tuple(args(buffers[s.func], s.args))
        return replace(s, args=target, value=visit(s.value), domain=replace(s.domain, vars=axes))

    return replace(
        program,
        buffers=tuple(replace(b, box=box(b.box, m.dims.get(b.name, frozenset()))) for b in program.buffers),
        funcs=tuple(replace(f, box=box(f.box, m.dims.get(f.buffer, frozenset()))) for f in program.funcs),
        stages=tuple(map(stage, program.stages)),
    )


def _points(pair: Sequence[Range]) -> int:
    first, second = (r.extent for r in pair)
    assert isinstance(first, IntImm) and isinstance(second, IntImm)
    return first.value * second.value


def _fresh(name: str, stage: Stage, program: Program) -> str:
    bound = {e.name for e in walk(stage.value) if isinstance(e, Let)}
    return fresh(name, {*stage.domain.names, *program.sizes, *bound, *(s.name for s in program.scalars)})
