"""Whether results are right: every element against the judge's float64 ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def compare(results: Sequence[np.ndarray], wanted: Sequence[Any], terms: int) -> str | None:
    """What is wrong with results, or None.

    Sums of `terms` terms may be off by the unit round-off times the root of their number; the factor 16
    is for what implementations reorder and approximate.
    """
    if len(results) != len(wanted):
        return f"{len(results)} results, not {len(wanted)}"
    for i, (r, w) in enumerate(zip(results, wanted, strict=True)):
        if r.shape != w.shape:
            return f"result {i} has the shape {r.shape}, not {w.shape}"
        if r.dtype.kind in "iub":
            if not np.array_equal(r, w):
                return f"result {i} differs in {np.count_nonzero(r != w)} of {r.size} elements"
            continue
        if not r.size:
            continue
        scale = max(float(np.max(np.abs(w))), float(np.sqrt(terms)) if r.size == 1 else 0.0, 1e-30)
        allowed = 16 * float(np.finfo(r.dtype).eps) * float(np.sqrt(terms)) * scale
        # Element by element in pieces: results of 100 MB need no second copy in float64.
        wide = np.complex128 if r.dtype.kind == "c" else np.float64
        flat, right = r.reshape(-1), w.reshape(-1)
        for at in range(0, flat.size, 1 << 20):
            error = np.abs(flat[at : at + (1 << 20)].astype(wide) - right[at : at + (1 << 20)])
            if not float(error.max()) <= allowed:
                where = np.unravel_index(at + int(np.argmax(error)), r.shape)
                return (
                    f"result {i} is off by {float(error.max()):.3g} at {tuple(int(n) for n in where)}; "
                    f"{allowed:.3g} is allowed"
                )
    return None
