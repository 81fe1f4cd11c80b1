"""Insertion of barriers between conflicting accesses of different threads of a block, or of a warp.

A tile is a sequence of moments (`Step`s of units), at each of which threads access memory; copies in shared
memory and combinations have barriers of their own.  The test is exact: two accesses conflict if they are to
one element, on different threads, and one of them is a write.  As the axes whose tiles are mapped to blocks
are coincident, both are in one tile of one block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import islpy as isl

from tc.errors import InternalError
from tc.ir.grouping import Grouping
from tc.ir.loops import WARP, Sync
from tc.poly.gpu.coordinates import Tuple, relation, threads_of
from tc.poly.gpu.copies import movers
from tc.poly.gpu.mapping import Unit, has_shared_reduction
from tc.poly.gpu.private_memory import PrivateArray
from tc.poly.gpu.promotion import PromotedRegion
from tc.poly.scop import Access


class Step(IntEnum):
    """The steps of a unit, in order; some are barriers."""

    BEFORE = 0  # the barrier, if any, before the unit
    LOAD = 1  # elements in registers are loaded from memory
    COPIED = 2  # the barrier after copies to shared memory
    OWN = 3  # its statements, except results with partial results in threads
    USED = 4  # the barrier after the use of copies
    COMBINED = 5  # the barrier of a combination of parts
    RESULT = 6  # combined parts are stored
    STORE = 7  # elements in registers are stored


Moment = tuple[int, Step]  # the number of a unit, and its step


@dataclass(frozen=True, slots=True)
class Barriers:
    """The barriers before each unit, before results are stored from shared memory (`written`), and before the
    block's next tile (`done`)."""

    before: tuple[Sync | None, ...]
    written: Sync | None
    done: Sync | None


@dataclass(frozen=True, slots=True)
class Touch:
    """The elements of a buffer that instances of a statement, or transfers, access at a moment, and the
    values of their thread variables; `places`: the elements of the array in shared memory that replaces the
    buffer in each tile."""

    at: Moment
    what: str
    buffer: str
    elements: isl.Map
    threads: isl.Map
    writes: bool
    places: isl.Map | None = None


def barriers(p: PromotedRegion) -> Barriers:
    """The barriers of a tile: a minimal number, each as late as possible, and barriers of warps where
    conflicts are within one.  Use it inside `isl_context()`.

    Raises InternalError (TC0904) where a unit conflicts with itself.
    """
    places = {s: _Place.of(p, u, s) for u in p.units for s in u.statements}
    touches = [_touches(p, i, places) for i in range(len(p.units))]
    crosses = _Crossing(p)
    small = math.prod(n for _, n in p.mapping.threads) <= WARP
    out: list[Sync | None] = []
    block: list[Moment] = []  # block barriers that all threads reach in each tile
    either: list[Moment] = []  # these, and those of warps

    def needed(
        before: Sequence[Touch],
        here: Sequence[Touch],
        always: Sequence[Moment] = (),
        looped: Sequence[Moment] = (),
    ) -> Sync | None:
        """The barrier that must be added between two sequences of accesses; None if conflicts are
        separated."""
        if any(crosses(a, b, of_warps=True) for a, b in _pairs(before, here, [*block, *always], looped)):
            return Sync()
        if any(crosses(a, b) for a, b in _pairs(before, here, [*either, *always], looped)):
            return Sync(warp=True)
        return None

    def put(sync: Sync | None, at: Moment) -> Sync | None:
        either.extend([at] if sync is not None else [])
        block.extend([at] if sync is not None and (small or not sync.warp) else [])
        return sync

    for i, here in enumerate(touches):
        always, looped = _inside(p, i)
        for a, b in _pairs(here, here, always, looped):
            if crosses(a, b):
                raise InternalError(f"threads of one unit conflict: {a.what} and {b.what}", code="TC0904")
        before = [t for of_unit in touches[:i] for t in of_unit]
        out.append(put(needed(before, here, always, looped), (i, Step.BEFORE)))
        either += always
        block += always
    end = len(p.units)
    here = [replace(t, elements=t.places) for of_unit in touches for t in of_unit if t.places is not None]
    moves = list(_moves(p, (end, Step.STORE)))
    written = put(needed(here, moves), (end, Step.BEFORE))
    if not p.repeated:
        return Barriers(tuple(out), written, None)
    # The next tile's first accesses may conflict with this one's last, of other threads.
    here += moves
    after = [replace(t, at=_later(t.at, end)) for t in here]
    block += [_later(m, end) for m in block]
    either += [_later(m, end) for m in either]
    return Barriers(tuple(out), written, needed(here, after))


