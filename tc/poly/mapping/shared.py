"""Promotion to shared memory: what the threads of a block read again and again and do not write.

The footprint of a read in a tile is a box: subscripts are sums of multiples of loop variables, and in a tile
each of these runs over an interval (report, §5.3; the boxes of isl would be the same).  All threads of a
block copy it together, neighbours neighbouring elements, what lies outside of the array as 0: nobody uses
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce

from tc.ir.expr import (
    GE,
    LT,
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Mul,
    Sub,
    Variable,
    imm,
    inline_lets,
)
from tc.ir.loops import Array, Compute, For, LoopKind, Stmt
from tc.ir.program import Buffer
from tc.ir.simplify import conjunction, linear_terms, simplify
from tc.poly.mapping.coordinates import Tuple
from tc.poly.mapping.plan import AxisMap, Unit, covered, points
from tc.poly.plan import Axis
from tc.poly.scop import Access, Scop

LEAST_REUSE = 2  # accesses of a tile to each element that make a copy worth it
_ROW = 16  # elements that are worth a loop of their own


@dataclass(frozen=True, slots=True)
class Term:
    """A multiple of an axis in a subscript; a tile has so many `points`; `moves`: there are several tiles."""

    axis: str
    factor: int
    points: int
    moves: bool


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a footprint: `size` elements from where `constant` and the terms of the first points of
    tiles say; those of points inside of a tile say where an instance reads.  `least`, `most`: the first
    element of the first and of the last tile (None where that depends on sizes), in logical coordinates."""

    size: int
    constant: int
    terms: tuple[Term, ...]
    least: int | None
    most: int | None

    @property
    def place(self) -> tuple[int, int, frozenset[tuple[str, int]]]:
        """The same for footprints that are the same elements."""
        return self.size, self.constant, frozenset((t.axis, t.factor) for t in self.terms if t.moves)


@dataclass(frozen=True, slots=True)
class Shared:
    """A read (its number among the reads of `statement`) of `buffer` that goes to `array` instead."""

    statement: str
    read: int
    buffer: Buffer
    array: Array
    dimensions: tuple[Dimension, ...]

    @property
    def bytes(self) -> int:
        return _bytes(self.array)

    @property
    def moves(self) -> frozenset[str]:
        """The axes with whose tiles the footprint changes."""
        return frozenset(t.axis for d in self.dimensions for t in d.terms if t.moves)


def _bytes(a: Array) -> int:
    *outer, last = (n.value for n in a.shape if isinstance(n, IntImm))
    return math.prod(outer) * (last + a.padding) * a.dtype.itemsize


def promoted(
    scop: Scop, unit: Unit, written: AbstractSet[str], budget: int, whole: bool, name: Callable[[str], str]
) -> tuple[Shared, ...]:
    """The reads of a unit to promote, those that are used most first, of at most `budget` bytes; not of the
    buffers `written` in its region.  `whole`: footprints are those of whole tiles, whose points beyond an
    axis run as well."""
    candidates: list[tuple[float, Shared]] = []
    for s in unit.statements:
        statement = scop.statement(s)
        reads = [a for a in statement.accesses if a.kind == "read"]
        for number, a in enumerate(reads):
            if a.buffer in written or not a.subscripts or a.unknown:
                continue
            found = _footprint(scop, unit, s, a, whole)
            if found is None:
                continue
            instances = math.prod(points(x, m) or 1 for x, m in (*unit.axes, *unit.own) if s in x.vars)
            size = math.prod(d.size for d in found)
            reuse = instances / size
            if reuse < LEAST_REUSE or size == 1:  # what all threads read at once is not read again
                continue
            buffer = scop.program.buffer(a.buffer)
            shape = tuple(IntImm(d.size) for d in found)
            padding = 1 if len(shape) > 1 and found[-1].size % 2 == 0 else 0
            array = Array(name(a.buffer), buffer.dtype, shape, "shared", padding=padding)
            candidates.append((reuse, Shared(s, number, buffer, array, found)))
    out: list[Shared] = []
    for _, x in sorted(candidates, key=lambda c: -c[0]):
        same = next((y for y in out if y.buffer == x.buffer and _places(y) == _places(x)), None)
        if same is not None:
            out.append(Shared(x.statement, x.read, x.buffer, same.array, x.dimensions))
        elif x.bytes <= budget:
            out.append(x)
            budget -= x.bytes
    return tuple(out)


def _places(x: Shared) -> list[tuple[int, int, frozenset[tuple[str, int]]]]:
    return [d.place for d in x.dimensions]


