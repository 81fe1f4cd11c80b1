"""The oracles of schedules: dependences are respected, every instance runs exactly once.

The rules of the language for programs are in `checks.py`, the oracle of loop nests is `tc.poly.trace`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy as isl

from tc.errors import InternalError
from tc.poly.affine import OUT, PARAM
from tc.poly.context import isl_context, maps_of, sets_of
from tc.poly.dependences import Dependences
from tc.poly.examples import example, instance_text, pair
from tc.poly.scop import Scop

IN = isl.dim_type.in_


@dataclass(frozen=True, slots=True)
class Violation:
    """Two instances in the wrong order, or one that does not run exactly once."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def respects(scop: Scop, schedule: isl.Schedule | isl.UnionMap, dependences: Dependences) -> Violation | None:
    """None if the schedule runs the source of every dependence before its sink, else an offending pair.

    The schedule must have no extension nodes.
    """
    with isl_context():
        time = schedule.get_map() if isinstance(schedule, isl.Schedule) else schedule
        late = time.lex_ge_union_map(time)
        named = (("raw", dependences.raw), ("war", dependences.war), ("waw", dependences.waw))
        for kind, relation in named:
            for m in maps_of(relation.intersect(late)):
                found = pair(scop.parameters, m)
                if found is None:
                    continue
                source, sink = found
                first = instance_text(scop, m.get_tuple_name(IN), source.point)
                second = instance_text(scop, m.get_tuple_name(OUT), sink.point)
                return Violation(kind, f"{second} does not run after {first}{source.for_sizes}")
            # An instance that the schedule does not know cannot run late: `covers` is about those.
        return None


def covers(scop: Scop, schedule: isl.Schedule) -> Violation | None:
    """None if each instance of the scop's domain runs exactly once, else an offending instance.

    Parameters that the scop does not have are coordinates of the mapping (block and thread numbers):
    exactly one assignment of them must run an instance.
    """
    with isl_context() as ctx:
        covered = isl.UnionSet.empty_ctx(ctx)
        known = set(scop.parameters.values)
        own = {s.name for s in scop.statements}
        for leaf in _leaves(schedule.get_root()):
            for s in sets_of(leaf.get_domain()):
                if s.get_tuple_name() not in own or s.is_empty():
                    continue
                s = s.intersect_params(_context_at(leaf, s))
                if not _one_each(s, known):
                    return Violation("repeated", f"several threads run {s.get_tuple_name()}")
                s = _project(s, known)
                twice = sets_of(covered.intersect(isl.UnionSet.from_set(s)))
                for t in twice:
                    if not t.is_empty():
                        return _instance(scop, "repeated", t)
                covered = covered.union(isl.UnionSet.from_set(s))
        for missing in sets_of(scop.domain.subtract(covered)):
            if not missing.is_empty():
                return _instance(scop, "missing", missing)
        for extra in sets_of(covered.subtract(scop.domain)):
            if not extra.is_empty():
                return _instance(scop, "outside the domain", extra)
        return None


def verify(scop: Scop, schedule: isl.Schedule, dependences: Dependences, after: str) -> None:
    """Both oracles; InternalError (TC0904) names the pass that broke the schedule."""
    for violation in (covers(scop, schedule), respects(scop, schedule, dependences)):
        if violation is not None:
            raise InternalError(f"{after} made an illegal schedule: {violation}", code="TC0904")


def _leaves(node: isl.ScheduleNode) -> Iterator[isl.ScheduleNode]:
    if node.get_type() == isl.schedule_node_type.leaf:
        yield node
        return
    for i in range(node.n_children()):
        yield from _leaves(node.child(i))


def _context_at(node: isl.ScheduleNode, s: isl.Set) -> isl.Set:
    """The constraints on parameters of the context nodes above a node."""
    total = isl.Set.universe(s.params().get_space())
    while node.has_parent():
        node = node.parent()
        if node.get_type() == isl.schedule_node_type.context:
            total = total.intersect(node.context_get_context().params())
    return total


def _foreign(s: isl.Set, known: set[str]) -> list[int]:
    return [i for i in range(s.dim(PARAM)) if s.get_dim_name(PARAM, i) not in known]


def _project(s: isl.Set, known: set[str]) -> isl.Set:
    for i in reversed(_foreign(s, known)):
        s = s.project_out(PARAM, i, 1)
    return s


def _one_each(s: isl.Set, known: set[str]) -> bool:
    """Whether every instance has exactly one value of the parameters that are not the scop's."""
    foreign = _foreign(s, known)
    if not foreign:
        return True
    relation = isl.Map.from_domain(s)
    for n, i in enumerate(reversed(foreign)):
        relation = relation.move_dims(OUT, n, PARAM, i, 1)
    return bool(relation.is_single_valued())


def _instance(scop: Scop, kind: str, where: isl.Set) -> Violation:
    found = example(scop.parameters, where)
    assert found is not None
    return Violation(kind, instance_text(scop, where.get_tuple_name(), found.point) + found.for_sizes)


__all__ = [
    "Violation",
    "covers",
    "respects",
    "verify",
]
