"""Replicated results: values that all threads of a point have in registers.

When the threads of a row have combined their parts of its maximum, or of its sum, all of them have the
result. So they need not read it from shared memory, nor wait at a barrier until one of them has stored it;
and each thread computes for itself what depends on such values only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tc.ir.expr import Expr, IntImm, Variable, inline_lets, substitute, variables
from tc.ir.loops import Array
from tc.ir.program import Buffer
from tc.poly.gpu.mapping import AxisMap, RegionMap, Unit, has_shared_reduction, tiled_axes
from tc.poly.gpu.private_memory import shape, whole
from tc.poly.scop import Access, Scop, Statement
from tc.poly.tile_plan import Axis, Region


@dataclass(frozen=True, slots=True)
class Replicated:
    """The elements of `buffer` at the points of a region's axes, in `array` of each thread of such a point:
    the statements `writers` run on all of these threads.  A result is stored after unit number `stored`, by
    `access` of `statement`."""

    buffer: str
    array: Array
    writers: frozenset[str]
    statement: str
    access: Access
    stored: int | None


def replicated(
    scop: Scop, region: Region, mapping: RegionMap, units: Sequence[Unit], name: Callable[[str], str]
) -> tuple[Replicated, ...]:
    """The buffers that units of a region share and that can be replicated in all threads of a point."""
    axes = shared_axes(region, mapping)
    extents = shape(axes)
    if extents is None or not _alike(region, mapping):
        return ()
    found = {b.name: x for b in scop.program.buffers if (x := _accesses(scop, region, units, b))}
    others = {v for v, n in mapping.threads if n > 1} - {m.thread for _, m in axes}
    known = _known(scop, region, units, found, others)
    out: list[Replicated] = []
    for b in (b for b in scop.program.buffers if b.name in known):
        writes = [x for x in found[b.name] if x[2].kind == "write"]
        last, s, access = writes[-1]
        array = Array(name(b.name), b.dtype, tuple(map(IntImm, extents)), "register", replicas=True)
        stored = last if b.role == "output" else None
        writers = frozenset(s.name for _, s, _ in writes)
        out.append(Replicated(b.name, array, writers, s.name, access, stored))
    return tuple(out)


def shared_axes(region: Region, mapping: RegionMap) -> tuple[tuple[Axis, AxisMap], ...]:
    """The axes that all units of a region have, with their mapping."""
    return tuple((a, mapping.nests[0].axes[a.name]) for a in tiled_axes(region))


def _alike(region: Region, mapping: RegionMap) -> bool:
    """Whether all nests map these axes alike, so that a point has the same threads in all of them."""
    return all(n.axes[a.name] == m for n in mapping.nests for a, m in shared_axes(region, mapping))


_Touched = tuple[int, Statement, Access]  # with the number of the unit


def _accesses(scop: Scop, region: Region, units: Sequence[Unit], b: Buffer) -> list[_Touched]:
    """A region's accesses to a buffer, if all are to one element at each point of its axes, and the first
    writes it, for any data and conditions."""
    inside = [(i, scop.statement(s)) for i, u in enumerate(units) for s in u.statements]
    found = [(i, s, a) for i, s in inside for a in s.accesses if a.buffer == b.name]
    names = {s.name for _, s in inside}
    outside = any(a.buffer == b.name for s in scop.statements if s.name not in names for a in s.accesses)
    if not found or b.inout or b.role not in (("output",) if outside else ("temporary", "output")):
        return []
    axes = tiled_axes(region)
    _, first, access = found[0]
    if access.kind != "write" or not whole(first, axes) or first.residual:
        return []
    elements = {_element(axes, s, a) for _, s, a in found}
    return found if len(elements) == 1 and None not in elements else []


def _element(axes: Sequence[Axis], s: Statement, a: Access) -> tuple[Expr, ...] | None:
    """The element of an access in terms of these axes; None if it depends on more."""
    if a.unknown or (a.read is not None and a.read.call.checked):
        return None
    names: dict[str, Expr] = {x.vars[s.name]: Variable(f"@{x.name}") for x in axes if s.name in x.vars}
    out = tuple(substitute(inline_lets(e), dict(names)) for e in a.subscripts)
    known = {v for e in out for v in variables(e)} <= {f"@{a.name}" for a in axes}
    return out if known else None


def _known(
    scop: Scop,
    region: Region,
    units: Sequence[Unit],
    found: Mapping[str, Sequence[_Touched]],
    others: set[str],
) -> set[str]:
    """The buffers among those `found` that all threads of a point, along the variables `others`, can have:
    each writer is a reduction whose parts they combine, or reads only such buffers among those that the
    region writes."""
    written = {scop.statement(s).write.buffer for u in units for s in u.statements}
    names = {a.name for a in tiled_axes(region)}
    known = set(found)

    def follows(u: Unit, s: Statement) -> bool:
        """Whether a statement can run redundantly on each thread."""
        at_point = {a.vars[s.name] for a, _ in u.axes if s.name in a.vars} | set(scop.program.sizes)
        if u.own or s.residual or not all(variables(c) <= at_point for c in s.stage.domain.conditions):
            return False
        checked = any(a.read is not None and a.read.call.checked for a in s.reads)
        return not checked and all(a.buffer not in written or a.buffer in known for a in s.accesses)

    def combined(u: Unit, s: Statement) -> bool:
        return (
            has_shared_reduction(scop, u, s.name)
            and not u.blocks_share_reduction
            and others <= set(u.reduction_threads)
        )

    def holds(b: str) -> bool:
        writers = [(units[i], s) for i, s, a in found[b] if a.kind == "write"]
        if any({a.name for a, _ in u.axes} != names for u, _ in writers):
            return False
        if not all(combined(u, s) or follows(u, s) for u, s in writers):
            return False
        # Values that depend on no combination are better computed once.
        reads = {a.buffer for _, s in writers for a in s.reads} - {b}
        return any(combined(u, s) for u, s in writers) or not known.isdisjoint(reads)

    while (left := {b for b in known if holds(b)}) != known:
        known = left
    return _wanted(units, {b: found[b] for b in known})


def _wanted(units: Sequence[Unit], known: Mapping[str, Sequence[_Touched]]) -> set[str]:
    """The buffers that other threads need, and those from which they are computed."""
    wanted: set[str] = set()
    needed = {
        b
        for b, found in known.items()
        if any(units[i].reduction_threads and a.kind == "read" for i, _, a in found)
        or len({units[i].nest for i, _, _ in found}) > 1
    }
    while needed:
        wanted |= needed
        writers = (s for b in needed for _, s, a in known[b] if a.kind == "write")
        needed = {a.buffer for s in writers for a in s.reads if a.buffer in known} - wanted
    return wanted
