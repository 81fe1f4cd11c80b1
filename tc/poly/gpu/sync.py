"""Barriers: where a thread needs what another thread of its block, or of its warp, did, or must not disturb
it yet.

A tile is a sequence of moments (`Step`s of units), at each of which threads touch memory; copies in shared
memory and combinations have barriers of their own.  The test is exact: two touches conflict if they are of
one element, on different threads, and one of them writes it.  As the axes whose tiles go to blocks are
coincident, both are in one block, and in one tile of it.
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
from tc.poly.gpu.mapping import Unit, parted
from tc.poly.gpu.private_memory import Kept
from tc.poly.gpu.promotion import Placed
from tc.poly.scop import Access


class Step(IntEnum):
    """What a unit does, in order; some are barriers."""

    BEFORE = 0  # the barrier that may stand before the unit
    LOAD = 1  # what its nest keeps in registers comes from memory
    COPIED = 2  # the barrier after copies to shared memory
    OWN = 3  # its statements, but for the results of which threads have parts
    USED = 4  # the barrier after the use of copies
    COMBINED = 5  # the barrier of a combination of parts
    RESULT = 6  # combined parts go to memory
    STORE = 7  # what its nest keeps goes back


Moment = tuple[int, Step]  # the number of a unit, and what it does


@dataclass(frozen=True, slots=True)
class Barriers:
    """What stands before each unit, before results leave shared memory (`written`), and before a block's next
    tile (`done`)."""

    before: tuple[Sync | None, ...]
    written: Sync | None
    done: Sync | None


@dataclass(frozen=True, slots=True)
class Touch:
    """The elements of a buffer that instances of a statement, or moves, touch at a moment, and the values of
    the thread variables on which they do; `places`: the elements of the array in shared memory that stands
    for the buffer in each tile."""

    at: Moment
    what: str
    buffer: str
    elements: isl.Map
    threads: isl.Map
    writes: bool
    places: isl.Map | None = None


def barriers(p: Placed) -> Barriers:
    """The barriers of a tile: as few as there can be, each as late as it can be, and of warps where conflicts
    are between threads of one.  Use it inside `isl_context()`.

    Raises InternalError (TC0904) where a unit conflicts with itself.
    """
    places = {s: _Place.of(p, u, s) for u in p.units for s in u.statements}
    touches = [_touches(p, i, places) for i in range(len(p.units))]
    crosses = _Crossing(p)
    small = math.prod(n for _, n in p.how.threads) <= WARP
    out: list[Sync | None] = []
    block: list[Moment] = []  # barriers that all threads of the block get to in each tile
    either: list[Moment] = []  # these, and those of warps

    def needed(
        before: Sequence[Touch],
        here: Sequence[Touch],
        always: Sequence[Moment] = (),
        looped: Sequence[Moment] = (),
    ) -> Sync | None:
        """What must stand between two sequences of touches, as far as it does not yet."""
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
    # What the next tile does first must not disturb what other threads of this one do last.
    here += moves
    after = [replace(t, at=_later(t.at, end)) for t in here]
    block += [_later(m, end) for m in block]
    either += [_later(m, end) for m in either]
    return Barriers(tuple(out), written, needed(here, after))


def _later(m: Moment, end: int) -> Moment:
    """A moment of the tile after one that ends with the number `end`."""
    return m[0] + end + 1, m[1]


def _moves(p: Placed, at: Moment) -> Iterator[Touch]:
    """Results leave shared memory, moved by any threads."""
    for x in p.local:
        if x.stored:
            to = isl.Map.read_from_str(p.ctx, movers(x, p.how.threads))
            same = isl.Map.identity(isl.Space.map_from_set(to.domain().get_space()))
            yield Touch(at, "a copy", x.buffer, same, to, False, same)


def _inside(p: Placed, i: int) -> tuple[list[Moment], list[Moment]]:
    """The barriers of the block within a unit that all threads get to in each tile; and those in the unit's
    own loops, which may run for no iteration, but not without one."""
    unit = p.units[i]
    once = any(x.moves.isdisjoint(a.name for a, _ in unit.looped) for x in p.memory[i])
    always = [(i, Step.COPIED), *([(i, Step.USED)] if p.repeated else [])] if once else list[Moment]()
    combined = {v for s in unit.statements if s in p.parts for v in p.parts[s].threads}
    if any(Grouping.of(p.how.threads, v, shuffles=True).warps > 1 for v in combined):
        always.append((i, Step.COMBINED))
    return always, [(i, Step.COPIED)] if p.memory[i] else []


class _Crossing:
    """Whether two touches are of one element on different threads, or on threads of different warps."""

    def __init__(self, p: Placed) -> None:
        names = [f"t{i}" for i in range(len(p.how.threads))]
        terms, stride = ["0"], 1
        for name, (_, n) in zip(names, p.how.threads, strict=True):
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
    """Touches of one buffer, one of them a write, without a barrier between them.  Those in the loops of the
    second one's unit stand before what is in these loops alone."""
    for a in first:
        for b in second:
            if a.buffer != b.buffer or not (a.writes or b.writes) or a.at > b.at:
                continue
            every = [*barriers, *looped] if b.at[1] is Step.OWN else barriers
            if not any(a.at < m < b.at for m in every):
                yield a, b


