"""A call of kernels on host arrays: copied to the device, launched, results copied back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tc.codegen.gpu import Argument, Kernel
from tc.codegen.numerics import ERROR_WORDS
from tc.ir.evaluate import evaluate
from tc.ir.expr import Variable
from tc.ir.loops import LoopNest

Array = np.ndarray[Any, Any]
# As of `_native.Entry.run`: the number of the failed check (-1: none, the device gave up), the subscript or
# what was the matter, the iteration variables.
Record = tuple[int, int, tuple[int, ...]]

OUT_OF_MEMORY: Record = (-1, 1, ())


class Session(Protocol):
    """A device during one call: what is asked for happens in this order, `download` waits for it.

    Buffers are the device's own; contents are arrays of bytes.
    """

    def allocate(self, size: int) -> Any: ...

    def upload(self, buffer: Any, content: Array) -> None: ...

    def download(self, content: Array, buffer: Any) -> None: ...

    def launch(self, function: Any, arguments: Sequence[Any], blocks: int, threads: int) -> None: ...

    def free(self, buffer: Any) -> None: ...


def run(
    session: Session,
    nest: LoopNest,
    kernels: Sequence[Kernel],
    functions: Sequence[Any],
    inout: frozenset[str],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> Record | None:
    """Run kernels, whose `functions` are the device's, on dense arrays in signature order; outputs in `inout`
    are read too.  Returns the record of a failed check, and then leaves the outputs alone."""
    given = dict(zip(nest.params, (*inputs, *outputs), strict=True))
    sizes = _sizes(nest, given)
    buffers: dict[tuple[str, str], Any] = {}

    def buffer(a: Argument, size: int, content: Array | None = None) -> Any:
        """Device memory of `size` bytes; no device has any of 0."""
        key = a.kind, a.name
        if key not in buffers:
            buffers[key] = session.allocate(max(1, size))
            if content is not None and content.size:
                session.upload(buffers[key], _bytes(content))
        return buffers[key]

    def value(a: Argument) -> Any:
        match a.kind:
            case "array":
                array = given[a.name]
                read = a.name not in nest.outputs or a.name in inout
                return buffer(a, array.nbytes, array if read else None)
            case "scalar":
                bits = given[a.name].reshape(1)
                narrow = bits.dtype.itemsize <= 2 or bits.dtype.kind == "b"
                return (bits.view(f"u{bits.dtype.itemsize}") if narrow else bits)[0]
            case "size":
                return np.int64(sizes[a.name])
            case "error":
                return buffer(a, ERROR_WORDS * 8, np.zeros(ERROR_WORDS, np.int64))
            case "workspace":
                return buffer(a, evaluate(nest.workspace, sizes))

    record = np.zeros(ERROR_WORDS, np.int64)
    try:
        for kernel, function in zip(kernels, functions, strict=True):
            blocks = evaluate(kernel.blocks, sizes)
            if blocks > 0:
                session.launch(function, [value(a) for a in kernel.arguments], blocks, kernel.threads)
        if ("error", "") in buffers:
            session.download(_bytes(record), buffers["error", ""])
        if record[0] == 0:
            for name in nest.outputs:
                if ("array", name) in buffers and given[name].size:
                    session.download(_bytes(given[name]), buffers["array", name])
    finally:
        for b in buffers.values():
            session.free(b)
    if record[0] == 0:
        return None
    number, subscript, count = (int(x) for x in record[:3])
    return number - 1, subscript, tuple(int(x) for x in record[3 : 3 + count])


def _bytes(a: Array) -> Array:
    """A dense array as bytes, of whatever type it is."""
    return a.reshape(-1).view(np.uint8)


def _sizes(nest: LoopNest, given: Mapping[str, Array]) -> dict[str, int]:
    """The values of the sizes that are symbolic, from the arrays of a call; none of these dimensions is one
    that loops have been merged over."""
    out: dict[str, int] = {}
    for a in nest.arrays if nest.sizes else ():
        if a.name in given and len(a.shape) == given[a.name].ndim:
            for extent, n in zip(a.shape, given[a.name].shape, strict=True):
                if isinstance(extent, Variable):
                    out[extent.name] = n
    return out
