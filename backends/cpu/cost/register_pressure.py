"""Whether a register tile fits the registers: its accumulators, and what they are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from functools import lru_cache
from itertools import accumulate, product

from tc.poly.tile_plan import Nest, Tile

from ..isa import FEW_REGISTERS, Isa
from .register_tile import lane_axis
from .work import Work


def fits_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile], isa: Isa) -> bool:
    """Whether accumulators along lanes, and what stays beside them, fit."""
    return free_registers(nest, work, tiles, isa) >= 0


def free_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile], isa: Isa) -> int:
    """Registers that are left."""
    return (
        isa.registers
        - _vector_count(tiles) * accumulators_per_point(nest, work)
        - _other_registers(nest, work, tiles, isa)
    )


def _vector_count(tiles: Mapping[str, Tile]) -> int:
    return math.prod(-(-t.register // t.lanes) for t in tiles.values())


def accumulators_per_point(nest: Nest, work: Mapping[str, Work]) -> int:
    """Accumulators of a point."""
    return max(1, max(sum(work[s].update for s in p.statements) for p in nest.phases))


def _other_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile], isa: Isa) -> int:
    if isa.registers > FEW_REGISTERS:
        unmoved = _invariant_registers(nest, work, tiles)
        # One product of a point is summed from memory; operands of several are loaded once, and stay.
        several = unmoved or accumulators_per_point(nest, work) > 1
        return (
            _window_registers(nest, work, tiles)
            + unmoved
            + (_operand_registers(nest, work, tiles) if several else 0)
        )
    if not any(p.axes for p in nest.phases):
        return 0
    return _operand_registers(nest, work, tiles) + (not isa.fma)  # a product is not yet a sum


def _window_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile]) -> int:
    """Elements of sliding windows, where they are kept.  An element that several points of an unrolled window
    use is loaded once and stays in a register: as many as there are points, since the next iteration's first
    use comes after the last of one of this iteration's."""
    vector = lane_axis(tiles)
    unrolled = {p.axes[-1].name for p in nest.phases if p.axes and p.axes[-1].extent > 1}
    kept = 0
    for w in work.values():
        for r in w.refs:
            if not r.windows or r.strides.get(vector or "", 0):
                continue
            moved = {n: t.register for n, t in tiles.items() if r.strides.get(n, 0)}
            slides = {n for pair in r.windows if not unrolled.isdisjoint(pair) for n in pair}
            if any(e > 1 and n in slides for n, e in moved.items()):
                t = tiles[vector] if vector is not None else Tile(1)
                kept += math.prod(moved.values()) + -(-t.register // t.lanes)
    return max(0, kept - 1)


def _invariant_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile]) -> int:
    """Factors that the innermost loop of a reduction of several does not move: they are loaded before it, and
    stay.  One that is alone with a product is its operand in memory."""
    most = 0
    for p in nest.phases:
        if len(p.axes) < 2 or p.axes[-1].extent == 1:
            continue
        inner, kept = p.axes[-1].name, 0
        several = (work[s] for s in p.statements if work[s].update and work[s].operations > 1)
        for r in (r for w in several for r in w.refs if not r.written):
            along = {n for n, s in r.strides.items() if s} | r.indirect
            if inner not in along:
                kept += _vector_count({n: t for n, t in tiles.items() if n in along})
        most = max(most, kept)
    return most


def _operand_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile]) -> int:
    """What a register tile multiplies in an iteration of a reduction, at most at a time, and what becomes of
    it before it is summed.  Points are computed in the order of the axes, those in lanes one after the other;
    what several use, of one statement or of several, stays from the first to the last of them."""
    vector = lane_axis(tiles)
    order = sorted((a.name for a in nest.axes), key=lambda n: n == vector)
    counts = tuple(_vector_count({n: tiles[n]}) for n in order)
    most = 0
    for p in nest.phases:
        inner = {a.name for a in p.axes}
        reads: list[tuple[int, Hashable, tuple[int, ...]]] = []
        more = False
        for number, w in enumerate(work[s] for s in p.statements):
            more = more or (w.update and w.operations > 1)  # than a multiply-add
            for r in w.refs:
                along = {n for n, s in r.strides.items() if s} | r.indirect
                if not r.written and not inner.isdisjoint(along):
                    array = r.buffer, r.offset, tuple(sorted(r.strides.items())), r.indirect
                    reads.append((number, array, tuple(i for i, n in enumerate(order) if n in along)))
        most = max(most, _max_live(counts, tuple(reads), len(p.statements)) + more)
    return most


@lru_cache(4096)
def _max_live(
    counts: tuple[int, ...], reads: tuple[tuple[int, Hashable, tuple[int, ...]], ...], statements: int
) -> int:
    """The most elements that are needed at a time, by statements that each compute so many points along each
    axis; `reads`: by which statement, of what, and along which axes they differ."""
    points = list(product(*map(range, counts)))
    used: dict[Hashable, list[int]] = {}
    for number, array, moved in reads:
        for at, point in enumerate(points, number * len(points)):
            used.setdefault((array, *(point[i] for i in moved)), []).append(at)
    starts = Counter(found[0] for found in used.values())
    ends = Counter(found[-1] + 1 for found in used.values())
    live = accumulate(starts[at] - ends[at] for at in range(len(points) * statements))
    return max(live, default=0)
