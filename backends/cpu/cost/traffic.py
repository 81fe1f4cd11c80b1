"""Reloads: bytes that come from beyond the second cache more than once.

Each iteration of a loop that does not move an array reads the array again.  What the inner loops read of it
either stays in the second cache, or does not: then all of it is fetched again from the last cache or from
memory.  The same is true of lines of which an iteration takes only a part, such as those of a column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tc.poly.tile_plan import one_block

from ..target import LINE, Machine
from .cache_lines import L2_MISS_FACTOR, STREAM_STRIDE, USABLE_SHARE, set_occupancy
from .pack_sizes import pack_width
from .register_tile import Candidate, lane_axis
from .work import NestContext, Ref, footprint, rows

_REUSED_L3 = 1.4  # bandwidth of the last cache for lines that it has sent before, as a factor


def reload_cycles(
    context: NestContext, c: Candidate, extents: Mapping[str, int], order: Sequence[str]
) -> float:
    """Cycles of all reloads in a nest whose axes have these extents; `order` as in `nest_cycles`."""
    nest, work, machine = context.nest, context.work, context.machine
    packed = [r for r in context.refs if (r.statement, r.read) in c.packs]
    steps = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
    if packed:
        depends = {n for r in packed for n in extents if r.strides.get(n, 0)}
        order = sorted(order, key=lambda n: n not in depends)
        vector = lane_axis(c.tiles)
        assert vector is not None
        width = pack_width(context, packed, c, order, shared=True)
        steps[vector] = max(steps[vector], min(width, extents[vector]))
    total = 0.0
    for p, t in zip(nest.phases, c.phases, strict=True):
        if t.block is not None and not packed:
            continue  # the reused part of a few rows stays near
        cut = one_block(p, t)
        blocks = 1.0 if cut is p else p.axes[0].typical_extent / cut.axes[0].typical_extent
        inner = {a.name: a.typical_extent for a in cut.axes}
        for r in (r for s in p.statements for r in work[s].refs):
            read = not r.written and not r.indirect and (r.statement, r.read) not in c.packs
            if not read or r.buffer in context.accumulators:
                continue
            if any(r.strides.get(n, 0) for n in inner):
                total += blocks * _array_reload_cycles(r, order, steps, extents, inner, machine)
            else:
                total += _partial_line_cycles(r, order, steps, extents, machine)
    return total


def _array_reload_cycles(
    r: Ref,
    order: Sequence[str],
    steps: Mapping[str, int],
    extents: Mapping[str, int],
    inner: Mapping[str, int],
    machine: Machine,
) -> float:
    """Cycles of the reloads of one array, by loops in this order, outermost first, with steps of so many
    points."""
    times = {n: -(-extents[n] // steps[n]) for n in order}
    total = 0.0
    for i, n in enumerate(order):
        if r.strides.get(n, 0) or times[n] == 1:
            continue
        inside = {m: extents[m] if m in order[i + 1 :] else steps[m] for m in order} | dict(inner)
        size = footprint(r, inside)
        if _stays_in_cache(r, inside, size, machine.l2, machine.l2_ways):
            continue
        rate = _REUSED_L3 * machine.l3_bandwidth if size <= machine.l3 else machine.bandwidth
        total += math.prod(times[m] for m in order[:i]) * (times[n] - 1) * size / rate
    return total


def _partial_line_cycles(
    r: Ref, order: Sequence[str], steps: Mapping[str, int], extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles of reloads of lines whose next part a later iteration takes, where the inner loops evict them:
    each part then fetches its line."""
    total = 0.0
    for i, n in enumerate(order):
        part = abs(r.strides.get(n, 0)) * r.itemsize * steps[n]
        if not 0 < part < LINE or steps[n] >= extents[n]:
            continue
        inside = {m: extents[m] if m in order[i + 1 :] else steps[m] for m in order}
        count, run = rows(r, inside)
        if run >= LINE or _stays_in_cache(r, inside, count * LINE, machine.l1, machine.l1_ways):
            continue
        each = LINE / machine.l2_bandwidth
        if not _stays_in_cache(r, inside, count * LINE, machine.l2, machine.l2_ways):
            strides = (abs(s) * r.itemsize for m, s in r.strides.items() if inside.get(m, 1) > 1)
            far = min((a for a in strides if a > run), default=0) >= STREAM_STRIDE
            each = L2_MISS_FACTOR * each if far else LINE / machine.l3_bandwidth
        total += math.prod(-(-extents[m] // steps[m]) for m in order[: i + 1]) * count * each
    return total


def _stays_in_cache(r: Ref, extents: Mapping[str, int], size: int, cache: int, ways: int) -> bool:
    """Whether a cache keeps `size` bytes of an array, which loops of these extents read."""
    return size <= USABLE_SHARE * cache and set_occupancy(r, extents, cache, ways) <= 1
