"""Promotion to registers of threads: elements that a nest updates, and partial results.

An array in registers has an element for each point of a nest's axes that a thread runs in a tile; loops over
these points are unrolled, so that its subscripts are constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from tc.dtypes import accumulator
from tc.ir.expr import IntImm
from tc.ir.loops import Array
from tc.ir.program import Op
from tc.poly.gpu.coordinates import Tuple
from tc.poly.gpu.mapping import AxisMap, Unit, bounded, has_shared_reduction, steps
from tc.poly.register_promotion import promotion
from tc.poly.scop import Access, Scop, Statement
from tc.poly.tile_plan import Axis, Region

LIMIT = 64  # elements of an array, at most; compilers put larger ones into local memory


@dataclass(frozen=True, slots=True)
class PrivateArray:
    """The elements of `buffer` that a nest accesses, promoted to `array` in registers: loaded before the nest
    unless its first statement writes them, stored after it unless they are dead.  `access` is an access of
    `statement` to them."""

    buffer: str
    array: Array
    nest: int
    statement: str
    access: Access
    load: bool
    store: bool


@dataclass(frozen=True, slots=True)
class PartialResults:
    """A thread's partial results of `statement`, which are combined by `op` over the thread variables
    `threads` (none if a thread has the whole sum, see `with_separate_sums`).  `atomic`: other blocks have
    partial results, too, so the combined ones update global memory atomically.  `everywhere`: all threads get
    the combined results (replicated.py)."""

    statement: str
    buffer: str
    array: Array
    op: Op
    threads: tuple[str, ...]
    atomic: bool = False
    everywhere: bool = False


def index(t: Tuple, axes: Sequence[tuple[Axis, AxisMap]]) -> list[str]:
    """The subscripts of an array in registers: the number of a thread's point along each axis."""
    return [e for a, m in axes if (e := t.step(a, m)) is not None]


def shape(axes: Sequence[tuple[Axis, AxisMap]]) -> tuple[int, ...] | None:
    """The extents of these subscripts; None if they are unknown or the elements too many."""
    counts = [steps(a, m) for a, m in axes]
    known = [n for n in counts if n is not None]
    if len(known) < len(counts) or math.prod(known) > LIMIT:
        return None
    return tuple(n for n in known if n != 1)


def with_separate_sums(scop: Scop, region: Region, units: Sequence[Unit]) -> tuple[Unit, ...]:
    """The units with the reductions that threads accumulate in separate registers, and add to their results
    only at the end.  Such a reduction may run at points outside of its domain (padded_domains.py), beyond an
    axis or where conditions fail, without changing results that other statements need."""
    return tuple(replace(u, separate_sums=frozenset(_separate_sums(scop, region, units, u))) for u in units)


def _separate_sums(scop: Scop, region: Region, units: Sequence[Unit], u: Unit) -> Iterator[str]:
    if u.reduction_threads or shape(u.axes) is None:
        return
    nest_statements = [scop.statement(s) for x in units if x.nest == u.nest for s in x.statements]
    for s in u.statements:
        t = scop.statement(s)
        if not t.reduction or not any(s in a.reductions for a, _ in u.own):
            continue
        buffer = t.write.buffer
        exclusive = not any(a.buffer == buffer for x in nest_statements if x != t for a in x.accesses)
        if not exclusive and bounded(scop, u, s):
            continue
        found = replace(u, separate_sums=frozenset([s]))
        if bounded(scop, found, s) and buffer in promotion(scop, region.nests[u.nest]).buffers:
            yield s