def _touches(p: Placed, i: int, places: Mapping[str, _Place]) -> list[Touch]:
    """What a unit touches in memory, shared or not."""
    unit, out = p.units[i], list[Touch]()
    kept = [k for k in p.kept if k.nest == unit.nest]
    registers = {x.buffer for x in (*kept, *p.replicated)}
    for s in unit.statements:
        place = places[s]
        for a in p.scop.statement(s).accesses:
            if a.kind == "update" or a.buffer in registers:  # it is the write's element; see `_transfers`
                continue
            own = a.kind == "read" or s not in p.parts
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
    p: Placed, k: Kept, at: Moment, places: Mapping[str, _Place], *, writes: bool
) -> Iterator[Touch]:
    """What threads keep is touched where all of the nest's accesses are, before or after all of its units."""
    for u in p.units:
        for s in u.statements if u.nest == k.nest else ():
            for a in p.scop.statement(s).accesses:
                if a.buffer == k.buffer and a.kind != "update":
                    there = _in_shared_memory(p, u, s, a)
                    yield Touch(at, s, k.buffer, a.map, places[s].result, writes, there)


def _in_shared_memory(p: Placed, u: Unit, statement: str, a: Access) -> isl.Map | None:
    """Where in an array in shared memory the element of an access is."""
    x = p.local_of(a.buffer)
    if x is None or not (x.stored or p.repeated):
        return None
    t = p.instances(u, statement)
    found = relation(p.ctx, t, x.place(t, u, statement, a.subscripts), "place")
    return found.intersect_domain(p.scop.statement(statement).domain)


@dataclass(frozen=True, slots=True)
class _Place:
    """The threads of a statement's instances, and those that access what it writes.

    These differ for a reduction whose iterations are dealt out to threads: each thread keeps a part of its
    own, and the first puts them together into the result.  (Blocks are not looked at: what they share is
    updated atomically.)
    """

    own: isl.Map
    result: isl.Map

    @staticmethod
    def of(p: Placed, unit: Unit, statement: str) -> _Place:
        t, axes = p.instances(unit, statement), (*unit.axes, *unit.own)
        own = _on_threads(p, t, threads_of(t, axes, p.variables, p.everywhere(statement)))
        if not parted(p.scop, unit, statement):
            return _Place(own, own)
        return _Place(own, _on_threads(p, t, threads_of(t, unit.axes, p.variables)))


def _on_threads(p: Placed, t: Tuple, values: Mapping[str, str]) -> isl.Map:
    """The values of the thread variables of an instance, those that are not told any."""
    outputs = ", ".join(f"({values[v]})" if v in values else f"x{i}" for i, v in enumerate(p.variables))
    limits = [f"0 <= x{i} < {n}" for i, (v, n) in enumerate(p.how.threads) if v not in values]
    where = f" : {' and '.join(limits)}" if limits else ""
    return isl.Map.read_from_str(p.ctx, f"{{ {t.text} -> [{outputs}]{where} }}")
