"""Data dependences between statement instances, by array dataflow analysis (Feautrier, 1991; isl's
`compute_flow`).

The dependences between the updates of one element by one associative reduction are kept apart: these may
run in any order.  For the same reason such an update hides no earlier write: whatever came before the
reduction comes before each of its instances, and what reads the result comes after each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy as isl

from tc.poly.affine import OUT
from tc.poly.context import GaveUp, given_up_after, isl_context, maps_of, union_map
from tc.poly.scop import Access, Scop, Statement

_MOST_PIECES = 4  # of a domain
_OPERATIONS = 10**6  # of isl for one kind of dependences, about a second


@dataclass(frozen=True, slots=True, eq=False)
class Dependences:
    """Relations from instances that must run earlier to instances that must run later.

    `raw`, `war`, `waw`: read after write, write after read, write after write.  `reductions`: between
    instances of one reduction that update one element, in program order, which need not be kept.
    `exact`: a write hides those before it; else all conflicts in order are here.
    """

    raw: isl.UnionMap
    war: isl.UnionMap
    waw: isl.UnionMap
    reductions: isl.UnionMap
    exact: bool = True

    @property
    def validity(self) -> isl.UnionMap:
        """The dependences that every schedule must respect."""
        return self.raw.union(self.war).union(self.waw).coalesce()

    @property
    def proximity(self) -> isl.UnionMap:
        """The dependences whose distances should be short."""
        return self.raw.union(self.waw).union(self.reductions)

    def dump(self) -> str:
        """The relations as text, in a fixed order."""
        named = (("raw", self.raw), ("war", self.war), ("waw", self.waw), ("reductions", self.reductions))
        lines: list[str] = [] if self.exact else ["all conflicts in order, also those that a write hides"]
        for name, relation in named:
            lines.append(f"{name}:")
            with isl_context():
                lines += sorted(f"  {m.coalesce()}" for m in maps_of(relation) if not m.is_empty())
        return "\n".join(lines) + "\n"


def dependences(scop: Scop) -> Dependences:
    """The dependences of a scop.  Call it, and use the result, inside `isl_context()`."""
    with isl_context() as ctx:
        order = scop.original_schedule()
        writes = scop.relation("write")
        written = isl.UnionSet.universe(writes.range())
        reads = scop.relation("read", "update").intersect_range(written)
        hiding = union_map(ctx, (s.write.map for s in scop.statements if s.write.must and not s.reduction))
        other = union_map(ctx, (s.write.map for s in scop.statements if not s.write.must or s.reduction))

        # Finding the last write takes isl minutes where domains have many pieces.
        exact = all(s.domain.n_basic_set() <= _MOST_PIECES for s in scop.statements)

        def last(sink: isl.UnionMap, must: isl.UnionMap | None, may: isl.UnionMap) -> isl.UnionMap | None:
            """The instances that `sink` depends on, without those hidden by a later write; None if that takes
            too long."""
            info = isl.UnionAccessInfo.from_sink(sink).set_may_source(may)
            if must is not None:
                info = info.set_must_source(must)
            try:
                with given_up_after(_OPERATIONS):
                    return info.set_schedule_map(order).compute_flow().get_may_dependence()
            except GaveUp:
                return None

        def flow(sink: isl.UnionMap, must: isl.UnionMap | None, may: isl.UnionMap) -> isl.UnionMap:
            nonlocal exact
            if sink.is_empty():
                return isl.UnionMap.empty_ctx(ctx)
            found = last(sink, must, may) if exact else None
            if found is None:
                exact = False
                sources = may if must is None else may.union(must)
                found = sources.apply_range(sink.reverse()).intersect(order.lex_lt_union_map(order))
            return _without_reductions(scop, found)

        raw = flow(reads, hiding, other)
        war = flow(writes, None, reads)
        waw = flow(writes, hiding, other)
        own = [(s, a.map) for s, a in scop.accesses("read") if s.reduction and a.buffer == s.write.buffer]
        raw = raw.union(union_map(ctx, (_earlier(s.write.map, m) for s, m in own)))
        war = war.union(union_map(ctx, (_earlier(m, s.write.map) for s, m in own)))
        reductions = union_map(
            ctx, (_earlier(s.write.map, s.write.map) for s in scop.statements if s.reduction)
        )
        return Dependences(raw, war, waw, reductions, exact)


def conflicts(first: Statement, second: Statement) -> Iterator[tuple[Access, Access, isl.Map]]:
    """Pairs of instances of two statements (or of one) that access one element, one of them a write, with the
    accesses.  Use it inside `isl_context()`."""
    seen: list[tuple[isl.Map, isl.Map]] = []
    for a in first.accesses:
        for b in second.accesses:
            if a.buffer != b.buffer or "write" not in (a.kind, b.kind):
                continue
            if not any(x is a.map and y is b.map for x, y in seen):
                seen.append((a.map, b.map))
                relation = a.map.apply_range(b.map.reverse())
                if not relation.is_empty():
                    yield a, b, relation


def _earlier(first: isl.Map, second: isl.Map) -> isl.Map:
    """Pairs of instances of one statement that access one element, the lexicographically earlier one
    first."""
    pairs = first.apply_range(second.reverse())
    return pairs.intersect(isl.Map.lex_lt(first.domain().get_space()))


def _without_reductions(scop: Scop, relation: isl.UnionMap) -> isl.UnionMap:
    """The relation without the dependences of a reduction on itself."""
    reductions: dict[str, Statement] = {s.name: s for s in scop.statements if s.reduction}
    kept = [
        m
        for m in maps_of(relation)
        if not (
            m.get_tuple_name(isl.dim_type.in_) == m.get_tuple_name(OUT)
            and m.get_tuple_name(OUT) in reductions
        )
    ]
    return union_map(scop.ctx, kept)
