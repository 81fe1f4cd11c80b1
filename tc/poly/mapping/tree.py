# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""The mapped schedule tree of a region (report, §5; Figure 3).

    domain
      context     what values the block and thread variables have
        filter    the tiles of a block
          band    tiles
            sequence of units; in an extension node, between them: barriers, transfers, combinations
              band      tiles of the unit's own loops
                sequence of copies to shared memory, barriers (an extension node), the unit
                  filter    the points of a thread
                    band    the points of a thread, one after the other
                      sequence of statements

The tree is written down as text, whole.  One variable stands for each mapped dimension; the code decomposes
the numbers of blocks and threads.  A filter of threads lies below all barriers, so that all threads of a
block get to each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from tc.ir.expr import Expr, FloorMod, IntImm, Load, Mul, Variable, substitute
from tc.ir.loops import Array, Block, Combine, Compute, For, LoopKind, Stmt, Sync
from tc.ir.lower import neutral
from tc.ir.simplify import simplify
from tc.poly.ast import UNROLLED, Inserted, View, zero_based
from tc.poly.context import maps_of, union_set
from tc.poly.mapping import nodes, padding
from tc.poly.mapping.coordinates import Tuple, band, function, of_axes, of_statement, relation, where
from tc.poly.mapping.copies import copy
from tc.poly.mapping.local import Local, local, repeated
from tc.poly.mapping.nodes import Part, Tree
from tc.poly.mapping.padding import padded
from tc.poly.mapping.plan import AxisMap, RegionMap, Unit, several, steps, tiled_axes, units
from tc.poly.mapping.registers import Kept, Parts, index, kept, parts
from tc.poly.mapping.ring import rings
from tc.poly.mapping.shared import LEAST_REUSE, Shared, place, promoted, size_of
from tc.poly.mapping.sync import barriers, threads_of
from tc.poly.plan import Axis, Region
from tc.poly.scop import Scop


@dataclass(frozen=True, slots=True)
class Mapped:
    """The tree of a region; what the statements of its extension nodes are, of their point and views; the
    accesses that go to other arrays; these arrays, and the `common` ones that all threads fill together."""

    schedule: isl.Schedule
    units: tuple[Unit, ...]
    inserted: Mapping[str, Inserted]
    views: Mapping[str, tuple[View, ...]]
    arrays: tuple[Array, ...]
    common: frozenset[str]


