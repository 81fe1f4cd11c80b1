# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""Barriers: where a thread needs what another thread of its block, or of its warp, did, or must not disturb
it yet.

The test is exact: two units conflict if instances of them that touch one element, one of them writing it, run
on different threads.  As the axes whose tiles go to blocks are coincident, such instances are of one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from tc.errors import InternalError
from tc.ir.loops import WARP, Sync
from tc.poly.dependences import conflicts
from tc.poly.mapping.coordinates import Tuple, of_statement, relation
from tc.poly.mapping.plan import AxisMap, Unit
from tc.poly.plan import Axis
from tc.poly.scop import Access, Scop


def threads_of(t: Tuple, axes: Sequence[tuple[Axis, AxisMap]], variables: Sequence[str]) -> list[str]:
    """The values of the thread variables on which an instance runs: 0 of those that no axis uses."""
    found = {m.thread: t.thread(a, m) for a, m in axes if m.thread is not None}
    return [found.get(v, "0") for v in variables]


def barriers(
    scop: Scop, units: Sequence[Unit], threads: Sequence[tuple[str, int]]
) -> tuple[Sync | None, ...]:
    """The barriers that must stand before units: as few as there can be, each as late as it can be, and of
    warps where conflicts are between threads of one.

    Raises InternalError (TC0904) where a unit conflicts with itself.
    """
    variables = [v for v, _ in threads]
    places = {s: Place.of(scop, u, s, variables) for u in units for s in u.statements}
    warps = _warps(scop.ctx, threads)
    out: list[Sync | None] = []
    last = last_of_warps = 0
    for i, u in enumerate(units):
        for s, t in _crossing(scop, u, u, places):
            raise InternalError(f"threads of one unit conflict: {s} and {t}", code="TC0904")
        if any(True for before in units[last:i] for _ in _crossing(scop, before, u, places, warps)):
            last = last_of_warps = i
            out.append(Sync())
        elif any(True for before in units[last_of_warps:i] for _ in _crossing(scop, before, u, places)):
            last_of_warps = i
            out.append(Sync(warp=True))
        else:
            out.append(None)
    return tuple(out)


def _warps(ctx: isl.Context, threads: Sequence[tuple[str, int]]) -> isl.Map:
    """The values of the thread variables to the number of the warp."""
    names = [f"t{i}" for i in range(len(threads))]
    terms, stride = ["0"], 1
    for name, (_, n) in zip(names, threads, strict=True):
        terms.append(f"{stride} * {name}")
        stride *= n
    return isl.Map.read_from_str(ctx, f"{{ [{', '.join(names)}] -> [floor(({' + '.join(terms)})/{WARP})] }}")


@dataclass(frozen=True, slots=True)
class Place:
    """The threads of a statement's instances, and those that access what it writes.

    These differ for a reduction whose iterations are dealt out to threads: each thread keeps a part of its
    own, and the first puts them together into the result.  (Blocks are not looked at: what they share is
    updated atomically.)
    """

    own: isl.Map
    result: isl.Map

    @staticmethod
    def of(scop: Scop, unit: Unit, statement: str, variables: Sequence[str]) -> Place:
        t = of_statement(scop, statement, (a for a, _ in (*unit.axes, *unit.own)))
        own = relation(scop.ctx, t, threads_of(t, (*unit.axes, *unit.own), variables))
        if not parted(scop, unit, statement):
            return Place(own, own)
        return Place(own, relation(scop.ctx, t, threads_of(t, unit.axes, variables)))

    def at(self, a: Access) -> isl.Map:
        return self.own if a.kind == "read" else self.result


def parted(scop: Scop, unit: Unit, statement: str) -> bool:
    """Whether threads, or blocks, keep parts of a statement's results."""
    found = any(statement in a.reductions and m.dealt_out for a, m in unit.own)
    return found and scop.statement(statement).reduction


def _crossing(
    scop: Scop, first: Unit, second: Unit, places: Mapping[str, Place], warps: isl.Map | None = None
) -> Iterator[tuple[str, str]]:
    """Pairs of statements with instances that conflict on different threads, or in different `warps`."""
    for s in first.statements:
        for t in second.statements:
            for a, b, found in conflicts(scop.statement(s), scop.statement(t)):
                across = found.apply_domain(places[s].at(a)).apply_range(places[t].at(b))
                if warps is not None:
                    across = across.apply_domain(warps).apply_range(warps)
                if not across.is_subset(isl.Map.identity(across.get_space())):
                    yield s, t
                    break
