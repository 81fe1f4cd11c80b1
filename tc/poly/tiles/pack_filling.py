"""The loops that fill packs: row by row, in blocks of lanes, transposed in registers where lanes are rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.dtypes import DType
from tc.ir.expr import (
    GT,
    ZERO,
    Add,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Min,
    Mul,
    Sub,
    Variable,
    substitute,
    variables,
)
from tc.ir.loops import Compute, For, If, LoopKind, Stmt
from tc.ir.simplify import linear_terms, simplify
from tc.poly.tile_plan import Axis, Dot, Nest, Pack, Phase, Tiling
from tc.poly.tiles.builder import (
    Builder,
    Span,
    axis_span,
    block,
    contiguous,
    loads,
    named,
    points_of,
    vector_loops,
)
from tc.poly.tiles.dots import shift, shifted
from tc.poly.tiles.dynamic import vectors
from tc.poly.tiles.packs import Packed, packed_types

_ROWS = 16  # rows transposed in registers at a time
_STEP = 8  # rows copied at a time, in blocks of few points
_NEAR = 16 << 10  # bytes of a pack, about, that stay in the first cache until their lines are complete


def fill_packs(
    builder: Builder,
    n: Nest,
    t: Tiling,
    spans: Mapping[str, Span],
    cut: Mapping[str, Span],
    chunk: str | None,
) -> tuple[dict[Pack, Packed], list[Stmt]]:
    """The packs of a cache tile, and the loops that fill them; `cut` are the blocks of phases' axes."""
    made: dict[Pack, Packed] = {}
    copies: list[Stmt] = []
    for p in t.packs:
        phase = next((x for x in n.phases if p.statement in x.statements), None)
        if phase is not None:
            whole = {a.name: axis_span(a) for a in phase.axes}
            filler = _Filler(builder, n, t, phase, p, {**whole, **spans, **cut})
            packed = filler.packed(chunk)
            fills = [filler.copy(packed)]
            dot = filler.dot
            if dot is not None and dot.shift:
                found = shift(builder, n, phase, dot, filler.spans, chunk)
                fills.append(found.fill)
                packed = replace(packed, shift=found)
            copies.append(filler.where_read(block(fills)))
            made[p] = packed
    return made, copies


