"""Gradients that read what the pass forward has kept (`tc.autodiff.saving`), as operators of frameworks
compute them, against gradients that compute it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tc
from tc.autodiff.gradient import Gradient, gradient
from tc.autodiff.saving import saving

Array = np.ndarray[Any, Any]
_TOLERANCE = 1e-9  # of doubles, beside the largest element; sums may be in another order


def difference(
    source: str,
    kernel: tc.Kernel,
    g: Gradient,
    scalars: Mapping[str, int],
    values: Mapping[str, Any],
    weights: Mapping[str, Array],
    adjoints: Sequence[Any],
    backend: str,
    ties: str,
) -> str:
    """How gradients of a def without in/out tensors differ from `adjoints` if the def keeps values; empty if
    they do not, or it keeps none.  `weights` are the adjoints of its results."""
    name = kernel.front.checked.name
    made = saving(source, g.wrt, name, ties=ties, scalars=scalars)
    if made is None:
        return ""
    given = [values[x.name] for x in kernel.front.checked.params]
    of = gradient(source, g.wrt, ties=ties, save=made.saved, scalars=scalars)
    head = f"{made.source}\n{of.source}\n"
    try:
        returned = tc.compile(made.source, backend=backend)(*given)
        kept = returned[-len(made.saved) :]
        seeds = [weights[n] for n in of.seeds]
        found = tc.compile(of.source, backend=backend)(*given, *kept, *seeds)
    except tc.Error as e:
        return f"{head}{e}"
    for n, a, b in zip(g.wrt, found if isinstance(found, tuple) else (found,), adjoints, strict=True):
        scale = float(np.max(np.abs(b), initial=1.0))
        if not np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True):
            return f"{head}the adjoint of {n} is {a} and not {b}"
    return ""
