"""The sizes and specialised scalars that a caller gives a kernel: checked, and those that may stay open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tc.errors import ArgumentError, did_you_mean
from tc.lang import resolved as r
from tc.pipeline.front import Front


def check_names(front: Front, values: Mapping[str, Any]) -> None:
    known = {*front.checked.sizes, *front.specialized}
    for name in values:
        if name not in known:
            raise ArgumentError(
                f"{front.checked.name} has no size or specialised scalar '{name}'",
                code="TC0513",
                help=did_you_mean(name, known) or f"it has {', '.join(sorted(known)) or 'none'}",
            )


def check_complete(front: Front, values: Mapping[str, int]) -> None:
    """Every size and specialised scalar has a value, and there are no others; else ArgumentError, TC0513."""
    check_names(front, values)
    sizes = front.checked.sizes
    for name in (*front.specialized, *sizes):
        if name not in values:
            what = "size" if name in sizes else "scalar"
            raise ArgumentError(
                f"{front.checked.name}: no value for the {what} {name}", code="TC0513", help=f"pass {name}=…"
            )


def check_integers(front: Front, values: Mapping[str, Any]) -> None:
    """Values are integers, sizes from 0 on, scalars of 64 bits; else ArgumentError, TC0513."""
    for name, value in values.items():
        low = 0 if name in front.checked.sizes else -(2**63)
        integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not integer or value < low:
            raise ArgumentError(
                f"{front.checked.name}: {name} = {value!r} is not "
                + ("a size" if low == 0 else "an integer"),
                code="TC0513",
                help="sizes are integers from 0 on" if low == 0 else "pass an int",
            )


def outer_sizes(front: Front) -> tuple[str, ...]:
    """The sizes of first dimensions of tensor parameters that are of no last dimension of several, as a batch
    is: those that one kernel can serve every value of at little cost."""
    dims = [
        [d.name if isinstance(d, r.Size) else None for d in p.dims or ()]
        for p in front.checked.params
        if isinstance(p, r.Tensor)
    ]
    first = {d[0] for d in dims if d}
    last = {d[-1] for d in dims if len(d) > 1}
    return tuple(n for n in front.checked.sizes if n in first - last and n not in front.fixed_sizes)
