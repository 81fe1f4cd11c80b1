# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""The identity schedule tree: statements in order, each with its loops in order (report, Figure 3.a)."""

from __future__ import annotations

import islpy as isl

from tc.poly.affine import SET
from tc.poly.context import set_list
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
    # Filters select statements; which of their instances exist is the domain node's to say.
    filters = (isl.UnionSet.from_set(isl.Set.universe(s.domain.get_space())) for s in live)
    node = node.insert_sequence(set_list(scop.ctx, filters))
    for i, s in enumerate(live):
        node = _insert_band(node.child(i).child(0), s).ancestor(2)
    return node.get_schedule()


def _insert_band(node: isl.ScheduleNode, s: Statement) -> isl.ScheduleNode:
    if s.domain.dim(SET) == 0:
        return node
    return node.insert_partial_schedule(identity_band(s)).band_set_permutable(1)
