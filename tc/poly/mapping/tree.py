# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""The mapped schedule tree of a region (report, §5; Figure 3).

    domain
      context     what values the block and thread variables have
        filter    the tiles of a block
          band    tiles
            sequence of units; as extension nodes between them: barriers, transfers, combinations
              filter    the points of a thread
                band    the points of a thread, one after the other
                  sequence of statements

The tree is made from scratch, top down.  One variable stands for each mapped dimension; the code decomposes
the numbers of blocks and threads.  A filter of threads lies below all barriers, so that all threads of a
block get to each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from tc.ir.expr import Expr, IntImm, Load, Variable, substitute
from tc.ir.loops import Array, Block, Combine, Compute, For, LoopKind, Stmt, Sync
from tc.ir.lower import neutral
from tc.poly.ast import View, zero_based
from tc.poly.context import identifier, set_list, union_set
from tc.poly.mapping.coordinates import Tuple, band, function, of_axes, of_statement, relation, where
from tc.poly.mapping.plan import AxisMap, RegionMap, Unit, steps, tiled_axes, units
from tc.poly.mapping.registers import Kept, Parts, index, kept, parts
from tc.poly.mapping.sync import barriers, threads_of
from tc.poly.plan import Axis, Region
from tc.poly.scop import Scop

UNROLLED = "unrolled"

Inserted = Callable[[tuple[Expr, ...], Sequence[tuple[Expr, ...]]], Stmt]


@dataclass(frozen=True, slots=True)
class Mapped:
    """The tree of a region; what the statements of its extension nodes are, of their point and views; the
    accesses that go to other arrays; these arrays."""

    schedule: isl.Schedule
    units: tuple[Unit, ...]
    inserted: Mapping[str, Inserted]
    views: Mapping[str, tuple[View, ...]]
    arrays: tuple[Array, ...]


def mapped(scop: Scop, region: Region, how: RegionMap, name: Callable[[str], str]) -> Mapped:
    """Map a region; `name` makes new names of arrays.  Use it, and the result, inside `isl_context()`."""
    found = units(region, how)
    return _Builder(
        scop, region, how, found, kept(scop, region, found, name), parts(scop, found, name)
    ).build()


