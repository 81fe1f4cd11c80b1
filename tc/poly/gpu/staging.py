"""Staging: loops over tiles with cooperative copies to shared memory in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tc.ir.expr import Expr, FloorMod, IntImm, Mul
from tc.ir.loops import Stmt, Sync
from tc.ir.program import Box
from tc.ir.simplify import simplify
from tc.poly.context import maps_of
from tc.poly.gpu import nodes
from tc.poly.gpu.bands import of_unit
from tc.poly.gpu.coordinates import band, relation, where
from tc.poly.gpu.copies import copy, store
from tc.poly.gpu.insert import Insertions, universe
from tc.poly.gpu.isolation import whole_tiles
from tc.poly.gpu.local import Local
from tc.poly.gpu.mapping import Unit
from tc.poly.gpu.nodes import Part, Tree
from tc.poly.gpu.promotion import PromotedRegion
from tc.poly.gpu.shared import Shared


def own_tiles(
    into: Insertions, u: Unit, i: int, outer: isl.UnionMap, tiles: Sequence[tuple[str, int]]
) -> Tree:
    """The tiles of a unit's own loops, for each of which copies are made in shared memory."""
    p = into.promoted
    overwritten = p.repeated  # the next tile's copies then wait until this one's are no longer used
    names = {a.name for a, _ in u.looped}
    once = [x for x in p.shared_reads[i] if not x.moves & names]  # invariant in these loops
    memory = [x for x in p.shared_reads[i] if x not in once]
    tuples = [p.instances(u, s) for s in u.statements]
    members = [{t: t.tile(a, m) for t in tuples} for a, m in u.looped]
    below = _points(p, u)
    prefix = isl.UnionMap.empty_ctx(p.ctx)
    every = [*tiles, *((a.name, m.tile) for a, m in u.looped)]
    copies = _Copies(into, u, f"{i}", memory, prefix, every)
    if memory:
        for t in tuples:
            inner = relation(p.ctx, t, [x[t] for x in members], "own")
            mine = outer.intersect_domain(isl.UnionSet.from_set(p.scop.statement(t.name).domain))
            for m in maps_of(mine):
                prefix = prefix.union(m.flat_range_product(inner).reset_tuple_id(_OUT).to_union_map())
        copies = replace(copies, prefix=prefix)
        if memory[0].alternates_over:
            below = _double_buffered(copies, below)
        else:
            below = _copied(copies, below, overwritten or bool(members))
    below = nodes.banded(band(p.ctx, members), below) if members else below
    if memory and memory[0].alternates_over:
        first = replace(copies, number=f"{i}_first").parts(first=True)
        last = [into.barrier(f"used{i}", outer)] if overwritten else []
        statements = where(p.ctx, dict.fromkeys(tuples, ()))
        below = nodes.sequence([*first, Part(statements, below), *last])
    copies = _Copies(into, u, f"{i}_once", once, outer, tiles)
    return _copied(copies, below, overwritten) if once else below


def _points(p: PromotedRegion, u: Unit) -> Tree:
    """The points of a tile, with whole tiles isolated if conditions cut others."""
    below = of_unit(p, u)
    isolated = whole_tiles(p, u)
    if isolated is None:
        return below
    return nodes.sequence([Part(isl.UnionSet.from_set(x), below) for x in isolated])


