"""Fusion diagnostics: why two groups of loops were not fused, as text for users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tc.poly.context import isl_context
from tc.poly.fusion.distances import Distances
from tc.poly.fusion.fusion import Fuser, FusionPolicy, Group, Item
from tc.poly.scop import Scop, Statement

_DONE = {"read": "reads", "update": "updates", "write": "writes"}


def fusion_diagnostics(
    scop: Scop,
    groups: Sequence[Group | str],
    distances: Distances,
    policy: FusionPolicy,
    *,
    unrelated: bool = False,
) -> tuple[str, ...]:
    """Why each group of loops was not fused with an earlier one: a line for each group after the first, by
    the names of statements.

    `groups` are the result of `fusion.fuse` with `distances`, `policy` and `unrelated`.  A group is compared
    with the last one before it that it depends on, else with the one before it.
    """
    fuser = Fuser(scop, policy, distances, unrelated)
    out: list[str] = []
    before: list[Item] = []
    with isl_context():
        for g in groups:
            if isinstance(g, str):
                continue  # no loops, so none to share
            new = Item([scop.statement(s) for s in g.statements], [dict(m.vars) for m in g.members])
            if before:
                old = next((b for b in reversed(before) if fuser.depends(b, new)), before[-1])
                out.append(f"{_names(new)} apart from {_names(old)}: {_why(fuser, old, new)}")
            before.append(new)
    return tuple(out)


def _why(fuser: Fuser, old: Item, new: Item) -> str:
    shared = fuser.match(old, new)
    if shared:
        loops = ", ".join("/".join(dict.fromkeys(m.values())) for m in shared)
        if not fuser.uniform(old, new, shared, defaultdict(frozenset)):
            return f"they could share {loops}, of a reduction, which is done where both have no others"
        why = fuser.policy.why(fuser.proposal(old, new, shared, 0))
        return f"they could share {loops}: {why or 'what runs between them keeps them apart'}"
    alike = [(m, v) for m in old.members for v in new.members if fuser.same_range(m, v)]
    if not alike:
        return "no loop of the one has the range of a loop of the other"
    for t in new.statements:
        for s in old.statements:
            first, second = (s, t) if s.index < t.index else (t, s)
            pairs = {(m[s.name], v[t.name]) for m, v in alike}
            if found := _crossed(
                fuser.distances, first, second, pairs if first is s else {(b, a) for a, b in pairs}
            ):
                return found
    if any(fuser.distances.related(s, t) is not None for s in old.statements for t in new.statements):
        return "no loop runs alike through all that they pass on"
    return "they pass nothing on, and read nothing alike"


def _crossed(distances: Distances, s: Statement, t: Statement, pairs: set[tuple[str, str]]) -> str:
    """Two accesses with a dependence of nonzero distance in all these pairs of loops, as text; "" if none."""
    for a, b, equal in distances.conflicts(s, t):
        if not pairs & equal:
            done = f"{t.name} {_DONE[b.kind]} elements of {a.buffer}"
            return f"{done} that {s.name} {_DONE[a.kind]} at other points of their loops"
    return ""


def _names(i: Item) -> str:
    return ", ".join(s.name for s in i.statements)