@dataclass(slots=True)
class _Builder:
    scop: Scop
    region: Region
    how: RegionMap
    units: tuple[Unit, ...]
    kept: tuple[Kept, ...]
    parts: Mapping[str, Parts]
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
        statements = [s for u in self.units for s in u.statements]
        domain = union_set(self.ctx, (self.scop.statement(s).domain for s in statements))
        node = isl.Schedule.from_domain(domain).get_root().child(0)
        if self.how.blocks or self.how.threads:
            node = node.insert_context(self.context()).child(0)
        node = self.sequence(self.tiles(node))
        self.views |= {s: self.statement_views(u, s) for u in self.units for s in u.statements}
        arrays = (*(k.array for k in self.kept), *(p.array for p in self.parts.values()))
        return Mapped(node.get_schedule(), self.units, self.inserted, self.views, arrays)

    def context(self) -> isl.Set:
        """The values of the variables; of a number that depends on sizes only that it is not less than 0."""
        names = [v for v, _ in (*self.how.blocks, *self.how.threads)]
        limits = [f"0 <= {v}" for v in names]
        limits += [f"{v} < {n.value}" for v, n in self.how.blocks if isinstance(n, IntImm)]
        limits += [f"{v} < {n}" for v, n in self.how.threads]
        return isl.Set.read_from_str(self.ctx, f"[{', '.join(names)}] -> {{ [] : {' and '.join(limits)} }}")

    def tiles(self, node: isl.ScheduleNode) -> isl.ScheduleNode:
        """The filter of blocks and the band of tiles."""
        names = [a.name for a in tiled_axes(self.region)]
        conditions: dict[Tuple, list[str]] = {}
        members: dict[str, dict[Tuple, str]] = {}
        for u in self.units:
            for s in u.statements:
                t = self.tuple(u, s)
                conditions[t] = []
                for a, m in u.axes:
                    if a.name not in names or not m.tile:
                        continue
                    if a.size is not None or m.tile < a.extent:
                        members.setdefault(a.name, {})[t] = t.tile(a, m)
                    if m.block is not None:
                        turn = f"({t.tile(a, m)}) mod {m.blocks}" if m.blocks else t.tile(a, m)
                        conditions[t].append(f"{turn} = {m.block}")
        if any(conditions.values()):
            blocks = [v for v, _ in self.how.blocks]
            node = node.insert_filter(where(self.ctx, conditions, blocks)).child(0)
        return self.insert_band(node, [members[n] for n in names if n in members])

    def insert_band(self, node: isl.ScheduleNode, members: Sequence[Mapping[Tuple, str]]) -> isl.ScheduleNode:
        if not members:
            return node
        return node.insert_partial_schedule(band(self.ctx, members)).band_set_permutable(1).child(0)

    def sequence(self, node: isl.ScheduleNode) -> isl.ScheduleNode:
        """The units in order, with what comes before and after each."""
        outer = node.get_prefix_schedule_relation()
        needed = barriers(self.scop, self.units, self.variables)
        depth = node.get_tree_depth()
        if len(self.units) > 1:
            node = node.insert_sequence(set_list(self.ctx, (self.only(u) for u in self.units)))
        for i, u in enumerate(self.units):
            at = node.child(i).child(0) if len(self.units) > 1 else node
            at = self.unit(at, u)
            for graft in self.before(u, i, needed[i], outer):
                at = at.graft_before(graft)
            for graft in reversed(self.after(u, i, outer)):
                at = at.graft_after(graft)
            node = at.ancestor(at.get_tree_depth() - depth)
        return node

    def only(self, u: Unit) -> isl.UnionSet:
        """The filter of a unit's statements, whatever their instances."""
        return where(self.ctx, {self.tuple(u, s): () for s in u.statements})

    # What stands between units.

    def before(self, u: Unit, i: int, barrier: bool, outer: isl.UnionMap) -> list[isl.ScheduleNode]:
        grafts: list[isl.ScheduleNode] = []
        if barrier:
            grafts.append(self.opaque(f"sync{i}", Sync(), outer))
        if not any(x.nest == u.nest for x in self.units[:i]):
            grafts += [
                self.transfer(k, u, outer, load=True) for k in self.kept if k.nest == u.nest and k.load
            ]
        for s in u.statements:
            if s in self.parts:
                grafts.append(self.opaque(f"start_{s}", _started(self.parts[s]), outer))
        return grafts

    def after(self, u: Unit, i: int, outer: isl.UnionMap) -> list[isl.ScheduleNode]:
        grafts: list[isl.ScheduleNode] = []
        for s in u.statements:
            if s in self.parts:
                p = self.parts[s]
                over: list[Stmt] = [Combine(p.array.name, p.op, v) for v in p.threads]
                grafts.append(self.opaque(f"combine_{s}", Block(tuple(over)), outer))
                grafts.append(self.result(p, u, outer))
        if not any(x.nest == u.nest for x in self.units[i + 1 :]):
            grafts += [
                self.transfer(k, u, outer, load=False) for k in self.kept if k.nest == u.nest and k.store
            ]
        return grafts

    def opaque(self, name: str, what: Stmt, outer: isl.UnionMap) -> isl.ScheduleNode:
        """A statement that all threads of a block run once a tile."""
        self.inserted[name] = lambda point, views: what
        target = isl.Set.read_from_str(self.ctx, f"{{ {name}[] }}")
        found = isl.Map.from_domain_and_range(isl.Set.from_union_set(outer.range()), target)
        return isl.ScheduleNode.from_extension(found.to_union_map())

    def points(self, name: str, u: Unit, statements: Sequence[str], outer: isl.UnionMap) -> isl.ScheduleNode:
        """A statement that runs at each point of a nest's axes at which some of these statements do, on the
        thread of the point."""
        t = of_axes(name, [a for a, _ in u.axes])
        found = isl.UnionMap.empty_ctx(self.ctx)
        for s in statements:
            source = self.tuple(u, s)
            point = relation(self.ctx, source, [f"d{source.axes[a.name]}" for a, _ in u.axes], name)
            domain = isl.UnionSet.from_set(self.scop.statement(s).domain)
            found = found.union(outer.intersect_domain(domain).reverse().apply_range(point.to_union_map()))
        node = isl.ScheduleNode.from_extension(found).child(0)
        node = self.threads(node, {t: threads_of(t, u.axes, self.variables)})
        node = self.steps(node, u.axes, [t], unrolled=True)
        return node.ancestor(node.get_tree_depth())

    def transfer(self, k: Kept, u: Unit, outer: isl.UnionMap, *, load: bool) -> isl.ScheduleNode:
        """The elements that threads keep, from memory or back."""
        name = f"{'load' if load else 'store'}_{k.array.name}"
        users = [
            s
            for x in self.units
            if x.nest == k.nest
            for s in x.statements
            if any(a.buffer == k.buffer for a in self.scop.statement(s).accesses)
        ]
        t = of_axes(name, [a for a, _ in u.axes])
        self.views[name] = (View(-1, k.array.name, function(self.ctx, t, index(t, u.axes), k.array.name)),)
        box = self.scop.program.buffer(k.buffer).box
        var = {a.vars[k.statement]: i for i, (a, _) in enumerate(u.axes) if k.statement in a.vars}

        def made(point: tuple[Expr, ...], views: Sequence[tuple[Expr, ...]]) -> Stmt:
            at = {v: point[i] for v, i in var.items()}
            place = zero_based((substitute(e, dict(at)) for e in k.access.subscripts), box)
            (element,) = views
            t = k.array.dtype
            if load:
                return Compute("", k.array.name, element, None, Load(k.buffer, place, t), (), "")
            return Compute("", k.buffer, place, None, Load(k.array.name, element, t), (), "")

        self.inserted[name] = made
        return self.points(name, u, users, outer)

    def result(self, p: Parts, u: Unit, outer: isl.UnionMap) -> isl.ScheduleNode:
        """Combined parts go into their results."""
        name = f"finish_{p.statement}"
        t = of_axes(name, [a for a, _ in u.axes])
        self.views[name] = (View(-1, p.array.name, function(self.ctx, t, index(t, u.axes), p.array.name)),)
        stage = self.scop.statement(p.statement).stage
        box = self.scop.program.buffer(p.buffer).box
        var = {a.vars[p.statement]: i for i, (a, _) in enumerate(u.axes)}

        def made(point: tuple[Expr, ...], views: Sequence[tuple[Expr, ...]]) -> Stmt:
            at = {v: point[i] for v, i in var.items()}
            place = zero_based((substitute(e, dict(at)) for e in stage.args), box)
            (element,) = views
            value = Load(p.array.name, element, p.array.dtype)
            return Compute("", p.buffer, place, p.op, value, (), stage.text)

        self.inserted[name] = made
        return self.points(name, u, [p.statement], outer)

    # A unit.

    def threads(self, node: isl.ScheduleNode, values: Mapping[Tuple, Sequence[str]]) -> isl.ScheduleNode:
        """The filter of a thread's instances."""
        if not self.variables:
            return node
        conditions = {
            t: [f"{e} = {v}" for v, e in zip(self.variables, es, strict=True)] for t, es in values.items()
        }
        return node.insert_filter(where(self.ctx, conditions, self.variables)).child(0)

    def steps(
        self,
        node: isl.ScheduleNode,
        axes: Sequence[tuple[Axis, AxisMap]],
        tuples: Sequence[Tuple],
        *,
        unrolled: bool,
    ) -> isl.ScheduleNode:
        """Bands over the points of a thread, one for each axis."""
        for a, m in axes:
            count = steps(a, m)
            if count == 1:
                continue
            if unrolled and count is not None:
                node = node.insert_mark(identifier(f"{UNROLLED}_{count}")).child(0)
            node = self.insert_band(node, [{t: t.step(a, m) or "0" for t in tuples}])
        return node

    def unit(self, node: isl.ScheduleNode, u: Unit) -> isl.ScheduleNode:
        """The unit below a leaf; returns its topmost node."""
        depth = node.get_tree_depth()
        tuples = {s: self.tuple(u, s) for s in u.statements}
        axes = (*u.axes, *u.own)
        node = self.threads(node, {t: threads_of(t, axes, self.variables) for t in tuples.values()})
        # What is in registers is best worked on in the innermost loops.
        inner = any(
            self.view_of(s, a.buffer, a.kind) for s in u.statements for a in self.scop.statement(s).accesses
        )
        if inner:
            node = self.steps(node, u.own, list(tuples.values()), unrolled=False)
        node = self.steps(node, u.axes, list(tuples.values()), unrolled=inner)
        if not inner:
            node = self.steps(node, u.own, list(tuples.values()), unrolled=False)
        if len(tuples) > 1:
            node = node.insert_sequence(
                set_list(self.ctx, (where(self.ctx, {t: ()}) for t in tuples.values()))
            )
        return node.ancestor(node.get_tree_depth() - depth)

    def view_of(self, statement: str, buffer: str, kind: str) -> Array | None:
        """The registers that an access goes to."""
        p = self.parts.get(statement)
        if p is not None and kind != "read":
            return p.array
        number = next(u.nest for u in self.units if statement in u.statements)
        return next((k.array for k in self.kept if k.buffer == buffer and k.nest == number), None)

    def statement_views(self, u: Unit, statement: str) -> tuple[View, ...]:
        t = self.tuple(u, statement)
        found: list[View] = []
        reads = 0
        for a in self.scop.statement(statement).accesses:
            number = -1
            if a.kind == "read":
                number, reads = reads, reads + 1
            array = self.view_of(statement, a.buffer, a.kind)
            if array is not None and a.kind != "update":
                found.append(View(number, array.name, function(self.ctx, t, index(t, u.axes), array.name)))
        return tuple(found)


def _started(p: Parts) -> Stmt:
    """The neutral element in all parts of a thread."""
    names = [f"u{i}" for i in range(len(p.array.shape))]
    s: Stmt = Compute(
        "", p.array.name, tuple(map(Variable, names)), None, neutral(p.op, p.array.dtype), (), ""
    )
    for v, n in zip(reversed(names), reversed(p.array.shape), strict=True):
        s = For(v, IntImm(0), n, 1, LoopKind.UNROLLED, s)
    return s