def _footprint(
    scop: Scop, unit: Unit, statement: str, a: Access, whole: bool
) -> tuple[Dimension, ...] | None:
    axes = {x.vars[statement]: (x, m) for x, m in (*unit.axes, *unit.own) if statement in x.vars}
    if a.read is not None and a.read.call.checked:
        return None
    out: list[Dimension] = []
    for e in a.subscripts:
        terms, constant = linear_terms(inline_lets(e))
        size, inside = 1, list[Term]()
        low: int | None = 0
        high: int | None = 0
        for t, k in terms.items():
            if not isinstance(t, Variable) or t.name not in axes:
                return None
            axis, m = axes[t.name]
            n = points(axis, m)
            if n is None or axis.first is not None:
                return None
            most_points = (covered(axis, m) or n) if whole else n
            size += abs(k) * (most_points - 1)
            constant += k * axis.min + min(0, k * (most_points - 1))
            moves = axis.size is not None or n < axis.extent
            inside.append(Term(axis.name, k, most_points, moves))
            last = None if axis.size is not None else k * n * (-(-axis.extent // n) - 1)
            low = None if low is None or last is None else low + min(0, last)
            high = None if high is None or last is None else high + max(0, last)
        least, most = (None if x is None else constant + x for x in (low, high))
        out.append(Dimension(size, constant, tuple(inside), least, most))
    return tuple(out)


def place(t: Tuple, axes: Sequence[tuple[Axis, AxisMap]], d: Dimension) -> str:
    """Where in its footprint an instance reads, as text for isl."""
    by_name = {a.name: (a, m) for a, m in axes}
    parts = ["0"]
    for x in d.terms:
        axis, m = by_name[x.axis]
        k, n = x.factor, x.points
        point = t.point(axis)
        inside = f"(({point}) mod {m.tile})" if m.tile and points(axis, m) == m.tile else point
        parts.append(f"{k} * {inside}" if k > 0 else f"{-k} * ({n - 1} - {inside})")
    return " + ".join(parts)


def copy(x: Shared, starts: Mapping[str, Expr], threads: Sequence[tuple[str, int]], name: str) -> Stmt:
    """The copy of a footprint by all threads of a block; `starts` are the first points of tiles, by axis;
    `name` is free for the loop over rows, and with `_` for that over a row."""
    shape = [d.size for d in x.dimensions]
    count = math.prod(n for _, n in threads)
    # A row: the last dimension, with others before it until it is long enough for neighbouring threads.
    split = len(shape) - 1
    while split > 0 and math.prod(shape[split:]) < _ROW:
        split -= 1
    rows, row = math.prod(shape[:split]), math.prod(shape[split:])
    lanes = _lanes(row, count)
    if rows == 1 or rows * row <= count or count % lanes:
        split, rows, row, lanes = 0, 1, math.prod(shape), count
    lane, line = _shared_out(threads, lanes)
    looped = row != lanes or rows == 1
    inside: Expr = Variable(f"{name}_") if looped else lane
    element = [*_decoded(Variable(name), shape[:split]), *_decoded(inside, shape[split:])]
    source: list[Expr] = []
    tests: list[Expr] = []
    for d, e, r in zip(x.dimensions, element, x.buffer.box, strict=True):
        terms = (Mul(IntImm(t.factor), starts[t.axis]) for t in d.terms if t.moves)
        lower = simplify(reduce(Add, terms, Sub(IntImm(d.constant), r.min)), exact=True)
        at = simplify(Add(lower, e), exact=True)
        source.append(at)
        first = r.min.value if isinstance(r.min, IntImm) else None
        if d.least is None or first is None or d.least < first:
            tests.append(GE(at, IntImm(0)))
        extent = r.extent.value if isinstance(r.extent, IntImm) else None
        if d.most is None or first is None or extent is None or d.most + d.size > first + extent:
            tests.append(LT(at, r.extent))
    value: Expr = Load(x.buffer.name, tuple(source), x.buffer.dtype)
    if tests:
        value = IfThenElse(conjunction(tests), value, imm(0, x.buffer.dtype))
    body: Stmt = Compute(
        "", x.array.name, tuple(simplify(e, exact=True) for e in element), None, value, (), ""
    )
    if looped:
        body = For(f"{name}_", lane, IntImm(row), lanes, LoopKind.SERIAL, body)
    return For(name, line, IntImm(rows), count // lanes, LoopKind.SERIAL, body) if rows > 1 else body


def _lanes(row: int, threads: int) -> int:
    """How many threads copy a row: a power of two, few of which have nothing to do in its last round."""
    return min(
        (1 << i for i in range(3, 11)),
        key=lambda n: -(-row // n) * n + 8 * _ROW // n + (n > threads) * row * 64,
    )


def _shared_out(threads: Sequence[tuple[str, int]], lanes: int) -> tuple[Expr, Expr]:
    """The lane of a thread, and which of the groups of `lanes` threads it is in."""
    if not threads:
        return IntImm(0), IntImm(0)
    (first, width), rest = threads[0], threads[1:]
    if lanes <= width and width % lanes == 0:
        lane: Expr = FloorMod(Variable(first), IntImm(lanes)) if lanes < width else Variable(first)
        line: Expr = FloorDiv(Variable(first), IntImm(lanes)) if lanes < width else IntImm(0)
        line = Add(line, _number(rest, width // lanes))
    else:
        thread = _number(threads, 1)
        lane, line = FloorMod(thread, IntImm(lanes)), FloorDiv(thread, IntImm(lanes))
        if math.prod(n for _, n in threads) == lanes:
            lane, line = thread, IntImm(0)
    return simplify(lane, exact=True), simplify(line, exact=True)


def _number(threads: Sequence[tuple[str, int]], stride: int) -> Expr:
    """`stride` times the number of a thread, the first variable the fastest."""
    out: Expr = IntImm(0)
    for v, n in threads:
        out = Add(out, Mul(Variable(v), IntImm(stride)) if stride > 1 else Variable(v))
        stride *= n
    return out


def _decoded(number: Expr, shape: Sequence[int]) -> list[Expr]:
    """The subscripts of an element with this number."""
    out: list[Expr] = []
    rest = number
    wide = [i for i, n in enumerate(shape) if n > 1]
    for i, n in reversed(list(enumerate(shape))):
        if n == 1:
            out.insert(0, IntImm(0))
            continue
        out.insert(0, FloorMod(rest, IntImm(n)) if i != wide[0] else rest)
        rest = FloorDiv(rest, IntImm(n))
    return out
