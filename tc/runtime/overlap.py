"""Whether strided arrays share memory, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_WORK: Any = 100_000  # candidate solutions examined before two arrays count as overlapping


def _layout(a: Array) -> tuple[tuple[int, int], ...]:
    """(extent, stride) of the dimensions with more than one element."""
    return tuple((n, s) for n, s in zip(a.shape, a.strides) if n > 1)


def same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays are the same elements at the same places, of one type and shape."""
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and a.size > 0
        and np.may_share_memory(a, b)  # soon told, and most often they do not
        and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and _layout(a) == _layout(b)
    )


def share_memory(a: Array, b: Array) -> bool:
    """Whether any byte belongs to both; a question too hard to answer counts as yes."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=_WORK))
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(a: Array) -> bool:
    """Whether two elements of an array share memory, as those of a broadcast view do."""
    if a.size == 0 or a.flags.c_contiguous:
        return False
    reach = a.itemsize
    if any(abs(stride) < a.itemsize for _, stride in _layout(a)):
        return True  # neighbours in that dimension already meet
    for extent, stride in sorted(_layout(a), key=lambda d: abs(d[1])):
        if abs(stride) < reach:
            break
        reach += (extent - 1) * abs(stride)
    else:
        return False
    # Interleaved strides: rare enough to list every element's address.
    first = np.zeros((), np.int64)
    for extent, stride in _layout(a):
        first = np.add.outer(first, np.arange(extent, dtype=np.int64) * stride)
    gaps = np.diff(np.sort(first, axis=None))
    return bool((gaps < a.itemsize).any())
