# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
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
from dataclasses import dataclass
from enum import IntEnum

import islpy as isl

from tc.errors import InternalError
from tc.ir.grouping import Grouping
from tc.ir.loops import WARP, Sync
from tc.poly.mapping.coordinates import of_statement, relation, threads_of
from tc.poly.mapping.memory import Placed
from tc.poly.mapping.plan import Unit, parted
from tc.poly.mapping.registers import Kept
from tc.poly.scop import Scop


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
_START = (-1, Step.BEFORE)


@dataclass(frozen=True, slots=True)
class Barriers:
    """`before`: what stands before each unit; `written`: whether one stands before results leave shared
    memory, `done`: whether one stands before a block's next tile."""

    before: tuple[Sync | None, ...]
    written: bool
    done: bool


@dataclass(frozen=True, slots=True)
class Touch:
    """The elements of a buffer that instances of a statement touch at a moment, and the values of the thread
    variables on which they do."""

    at: Moment
    statement: str
    buffer: str
    elements: isl.Map
    threads: isl.Map
    writes: bool


def barriers(p: Placed) -> Barriers:
    """The barriers of a tile: as few as there can be, each as late as it can be, and of warps where conflicts
    are between threads of one.  Use it inside `isl_context()`.

    Raises InternalError (TC0904) where a unit conflicts with itself.
    """
    places = {s: _Place.of(p.scop, u, s, p.variables) for u in p.units for s in u.statements}
    touches = [_touches(p, i, places) for i in range(len(p.units))]
    crosses = _Crossing(p)
    small = math.prod(n for _, n in p.how.threads) <= WARP
    out: list[Sync | None] = []
    block: list[Moment] = []  # barriers that all threads of the block get to in each tile
    either: list[Moment] = []  # these, and those of warps
    for i, here in enumerate(touches):
        always, looped = _inside(p, i)
        for a, b in _pairs(here, here, always, looped):
            if crosses(a, b):
                raise InternalError(
                    f"threads of one unit conflict: {a.statement} and {b.statement}", code="TC0904"
                )
        before = [t for of_unit in touches[:i] for t in of_unit]
        sync: Sync | None = None
        if any(crosses(a, b, of_warps=True) for a, b in _pairs(before, here, [*block, *always], looped)):
            sync = Sync()
        elif any(crosses(a, b) for a, b in _pairs(before, here, [*either, *always], looped)):
            sync = Sync(warp=True)
        either += [*([(i, Step.BEFORE)] if sync is not None else []), *always]
        block += [*([(i, Step.BEFORE)] if sync == Sync() or (sync and small) else []), *always]
        out.append(sync)
    end = (len(p.units), Step.BEFORE)
    every = [t for of_unit in touches for t in of_unit]
    stored = {x.buffer for x in p.local if x.stored}
    # A single element leaves by the first thread; which threads move which of several is not looked at.
    single = {x.buffer for x in p.local if math.prod(d.size for d in x.stored) == 1}
    first = isl.Set.read_from_str(p.ctx, f"{{ [{', '.join('0' for _ in p.how.threads)}] }}")
    late = [t for t in every if t.at > max(block, default=_START)]
    written = any(
        t.writes and t.buffer in stored and not (t.buffer in single and t.threads.range().is_subset(first))
        for t in late
    )
    if written:
        block.append(end)
        late.clear()
    # What the next tile does first must not disturb what other threads of this one do last.
    local = {x.buffer for x in p.local}
    early = [t for t in every if t.at < min(block, default=end) and t.buffer in local]
    read = {t.buffer for t in late} | stored
    overwritten = any(t.writes and t.buffer in read for t in early)
    again = any(t.writes and t.buffer in {x.buffer for x in early} for t in late)
    return Barriers(tuple(out), written, p.repeated and (overwritten or again))


def _inside(p: Placed, i: int) -> tuple[list[Moment], list[Moment]]:
    """The barriers of the block within a unit that all threads get to in each tile; and those in the unit's
    own loops, which may run for no iteration, but not without one."""
    unit = p.units[i]
    once = any(not x.moves & unit.tiled for x in p.memory[i])
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
    kept = {k.buffer: k for k in p.kept if k.nest == unit.nest}
    for s in unit.statements:
        place = places[s]
        for a in p.scop.statement(s).accesses:
            if a.kind == "update" or a.buffer in kept:  # it is the write's element; see `_transfers`
                continue
            own = a.kind == "read" or s not in p.parts
            step, threads = (Step.OWN, place.own) if own else (Step.RESULT, place.result)
            out.append(Touch((i, step), s, a.buffer, a.map, threads, a.kind == "write"))
    first = not any(u.nest == unit.nest for u in p.units[:i])
    last = not any(u.nest == unit.nest for u in p.units[i + 1 :])
    for k in kept.values():
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
                    yield Touch(at, s, k.buffer, a.map, places[s].result, writes)


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
    def of(scop: Scop, unit: Unit, statement: str, variables: Sequence[str]) -> _Place:
        t = of_statement(scop, statement, (a for a, _ in (*unit.axes, *unit.own)))
        own = relation(scop.ctx, t, threads_of(t, (*unit.axes, *unit.own), variables))
        if not parted(scop, unit, statement):
            return _Place(own, own)
        return _Place(own, relation(scop.ctx, t, threads_of(t, unit.axes, variables)))
