"""Values that are hard for arithmetic, and the comparison with the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.backends.cpu_cases import compiled, interpreted, results

INF, NAN = float("inf"), float("nan")
HARD = [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 4.0, INF, -INF, NAN, 1e-40, -1e-40, 3e38]
INTEGERS = [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]


def agree(source: str, *args: Any, **options: Any) -> None:
    """Every result equals the interpreter's, NaN for NaN; zeros of either sign are equal."""
    with np.errstate(all="ignore"):
        want = interpreted(source, *args)
    for w, g in zip(want, results(compiled(source, **options)(*args))):
        assert w.dtype == g.dtype
        if w.dtype.kind == "V":
            w, g = w.astype(np.float32), g.astype(np.float32)
        np.testing.assert_array_equal(g, w, f"{source} {options}")
