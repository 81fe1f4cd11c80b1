"""The bytes that a launch moves through the caches, and the compulsory traffic.

The footprint of statements in an array, while some loops run, is a box: the intervals of the subscripts,
clamped to the array, the whole extent where a subscript depends on data; and never more than the elements
that are requested.  A cache keeps the footprint of one iteration of a loop for the next, or of one statement
for the one that follows, if all of it fits; if not, it is loaded again each time (the footprints at loop
levels of Wolf and Lam, "A data locality optimizing algorithm", 1991).

The resident blocks of a multiprocessor share its L1 cache.  All resident blocks share the L2 cache, and are
assumed to execute the same iterations at the same time.
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
_AccessKey = tuple[str, tuple[Expr, ...], bool]  # buffer, subscripts, whether it is a store
_EVERYWHERE = (-(1 << 62), 1 << 62)


@dataclass(frozen=True, slots=True)
class Reference:
    """An access to global memory in the text, of `width` contiguous elements; `elements` are those of all
    lanes in the launch."""

    array: Array
    shape: tuple[int, ...]
    subscripts: tuple[Expr, ...]
    store: bool
    elements: float
    width: int = 1


@dataclass(frozen=True, slots=True)
class Transfers:
    """Bytes read and written, by array."""

    read: Mapping[str, float]
    written: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.read.values()) + sum(self.written.values())


class Traffic:
    """The traffic of a launch, whose warps do `work`; `sizes` are the values of symbolic sizes."""

    def __init__(self, nest: LoopNest, launch: Launch, sizes: Mapping[str, int], work: Work) -> None:
        self.launch = launch
        self.sizes = sizes
        self.work = work
        self.counts = block_counts(launch, sizes)
        arrays = {a.name: a for a in nest.arrays if a.role in GLOBAL}
        requested: dict[_AccessKey, float] = {}
        for a in work.accesses:
            key = (a.buffer, a.subscripts, a.store)
            requested[key] = requested.get(key, 0.0) + a.elements
        self.references: dict[int, list[Reference]] = {}  # by the id of their statement
        for c in statements(launch.body):
            if isinstance(c, Compute):
                self.references[id(c)] = list(_references(c, arrays, sizes, requested))
        self.accesses_global_memory = {  # by the id of a loop
            id(s): any(self.references.get(id(c)) for c in statements(s.body))
            for s in statements(launch.body)
            if isinstance(s, For)
        }

    def compulsory(self) -> Transfers:
        """Each element that is touched is read once, unless it is written first, and written once."""
        return self.footprint(self.launch.body, self.block_intervals(self.counts), 1.0, exact=True)

    def l1_misses(self, capacity: float) -> Transfers:
        """The misses of all blocks in an L1 cache of which each block has `capacity` bytes."""
        blocks = math.prod(self.counts)
        one = self.block_intervals([1] * len(self.counts))
        return _scaled(self.misses(self.launch.body, one, float(blocks), capacity), blocks)

    def l2_misses(self, capacity: float, resident: int) -> Transfers:
        """The misses of all blocks in an L2 cache of `capacity` bytes, which `resident` blocks share at a
        time; the first block variable varies fastest."""
        spans: list[int] = []
        remaining = max(1, resident)
        for n in self.counts:
            spans.append(min(n, remaining))
            remaining = -(-remaining // max(1, n))
        waves = [-(-n // max(1, s)) for n, s in zip(self.counts, spans, strict=True)]
        times = float(math.prod(waves))
        moved = self.misses(self.launch.body, self.block_intervals(spans), times, capacity)
        for i, n in enumerate(waves):  # reuse from one wave of blocks to the next
            kept = self.footprint(self.launch.body, self.block_intervals(spans), times).total <= capacity
            spans[i] = self.counts[i]
            times /= max(1, n)
            moved = _scaled(moved, n)
            if kept:
                moved = _minimum(self.footprint(self.launch.body, self.block_intervals(spans), times), moved)
        return moved

    def block_intervals(self, spans: Sequence[int]) -> dict[str, Interval]:
        """The intervals of variables for `spans` adjacent blocks in the middle of the grid, and all of their
        threads."""
        env = {n: (v, v) for n, v in self.sizes.items()}
        for (v, _), n, s in zip(self.launch.blocks, self.counts, spans, strict=True):
            low = (n - s) // 2
            env[v] = (low, low + max(1, s) - 1)
        return env | {v: (0, n - 1) for v, n in self.launch.threads}

    def misses(self, s: Stmt, env: dict[str, Interval], times: float, capacity: float) -> Transfers:
        """The misses of one execution of `times` in the launch."""
        match s:
            case Block():
                parts = [self.misses(c, env, times, capacity) for c in s.body]
                total = _sum(parts)
                whole = self.footprint(s, env, times)
                return _minimum(whole, total) if whole.total <= capacity else total
            case If():
                parts = [self.misses(s.then, env, times, capacity)]
                if s.otherwise is not None:
                    parts.append(self.misses(s.otherwise, env, times, capacity))
                return _sum(parts)
            case Promote():
                return self.misses(s.body, env, times, capacity)
            case For():
                if not self.accesses_global_memory[id(s)]:
                    return Transfers({}, {})
                trips = self.work.trip_counts.get(id(s), 0.0)
                one = {**env, s.var: _iteration(s, env, trips)}
                inner = self.misses(s.body, one, times * trips, capacity)
                if self.footprint(s.body, one, times * trips).total <= capacity:
                    return _minimum(self.footprint(s, env, times), _scaled(inner, trips))
                return _scaled(inner, trips)
            case Compute():
                return self.footprint(s, env, times)
            case _:
                return Transfers({}, {})

    def footprint(self, s: Stmt, env: dict[str, Interval], times: float, *, exact: bool = False) -> Transfers:
        """The bytes that one execution of `times` touches, in whole sectors unless `exact`."""
        boxes: dict[str, list[Interval]] = {}
        requested: dict[str, float] = {}
        stored: set[str] = set()
        read: set[str] = set()  # before they are written
        arrays: dict[str, Reference] = {}

        def visit(s: Stmt, env: dict[str, Interval]) -> None:
            match s:
                case Block():
                    for c in s.body:
                        visit(c, env)
                case For() if self.accesses_global_memory[id(s)]:
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
                        box = [_clamp(i, n) for i, n in zip(found, r.shape, strict=True)]
                        old = boxes.get(name, box)
                        boxes[name] = [_hull(a, b) for a, b in zip(old, box, strict=True)]
                        requested[name] = requested.get(name, 0.0) + r.elements / max(1.0, times)
                        if not r.store and name not in stored:
                            read.add(name)
                        if r.store:
                            stored.add(name)
                        arrays[name] = r
                case _:
                    pass

        visit(s, env)
        sizes = {
            n: _box_bytes(boxes[n], arrays[n].shape, arrays[n].array.dtype.itemsize, requested[n], exact)
            for n in boxes
        }
        return Transfers(
            {n: size for n, size in sizes.items() if n in read},
            {n: size for n, size in sizes.items() if n in stored},
        )


def requested_bytes(accesses: Sequence[Access], *, store: bool) -> dict[str, float]:
    """Bytes of the sectors that requests touch, by array of global memory."""
    out: dict[str, float] = {}
    for a in accesses:
        if not a.shared and a.store == store:
            out[a.buffer] = out.get(a.buffer, 0.0) + a.transactions * SECTOR
    return out


def _references(
    c: Compute,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    requested: Mapping[_AccessKey, float],
) -> list[Reference]:
    """The references of a statement in order of execution, reads first."""
    found: list[_AccessKey] = []
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
        elements = requested.get((name, subscripts, store), 0.0)
        out.append(Reference(arrays[name], shape, subscripts, store, elements, c.width))
    return out


def _iteration(s: For, env: Mapping[str, Interval], trips: float) -> Interval:
    """The interval of a loop's variable in its middle iteration, for all threads and blocks of `env`."""
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


