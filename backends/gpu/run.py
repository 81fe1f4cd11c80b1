"""A call of kernels on host arrays: copied to the device, launched, results copied back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tc.codegen.gpu_module import Argument, Kernel
from tc.codegen.numerics import ERROR_WORDS
from tc.ir.evaluate import evaluate

from .interface import Interface
from .plan import launches

Array = np.ndarray[Any, Any]
# As of `_native.Entry.run`: the number of the failed check (-1: none, the device failed), the subscript or
# the kind of failure, the iteration variables.
Record = tuple[int, int, tuple[int, ...], int]

OUT_OF_MEMORY: Record = (-1, 1, (), 0)


class Session(Protocol):
    """A device during one call: operations run in the order of the calls, and `download` waits for them.

    Buffers are the device's own; contents are arrays of bytes.  A buffer is aligned to `tc.ir.loops.VECTOR`
    bytes, as kernels assume: those of CUDA to at least 256, those of OpenCL to its longest vector, 128.
    """

    def allocate(self, size: int) -> Any: ...

    def upload(self, buffer: Any, content: Array) -> None: ...

    def download(self, content: Array, buffer: Any) -> None: ...

    def launch(self, function: Any, arguments: Sequence[Any], blocks: int, kernel: Kernel) -> None: ...

    def free(self, buffer: Any) -> None: ...


def run(
    session: Session,
    interface: Interface,
    kernels: Sequence[Kernel],
    functions: Sequence[Any],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> Record | None:
    """Run kernels, whose `functions` are the device's, on dense arrays in signature order.

    Returns the record of a failed check, and then does not write the outputs.  Raises BackendError, code
    TC0810, if sizes need more blocks than a launch can have.
    """
    given = dict(zip(interface.params, (*inputs, *outputs), strict=True))
    sizes = {n: given[array].shape[d] for n, (array, d) in interface.sizes.items()}
    buffers: dict[tuple[str, str], Any] = {}

    def buffer(a: Argument, size: int, content: Array | None = None) -> Any:
        """Device memory of `size` bytes; no device allocates 0 bytes."""
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
                read = a.name not in interface.outputs or a.name in interface.inout
                return buffer(a, array.nbytes, array if read else None)
            case "scalar":
                return scalar_value(given[a.name])
            case "size":
                return np.int64(sizes[a.name])
            case "error":
                return buffer(a, ERROR_WORDS * 8, np.zeros(ERROR_WORDS, np.int64))
            case "workspace":
                return buffer(a, evaluate(interface.workspace, sizes))

    record = np.zeros(ERROR_WORDS, np.int64)
    try:
        for k, blocks, _ in launches(interface, kernels, sizes):
            session.launch(functions[k], [value(a) for a in kernels[k].arguments], blocks, kernels[k])
        if ("error", "") in buffers:
            session.download(_bytes(record), buffers["error", ""])
        if record[0] == 0:
            for name in interface.outputs:
                if ("array", name) in buffers and given[name].size:
                    session.download(_bytes(given[name]), buffers["array", name])
    finally:
        for b in buffers.values():
            session.free(b)
    return record_of(record)


def scalar_value(array: Array) -> Any:
    """A scalar as kernels take it: narrow types and bool as their bits."""
    bits = array.reshape(1)
    narrow = bits.dtype.itemsize <= 2 or bits.dtype.kind == "b"
    return (bits.view(f"u{bits.dtype.itemsize}") if narrow else bits)[0]


def record_of(words: Array) -> Record | None:
    """The contents of an error record; None if no check has failed."""
    if words[0] == 0:
        return None
    # A kernel sets the low half of the first word, to the number of the check + 1.
    number, subscript, count = (int(x) for x in words[:3])
    point = tuple(int(x) for x in words[3 : 3 + count])
    return number - 1, subscript, point, int(words[3 + count])


def _bytes(a: Array) -> Array:
    """A dense array of any type as bytes."""
    return a.reshape(-1).view(np.uint8)
