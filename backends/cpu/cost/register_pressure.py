"""Register pressure: whether the accumulators of a register tile and its operands fit the vector
registers."""

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
    """Whether accumulators along lanes and the values that stay beside them fit the registers."""
    return free_registers(nest, work, tiles, isa) >= 0


def free_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile], isa: Isa) -> int:
    """Vector registers that a register tile leaves free; negative if it needs more than there are."""
    return (
        isa.registers
        - _vector_count(tiles) * accumulators_per_point(nest, work)
        - _other_registers(nest, work, tiles, isa)
    )


def _vector_count(tiles: Mapping[str, Tile]) -> int:
    """Vectors of a register tile."""
    return math.prod(-(-t.register // t.lanes) for t in tiles.values())


def accumulators_per_point(nest: Nest, work: Mapping[str, Work]) -> int:
    """Accumulators of one point of the nest."""
    return max(1, max(sum(work[s].update for s in p.statements) for p in nest.phases))


def _other_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile], isa: Isa) -> int:
    """Registers beside the accumulators."""
    if isa.registers > FEW_REGISTERS:
        unmoved = _invariant_registers(nest, work, tiles)
        # A single product of a point takes its operand from memory; operands of several are loaded once, and
        # stay.
        several = unmoved or accumulators_per_point(nest, work) > 1
        return (
            _window_registers(nest, work, tiles)
            + unmoved
            + (_operand_registers(nest, work, tiles) if several else 0)
        )
    if not any(p.axes for p in nest.phases):
        return 0
    # Without FMA a product needs a register before it is summed.
    return _operand_registers(nest, work, tiles) + (not isa.fma)


def _window_registers(nest: Nest, work: Mapping[str, Work], tiles: Mapping[str, Tile]) -> int:
    """Registers that hold elements of sliding windows.

    An element that several points of an unrolled window use is loaded once and stays in a register.  There
    are as many as there are points, since the next iteration's first use comes after the last use of an
    element of this iteration.
    """
    vector = lane_axis(tiles)
    unrolled = {p.axes[-1].name for p in nest.phases if p.axes and p.axes[-1].typical_extent > 1}
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
    """Registers of factors that the innermost loop of a reduction does not move: they are loaded before it,
    and stay.  A factor that is alone with a product needs none, as it is the product's memory operand."""
    most = 0
    for p in nest.phases:
        if len(p.axes) < 2 or p.axes[-1].typical_extent == 1:
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
    """The most registers at a time that hold operands of one iteration of a reduction, and what becomes of
    them before it is summed.

    Points are computed in the order of the axes, those in lanes one after the other.  An operand that several
    points use, of one statement or of several, stays from the first of them to the last.
    """
    vector = lane_axis(tiles)
    order = sorted((a.name for a in nest.axes), key=lambda n: n == vector)
    counts = tuple(_vector_count({n: tiles[n]}) for n in order)
    most = 0
    for p in nest.phases:
        inner = {a.name for a in p.axes}
        reads: list[tuple[int, Hashable, tuple[int, ...]]] = []
        more = False
        for number, w in enumerate(work[s] for s in p.statements):
            more = more or (w.update and w.operations > 1)  # more than a multiply-add
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
    """The most elements that are live at a time.  Each statement computes so many points (`counts`) along
    each axis; `reads` says which statement reads what, and along which axes the elements differ."""
    points = list(product(*map(range, counts)))
    used: dict[Hashable, list[int]] = {}
    for number, array, moved in reads:
        for at, point in enumerate(points, number * len(points)):
            used.setdefault((array, *(point[i] for i in moved)), []).append(at)
    starts = Counter(found[0] for found in used.values())
    ends = Counter(found[-1] + 1 for found in used.values())
    live = accumulate(starts[at] - ends[at] for at in range(len(points) * statements))
    return max(live, default=0)
