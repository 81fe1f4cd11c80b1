"""What a launch moves through the caches, and the least that it could move.

What statements touch of an array while some loops run is taken for a box: the subscripts' intervals, cut to
the array, where data say which element the whole extent, never more than the elements that are asked for.  A
cache keeps what one iteration of a loop touches for the next, or one statement for the one that follows, if
all of it fits; if not, it comes again each time (the footprints at loop levels of Wolf and Lam, "A data
locality optimizing algorithm", 1991).

The first cache is one for the blocks that a multiprocessor holds; the second one for all blocks that run at
the same time, of which it is thought that they do the same iterations at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tc.ir import expr as x
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, Load, inline_lets, walk
from tc.ir.loops import Array, Block, Compute, For, If, Launch, LoopNest, Promote, Stmt, statements

from .lanes import SECTOR
from .requests import GLOBAL, Access, Work, block_counts

Interval = tuple[int, int]
_Place = tuple[str, tuple[Expr, ...], bool]  # what is accessed, and whether it is stored
_EVERYWHERE = (-(1 << 62), 1 << 62)


@dataclass(frozen=True, slots=True)
class Reference:
    """An access to global memory in the text, of so many neighbours (`width`); `elements` of all lanes, over
    the launch."""

    array: Array
    shape: tuple[int, ...]
    subscripts: tuple[Expr, ...]
    store: bool
    elements: float
    width: int = 1


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes by array: read, and written."""

    read: Mapping[str, float]
    written: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.read.values()) + sum(self.written.values())


