"""Buffers in shared memory: temporaries that no other kernel accesses, and results that are read again, if a
tile needs a small part of them.

The axes whose tiles the nests of a region share are coincident: a tile reads only what it has written itself.
So a block needs only the footprint of one tile of such a buffer; a temporary is never written to global
memory, and a result once, at the end of the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from tc.ir.expr import Expr, IntImm, Variable
from tc.ir.loops import Array
from tc.ir.program import Buffer
from tc.poly.gpu.coordinates import Tuple
from tc.poly.gpu.footprint import Dimension, footprint, place
from tc.poly.gpu.mapping import RegionMap, Unit, alone, several, tiled_axes
from tc.poly.gpu.private_memory import PrivateArray
from tc.poly.gpu.shared import size_of
from tc.poly.scop import Access, Scop, Statement
from tc.poly.tile_plan import Region

_MOST = 4096  # bytes of a result: more would leave too few blocks on a multiprocessor


@dataclass(frozen=True, slots=True)
class Local:
    """The footprint of `buffer` in a tile, with its first element at `lowest` at the start of tiles.  For a
    result it is the box `stored`, all of which this tile writes, and no other."""

    buffer: str
    array: Array
    lowest: tuple[int, ...]
    stored: tuple[Dimension, ...] = ()

    def place(self, t: Tuple, u: Unit, statement: str, subscripts: Sequence[Expr]) -> list[str]:
        """The subscripts in the array of the element that a statement accesses, as text for isl; `t` may be
        the points of the unit's axes instead of the statement's instances."""
        whole = untiled(u)
        found = footprint(whole, statement, subscripts)
        assert found is not None
        axes = (*whole.axes, *whole.own)
        return [
            f"{place(t, axes, d)} + {d.constant - low}" for d, low in zip(found, self.lowest, strict=True)
        ]


def untiled(u: Unit) -> Unit:
    """A unit without tiles of its own loops: a temporary must exist for all of their tiles."""
    return replace(u, own=tuple((a, replace(m, tile=0)) for a, m in u.own))


def local(
    scop: Scop,
    region: Region,
    units: Sequence[Unit],
    private_arrays: Sequence[PrivateArray],
    replicated: AbstractSet[str],
    budget: int,
    name: Callable[[str], str],
) -> tuple[Local, ...]:
    """The temporaries of a region that fit into `budget` bytes, then its results; not those that are in
    registers wherever they are used, nor `replicated` ones."""
    region_statements = {s for u in units for s in u.statements}
    inside = {a.name for a in tiled_axes(region)}
    outside = {a.buffer for s in scop.statements if s.name not in region_statements for a in s.accesses}
    buffers = {b.name: b for b in scop.program.buffers}
    used = {(a.buffer, u.nest) for u in units for s in u.statements for a in scop.statement(s).accesses}
    needed = {n for n, nest in used if not any(k.buffer == n and k.nest == nest for k in private_arrays)}
    needed -= replicated
    temporaries = [
        n for n, b in buffers.items() if b.role == "temporary" and n not in outside and n in needed
    ]
    results = _results(scop, units, private_arrays, inside)
    results = {n: box for n, box in results.items() if n not in replicated}
    found: dict[str, list[tuple[Dimension, ...] | None]] = {n: [] for n in (*temporaries, *results)}
    for u in units:
        for s in u.statements:
            for a in scop.statement(s).accesses:
                if a.buffer in found:
                    known = not a.unknown and not (a.read is not None and a.read.call.checked)
                    box = footprint(untiled(u), s, a.subscripts) if known else None
                    found[a.buffer].append(box)
    out: list[Local] = []
    for buffer, boxes in found.items():
        hull = _hull(boxes, inside) if boxes else None
        stored = results.get(buffer, ())
        if hull is None or (stored and hull != _extent(stored)):
            continue
        lowest, shape = hull
        padding = 1 if math.prod(shape[:-1]) > 1 and shape[-1] % 2 == 0 else 0
        dtype = buffers[buffer].dtype
        array = Array(name(buffer), dtype, tuple(map(IntImm, shape)), "shared", padding=padding)
        if size_of(array) <= (min(budget, _MOST) if stored else budget):
            budget -= size_of(array)
            out.append(Local(buffer, array, lowest, stored))
    return tuple(out)


def _results(
    scop: Scop, units: Sequence[Unit], private_arrays: Sequence[PrivateArray], inside: AbstractSet[str]
) -> dict[str, tuple[Dimension, ...]]:
    """The results that only this region writes and that are not in registers wherever it reads them, with the
    box that a tile writes, of which no other tile writes any element."""
    region_statements = {s for u in units for s in u.statements}
    tiled = {a.name for u in units for a, m in u.axes if a.name in inside and several(a, m)}
    out: dict[str, tuple[Dimension, ...]] = {}
    for b in scop.program.buffers:
        everywhere = [(s.name, a) for s in scop.statements for a in s.accesses if a.buffer == b.name]
        used_elsewhere = any(a.kind != "read" and s not in region_statements for s, a in everywhere)
        if b.role != "output" or b.inout or not b.box or used_elsewhere:
            continue
        accesses = [
            (u, s, a)
            for u in units
            for s in u.statements
            for a in scop.statement(s).accesses
            if a.buffer == b.name
        ]
        registers = {k.nest for k in private_arrays if k.buffer == b.name}
        if not any(a.kind == "read" and u.nest not in registers for u, _, a in accesses):
            continue
        u, s, first = accesses[0]
        box = footprint(untiled(u), s, first.subscripts) if first.kind == "write" else None
        if box is None or not _all_written(scop.statement(s), first, b):
            continue
        moving = {t.axis for d in box for t in d.terms if t.moves}
        if moving == tiled and all(len(d.terms) <= 1 and all(t.factor == 1 for t in d.terms) for d in box):
            out[b.name] = box
    return out


def _all_written(s: Statement, first: Access, buffer: Buffer) -> bool:
    """Whether a statement writes all elements of a buffer, for any data."""
    ranges = {v.name: v.range for v in s.stage.domain.vars}
    names = [e.name for e in first.subscripts if isinstance(e, Variable)]
    if len(names) < len(first.subscripts) or len(set(names)) < len(names):
        return False
    whole = all(ranges.get(n) == r for n, r in zip(names, buffer.box, strict=True))
    return whole and not s.residual and not s.stage.domain.conditions


def _extent(box: Sequence[Dimension]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(d.constant for d in box), tuple(d.size for d in box)


def _hull(
    boxes: Sequence[tuple[Dimension, ...] | None], inside: frozenset[str] | set[str]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The first elements and the extents of the hull of all accesses; None unless they move alike, with the
    tiles that nests share."""
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


def repeated(region: Region, units: Sequence[Unit], mapping: RegionMap) -> bool:
    """Whether a block runs several tiles, so that one may overwrite what the one before still reads."""
    names = {a.name for a in tiled_axes(region)}

    axes = (x for u in units for x in u.axes if x[0].name in names)
    return any(several(a, m) and not alone(a, m) for a, m in axes)
