"""Load balance: how evenly tasks of some length keep all cores busy."""

from __future__ import annotations

import math
from functools import lru_cache
from heapq import heapreplace

TASK_CYCLES = 8000.0  # cycles of a task, at least
TASKS_PER_CORE = 8  # at most, unless caches need smaller tasks
_MANY = 32  # tasks for each core from which on the imbalance is neglected
# Time of the busiest core, as a factor of that with the most even tasks, that larger tasks may take.
_UNEVEN = 1.03
MIN_BUSY = 0.9  # share of the time that cores with equal tasks are busy, at least


def balanced(tasks: int, cores: int) -> bool:
    """Whether `tasks` equal tasks keep `cores` cores busy for nine tenths of the time."""
    return tasks >= MIN_BUSY * cores * math.ceil(tasks / cores)


@lru_cache(maxsize=4096)
def even_width(
    extent: int, register: int, parts: range, others: int, cores: int, part_cost: float = 0.0
) -> int:
    """The points of an axis in one task, a whole number of register tiles.

    The loops of other axes repeat these tasks `others` times.  Each core takes the next task as soon as it is
    done with one.  Of the candidate numbers of `parts`, the result is the first for which the busiest core
    finishes about as early as with the best number.  Each additional part costs the busiest core as much time
    as `part_cost` points.
    """
    tiles = -(-extent // register)
    widths = [-(-tiles // n) * register for n in parts]
    busiest = [
        _longest_share(extent, w, others, cores) + n * part_cost for n, w in zip(parts, widths, strict=True)
    ]
    most = _UNEVEN * min(busiest)
    return next(w for w, b in zip(widths, busiest, strict=True) if b <= most)


def keeps_busy(extent: int, width: int, others: int, cores: int) -> bool:
    """Whether tasks of `width` points of an axis, repeated `others` times over the whole axis, keep the cores
    busy for nine tenths of the time."""
    return others * extent >= MIN_BUSY * cores * _longest_share(extent, width, others, cores)


def _longest_share(extent: int, width: int, others: int, cores: int) -> int:
    """The number of points that the busiest core has under greedy scheduling (Graham, 1966)."""
    whole, rest = divmod(extent, width)
    turn = [width] * whole + [rest] * (rest > 0)
    if others * len(turn) > _MANY * cores:
        return -(-others * extent // cores)
    free = [0] * cores
    for points in turn * others:
        heapreplace(free, free[0] + points)
    return max(free)
