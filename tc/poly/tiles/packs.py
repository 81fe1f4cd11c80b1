"""Packing: copies of operands in the order in which register tiles read them.

A pack is contiguous along the lanes of a register tile; an operand that all lanes share is contiguous along
an axis of which the tile has several points.  A pack belongs to a cache tile (and to one block of a reduction
in blocks); its array is indexed by the block of lanes, by the other axes of the read, and by the lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.dtypes import DType
from tc.ir.expr import Cast, Expr, FloorDiv, FloorMod, IntImm, Load, Variable, rebuild, walk
from tc.ir.loops import Array
from tc.poly.tiles.builder import loads
from tc.poly.tiles.dots import Shift


@dataclass(frozen=True, slots=True)
class Packed:
    """A pack: its array, the read that it replaces, and its axes besides the `vector` axis.

    `width` points of the vector axis are a block.  Each `size` points of the axis `group`, for dot products,
    are the innermost dimension.  `shift` is what products with shifted elements are too large by.
    """

    array: Array
    read: Load
    axes: tuple[str, ...]
    vector: str
    width: int
    group: str | None = None
    size: int = 1
    shift: Shift | None = None

    @property
    def converted(self) -> bool:
        """Whether elements are stored as the type to which the statement converts them."""
        return self.group is None and self.array.dtype != self.read.dtype

    def at(self, place: tuple[Expr, Expr] | None = None) -> Load:
        """The packed element in terms of variables `@axis`, the offsets of the axes in the cache tile.

        `place` is the block of the `vector` axis and the offset in it, where they do not follow from its
        offset.
        """
        v, width = Variable(f"@{self.vector}"), IntImm(self.width)
        number, lane = place if place is not None else (FloorDiv(v, width), FloorMod(v, width))
        at = {n: Variable(f"@{n}") for n in self.axes}
        return Load(self.array.name, self.subscripts(number, lane, at), self.array.dtype)

    def subscripts(self, number: Expr, lane: Expr, at: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """The subscripts of an element: the block of lanes, the offsets of the other axes, the lane."""
        size = IntImm(self.size)
        places = (FloorDiv(at[n], size) if n == self.group else at[n] for n in self.axes)
        inside = () if self.group is None else (FloorMod(at[self.group], size),)
        return (number, *places, lane, *inside)


def packed_types(body: Expr) -> tuple[DType, ...]:
    """The types of reads, by number, in packs: halves are converted once, while they are packed."""
    converted: dict[int, DType] = {}
    for e in walk(body):
        if isinstance(e, Cast) and isinstance(e.value, Load):
            converted.setdefault(id(e.value), e.dtype)
    found = ((e, converted.get(id(e), e.dtype)) for e in loads(body))
    return tuple(wide if e.dtype.is_half and wide.is_float else e.dtype for e, wide in found)


def packed_body(body: Expr, reads: Mapping[int, Packed], places: Mapping[str, tuple[Expr, Expr]]) -> Expr:
    """A value with some of its reads, by number, replaced by those of packs; `places` by vector axis."""
    found = loads(body)
    wanted = {id(found[i]): p for i, p in reads.items()}

    def visit(e: Expr) -> Expr:
        if isinstance(e, Cast) and (p := wanted.get(id(e.value))) is not None and p.converted:
            return p.at(places.get(p.vector))
        p = wanted.get(id(e))
        return rebuild(e, visit) if p is None else p.at(places.get(p.vector))

    return visit(body)
