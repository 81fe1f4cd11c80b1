"""Whether the results of a candidate are right: at random points by the interpreter, whole by the default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tc.tuner.data import epsilon, to_float

if TYPE_CHECKING:
    from tc.tuner.child import Job

Array = np.ndarray[Any, Any]
_SLACK = 64.0  # units in the last place of max(1, |value|), times the root of the longest reduction


def named(kernel: Any, value: Any) -> dict[str, Any]:
    """The results of a call by name."""
    names = [x.name for x in kernel.front.checked.returns]
    return dict(zip(names, (value,) if len(names) == 1 else value, strict=True))


def expected(job: Job) -> dict[str, tuple[Array, Array]]:
    """Random positions of each result and the interpreter's values there, computed once a search."""
    path = job.scratch / "points.npz"
    if not path.exists():
        found = _interpreted(job)
        temporary = job.scratch / f".points-{os.getpid()}.npz"
        parts = {f"{kind}_{n}": x for n, pair in found.items() for kind, x in zip(("at", "is"), pair)}
        np.savez(temporary, allow_pickle=False, **parts)
        os.replace(temporary, path)
    with np.load(path) as parts:
        names = [n[3:] for n in parts.files if n.startswith("at_")]
        return {n: (parts[f"at_{n}"], parts[f"is_{n}"]) for n in names}


def _interpreted(job: Job) -> dict[str, tuple[Array, Array]]:
    from tc.api import interpret

    kernel = job.kernel(job.backend)
    shapes = kernel.output_shapes(**job.sizes, **job.scalars)
    rng = np.random.default_rng(job.seed)
    where: dict[str, Array] = {}
    for name, shape in shapes.items():
        count = 0 if 0 in shape else job.points
        columns = [rng.integers(0, max(1, n), count) for n in shape]
        where[name] = np.stack(columns, -1) if shape else np.zeros((1, 0), int)
    out = {n: b.copy() for n, b in job.buffers.items()} or None
    if job.lang == "sac":  # its oracle has no points
        found = named(kernel, job.kernel("reference")(**job.arrays, **({"out": out} if out else {})))
        return {n: (where[n], np.atleast_1d(np.asarray(found[n])[tuple(where[n].T)])) for n in shapes}
    values = interpret(job.source, entry=job.entry, points=where, exact=True, out=out, **job.arrays)
    if not isinstance(values, Mapping):
        values = dict(zip(shapes, (values,) if len(shapes) == 1 else values, strict=True))
    found = cast("Mapping[str, Any]", values)
    return {n: (where[n], np.asarray(found[n])) for n in shapes}


def plain_results(kernel: Any, value: Any) -> tuple[dict[str, Array], dict[str, float]]:
    """The results of a call by name, bfloat16 as float64, and the unit in the last place of each; 0 of
    integers."""
    types = {x.name: kernel.front.typed.dtype(x.tensor) for x in kernel.front.checked.returns}
    found = {n: np.asarray(v) for n, v in named(kernel, value).items()}
    wide = {n: to_float(v, types[n]) if types[n].kind == "bfloat" else v for n, v in found.items()}
    return wide, {n: epsilon(t.part) if t.is_float or t.is_complex else 0.0 for n, t in types.items()}


def disagreement(
    results: Mapping[str, Array],
    wanted: Mapping[str, tuple[Array, Array]],
    sizes: Mapping[str, int],
    eps: Mapping[str, float],
) -> str:
    """What is wrong with results at sampled positions; empty if nothing is."""
    for name, (where, values) in wanted.items():
        found = results[name]
        at = found[tuple(where.T)] if where.size or not found.ndim else found[:0].ravel()
        problem = _differs(np.atleast_1d(at), values, sizes, eps[name])
        if problem:
            return f"{name} differs from the oracle{problem}"
    return ""


def agrees_whole(
    results: Mapping[str, Array],
    wanted: Mapping[str, Array],
    sizes: Mapping[str, int],
    eps: Mapping[str, float],
) -> str:
    """What is wrong with results beside those of the default kernel, which the oracle has judged."""
    for name, values in wanted.items():
        found = results[name]
        if found.shape != values.shape:
            return f"{name} has shape {found.shape}, not {values.shape}"
        problem = _differs(found, values, sizes, 2 * eps[name])
        if problem:
            return f"{name} differs from the default kernel's{problem}"
    return ""


def _differs(found: Array, wanted: Array, sizes: Mapping[str, int], eps: float) -> str:
    if not eps:
        wrong = int(np.sum(found != wanted))
        return f" in {wrong} elements" if wrong else ""
    longest = max([1, *sizes.values()])
    with np.errstate(all="ignore"):
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        value, reference = found.astype(wide), wanted.astype(wide)
        bound = _SLACK * eps * np.sqrt(longest) * np.maximum(1.0, np.abs(reference))
        gap = np.abs(value - reference)
        same = (value == reference) | (np.isnan(value) & np.isnan(reference))
    if np.all(same | (gap <= bound)):
        return ""
    worst = float(np.nanmax(np.where(same, 0.0, gap)))
    return f" by up to {worst:.3g}"
