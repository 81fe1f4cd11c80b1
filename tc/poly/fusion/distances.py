"""Dependence distances: in which pairs of loops of two statements all dependences have distance zero.

Dependences are computed from the access relations, pair by pair: of statements in program order every
conflict is a memory-based dependence.  This is exact except for conflicts with a write between them, which
are harmless here.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from functools import reduce

import islpy as isl

from tc.poly.affine import OUT, PARAM
from tc.poly.dependences import conflicts
from tc.poly.scop import Access, Statement

IN = isl.dim_type.in_

Pairs = frozenset[tuple[str, str]]  # of loops, by the names of their variables
Conflict = tuple[Access, Access, Pairs]


@dataclass(frozen=True, slots=True)
class Distances:
    """Dependences and shared reads of pairs of statements of one scop, each computed once.  Use it inside
    `isl_context()`."""

    _conflicts: dict[tuple[str, str], tuple[Conflict, ...]] = field(
        default_factory=dict[tuple[str, str], "tuple[Conflict, ...]"], init=False
    )
    _reads: dict[tuple[str, str], Pairs] = field(default_factory=dict[tuple[str, str], Pairs], init=False)

    def related(self, s: Statement, t: Statement) -> Pairs | None:
        """As `zero_distance`, in any order of the two statements."""
        if s.index < t.index:
            return self.zero_distance(s, t)
        pairs = self.zero_distance(t, s)
        return None if pairs is None else frozenset((a, b) for b, a in pairs)

    def zero_distance(self, s: Statement, t: Statement) -> Pairs | None:
        """The pairs of loops in which every dependence from `s` to `t` has distance zero; None where there
        is no dependence.  `s` comes before `t`."""
        found = self.conflicts(s, t)
        return reduce(lambda a, b: a & b, (pairs for _, _, pairs in found)) if found else None

    def conflicts(self, s: Statement, t: Statement) -> tuple[Conflict, ...]:
        """The pairs of conflicting accesses of `s` and of `t` after it, each with the pairs of loops in which
        the dependence has distance zero.

        The loop of a reduction is not among them, unless the other statement updates by the same operator:
        the result is there behind the loop, where partial results are combined, even if an instance is alone.
        """
        key = (s.name, t.name)
        if key not in self._conflicts:
            self._conflicts[key] = tuple(
                (a, b, _shareable(equal_dimensions(relation, s, t), (s, a), (t, b)))
                for a, b, relation in conflicts(s, t)
            )
        return self._conflicts[key]

    def shared_reads(self, s: Statement, t: Statement) -> Pairs:
        """Pairs of loops with equal values wherever both statements read the same element."""
        key = (s.name, t.name)
        if key not in self._reads:
            out: set[tuple[str, str]] = set()
            for a in s.accesses:
                for b in t.accesses:
                    if a.buffer == b.buffer and a.kind == b.kind == "read" and not (a.unknown or b.unknown):
                        relation = a.map.apply_range(b.map.reverse())
                        if not relation.is_empty():
                            out |= equal_dimensions(relation, s, t)
            self._reads[key] = frozenset(out)
        return self._reads[key]


def _shareable(pairs: Set[tuple[str, str]], *ends: tuple[Statement, Access]) -> Pairs:
    """The pairs without loops of reductions that compute what the other statement accesses."""
    if all(a.kind != "read" for _, a in ends) and len({s.stage.op for s, _ in ends}) == 1:
        return frozenset(pairs)
    loops = [
        {v.name for v in s.stage.domain.vars if v.kind == "reduction"} if a.kind != "read" else set[str]()
        for s, a in ends
    ]
    return frozenset(p for p in pairs if not any(v in own for v, own in zip(p, loops, strict=True)))


def equal_dimensions(relation: isl.Map, s: Statement, t: Statement) -> set[tuple[str, str]]:
    """Pairs of loops whose values are equal wherever the relation holds (from its affine hull)."""
    hull = relation.affine_hull()
    matrix = hull.equalities_matrix(isl.dim_type.cst, PARAM, IN, OUT, isl.dim_type.div)
    skip = 1 + hull.dim(PARAM)
    n_in, n_out, n_div = hull.dim(IN), hull.dim(OUT), hull.dim(isl.dim_type.div)
    width = skip + n_in + n_out + n_div
    rows = [
        [int(matrix.get_element_val(r, c).to_python()) for c in range(width)] for r in range(matrix.rows())
    ]
    basis = _echelon(rows)
    out: set[tuple[str, str]] = set()
    for i, u in enumerate(s.stage.domain.vars):
        for j, v in enumerate(t.stage.domain.vars):
            wanted = [0] * width
            wanted[skip + i], wanted[skip + n_in + j] = 1, -1
            if not any(_eliminate(basis, wanted)):
                out.add((u.name, v.name))
    return out


def _echelon(rows: list[list[int]]) -> list[tuple[int, list[int]]]:
    """Row echelon form over the integers: (pivot column, row)."""
    basis: list[tuple[int, list[int]]] = []
    for row in rows:
        rest = _eliminate(basis, row)
        pivot = next((c for c, x in enumerate(rest) if x), None)
        if pivot is not None:
            basis.append((pivot, rest))
    return basis


def _eliminate(basis: list[tuple[int, list[int]]], row: list[int]) -> list[int]:
    for pivot, b in basis:
        if row[pivot]:
            k, scale = row[pivot], b[pivot]
            row = [scale * x - k * y for x, y in zip(row, b, strict=True)]
    return row
