"""Allocation of shared memory to the partial results of reductions across threads, and which of these
reductions share a barrier."""

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
    flattened,
)

Area = tuple[DType, int]

_MAX_LOADS = 128  # of a thread, for all reductions that share a barrier


@dataclass(frozen=True, slots=True)
class Scratch:
    """The allocation, by the `id` of a reduction.

    `groups` has for the first of the reductions that share a barrier all of them, for the others none.  `of`
    is the number of the area, among those of its type, and `first` the first slot in it.  `sizes` are the
    slots of each area.  `waiting` are groups that need a barrier first, as threads may still read earlier
    values there.
    """

    groups: Mapping[int, tuple[Combine, ...]] = field(default_factory=dict[int, tuple[Combine, ...]])
    of: Mapping[int, int] = field(default_factory=dict[int, int])
    first: Mapping[int, int] = field(default_factory=dict[int, int])
    sizes: Mapping[Area, int] = field(default_factory=dict[Area, int])
    waiting: frozenset[int] = frozenset()

    def barriers(self, s: Combine, array: Array, grouping: Grouping) -> int:
        """The barriers of a group, for its first reduction; 0 for the others."""
        if not self.groups.get(id(s)):
            return 0
        return grouping.barriers(elements_of(array), id(s) in self.waiting, s.everywhere)


def scratch(launch: Launch, arrays: Mapping[str, Array], shuffles: bool) -> Scratch:
    """Allocate the scratch of a launch.

    Groups without a barrier between them alternate between two areas, as the barrier inside a group orders
    all reads of the group before the previous one.  A type has only one area where two would exceed a slot a
    thread.
    """
    groups = _groups(launch, arrays, shuffles)
    first: dict[int, int] = {}
    ends: dict[int, dict[DType, int]] = {}  # of groups
    largest: dict[DType, int] = {}
    for head, group in groups.items():
        end: dict[DType, int] = {}
        for c in group:
            array = arrays[c.buffer]
            t, slots_needed = (
                combined_type(array),
                Grouping.of(launch.threads, c.thread, shuffles).slots_needed(elements_of(array)),
            )
            first[id(c)] = end.get(t, 0)
            end[t] = first[id(c)] + slots_needed
        ends[head] = end
        largest |= {t: max(n, largest.get(t, 0)) for t, n in end.items()}
    threads = math.prod(n for _, n in launch.threads)
    areas: dict[tuple[int, DType], int] = {}  # of groups
    sizes: dict[Area, int] = {}
    waiting: set[int] = set()

    def visit(s: Stmt, read: frozenset[Area]) -> frozenset[Area]:
        """The areas that threads may still read after a statement, if `read` are those before it."""
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
                own: set[Area] = set()
                for t, end in ends[id(s)].items():
                    area_count = 2 if 2 * largest[t] <= threads else 1
                    free = next((i for i in range(area_count) if (t, i) not in read), 0)
                    area = t, areas.setdefault((id(s), t), free)
                    sizes[area] = max(sizes.get(area, 0), end)
                    own.add(area)
                waiting.update([] if own.isdisjoint(read) else [id(s)])
                return frozenset(own)
            case Compute() | Prefetch():
                pass
        return read

    visit(launch, frozenset())
    of = {
        id(c): areas[head, combined_type(arrays[c.buffer])]
        for head, group in groups.items()
        for c in group
        if (head, combined_type(arrays[c.buffer])) in areas
    }
    return Scratch(groups, of, first, sizes, frozenset(waiting))


def combined_type(array: Array) -> DType:
    """The type in which the elements of an array are combined."""
    return accumulator(array.dtype, array.dtype)


def elements_of(array: Array) -> int:
    """The number of elements of a thread's array.  Raises InternalError unless the extents are constant."""
    extents = [n.value for n in array.shape if isinstance(n, IntImm)]
    if len(extents) < len(array.shape):
        raise InternalError(f"the extents of {array.name} are not constant")
    return math.prod(extents)


def _groups(launch: Launch, arrays: Mapping[str, Array], shuffles: bool) -> dict[int, tuple[Combine, ...]]:
    """The reductions over warps that share a barrier: there is nothing between them, a thread has at most
    _MAX_LOADS loads, and two areas of a slot a thread suffice."""
    threads = math.prod(n for _, n in launch.threads)

    def fits(group: Sequence[Combine]) -> bool:
        parts = [
            (Grouping.of(launch.threads, c.thread, shuffles), elements_of(arrays[c.buffer])) for c in group
        ]
        return (
            len({c.buffer for c in group}) == len(group)
            and all(grouping.lanes > 1 and grouping.rounds(n) == 1 for grouping, n in parts)
            and sum(grouping.warps * n for grouping, n in parts) <= _MAX_LOADS
            and 2 * sum(grouping.slots_needed(n) for grouping, n in parts) <= threads
        )

    groups: list[tuple[Combine, ...]] = []
    for run in _runs(launch):
        group: tuple[Combine, ...] = ()
        for c in run:
            over_warps = Grouping.of(launch.threads, c.thread, shuffles).warps > 1
            if group and not (over_warps and fits((*group, c))):
                groups.append(group)
                group = ()
            group = (*group, c) if over_warps else ()
        groups += [group] if group else []
    found: dict[int, tuple[Combine, ...]] = {}
    for group in _separate_shared(groups):
        found |= {id(c): group if c is group[0] else () for c in group}
    return found


def _runs(s: Stmt) -> Iterator[list[Combine]]:
    """Reductions with nothing between them."""
    run: list[Combine] = []
    for c in flattened(s):
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


def _separate_shared(groups: Sequence[tuple[Combine, ...]]) -> Iterator[tuple[Combine, ...]]:
    """The groups, but each reduction alone if one of its group is in another one, too: a tree may have one
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
