"""Numbers of threads, of points of a tile and of blocks for axes of certain extents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tc.ir.expr import Add, Expr, FloorDiv, IntImm
from tc.ir.loops import WARP
from tc.ir.simplify import simplify
from tc.poly.tile_plan import Axis

_NEARLY = 1.04  # the fewest lanes without points


def power_within(extent: int, limit: int) -> int:
    """The least power of two that is not less than an extent, or the limit."""
    return min(power_of_two(extent), limit)


def fitting(extent: int, limit: int) -> int:
    """The most threads up to a limit of which about as few as can be have no point in the last step."""
    if extent <= limit:
        return extent
    covered = {n: -(-extent // n) * n for n in range(limit, limit // 2, -1)}
    return next(n for n, points in covered.items() if points <= _NEARLY * min(covered.values()))


def busy_lanes(axes: Sequence[Axis], threads: Mapping[str, int]) -> float:
    """The share of the lanes of warps, in all steps, that have a point."""
    total = math.prod(threads.values())
    points = math.prod(
        a.typical_extent / (-(-a.typical_extent // threads[a.name]) * threads[a.name]) for a in axes
    )
    return points * total / (-(-total // WARP) * WARP)


def even_part(extent: int, most: int) -> int:
    """About so many points of an axis, of which all tiles have as many if there is such a number (of large
    ones, a multiple of what vectors have)."""
    if extent <= most:
        return extent
    vector = 8 if most >= 16 else 1
    even = [n for n in range(most // 2 + 1, most + most // 2 + 1) if extent % n == 0 and n % vector == 0]
    return min(even, key=lambda n: (abs(n - most), -n), default=most)


def power_of_two(n: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, n - 1).bit_length()


def tile_count(a: Axis, size: int, blocks: int) -> Expr:
    """How many values the block variable of an axis has."""
    if blocks:
        return IntImm(blocks)
    return simplify(FloorDiv(Add(a.points, IntImm(size - 1)), IntImm(size)), exact=True)
