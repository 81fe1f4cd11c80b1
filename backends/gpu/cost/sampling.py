"""The sample of warps and iterations that stands for a whole launch.

The cost model looks at all 32 lanes of each sampled warp, as numpy arrays.  The number of warps and
iterations that it stands for is its weight.  Of a launch the warps of one block in the middle are sampled;
where a condition depends on the number of a block, the last block and some others, too.  Of a loop one
iteration is sampled, or several where a condition depends on its variable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tc.ir import expr as x
from tc.ir.expr import inline_lets, variables, walk
from tc.ir.loops import WARP, Compute, For, If, Launch, Stmt, statements
from tc.poly.gpu.banks import Lanes

from .lanes import evaluate_lanes

_INITIAL_WARPS = 80  # at most, where the walk of a launch starts
MAX_ROWS = 512  # warps times iterations at most
_MAX_EXHAUSTIVE_TRIPS = 8  # up to this trip count every iteration is sampled


@dataclass(frozen=True, slots=True)
class Frame:
    """A loop around a statement, or a condition (`loop` is None), with what statements inside access."""

    loop: For | None
    fully_unrolled: bool = False
    has_barrier: bool = False
    stores: Mapping[str, int] = field(default_factory=dict[str, int])  # statements that store, by array
    loaded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows are warps at sampled iterations: `env` and `mask` are of shape (rows, 1) or (rows, 32), `weight`
    and `trip_counts`, those of the enclosing loops, of shape (rows,)."""

    env: Mapping[str, Lanes]
    mask: Lanes
    weight: Lanes
    trip_counts: Mapping[str, Lanes]
    frames: tuple[Frame, ...] = ()

    def take(self, rows: Lanes) -> Sample:
        return Sample(
            {n: v[rows] for n, v in self.env.items()},
            self.mask[rows],
            self.weight[rows],
            {n: v[rows] for n, v in self.trip_counts.items()},
            self.frames,
        )


def sample_launch(
    launch: Launch,
    counts: Sequence[int],
    threads: int,
    sizes: Mapping[str, int],
    condition_variables: frozenset[str],
) -> Sample:
    """All warps of some blocks; `counts` are the extents of the grid, `threads` those of a block."""
    picked: list[list[tuple[int, int]]] = []
    warps = -(-threads // WARP)  # of a block
    for (v, _), n in zip(launch.blocks, counts, strict=True):
        rows = warps * math.prod(map(len, picked))
        limit = max(min(3, _INITIAL_WARPS // rows), min(2, MAX_ROWS // rows))
        picked.append(representatives(n, limit) if v in condition_variables else [(n // 2, n)])
    blocks = list(itertools.product(*picked))
    number = np.arange(warps * WARP).reshape(1, warps, WARP)
    mask = np.broadcast_to(number < threads, (len(blocks), warps, WARP)).reshape(-1, WARP)
    env: dict[str, Lanes] = {}
    rows = len(blocks) * warps
    for i, (v, _) in enumerate(launch.blocks):
        env[v] = np.repeat(np.array([b[i][0] for b in blocks], np.int64), warps).reshape(rows, 1)
    for v, n in launch.threads:
        lanes = np.broadcast_to(number % n, (len(blocks), warps, WARP)).reshape(rows, WARP)
        env[v] = lanes[:, :1] if np.all(lanes == lanes[:, :1]) else lanes
        number = number // n
    for n, value in sizes.items():
        env[n] = np.full((rows, 1), value, np.int64)
    weight = np.repeat(np.array([float(math.prod(n for _, n in b)) for b in blocks]), warps)
    return Sample(env, mask, weight, {})


def lane_trips(s: For, sample: Sample) -> Lanes:
    """The trip count of a loop for each lane."""
    low, high = evaluate_lanes(s.lower, sample.env), evaluate_lanes(s.upper, sample.env)
    return np.broadcast_to(np.maximum(0, -((low - high) // s.step)), sample.mask.shape)


def sample_iterations(
    s: For, sample: Sample, trips: Lanes, frame: Frame, condition_variables: frozenset[str]
) -> Sample | None:
    """The warps of `sample` at some iterations of a loop that `frame` describes, whose lanes have these trip
    counts; None if no lane iterates.

    A warp iterates until its last active lane is done.  Without a condition on the variable, one iteration
    stands for those that all lanes execute and one for those that only some do.
    """
    low = evaluate_lanes(s.lower, sample.env)
    most = np.where(sample.mask, trips, 0).max(1)
    least = np.minimum(np.where(sample.mask, trips, np.iinfo(np.int64).max).min(1), most)
    top = int(most.max())
    conditional = s.var in condition_variables
    picks: list[tuple[Lanes, Lanes]]  # iterations, and how many each stands for
    zero = np.zeros_like(most)
    if conditional and top <= _MAX_EXHAUSTIVE_TRIPS and len(most) * top <= MAX_ROWS:
        picks = [(zero + k, (k < most) * 1.0) for k in range(top)]
    elif conditional and len(most) * 3 <= MAX_ROWS:
        picks = [
            (zero, (most > 0) * 1.0),
            (most // 2, np.maximum(0, most - 2) * 1.0),
            (np.maximum(0, most - 1), (most > 1) * 1.0),
        ]
    elif len(most) * 2 > MAX_ROWS:
        picks = [(most // 2, most * 1.0)]
    else:
        picks = [(least // 2, least * 1.0), (least + (most - least) // 2, (most - least) * 1.0)]
    frames = (*sample.frames, frame)
    parts: list[Sample] = []
    for number, stands_for in picks:
        rows = stands_for > 0
        if not rows.any():
            continue
        part = sample.take(rows)
        k = number[rows][:, None]
        first = np.broadcast_to(low, (len(most), np.shape(low)[-1] if np.ndim(low) else 1))[rows]
        parts.append(
            Sample(
                {**part.env, s.var: first + k * s.step},
                part.mask & (k < trips[rows]),
                part.weight * stands_for[rows],
                {**part.trip_counts, s.var: most[rows]},
                frames,
            )
        )
    return _concatenate(parts) if parts else None


def representatives(n: int, limit: int) -> list[tuple[int, int]]:
    """At most `limit` of the numbers below `n`, each with how many it stands for.

    The last one stands for itself, as the last block or iteration is often a partial one; the others are the
    middles of equal parts of the rest.  A limit of 1 gives the middle of all.
    """
    if limit < 2 or n < 2:
        return [(max(0, n - 1) // 2, n)]
    parts = min(limit - 1, n - 1)
    bounds = [(n - 1) * i // parts for i in range(parts + 1)]
    return [*(((a + b) // 2, b - a) for a, b in itertools.pairwise(bounds)), (n - 1, 1)]


def variables_of_conditions(s: Stmt) -> Iterator[str]:
    """Variables in conditions and in bounds of loops."""
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


def _concatenate(parts: Sequence[Sample]) -> Sample:
    first = parts[0]
    if len(parts) == 1:
        return first
    return Sample(
        {n: np.concatenate([p.env[n] for p in parts]) for n in first.env},
        np.concatenate([p.mask for p in parts]),
        np.concatenate([p.weight for p in parts]),
        {n: np.concatenate([p.trip_counts[n] for p in parts]) for n in first.trip_counts},
        first.frames,
    )
