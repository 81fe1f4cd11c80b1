"""Thread counts, tile sizes and block counts for axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tc.ir.expr import Add, Expr, FloorDiv, IntImm
from tc.ir.loops import WARP
from tc.ir.simplify import simplify
from tc.poly.tile_plan import Axis

_COVER_TOLERANCE = 1.04  # of covered points, over the fewest


def power_within(extent: int, limit: int) -> int:
    """The extent rounded up to a power of two, at most the limit."""
    return min(power_of_two(extent), limit)


def balanced_threads(extent: int, limit: int) -> int:
    """The most threads up to a limit that leave about the fewest of them without a point in the last step."""
    if extent <= limit:
        return extent
    covered = {n: -(-extent // n) * n for n in range(limit, limit // 2, -1)}
    return next(n for n, points in covered.items() if points <= _COVER_TOLERANCE * min(covered.values()))


def lane_utilization(axes: Sequence[Axis], threads: Mapping[str, int]) -> float:
    """The share of the lanes of all warps that have a point, over all steps."""
    total = math.prod(threads.values())
    points = math.prod(
        a.typical_extent / (-(-a.typical_extent // threads[a.name]) * threads[a.name]) for a in axes
    )
    return points * total / (-(-total // WARP) * WARP)


def even_tile_size(extent: int, limit: int) -> int:
    """A tile size near `limit`, which divides the extent if such a divisor exists; of large tiles only
    multiples of a vector of 8 count."""
    if extent <= limit:
        return extent
    vector = 8 if limit >= 16 else 1
    divisors = [
        n for n in range(limit // 2 + 1, limit + limit // 2 + 1) if extent % n == 0 and n % vector == 0
    ]
    return min(divisors, key=lambda n: (abs(n - limit), -n), default=limit)


def power_of_two(n: int) -> int:
    """`n` rounded up to a power of two."""
    return 1 << max(0, n - 1).bit_length()


def tile_count(a: Axis, size: int, blocks: int) -> Expr:
    """The number of blocks along an axis: the number of tiles of `size` points, or `blocks` if it is not
    0."""
    if blocks:
        return IntImm(blocks)
    return simplify(FloorDiv(Add(a.points, IntImm(size - 1)), IntImm(size)), exact=True)