class Traffic:
    """Of a launch, whose warps do `work`."""

    def __init__(self, nest: LoopNest, launch: Launch, sizes: Mapping[str, int], work: Work) -> None:
        self.launch = launch
        self.sizes = sizes
        self.work = work
        self.counts = block_counts(launch, sizes)
        arrays = {a.name: a for a in nest.arrays if a.role in GLOBAL}
        asked: dict[_Place, float] = {}
        for a in work.accesses:
            key = (a.buffer, a.subscripts, a.store)
            asked[key] = asked.get(key, 0.0) + a.elements
        self.references: dict[int, list[Reference]] = {}  # by the id of their statement
        for c in statements(launch.body):
            if isinstance(c, Compute):
                self.references[id(c)] = list(_references(c, arrays, sizes, asked))
        self.some = {  # loops that get to global memory
            id(s): any(self.references.get(id(c)) for c in statements(s.body))
            for s in statements(launch.body)
            if isinstance(s, For)
        }

    def least(self) -> Moved:
        """Each element that is touched read once, unless it is written first, and written once."""
        return self.touched(self.launch.body, self.start(self.counts), 1.0, exact=True)

    def behind_first(self, capacity: float) -> Moved:
        """What comes from behind a cache of which each block has so many bytes, for all blocks."""
        blocks = math.prod(self.counts)
        one = self.start([1] * len(self.counts))
        return _times(self.behind(self.launch.body, one, float(blocks), capacity), blocks)

    def behind_second(self, capacity: float, together: int) -> Moved:
        """What comes from behind a cache of so many bytes, which all blocks have; so many run together, the
        first block variable the fastest."""
        spans: list[int] = []
        left = max(1, together)
        for n in self.counts:
            spans.append(min(n, left))
            left = -(-left // max(1, n))
        rounds = [-(-n // max(1, s)) for n, s in zip(self.counts, spans, strict=True)]
        times = float(math.prod(rounds))
        moved = self.behind(self.launch.body, self.start(spans), times, capacity)
        for i, n in enumerate(rounds):  # from one round of blocks to the next
            kept = self.touched(self.launch.body, self.start(spans), times).total <= capacity
            spans[i] = self.counts[i]
            times /= max(1, n)
            moved = _times(moved, n)
            if kept:
                moved = _less(self.touched(self.launch.body, self.start(spans), times), moved)
        return moved

    def start(self, spans: Sequence[int]) -> dict[str, Interval]:
        """The values of variables for so many blocks next to each other, in the middle of the grid, and all
        of their threads."""
        env = {n: (v, v) for n, v in self.sizes.items()}
        for (v, _), n, s in zip(self.launch.blocks, self.counts, spans, strict=True):
            low = (n - s) // 2
            env[v] = (low, low + max(1, s) - 1)
        return env | {v: (0, n - 1) for v, n in self.launch.threads}

    def behind(self, s: Stmt, env: dict[str, Interval], times: float, capacity: float) -> Moved:
        """What one execution moves, of `times` in the launch."""
        match s:
            case Block():
                parts = [self.behind(c, env, times, capacity) for c in s.body]
                total = _sum(parts)
                whole = self.touched(s, env, times)
                return _less(whole, total) if whole.total <= capacity else total
            case If():
                parts = [self.behind(s.then, env, times, capacity)]
                if s.otherwise is not None:
                    parts.append(self.behind(s.otherwise, env, times, capacity))
                return _sum(parts)
            case Promote():
                return self.behind(s.body, env, times, capacity)
            case For():
                if not self.some[id(s)]:
                    return Moved({}, {})
                trips = self.work.trips.get(id(s), 0.0)
                one = {**env, s.var: _iteration(s, env, trips)}
                inner = self.behind(s.body, one, times * trips, capacity)
                if self.touched(s.body, one, times * trips).total <= capacity:
                    return _less(self.touched(s, env, times), _times(inner, trips))
                return _times(inner, trips)
            case Compute():
                return self.touched(s, env, times)
            case _:
                return Moved({}, {})

    def touched(self, s: Stmt, env: dict[str, Interval], times: float, *, exact: bool = False) -> Moved:
        """What one execution of `times` touches, in whole sectors unless `exact`."""
        boxes: dict[str, list[Interval]] = {}
        asked: dict[str, float] = {}
        stored: set[str] = set()
        read: set[str] = set()  # before it is written
        arrays: dict[str, Reference] = {}

        def visit(s: Stmt, env: dict[str, Interval]) -> None:
            match s:
                case Block():
                    for c in s.body:
                        visit(c, env)
                case For() if self.some[id(s)]:
                    low, high = _interval(s.lower, env), _interval(s.upper, env)
                    visit(s.body, {**env, s.var: (low[0], max(low[0], high[1] - 1))})
                case If():
                    visit(s.then, env)
                    if s.otherwise is not None:
                        visit(s.otherwise, env)
                case Promote():
                    visit(s.body, env)
                case Compute():
                    for r in self.references[id(s)]:
                        name = r.array.name
                        found = [_interval(e, env) for e in r.subscripts]
                        if r.width > 1:
                            found[-1] = found[-1][0], found[-1][1] + r.width - 1
                        box = [_cut(i, n) for i, n in zip(found, r.shape, strict=True)]
                        old = boxes.get(name, box)
                        boxes[name] = [_hull(a, b) for a, b in zip(old, box, strict=True)]
                        asked[name] = asked.get(name, 0.0) + r.elements / max(1.0, times)
                        if not r.store and name not in stored:
                            read.add(name)
                        if r.store:
                            stored.add(name)
                        arrays[name] = r
                case _:
                    pass

        visit(s, env)
        sizes = {
            n: _bytes(boxes[n], arrays[n].shape, arrays[n].array.dtype.itemsize, asked[n], exact)
            for n in boxes
        }
        return Moved(
            {n: size for n, size in sizes.items() if n in read},
            {n: size for n, size in sizes.items() if n in stored},
        )


def requested(accesses: Sequence[Access], *, store: bool) -> dict[str, float]:
    """Bytes of the sectors that requests name, by array of global memory."""
    out: dict[str, float] = {}
    for a in accesses:
        if not a.shared and a.store == store:
            out[a.buffer] = out.get(a.buffer, 0.0) + a.moved * SECTOR
    return out


def _references(
    c: Compute,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    asked: Mapping[_Place, float],
) -> list[Reference]:
    """Reads first, as a statement makes them."""
    found: list[_Place] = []
    for e in (c.value, *c.subscripts):
        found += [(r.buffer, r.subscripts, False) for r in walk(inline_lets(e)) if isinstance(r, Load)]
    if c.op is not None:
        found.append((c.buffer, c.subscripts, False))
    found.append((c.buffer, c.subscripts, True))
    out: list[Reference] = []
    for name, subscripts, store in dict.fromkeys(found):
        if name not in arrays:
            continue
        shape = tuple(max(0, evaluate(n, sizes)) for n in arrays[name].shape)
        elements = asked.get((name, subscripts, store), 0.0)
        out.append(Reference(arrays[name], shape, subscripts, store, elements, c.width))
    return out


def _iteration(s: For, env: Mapping[str, Interval], trips: float) -> Interval:
    """The values of the variable in an iteration in the middle, of all threads and blocks of `env`."""
    low = _interval(s.lower, env)
    at = max(0, int(trips) - 1) // 2 * s.step
    return low[0] + at, low[1] + at


def _interval(e: Expr, env: Mapping[str, Interval]) -> Interval:
    match e:
        case x.IntImm() | x.UIntImm():
            return e.value, e.value
        case x.Variable():
            return env.get(e.name, _EVERYWHERE)
        case x.Cast():
            return _interval(e.value, env)
        case x.Add():
            a, b = _interval(e.a, env), _interval(e.b, env)
            return a[0] + b[0], a[1] + b[1]
        case x.Sub():
            a, b = _interval(e.a, env), _interval(e.b, env)
            return a[0] - b[1], a[1] - b[0]
        case x.Mul():
            a, b = _interval(e.a, env), _interval(e.b, env)
            ends = [p * q for p in a for q in b]
            return min(ends), max(ends)
        case x.FloorDiv(b=x.IntImm(value=n)) if n > 0:
            a = _interval(e.a, env)
            return a[0] // n, a[1] // n
        case x.FloorMod(b=x.IntImm(value=n)) if n > 0:
            a = _interval(e.a, env)
            return (a[0] % n, a[1] % n) if a[0] // n == a[1] // n else (0, n - 1)
        case x.Min() | x.Max():
            a, b = _interval(e.a, env), _interval(e.b, env)
            chosen: Any = min if isinstance(e, x.Min) else max
            return chosen(a[0], b[0]), chosen(a[1], b[1])
        case x.Select() | x.IfThenElse():
            _, then, otherwise = x.children(e)
            return _hull(_interval(then, env), _interval(otherwise, env))
        case _:
            return _EVERYWHERE


def _cut(i: Interval, n: int) -> Interval:
    """What is inside of an extent."""
    return min(max(0, i[0]), max(0, n - 1)), max(min(n - 1, i[1]), 0)


def _hull(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _bytes(box: Sequence[Interval], shape: Sequence[int], itemsize: int, asked: float, exact: bool) -> float:
    """Of a box, at most what `asked` elements need; runs of neighbours in whole sectors unless `exact`."""
    elements = float(math.prod(high - low + 1 for low, high in box))
    if exact:
        return itemsize * min(elements, asked)
    run = itemsize
    whole = True  # all dimensions after are
    for (low, high), n in zip(reversed(box), reversed(shape), strict=True):
        if whole:
            run *= high - low + 1
        whole = whole and high - low + 1 == n
    rows = elements * itemsize / run
    return min(rows * -(-run // SECTOR) * SECTOR, asked * SECTOR)


def _times(m: Moved, n: float) -> Moved:
    return Moved({k: v * n for k, v in m.read.items()}, {k: v * n for k, v in m.written.items()})


def _sum(parts: Sequence[Moved]) -> Moved:
    read: dict[str, float] = {}
    written: dict[str, float] = {}
    for p in parts:
        for out, of in ((read, p.read), (written, p.written)):
            for k, v in of.items():
                out[k] = out.get(k, 0.0) + v
    return Moved(read, written)


def _less(a: Moved, b: Moved) -> Moved:
    """The lesser of both for each array, of what is in `a`."""
    return Moved(
        {k: min(v, b.read.get(k, 0.0)) for k, v in a.read.items()},
        {k: min(v, b.written.get(k, 0.0)) for k, v in a.written.items()},
    )