def private_arrays(
    scop: Scop,
    region: Region,
    units: Sequence[Unit],
    replicated: AbstractSet[str],
    name: Callable[[str], str],
) -> tuple[PrivateArray, ...]:
    """The buffers that nests of a region write and that can be promoted to registers, except `replicated`
    ones: each point of the nest accesses one element, on one thread, and not only to add a separate sum at
    the end."""
    buffers = {b.name: b for b in scop.program.buffers}
    out: list[PrivateArray] = []
    for number, nest in enumerate(region.nests):
        nest_units = [u for u in units if u.nest == number]
        extents = shape(nest_units[0].axes)
        if extents is None:
            continue
        plan = promotion(scop, nest)
        distributed = {s for u in nest_units if u.has_partial_results for s in u.statements}
        combined = {
            s
            for u in nest_units
            if not u.blocks_share_reduction
            for s in u.statements
            if has_shared_reduction(scop, u, s)
        }
        for buffer in sorted(plan.buffers - replicated):
            statements = [scop.statement(s) for u in nest_units for s in u.statements]
            found = [(s, a) for s in statements for a in s.accesses if a.buffer == buffer]
            writes = any(a.kind == "write" for _, a in found)
            if all(s.name in u.separate_sums for u in nest_units for s, _ in found if s.name in u.statements):
                continue
            # Partial results are combined on the thread that has the point.
            others = any(
                s.name in distributed and (a.kind == "read" or s.name not in combined) for s, a in found
            )
            if not writes or others or len(found) < 2:
                continue
            first, access = found[0]
            array = Array(name(buffer), buffers[buffer].dtype, tuple(map(IntImm, extents)), "register")
            certain = access.kind == "write" and not first.residual and whole(first, nest.axes)
            out.append(
                PrivateArray(buffer, array, number, first.name, access, not certain, buffer not in plan.dead)
            )
    return tuple(out)


def too_large(scop: Scop, region: Region, units: Sequence[Unit]) -> tuple[str, ...]:
    """A line for each buffer of which a thread accesses more elements than fit into registers; its accesses
    go to memory."""
    out: dict[str, None] = {}
    for number, nest in enumerate(region.nests):
        nest_units = next(u for u in units if u.nest == number)
        counts = [steps(a, m) for a, m in nest_units.axes]
        known = [n for n in counts if n is not None]
        if len(known) < len(counts) or math.prod(known) <= LIMIT:
            continue
        accesses = [
            a for u in units if u.nest == number for s in u.statements for a in scop.statement(s).accesses
        ]
        for buffer in sorted(promotion(scop, nest).buffers):
            found = [a for a in accesses if a.buffer == buffer]
            if len(found) > 1 and any(a.kind == "write" for a in found):
                out[f"{buffer}: {math.prod(known)} elements a thread, and {LIMIT} are the most"] = None
    return tuple(out)


def whole(s: Statement, axes: Sequence[Axis]) -> bool:
    """Whether a statement runs at all points of the axes."""
    return not s.stage.domain.conditions and all(s.name in a.vars for a in axes)


def partial_results(
    scop: Scop, units: Sequence[Unit], everywhere: AbstractSet[str], name: Callable[[str], str]
) -> dict[str, PartialResults]:
    """The partial results of each reduction whose iterations are distributed over threads or blocks, and the
    separate sums; all threads get those of the buffers `everywhere`."""
    dtypes = {b.name: b.dtype for b in scop.program.buffers}
    func_buffers = scop.program.func_buffers
    out: dict[str, PartialResults] = {}
    for u in units:
        for s in u.statements:
            if s not in u.separate_sums and not has_shared_reduction(scop, u, s):
                continue
            stage = scop.statement(s).stage
            assert stage.op is not None
            extents = shape(u.axes)
            assert extents is not None, "a nest with parts of results has few points a thread"
            buffer = func_buffers[stage.func]
            dtype = accumulator(dtypes[buffer], stage.value.dtype)
            array = Array(
                name(buffer), dtype, tuple(map(IntImm, extents)), "register", None, (), partial_of=buffer
            )
            threads, atomic = u.reduction_threads, u.blocks_share_reduction
            out[s] = PartialResults(s, buffer, array, stage.op, threads, atomic, buffer in everywhere)
    return out