@dataclass(frozen=True, slots=True)
class _Copies:
    """Copies of `memory` for a unit, at each point of the loops `tiles`, to which `prefix` maps its
    instances; `number` is part of their names."""

    into: Insertions
    unit: Unit
    number: str
    memory: Sequence[Shared]
    prefix: isl.UnionMap
    tiles: Sequence[tuple[str, int]]

    @property
    def statements(self) -> isl.UnionSet:
        """The instances of the unit, which use the copies."""
        p = self.into.promoted
        return where(p.ctx, {p.instances(self.unit, s): () for s in self.unit.statements})

    def parts(self, *, first: bool = False, for_next: bool = False) -> list[Part]:
        """The copies for each point of the loops: of the tile itself, only of the `first` one of the
        innermost loop, before that, or of the next one (`for_next`)."""
        p, prefix, number = self.into.promoted, self.prefix, self.number
        out: list[Part] = []
        seen: set[str] = set()
        for x in self.memory:
            if x.array.name in seen:
                continue
            seen.add(x.array.name)
            name = f"copy{number}_{len(seen)}"
            loop = f"l{number}_{len(seen)}"

            def made(
                point: tuple[Expr, ...], views: Sequence[tuple[Expr, ...]], x: Shared = x, loop: str = loop
            ) -> Stmt:
                slot = simplify(FloorMod(point[-1], IntImm(2)), exact=True) if x.alternates_over else None
                start = _first_points(self.into, self.tiles, point)
                return copy(x, start, p.mapping.threads, loop, slot, p.mapping.unroll_copies)

            self.into.made[name] = made
            dims = [f"d{k}" for k in range(len(self.tiles))]
            target = [*dims[:-1], f"{dims[-1]} + 1"] if for_next else dims
            outer = dims[:-1] if first else dims
            to = isl.Map.read_from_str(p.ctx, f"{{ [{', '.join(outer)}] -> {name}[{', '.join(target)}] }}")
            points = isl.Set.from_union_set(prefix.range()).reset_tuple_id()
            to = to.intersect_range(points.set_tuple_name(name))
            found = (to.lexmin() if first else to.intersect_domain(points)).to_union_map()
            out.append(Part(universe(found), "", found))
        return out


def _copied(copies: _Copies, below: Tree, overwritten: bool) -> Tree:
    """Copies to shared memory, and the tree `below` that uses them; `overwritten`: the block overwrites them
    afterwards."""
    into, number, prefix = copies.into, copies.number, copies.prefix
    indices = [x for x in copies.memory if x.indirect is None]
    selected = [x for x in copies.memory if x.indirect is not None]
    between = [into.barrier(f"selected{number}", prefix)] if indices and selected else []
    return nodes.sequence(
        [
            *replace(copies, memory=indices).parts(),
            *between,
            *replace(copies, number=f"{number}_of", memory=selected).parts(),
            into.barrier(f"copied{number}", prefix),
            Part(copies.statements, below),
            *([into.barrier(f"used{number}", prefix)] if overwritten else []),
        ]
    )


def _double_buffered(copies: _Copies, below: Tree) -> Tree:
    """A tile of the loop with double buffering: after the barrier its copies are complete, and no thread uses
    the tile before, whose buffer the next copies fill."""
    return nodes.sequence(
        [
            copies.into.barrier(f"copied{copies.number}", copies.prefix, copies=True),
            *copies.parts(for_next=True),
            Part(copies.statements, below),
        ]
    )


def stores(
    into: Insertions, outer: isl.UnionMap, tiles: Sequence[tuple[str, int]], waits: Sync | None
) -> list[Part]:
    """The stores of results from shared to global memory; `waits`: the barrier before them, if other threads
    may have written the results."""
    p = into.promoted
    out: list[Part] = []
    for i, x in enumerate(x for x in p.local if x.stored):
        name, loop, box = f"result{i}", f"r{i}", p.scop.program.buffer(x.buffer).box

        def made(
            point: tuple[Expr, ...],
            views: Sequence[tuple[Expr, ...]],
            x: Local = x,
            box: Box = box,
            loop: str = loop,
        ) -> Stmt:
            return store(x, box, _first_points(into, tiles, point), p.mapping.threads, loop)

        into.made[name] = made
        points = isl.Set.from_union_set(outer.range()).reset_tuple_id()
        dims = ", ".join(f"d{k}" for k in range(len(tiles)))
        to = isl.Map.read_from_str(p.ctx, f"{{ [{dims}] -> {name}[{dims}] }}")
        found = to.intersect_domain(points).to_union_map()
        out.append(Part(universe(found), "", found))
    return [into.opaque("written", waits, outer), *out] if waits else out


def _first_points(
    into: Insertions, tiles: Sequence[tuple[str, int]], point: Sequence[Expr]
) -> Mapping[str, Expr]:
    """The first points of tiles, by axis."""
    pairs = zip(tiles, point, strict=True)
    return into.starts | {axis: simplify(Mul(q, IntImm(n)), exact=True) for (axis, n), q in pairs}


_OUT = isl.dim_type.out
