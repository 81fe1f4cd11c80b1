"""Footprints: the elements that a statement accesses in a tile, as a strided box.

Subscripts are sums of multiples of loop variables, each of which runs over an interval in a tile (report,
§5.3; isl's box hulls would be the same).  The stride is the greatest common divisor of the multiples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tc.ir.expr import Add, Expr, IntImm, Variable, inline_lets
from tc.ir.simplify import linear_terms
from tc.poly.gpu.coordinates import Tuple
from tc.poly.gpu.mapping import AxisMap, Unit, covered, points
from tc.poly.tile_plan import Axis


@dataclass(frozen=True, slots=True)
class Term:
    """A multiple of an axis in a subscript; a tile has `points` points.  `moves`: there are several tiles,
    each `tile` points after the one before."""

    axis: str
    factor: int
    points: int
    moves: bool
    tile: int


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a footprint: `size` elements, each `stride` after the one before, from where `constant`
    and the terms of the first points of tiles say; those of points inside of a tile say where an instance
    reads.  `least`, `most`: the first element of the first and of the last tile (None where that depends on
    sizes), in logical coordinates; `below`: what all of them are less than, where that is an expression of
    sizes.  `offset`: the first of its elements that the access is to, which may be
    one of several in the footprint (groups.py)."""

    size: int
    constant: int
    terms: tuple[Term, ...]
    least: int | None
    most: int | None
    stride: int = 1
    offset: int = 0
    below: Expr | None = None

    @property
    def span(self) -> int:
        """The number of elements from the first to the last one, inclusive, at stride 1."""
        return (self.size - 1) * self.stride + 1

    @property
    def place(self) -> tuple[int, int, int, frozenset[tuple[str, int]]]:
        """A key that is equal for footprints of the same elements."""
        return self.size, self.stride, self.constant, self.moving

    @property
    def moving(self) -> frozenset[tuple[str, int]]:
        """The axes with whose tiles it moves, with the distance for a point of each."""
        return frozenset((t.axis, t.factor) for t in self.terms if t.moves)

    def step(self, t: Term) -> int:
        """The distance in the footprint between the accesses of neighbouring points of an axis."""
        return t.factor // self.stride if t.points > 1 else 0


def footprint(
    unit: Unit, statement: str, subscripts: Sequence[Expr], *, whole: bool = False, strided: bool = False
) -> tuple[Dimension, ...] | None:
    """The footprint of these subscripts in a tile; None if it is no box.  `whole`: points beyond the end of
    an axis run as well; `strided`: without the elements between the strides."""
    axes = {x.vars[statement]: (x, m) for x, m in (*unit.axes, *unit.own) if statement in x.vars}
    out: list[Dimension] = []
    for e in subscripts:
        terms, constant = linear_terms(inline_lets(e))
        last_point, inside = 0, list[Term]()
        low: int | None = 0
        high: int | None = 0
        below: Expr | None = None
        for t, k in terms.items():
            if not isinstance(t, Variable) or t.name not in axes:
                return None
            axis, m = axes[t.name]
            n = points(axis, m)
            if n is None or axis.first is not None:
                return None
            most_points = (covered(axis, m) or n) if whole else n
            last_point += abs(k) * (most_points - 1)
            constant += k * axis.typical_min + min(0, k * (most_points - 1))
            moves = axis.size is not None or n < axis.typical_extent
            inside.append(Term(axis.name, k, most_points, moves, n))
            last = None if axis.size is not None else k * n * (-(-axis.typical_extent // n) - 1)
            if last is None:  # but it is on one side of the first
                low, high = (low, None) if k > 0 else (None, high)
            else:
                low = None if low is None else low + min(0, last)
                high = None if high is None else high + max(0, last)
            if axis.size is not None and len(terms) == 1 and k == 1 and most_points == 1:
                below = Add(axis.size, IntImm(constant))
        least, most = (None if x is None else constant + x for x in (low, high))
        stride = math.gcd(*(t.factor for t in inside if t.points > 1)) if strided else 1
        stride = max(1, stride)
        size = 1 + last_point // stride
        out.append(Dimension(size, constant, tuple(inside), least, most, stride, below=below))
    return tuple(out)


def place(t: Tuple, axes: Sequence[tuple[Axis, AxisMap]], d: Dimension) -> str:
    """The index in a dimension of the footprint that an instance reads, as text for isl."""
    by_name = {a.name: (a, m) for a, m in axes}
    parts = [str(d.offset)]
    for x in d.terms:
        axis, m = by_name[x.axis]
        k, n = d.step(x), x.points
        point = t.point(axis)
        inside = f"(({point}) mod {m.tile})" if m.tile and points(axis, m) == m.tile else point
        if k:
            parts.append(f"{k} * {inside}" if k > 0 else f"{-k} * ({n - 1} - {inside})")
    return " + ".join(parts)
