"""Boxes of points: in parts of bounded size, and cut to the extents of an array."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

Region = tuple[tuple[int, int], ...]  # half-open per dimension

CHUNK = 1 << 20  # points evaluated at once


def within(where: tuple[slice, ...], shape: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of a box that lies in an array, and where that part is in the box.  The rest is what the
    conditions of a statement cut away."""
    starts = [min(max(s.start, 0), n) for s, n in zip(where, shape, strict=True)]
    ends = [max(min(s.stop, n), a) for s, n, a in zip(where, shape, starts, strict=True)]
    inside = tuple(slice(a, b) for a, b in zip(starts, ends, strict=True))
    kept = tuple(slice(a - s.start, b - s.start) for a, b, s in zip(starts, ends, where, strict=True))
    return inside, kept


def chunks(region: Region, limit: int = 0) -> Iterator[Region]:
    """Parts of a box of at most `limit` points, in lexicographic order; nothing for an empty one."""
    limit = limit or CHUNK
    if any(hi <= lo for lo, hi in region):
        return
    steps: list[int] = []
    room = limit
    for lo, hi in reversed(region):
        step = max(1, min(hi - lo, room))
        room //= step
        steps.append(step)
    steps.reverse()
    parts = [
        [(a, min(a + step, hi)) for a in range(lo, hi, step)]
        for (lo, hi), step in zip(region, steps, strict=True)
    ]
    yield from itertools.product(*parts)
