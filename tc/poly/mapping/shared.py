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
from tc.poly.mapping.plan import AxisMap, Unit, points
from tc.poly.plan import Axis
from tc.poly.scop import Access, Scop

LEAST_REUSE = 2  # accesses of a tile to each element that make a copy worth it


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a footprint: `size` elements from where `constant` and multiples of the first points of
    tiles say.  `terms` are these multiples, by axis, and as well those of points inside of a tile, by which
    an instance is told where it reads.  `least`, `most`: the first element of the first and of the last tile
    (None where that depends on sizes), in logical coordinates."""

    size: int
    constant: int
    terms: tuple[tuple[str, int], ...]
    least: int | None
    most: int | None


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


def _bytes(a: Array) -> int:
    *outer, last = (n.value for n in a.shape if isinstance(n, IntImm))
    return math.prod(outer) * (last + a.padding) * a.dtype.itemsize


def promoted(
    scop: Scop, unit: Unit, written: AbstractSet[str], budget: int, name: Callable[[str], str]
) -> tuple[Shared, ...]:
    """The reads of a unit to promote, those that are used most first, of at most `budget` bytes; not of the
    buffers `written` in its region."""
    candidates: list[tuple[float, Shared]] = []
    for s in unit.statements:
        statement = scop.statement(s)
        reads = [a for a in statement.accesses if a.kind == "read"]
        for number, a in enumerate(reads):
            if a.buffer in written or not a.subscripts or a.unknown:
                continue
            found = _footprint(scop, unit, s, a)
            if found is None:
                continue
            instances = math.prod(points(x, m) or 1 for x, m in (*unit.axes, *unit.own) if s in x.vars)
            reuse = instances / math.prod(d.size for d in found)
            if reuse < LEAST_REUSE:
                continue
            buffer = scop.program.buffer(a.buffer)
            shape = tuple(IntImm(d.size) for d in found)
            padding = 1 if len(shape) > 1 and found[-1].size % 2 == 0 else 0
            array = Array(name(a.buffer), buffer.dtype, shape, "shared", padding=padding)
            candidates.append((reuse, Shared(s, number, buffer, array, found)))
    out: list[Shared] = []
    for _, x in sorted(candidates, key=lambda c: -c[0]):
        same = next((y for y in out if (y.buffer, y.dimensions) == (x.buffer, x.dimensions)), None)
        if same is not None:  # the same elements in the same place
            out.append(Shared(x.statement, x.read, x.buffer, same.array, x.dimensions))
        elif x.bytes <= budget:
            out.append(x)
            budget -= x.bytes
    return tuple(out)


def _footprint(scop: Scop, unit: Unit, statement: str, a: Access) -> tuple[Dimension, ...] | None:
    axes = {x.vars[statement]: (x, m) for x, m in (*unit.axes, *unit.own) if statement in x.vars}
    if a.read is not None and a.read.call.checked:
        return None
    out: list[Dimension] = []
    for e in a.subscripts:
        terms, constant = linear_terms(inline_lets(e))
        size, inside = 1, list[tuple[str, int]]()
        low: int | None = 0
        high: int | None = 0
        for t, k in terms.items():
            if not isinstance(t, Variable) or t.name not in axes:
                return None
            axis, m = axes[t.name]
            n = points(axis, m)
            if n is None or axis.first is not None:
                return None
            size += abs(k) * (n - 1)
            constant += k * axis.min + min(0, k * (n - 1))
            inside.append((axis.name, k))
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
    for name, k in d.terms:
        axis, m = by_name[name]
        n = points(axis, m)
        assert n is not None
        point = t.point(axis)
        inside = f"(({point}) mod {m.tile})" if m.tile and n == m.tile else point
        parts.append(f"{k} * {inside}" if k > 0 else f"{-k} * ({n - 1} - {inside})")
    return " + ".join(parts)


def copy(x: Shared, starts: Mapping[str, Expr], threads: Sequence[tuple[str, int]], name: str) -> Stmt:
    """The copy of a footprint by all threads of a block; `starts` are the first points of tiles, by axis."""
    shape = [d.size for d in x.dimensions]
    total = math.prod(shape)
    thread: Expr = IntImm(0)
    count = 1
    for v, n in threads:
        thread = Add(thread, Mul(Variable(v), IntImm(count))) if count > 1 else Add(thread, Variable(v))
        count *= n
    loop = Variable(name)
    element: list[Expr] = []
    rest: Expr = loop
    for i, n in reversed(list(enumerate(shape))):
        element.insert(0, FloorMod(rest, IntImm(n)) if i else rest)
        rest = FloorDiv(rest, IntImm(n))
    source: list[Expr] = []
    tests: list[Expr] = []
    for d, inside, r in zip(x.dimensions, element, x.buffer.box, strict=True):
        terms = (Mul(IntImm(k), starts[axis]) for axis, k in d.terms if axis in starts)
        lower = simplify(reduce(Add, terms, Sub(IntImm(d.constant), r.min)), exact=True)
        at = simplify(Add(lower, inside), exact=True)
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
    body = Compute("", x.array.name, tuple(simplify(e, exact=True) for e in element), None, value, (), "")
    return For(name, simplify(thread, exact=True), IntImm(total), count, LoopKind.SERIAL, body)
