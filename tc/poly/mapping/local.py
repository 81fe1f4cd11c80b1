"""Temporaries that live in shared memory: what no other kernel touches, and of what a tile needs little.

The axes whose tiles the nests of a region share are coincident: what a tile reads, it has written itself.  So
a block needs no more of such a buffer than the footprint of one tile, and memory never sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tc.ir.expr import Expr, IntImm
from tc.ir.loops import Array
from tc.poly.mapping.coordinates import Tuple
from tc.poly.mapping.plan import AxisMap, RegionMap, Unit, several, tiled_axes
from tc.poly.mapping.shared import Dimension, footprint, place, size_of
from tc.poly.plan import Axis, Region
from tc.poly.scop import Scop


@dataclass(frozen=True, slots=True)
class Local:
    """The footprint of `buffer` in a tile; its first element is at `lowest` where tiles begin."""

    buffer: str
    array: Array
    lowest: tuple[int, ...]

    def place(self, t: Tuple, u: Unit, statement: str, subscripts: Sequence[Expr]) -> list[str]:
        """Where in the array the element with these subscripts of a statement is, as text for isl; `t` may be
        the points of the axes of the unit instead of the statement's instances."""
        whole = untiled(u)
        found = footprint(whole, statement, subscripts, whole=False)
        assert found is not None
        axes = (*whole.axes, *whole.own)
        return [
            f"{place(t, axes, d)} + {d.constant - low}" for d, low in zip(found, self.lowest, strict=True)
        ]


def untiled(u: Unit) -> Unit:
    """A unit whose own loops are not tiled: a temporary must be there for all of their tiles."""
    return replace(u, own=tuple((a, replace(m, tile=0)) for a, m in u.own))


def local(
    scop: Scop, region: Region, units: Sequence[Unit], budget: int, name: Callable[[str], str]
) -> tuple[Local, ...]:
    """The temporaries of a region that fit into `budget` bytes, the smallest first."""
    here = {s for u in units for s in u.statements}
    inside = {a.name for a in tiled_axes(region)}
    outside = {a.buffer for s in scop.statements if s.name not in here for a in s.accesses}
    temporaries = {b.name: b for b in scop.program.buffers if b.role == "temporary" and b.name not in outside}
    found: dict[str, list[tuple[Dimension, ...] | None]] = {}
    for u in units:
        for s in u.statements:
            for a in scop.statement(s).accesses:
                if a.buffer in temporaries:
                    known = not a.unknown and not (a.read is not None and a.read.call.checked)
                    box = footprint(untiled(u), s, a.subscripts, whole=False) if known else None
                    found.setdefault(a.buffer, []).append(box)
    out: list[Local] = []
    for buffer, boxes in found.items():
        hull = _hull(boxes, inside)
        if hull is None:
            continue
        lowest, shape = hull
        padding = 1 if len(shape) > 1 and shape[-1] % 2 == 0 else 0
        dtype = temporaries[buffer].dtype
        array = Array(name(buffer), dtype, tuple(map(IntImm, shape)), "shared", padding=padding)
        if size_of(array) <= budget:
            budget -= size_of(array)
            out.append(Local(buffer, array, lowest))
    return tuple(out)


def _hull(
    boxes: Sequence[tuple[Dimension, ...] | None], inside: frozenset[str] | set[str]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The first elements and the extents of what all accesses touch; None unless they move alike, with tiles
    that nests share."""
    known = [b for b in boxes if b is not None]
    if len(known) < len(boxes):
        return None
    moves = [[{(t.axis, t.factor) for t in d.terms if t.moves} for d in b] for b in known]
    if any(m != moves[0] for m in moves) or any(axis not in inside for m in moves[0] for axis, _ in m):
        return None
    columns = list(zip(*known, strict=True))
    lowest = tuple(min(d.constant for d in c) for c in columns)
    extents = tuple(max(d.constant + d.size for d in c) - low for c, low in zip(columns, lowest, strict=True))
    return lowest, extents


def repeated(region: Region, units: Sequence[Unit], how: RegionMap) -> bool:
    """Whether a block runs several tiles, so that the next may overwrite what the last one still reads."""
    names = {a.name for a in tiled_axes(region)}

    def again(a: Axis, m: AxisMap) -> bool:
        if not several(a, m):
            return False
        tiles = None if a.size is not None else -(-a.extent // m.tile)
        return m.block is None or (m.blocks > 0 and (tiles is None or m.blocks < tiles))

    return any(again(a, m) for u in units for a, m in u.axes if a.name in names)
