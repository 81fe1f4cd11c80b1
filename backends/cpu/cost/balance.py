"""How evenly tasks of some length keep processors busy."""

from __future__ import annotations

import math
from functools import lru_cache
from heapq import heapreplace

TASKS_PER_CORE = 8  # for each processor, at most, but for what there is room for
_MANY = 32  # tasks for each processor, from where on it does not count what one has more than another
_UNEVEN = 1.03  # times as long as with the most even tasks the busiest processor may take with larger ones
MIN_BUSY = 0.9  # of the time, processors with equal tasks, at least


def balanced(tasks: int, cores: int) -> bool:
    """Whether that many equal tasks keep so many processors busy, but for a tenth of the time."""
    return tasks >= MIN_BUSY * cores * math.ceil(tasks / cores)


@lru_cache(maxsize=4096)
def even_width(
    extent: int, register: int, parts: range, others: int, cores: int, part_cost: float = 0.0
) -> int:
    """Points of an axis that a task has, whole register tiles, where the loops of other axes make as many
    tasks `others` times: the first of some numbers of parts with which the processor that has most, each
    taking the next task whenever it is done with one, is done about as early as with the best of them.  A
    part more is as much work for it as `dearer` points."""
    tiles = -(-extent // register)
    widths = [-(-tiles // n) * register for n in parts]
    busiest = [
        _longest_share(extent, w, others, cores) + n * part_cost for n, w in zip(parts, widths, strict=True)
    ]
    most = _UNEVEN * min(busiest)
    return next(w for w, b in zip(widths, busiest, strict=True) if b <= most)


def keeps_busy(extent: int, width: int, others: int, cores: int) -> bool:
    """Whether tasks of so many points of an axis, all of it `others` times, keep the processors busy, but for
    a tenth of the time."""
    return others * extent >= MIN_BUSY * cores * _longest_share(extent, width, others, cores)


def _longest_share(extent: int, width: int, others: int, cores: int) -> int:
    """The points of the processor that has most of them."""
    whole, rest = divmod(extent, width)
    turn = [width] * whole + [rest] * (rest > 0)
    if others * len(turn) > _MANY * cores:
        return -(-others * extent // cores)
    free = [0] * cores
    for points in turn * others:
        heapreplace(free, free[0] + points)
    return max(free)
