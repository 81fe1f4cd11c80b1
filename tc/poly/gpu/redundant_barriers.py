"""Removal of redundant barriers: those whose conflicts other barriers separate on every path.

sync.py finds which threads conflict and inserts barriers into the schedule tree; copies and combinations
always bring their own.  Only the loops show which barriers are on each path: that the first tile begins with
a barrier, or that no access follows the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import reduce

from tc.ir.expr import Expr, IntImm, Load, walk
from tc.ir.grouping import Grouping
from tc.ir.loops import (
    MOST_BLOCKS,
    WARP,
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
    statements,
)
from tc.poly.ast import block
from tc.transforms.loops.unswitch import Interval, values, within


def remove_redundant_barriers(launch: Launch, own: AbstractSet[str]) -> Launch:
    """A launch without its redundant barriers; of the arrays `own` each thread has a private copy.

    A barrier is needed if on some path through the launch an array is accessed before and after it, one of
    the two a write, with no other barrier between them.  Elements and threads are not compared, so some
    barrier that stays may be redundant, but none that is needed is removed.  Of two of which either would do,
    the one in more loops is removed.
    """
    if all(s.copies for s in statements(launch) if isinstance(s, Sync)):
        return launch
    body = _replaced(launch.body, lambda s: replace(s))  # so that each is an object of its own
    steps = _Reader(launch, own).steps(body, _ranges(launch))
    small = math.prod(n for _, n in launch.threads) <= WARP
    gone: set[int] = set()
    for barrier in _inside_out(body):
        if not barrier.copies and not _BarrierRemoval(barrier, gone, small).after(steps, _State()).conflict:
            gone.add(id(barrier))
    return replace(launch, body=_replaced(body, lambda s: _NOTHING if id(s) in gone else s))


_NOTHING = Block(())


@dataclass(frozen=True, slots=True)
class _Touched:
    """The arrays that threads share and access, and those of them that they write."""

    arrays: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def __or__(self, other: _Touched) -> _Touched:
        return _Touched(self.arrays | other.arrays, self.written | other.written)

    def conflicts(self, other: _Touched) -> bool:
        return not (self.arrays.isdisjoint(other.written) and self.written.isdisjoint(other.arrays))


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop with barriers; `runs`: it has an iteration in all blocks and for all sizes."""

    body: Sequence[_Step]
    runs: bool


@dataclass(frozen=True, slots=True)
class _Choice:
    alternatives: Sequence[Sequence[_Step]]


_Step = _Touched | _Loop | _Choice | Sync  # the abstraction of a launch that is analysed


@dataclass(frozen=True, slots=True)
class _Reader:
    """Abstracts a launch to its accesses of shared arrays, its barriers and its control flow."""

    launch: Launch
    own: AbstractSet[str]

    def steps(self, s: Stmt, ranges: Mapping[str, Interval]) -> Sequence[_Step]:
        match s:
            case Block():
                return _joined([x for c in s.body for x in self.steps(c, ranges)])
            case For():
                inner, around = self.steps(s.body, within(ranges, s)), self.touched(s.lower, s.upper)
                if _has_barriers(inner):
                    low, high = values(s.lower, ranges), values(s.upper, ranges)
                    runs = low is not None and high is not None and low[1] < high[0]
                    inner = [_Loop(inner, runs)]
                return _joined([around, *inner])
            case If():
                alternatives = [self.steps(x, ranges) for x in (s.then, s.otherwise or _NOTHING)]
                inner = (
                    [_Choice(alternatives)]
                    if any(map(_has_barriers, alternatives))
                    else [x for w in alternatives for x in w]
                )
                return _joined([self.touched(s.condition), *inner])
            case Promote() | Launch():
                return self.steps(s.body, ranges)
            case Compute():
                return [self.touched(s.value, *s.subscripts, written=s.buffer)]
            case Combine():  # has a barrier, if it is one over warps
                grouping = Grouping.of(self.launch.threads, s.thread, shuffles=True)
                return [Sync()] if grouping.warps > 1 else []
            case Sync():
                return [s]
            case Prefetch():
                return []

    def touched(self, *read: Expr, written: str | None = None) -> _Touched:
        arrays = {x.buffer for e in read for x in walk(e) if isinstance(x, Load)}
        writes = frozenset[str]() if written is None or written in self.own else frozenset([written])
        return _Touched(writes.union(arrays - self.own), writes)


