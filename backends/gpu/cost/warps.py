"""What the warps of a launch do: requests to memory, the sectors and banks of these, and instructions.

The tree of a launch is walked once with a sample of its warps (sampling.py), so the time of a walk does not
depend on sizes; counts are exact as long as the warps and iterations that are not sampled do the same.

The counts are those after the optimisations of nvcc (as the PTX of NVRTC 12.9 shows).  A load that is the
same in several iterations of unrolled loops, or invariant in a loop, is executed once, unless there is a
condition or a barrier between, or a store to its array in the loop.  An accumulator that a loop updates is in
a register meanwhile if nothing else in the loop accesses its array; so is what the same block of statements
has just loaded or stored.  Contiguous loads from shared memory in iterations that are unrolled together are
one vector of up to 16 bytes, where rows are aligned as vectors are.

Sectors: global memory is fetched in 32 bytes; banks: tc/poly/gpu/banks.py (CUDA C++ programming guide,
"Device memory accesses", "Shared memory").
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
    CHECK,
    DOT_PRODUCT_LENGTH,
    MULTIPLY_ADD,
    arithmetic,
    divisions,
    is_dot_product,
    is_half_conversion,
    pipe,
)
from .lanes import INDEX, evaluate_lanes, lines, sectors, strides_of
from .requests import SCRATCH, Access, Work, block_counts, thread_count
from .sampling import (
    Frame,
    Sample,
    lane_trips,
    sample_iterations,
    sample_launch,
    variables_of_conditions,
)
from .unrolling import LOOP_INSTRUCTIONS, unrollings

_Element = tuple[str, tuple[Expr, ...]]  # a buffer and its subscripts


def count_work(nest: LoopNest, launch: Launch, sizes: Mapping[str, int], *, shuffles: bool = True) -> Work:
    """The work of all warps of a launch; `sizes` are the values of symbolic sizes.  `shuffles`: whether the
    threads of a warp reduce by shuffles."""
    return _WorkCounter(nest, launch, sizes, shuffles).count()


class _WorkCounter:
    """Walks a launch with a sample of its warps, and adds up what they do."""

    def __init__(self, nest: LoopNest, launch: Launch, sizes: Mapping[str, int], shuffles: bool) -> None:
        self.launch = launch
        self.sizes = sizes
        self.shuffles = shuffles
        self.arrays = {a.name: a for a in nest.arrays}
        self.unrollings = unrollings(launch.body, self.arrays)
        self.scratch_areas = scratch(launch, self.arrays, shuffles)
        self.condition_variables = frozenset(variables_of_conditions(launch))
        self.accesses: list[Access] = []
        self.pipes: dict[str, float] = {}
        self.control = self.guards = self.barriers = self.multiply_adds = 0.0
        self.loop_executions: dict[int, list[float]] = {}
        self.strides = {a.name: strides_of(a, sizes) for a in nest.arrays}

    def count(self) -> Work:
        counts = block_counts(self.launch, self.sizes)
        threads = thread_count(self.launch)
        warps = float(math.prod(counts) * -(-threads // WARP))
        if warps:
            self.visit(
                self.launch.body,
                sample_launch(self.launch, counts, threads, self.sizes, self.condition_variables),
            )
        return Work(
            tuple(self.accesses),
            dict(self.pipes),
            self.control,
            self.guards,
            self.barriers / max(1.0, warps),
            _barriers_per_iteration(self.launch.body),
            self.multiply_adds,
            {k: n / w for k, (w, n) in self.loop_executions.items() if w},
            self.unrollings,
            warps,
        )

    # Statements.

    def visit(self, s: Stmt, sample: Sample, available: set[_Element] | None = None) -> None:
        if not len(sample.weight):
            return
        available = set() if available is None else available
        match s:
            case Block():
                for c in s.body:
                    self.visit(c, sample, available)
                    if not isinstance(c, (Compute, Prefetch)):
                        available.clear()
            case Promote():
                self.visit(s.body, sample)
            case For():
                self.visit_loop(s, sample)
            case If():
                self.visit_condition(s, sample, available)
            case Compute():
                self.visit_compute(s, sample, available)
            case Sync():
                self.control += float(sample.weight.sum())
                self.barriers += float(sample.weight.sum())
            case Combine():
                self.visit_combine(s, sample)
            case Prefetch():
                self.control += float(sample.weight.sum())
            case Launch():
                raise InternalError("a launch inside a launch")

    def visit_condition(self, s: If, sample: Sample, available: set[_Element]) -> None:
        """Count a branch, and its comparisons, which nvcc hoists out of loops that do not change them."""
        comparisons = sum(isinstance(e, (x.EQ, x.NE, x.LT, x.LE, x.GT, x.GE)) for e in walk(s.condition))
        instructions = float(
            sample.weight.sum() + comparisons * self.executions(sample, variables(s.condition)).sum()
        )
        self.control += instructions
        self.guards += instructions if any(f.loop is not None for f in sample.frames) else 0.0
        true = self.condition_mask(s.condition, sample)
        frames = (*sample.frames, Frame(None))
        for part, active in ((s.then, true), (s.otherwise, None if true is None else ~true)):
            if part is not None:
                mask = sample.mask if active is None else sample.mask & active
                rows: Lanes = np.any(mask, axis=1)
                self.visit(part, replace(sample, mask=mask, frames=frames).take(rows), set(available))

    def visit_loop(self, s: For, sample: Sample) -> None:
        trips = lane_trips(s, sample)
        most = np.where(sample.mask, trips, 0).max(1)
        executions = self.loop_executions.setdefault(id(s), [0.0, 0.0])
        executions[0] += float(sample.weight[most > 0].sum())
        executions[1] += float((sample.weight * most).sum())
        if not self.unrollings[id(s)].full:
            self.control += (
                LOOP_INSTRUCTIONS * float((sample.weight * most).sum()) / self.unrollings[id(s)].factor
            )
        iterations = sample_iterations(s, sample, trips, self.frame_of(s), self.condition_variables)
        if iterations is not None:
            self.visit(s.body, iterations)

    def visit_compute(self, s: Compute, sample: Sample, available: set[_Element]) -> None:
        value = inline_lets(s.value)
        target = self.arrays[s.buffer]
        weight = float(sample.weight.sum())
        is_dot = is_dot_product(value, s.op, target.dtype)
        instructions = (
            {"integer": 1 / DOT_PRODUCT_LENGTH} if is_dot else arithmetic(s.value, s.op, target.dtype)
        )
        for p, n in instructions.items():
            self.add_instructions(p, n * weight)
            if p == MULTIPLY_ADD:
                self.multiply_adds += n * float((sample.weight * sample.mask.sum(1)).sum())
        converted = {c.value for c in walk(value) if isinstance(c, x.Cast) and is_half_conversion(c)}
        loads = list(self.loads(value, sample, sample.mask))
        for e in s.subscripts:
            loads += self.loads(inline_lets(e), sample, sample.mask)
        for e, mask in loads:
            if (e.buffer, e.subscripts) not in available:
                available.add((e.buffer, e.subscripts))
                count = self.access_count(e.buffer, e.subscripts, sample)
                self.add_access(
                    e.buffer, e.subscripts, sample, mask, count, width=s.width, store=False, packed=is_dot
                )
                if e in converted:
                    self.add_instructions("integer", s.width * float(count.sum()))
                for d in e.checked:
                    made = self.executions(sample, variables(e.subscripts[d]))
                    self.add_instructions("integer", CHECK * float(made.sum()))
        count = sample.weight
        if s.op is not None:
            count = self.access_count(s.buffer, s.subscripts, sample, updated=True)
            if (s.buffer, s.subscripts) not in available:
                self.add_access(s.buffer, s.subscripts, sample, sample.mask, count, store=False)
        vectors = max(
            1, s.width * target.dtype.itemsize // VECTOR
        )  # more than one for halves that become float32
        self.add_access(
            s.buffer, s.subscripts, sample, sample.mask, count * vectors, width=s.width // vectors, store=True
        )
        loaded = [i for e, _ in loads if self.arrays[e.buffer].role != "register" for i in e.subscripts]
        # nvcc does not reuse what it computes under a condition after that condition.
        groups = (
            (loaded, s.subscripts)
            if any(isinstance(e, x.IfThenElse) for e in walk(value))
            else ((*loaded, *s.subscripts),)
        )
        for group in groups:
            for e, n in divisions(group).items():
                self.add_instructions("integer", n * float(self.executions(sample, variables(e)).sum()))
        available.difference_update([k for k in available if k[0] == s.buffer])
        available.add((s.buffer, s.subscripts))

    def loads(self, e: Expr, sample: Sample, mask: Lanes) -> Iterator[tuple[Load, Lanes]]:
        """The loads of an expression, each with the mask of the lanes that execute it."""
        match e:
            case x.IfThenElse():
                yield from self.loads(e.condition, sample, mask)
                true = self.condition_mask(e.condition, sample)
                yield from self.loads(e.then_value, sample, mask if true is None else mask & true)
                yield from self.loads(e.else_value, sample, mask if true is None else mask & ~true)
            case _:
                for c in x.children(e):
                    yield from self.loads(c, sample, mask)
                if isinstance(e, Load):
                    yield e, mask

    def visit_combine(self, s: Combine, sample: Sample) -> None:
        """Count what tc/codegen/combine.py emits for a reduction across threads."""
        array = self.arrays[s.buffer]
        grouping = Grouping.of(self.launch.threads, s.thread, self.shuffles)
        if grouping.count == 1:
            return
        elements = elements_of(array)
        weight = float(sample.weight.sum())
        self.barriers += weight * self.scratch_areas.barriers(s, array, grouping)
        weight *= elements
        steps = (grouping.lanes - 1).bit_length()
        self.add_instructions("shuffle", weight * steps)
        self.add_instructions(pipe(array.dtype), weight * steps)
        if grouping.warps == 1:
            return
        if grouping.lanes > 1:
            self.control += weight * 4
            stored, loaded, summed = 1.0, float(grouping.warps), grouping.warps - 1.0
            if grouping.shares_partial_results(elements):
                warps, many = -(-grouping.threads // WARP), grouping.elements_per_round(elements)
                share = -(-grouping.slots * many // grouping.warps // WARP) / (warps * many)
                stored, loaded, summed = 1 + share, 1 + share * loaded, share * summed
            self.add_instructions(pipe(array.dtype), weight * summed)
        elif grouping.is_serial(s.everywhere):
            self.control += weight * 3
            # Only warps with the first thread of a group take part.
            warps = -(-thread_count(self.launch) // WARP)
            busy = 1.0 if s.everywhere or grouping.stride < WARP else -(-warps // grouping.count) / warps
            stored, loaded = 1.0, busy * grouping.count
            self.add_instructions(pipe(array.dtype), weight * busy * (grouping.count - 1))
        else:
            steps = (grouping.count - 1).bit_length()
            self.control += weight * (1 + 3 * steps)
            warps = -(-thread_count(self.launch) // WARP)
            # A tree: each step has half as many active threads as the one before.
            busy = sum(max(1.0, warps * (1 << k) / (2 << (steps - 1))) / warps for k in range(steps))
            self.add_instructions(pipe(array.dtype), weight * busy)
            stored, loaded = 1 + busy, 2 * busy
        for store, n in ((False, loaded), (True, stored)):
            requests = weight * n
            self.accesses.append(
                Access(
                    SCRATCH, (), True, store,
                    requests, requests * WARP, requests, requests,
                )
            )  # fmt: skip

    # Counts.

    def add_instructions(self, unit: str, n: float) -> None:
        self.pipes[unit] = self.pipes.get(unit, 0.0) + n

    def condition_mask(self, e: Expr, sample: Sample) -> Lanes | None:
        """A condition for each lane; None if it depends on data."""
        if any(isinstance(s, (Load, x.FloatImm, x.Call)) for s in walk(e)):
            return None
        if not variables(e) <= sample.env.keys():
            return None
        return np.broadcast_to(
            np.asarray(evaluate_lanes(inline_lets(e), sample.env), bool), sample.mask.shape
        )

    def executions(self, sample: Sample, names: set[str]) -> Lanes:
        """How often each row computes an expression of these variables, which nvcc hoists out of the inner
        loops that it does not depend on."""
        weight = sample.weight
        for f in reversed(sample.frames):
            if f.loop is None:
                continue
            if f.loop.var not in names:
                weight = weight / np.maximum(1, sample.trip_counts[f.loop.var])
            elif not f.fully_unrolled:
                break
        return weight

    def access_count(
        self, buffer: str, subscripts: Sequence[Expr], sample: Sample, *, updated: bool = False
    ) -> Lanes:
        """How often each row executes a load, or a load and a store if the element is `updated` (see the
        module's text)."""
        names = {v for e in subscripts for v in variables(e)}
        role = self.arrays[buffer].role
        # Temporaries share a workspace, so nvcc has to assume that they alias.
        aliases = {n for n, a in self.arrays.items() if a.role == role == "temporary"} | {buffer}
        weight = sample.weight
        for f in reversed(sample.frames):
            if f.loop is None or f.has_barrier:
                break
            stores = sum(n for b, n in f.stores.items() if b in aliases)
            if stores > updated or (updated and f.loaded & aliases):
                break
            if f.loop.var not in names:
                weight = weight / np.maximum(1, sample.trip_counts[f.loop.var])
            elif not f.fully_unrolled:
                break
        return weight

    def frame_of(self, s: For) -> Frame:
        stores: dict[str, int] = {}
        loaded: set[str] = set()
        has_barrier = False
        for c in statements(s.body):
            has_barrier = has_barrier or isinstance(c, (Sync, Combine))
            if isinstance(c, Compute):
                stores[c.buffer] = stores.get(c.buffer, 0) + 1
                for e in (c.value, *c.subscripts):
                    loaded |= {i.buffer for i in walk(e) if isinstance(i, Load)}
        return Frame(s, self.unrollings[id(s)].full, has_barrier, stores, frozenset(loaded))

    def add_access(
        self,
        buffer: str,
        subscripts: tuple[Expr, ...],
        sample: Sample,
        mask: Lanes,
        weight: Lanes,
        *,
        width: int = 1,
        store: bool,
        packed: bool = False,
    ) -> None:
        """Count an access of `width` contiguous elements; `packed`: a single byte takes an instruction to be
        packed into a word."""
        array = self.arrays[buffer]
        env = sample.env
        if array.role == "register":
            return
        shared = array.role == "shared"
        if shared and not store and width == 1 and subscripts:
            width, env = self.vector_width(array, subscripts, sample)
            weight = weight / width
        rows = mask.any(1)
        if not rows.any():
            return
        itemsize = array.dtype.itemsize
        addresses = np.broadcast_to(self.element_index(buffer, subscripts, env), mask.shape)[rows] * itemsize
        mask, weight = mask[rows], weight[rows]
        transactions, ideal = (cycles if shared else sectors)(addresses, mask, itemsize * width)
        requests = float(weight.sum())
        # nvcc increments an address in a loop (strength reduction), but computes one with a quotient anew.
        for e in subscripts:
            if any(isinstance(i, (x.FloorDiv, x.FloorMod)) for i in walk(e)):
                computed = np.minimum(weight, self.executions(sample, variables(e))[rows])
                self.add_instructions("integer", float(computed.sum()))
        self.add_instructions("integer", ((not shared) + (packed and width == 1)) * requests)
        self.accesses.append(
            Access(
                buffer,
                subscripts,
                shared,
                store,
                requests,
                float((weight * mask.sum(1)).sum()) * width,
                float((weight * transactions).sum()),
                float((weight * ideal).sum()),
                0.0 if shared else float((weight * lines(addresses, mask)).sum()),
            )
        )

    def vector_width(
        self, array: Array, subscripts: Sequence[Expr], sample: Sample
    ) -> tuple[int, Mapping[str, Lanes]]:
        """The number of elements of a row in shared memory that nvcc loads as one vector, and the values of
        variables for the first of them.

        Halves are converted by inline PTX, before which NVRTC does not vectorize loads.
        """
        if array.dtype == FLOAT16:
            return 1, sample.env
        terms, constant = linear_terms(inline_lets(subscripts[-1]))
        row = self.strides[array.name][0][-1] + array.padding
        for f in reversed(sample.frames):
            if f.loop is None or f.has_barrier or f.stores.get(array.name):
                break
            v = x.Variable(f.loop.var)
            if terms.get(v) == 1:
                low, first = linear_terms(f.loop.lower)
                starts = (constant + first, row, *low.values(), *(k for e, k in terms.items() if e != v))
                limit = min(VECTOR // array.dtype.itemsize, self.unrollings[id(f.loop)].factor)
                width = math.gcd(1 << limit.bit_length() - 1, *starts) if f.loop.step == 1 else 1
                envs = [{**sample.env, v.name: sample.env[v.name] // width * width + i} for i in range(width)]
                indices = [self.element_index(array.name, subscripts, e) for e in envs]
                if all(np.all(n == indices[0] + i) for i, n in enumerate(indices)):
                    return width, envs[0]
            if not f.fully_unrolled:
                break
        return 1, sample.env

    def element_index(self, buffer: str, subscripts: Sequence[Expr], env: Mapping[str, Lanes]) -> Lanes:
        """The index of an element in its array; an index that is itself loaded is taken for random."""
        shape, strides = self.strides[buffer]
        total: Any = np.zeros((1, 1), np.int64)
        for e, n, stride in zip(subscripts, shape, strides, strict=True):
            e = inline_lets(e)
            loads = [i for i in walk(e) if isinstance(i, Load)]
            if not loads:
                at = evaluate_lanes(e, env)
            elif all(isinstance(i, (*INDEX, Load)) for i in walk(e)):
                at = evaluate_lanes(e, env, self.hashed_index) % max(1, n)
            else:  # computed from floating-point values
                at = sum(self.hashed_index(i, env) for i in loads) % max(1, n)
            total = total + stride * at
        return total

    def hashed_index(self, e: Load, env: Mapping[str, Lanes]) -> Lanes:
        """A hash of the element that is loaded: equal for equal elements (Knuth's multiplicative hashing)."""
        return ((self.element_index(e.buffer, e.subscripts, env) + 1) * 2654435761) >> 7 & 0x3FFFFFFF


def _barriers_per_iteration(s: Stmt) -> int:
    """The most barriers in one iteration of a loop, or outside of loops, without those of inner loops."""

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
