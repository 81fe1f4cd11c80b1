"""Rows in lanes, where the iterations along a row depend on each other and those of different rows do not.

    for n                              for n by L
      for d                              for d by C
        y[n, d] = y[n, d - 1] + …   →      x' = x[n : n + L, d : d + C], transposed in registers
                                           unrolled for c in [0, C)
                                             carried = carried + x'[c]      in L lanes, a row in each
                                             y'[c] = carried
                                           y[n : n + L, d : d + C] = y', transposed

Memory is accessed along rows, and an operation computes elements of L rows.  The transposition of L vectors
takes log2(L) shuffles for each, which is less than a load or a store for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.ir.expr import (
    LE,
    LT,
    ZERO,
    Add,
    Expr,
    IntImm,
    Load,
    Min,
    Sub,
    Variable,
    constant,
    substitute,
    variables,
    walk,
)
from tc.ir.loops import Array, Block, Compute, For, If, LoopKind, Promote, Stmt, flattened, statements
from tc.ir.simplify import linear_terms, simplify
from tc.transforms.loops.carried import always, in_registers, same
from tc.transforms.loops.interleaved_rows import chain
from tc.transforms.loops.substituted import substituted

_LEAST = 4  # lanes of a vector
_FEW = 2  # rows
_LONG = 4  # dependent operations of an iteration, beyond which several groups of lanes are computed together
_GROUPS = (4, 2)
_DEPTH = 3  # iterations before, of which registers hold the elements
_ELEMENTS = (4, 8)  # bytes of an element that can be transposed
_BLOCKS = 8  # blocks of rows and columns that are in registers together, at most


@dataclass(slots=True)
class RowsInLanes:
    """`lanes` gives the elements of a vector by the bytes of one; `arrays` are those of the nest, `added` the
    registers of the rows in lanes."""

    lanes: Callable[[int], int]
    arrays: Mapping[str, Array]
    added: list[Array] = field(default_factory=list[Array])

    def together(self, rows: For) -> tuple[int, int]:
        """How many rows are computed in the lanes of a vector, and how many together; 0 where none are."""
        found = self._plan(rows)
        return (0, 0) if found is None else (found.lanes, found.together)

    def of(self, rows: For, groups: Sequence[int] = _GROUPS) -> Stmt | None:
        """Rows that share no elements, in lanes; None where that is not possible.  Where an iteration waits
        long for the one before, one of these numbers of groups of lanes is computed together."""
        found = self._plan(rows, groups)
        if found is None:
            return None
        return _Writer(found, rows, self._register, lambda fewer: self.of(fewer, ())).rows()

    def used(self, s: Stmt) -> tuple[Array, ...]:
        """The registers of a statement."""
        names = {b for x in statements(s) if isinstance(x, Promote) for b in x.buffers}
        return tuple(a for a in self.added if a.name in names)

    def _register(self, of: str, shape: Sequence[int]) -> str:
        name = f"{of}.lanes{len(self.added)}"
        extents = tuple(map(IntImm, shape))
        self.added.append(Array(name, self.arrays[of].dtype, extents, "register", ZERO))
        return name

    def _plan(self, rows: For, most: Sequence[int] = _GROUPS) -> _Plan | None:
        loop = rows.body
        if not isinstance(loop, For) or rows.var in variables(loop.lower) | variables(loop.upper):
            return None
        if any(x.kind is not LoopKind.SERIAL or x.step != 1 for x in (rows, loop)):
            return None
        body = tuple(s for s in flattened(loop.body) if isinstance(s, Compute))
        if len(body) != len(tuple(flattened(loop.body))) or len({s.buffer for s in body}) != len(body):
            return None
        if not all(s.op is None and s.width == 1 and _along(rows, loop, s.subscripts) for s in body):
            return None
        found = _Plan(loop, body)
        reads = found.reads(rows)
        if reads is None or not found.depths:
            return None
        types = [self.arrays[x.buffer].dtype for x in (*body, *reads)]
        if any(t.is_half or t.is_bool or t.itemsize not in _ELEMENTS for t in types):
            return None
        columns = min(self.lanes(t.itemsize) for t in types)
        if columns < _LEAST or len(types) > _BLOCKS:
            return None
        trips = _trips(rows)
        lanes = columns if trips is None else min(columns, trips)
        if lanes < _FEW:
            return None
        long = max(chain(body[i].value, body[i].buffer) for i in found.depths) > _LONG
        buffers = (self.arrays[x.buffer] for x in (*body, *reads))
        strides = all(isinstance(n, IntImm) for a in buffers for n in a.shape[1:])
        groups = (g for g in most if long and (trips is None or trips >= g * lanes))
        return replace(
            found,
            blocks=reads,
            lanes=lanes,
            columns=columns,
            groups=next(groups, 1),
            long=long,
            constant=strides,
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A loop along rows with its statements; `blocks` are the reads along rows.  The rows of several `groups`
    of lanes are computed together, and so many `columns` at a time.  `long`: an iteration waits for many
    operations of the one before.  `constant`: rows are a constant number of elements apart, so that lanes can
    be stored to different rows."""

    loop: For
    body: tuple[Compute, ...]
    blocks: tuple[Load, ...] = ()
    lanes: int = 0
    columns: int = 0
    groups: int = 1
    long: bool = False
    constant: bool = True

    @property
    def together(self) -> int:
        """Rows."""
        return self.lanes * self.groups

    @property
    def depths(self) -> Mapping[int, int]:
        """Of each statement whose elements later iterations read, by how many iterations later at most."""
        found: dict[int, int] = {}
        for i in range(len(self.body)):
            for j, distance in self.known(i).values():
                if distance:
                    found[j] = max(distance, found.get(j, 0))
        return dict(sorted(found.items()))

    def reads(self, rows: For) -> tuple[Load, ...] | None:
        """The reads that go along rows; None if there are others that lanes cannot do."""
        found: dict[Load, None] = {}
        for i, s in enumerate(self.body):
            executed = {id(e) for e in always(s.value)}
            known = self.known(i)
            for e in walk(s.value):
                if not isinstance(e, Load) or known.get(e, (0, 1))[1] == 0:
                    continue
                if e.checked or any(isinstance(x, Load) for y in e.subscripts for x in walk(y)):
                    return None
                exists = e.inside or id(e) in executed
                if e in known:
                    if not exists:
                        return None
                    continue
                writer = next((o for o in self.body if o.buffer == e.buffer), None)
                if writer is not None and not same(e.subscripts, writer.subscripts):
                    return None
                used = {v for x in e.subscripts for v in variables(x)}
                if writer is None and not {rows.var, self.loop.var} <= used:
                    continue  # the same in all lanes, or in all columns
                if writer is None and _along(self.loop, rows, e.subscripts):
                    continue  # lanes are neighbours
                if not _along(rows, self.loop, e.subscripts) or not exists:
                    return None
                found[e] = None
        return tuple(found)

    def known(self, at: int) -> Mapping[Load, tuple[int, int]]:
        """The reads of a statement that find in a register what a statement has stored: its number, and how
        many iterations before."""
        found: dict[Load, tuple[int, int]] = {}
        for e in walk(self.body[at].value):
            if isinstance(e, Load):
                for j, s in enumerate(self.body):
                    if e.buffer == s.buffer:
                        for distance in range(int(j >= at), _DEPTH + 1):
                            if same(e.subscripts, self.before(s, distance)):
                                found[e] = j, distance
        return found

    def before(self, s: Compute, distance: int) -> tuple[Expr, ...]:
        """The subscripts of a statement so many iterations before."""
        at: dict[str, Expr] = {self.loop.var: Sub(Variable(self.loop.var), IntImm(distance))}
        return tuple(simplify(substitute(x, at), exact=True) for x in s.subscripts)


