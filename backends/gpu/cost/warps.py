"""What the warps of a launch do: requests to memory, how these fall on sectors and banks, instructions.

The tree of a launch is walked once.  Walked along are some of its warps, all 32 lanes of each as numpy
arrays, each with the number of warps and iterations that it stands for: those of a block in the middle, or
where a condition asks for the number of a block, of the last one and of some others; and of a loop one
iteration, or several where conditions ask for its variable.  So the work is that of the text, whatever the
sizes, and counts are exact as long as what is not looked at does the same.

What nvcc does on its own is counted as done (as the PTX of NVRTC 12.9 shows): a load that is the same in
several iterations of unrolled loops, or does not change in a loop, is made once, unless there is a condition
or a barrier between, or its array is written in there; an element that a loop updates again and again, and
nothing else in it touches its array, is in a register meanwhile; so is what the same block of statements has
just loaded or stored.  Neighbours in shared memory that iterations done at once load are one vector of up to
16 bytes, where rows begin as vectors do.

Sectors: global memory is fetched in 32 bytes; banks: tc/poly/gpu/banks.py (CUDA C++ programming guide,
"Device memory accesses", "Shared memory").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tc.codegen.scratch import elements_of, scratch
from tc.dtypes import FLOAT16
from tc.errors import InternalError
from tc.ir import expr as x
from tc.ir.expr import Expr, Load, inline_lets, variables, walk
from tc.ir.grouping import Grouping
from tc.ir.loops import (
    VECTOR,
    WARP,
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
    statements,
)
from tc.ir.simplify import linear_terms
from tc.poly.gpu.banks import Lanes, cycles

from .instructions import (
    BYTES,
    MULTIPLY_ADD,
    arithmetic,
    converts,
    divisions,
    of_bytes,
    pipe,
)
from .lanes import INDEX, lanes_of, sectors, strides_of
from .requests import SCRATCH, Access, Work, block_counts, thread_count
from .unrolling import unrolled

_WARPS = 80  # that are walked along at first
_ROWS = 512  # that are walked along at most
_FEW = 8  # iterations that are all looked at


@dataclass(frozen=True, slots=True)
class _Frame:
    """A loop around a statement, or a condition (`loop` is None)."""

    loop: For | None
    whole: bool = False  # unrolled, no loop is left
    barrier: bool = False
    stored: Mapping[str, int] = field(default_factory=dict[str, int])  # statements that store, by array
    loaded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Warps:
    """Rows are warps at some iterations: arrays are of (rows, 1) or (rows, 32)."""

    env: Mapping[str, Lanes]
    mask: Lanes
    weight: Lanes
    trips: Mapping[str, Lanes]  # of the loops around
    frames: tuple[_Frame, ...] = ()

    def take(self, rows: Lanes) -> _Warps:
        return _Warps(
            {n: v[rows] for n, v in self.env.items()},
            self.mask[rows],
            self.weight[rows],
            {n: v[rows] for n, v in self.trips.items()},
            self.frames,
        )


def work(nest: LoopNest, launch: Launch, sizes: Mapping[str, int], *, shuffles: bool = True) -> Work:
    """Of all warps of a launch, whose sizes are those of the nest or else have these values; `shuffles`:
    threads of a warp combine what they hold by shuffles."""
    return _Walk(nest, launch, sizes, shuffles).walked()


class _Walk:
    def __init__(self, nest: LoopNest, launch: Launch, sizes: Mapping[str, int], shuffles: bool) -> None:
        self.launch = launch
        self.sizes = sizes
        self.shuffles = shuffles
        self.arrays = {a.name: a for a in nest.arrays}
        self.unrolled = unrolled(launch.body, self.arrays)
        self.areas = scratch(launch, self.arrays, shuffles)
        self.asked = frozenset(_asked(launch))
        self.accesses: list[Access] = []
        self.pipes: dict[str, float] = {}
        self.control = self.guards = self.barriers = self.multiply_adds = 0.0
        self.entered: dict[int, list[float]] = {}
        self.strides = {a.name: strides_of(a, sizes) for a in nest.arrays}

    def walked(self) -> Work:
        counts = block_counts(self.launch, self.sizes)
        threads = thread_count(self.launch)
        warps = float(math.prod(counts) * -(-threads // WARP))
        if warps:
            self.visit(self.launch.body, self.first(counts, threads))
        return Work(
            tuple(self.accesses),
            dict(self.pipes),
            self.control,
            self.guards,
            self.barriers / max(1.0, warps),
            _barriers_each(self.launch.body),
            self.multiply_adds,
            {k: n / w for k, (w, n) in self.entered.items() if w},
            self.unrolled,
            warps,
        )

    def first(self, counts: Sequence[int], threads: int) -> _Warps:
        """All warps of some blocks."""
        picked: list[list[tuple[int, int]]] = []
        held = -(-threads // WARP)
        for (v, _), n in zip(self.launch.blocks, counts, strict=True):
            rows = held * math.prod(map(len, picked))
            left = max(min(3, _WARPS // rows), min(2, _ROWS // rows))
            picked.append(_some(n, left) if v in self.asked else [(n // 2, n)])
        blocks = list(itertools.product(*picked))
        number = np.arange(held * WARP).reshape(1, held, WARP)
        mask = np.broadcast_to(number < threads, (len(blocks), held, WARP)).reshape(-1, WARP)
        env: dict[str, Lanes] = {}
        rows = len(blocks) * held
        for i, (v, _) in enumerate(self.launch.blocks):
            env[v] = np.repeat(np.array([b[i][0] for b in blocks], np.int64), held).reshape(rows, 1)
        for v, n in self.launch.threads:
            lanes = np.broadcast_to(number % n, (len(blocks), held, WARP)).reshape(rows, WARP)
            env[v] = lanes[:, :1] if np.all(lanes == lanes[:, :1]) else lanes
            number = number // n
        for n, value in self.sizes.items():
            env[n] = np.full((rows, 1), value, np.int64)
        weight = np.repeat(np.array([float(math.prod(n for _, n in b)) for b in blocks]), held)
        return _Warps(env, mask, weight, {})

    # Statements.

    def visit(self, s: Stmt, g: _Warps, known: set[tuple[str, tuple[Expr, ...]]] | None = None) -> None:
        if not len(g.weight):
            return
        known = set() if known is None else known
        match s:
            case Block():
                for c in s.body:
                    self.visit(c, g, known)
                    if not isinstance(c, (Compute, Prefetch)):
                        known.clear()
            case Promote():
                self.visit(s.body, g)
            case For():
                self.loop(s, g)
            case If():
                self.condition(s, g, known)
            case Compute():
                self.compute(s, g, known)
            case Sync():
                self.control += float(g.weight.sum())
                self.barriers += float(g.weight.sum())
            case Combine():
                self.combine(s, g)
            case Prefetch():
                self.control += float(g.weight.sum())
            case Launch():
                raise InternalError("a launch inside a launch")

    def condition(self, s: If, g: _Warps, known: set[tuple[str, tuple[Expr, ...]]]) -> None:
        """A comparison and a branch; the comparison is made once, if it is the same in a loop."""
        tests = sum(isinstance(e, (x.EQ, x.NE, x.LT, x.LE, x.GT, x.GE)) for e in walk(s.condition))
        spent = float(g.weight.sum() + tests * self.often(g, variables(s.condition)).sum())
        self.control += spent
        self.guards += spent if any(f.loop is not None for f in g.frames) else 0.0
        true = self.truth(s.condition, g)
        frames = (*g.frames, _Frame(None))
        for part, holds in ((s.then, true), (s.otherwise, None if true is None else ~true)):
            if part is not None:
                mask = g.mask if holds is None else g.mask & holds
                rows: Lanes = np.any(mask, axis=1)
                self.visit(part, replace(g, mask=mask, frames=frames).take(rows), set(known))

    def loop(self, s: For, g: _Warps) -> None:
        low, high = lanes_of(s.lower, g.env), lanes_of(s.upper, g.env)
        trips = np.broadcast_to(np.maximum(0, -((low - high) // s.step)), g.mask.shape)
        most = np.where(g.mask, trips, 0).max(1)
        least = np.minimum(np.where(g.mask, trips, np.iinfo(np.int64).max).min(1), most)
        entry = self.entered.setdefault(id(s), [0.0, 0.0])
        entry[0] += float(g.weight[most > 0].sum())
        entry[1] += float((g.weight * most).sum())
        if not self.unrolled[id(s)].whole:  # a counter, a comparison, a branch
            self.control += 3 * float((g.weight * most).sum()) / self.unrolled[id(s)].factor
        top = int(most.max())
        picks: list[tuple[Lanes, Lanes]]  # iterations, and how many each stands for
        zero = np.zeros_like(most)
        if s.var in self.asked and top <= _FEW and len(most) * top <= _ROWS:
            picks = [(zero + k, (k < most) * 1.0) for k in range(top)]
        elif s.var in self.asked and len(most) * 3 <= _ROWS:
            picks = [
                (zero, (most > 0) * 1.0),
                (most // 2, np.maximum(0, most - 2) * 1.0),
                (np.maximum(0, most - 1), (most > 1) * 1.0),
            ]
        elif len(most) * 2 > _ROWS:
            picks = [(most // 2, most * 1.0)]
        else:  # while all lanes run, and while some still do
            picks = [(least // 2, least * 1.0), (least + (most - least) // 2, (most - least) * 1.0)]
        frames = (*g.frames, self.frame(s))
        parts: list[_Warps] = []
        for number, stands in picks:
            rows = stands > 0
            if not rows.any():
                continue
            part = g.take(rows)
            k = number[rows][:, None]
            at = np.broadcast_to(low, (len(most), np.shape(low)[-1] if np.ndim(low) else 1))[rows]
            parts.append(
                _Warps(
                    {**part.env, s.var: at + k * s.step},
                    part.mask & (k < trips[rows]),
                    part.weight * stands[rows],
                    {**part.trips, s.var: most[rows]},
                    frames,
                )
            )
        if parts:
            self.visit(s.body, _together(parts))

    def compute(self, s: Compute, g: _Warps, known: set[tuple[str, tuple[Expr, ...]]]) -> None:
        value = inline_lets(s.value)
        target = self.arrays[s.buffer]
        weight = float(g.weight.sum())
        dots = of_bytes(value, s.op, target.dtype)
        steps = {"integer": 1 / BYTES} if dots else arithmetic(s.value, s.op, target.dtype)
        for p, n in steps.items():
            self.spend(p, n * weight)
            if p == MULTIPLY_ADD:
                self.multiply_adds += n * float((g.weight * g.mask.sum(1)).sum())
        converted = {c.value for c in walk(value) if isinstance(c, x.Cast) and converts(c)}
        reads = list(self.reads(value, g, g.mask))
        for e in s.subscripts:
            reads += self.reads(inline_lets(e), g, g.mask)
        for e, mask in reads:
            if (e.buffer, e.subscripts) not in known:
                known.add((e.buffer, e.subscripts))
                often = self.kept(e.buffer, e.subscripts, g)
                self.access(e.buffer, e.subscripts, g, mask, often, width=s.width, store=False, packed=dots)
                if e in converted:
                    self.spend("integer", s.width * float(often.sum()))
        often = g.weight
        if s.op is not None:
            often = self.kept(s.buffer, s.subscripts, g, updated=True)
            if (s.buffer, s.subscripts) not in known:
                self.access(s.buffer, s.subscripts, g, g.mask, often, store=False)
        parts = max(1, s.width * target.dtype.itemsize // VECTOR)  # of halves as float32 several
        self.access(s.buffer, s.subscripts, g, g.mask, often * parts, width=s.width // parts, store=True)
        loaded = [i for e, _ in reads if self.arrays[e.buffer].role != "register" for i in e.subscripts]
        # What is computed under a condition is computed again for what comes after it.
        parts = (
            (loaded, s.subscripts)
            if any(isinstance(e, x.IfThenElse) for e in walk(value))
            else ((*loaded, *s.subscripts),)
        )
        for part in parts:
            for e, n in divisions(part).items():
                self.spend("integer", n * float(self.often(g, variables(e)).sum()))
        known.difference_update([k for k in known if k[0] == s.buffer])
        known.add((s.buffer, s.subscripts))

    def reads(self, e: Expr, g: _Warps, mask: Lanes) -> Iterator[tuple[Load, Lanes]]:
        """The loads of an expression, and the lanes that make them."""
        match e:
            case x.IfThenElse():
                yield from self.reads(e.condition, g, mask)
                true = self.truth(e.condition, g)
                yield from self.reads(e.then_value, g, mask if true is None else mask & true)
                yield from self.reads(e.else_value, g, mask if true is None else mask & ~true)
            case _:
                for c in x.children(e):
                    yield from self.reads(c, g, mask)
                if isinstance(e, Load):
                    yield e, mask

    def combine(self, s: Combine, g: _Warps) -> None:
        """As tc/codegen/combine.py does it."""
        array = self.arrays[s.buffer]
        how = Grouping.of(self.launch.threads, s.thread, self.shuffles)
        if how.count == 1:
            return
        elements = elements_of(array)
        weight = float(g.weight.sum())
        self.barriers += weight * self.areas.barriers(s, array, how)
        weight *= elements
        steps = (how.lanes - 1).bit_length()
        self.spend("shuffle", weight * steps)
        self.spend(pipe(array.dtype), weight * steps)
        if how.warps == 1:
            return
        if how.lanes > 1:
            self.control += weight * 4
            stored, loaded, summed = 1.0, float(how.warps), how.warps - 1.0
            if how.shared_out(elements):
                warps, many = -(-how.threads // WARP), how.at_once(elements)
                share = -(-how.slots * many // how.warps // WARP) / (warps * many)
                stored, loaded, summed = 1 + share, 1 + share * loaded, share * summed
            self.spend(pipe(array.dtype), weight * summed)
        elif how.in_a_row(s.everywhere):
            self.control += weight * 3
            # The first threads of groups are of so many of the warps.
            held = -(-thread_count(self.launch) // WARP)
            busy = 1.0 if s.everywhere or how.stride < WARP else -(-held // how.count) / held
            stored, loaded = 1.0, busy * how.count
            self.spend(pipe(array.dtype), weight * busy * (how.count - 1))
        else:
            steps = (how.count - 1).bit_length()
            self.control += weight * (1 + 3 * steps)
            held = -(-thread_count(self.launch) // WARP)
            # In each step half as many threads as in the last one add what the others hold.
            busy = sum(max(1.0, held * (1 << k) / (2 << (steps - 1))) / held for k in range(steps))
            self.spend(pipe(array.dtype), weight * busy)
            stored, loaded = 1 + busy, 2 * busy
        for store, n in ((False, loaded), (True, stored)):
            requests = weight * n
            self.accesses.append(
                Access(
                    SCRATCH, (), True, store,
                    requests, requests * WARP, requests, requests,
                )
            )  # fmt: skip

    # What is counted.

    def spend(self, where: str, n: float) -> None:
        self.pipes[where] = self.pipes.get(where, 0.0) + n

    def truth(self, e: Expr, g: _Warps) -> Lanes | None:
        """A condition for each lane; None if it depends on values."""
        if any(isinstance(s, (Load, x.FloatImm, x.Call)) for s in walk(e)):
            return None
        if not variables(e) <= g.env.keys():
            return None
        return np.broadcast_to(np.asarray(lanes_of(inline_lets(e), g.env), bool), g.mask.shape)

    def often(self, g: _Warps, names: set[str]) -> Lanes:
        """How often what depends on these variables is computed by each row: once in the loops that it does
        not depend on, those around the innermost that it depends on counted as they run."""
        weight = g.weight
        for f in reversed(g.frames):
            if f.loop is None:
                continue
            if f.loop.var not in names:
                weight = weight / np.maximum(1, g.trips[f.loop.var])
            elif not f.whole:
                break
        return weight

    def kept(self, buffer: str, subscripts: Sequence[Expr], g: _Warps, *, updated: bool = False) -> Lanes:
        """How often each row makes a load, or a load and a store if the element is `updated` (see the
        module's text)."""
        names = {v for e in subscripts for v in variables(e)}
        role = self.arrays[buffer].role
        # Temporaries are in one workspace: for all that nvcc knows they might be the same.
        like = {n for n, a in self.arrays.items() if a.role == role == "temporary"} | {buffer}
        weight = g.weight
        for f in reversed(g.frames):
            if f.loop is None or f.barrier:
                break
            stores = sum(n for b, n in f.stored.items() if b in like)
            if stores > updated or (updated and f.loaded & like):
                break
            if f.loop.var not in names:
                weight = weight / np.maximum(1, g.trips[f.loop.var])
            elif not f.whole:
                break
        return weight

    def frame(self, s: For) -> _Frame:
        stored: dict[str, int] = {}
        loaded: set[str] = set()
        barrier = False
        for c in statements(s.body):
            barrier = barrier or isinstance(c, (Sync, Combine))
            if isinstance(c, Compute):
                stored[c.buffer] = stored.get(c.buffer, 0) + 1
                for e in (c.value, *c.subscripts):
                    loaded |= {i.buffer for i in walk(e) if isinstance(i, Load)}
        return _Frame(s, self.unrolled[id(s)].whole, barrier, stored, frozenset(loaded))

    def access(
        self,
        buffer: str,
        subscripts: tuple[Expr, ...],
        g: _Warps,
        mask: Lanes,
        weight: Lanes,
        *,
        width: int = 1,
        store: bool,
        packed: bool = False,
    ) -> None:
        """Of `width` neighbouring elements at once; `packed`: an instruction puts single ones into a word."""
        array = self.arrays[buffer]
        env = g.env
        if array.role == "register":
            return
        shared = array.role == "shared"
        if shared and not store and width == 1 and subscripts:
            width, env = self.together(array, subscripts, g)
            weight = weight / width
        rows = mask.any(1)
        if not rows.any():
            return
        place = np.broadcast_to(self.place(buffer, subscripts, env), mask.shape)[rows] * array.dtype.itemsize
        mask, weight = mask[rows], weight[rows]
        moved, least = (cycles if shared else sectors)(place, mask, array.dtype.itemsize * width)
        requests = float(weight.sum())
        # Its address: nvcc counts one up in a loop, unless there is no telling how.
        for e in subscripts:
            if any(isinstance(i, (x.FloorDiv, x.FloorMod)) for i in walk(e)):
                self.spend("integer", float(np.minimum(weight, self.often(g, variables(e))[rows]).sum()))
        self.spend("integer", ((not shared) + (packed and width == 1)) * requests)
        self.accesses.append(
            Access(
                buffer,
                subscripts,
                shared,
                store,
                requests,
                float((weight * mask.sum(1)).sum()) * width,
                float((weight * moved).sum()),
                float((weight * least).sum()),
            )
        )

    def together(
        self, array: Array, subscripts: Sequence[Expr], g: _Warps
    ) -> tuple[int, Mapping[str, Lanes]]:
        """How many elements of a row of shared memory are one load, and the values of variables for the first
        of them.  Halves are converted by inline PTX, before which NVRTC makes no vectors."""
        if array.dtype == FLOAT16:
            return 1, g.env
        terms, constant = linear_terms(inline_lets(subscripts[-1]))
        row = self.strides[array.name][0][-1] + array.padding
        for f in reversed(g.frames):
            if f.loop is None or f.barrier or f.stored.get(array.name):
                break
            v = x.Variable(f.loop.var)
            if terms.get(v) == 1:
                low, first = linear_terms(f.loop.lower)
                starts = (constant + first, row, *low.values(), *(k for e, k in terms.items() if e != v))
                most = min(VECTOR // array.dtype.itemsize, self.unrolled[id(f.loop)].factor)
                width = math.gcd(1 << most.bit_length() - 1, *starts) if f.loop.step == 1 else 1
                envs = [{**g.env, v.name: g.env[v.name] // width * width + i} for i in range(width)]
                places = [self.place(array.name, subscripts, e) for e in envs]
                if all(np.all(p == places[0] + i) for i, p in enumerate(places)):
                    return width, envs[0]
            if not f.whole:
                break
        return 1, g.env

    def place(self, buffer: str, subscripts: Sequence[Expr], env: Mapping[str, Lanes]) -> Lanes:
        """The number of an element in its array; an index out of memory is taken for random."""
        shape, strides = self.strides[buffer]
        total: Any = np.zeros((1, 1), np.int64)
        for e, n, stride in zip(subscripts, shape, strides, strict=True):
            e = inline_lets(e)
            loads = [i for i in walk(e) if isinstance(i, Load)]
            if not loads:
                at = lanes_of(e, env)
            elif all(isinstance(i, (*INDEX, Load)) for i in walk(e)):
                at = lanes_of(e, env, self.random) % max(1, n)
            else:  # computed from values that are not indices
                at = sum(self.random(i, env) for i in loads) % max(1, n)
            total = total + stride * at
        return total

    def random(self, e: Load, env: Mapping[str, Lanes]) -> Lanes:
        """The same number for the same element, any for another one (Knuth's multiplicative hashing)."""
        return ((self.place(e.buffer, e.subscripts, env) + 1) * 2654435761) >> 7 & 0x3FFFFFFF


def _some(n: int, most: int) -> list[tuple[int, int]]:
    """Of the numbers below `n` some, each with how many it stands for: the last one, which is often another
    one, and those in the middle of parts of the rest; of one alone, one of these."""
    if most < 2 or n < 2:
        return [(max(0, n - 1) // 2, n)]
    parts = min(most - 1, n - 1)
    bounds = [(n - 1) * i // parts for i in range(parts + 1)]
    return [*(((a + b) // 2, b - a) for a, b in itertools.pairwise(bounds)), (n - 1, 1)]


def _asked(s: Stmt) -> Iterator[str]:
    """Variables in conditions and in the bounds of loops."""
    for c in statements(s):
        match c:
            case If():
                yield from variables(c.condition)
            case For():
                yield from variables(c.lower) | variables(c.upper)
            case Compute():
                for e in walk(inline_lets(c.value)):
                    if isinstance(e, x.IfThenElse):
                        yield from variables(e.condition)
            case _:
                pass


def _barriers_each(s: Stmt) -> int:
    """The most barriers in one iteration of a loop, or of what is in none, without those of loops inside."""

    def direct(c: Stmt) -> int:
        match c:
            case Block():
                return sum(map(direct, c.body))
            case If():
                return direct(c.then) + (direct(c.otherwise) if c.otherwise is not None else 0)
            case Promote():
                return direct(c.body)
            case Sync() | Combine():
                return 1
            case _:
                return 0

    return max([direct(s), *(direct(c.body) for c in statements(s) if isinstance(c, For))])


def _together(parts: Sequence[_Warps]) -> _Warps:
    first = parts[0]
    if len(parts) == 1:
        return first
    return _Warps(
        {n: np.concatenate([p.env[n] for p in parts]) for n in first.env},
        np.concatenate([p.mask for p in parts]),
        np.concatenate([p.weight for p in parts]),
        {n: np.concatenate([p.trips[n] for p in parts]) for n in first.trips},
        first.frames,
    )