def _later(m: Moment, end: int) -> Moment:
    """A moment of the next tile, after one with `end` units."""
    return m[0] + end + 1, m[1]


def _moves(p: PromotedRegion, at: Moment) -> Iterator[Touch]:
    """The accesses that store results from shared memory, by arbitrary threads."""
    for x in p.local:
        if x.stored:
            to = isl.Map.read_from_str(p.ctx, movers(x, p.mapping.threads))
            same = isl.Map.identity(isl.Space.map_from_set(to.domain().get_space()))
            yield Touch(at, "a copy", x.buffer, same, to, False, same)


def _inside(p: PromotedRegion, i: int) -> tuple[list[Moment], list[Moment]]:
    """The block barriers in a unit that all threads reach in each tile; and those in the unit's own loops,
    which may have no iterations, but have a barrier in each."""
    unit = p.units[i]
    once = any(x.moves.isdisjoint(a.name for a, _ in unit.looped) for x in p.shared_reads[i])
    always = [(i, Step.COPIED), *([(i, Step.USED)] if p.repeated else [])] if once else list[Moment]()
    combined = {v for s in unit.statements if s in p.partial_results for v in p.partial_results[s].threads}
    if any(Grouping.of(p.mapping.threads, v, shuffles=True).warps > 1 for v in combined):
        always.append((i, Step.COMBINED))
    return always, [(i, Step.COPIED)] if p.shared_reads[i] else []


class _Crossing:
    """Tests whether two accesses to one element are on different threads, or on different warps."""

    def __init__(self, p: PromotedRegion) -> None:
        names = [f"t{i}" for i in range(len(p.mapping.threads))]
        terms, stride = ["0"], 1
        for name, (_, n) in zip(names, p.mapping.threads, strict=True):
            terms.append(f"{stride} * {name}")
            stride *= n
        text = f"{{ [{', '.join(names)}] -> [floor(({' + '.join(terms)})/{WARP})] }}"
        self.warps = isl.Map.read_from_str(p.ctx, text)
        self.found: dict[tuple[int, int, bool], bool] = {}

    def __call__(self, a: Touch, b: Touch, *, of_warps: bool = False) -> bool:
        key = (id(a), id(b), of_warps)
        if key not in self.found:
            across = a.elements.apply_range(b.elements.reverse())
            across = across.apply_domain(a.threads).apply_range(b.threads)
            if of_warps:
                across = across.apply_domain(self.warps).apply_range(self.warps)
            self.found[key] = not across.is_subset(isl.Map.identity(across.get_space()))
        return self.found[key]


def _pairs(
    first: Sequence[Touch], second: Sequence[Touch], barriers: Sequence[Moment], looped: Sequence[Moment]
) -> Iterator[tuple[Touch, Touch]]:
    """Pairs of accesses to one buffer, one of them a write, without a barrier between them.  Barriers in the
    loops of the second one's unit separate only accesses in these loops."""
    for a in first:
        for b in second:
            if a.buffer != b.buffer or not (a.writes or b.writes) or a.at > b.at:
                continue
            every = [*barriers, *looped] if b.at[1] is Step.OWN else barriers
            if not any(a.at < m < b.at for m in every):
                yield a, b


