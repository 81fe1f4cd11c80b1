"""Arguments for calls: random ones of given sizes, and copies of what is given."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tc.dtypes import DType
from tc.errors import ArgumentError
from tc.ir.evaluate import evaluate
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number of a floating type."""
    return 2.0**-7 if dtype.kind == "bfloat" else float(np.finfo(dtype.name).eps)


def make_arguments(
    kernel: Any,
    sizes: Mapping[str, int],
    scalars: Mapping[str, int | float | bool],
    files: Mapping[str, Array],
    seed: int = 0,
    dtypes: Mapping[str, DType] | None = None,
    given: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Arguments for a call, random where not given, and buffers for in/out results.

    Sizes follow from `files` where `sizes` has none.  Integers that are subscripts stay inside what they
    index; other numbers are small integers.  Scalars not given are 0.5, 1 or True.  `dtypes` and `given`
    are as in `Request`.
    """
    front = kernel.front
    params = front.checked.params
    tensors = [p for p in params if isinstance(p, r.Tensor)]
    rng = np.random.default_rng(seed)
    known = dict(sizes)
    for p in tensors:
        if p.name in files:
            for d, extent in zip(p.dims or (), files[p.name].shape, strict=False):
                if isinstance(d, r.Size):
                    known.setdefault(d.name, extent)
    missing = [n for n in front.checked.sizes if n not in known]
    if missing:
        raise ArgumentError(
            f"no value for the size {', '.join(missing)}",
            code="TC0513",
            help="add " + " ".join(f"--size {n}=…" for n in missing),
        )
    arguments: dict[str, Any] = {}
    for p in params:
        if isinstance(p, r.ScalarParam):
            default = 0.5 if p.dtype.is_float or p.dtype.is_complex else p.dtype.is_bool or 1
            arguments[p.name] = scalars.get(p.name, sizes.get(p.name, default))
    structural = {n: int(arguments[n]) for n in front.specialized}
    limits = _subscript_limits(front.checked, kernel.ranges_for(structural), {**known, **structural})
    for p in params:
        if isinstance(p, r.Tensor):
            shape = tuple(known[d.name] if isinstance(d, r.Size) else int(d.value) for d in p.dims or ())  # type: ignore[union-attr]
            passed = (dtypes or {}).get(p.name) if p.name in front.any_integer else None
            made = random_array(rng, shape, passed or front.typed.dtype(p), limits.get(p.name))
            arguments[p.name] = files.get(p.name, made)
    buffers = {n: files[n] for n in (x.name for x in front.checked.returns) if n in files}
    started = [x for x in front.checked.returns if x.mode == "inout" or x.name in given]
    starting = [x for x in started if x.name not in buffers]
    if starting:
        shapes = kernel.output_shapes(**{n: known[n] for n in front.checked.sizes}, **structural)
        for x in starting:
            buffers[x.name] = random_array(rng, shapes[x.name], front.typed.dtype(x.tensor), None)
    return arguments, buffers


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, limit: int | None) -> Array:
    """Small integers in a type, so that sums and products of floats are exact too; below `limit` if given."""
    if math.prod(shape) > sys.maxsize // 8:
        raise MemoryError(f"an array of shape {shape}")
    low, high = (0, max(1, limit)) if limit is not None else (0 if dtype.kind in ("uint", "bool") else -4, 5)
    if dtype.is_bool:
        high = 2
    if dtype.is_complex:
        return (rng.integers(low, high, shape) + 1j * rng.integers(low, high, shape)).astype(dtype.name)
    return _from_float(rng.integers(low, min(high, int(min(dtype.max, 1 << 62)) + 1), shape), dtype)


def _from_float(a: Array, dtype: DType) -> Array:
    target = numpy_dtype(dtype)
    if dtype.kind == "bfloat" and target == np.uint16:  # NumPy has no such type without ml_dtypes
        return (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return a.astype(target)


def to_float(a: Array, dtype: DType) -> Array:
    """Values in float64 or complex128, bfloat16 also where NumPy has no such type."""
    if dtype.is_complex:
        return a.astype(np.complex128)
    if dtype.kind == "bfloat" and a.dtype == np.uint16:
        return (a.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return a.astype(np.float64)


def _subscript_limits(checked: r.Checked, ranges: Any, known: Mapping[str, int]) -> dict[str, int]:
    """The least extent that a parameter's elements subscript."""
    out: dict[str, int] = {}
    for tensor, d, sub in _subscripts(checked):
        inner = [e for e in r.accesses(sub) if e.tensor.storage.role == "param"]
        if not inner:
            continue
        extent = evaluate(ranges.box(tensor)[d].extent, known)
        for e in inner:
            exact = sub if not isinstance(sub, r.Cast) else sub.operand
            bound = extent if exact is e else max(1, extent // 2)
            name = e.tensor.storage.name
            out[name] = min(out.get(name, bound), bound)
    return out


def _subscripts(checked: r.Checked) -> Iterator[tuple[r.Tensor, int, r.Exp]]:
    """The subscripts of reads and of scatters, with their tensors and dimensions."""
    for st in checked.statements:
        for root in st.roots():
            for a in r.accesses(r.expand_lets(root, st)):
                yield from ((a.tensor, d, sub) for d, sub in enumerate(a.subscripts))
        for d, s in enumerate(st.subscripts):
            if s.data is not None:
                yield st.target, d, r.expand_lets(s.data, st)