@dataclass(slots=True)
class _Filler:
    """Emits the loops that fill one pack."""

    builder: Builder
    nest: Nest
    tiling: Tiling
    phase: Phase
    pack: Pack
    spans: Mapping[str, Span]

    @property
    def read(self) -> Load:
        return loads(self.builder.bodies[self.pack.statement])[self.pack.read]

    @property
    def dtype(self) -> DType:
        """The type of the elements of a pack that is not for dot products."""
        return packed_types(self.builder.bodies[self.pack.statement])[self.pack.read]

    @property
    def axes(self) -> list[Axis]:
        """The axes on which the subscripts of the read depend."""
        names = {v for e in self.read.subscripts for v in variables(e)}
        return [a for a in (*self.nest.axes, *self.phase.axes) if a.vars.get(self.pack.statement) in names]

    @property
    def dot(self) -> Dot | None:
        """The dot product whose packed factor this is."""
        found = self.tiling.phases[self.nest.phases.index(self.phase)].dot
        return found if found is not None and (found.statement, found.packed) == (
            self.pack.statement, self.pack.read
        ) else None  # fmt: skip

    def where_read(self, fill: Stmt) -> Stmt:
        """`fill`, unless no instance reads the pack: a loop of dynamic trip count may have no iterations, and
        then the source need not have the elements."""
        moving = {a.name for a in self.axes}
        for a in (*self.nest.axes, *self.phase.axes):
            if self.pack.statement in a.vars and a.size is not None and a.name not in moving:
                fill = If(GT(a.points, ZERO), fill)
        return fill

    @property
    def vector(self) -> Axis:
        """The vector axis, or the axis along which the read is contiguous if it does not depend on that."""
        found = (a for a in self.axes if a.name in self.tiling.tiles and self.lanes(a) > 1)
        axis = next(found, None) or contiguous(self.read, self.axes, self.pack.statement)
        assert axis is not None
        return axis

    def lanes(self, a: Axis) -> int:
        return self.tiling.tiles[a.name].lanes

    def packed(self, chunk: str | None) -> Packed:
        vector, read = self.vector, self.read
        width = self.tiling.tiles[vector.name].register  # whole vectors, so that none wraps around
        others = [a for a in self.axes if a is not vector]
        blocks = -(-self.spans[vector.name].bound // width)
        shape = (blocks, *(self.spans[a.name].bound for a in others), width)
        name = f"{read.buffer}.{self.pack.statement}.{self.pack.read}"
        names = tuple(a.name for a in others)
        dot = self.dot
        if dot is None:
            array = self.builder.private(name, self.dtype, shape, chunk)
            return Packed(array, read, names, vector.name, width)
        group = self.phase.axes[-1].name
        places = (-(-n // dot.size) if a == group else n for a, n in zip(names, shape[1:-1], strict=True))
        array = self.builder.private(name, dot.dtype, (blocks, *places, width, dot.size), chunk)
        return Packed(array, read, names, vector.name, width, group, dot.size)

    def copy(self, p: Packed) -> Stmt:
        """Fill all blocks of lanes; the last one of the last cache tile may be shorter."""
        vector, span = self.vector, self.spans[p.vector]
        if span.points is not None:
            return self.dynamic_copy(p, span.points)
        whole, left = divmod(span.extent, p.width)
        var = self.builder.name(vector.name)
        count: Expr = IntImm(whole)
        if not span.whole:
            count = Min(count, FloorDiv(Sub(IntImm(vector.typical_extent), span.origin), IntImm(p.width)))
        parts: list[Stmt] = []
        if whole:
            parts.append(self.blocks(p, var, count, whole))
        short = left if span.whole else span.rest % p.width
        if short:
            number = IntImm((span.extent if span.whole else span.rest) // p.width)
            last = self.block(p, number, short)
            parts.append(last if span.last is None or span.whole else If(span.last, last))
        return block(parts)

    def dynamic_copy(self, p: Packed, points: Expr) -> Stmt:
        """Fill a dynamic number of blocks of lanes, and the remainder."""
        builder, width = self.builder, p.width
        var, number, left = builder.name(p.vector), builder.name("whole"), builder.name("left")
        whole = self.blocks(p, var, Variable(number), 2)
        rest = self.block(p, Variable(number), Variable(left))
        rest = named(left, Sub(points, Mul(Variable(number), IntImm(width))), rest)
        return named(number, FloorDiv(points, IntImm(width)), block([whole, rest]))

    def blocks(self, p: Packed, var: str, count: Expr, most: int) -> Stmt:
        """Fill the first `count` blocks of lanes, at most `most`."""

        def each(s: Stmt) -> Stmt:
            return For(var, ZERO, count, 1, LoopKind.SERIAL, s)

        if most > 1 and self.lanes(self.vector) == 1:
            return self.in_steps(p, var, each)
        if most > 1 and p.group is None and self.along(p) is None:
            # Read contiguous elements together, though they go to blocks far apart: a row of a large array is
            # a page, and the hardware prefetcher follows it.
            return self.block(p, Variable(var), p.width, each)
        return each(self.block(p, Variable(var), p.width))

    def in_steps(self, p: Packed, var: str, each: Callable[[Stmt], Stmt]) -> Stmt:
        """Fill blocks that are narrower than a line, some rows of each at a time, so that lines of the pack
        are complete before they are evicted."""
        builder = self.builder
        *others, last = (a for a in self.axes if a is not self.vector)
        names = {a.name: builder.name(a.name) for a in (*others, last)}
        at: dict[str, Expr] = {a: Variable(n) for a, n in names.items()}
        lane, name = builder.name(p.vector), names[last.name]
        at[p.vector] = simplify(Add(Mul(Variable(var), IntImm(p.width)), Variable(lane)), exact=True)
        piece = self.pieces(lane, p.width, self.element(p, Variable(var), lane, at))
        whole, rest = divmod(self.extent(last), _STEP)
        parts: list[Stmt] = []
        for count, points in ((whole, _STEP), (1 if rest else 0, rest)):
            if count:
                step = builder.name(last.name)
                first: Expr = Mul(Variable(step), IntImm(_STEP)) if points == _STEP else IntImm(whole * _STEP)
                s = each(For(name, first, Add(first, IntImm(points)), 1, LoopKind.UNROLLED, piece))
                parts.append(For(step, ZERO, IntImm(count), 1, LoopKind.SERIAL, s) if points == _STEP else s)
        s = block(parts)
        for a in reversed(others):
            s = For(names[a.name], ZERO, self.points(a), 1, LoopKind.SERIAL, s)
        return s

    def along(self, p: Packed) -> Axis | None:
        """The axis along which the source is contiguous, if it is not the vector axis."""
        found = contiguous(p.read, self.axes, self.pack.statement)
        return None if found is self.vector else found

    def block(
        self, p: Packed, number: Expr, lanes: int | Expr, each: Callable[[Stmt], Stmt] | None = None
    ) -> Stmt:
        """Fill one block of `lanes` lanes: in vectors if the source is contiguous along the lanes, else by
        transposition of rows in registers.  `each` puts a loop around the lanes."""
        builder, vector = self.builder, self.vector
        others = [a for a in self.axes if a is not vector]
        names = {a.name: builder.name(a.name) for a in others}
        lane = builder.name(vector.name)
        offset = simplify(Add(Mul(number, IntImm(p.width)), Variable(lane)), exact=True)
        along = self.along(p)
        at: dict[str, Expr] = {a: Variable(n) for a, n in names.items()}
        row = [along] if along is not None else []
        if along is not None and p.group is None and isinstance(lanes, int):
            row = self.row(along, others)
            at |= self.places(row, at[along.name])
        copy = self.element(p, number, lane, {**at, p.vector: offset})
        if p.group is not None:
            assert isinstance(lanes, int)
            s = self.grouped(p, number, lane, lanes, names, along)
        elif not isinstance(lanes, int):
            if along is None:
                s = vectors(builder, lane, lanes, self.lanes(vector), copy)
            else:
                s = For(lane, ZERO, lanes, 1, LoopKind.SERIAL, copy)
                s = For(names[along.name], ZERO, self.points(along), 1, LoopKind.SERIAL, s)
        elif along is None and self.lanes(vector) == 1:
            s = self.pieces(lane, lanes, copy)
        elif along is None:
            s = vector_loops(lane, lanes, self.lanes(vector), builder.name, copy)
        else:
            span, name = self.spans[row[0].name], names[along.name]
            inside = math.prod(self.extent(a) for a in row[1:])

            def turned(count: Expr) -> Stmt:
                count = simplify(Mul(count, IntImm(inside)), exact=True)
                return self.transposed(name, count, lane, lanes, copy)

            s = turned(span.count)
            if not span.whole:
                assert span.last is not None
                s = If(span.last, turned(IntImm(span.rest)), s)
        if each is not None:
            s = each(s)
        for a in reversed(others):
            if a.name != p.group if p.group is not None else a not in row:
                s = For(names[a.name], ZERO, self.points(a), 1, LoopKind.SERIAL, s)
        return s

    def pieces(self, lane: str, count: int, copy: Stmt) -> Stmt:
        """Copy contiguous elements in vectors of powers of two, none wider than a register or masked."""
        parts: list[Stmt] = []
        first, most = 0, max(t.lanes for t in self.tiling.tiles.values())
        while first < count:
            width = min(most, 1 << ((count - first).bit_length() - 1))
            parts.append(For(lane, IntImm(first), IntImm(first + width), 1, LoopKind.VECTOR, copy))
            first += width
        return block(parts)

    def row(self, along: Axis, others: Sequence[Axis]) -> list[Axis]:
        """The axis along which the source is contiguous, preceded by the outer axes that continue it without
        a gap, in the source and in the pack: together they are one row."""
        row = [along]
        if others[-1] is not along:
            return row

        def alone(a: Axis, subscript: Expr) -> bool:
            return linear_terms(subscript)[0] == {Variable(a.vars[self.pack.statement]): 1}

        box = self.builder.boxes[self.read.buffer]
        places = list(zip(reversed(others), reversed(self.read.subscripts), reversed(box), strict=False))
        for (inner, at, dimension), (outer, around, _) in itertools.pairwise(places):
            span = self.spans[inner.name]
            full = span.whole and span.count == dimension.extent and alone(inner, at)
            if not full or not alone(outer, around) or self.spans[outer.name].points is not None:
                break
            row.insert(0, outer)
        return row

    def extent(self, a: Axis) -> int:
        count = self.spans[a.name].count
        assert isinstance(count, IntImm)
        return count.value

    def places(self, row: Sequence[Axis], at: Expr) -> dict[str, Expr]:
        """The offsets along the axes of a row, from the offset `at` in the row."""
        out: dict[str, Expr] = {}
        for a in reversed(row[1:]):
            extent = IntImm(self.extent(a))
            out[a.name], at = FloorMod(at, extent), FloorDiv(at, extent)
        return {**out, row[0].name: at}

    def grouped(
        self, p: Packed, number: Expr, lane: str, lanes: int, names: Mapping[str, str], along: Axis | None
    ) -> Stmt:
        """Fill one block of lanes of a pack for dot products, a group of points at a time: rows are
        interleaved, or, where groups are contiguous in the source, transposed as if they were elements."""
        assert p.group is not None
        group, inside = self.builder.name(p.group), self.builder.name(p.group)
        span = self.spans[p.group]
        whole, rest = divmod(span.extent, p.size)
        at: dict[str, Expr] = {a: Variable(n) for a, n in names.items()}
        at[p.vector] = simplify(Add(Mul(number, IntImm(p.width)), Variable(lane)), exact=True)

        def copy(number_of_group: Expr, points: int) -> Stmt:
            point = simplify(Add(Mul(number_of_group, IntImm(p.size)), Variable(inside)), exact=True)
            s = self.element(p, number, lane, {**at, p.group or "": point})
            return For(inside, ZERO, IntImm(points), 1, LoopKind.DOT, s)

        width = self.lanes(self.vector)
        parts: list[Stmt] = []
        if whole:
            s = copy(Variable(group), p.size)
            if along is not None and along.name == p.group:
                parts.append(self.transposed(group, IntImm(whole), lane, lanes, s))
            else:
                s = vector_loops(lane, lanes, width, self.builder.name, s)
                parts.append(For(group, ZERO, IntImm(whole), 1, LoopKind.SERIAL, s))
        if rest:
            parts.append(vector_loops(lane, lanes, width, self.builder.name, copy(IntImm(whole), rest)))
        return block(parts)

    def points(self, a: Axis) -> Expr:
        return points_of(a, self.spans[a.name])

    def element(self, p: Packed, number: Expr, lane: str, inside: Mapping[str, Expr]) -> Stmt:
        """`pack[block, …, lane] = source[…]` at these offsets in the cache tile."""
        statement = self.pack.statement
        stage = self.builder.stages[statement]
        point = {
            a.vars[statement]: simplify(
                Add(Add(a.low, self.spans[a.name].origin), inside[a.name]), exact=True
            )
            for a in self.axes
        }
        source = tuple(simplify(substitute(e, dict(point)), exact=True) for e in p.read.subscripts)
        target = tuple(simplify(e, exact=True) for e in p.subscripts(number, Variable(lane), inside))
        where = tuple(point.get(v, ZERO) for v in stage.domain.names)
        value: Expr = replace(p.read, subscripts=source)
        if self.dot is not None:
            value = shifted(value, self.dot)
        elif p.converted:
            value = Cast(p.array.dtype, value)
        text = f"pack {p.read.buffer}"
        return Compute(f"{statement}.pack", p.array.name, target, None, value, where, text)

    def transposed(self, row: str, count: Expr, lane: str, lanes: int, copy: Stmt) -> Stmt:
        """Transpose blocks of a few rows of the source, each a vector, to as many vectors of lanes."""
        width = min(self.lanes(self.vector), self.pack.rows or lanes)
        size = self.dtype.itemsize
        if not isinstance(count, IntImm):
            return self.dynamic_transposed(row, count, lane, lanes, copy)
        rows = count.value
        whole, left = divmod(rows, _ROWS)

        def columns(copy: Stmt, around: Callable[[Stmt], Stmt]) -> Stmt:
            """All rows, in steps of several whole blocks."""
            parts: list[Stmt] = []
            if whole:
                step = self.builder.name(row.split(".")[0])
                low = Mul(Variable(step), IntImm(_ROWS))
                turned = For(row, low, Add(low, IntImm(_ROWS)), 1, LoopKind.TRANSPOSED, copy)
                each = max(1, _NEAR // (_ROWS * self.tiling.tiles[self.vector.name].register * size))
                if each >= whole or lanes == width:
                    parts.append(around(For(step, ZERO, IntImm(whole), 1, LoopKind.SERIAL, turned)))
                else:
                    some = self.builder.name(row.split(".")[0])
                    low = Mul(Variable(some), IntImm(each))
                    most = Min(Add(low, IntImm(each)), IntImm(whole))
                    s = around(For(step, low, most, 1, LoopKind.SERIAL, turned))
                    parts.append(For(some, ZERO, IntImm(-(-whole // each)), 1, LoopKind.SERIAL, s))
            if left:
                last = For(row, IntImm(whole * _ROWS), IntImm(rows), 1, LoopKind.TRANSPOSED, copy)
                parts.append(around(last))
            return block(parts)

        # A loop over whole vectors of lanes limits code size.
        vectors, short = divmod(lanes, width)
        parts: list[Stmt] = []
        if vectors > 1:
            number = self.builder.name(lane.split(".")[0])
            first = Mul(Variable(number), IntImm(width))
            s = For(lane, first, Add(first, IntImm(width)), 1, LoopKind.VECTOR, copy)
            parts.append(columns(s, lambda s: For(number, ZERO, IntImm(vectors), 1, LoopKind.SERIAL, s)))
        elif vectors:
            whole_lanes = For(lane, ZERO, IntImm(width), 1, LoopKind.VECTOR, copy)
            parts.append(columns(whole_lanes, lambda s: s))
        if short:
            at = IntImm(vectors * width)
            parts.append(columns(For(lane, at, IntImm(lanes), 1, LoopKind.VECTOR, copy), lambda s: s))
        return block(parts)

    def dynamic_transposed(self, row: str, rows: Expr, lane: str, lanes: int, copy: Stmt) -> Stmt:
        """As `transposed`, for a dynamic number of rows; the remainder is copied row by row."""
        builder, width = self.builder, self.lanes(self.vector)
        number = builder.name("whole")
        parts: list[Stmt] = []
        for first in range(0, lanes, width):
            columns = For(lane, IntImm(first), IntImm(min(first + width, lanes)), 1, LoopKind.VECTOR, copy)
            step = builder.name(row.split(".")[0])
            low = Mul(Variable(step), IntImm(_ROWS))
            turned = For(row, low, Add(low, IntImm(_ROWS)), 1, LoopKind.TRANSPOSED, columns)
            parts.append(For(step, ZERO, Variable(number), 1, LoopKind.SERIAL, turned))
            low = Mul(Variable(number), IntImm(_ROWS))
            parts.append(For(row, low, rows, 1, LoopKind.SERIAL, columns))
        return named(number, FloorDiv(rows, IntImm(_ROWS)), block(parts))
