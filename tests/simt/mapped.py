"""A kernel of the cuda backend, called through the shim instead of a device."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tc
from tc.codegen.gpu_module import Argument, Module
from tc.ir.evaluate import evaluate
from tc.ir.loops import VECTOR, LoopNest
from tc.runtime.arrays import numpy_dtype
from tests.simt import shim as simt

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Result:
    """`error` is the record of failed checks; if it is not zeros, `values` are undefined."""

    values: Mapping[str, Array]
    found: tuple[simt.Finding, ...]
    error: Array


@dataclass(frozen=True)
class Call:
    """A compiled kernel with its arguments."""

    nest: LoopNest
    module: Module
    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    given: Mapping[str, Any]
    buffers: Mapping[str, Any]

    def run(self, module: Module | None = None, orders: tuple[Any, ...] = simt.ORDERS) -> Result:
        """The results of its kernels, or of others for the same arguments."""
        module = module or self.module
        values: dict[str, Array] = {}
        undefined: list[Array] = []
        for a in self.nest.arrays:
            if a.role not in ("input", "output"):
                continue
            shape = tuple(max(0, evaluate(n, self.sizes)) for n in a.shape)
            start = self.given.get(a.name, self.buffers.get(a.name))
            held = aligned(shape, numpy_dtype(a.dtype))
            if start is not None:
                held[...] = np.asarray(start).reshape(shape)
            else:
                undefined.append(held)
            values[a.name] = held
        # Threads may write adjacent elements, which the shim distinguishes only in arrays of this type.
        unit = min([4, *(a.dtype.itemsize for a in self.nest.arrays if a.offset is not None)])
        size = evaluate(self.nest.workspace, self.sizes)
        workspace = aligned((max(1, -(-size // unit)),), np.dtype(f"u{unit}"))
        error = np.zeros(32, np.int64)
        types = {s.name: s.dtype for s in self.nest.scalars}

        def argument(a: Argument) -> Any:
            match a.kind:
                case "array":
                    return _bits(values[a.name])
                case "scalar":
                    return _bits(np.array([self.given[a.name]]).astype(numpy_dtype(types[a.name])))[0]
                case "size":
                    return np.int64(self.sizes[a.name])
                case "error":
                    return error
                case "workspace":
                    return workspace

        launches = [
            simt.Launch(k.name, blocks, k.threads, [argument(a) for a in k.arguments], k.dynamic_shared)
            for k in module.kernels
            if (blocks := evaluate(k.blocks, self.sizes)) > 0
        ]
        found = simt.check(module.text, launches, undefined=[*undefined, workspace], orders=orders)
        if error[0]:  # which of several failed checks is recorded may depend on the order
            found = tuple(f for f in found if f.kind is not simt.Kind.ORDER)
        # Loops may have been collapsed.
        outputs = {n: values[n].reshape(self.shapes[n]) for n in self.nest.outputs}
        return Result(outputs, found, error)


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros with the alignment that kernels assume for arrays, and not a larger one."""
    count = math.prod(shape) * dtype.itemsize
    raw = np.zeros(count + 3 * VECTOR, np.uint8)
    first = VECTOR - raw.ctypes.data % (2 * VECTOR)
    return raw[first % (2 * VECTOR) :][:count].view(dtype).reshape(shape)


def _bits(a: Array) -> Array:
    """An array as a kernel takes it: 16-bit floats and booleans as their bits."""
    return a if a.dtype.kind in "iu" or a.dtype.itemsize > 2 else a.view(f"u{a.dtype.itemsize}")


def prepared(kernel: tc.Kernel, given: Mapping[str, Any], buffers: Mapping[str, Any] | None = None) -> Call:
    """A kernel that is compiled for these arguments and in/out buffers."""
    buffers = buffers or {}
    front = kernel.front
    found = kernel.sizes_of(**given, out=dict(buffers) or None)
    scalars = {n: found[n] for n in front.specialized}
    sizes = {n: v for n, v in found.items() if n not in scalars}
    accumulated = {x.name for x in front.checked.returns if x.mode == "accumulate"} & buffers.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        variant = kernel._variant(scalars, frozenset(accumulated), {}, sizes)
        one: Any = kernel._compile(variant, sizes, scalars).compiled
    shapes = kernel.output_shapes(**sizes, **scalars)
    return Call(one.nest, one.module, sizes, shapes, given, buffers)


def call(
    kernel: tc.Kernel,
    given: Mapping[str, Any],
    buffers: Mapping[str, Any] | None = None,
    orders: tuple[Any, ...] = simt.ORDERS,
) -> tuple[dict[str, Array], tuple[simt.Finding, ...]]:
    """The results of a call with these arguments and in/out buffers, of which no check fails, and what the
    shim found."""
    result = prepared(kernel, given, buffers).run(orders=orders)
    assert not result.error[0]
    return dict(result.values), result.found