def _touches(p: PromotedRegion, i: int, places: Mapping[str, _Place]) -> list[Touch]:
    """The accesses of a unit to global and shared memory."""
    unit, out = p.units[i], list[Touch]()
    kept = [k for k in p.private_arrays if k.nest == unit.nest]
    registers = {x.buffer for x in (*kept, *p.replicated)}
    stored = {k.buffer for k in kept if k.store}
    for s in unit.statements:
        place = places[s]
        for a in p.scop.statement(s).accesses:
            # An update's element is the write's.  A write to registers that are stored later counts as one of
            # the element already, so that other threads read its old value before; see `_transfers`.
            skipped = a.buffer in registers and not (a.kind == "write" and a.buffer in stored)
            if a.kind == "update" or skipped:
                continue
            own = a.kind == "read" or s not in p.partial_results
            step, threads = (Step.OWN, place.own) if own else (Step.RESULT, place.result)
            there = _in_shared_memory(p, unit, s, a)
            out.append(Touch((i, step), s, a.buffer, a.map, threads, a.kind == "write", there))
    first = not any(u.nest == unit.nest for u in p.units[:i])
    last = not any(u.nest == unit.nest for u in p.units[i + 1 :])
    for k in kept:
        out += _transfers(p, k, (i, Step.LOAD), places, writes=False) if first and k.load else []
        out += _transfers(p, k, (i, Step.STORE), places, writes=True) if last and k.store else []
    return out


def _transfers(
    p: PromotedRegion, k: PrivateArray, at: Moment, places: Mapping[str, _Place], *, writes: bool
) -> Iterator[Touch]:
    """The loads or stores of elements in registers, before or after all units of their nest."""
    for u in p.units:
        for s in u.statements if u.nest == k.nest else ():
            for a in p.scop.statement(s).accesses:
                if a.buffer == k.buffer and a.kind != "update":
                    there = _in_shared_memory(p, u, s, a)
                    yield Touch(at, s, k.buffer, a.map, places[s].result, writes, there)


def _in_shared_memory(p: PromotedRegion, u: Unit, statement: str, a: Access) -> isl.Map | None:
    """The element of an array in shared memory that an access goes to."""
    x = p.local_of(a.buffer)
    if x is None or not (x.stored or p.repeated):
        return None
    t = p.instances(u, statement)
    found = relation(p.ctx, t, x.place(t, u, statement, a.subscripts), "place")
    return found.intersect_domain(p.scop.statement(statement).domain)


@dataclass(frozen=True, slots=True)
class _Place:
    """The threads of a statement's instances, and those that access its result.

    These differ for a reduction whose iterations are distributed over threads: each thread has a partial
    result, and the first one combines them into the result.  (Blocks are ignored: they update shared results
    atomically.)
    """

    own: isl.Map
    result: isl.Map

    @staticmethod
    def of(p: PromotedRegion, unit: Unit, statement: str) -> _Place:
        t, axes = p.instances(unit, statement), (*unit.axes, *unit.own)
        own = _on_threads(p, t, threads_of(t, axes, p.variables, p.everywhere(statement)))
        if not has_shared_reduction(p.scop, unit, statement):
            return _Place(own, own)
        return _Place(own, _on_threads(p, t, threads_of(t, unit.axes, p.variables)))


def _on_threads(p: PromotedRegion, t: Tuple, values: Mapping[str, str]) -> isl.Map:
    """The map from an instance to its thread; thread variables without a value in `values` are arbitrary."""
    outputs = ", ".join(f"({values[v]})" if v in values else f"x{i}" for i, v in enumerate(p.variables))
    limits = [f"0 <= x{i} < {n}" for i, (v, n) in enumerate(p.mapping.threads) if v not in values]
    where = f" : {' and '.join(limits)}" if limits else ""
    return isl.Map.read_from_str(p.ctx, f"{{ {t.text} -> [{outputs}]{where} }}")
