# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""Loop fusion: which statements share which loops.

A greedy fuser over statements in program order.  At each level a statement joins an earlier group if some
of its loops can be matched with loops of the group such that every dependence between them has distance
zero there (every member of the permutable band is tried: "re-matching"), if no statement between needs to
run before it, and if the predicate agrees.  Inside a group the statements are fused again on what loops
they have left.

Dependences are taken from the access relations pair by pair: for statements in program order every conflict
is a dependence, so this is exact except for conflicts that a later write hides, which cost nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import islpy as isl

from tc.ir.evaluate import evaluate
from tc.ir.program import IterVar, Range
from tc.poly.affine import OUT, PARAM
from tc.poly.context import isl_context
from tc.poly.dependences import conflicts
from tc.poly.scop import Scop, Statement

IN = isl.dim_type.in_


@dataclass(frozen=True, slots=True)
class Member:
    """One loop that several statements share: the iteration variable it is of each statement.

    `coincident`: no statement has a dependence between its iterations.  `reductions` are the statements of
    which it is a loop of a reduction: they may run in any order, but update the same elements.
    """

    vars: Mapping[str, str]
    reductions: frozenset[str] = frozenset()

    @property
    def coincident(self) -> bool:
        return not self.reductions

    @property
    def name(self) -> str:
        return next(iter(self.vars.values()))