def _clamp(i: Interval, n: int) -> Interval:
    """The interval clamped to 0 … n - 1."""
    return min(max(0, i[0]), max(0, n - 1)), max(min(n - 1, i[1]), 0)


def _hull(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _box_bytes(
    box: Sequence[Interval], shape: Sequence[int], itemsize: int, requested: float, exact: bool
) -> float:
    """The bytes of a box, at most those of `requested` elements; contiguous runs in whole sectors unless
    `exact`."""
    elements = float(math.prod(high - low + 1 for low, high in box))
    if exact:
        return itemsize * min(elements, requested)
    run = itemsize
    whole = True  # all dimensions after are
    for (low, high), n in zip(reversed(box), reversed(shape), strict=True):
        if whole:
            run *= high - low + 1
        whole = whole and high - low + 1 == n
    rows = elements * itemsize / run
    return min(rows * -(-run // SECTOR) * SECTOR, requested * SECTOR)


def _scaled(m: Transfers, n: float) -> Transfers:
    return Transfers({k: v * n for k, v in m.read.items()}, {k: v * n for k, v in m.written.items()})


def _sum(parts: Sequence[Transfers]) -> Transfers:
    read: dict[str, float] = {}
    written: dict[str, float] = {}
    for p in parts:
        for out, of in ((read, p.read), (written, p.written)):
            for k, v in of.items():
                out[k] = out.get(k, 0.0) + v
    return Transfers(read, written)


def _minimum(a: Transfers, b: Transfers) -> Transfers:
    """The minimum of both for each array of `a`."""
    return Transfers(
        {k: min(v, b.read.get(k, 0.0)) for k, v in a.read.items()},
        {k: min(v, b.written.get(k, 0.0)) for k, v in a.written.items()},
    )
