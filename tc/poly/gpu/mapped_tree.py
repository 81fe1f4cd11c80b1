"""The mapped schedule tree of a region (report, §5; Figure 3).

    domain
      context     the ranges of the block and thread variables
        filter    the tiles of a block
          band    tiles, of axes of which a block has several
            sequence of units; in an extension node, between them: barriers, transfers, combinations
              band      tiles of the unit's own loops
                sequence of copies to shared memory, barriers (an extension node), the unit
                  filter    the points of a thread
                    band    the points of a thread, one after the other
                      sequence of statements

The tree is built as text for isl.  Each mapped dimension has a variable; the generated code decomposes the
linear numbers of blocks and threads.  Filters of threads are below all barriers, so that all threads of a
block reach each barrier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from tc.ir.loops import Array, Block, Combine
from tc.poly.ast import Inserted, View
from tc.poly.context import union_set
from tc.poly.gpu import nodes, padded_domains
from tc.poly.gpu.bands import context
from tc.poly.gpu.coordinates import Tuple, band, relation, where
from tc.poly.gpu.insert import Insertions, started
from tc.poly.gpu.mapping import AxisMap, Unit, alone, several, tiled_axes
from tc.poly.gpu.nodes import Part, Tree
from tc.poly.gpu.private_memory import PartialResults
from tc.poly.gpu.promotion import PromotedRegion
from tc.poly.gpu.shared import Refused
from tc.poly.gpu.staging import own_tiles, stores
from tc.poly.gpu.sync import barriers


@dataclass(frozen=True, slots=True)
class Mapped:
    """The schedule tree of a region; the statements of its extension nodes, as functions of their point and
    views; the accesses that are redirected to other arrays; these arrays, and those that all threads write
    together (`common`); why other reads are not copied and other results not kept in registers."""

    schedule: isl.Schedule
    units: tuple[Unit, ...]
    inserted: Mapping[str, Inserted]
    views: Mapping[str, tuple[View, ...]]
    arrays: tuple[Array, ...]
    common: frozenset[str]
    refused: tuple[Refused, ...]
    spilled: tuple[str, ...]


def mapped(p: PromotedRegion) -> Mapped:
    """The schedule tree of a region with promoted arrays.  Use it, and the result, inside `isl_context()`."""
    run = (padded_domains.domain(p.scop, u, s, p.padded_statements) for u in p.units for s in u.statements)
    made = Insertions(p)
    tree = _tiles(made)
    if p.mapping.blocks or p.mapping.threads:
        tree = nodes.context(context(p), tree)
    whole = nodes.schedule(union_set(p.scop.ctx, run), tree)
    views = {**p.views(), **made.views}
    return Mapped(whole, p.units, made.made, views, p.arrays, p.common, p.refused, p.spilled)


def _tiles(into: Insertions) -> Tree:
    """The filter of a block, the band over its tiles, and below it `below`."""
    p = into.promoted
    names = [a.name for a in tiled_axes(p.region)]
    conditions: dict[Tuple, list[str]] = {}
    members: dict[str, dict[Tuple, str]] = {}
    banded: dict[str, AxisMap] = {}
    for u in p.units:
        for s in u.statements:
            t = p.instances(u, s)
            for a, m in u.axes:
                if a.name in names and several(a, m) and not alone(a, m):
                    members.setdefault(a.name, {})[t] = t.tile(a, m)
                    banded[a.name] = m
            every = (*u.axes, *u.own)
            conditions[t] = [f"{t.turn(a, m)} = {m.block}" for a, m in every if m.block is not None]
    blocks = [v for v, _ in p.mapping.blocks]
    order = [n for n in names if n in members]
    chosen = where(p.ctx, conditions, blocks)
    # The tile of a block in which each statement's instances are.
    outer = isl.UnionMap.empty_ctx(p.ctx)
    for u in p.units:
        for s in u.statements:
            t = p.instances(u, s)
            m = relation(p.ctx, t, [members[n][t] for n in order], "tiles")
            m = m.intersect_domain(p.scop.statement(s).domain)
            outer = outer.union(m.to_union_map().intersect_domain(chosen))
    tree = _sequence(into, outer, [(n, banded[n].tile) for n in order])
    if order:
        tree = nodes.banded(band(p.ctx, [members[n] for n in order]), tree)
    return nodes.filtered(chosen, tree) if any(conditions.values()) else tree


def _sequence(into: Insertions, outer: isl.UnionMap, tiles: Sequence[tuple[str, int]]) -> Tree:
    """The units in order, with barriers, transfers and combinations around each; `outer` maps instances to
    tiles of the axes `tiles`, each with the number of its points."""
    p = into.promoted
    needed = barriers(p)
    out: list[Part] = []
    for i, u in enumerate(p.units):
        if (barrier := needed.before[i]) is not None:
            out.append(into.opaque(f"sync{i}", barrier, outer))
        if not any(x.nest == u.nest for x in p.units[:i]):
            transferred = [k for k in p.private_arrays if k.nest == u.nest and k.load]
            out += [into.transfer(k, u, outer, load=True) for k in transferred]
        combined = [p.partial_results[s] for s in u.statements if s in p.partial_results]
        out += [into.opaque(f"start_{x.statement}", started(x), outer) for x in combined]
        below = own_tiles(into, u, i, outer, tiles)
        out.append(Part(where(p.ctx, {p.instances(u, s): () for s in u.statements}), below))
        if (over := _thread_reductions(combined)).body:
            out.append(into.opaque(f"combine{i}", over, outer))
        out += [into.result(x, u, outer) for x in combined]
        out += [into.transfer(r, u, outer, load=False) for r in p.replicated if r.stored == i]
        if not any(x.nest == u.nest for x in p.units[i + 1 :]):
            transferred = [k for k in p.private_arrays if k.nest == u.nest and k.store]
            out += [into.transfer(k, u, outer, load=False) for k in transferred]
    out += stores(into, outer, tiles, needed.written)
    if needed.done:
        out.append(into.opaque("done", needed.done, outer))
    return nodes.sequence(out)


def _thread_reductions(partial_results: Sequence[PartialResults]) -> Block:
    """The combinations of the threads' parts, one after the other, so that they may share barriers."""
    threads = list(dict.fromkeys(v for x in partial_results for v in x.threads))
    return Block(
        tuple(
            Combine(x.array.name, x.op, v, x.everywhere)
            for v in threads
            for x in partial_results
            if v in x.threads
        )
    )
