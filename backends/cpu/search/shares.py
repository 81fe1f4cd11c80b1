"""Shares: cache tiles whose length the kernel computes, where dynamic sizes say how much work there is.

A tile of constant length would leave cores idle for few points, and give the last task little to do for some
numbers of points.  So the kernel divides: into as many tasks as the work is worth, and then along one loop
after the other into equal shares of whole register tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.ir.expr import Add, Expr, FloorDiv, IntImm, Max, Min, Mul
from tc.poly.tile_plan import Axis, CacheTile, Nest, Tile

_POINT_OVERHEAD = 8  # iterations that take as long as the rest of a point: first values, stores, loop control


def number_of_tasks(
    axes: Sequence[Axis], inside: Sequence[Axis], cycles: float, task: float, most: int
) -> Expr:
    """The number of tasks of at least `task` cycles each, from 1 to `most`, as an expression over dynamic
    sizes.  The loops over `axes`, with those `inside` of a point, take `cycles` at typical sizes."""
    sizes = {a.size: a.typical_extent for a in axes if a.size is not None}
    sizes |= {
        Add(a.size, IntImm(_POINT_OVERHEAD)): a.typical_extent + _POINT_OVERHEAD
        for a in inside
        if a.size is not None
    }
    work: Expr | None = None
    each = cycles / task  # tasks for each point of the loops of dynamic length
    for size, extent in sizes.items():
        work = size if work is None else Mul(work, size)
        each /= extent
    if work is None:
        return IntImm(max(1, min(round(each), most)))
    count = Mul(work, IntImm(round(each))) if each >= 1 else FloorDiv(work, IntImm(round(1 / each)))
    return Max(Min(count, IntImm(most)), IntImm(1))


def shares(
    nest: Nest, order: Sequence[str], tiles: Mapping[str, Tile], fixed: frozenset[str], most: int
) -> tuple[dict[str, Tile], int]:
    """The tiles of the loops of `order`, and how many of these loops, from the first on, make `most` tasks
    whatever the extents of the others are.  Loops in `fixed` keep their tiles."""
    axes = {a.name: a for a in nest.axes}
    out = dict(tiles)
    have = 1  # tasks whatever the dynamic extents are
    for i, n in enumerate(order):
        a, t = axes[n], tiles[n]
        if n not in fixed:
            out[n] = replace(t, cache=CacheTile.SHARE)
        if a.size is None:
            have *= -(-a.typical_extent // (t.cache if n in fixed else t.register))
        if have >= most:
            return out, i + 1
    return out, len(order)
