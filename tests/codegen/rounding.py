"""Integers that are hard to round to a floating type, and what they round to, in exact arithmetic."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

BITS = {"bfloat16": 8, "float16": 11, "float": 24, "double": 53}  # significant ones
NUMPY: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16, "float16": "f2", "float": "f4", "double": "f8"}


def hard(dtype: str, step: int = 1) -> list[int]:
    """Ties of every floating type and their neighbours, one away and further: whatever rounds to a wider
    floating type first ends on the tie.  Both parities of what is kept, and the ends of the type; of every
    `step`-th magnitude."""
    info = np.iinfo(dtype)
    out = {int(info.min), int(info.max), int(info.min) + 1, int(info.max) - 1, 0, 1, 2049, 65519, 65520}
    for top in range(8, info.bits, step):
        for bits in BITS.values():
            unit = top + 1 - bits
            if unit < 1:
                continue
            for kept in (0, 1):
                tie = (1 << top) + (kept << unit) + (1 << (unit - 1))
                for away in (0, 1, 2, 1 << max(top - 25, 0), 1 << max(top - 54, 0)):
                    out |= {tie + away, tie - away, -tie - away, away - tie}
    return sorted(v for v in out if int(info.min) <= v <= int(info.max))


def nearest(v: int, bits: int) -> int:
    """The number of so many significant bits that is nearest, the even one of two."""
    unit = max(abs(v).bit_length() - bits, 0)
    quotient, rest = divmod(abs(v), 1 << unit)
    half = (1 << unit) / 2
    quotient += rest > half or (rest == half and quotient % 2 == 1)
    return (quotient << unit) * (1 if v >= 0 else -1)


def exact(values: list[int], t: str) -> Array:
    """Each of these is a number of the type, or beyond float16."""
    whole = [nearest(v, BITS[t]) for v in values]
    if t == "float16":
        return np.array([v if abs(v) <= 65504 else np.copysign(np.inf, v) for v in whole], "f2")
    return np.array([float(v) for v in whole]).astype(NUMPY[t])