def mapped(
    scop: Scop,
    region: Region,
    how: RegionMap,
    name: Callable[[str], str],
    shared: int = 0,
    private: bool = True,
    reuse: float = LEAST_REUSE,
    ahead: bool = False,
) -> Mapped:
    """Map a region; `name` makes new names of arrays, `shared` is what there is of shared memory, in bytes,
    of what is used at least `reuse` times, `private`: whether threads keep what they work on in registers,
    `ahead`: whether there are asynchronous copies, for the next tile while one is worked on.  Use it, and
    the result, inside `isl_context()`."""
    found = units(region, how)
    written = {scop.statement(s).write.buffer for u in found for s in u.statements}
    registers = kept(scop, region, found, name) if private else ()
    results = parts(scop, found, name)
    # Combinations may take an element a thread for each type (tc/codegen/combine.py).
    threads = math.prod(n for _, n in how.threads)
    shared -= threads * sum(t.itemsize for t in {p.array.dtype for p in results.values()})
    shared = max(0, shared)
    temporaries = local(scop, region, found, shared // 2, name)
    shared -= sum(size_of(x.array) for x in temporaries)
    memory: list[tuple[Shared, ...]] = []
    beyond: frozenset[str] = frozenset()
    for u in found:
        here: tuple[Shared, ...] = ()
        if shared and u.own and not u.shared_out:
            here = promoted(scop, u, written, shared, True, reuse, name)
        whole = padded(scop, u, registers, here)
        if here and not whole:
            here = promoted(scop, u, written, shared, False, reuse, name)
        if ahead:
            here = rings(scop, u, here, shared)
        memory.append(here)
        beyond |= whole
        shared -= sum({x.array.name: x.bytes for x in here}.values())
    made = _Builder(scop, region, how, found, registers, results, temporaries, memory, beyond)
    return made.build()


@dataclass(slots=True)
class _Builder:
    """`memory`: of each unit, its reads from shared memory; `beyond`: statements that run at all points of
    tiles (tc/poly/mapping/padding.py)."""

    scop: Scop
    region: Region
    how: RegionMap
    units: tuple[Unit, ...]
    kept: tuple[Kept, ...]
    parts: Mapping[str, Parts]
    local: tuple[Local, ...]
    memory: Sequence[tuple[Shared, ...]]
    beyond: frozenset[str]
    inserted: dict[str, Inserted] = field(default_factory=dict[str, Inserted])
    views: dict[str, tuple[View, ...]] = field(default_factory=dict[str, tuple[View, ...]])

    @property
    def ctx(self) -> isl.Context:
        return self.scop.ctx

    @property
    def variables(self) -> list[str]:
        return [v for v, _ in self.how.threads]

    def tuple(self, unit: Unit, statement: str) -> Tuple:
        return of_statement(self.scop, statement, (a for a, _ in (*unit.axes, *unit.own)))

    def build(self) -> Mapped:
        run = (padding.domain(self.scop, u, s, self.beyond) for u in self.units for s in u.statements)
        domain = union_set(self.ctx, run)
        tree = self.tiles()
        if self.how.blocks or self.how.threads:
            tree = nodes.context(self.context(), tree)
        for u, memory in zip(self.units, self.memory, strict=True):
            self.views |= {s: self.statement_views(u, s, memory) for s in u.statements}
        shared = {x.array.name: x.array for memory in self.memory for x in memory}
        common = frozenset((*shared, *(p.array.name for p in self.parts.values())))
        shared |= {x.array.name: x.array for x in self.local}
        registers = (*(k.array for k in self.kept), *(p.array for p in self.parts.values()))
        arrays = (*shared.values(), *registers)
        return Mapped(nodes.schedule(domain, tree), self.units, self.inserted, self.views, arrays, common)

    def context(self) -> isl.Set:
        """The values of the variables; of a number that depends on sizes what isl can be told in short."""
        names = [v for v, _ in (*self.how.blocks, *self.how.threads)]
        limits = [f"0 <= {v}" for v in names]
        known = {e: n for n, e in self.scop.parameters.values.items()}
        for a, m in self.units[0].axes:
            size = known.get(a.points)
            if m.block is not None and size is not None:
                limits.append(f"{m.tile} * {m.block} < {size}")
                names.append(size)
        limits += [f"{v} < {n.value}" for v, n in self.how.blocks if isinstance(n, IntImm)]
        limits += [f"{v} < {n}" for v, n in self.how.threads]
        parameters = ", ".join(dict.fromkeys(names))
        return isl.Set.read_from_str(self.ctx, f"[{parameters}] -> {{ [] : {' and '.join(limits)} }}")

    # Tiles.

    def tiles(self) -> Tree:
        """The filter of blocks, the band of tiles, and what is below."""
        names = [a.name for a in tiled_axes(self.region)]
        conditions: dict[Tuple, list[str]] = {}
        members: dict[str, dict[Tuple, str]] = {}
        banded: dict[str, AxisMap] = {}
        for u in self.units:
            for s in u.statements:
                t = self.tuple(u, s)
                conditions[t] = []
                for a, m in u.axes:
                    if a.name not in names or not m.tile:
                        continue
                    if several(a, m):
                        members.setdefault(a.name, {})[t] = t.tile(a, m)
                        banded[a.name] = m
                    if m.block is not None:
                        turn = f"({t.tile(a, m)}) mod {m.blocks}" if m.blocks else t.tile(a, m)
                        conditions[t].append(f"{turn} = {m.block}")
        blocks = [v for v, _ in self.how.blocks]
        order = [n for n in names if n in members]
        chosen = where(self.ctx, conditions, blocks)
        # Where each statement's instances are among the tiles of a block.
        outer = isl.UnionMap.empty_ctx(self.ctx)
        for u in self.units:
            for s in u.statements:
                t = self.tuple(u, s)
                m = relation(self.ctx, t, [members[n][t] for n in order], "tiles")
                m = m.intersect_domain(self.scop.statement(s).domain)
                outer = outer.union(m.to_union_map().intersect_domain(chosen))
        tree = self.sequence(outer, [(n, banded[n].tile) for n in order])
        if order:
            tree = nodes.banded(band(self.ctx, [members[n] for n in order]), tree)
        return nodes.filtered(chosen, tree) if any(conditions.values()) else tree

    def sequence(self, outer: isl.UnionMap, tiles: Sequence[tuple[str, int]]) -> Tree:
        """The units in order, with what comes before and after each; `outer` are instances to tiles, of the
        axes `tiles` with so many points."""
        needed = barriers(self.scop, self.units, self.how.threads)
        out: list[Part] = []
        for i, u in enumerate(self.units):
            if (barrier := needed[i]) is not None:
                out.append(self.opaque(f"sync{i}", barrier, outer))
            if not any(x.nest == u.nest for x in self.units[:i]):
                mine = [k for k in self.kept if k.nest == u.nest and k.load]
                out += [self.transfer(k, u, outer, load=True) for k in mine]
            combined = [self.parts[s] for s in u.statements if s in self.parts]
            out += [self.opaque(f"start_{p.statement}", _started(p), outer) for p in combined]
            below = self.own_tiles(u, i, outer, tiles)
            out.append(Part(where(self.ctx, {self.tuple(u, s): () for s in u.statements}), below))
            for p in combined:
                over = Block(tuple(Combine(p.array.name, p.op, v) for v in p.threads))
                out.append(self.opaque(f"combine_{p.statement}", over, outer))
                out.append(self.result(p, u, outer))
            if not any(x.nest == u.nest for x in self.units[i + 1 :]):
                mine = [k for k in self.kept if k.nest == u.nest and k.store]
                out += [self.transfer(k, u, outer, load=False) for k in mine]
        if self.local and repeated(self.region, self.units, self.how):
            out.append(self.opaque("done", Sync(), outer))
        return nodes.sequence(out)

    def own_tiles(self, u: Unit, i: int, outer: isl.UnionMap, tiles: Sequence[tuple[str, int]]) -> Tree:
        """The tiles of a unit's own loops, for each of which copies are made in shared memory."""
        own = [(a, m) for a, m in u.own if several(a, m)]
        names = {a.name for a, _ in own}
        once = [x for x in self.memory[i] if not x.moves & names]  # the same for all tiles of these loops
        memory = [x for x in self.memory[i] if x not in once]
        tuples = [self.tuple(u, s) for s in u.statements]
        members = [{t: t.tile(a, m) for t in tuples} for a, m in own]
        below = self.unit(u)
        if memory:
            prefix = isl.UnionMap.empty_ctx(self.ctx)
            for t in tuples:
                inner = relation(self.ctx, t, [x[t] for x in members], "own")
                mine = outer.intersect_domain(isl.UnionSet.from_set(self.scop.statement(t.name).domain))
                for m in maps_of(mine):
                    prefix = prefix.union(m.flat_range_product(inner).reset_tuple_id(_OUT).to_union_map())
            every = [*tiles, *((a.name, m.tile) for a, m in own)]
            if memory[0].ring:
                below = self.ahead(u, i, memory, below, prefix, every)
            else:
                below = self.copied(u, f"{i}", memory, below, prefix, every)
        below = nodes.banded(band(self.ctx, members), below) if members else below
        if memory and memory[0].ring:
            first = self.copies(f"{i}_first", memory, outer, tiles, first=True)
            last = self.opaque(f"used{i}", Sync(), outer)
            statements = where(self.ctx, dict.fromkeys(tuples, ()))
            below = nodes.sequence([*first, Part(statements, below), last])
        return self.copied(u, f"{i}_once", once, below, outer, tiles) if once else below

    def copied(
        self,
        u: Unit,
        number: str,
        memory: Sequence[Shared],
        below: Tree,
        prefix: isl.UnionMap,
        tiles: Sequence[tuple[str, int]],
    ) -> Tree:
        """Copies to shared memory for each point of the loops `tiles`, and what uses them."""
        statements = where(self.ctx, {self.tuple(u, s): () for s in u.statements})
        indices = [x for x in memory if x.index is None]
        selected = [x for x in memory if x.index is not None]
        between = [self.opaque(f"selected{number}", Sync(), prefix)] if indices and selected else []
        return nodes.sequence(
            [
                *self.copies(number, indices, prefix, tiles),
                *between,
                *self.copies(f"{number}_of", selected, prefix, tiles),
                self.opaque(f"copied{number}", Sync(), prefix),
                Part(statements, below),
                self.opaque(f"used{number}", Sync(), prefix),
            ]
        )

    def ahead(
        self,
        u: Unit,
        i: int,
        memory: Sequence[Shared],
        below: Tree,
        prefix: isl.UnionMap,
        tiles: Sequence[tuple[str, int]],
    ) -> Tree:
        """A tile of the loop whose copies are made one tile ahead: these have arrived, and all threads are
        done with the tile before, whose place the next copies take."""
        statements = where(self.ctx, {self.tuple(u, s): () for s in u.statements})
        return nodes.sequence(
            [
                self.opaque(f"copied{i}", Sync(copies=True), prefix),
                *self.copies(f"{i}", memory, prefix, tiles, ahead=True),
                Part(statements, below),
            ]
        )

    def copies(
        self,
        number: str,
        memory: Sequence[Shared],
        prefix: isl.UnionMap,
        tiles: Sequence[tuple[str, int]],
        *,
        first: bool = False,
        ahead: bool = False,
    ) -> list[Part]:
        """The copies for each point of the loops `tiles`, for the `first` tile of a loop below these, or for
        the tile after (`ahead`)."""
        out: list[Part] = []
        seen: set[str] = set()
        for x in memory:
            if x.array.name in seen:
                continue
            seen.add(x.array.name)
            name = f"copy{number}_{len(seen)}"
            loop = f"l{number}_{len(seen)}"

            def made(
                point: tuple[Expr, ...], views: Sequence[tuple[Expr, ...]], x: Shared = x, loop: str = loop
            ) -> Stmt:
                starts = {
                    axis: simplify(Mul(p, IntImm(n)), exact=True)
                    for (axis, n), p in zip(tiles, point, strict=True)
                }
                slot: Expr | None = None
                if first:
                    starts[x.ring] = slot = IntImm(0)
                elif x.ring:
                    slot = simplify(FloorMod(point[-1], IntImm(2)), exact=True)
                return copy(x, starts, self.how.threads, loop, slot)

            self.inserted[name] = made
            dims = [f"d{k}" for k in range(len(tiles))]
            target = [*dims[:-1], f"{dims[-1]} + 1"] if ahead else dims
            to = isl.Map.read_from_str(self.ctx, f"{{ [{', '.join(dims)}] -> {name}[{', '.join(target)}] }}")
            points = isl.Set.from_union_set(prefix.range()).reset_tuple_id()
            if ahead:
                to = to.intersect_range(points.set_tuple_name(name))
            found = to.intersect_domain(points).to_union_map()
            out.append(Part(_universe(found), "", found))
        return out

    # What stands between units.

    def opaque(self, name: str, what: Stmt, outer: isl.UnionMap) -> Part:
        """A statement that all threads of a block run once a tile."""
        self.inserted[name] = lambda point, views: what
        target = isl.Set.read_from_str(self.ctx, f"{{ {name}[] }}")
        tiles = isl.Set.from_union_set(outer.range()).reset_tuple_id()
        found = isl.Map.from_domain_and_range(tiles, target).to_union_map()
        return Part(_universe(found), "", found)

    def points(self, name: str, u: Unit, statements: Sequence[str], outer: isl.UnionMap) -> Part:
        """A statement that runs at each point of a nest's axes at which some of these statements do, on the
        thread of the point."""
        t = of_axes(name, [a for a, _ in u.axes])
        found = isl.UnionMap.empty_ctx(self.ctx)
        for s in statements:
            source = self.tuple(u, s)
            point = relation(self.ctx, source, [f"d{source.axes[a.name]}" for a, _ in u.axes], name)
            domain = isl.UnionSet.from_set(self.scop.statement(s).domain)
            for m in maps_of(outer.intersect_domain(domain)):
                m = m.reset_tuple_id(_OUT).reverse().apply_range(point)
                found = found.union(m.to_union_map())
        below = self.steps(u.axes, [t], "", unrolled=True)
        return Part(_universe(found), self.threads({t: threads_of(t, u.axes, self.variables)}, below), found)

    def transfer(self, k: Kept, u: Unit, outer: isl.UnionMap, *, load: bool) -> Part:
        """The elements that threads keep, from memory or back."""
        name = f"{'load' if load else 'store'}_{self.kept.index(k)}"
        statements = (self.scop.statement(s) for x in self.units if x.nest == k.nest for s in x.statements)
        users = [s.name for s in statements if any(a.buffer == k.buffer for a in s.accesses)]
        t = k.array.dtype

        def moved(element: tuple[Expr, ...], buffer: str, place: tuple[Expr, ...]) -> Stmt:
            if load:
                return Compute("", k.array.name, element, None, Load(buffer, place, t), (), "")
            return Compute("", buffer, place, None, Load(k.array.name, element, t), (), "")

        return self.between(name, u, users, k.array, k.statement, k.buffer, k.access.subscripts, moved, outer)

    def result(self, p: Parts, u: Unit, outer: isl.UnionMap) -> Part:
        """Combined parts go into their results."""
        stage = self.scop.statement(p.statement).stage

        def combined(element: tuple[Expr, ...], buffer: str, place: tuple[Expr, ...]) -> Stmt:
            value = Load(p.array.name, element, p.array.dtype)
            return Compute("", buffer, place, p.op, value, (), stage.text)

        name = f"finish_{p.statement}"
        return self.between(
            name, u, [p.statement], p.array, p.statement, p.buffer, stage.args, combined, outer
        )

    def between(
        self,
        name: str,
        u: Unit,
        users: Sequence[str],
        array: Array,
        statement: str,
        buffer: str,
        subscripts: Sequence[Expr],
        made: Callable[[tuple[Expr, ...], str, tuple[Expr, ...]], Stmt],
        outer: isl.UnionMap,
    ) -> Part:
        """What `made` does with an element of an array of registers and the one of a buffer that it stands
        for, which has these subscripts in `statement`, at the points where some of the `users` run."""
        t = of_axes(name, [a for a, _ in u.axes])
        there = self.local_of(buffer)
        views = [View(-1, array.name, function(self.ctx, t, index(t, u.axes)))]
        if there is not None:
            at_place = there.place(t, u, statement, subscripts)
            views.append(View(0, there.array.name, function(self.ctx, t, at_place)))
        self.views[name] = tuple(views)
        box = self.scop.program.buffer(buffer).box
        variables = {a.vars[statement]: i for i, (a, _) in enumerate(u.axes) if statement in a.vars}

        def at(point: tuple[Expr, ...], views: Sequence[tuple[Expr, ...]]) -> Stmt:
            values = {v: point[i] for v, i in variables.items()}
            element, *inside = views
            if there is not None:
                return made(element, there.array.name, inside[0])
            place = zero_based((substitute(e, dict(values)) for e in subscripts), box)
            return made(element, buffer, place)

        self.inserted[name] = at
        return self.points(name, u, users, outer)

    # A unit.

    def threads(self, values: Mapping[Tuple, Sequence[str]], below: Tree) -> Tree:
        """The filter of a thread's instances."""
        if not self.variables:
            return below
        conditions = {
            t: [f"{e} = {v}" for v, e in zip(self.variables, es, strict=True)] for t, es in values.items()
        }
        return nodes.filtered(where(self.ctx, conditions, self.variables), below)

    def steps(
        self, axes: Sequence[tuple[Axis, AxisMap]], tuples: Sequence[Tuple], below: Tree, *, unrolled: bool
    ) -> Tree:
        """Bands over the points of a thread, one for each axis."""
        for a, m in reversed(axes):
            count = steps(a, m)
            if count == 1:
                continue
            below = nodes.banded(band(self.ctx, [{t: t.step(a, m) or "0" for t in tuples}]), below)
            if unrolled and count is not None:
                below = nodes.marked(f"{UNROLLED}_{count}", below)
        return below

    def unit(self, u: Unit) -> Tree:
        """The points of a unit, thread by thread."""
        tuples = [self.tuple(u, s) for s in u.statements]
        below = nodes.sequence([Part(where(self.ctx, {t: ()}), "") for t in tuples])
        # What is in registers is best worked on in the innermost loops.
        accesses = ((s, a) for s in u.statements for a in self.scop.statement(s).accesses)
        inner = any(self.view_of(s, a.buffer, a.kind) is not None for s, a in accesses)
        if not inner:
            below = self.steps(u.own, tuples, below, unrolled=False)
        below = self.steps(u.axes, tuples, below, unrolled=inner)
        if inner:
            below = self.steps(u.own, tuples, below, unrolled=False)
        axes = (*u.axes, *u.own)
        return self.threads({t: threads_of(t, axes, self.variables) for t in tuples}, below)

    def view_of(self, statement: str, buffer: str, kind: str) -> Array | None:
        """The registers that an access goes to."""
        p = self.parts.get(statement)
        if p is not None and kind != "read":
            return p.array
        number = next(u.nest for u in self.units if statement in u.statements)
        return next((k.array for k in self.kept if k.buffer == buffer and k.nest == number), None)

    def local_of(self, buffer: str) -> Local | None:
        """The array in shared memory that stands for a temporary."""
        return next((x for x in self.local if x.buffer == buffer), None)

    def statement_views(self, u: Unit, statement: str, memory: Sequence[Shared]) -> tuple[View, ...]:
        t = self.tuple(u, statement)
        found: list[View] = []
        reads = 0
        for a in self.scop.statement(statement).accesses:
            number = -1
            if a.kind == "read":
                number, reads = reads, reads + 1
            array = self.view_of(statement, a.buffer, a.kind)
            there = self.local_of(a.buffer)
            if a.kind == "update":  # goes where the write goes
                continue
            if array is not None:
                found.append(View(number, array.name, function(self.ctx, t, index(t, u.axes))))
            elif there is not None:
                at = there.place(t, u, statement, a.subscripts)
                found.append(View(number, there.array.name, function(self.ctx, t, at)))
        axes = (*u.axes, *u.own)
        for x in memory:
            if x.statement == statement:
                at = [place(t, axes, d) for d in x.dimensions]
                if x.ring:
                    ((a, m),) = ((a, m) for a, m in axes if a.name == x.ring)
                    at.insert(0, f"({t.tile(a, m)}) mod 2")
                found.append(View(x.read, x.array.name, function(self.ctx, t, at)))
        return tuple(found)


_OUT = isl.dim_type.out


def _universe(found: isl.UnionMap) -> isl.UnionSet:
    """The filter of inserted statements."""
    return found.range().universe()


def _started(p: Parts) -> Stmt:
    """The neutral element in all parts of a thread."""
    names = [f"u{i}" for i in range(len(p.array.shape))]
    s: Stmt = Compute(
        "", p.array.name, tuple(map(Variable, names)), None, neutral(p.op, p.array.dtype), (), ""
    )
    for v, n in zip(reversed(names), reversed(p.array.shape), strict=True):
        s = For(v, IntImm(0), n, 1, LoopKind.UNROLLED, s)
    return s
