"""Where in shared memory combinations put what warps have left, and which of them share a barrier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tc.dtypes import DType, accumulator
from tc.errors import InternalError
from tc.ir.expr import IntImm
from tc.ir.grouping import Grouping
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    Prefetch,
    Promote,
    Stmt,
    Sync,
)

Area = tuple[DType, int]

_READ = 128  # values that a thread reads of combinations that share a barrier


@dataclass(frozen=True, slots=True)
class Scratch:
    """`groups`: with the first (its `id`) of the combinations that go through shared memory together all of
    these, with the others none; `of`: which of the areas of its type each goes through, `first`: from which
    place on; `rooms`: the places of each area; `waiting`: groups that have to wait, as threads may still read
    there what another one has put."""

    groups: Mapping[int, tuple[Combine, ...]] = field(default_factory=dict[int, tuple[Combine, ...]])
    of: Mapping[int, int] = field(default_factory=dict[int, int])
    first: Mapping[int, int] = field(default_factory=dict[int, int])
    rooms: Mapping[Area, int] = field(default_factory=dict[Area, int])
    waiting: frozenset[int] = frozenset()

    def barriers(self, s: Combine, array: Array, how: Grouping) -> int:
        """Barriers of the block that a combination adds to those of its group."""
        if not self.groups.get(id(s)):
            return 0
        return how.barriers(elements_of(array), id(s) in self.waiting, s.everywhere)


def scratch(launch: Launch, arrays: Mapping[str, Array], shuffles: bool) -> Scratch:
    """Two areas take turns where no barrier stands between groups of combinations, as that of each tells that
    all threads have read what the ones before it have put.  A type has one only where two would take more
    than a place a thread."""
    groups = _groups(launch, arrays, shuffles)
    first: dict[int, int] = {}
    ends: dict[int, dict[DType, int]] = {}  # of groups
    most: dict[DType, int] = {}
    for head, group in groups.items():
        end: dict[DType, int] = {}
        for c in group:
            array = arrays[c.buffer]
            t, room = held_as(array), Grouping.of(launch.threads, c.thread, shuffles).room(elements_of(array))
            first[id(c)] = end.get(t, 0)
            end[t] = first[id(c)] + room
        ends[head] = end
        most |= {t: max(n, most.get(t, 0)) for t, n in end.items()}
    threads = math.prod(n for _, n in launch.threads)
    areas: dict[tuple[int, DType], int] = {}  # of groups
    rooms: dict[Area, int] = {}
    waiting: set[int] = set()

    def visit(s: Stmt, read: frozenset[Area]) -> frozenset[Area]:
        """The areas that may be read after a statement, if these may be before it."""
        match s:
            case Block():
                for c in s.body:
                    read = visit(c, read)
            case For():
                after = visit(s.body, read)
                while not after <= read:
                    read |= after
                    after = visit(s.body, read)
            case If():
                other = read if s.otherwise is None else visit(s.otherwise, read)
                return visit(s.then, read) | other
            case Promote() | Launch():
                return visit(s.body, read)
            case Sync():
                return read if s.warp and shuffles else frozenset()
            case Combine():
                if not groups.get(id(s)):
                    return read
                mine: set[Area] = set()
                for t, end in ends[id(s)].items():
                    turns = 2 if 2 * most[t] <= threads else 1
                    free = next((i for i in range(turns) if (t, i) not in read), 0)
                    area = t, areas.setdefault((id(s), t), free)
                    rooms[area] = max(rooms.get(area, 0), end)
                    mine.add(area)
                waiting.update([] if mine.isdisjoint(read) else [id(s)])
                return frozenset(mine)
            case Compute() | Prefetch():
                pass
        return read

    visit(launch, frozenset())
    of = {
        id(c): areas[head, held_as(arrays[c.buffer])]
        for head, group in groups.items()
        for c in group
        if (head, held_as(arrays[c.buffer])) in areas
    }
    return Scratch(groups, of, first, rooms, frozenset(waiting))


def held_as(array: Array) -> DType:
    """The type in which what threads hold is combined."""
    return accumulator(array.dtype, array.dtype)


def elements_of(array: Array) -> int:
    """How many values a thread holds."""
    extents = [n.value for n in array.shape if isinstance(n, IntImm)]
    if len(extents) < len(array.shape):
        raise InternalError(f"the extents of {array.name} are not constant")
    return math.prod(extents)


def _groups(launch: Launch, arrays: Mapping[str, Array], shuffles: bool) -> dict[int, tuple[Combine, ...]]:
    """The combinations over warps that go together: nothing stands between them, a thread does not read too
    much at once, and there is room for all twice."""
    threads = math.prod(n for _, n in launch.threads)

    def fit(group: Sequence[Combine]) -> bool:
        parts = [
            (Grouping.of(launch.threads, c.thread, shuffles), elements_of(arrays[c.buffer])) for c in group
        ]
        return (
            len({c.buffer for c in group}) == len(group)
            and all(how.lanes > 1 and how.rounds(n) == 1 for how, n in parts)
            and sum(how.warps * n for how, n in parts) <= _READ
            and 2 * sum(how.room(n) for how, n in parts) <= threads
        )

    groups: list[tuple[Combine, ...]] = []
    for run in _runs(launch):
        group: tuple[Combine, ...] = ()
        for c in run:
            over_warps = Grouping.of(launch.threads, c.thread, shuffles).warps > 1
            if group and not (over_warps and fit((*group, c))):
                groups.append(group)
                group = ()
            group = (*group, c) if over_warps else ()
        groups += [group] if group else []
    found: dict[int, tuple[Combine, ...]] = {}
    for group in _apart(groups):
        found |= {id(c): group if c is group[0] else () for c in group}
    return found


def _runs(s: Stmt) -> Iterator[list[Combine]]:
    """Combinations with nothing between them."""
    run: list[Combine] = []
    for c in _flat(s):
        if isinstance(c, Combine):
            run.append(c)
            continue
        yield run
        run = []
        match c:
            case For() | Promote() | Launch():
                yield from _runs(c.body)
            case If():
                yield from _runs(c.then)
                yield from _runs(c.otherwise or Block(()))
            case _:
                pass
    yield run


def _flat(s: Stmt) -> Iterator[Stmt]:
    """Without blocks."""
    if isinstance(s, Block):
        for c in s.body:
            yield from _flat(c)
    else:
        yield s


def _apart(groups: Sequence[tuple[Combine, ...]]) -> Iterator[tuple[Combine, ...]]:
    """Groups; of those with statements that are in another one, too, each for itself: a tree may have one
    statement in several places."""
    homes: dict[int, set[tuple[int, ...]]] = {}
    for group in groups:
        for c in group:
            homes.setdefault(id(c), set()).add(tuple(map(id, group)))
    for group in groups:
        if all(len(homes[id(c)]) == 1 for c in group):
            yield group
        else:
            yield from ((c,) for c in group)
