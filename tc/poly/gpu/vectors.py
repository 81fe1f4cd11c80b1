"""Vectors: up to 16 bytes of contiguous elements that a thread copies, or reads from a copy, in one access.

They must be aligned to their size.  That is proved from the offsets of footprints and the lengths of rows, in
global and in shared memory; callers guarantee the alignment of arrays (`tc.ir.loops.VECTOR`).  Only constants
are used in the proof: dynamic sizes have unknown alignment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tc.dtypes import DType
from tc.ir.expr import IntImm
from tc.ir.loops import VECTOR, WARP
from tc.ir.program import Buffer
from tc.poly.gpu.banks import Lanes, cycles
from tc.poly.gpu.footprint import Dimension
from tc.poly.gpu.mapping import AxisMap, Unit, steps
from tc.poly.tile_plan import Axis

_MOST_PADDING = 32  # bytes
_SECTOR = 32  # bytes of a memory transaction
_LONG = 4096  # elements of a dimension of unknown extent


@dataclass(frozen=True, slots=True)
class Rows:
    """The layout of rows of a copy in shared memory, each followed by `padding` elements.

    A thread copies `width` elements at once, and reads up to `read` at once in unrolled iterations of its
    innermost loop.
    """

    padding: int
    width: int
    read: int


def rows(
    unit: Unit,
    threads: Sequence[tuple[str, int]],
    buffer: Buffer,
    dtype: DType,
    box: Sequence[Dimension],
    contiguous: bool,
    unguarded: bool,
    padding: int | None = None,
) -> Rows:
    """The layout of a footprint's rows in shared memory as type `dtype`, with the given `padding`, else with
    that for which its reads and copies take the fewest cycles and requests.

    `contiguous`: the elements of a row are neighbours in the buffer, too, as no index array selects them.
    `unguarded`: it is read under no condition; compilers do not vectorise reads under one.
    """
    itemsize = dtype.itemsize
    least = max(2, 4 // itemsize)  # elements of a vector
    single = math.prod(d.size for d in box[:-1]) == 1
    more = (n for n in range(2, _MOST_PADDING // itemsize + 1) if (box[-1].size + n) % least == 0)
    paddings = [0] if single else [0, 1, *more]
    paddings = paddings if padding is None else [padding]
    along = _read_along(unit, box) if unguarded else 1
    found: list[tuple[float, float, Rows]] = []
    at, mask = _first_warp(unit, threads, box)
    for each in paddings:
        row = box[-1].size + each
        even = math.gcd(box[-1].offset, 0 if single else row)
        read = max((w for w in _widths(itemsize) if w <= along and even % w == 0), default=1)
        width = _copied(buffer, box, row, single) if contiguous else 1
        strides = [math.prod((*(d.size for d in box[i + 1 : -1]), row)) for i in range(len(box) - 1)]
        place = (at[:, :-1] @ np.array(strides, np.int64) + at[:, -1]) * itemsize
        cycle, _ = cycles(place[None, :], mask[None, :], itemsize * read)
        found.append(((float(cycle[0]) + 1) / read, 1 / width, Rows(each, width, read)))
    return min(found, key=lambda x: x[:2])[2]


def _widths(itemsize: int) -> list[int]:
    """The possible vector lengths in elements, for the access sizes of a thread, and 1."""
    return [1, *(n // itemsize for n in (4, 8, VECTOR) if n > itemsize)]


def _read_along(unit: Unit, box: Sequence[Dimension]) -> int:
    """The number of elements of a row that the innermost loop of a unit reads consecutively, from the first
    on; 1 if it reads others."""
    inner = innermost(unit)
    if inner is None:
        return 1
    axis, m = inner
    count = steps(axis, m)
    inside = [[t for t in d.terms if t.points > 1] for d in box]
    last = [(t.axis, box[-1].step(t)) for t in inside[-1]]
    alone = last == [(axis.name, 1)] and all(t.axis != axis.name for d in inside[:-1] for t in d)
    return count if alone and count is not None and m.thread is None else 1


def innermost(unit: Unit) -> tuple[Axis, AxisMap] | None:
    """The innermost of a unit's own loops."""
    return next(((a, m) for a, m in reversed(unit.own) if steps(a, m) != 1), None)


def _copied(buffer: Buffer, box: Sequence[Dimension], row: int, single: bool) -> int:
    """The vector length of copies: it divides the offset and the length of rows in both memories."""
    first, extent = buffer.box[-1].min, buffer.box[-1].extent
    last = box[-1]
    if last.stride > 1 or not isinstance(first, IntImm) or not isinstance(extent, IntImm):
        return 1
    starts = [last.constant - first.value, *(t.factor * t.tile for t in last.terms if t.moves)]
    common = math.gcd(extent.value, last.size, 0 if single else row, *starts)
    return max(w for w in _widths(buffer.dtype.itemsize) if common % w == 0)


def scattered(
    unit: Unit, threads: Sequence[tuple[str, int]], buffer: Buffer, box: Sequence[Dimension]
) -> bool:
    """Whether a warp that reads its points of a footprint fetches at least twice the sectors of a coalesced
    read of as many elements.  Rows of unknown length are taken to be long."""
    at, mask = _first_warp(unit, threads, box)
    extents = [r.extent.value if isinstance(r.extent, IntImm) else _LONG for r in buffer.box]
    strides = [d.stride * math.prod(extents[i + 1 :]) for i, d in enumerate(box)]
    bytes_ = np.unique((at @ np.array(strides, np.int64))[mask]) * buffer.dtype.itemsize
    fetched = len(np.unique(bytes_ // _SECTOR))
    return fetched >= 2 * -(-len(bytes_) * buffer.dtype.itemsize // _SECTOR)


def _first_warp(
    unit: Unit, threads: Sequence[tuple[str, int]], box: Sequence[Dimension]
) -> tuple[Lanes, Lanes]:
    """The offsets in a footprint that the threads of a warp read, relative to the first; and the mask of
    threads."""
    number = np.arange(WARP)
    mask = number < math.prod(n for _, n in threads)
    lanes: dict[str, Lanes] = {}
    for v, n in threads:
        lanes[v] = number % n
        number = number // n
    of_axis = {a.name: lanes[m.thread] for a, m in (*unit.axes, *unit.own) if m.thread is not None}
    at = np.zeros((WARP, len(box)), np.int64)
    for i, d in enumerate(box):
        for t in d.terms:
            at[:, i] += d.step(t) * of_axis.get(t.axis, 0)
    return at, mask