@dataclass(frozen=True, slots=True)
class Group:
    """Loops around a sequence of statements and further groups."""

    members: tuple[Member, ...]
    body: tuple[Group | str, ...]

    @property
    def statements(self) -> tuple[str, ...]:
        out: list[str] = []
        for b in self.body:
            out += (b,) if isinstance(b, str) else b.statements
        return tuple(out)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Two groups that could become one: what a predicate decides on.

    `first` and `second` are their statements, `before` and `own` their loops, `after` the loops that they
    would share.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    before: tuple[Member, ...]
    own: tuple[Member, ...]
    after: tuple[Member, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What predicates count, dynamic sizes taken at `typical` values."""

    scop: Scop
    typical: Mapping[str, int]

    def tasks(self, members: Iterable[Member]) -> int:
        """Points of the coincident ones of these loops: what can run in parallel."""
        return math.prod(self._extent(m) for m in members if m.coincident)

    def instances(self, statements: Iterable[str]) -> int:
        """Points of the boxes of these statements."""
        boxes = (self.scop.statement(n).stage.domain.vars for n in statements)
        return sum(math.prod(evaluate(v.range.extent, self.typical) for v in box) for box in boxes)

    def _extent(self, m: Member) -> int:
        name, var = next(iter(m.vars.items()))
        return evaluate(_axis(self.scop.statement(name), var).range.extent, self.typical)


Predicate = Callable[[Proposal], bool]
Strategy = Literal["max", "preserve3coincident", "min"]


def _fuse_always(_: Proposal) -> bool:
    return True


def _preserve3(p: Proposal) -> bool:
    """Fuse unless one of the groups would be left with fewer than three of its coincident loops."""
    return keeps_three(*(sum(m.coincident for m in ms) for ms in (p.before, p.own, p.after)))


def keeps_three(before: int, own: int, after: int) -> bool:
    """Whether two groups with so many coincident loops each keep three of them, or all, with `after`."""
    return after >= min(3, before) and after >= min(3, own)


def _fuse_never(_: Proposal) -> bool:
    return False


STRATEGIES: Mapping[str, Predicate] = {
    "max": _fuse_always,
    "preserve3coincident": _preserve3,
    "min": _fuse_never,
}


@dataclass(slots=True)
class _Item:
    """A group under construction: statements in program order, with the loops they share."""

    statements: list[Statement]
    members: list[dict[str, str]]  # each a loop: statement -> variable


@dataclass(slots=True)
class Fuser:
    """`fuse` with its state: the relations between pairs of statements, found once."""

    scop: Scop
    predicate: Predicate
    _zero: dict[tuple[str, str], frozenset[tuple[str, str]] | None] = field(
        default_factory=dict[tuple[str, str], "frozenset[tuple[str, str]] | None"]
    )
    _reads: dict[tuple[str, str], frozenset[tuple[str, str]]] = field(
        default_factory=dict[tuple[str, str], frozenset[tuple[str, str]]]
    )

    # Dependences of pairs.

    def related(self, s: Statement, t: Statement) -> frozenset[tuple[str, str]] | None:
        """As `zero_distance`, whichever of the two comes first."""
        if s.index < t.index:
            return self.zero_distance(s, t)
        pairs = self.zero_distance(t, s)
        return None if pairs is None else frozenset((a, b) for b, a in pairs)

    def zero_distance(self, s: Statement, t: Statement) -> frozenset[tuple[str, str]] | None:
        """The pairs of loops in which every dependence from `s` to `t` has distance zero; None where there
        is no dependence.  `s` comes before `t`."""
        key = (s.name, t.name)
        if key not in self._zero:
            self._zero[key] = self._find(s, t)
        return self._zero[key]

    def _find(self, s: Statement, t: Statement) -> frozenset[tuple[str, str]] | None:
        common: set[tuple[str, str]] | None = None
        for _, _, relation in conflicts(s, t):
            equal = _equal_dimensions(relation, s, t)
            common = equal if common is None else common & equal
        return None if common is None else frozenset(common)

    def shared_reads(self, s: Statement, t: Statement) -> frozenset[tuple[str, str]]:
        """Pairs of loops that run alike through data that both read."""
        key = (s.name, t.name)
        if key not in self._reads:
            out: set[tuple[str, str]] = set()
            for a in s.accesses:
                for b in t.accesses:
                    if a.buffer == b.buffer and a.kind == b.kind == "read" and not (a.unknown or b.unknown):
                        relation = a.map.apply_range(b.map.reverse())
                        if not relation.is_empty():
                            out |= _equal_dimensions(relation, s, t)
            self._reads[key] = frozenset(out)
        return self._reads[key]

    # Fusion.

    def fuse(
        self, statements: Sequence[Statement], used: Mapping[str, frozenset[str]], level: int
    ) -> tuple[Group | str, ...]:
        """The groups of one level: statements join groups whose loops they share all, then groups merge."""
        items: list[_Item | Statement] = []
        for s in statements:
            left = _offered(s, used[s.name])
            if not left:
                self._place(items, s)
                continue
            fresh = _Item([s], [{s.name: v.name} for v in left])
            if not self._join(items, fresh, used, level, whole=True):
                items.append(fresh)
        merged: list[_Item | Statement] = []
        for item in items:
            if isinstance(item, Statement) or not self._join(merged, item, used, level, whole=False):
                merged.append(item)
        self._sink(merged)
        return tuple(i.name if isinstance(i, Statement) else self._group(i, used, level) for i in merged)

    def _depends(self, earlier: _Item | Statement, later: _Item | Statement) -> bool:
        return any(self.related(e, s) is not None for e in _parts(earlier) for s in _parts(later))

    def _place(self, items: list[_Item | Statement], s: Statement) -> None:
        """A statement without loops goes as early as it can, where it separates the fewest others, until
        groups have merged (`_sink`)."""
        at = len(items)
        while at and not self._depends(items[at - 1], _Item([s], [])):
            at -= 1
        while at < len(items) and isinstance(items[at], Statement):
            at += 1
        items.insert(at, s)

    def _sink(self, items: list[_Item | Statement]) -> None:
        """Once groups have merged, statements without loops go where they are used: what starts a result can
        stay in registers until that is combined."""
        for i in reversed(range(len(items))):
            s = items[i]
            if isinstance(s, Statement):
                user = next((k for k in range(i + 1, len(items)) if self._depends(s, items[k])), i + 1)
                passed = ((k, items[k]) for k in range(i + 1, user))
                at = max((k for k, x in passed if isinstance(x, _Item) or x.index < s.index), default=i)
                items.insert(at, items.pop(i))

    def _join(
        self,
        items: list[_Item | Statement],
        new: _Item,
        used: Mapping[str, frozenset[str]],
        level: int,
        *,
        whole: bool,
    ) -> bool:
        """Put `new` into one of the groups before it; `whole`: only into one that keeps all its loops."""
        for item in reversed(items):
            if isinstance(item, _Item):
                members = self._match(item, new)
                fits = not whole or len(members) == len(item.members)
                if members and fits and self._uniform(item, new, members, used):
                    proposal = Proposal(
                        tuple(x.name for x in item.statements),
                        tuple(x.name for x in new.statements),
                        tuple(map(self._member, item.members)),
                        tuple(map(self._member, new.members)),
                        tuple(map(self._member, members)),
                        level,
                    )
                    if self.predicate(proposal):
                        item.statements = sorted([*item.statements, *new.statements], key=lambda s: s.index)
                        item.members = members
                        return True
            if self._depends(item, new):
                return False
        return False

    def _uniform(
        self, item: _Item, new: _Item, members: list[dict[str, str]], used: Mapping[str, frozenset[str]]
    ) -> bool:
        """A loop of a reduction is shared only innermost: tiles and lanes of what is inside would have to
        know."""
        if not any(self._member(m).reductions for m in members):
            return True
        return all(
            len(s.stage.domain.vars) - len(used[s.name]) == len(members)
            for s in (*item.statements, *new.statements)
        )

    def _match(self, item: _Item, new: _Item) -> list[dict[str, str]]:
        """The loops that two groups can share."""
        taken: set[int] = set()
        kept: list[dict[str, str]] = []
        for m in item.members:
            for i, v in enumerate(new.members):
                if i not in taken and self._same_range(m, v) and self._legal(item, m, new, v):
                    taken.add(i)
                    kept.append({**m, **v})
                    break
        return kept

    def _legal(self, item: _Item, m: Mapping[str, str], new: _Item, v: Mapping[str, str]) -> bool:
        related = False
        for e in item.statements:
            for s in new.statements:
                pairs = self.related(e, s)
                if pairs is not None:
                    if (m[e.name], v[s.name]) not in pairs:
                        return False
                    related = True
        # Without a dependence any two loops may be fused; it is worth it where they read the same data.
        return related or any(
            (m[e.name], v[s.name]) in self.shared_reads(e, s) for e in item.statements for s in new.statements
        )

    def _same_range(self, m: Mapping[str, str], v: Mapping[str, str]) -> bool:
        return self._range(m) == self._range(v)

    def _range(self, m: Mapping[str, str]) -> Range:
        name, var = next(iter(m.items()))
        return _axis(self.scop.statement(name), var).range

    def _member(self, m: Mapping[str, str]) -> Member:
        reductions = (n for n, v in m.items() if _axis(self.scop.statement(n), v).kind == "reduction")
        return Member(dict(m), frozenset(reductions))

    def _group(self, item: _Item, used: Mapping[str, frozenset[str]], level: int) -> Group:
        members = tuple(map(self._member, item.members))
        inner = {s.name: used[s.name] | {m[s.name] for m in item.members} for s in item.statements}
        return Group(members, self.fuse(item.statements, inner, level + 1))


def _parts(item: _Item | Statement) -> Sequence[Statement]:
    return [item] if isinstance(item, Statement) else item.statements


def _offered(s: Statement, used: frozenset[str]) -> tuple[IterVar, ...]:
    """The loops a statement may share at this level: its parallel ones first, then those of a reduction."""
    left = [v for v in s.stage.domain.vars if v.name not in used]
    pure = tuple(v for v in left if v.kind == "pure")
    return pure or tuple(left)


def _axis(s: Statement, name: str) -> IterVar:
    return next(v for v in s.stage.domain.vars if v.name == name)


def _equal_dimensions(relation: isl.Map, s: Statement, t: Statement) -> set[tuple[str, str]]:
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


def named(predicate: Predicate | Strategy) -> Predicate:
    """A predicate, or the strategy of this name."""
    return STRATEGIES[predicate] if isinstance(predicate, str) else predicate


def fuse(scop: Scop, predicate: Predicate | Strategy) -> tuple[Group | str, ...]:
    """The fused loops of a scop's statements that have instances, in an order that keeps all dependences.

    `predicate` decides between what is legal: a strategy of the report or a function of a `Proposal`.
    Use inside `isl_context()`.
    """
    chosen = named(predicate)
    with isl_context():
        live = [s for s in scop.statements if not s.domain.is_empty()]
        return Fuser(scop, chosen).fuse(live, {s.name: frozenset() for s in live}, 0)