def _along(rows: For, loop: For, subscripts: Sequence[Expr]) -> int:
    """1 if the iterations of a loop access elements of a row one after the other, -1 if they do so backwards,
    and those of `rows` access different rows; else 0."""
    outer = [linear_terms(x)[0] for x in subscripts[:-1]]
    last = linear_terms(subscripts[-1])[0] if subscripts else {}
    row, column = Variable(rows.var), Variable(loop.var)
    step = last.get(column, 0)
    if step not in (1, -1) or any(rows.var in variables(t) for t in last):
        return 0
    if any(loop.var in variables(t) for t in (*(t for x in outer for t in x), *(last.keys() - {column}))):
        return 0
    others = any(rows.var in variables(t) for x in outer for t in x.keys() - {row})
    return step if any(x.get(row) for x in outer) and not others else 0


@dataclass(slots=True)
class _Writer:
    """`register` makes a register array for elements of an array, of a shape; `fewer` computes rows in lanes
    of a single group."""

    plan: _Plan
    all: For
    register: Callable[[str, Sequence[int]], str]
    fewer: Callable[[For], Stmt | None]

    @property
    def lane(self) -> Expr:
        return Variable(f"{self.all.var}_l")

    @property
    def column(self) -> Expr:
        """Within a block."""
        return Variable(f"{self.plan.loop.var}_k")

    def rows(self) -> Stmt:
        """As many rows at a time as there are lanes in all groups."""
        rows, count, trips, row = self.all, self.plan.together, _trips(self.all), Variable(self.all.var)
        whole = self.together()
        if trips is not None and trips % count == 0:
            return replace(rows, step=count, body=whole)
        last = _exact(Min(Add(row, IntImm(count)), rows.upper))
        enough = LE(Add(row, IntImm(count)), rows.upper)
        return replace(rows, step=count, body=If(enough, whole, self.rest(row, last)))

    def rest(self, first: Expr, last: Expr) -> Stmt:
        """Fewer rows: those of one group at a time, then single ones, or lanes of which some are idle."""
        plan, one = self.plan, f"{self.all.var}_r"
        if plan.long and plan.constant and plan.groups == 1:
            group = _Group(first, {})
            steps = (self.in_lanes(group, s, Variable(plan.loop.var)) for s in plan.body)
            some = (replace(s, upper=_exact(Sub(last, first)), lanes=plan.lanes) for s in steps)
            return replace(plan.loop, body=Block(tuple(some)))
        each = substituted(plan.loop, {self.all.var: Variable(one)})
        rest = For(one, first, last, 1, LoopKind.SERIAL, each)
        return rest if plan.groups == 1 else self.fewer(rest) or rest

    def together(self) -> Stmt:
        plan, loop = self.plan, self.plan.loop
        groups = tuple(self.group(g) for g in range(plan.groups))
        parts: list[Stmt] = []
        for g in groups:
            for i, registers in g.carried.items():
                for distance, register in enumerate(registers, 1):
                    s = plan.body[i]
                    value = Load(s.buffer, plan.before(s, distance), s.value.dtype)
                    first = replace(s, stage=f"{s.stage}.first", value=value)
                    parts.append(self.in_lanes(g, _into(first, register, (self.lane,)), loop.lower))
        trips, start, count = _trips(loop), Variable(loop.var), plan.columns
        if trips is None:
            last = _exact(Min(Add(start, IntImm(count)), loop.upper))
            rest = self.columns_left(groups, start, last)
            enough = LE(Add(start, IntImm(count)), loop.upper)
            body: Stmt = If(enough, self.block(groups, start, count), rest)
            parts.append(replace(loop, step=count, body=body))
        else:
            whole, left = trips - trips % count, trips % count
            middle = _exact(Add(loop.lower, IntImm(whole)))
            if whole:
                body = self.block(groups, start, count)
                parts.append(replace(loop, upper=middle, step=count, body=body))
            if left:
                one = left == 1
                parts.append(
                    self.columns_left(groups, middle, loop.upper) if one else self.block(groups, middle, left)
                )
        names = frozenset(r for g in groups for registers in g.carried.values() for r in registers)
        promoted = Promote(names, names, Block(tuple(parts)))
        some = simplify(LT(loop.lower, loop.upper), exact=True)
        return promoted if constant(some) else If(some, promoted)

    def group(self, number: int) -> _Group:
        row = Add(Variable(self.all.var), IntImm(number * self.plan.lanes))
        size = (self.plan.lanes,)
        carried = {
            i: tuple(self.register(self.plan.body[i].buffer, size) for _ in range(depth))
            for i, depth in self.plan.depths.items()
        }
        return _Group(row, carried)

    def block(self, groups: Sequence[_Group], start: Expr, columns: int) -> Stmt:
        """So many columns of the rows, from `start` on: reads along rows are transposed before, and what was
        stored is transposed after it."""
        size = columns, self.plan.lanes
        reads: list[Stmt] = []
        steps: list[Stmt] = []
        stores: list[Stmt] = []
        names: list[str] = []
        for g in groups:
            inputs = {e: self.register(e.buffer, size) for e in self.plan.blocks}
            outputs = [self.register(s.buffer, size) for s in self.plan.body]
            names += (*inputs.values(), *outputs)
            reads += self.reads(g, inputs, start, columns)
            steps += self.steps(g, inputs, outputs, Add(start, self.column), (self.column, self.lane))
            stores += self.stores(g, outputs, start, columns)
        unrolled = self.columns(columns, LoopKind.UNROLLED, Block(tuple(steps)))
        return Promote(frozenset(names), frozenset(names), Block((*reads, unrolled, *stores)))

    def reads(self, g: _Group, inputs: Mapping[Load, str], start: Expr, columns: int) -> Iterator[Stmt]:
        origin = self.plan.body[0]
        for e, register in inputs.items():
            read = replace(origin, stage=f"{origin.stage}.read", value=e)
            at = self.in_row(e.subscripts, columns)
            row = self.in_lanes(g, _into(read, register, (at, self.lane)), Add(start, at))
            yield self.columns(columns, LoopKind.TRANSPOSED, row)

    def in_row(self, subscripts: Sequence[Expr], columns: int) -> Expr:
        """The column of a block for which an element is accessed, in the order of the elements in memory."""
        forwards = _along(self.all, self.plan.loop, subscripts) > 0
        return self.column if forwards else _exact(Sub(IntImm(columns - 1), self.column))

    def steps(
        self,
        g: _Group,
        inputs: Mapping[Load, str],
        outputs: Sequence[str],
        column: Expr,
        place: tuple[Expr, ...],
    ) -> Iterator[Stmt]:
        """An iteration; `place` is that of its elements in the registers of inputs and outputs."""
        for i, s in enumerate(self.plan.body):
            known = {e: Load(r, place, e.dtype) for e, r in inputs.items()}
            for e, (j, distance) in self.plan.known(i).items():
                register = g.carried[j][distance - 1] if distance else outputs[j]
                known[e] = Load(register, (self.lane,) if distance else place, e.dtype)
            computed = replace(s, value=in_registers(s.value, known))
            yield self.in_lanes(g, _into(computed, outputs[i], place), column)
        for i, registers in g.carried.items():
            s = self.plan.body[i]
            older = [(r, (self.lane,)) for r in registers[:-1]]
            for register, (value, at) in reversed([*zip(registers, [(outputs[i], place), *older])]):
                moved = replace(s, stage=f"{s.stage}.keep", value=Load(value, at, s.value.dtype))
                yield self.in_lanes(g, _into(moved, register, (self.lane,)), column)

    def stores(self, g: _Group, outputs: Sequence[str], start: Expr, columns: int) -> Iterator[Stmt]:
        for s, register in zip(self.plan.body, outputs, strict=True):
            at = self.in_row(s.subscripts, columns)
            store = replace(s, stage=f"{s.stage}.store", value=Load(register, (at, self.lane), s.value.dtype))
            row = self.columns(columns, LoopKind.VECTOR, self.placed(g, store, Add(start, at)))
            yield self.each_lane(LoopKind.TRANSPOSED, row)

    def column_left(self, groups: Sequence[_Group], column: Expr) -> Stmt:
        """A single column of the rows, of which each lane accesses its element in memory."""
        parts: list[Stmt] = []
        names: list[str] = []
        for g in groups:
            outputs = [self.register(s.buffer, (self.plan.lanes,)) for s in self.plan.body]
            names += outputs
            parts += self.steps(g, {}, outputs, column, (self.lane,))
            for s, register in zip(self.plan.body, outputs, strict=True):
                value = Load(register, (self.lane,), s.value.dtype)
                parts.append(self.in_lanes(g, replace(s, stage=f"{s.stage}.store", value=value), column))
        return Promote(frozenset(names), frozenset(names), Block(tuple(parts)))

    def columns_left(self, groups: Sequence[_Group], first: Expr, last: Expr) -> Stmt:
        """Columns that are no block."""
        loop = self.plan.loop
        column, one = f"{loop.var}_e", f"{self.all.var}_e"
        left = replace(loop, var=column, lower=first, upper=last)
        if self.plan.constant:
            return replace(left, body=self.column_left(groups, Variable(column)))
        place: dict[str, Expr] = {self.all.var: Variable(one), loop.var: Variable(column)}
        row = Variable(self.all.var)
        after = _exact(Add(row, IntImm(self.plan.together)))
        body = substituted(loop.body, place)
        return For(one, row, after, 1, LoopKind.SERIAL, replace(left, body=body))

    def columns(self, count: int, kind: LoopKind, body: Stmt) -> For:
        return For(f"{self.plan.loop.var}_k", ZERO, IntImm(count), 1, kind, body)

    def each_lane(self, kind: LoopKind, body: Stmt) -> For:
        return For(f"{self.all.var}_l", ZERO, IntImm(self.plan.lanes), 1, kind, body)

    def in_lanes(self, g: _Group, s: Compute, column: Expr) -> For:
        return self.each_lane(LoopKind.VECTOR, self.placed(g, s, column))

    def placed(self, g: _Group, s: Compute, column: Expr) -> Stmt:
        return substituted(s, {self.all.var: Add(g.row, self.lane), self.plan.loop.var: column})


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of which each is in a lane, from `row` on, and by statement the registers of what the iterations
    before have stored, the last one first."""

    row: Expr
    carried: Mapping[int, tuple[str, ...]]


def _into(s: Compute, register: str, at: tuple[Expr, ...]) -> Compute:
    return replace(s, buffer=register, subscripts=at)


def _trips(loop: For) -> int | None:
    found = constant(_exact(Sub(loop.upper, loop.lower)))
    return None if found is None else int(found)


def _exact(e: Expr) -> Expr:
    return simplify(e, exact=True)
