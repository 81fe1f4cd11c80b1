"""Array contraction and privatization: temporaries of which an iteration of the outer loops uses a part that
no other iteration uses.

    parallel for n                                      parallel for n
      for d: e[n,d] = exp(x[n,d] - m[n])         →        for d: e[0,d] = exp(x[n,d] - m[n])
      for d: y[n,d] = e[n,d] / s[n]                       for d: y[n,d] = e[0,d] / s[n]

Each thread then has room for one part, which stays in its caches, where an array of all parts went to memory
and came back.  The loops are those around all accesses, or the outer ones of these.  A subscript must be the
same function of their variables in all accesses, plus what inner loops add; isl shows that two iterations do
not meet in any part.

Privatization is Tu and Padua's ("Automatic array privatization", 1993), contraction Sarkar and Gao's (1991).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile

from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LT,
    ZERO,
    Add,
    And,
    Expr,
    FloorMod,
    IntImm,
    Load,
    Max,
    Min,
    Sub,
    Variable,
    rebuild,
    substitute,
    variables,
    walk,
)
from tc.ir.intervals import Interval
from tc.ir.loops import (
    Array,
    Block,
    Compute,
    For,
    If,
    LoopKind,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    expressions,
    rebuilt,
    statements,
    with_values,
)
from tc.ir.simplify import from_terms, linear_terms, simplify
from tc.poly.implication import implied
from tc.poly.loop_nest import ALIGNMENT
from tc.transforms.loops.unswitch import values, within

_IN_LANES = (LoopKind.VECTOR, LoopKind.DOT, LoopKind.PREFIX)
_WORTH = 2  # the array is at least so many times as large as a part


@dataclass(frozen=True, slots=True)
class _Access:
    """The subscripts of an access inside of some loops, the outermost first."""

    loops: tuple[For, ...]
    subscripts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """What an iteration of the outer loops uses of an array: in each dimension so many elements (None: all)
    from an origin on.  `owner`: the parallel loop among them, and its iterations."""

    origin: tuple[Expr, ...]
    extents: tuple[int | None, ...]
    owner: str | None
    copies: int


def private_arrays(nest: LoopNest, smallest: int = 0) -> LoopNest:
    """The nest with such temporaries as private arrays of one part; those of fewer bytes than `smallest`, as
    far as that is known, stay as they are."""
    accesses: dict[str, list[_Access]] = {}
    for name, access in _accesses(nest.body, ()):
        accesses.setdefault(name, []).append(access)
    registers = {b for s in statements(nest.body) if isinstance(s, Promote) for b in s.dead}
    parts: dict[str, _Part] = {}
    arrays: list[Array] = []
    end = nest.workspace
    for a in nest.arrays:
        if a.role == "temporary" and a.name in accesses and a.name not in registers:
            size = _bytes(a)
            found = _part(a, accesses[a.name], nest.sizes) if size is None or size >= smallest else None
            if found is not None:
                parts[a.name] = found
                a, end = _placed(a, found, size, end)
        arrays.append(a)
    if not parts:
        return nest
    origins = {n: p.origin for n, p in parts.items()}
    return replace(nest, arrays=tuple(arrays), workspace=end, body=_moved(nest.body, origins))


def _placed(a: Array, part: _Part, size: int | None, end: Expr) -> tuple[Array, Expr]:
    """The array of one part, and the end of the workspace: the copies are where the array was, if it is large
    enough, else behind all others."""
    shape = tuple(
        n if extent is None else IntImm(extent) for n, extent in zip(a.shape, part.extents, strict=True)
    )
    made = replace(a, shape=shape, role="private", owner=part.owner)
    stride = -(-_known(_bytes(made)) // ALIGNMENT) * ALIGNMENT
    made = replace(made, stride=stride)
    if size is not None and stride * part.copies <= size:
        return made, end
    return replace(made, offset=end), simplify(Add(end, IntImm(stride * part.copies)), exact=True)


def _bytes(a: Array) -> int | None:
    sizes = [n.value for n in a.shape if isinstance(n, IntImm)]
    return math.prod(sizes) * a.dtype.itemsize if len(sizes) == len(a.shape) else None


def _known(n: int | None) -> int:
    assert n is not None
    return n


def _accesses(s: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[str, _Access]]:
    for e in expressions(s):
        for x in walk(e):
            if isinstance(x, Load):
                yield x.buffer, _Access(loops, x.subscripts)
    match s:
        case Compute():
            yield s.buffer, _Access(loops, s.subscripts)
        case Block():
            for c in s.body:
                yield from _accesses(c, loops)
        case If():
            yield from _accesses(s.then, loops)
            if s.otherwise is not None:
                yield from _accesses(s.otherwise, loops)
        case For():
            yield from _accesses(s.body, (*loops, s))
        case Promote():
            yield from _accesses(s.body, loops)
        case _:
            return


# ---- the part of an iteration


def _part(a: Array, accesses: Sequence[_Access], sizes: Collection[str]) -> _Part | None:
    """The smallest part that works: that of as many loops as possible."""
    common = accesses[0].loops
    for x in accesses[1:]:
        same = 0
        while same < min(len(common), len(x.loops)) and common[same] is x.loops[same]:
            same += 1
        common = common[:same]
    # Iterations in lanes run at once.
    common = tuple(takewhile(lambda loop: loop.kind not in _IN_LANES, common))
    parallel = [k for k, loop in enumerate(common) if loop.kind is LoopKind.PARALLEL]
    # Inside of another parallel loop several threads would share a part.
    anywhere = any(y.kind is LoopKind.PARALLEL for x in accesses for y in x.loops)
    if anywhere and not parallel:
        return None
    for depth in range(len(common), parallel[0] if parallel else 0, -1):
        found = _part_of(a, accesses, common[:depth], sizes)
        if found is not None:
            return found
    return None


def _part_of(
    a: Array, accesses: Sequence[_Access], loops: tuple[For, ...], sizes: Collection[str]
) -> _Part | None:
    owner = next((loop for loop in loops if loop.kind is LoopKind.PARALLEL), None)
    copies = 1 if owner is None else _most(owner.upper)
    if copies is None:
        return None
    origins: list[Expr] = []
    extents: list[int | None] = []
    apart: list[tuple[Expr, int]] = []
    for d, whole in enumerate(a.shape):
        found = _dimension([(x.loops, x.subscripts[d]) for x in accesses], loops)
        if found is not None and found[0] != ZERO:
            outer, (first, last) = found
            origins.append(simplify(Add(outer, IntImm(first)), exact=True))
            extents.append(last - first + 1)
            apart.append((outer, last - first + 1))
        elif isinstance(whole, IntImm):
            origins.append(ZERO)
            extents.append(None)
        else:
            return None
    kept = math.prod(_extent(n) for n, e in zip(a.shape, extents, strict=True) if e is None)
    part = math.prod(e for e in extents if e is not None) * kept * a.dtype.itemsize
    size = _bytes(a)
    if not apart or (size is not None and part * _WORTH > size) or not _distinct(loops, apart, sizes):
        return None
    return _Part(tuple(origins), tuple(extents), None if owner is None else owner.var, copies)


def _extent(n: Expr) -> int:
    assert isinstance(n, IntImm)
    return n.value


def _dimension(
    accesses: Sequence[tuple[tuple[For, ...], Expr]], loops: tuple[For, ...]
) -> tuple[Expr, Interval] | None:
    """What the outer loops choose of a dimension, the same in all accesses, and the range of what the inner
    loops add."""
    names = {loop.var for loop in loops}
    common: Expr | None = None
    whole: Interval | None = None
    for around, e in accesses:
        if any(isinstance(x, Load) for x in walk(e)):
            return None
        terms, offset = linear_terms(e)
        own = {t: c for t, c in terms.items() if variables(t) and variables(t) <= names}
        outer = from_terms(own, 0)
        ranges: Mapping[str, Interval] = {}
        for loop in around:
            ranges = within(ranges, loop)
        added = values(from_terms({t: c for t, c in terms.items() if t not in own}, offset), ranges)
        if added is None or (common is not None and outer != common):
            return None
        common = outer
        whole = added if whole is None else (min(whole[0], added[0]), max(whole[1], added[1]))
    assert common is not None and whole is not None
    return common, whole


def _most(e: Expr) -> int | None:
    """A number that an upper bound does not exceed."""
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Min):
        known = [n for n in (_most(e.a), _most(e.b)) if n is not None]
        return min(known) if known else None
    return None


def _distinct(loops: Sequence[For], apart: Sequence[tuple[Expr, int]], sizes: Collection[str]) -> bool:
    """Whether no two iterations have parts that meet."""
    other = {loop.var: Variable(f"{loop.var}'") for loop in loops}
    facts: list[Expr] = []
    for loop in loops:
        v = Variable(loop.var)
        bounds = [*_conditions(loop.lower, v, True), *_conditions(loop.upper, v, False)]
        if loop.step != 1:
            bounds.append(EQ(FloorMod(Sub(v, loop.lower), IntImm(loop.step)), ZERO))
        facts += bounds + [substitute(c, dict(other)) for c in bounds]
    for outer, extent in apart:
        distance = Sub(outer, substitute(outer, dict(other)))
        facts += [LT(distance, IntImm(extent)), GT(distance, IntImm(-extent))]
    same = [EQ(Variable(loop.var), other[loop.var]) for loop in loops]
    return implied(reduce(And, same), facts, sizes)


def _conditions(bound: Expr, v: Variable, lower: bool) -> list[Expr]:
    """That a variable is within a bound of its loop, which may be the least or greatest of several."""
    if isinstance(bound, Max if lower else Min):
        return [*_conditions(bound.a, v, lower), *_conditions(bound.b, v, lower)]
    return [GE(v, bound) if lower else LT(v, bound)]


# ---- the nest with the parts


def _moved(s: Stmt, origins: Mapping[str, tuple[Expr, ...]]) -> Stmt:
    """A statement whose accesses of some arrays count from the origins of their parts."""

    def at(buffer: str, subscripts: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if buffer not in origins:
            return subscripts
        pairs = zip(subscripts, origins[buffer], strict=True)
        return tuple(simplify(Sub(e, o), exact=True) if o != ZERO else e for e, o in pairs)

    def value(e: Expr) -> Expr:
        e = rebuild(e, value)
        return replace(e, subscripts=at(e.buffer, e.subscripts)) if isinstance(e, Load) else e

    def of(s: Stmt) -> Stmt:
        s = rebuilt(s, of)
        match s:
            case Compute():
                return replace(s, subscripts=at(s.buffer, s.subscripts))
            case Prefetch() if s.buffer in origins:
                return Block(())  # its lines are in the caches
            case _:
                return s

    return with_values(of(s), value)
