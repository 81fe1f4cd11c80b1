"""Loop fusion: which statements share which loops.

A greedy algorithm fuses statements in program order.  At each level a statement joins an earlier group if
some of its loops match loops of the group such that every dependence between them has distance zero there
(every member of the permutable band is tried: "re-matching"), if no statement between them must run before
it, and if the fusion policy agrees.  Inside a group the statements are fused again on their remaining loops.

Dependence distances are those of `tc.poly.fusion.distances`; `tc.poly.fusion.fusion_diagnostics` explains why
groups were not fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from tc.errors import ArgumentError
from tc.ir.evaluate import evaluate
from tc.ir.program import IterVar, Range
from tc.poly.context import isl_context
from tc.poly.fusion.distances import Distances
from tc.poly.scop import Scop, Statement


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a schedule band, a loop that several statements share: `vars` has its variable in each.

    `coincident`: no statement has a dependence between iterations.  In the statements `reductions` it is the
    loop of a reduction: iterations may run in any order, but update the same elements.
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
    """Two groups that can be fused, for a predicate to decide on.

    `first` and `second` are their statements, `before` and `own` their loops, `after` the loops that they
    would share, `level` the number of groups around them.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    before: tuple[Member, ...]
    own: tuple[Member, ...]
    after: tuple[Member, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers that policies decide by, with dynamic sizes at their `typical` values."""

    scop: Scop
    typical: Mapping[str, int]

    def tasks(self, members: Iterable[Member]) -> int:
        """The number of points of the coincident loops, which can run in parallel."""
        return math.prod(self._extent(m) for m in members if m.coincident)

    def instances(self, statements: Iterable[str]) -> int:
        """The number of points of the boxes of these statements."""
        boxes = (self.scop.statement(n).stage.domain.vars for n in statements)
        return sum(math.prod(evaluate(v.range.extent, self.typical) for v in box) for box in boxes)

    def _extent(self, m: Member) -> int:
        name, var = next(iter(m.vars.items()))
        return evaluate(_axis(self.scop.statement(name), var).range.extent, self.typical)


Predicate = Callable[[Proposal], bool]
Strategy = Literal["max", "preserve3coincident", "min"]


@dataclass(frozen=True, slots=True)
class FusionPolicy:
    """Decides whether two groups are fused: `why` returns the reason why not, empty where they are."""

    why: Callable[[Proposal], str]


def policy_of(of: Predicate | Strategy | FusionPolicy) -> FusionPolicy:
    """The policy of a strategy or predicate, which are values of the option `fusion`; a policy itself as it
    is."""
    if isinstance(of, FusionPolicy):
        return of
    predicate = STRATEGIES[of] if isinstance(of, str) else of
    decider = f"the strategy '{of}'" if isinstance(of, str) else "the function that option fusion is"
    return FusionPolicy(lambda p: "" if asked(predicate, p) else f"{decider} keeps them apart")


def asked(predicate: Predicate, p: Proposal) -> bool:
    """The answer of a predicate, which may be the caller's.  Raises ArgumentError (TC0511) unless it is a
    bool."""
    try:
        answer = cast("object", predicate(p))
    except Exception as e:
        raise _unanswered(f"raised {type(e).__name__}: {e}") from e
    if not isinstance(answer, bool):
        raise _unanswered(f"returned {answer!r}")
    return answer


def _unanswered(what: str) -> ArgumentError:
    help = "it is given a Proposal (tc.poly.fusion.fusion) and returns whether its statements share loops"
    return ArgumentError(f"the function that option fusion is {what}", code="TC0511", help=help)


def _fuse_always(_: Proposal) -> bool:
    return True


def _preserve3(p: Proposal) -> bool:
    """Fuse unless one of the groups would keep fewer than three of its coincident loops."""
    return keeps_three(*(sum(m.coincident for m in ms) for ms in (p.before, p.own, p.after)))


def keeps_three(before: int, own: int, after: int) -> bool:
    """Whether two groups with `before` and `own` coincident loops keep three, or all, if they share
    `after`."""
    return after >= min(3, before) and after >= min(3, own)


def _fuse_never(_: Proposal) -> bool:
    return False


STRATEGIES: Mapping[str, Predicate] = {
    "max": _fuse_always,
    "preserve3coincident": _preserve3,
    "min": _fuse_never,
}


@dataclass(slots=True)
class Item:
    """A group under construction: statements in program order, with the loops they share."""

    statements: list[Statement]
    members: list[dict[str, str]]  # each a loop: statement -> variable


@dataclass(slots=True)
class Fuser:
    """The fusion algorithm; `unrelated`: groups without common data are candidates, too."""

    scop: Scop
    policy: FusionPolicy
    distances: Distances
    unrelated: bool = False

    def fuse(
        self, statements: Sequence[Statement], used: Mapping[str, frozenset[str]], level: int
    ) -> tuple[Group | str, ...]:
        """The groups of one level: statements join groups all of whose loops they share, then groups
        merge."""
        items: list[Item | Statement] = []
        for s in statements:
            left = _offered(s, used[s.name])
            if not left:
                self._place(items, s)
                continue
            fresh = Item([s], [{s.name: v.name} for v in left])
            if not self._join(items, fresh, used, level, whole=True):
                items.append(fresh)
        merged: list[Item | Statement] = []
        while len(merged) != len(items):  # a group that has grown may be one that an earlier group can take
            items, merged = merged or items, []
            for item in items:
                if isinstance(item, Statement) or not self._join(merged, item, used, level, whole=False):
                    merged.append(item)
        self._sink(merged)
        return tuple(i.name if isinstance(i, Statement) else self._group(i, used, level) for i in merged)

    def depends(self, earlier: Item | Statement, later: Item | Statement) -> bool:
        """Whether any two of their statements have a dependence."""
        return any(self.distances.related(e, s) is not None for e in _parts(earlier) for s in _parts(later))

    def _place(self, items: list[Item | Statement], s: Statement) -> None:
        """Insert a statement without loops as early as dependences allow, where it separates the fewest
        groups that could merge; `_sink` moves it later."""
        at = len(items)
        while at and not self.depends(items[at - 1], Item([s], [])):
            at -= 1
        while at < len(items) and isinstance(items[at], Statement):
            at += 1
        items.insert(at, s)

    def _sink(self, items: list[Item | Statement]) -> None:
        """Move statements without loops to just before their first use, after groups have merged: the initial
        value of a result can then stay in registers until it is updated."""
        for i in reversed(range(len(items))):
            s = items[i]
            if isinstance(s, Statement):
                user = next((k for k in range(i + 1, len(items)) if self.depends(s, items[k])), i + 1)
                passed = ((k, items[k]) for k in range(i + 1, user))
                at = max((k for k, x in passed if isinstance(x, Item) or x.index < s.index), default=i)
                items.insert(at, items.pop(i))

    def _join(
        self,
        items: list[Item | Statement],
        new: Item,
        used: Mapping[str, frozenset[str]],
        level: int,
        *,
        whole: bool,
    ) -> bool:
        """Fuse `new` with one of the groups before it; `whole`: only with one that keeps all of its loops."""
        for item in reversed(items):
            if isinstance(item, Item):
                members = self.match(item, new)
                fits = not whole or len(members) == len(item.members)
                legal = members and fits and self.uniform(item, new, members, used)
                if legal and not self.policy.why(self.proposal(item, new, members, level)):
                    item.statements = sorted([*item.statements, *new.statements], key=lambda s: s.index)
                    item.members = members
                    return True
            if self.depends(item, new):
                return False
        return False

    def proposal(self, item: Item, new: Item, shared: list[dict[str, str]], level: int) -> Proposal:
        """The proposal that two groups share these loops."""
        return Proposal(
            tuple(x.name for x in item.statements),
            tuple(x.name for x in new.statements),
            tuple(map(self._member, item.members)),
            tuple(map(self._member, new.members)),
            tuple(map(self._member, shared)),
            level,
        )

    def uniform(
        self, item: Item, new: Item, members: list[dict[str, str]], used: Mapping[str, frozenset[str]]
    ) -> bool:
        """Whether loops of reductions are shared only as innermost loops.

        Statements in loops inside of them would have to be tiled and vectorised with them.
        """
        if not any(self._member(m).reductions for m in members):
            return True
        return all(
            len(s.stage.domain.vars) - len(used[s.name]) == len(members)
            for s in (*item.statements, *new.statements)
        )

    def match(self, item: Item, new: Item) -> list[dict[str, str]]:
        """The loops that two groups can share."""
        taken: set[int] = set()
        kept: list[dict[str, str]] = []
        for m in item.members:
            for i, v in enumerate(new.members):
                if i not in taken and self.same_range(m, v) and self._legal(item, m, new, v):
                    taken.add(i)
                    kept.append({**m, **v})
                    break
        return kept

    def _legal(self, item: Item, m: Mapping[str, str], new: Item, v: Mapping[str, str]) -> bool:
        related = False
        for e in item.statements:
            for s in new.statements:
                pairs = self.distances.related(e, s)
                if pairs is not None:
                    if (m[e.name], v[s.name]) not in pairs:
                        return False
                    related = True
        # Without a dependence any two loops may be fused; it pays if they read the same data, or if fusion
        # saves something other than data traffic, such as launches.
        return (
            related
            or self.unrelated
            or any(
                (m[e.name], v[s.name]) in self.distances.shared_reads(e, s)
                for e in item.statements
                for s in new.statements
            )
        )

    def same_range(self, m: Mapping[str, str], v: Mapping[str, str]) -> bool:
        return self._range(m) == self._range(v)

    def _range(self, m: Mapping[str, str]) -> Range:
        name, var = next(iter(m.items()))
        return _axis(self.scop.statement(name), var).range

    def _member(self, m: Mapping[str, str]) -> Member:
        reductions = (n for n, v in m.items() if _axis(self.scop.statement(n), v).kind == "reduction")
        return Member(dict(m), frozenset(reductions))

    def _group(self, item: Item, used: Mapping[str, frozenset[str]], level: int) -> Group:
        members = tuple(map(self._member, item.members))
        inner = {s.name: used[s.name] | {m[s.name] for m in item.members} for s in item.statements}
        return Group(members, self.fuse(item.statements, inner, level + 1))


def _parts(item: Item | Statement) -> Sequence[Statement]:
    return [item] if isinstance(item, Statement) else item.statements


def _offered(s: Statement, used: frozenset[str]) -> tuple[IterVar, ...]:
    """The loops that a statement may share at this level: its parallel ones, else those of a reduction."""
    left = [v for v in s.stage.domain.vars if v.name not in used]
    pure = tuple(v for v in left if v.kind == "pure")
    return pure or tuple(left)


def _axis(s: Statement, name: str) -> IterVar:
    return next(v for v in s.stage.domain.vars if v.name == name)


def fuse(
    scop: Scop,
    wanted: Predicate | Strategy | FusionPolicy,
    distances: Distances | None = None,
    *,
    unrelated: bool = False,
) -> tuple[Group | str, ...]:
    """The fused loops of a scop's statements that have instances, in an order that keeps all dependences.

    `wanted` decides which legal fusions are made: a strategy of the report, a function of a `Proposal` or a
    policy.  `distances` are those of this scop, if some are known.  `unrelated`: groups without a dependence
    or common reads are fused, too.  Use it inside `isl_context()`.
    """
    with isl_context():
        live = [s for s in scop.statements if not s.domain.is_empty()]
        return Fuser(scop, policy_of(wanted), distances or Distances(), unrelated).fuse(
            live, {s.name: frozenset() for s in live}, 0
        )
