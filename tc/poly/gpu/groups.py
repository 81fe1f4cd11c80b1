"""Reference groups: reads of one buffer whose footprints overlap, or nearly do, share one copy.

A group's footprint is the box hull of its members' (report, §5.3): a stencil needs its tile with the halo
once, not once for each read.  Two groups are merged if their hull is not larger than the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tc.ir.program import Buffer
from tc.poly.gpu.footprint import Dimension

Box = tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A read of a `box` of `buffer`, number `read` among those of `statement`, with `instances` a tile.

    `unguarded`: all points of the tile have one.  `mergeable`: it may share a copy with reads of other boxes.
    `as_float`: the elements are halves that are used as float32 only.
    """

    statement: str
    read: int
    buffer: Buffer
    box: Box
    instances: int
    unguarded: bool
    mergeable: bool = True
    as_float: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """References, and for each, in order, the box in the group's footprint that it reads."""

    members: tuple[Reference, ...]

    @property
    def buffer(self) -> Buffer:
        return self.members[0].buffer

    @property
    def box(self) -> Box:
        return self.members[0].box

    @property
    def elements(self) -> int:
        return math.prod(d.size for d in self.box)

    @property
    def reuse(self) -> float:
        """Accesses to each element in a tile, on average."""
        return sum(r.instances for r in self.members) / self.elements


def grouped(references: Sequence[Reference]) -> list[Group]:
    """The reference groups of some references, in the order of their first members."""
    out: list[Group] = []
    for r in references:
        new = Group((r,))
        # The hull may bridge several groups.
        while (found := _partner(out, new)) is not None:
            old, new = found
            out.remove(old)
        out.append(new)
    order = {(r.statement, r.read): i for i, r in enumerate(references)}
    return sorted(out, key=lambda g: min(order[r.statement, r.read] for r in g.members))


def _partner(groups: Sequence[Group], new: Group) -> tuple[Group, Group] | None:
    """A group that can be merged with another one, and the merged group."""
    for g in groups:
        joined = _joined(g, new)
        if joined is not None:
            return g, joined
    return None


def _joined(a: Group, b: Group) -> Group | None:
    """The merged group; None unless both read one buffer and the hull is not larger than the two together."""
    if a.buffer != b.buffer or len(a.box) != len(b.box):
        return None
    found = [hull(x, y) for x, y in zip(a.box, b.box, strict=True)]
    box = tuple(d for d in found if d is not None)
    if len(box) < len(found):
        return None
    same = a.elements == b.elements == math.prod(d.size for d in box)
    if not same and not all(r.mergeable for g in (a, b) for r in g.members):
        return None
    if math.prod(d.size for d in box) > a.elements + b.elements:
        return None
    return Group(tuple(replace(r, box=_inside(r.box, box)) for g in (a, b) for r in g.members))


def hull(a: Dimension, b: Dimension) -> Dimension | None:
    """The smallest interval that contains both in every tile; None unless both move alike."""
    if a.stride != b.stride or a.moving != b.moving or (a.constant - b.constant) % a.stride:
        return None
    first, last = min(a.constant, b.constant), max(d.constant + d.span for d in (a, b))
    shift = first - a.constant
    least, most = (None if x is None else x + shift for x in (a.least, a.most))
    size = 1 + (last - 1 - first) // a.stride
    below = a.below if a.below == b.below else None
    return replace(a, size=size, constant=first, least=least, most=most, offset=0, below=below)


def _inside(box: Box, whole: Box) -> Box:
    """A box as a part of a larger one: the larger one with the offset of its own first element."""
    return tuple(
        replace(w, terms=d.terms, offset=d.offset + (d.constant - w.constant) // w.stride)
        for d, w in zip(box, whole, strict=True)
    )
