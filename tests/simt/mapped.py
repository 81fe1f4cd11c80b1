"""A kernel of the cuda backend, called through the shim instead of a device."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import tc
from tc.ir.evaluate import evaluate
from tc.runtime.arrays import numpy_dtype
from tests.simt import shim as simt


def call(
    kernel: tc.Kernel,
    given: Mapping[str, Any],
    buffers: Mapping[str, Any],
    orders: tuple[Any, ...] = simt.ORDERS,
) -> tuple[dict[str, np.ndarray[Any, Any]], tuple[simt.Finding, ...]]:
    """The results of a call with these arguments and in/out buffers, and what the shim found."""
    front = kernel.front
    found_sizes = kernel.sizes_of(**given, out=dict(buffers) or None)
    scalars = {n: found_sizes[n] for n in front.specialized}
    sizes = {n: v for n, v in found_sizes.items() if n not in scalars}
    accumulated = {x.name for x in front.checked.returns if x.mode == "accumulate"} & buffers.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        variant = kernel._variant(scalars, frozenset(accumulated), {}, sizes)
        one = kernel._compile(variant, sizes, scalars)
    nest, module = one.compiled.nest, one.compiled.module
    values: dict[str, np.ndarray[Any, Any]] = {}
    undefined: list[np.ndarray[Any, Any]] = []
    for a in nest.arrays:
        if a.role not in ("input", "output"):
            continue
        shape = tuple(max(0, evaluate(n, sizes)) for n in a.shape)
        start = given.get(a.name, buffers.get(a.name))
        held = np.zeros(shape, numpy_dtype(a.dtype))
        if start is not None:
            held[...] = np.asarray(start).reshape(shape)
        else:
            undefined.append(held)
        values[a.name] = held
    workspace = np.zeros(max(1, -(-evaluate(nest.workspace, sizes) // 4)), np.uint32)
    error = np.zeros(32, np.int64)
    types = {s.name: s.dtype for s in nest.scalars}

    def argument(a: Any) -> Any:
        match a.kind:
            case "array":
                v = values[a.name]
                return (
                    v.view(f"u{v.dtype.itemsize}")
                    if v.dtype.itemsize == 2 and v.dtype.kind not in "iu"
                    else v
                )
            case "scalar":
                held = np.array([given[a.name]]).astype(numpy_dtype(types[a.name]))
                return held.view(np.uint16)[0] if types[a.name].is_half else held[0]
            case "size":
                return np.int64(sizes[a.name])
            case "error":
                return error
            case _:
                return workspace

    launches = [
        (k.name, blocks, k.threads, [argument(a) for a in k.arguments])
        for k in module.kernels
        if (blocks := evaluate(k.blocks, sizes)) > 0
    ]
    found = simt.check(module.text, launches, undefined=[*undefined, workspace], orders=orders)
    shapes = kernel.output_shapes(**sizes, **scalars)
    return {n: values[n].reshape(shapes[n]) for n in nest.outputs}, found  # loops may have been merged