def _joined(steps: Sequence[_Step]) -> list[_Step]:
    """The steps, with consecutive accesses merged into one."""
    out: list[_Step] = []
    for x in steps:
        if out and isinstance(x, _Touched) and isinstance(last := out[-1], _Touched):
            out[-1] = last | x
        else:
            out.append(x)
    return out


def _has_barriers(steps: Sequence[_Step]) -> bool:
    return not all(isinstance(x, _Touched) for x in steps)


def _ranges(launch: Launch) -> dict[str, Interval]:
    """The values of the variables of a launch."""
    blocks = {v: n.value if isinstance(n, IntImm) else MOST_BLOCKS for v, n in launch.blocks}
    return {v: (0, n - 1) for v, n in (*blocks.items(), *launch.threads)}


@dataclass(frozen=True, slots=True)
class _State:
    """A data flow fact: the accesses on any path to a point since the last barrier, those before the barrier
    in question and those after it, and whether any two of them conflict."""

    before: _Touched = _Touched()
    after: _Touched = _Touched()
    conflict: bool = False

    def __or__(self, other: _State) -> _State:
        return _State(self.before | other.before, self.after | other.after, self.conflict or other.conflict)


@dataclass(frozen=True, slots=True)
class _BarrierRemoval:
    """The data flow analysis of a launch without `barrier` and without those that are `gone`.

    `small`: a block has one warp at most.
    """

    barrier: Sync
    gone: AbstractSet[int]
    small: bool

    def after(self, steps: Sequence[_Step], at: _State) -> _State:
        """The state after steps, from the state before them."""
        for s in steps:
            match s:
                case _Touched():
                    at = _State(at.before, at.after | s, at.conflict or at.before.conflicts(s))
                case _Loop():
                    first = at
                    while (end := self.after(s.body, at)) | at != at:
                        at |= end
                    at = end if s.runs else first | end
                case _Choice():
                    at = reduce(_State.__or__, [self.after(x, at) for x in s.alternatives])
                case Sync():
                    if s is self.barrier:
                        at = _State(at.before | at.after, conflict=at.conflict)
                    elif id(s) not in self.gone and (self.small or self.barrier.warp or not s.warp):
                        at = _State(conflict=at.conflict)
        return at


def _inside_out(s: Stmt) -> list[Sync]:
    """The barriers of a statement, by the number of loops around them, most first."""
    return [barrier for _, barrier in sorted(_barriers(s, 0), key=lambda x: -x[0])]


def _barriers(s: Stmt, depth: int) -> Iterator[tuple[int, Sync]]:
    """The barriers of a statement, each with the number of loops around it."""
    match s:
        case Sync():
            yield depth, s
        case Block():
            for c in s.body:
                yield from _barriers(c, depth)
        case For():
            yield from _barriers(s.body, depth + 1)
        case If():
            yield from _barriers(s.then, depth)
            yield from _barriers(s.otherwise or _NOTHING, depth)
        case Promote() | Launch():
            yield from _barriers(s.body, depth)
        case _:
            pass


def _replaced(s: Stmt, change: Callable[[Sync], Stmt]) -> Stmt:
    """The statement with `change` applied to each barrier."""
    match s:
        case Sync():
            return change(s)
        case Block():
            return block([_replaced(c, change) for c in s.body])
        case For() | Promote():
            body = _replaced(s.body, change)
            return replace(s, body=body) if body != _NOTHING else body
        case If():
            then = _replaced(s.then, change)
            otherwise = None if s.otherwise is None else _replaced(s.otherwise, change)
            empty = then == _NOTHING and otherwise is None
            return then if empty else replace(s, then=then, otherwise=otherwise)
        case _:
            return s
