"""Where arrays lie: beside pages that nobody may touch, in other orders, full of what is seen if it is read.

An array that ends where a protected page begins makes a read of one element too many end the process; the
one that runs programs (`fuzz.run`) finds out which program that was.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Layout = Literal["end", "start", "columns", "spaced", "backwards", "misaligned", "repeated"]
LAYOUTS: tuple[Layout, ...] = ("end", "start", "columns", "spaced", "backwards", "misaligned", "repeated")
_PAGE = mmap.PAGESIZE
_PROT_NONE = 0
# Signalling NaNs by the bytes of an element; integers get the same bits.
_POISON = {1: 0xA5, 2: 0x7DA5, 4: 0x7FA5A5A5, 8: 0x7FF5A5A5A5A5A5A5}


def guarded(shape: Sequence[int], dtype: np.dtype[Any], *, at_end: bool = True, gap: int = 0) -> Array:
    """A C-ordered array of unspecified values that ends `gap` bytes before a protected page, or begins just
    after one; aligned to its elements and to no more.  The pages live as long as it does."""
    nbytes = math.prod(shape) * dtype.itemsize
    pages = max(1, -(-(nbytes + gap) // _PAGE))
    mapping = mmap.mmap(-1, (pages + 2) * _PAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    libc = ctypes.CDLL(None, use_errno=True)
    for page in (first, first + (pages + 1) * _PAGE):
        if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = (pages + 1) * _PAGE - nbytes - gap if at_end else _PAGE
    return np.ndarray(tuple(shape), dtype, buffer=mapping, offset=offset)


def poisoned(shape: Sequence[int], dtype: np.dtype[Any], *, at_end: bool = True) -> Array:
    """A guarded array of signalling NaNs, or of integers with their bits."""
    made = guarded(shape, dtype, at_end=at_end)
    size = dtype.itemsize
    if dtype.kind == "b":
        made[...] = False
    elif made.size:
        made.reshape(-1).view(f"u{size}")[...] = _POISON[size]
    return made


def arranged(values: Array, layout: Layout) -> Array:
    """The same values at other places.

    `end`, `start`: in order, against a protected page.  `columns`: Fortran's order.  `spaced`: every second
    element of every row, others between.  `backwards`: in the opposite order.  `misaligned`: elements of more
    than a byte at odd addresses.  `repeated`: one row that stands for all, see `repeated`.
    """
    if values.ndim == 0 and layout in ("columns", "spaced", "backwards", "repeated"):
        layout = "end"
    match layout:
        case "end" | "start":
            made = guarded(values.shape, values.dtype, at_end=layout == "end")
        case "columns":
            made = guarded(values.shape[::-1], values.dtype).T
        case "spaced":
            *outer, last = values.shape
            # The last of them is the last that exists.
            wide = poisoned((*outer, max(0, 2 * last - 1)), values.dtype)
            made = wide[..., ::2]
        case "misaligned":
            made = guarded(values.shape, values.dtype, gap=1)
        case "repeated":
            one = guarded(values.shape[1:], values.dtype)
            if len(values):
                one[...] = values[0]
            return np.broadcast_to(one, values.shape)
        case "backwards":
            made = guarded(values.shape, values.dtype)[(slice(None, None, -1),) * values.ndim]
    made[...] = values
    return made


def repeated(values: Array, layout: Layout) -> Array:
    """The values that an array of a layout can have: of `repeated`, all rows are the first."""
    if layout != "repeated" or values.ndim == 0 or not len(values):
        return values
    return np.ascontiguousarray(np.broadcast_to(values[0], values.shape))
