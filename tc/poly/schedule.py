"""Schedule trees: the identity (statements in order, each with its loops in order; report, Figure 3.a), and
that of fused loops."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tc.poly.affine import SET
from tc.poly.context import set_list, union_set
from tc.poly.fusion.fusion import Group
from tc.poly.scop import Scop, Statement


def identity_band(statement: Statement) -> isl.MultiUnionPwAff:
    """`S[i, j] -> [(i), (j)]`, with an anonymous range so that bands of several statements combine."""
    space = statement.domain.get_space()
    identity = isl.MultiAff.identity_on_domain_space(space).reset_tuple_id(isl.dim_type.out)
    return isl.MultiUnionPwAff.from_multi_aff(identity)


def identity(scop: Scop) -> isl.Schedule:
    """A sequence with one filter per statement, and below each one permutable band with its loops.

    A statement without instances (a zero extent) has no filter; a program of one statement no sequence.
    """
    live = [s for s in scop.statements if not s.domain.is_empty()]
    schedule = isl.Schedule.from_domain(scop.domain)
    if not live:
        return schedule
    node = schedule.get_root().child(0)
    if len(live) == 1:
        return _insert_band(node, live[0]).get_schedule()
    # Filters select statements; the domain node has their instances.
    filters = (isl.UnionSet.from_set(isl.Set.universe(s.domain.get_space())) for s in live)
    node = node.insert_sequence(set_list(scop.ctx, filters))
    for i, s in enumerate(live):
        node = _insert_band(node.child(i).child(0), s).ancestor(2)
    return node.get_schedule()


def _insert_band(node: isl.ScheduleNode, s: Statement) -> isl.ScheduleNode:
    if s.domain.dim(SET) == 0:
        return node
    return node.insert_partial_schedule(identity_band(s)).band_set_permutable(1)


def fused(scop: Scop, tree: Sequence[Group | str]) -> isl.Schedule:
    """The schedule tree of fused loops: a band for the loops of each group, a sequence for its body."""
    schedule = isl.Schedule.from_domain(scop.domain)
    if not tree:
        return schedule
    return _insert(scop, schedule.get_root().child(0), tree).get_schedule()


def _insert(scop: Scop, node: isl.ScheduleNode, body: Sequence[Group | str]) -> isl.ScheduleNode:
    """Insert the schedule of the statements of a leaf; returns the node that replaces it."""
    if len(body) == 1:
        (only,) = body
        if isinstance(only, str):
            return node
        band = node.insert_partial_schedule(_band(scop, only)).band_set_permutable(1)
        for i, m in enumerate(only.members):
            band = band.band_member_set_coincident(i, int(m.coincident))
        return _insert(scop, band.child(0), only.body).parent()
    filters = (
        union_set(
            scop.ctx,
            (
                isl.Set.universe(scop.statement(name).domain.get_space())
                for name in ((b,) if isinstance(b, str) else b.statements)
            ),
        )
        for b in body
    )
    node = node.insert_sequence(set_list(scop.ctx, filters))
    for i, b in enumerate(body):
        node = _insert(scop, node.child(i).child(0), (b,)).ancestor(2)
    return node


def _band(scop: Scop, group: Group) -> isl.MultiUnionPwAff:
    """`{ S[…] -> [(its variable of each member)] }` for the statements of a group."""
    total: isl.MultiUnionPwAff | None = None
    for name in group.statements:
        s = scop.statement(name)
        local = isl.LocalSpace.from_space(s.domain.get_space())
        affs = isl.AffList.alloc(scop.ctx, len(group.members))
        names = s.stage.domain.names
        for m in group.members:
            affs = affs.add(isl.Aff.var_on_domain(local, SET, names.index(m.vars[name])))
        space = s.domain.get_space().from_domain().add_dims(isl.dim_type.out, len(group.members))
        one = isl.MultiUnionPwAff.from_multi_aff(isl.MultiAff.from_aff_list(space, affs))
        total = one if total is None else total.union_add(one)
    assert total is not None
    return total
