"""A call of kernels on host arrays: copied to the device, launched, results copied back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tc.codegen.gpu_module import Argument, Kernel
from tc.codegen.numerics import ERROR_WORDS
from tc.errors import BackendError
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, Variable
from tc.ir.loops import MOST_BLOCKS
from tc.ir.program import Program

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


@dataclass(frozen=True)
class Interface:
    """The parameters and outputs of a call, in order, as the program had them before loops were collapsed.

    `inout` are the outputs that are read, too; `sizes` has the array and the dimension of each symbolic size;
    `workspace` is in bytes.
    """

    name: str
    params: tuple[str, ...]
    outputs: tuple[str, ...]
    inout: frozenset[str]
    sizes: Mapping[str, tuple[str, int]]
    workspace: Expr

    @staticmethod
    def of(program: Program, workspace: Expr) -> Interface:
        params = (*program.params, *program.outputs)
        boxes = {b.name: b.box for b in program.buffers}
        extents = [(n, d, r.extent) for n in params for d, r in enumerate(boxes.get(n, ()))]
        sizes = {e.name: (n, d) for n, d, e in reversed(extents) if isinstance(e, Variable)}
        inout = frozenset(b.name for b in program.buffers if b.role == "output" and b.inout)
        return Interface(program.name, params, tuple(program.outputs), inout, sizes, workspace)


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
                bits = given[a.name].reshape(1)
                narrow = bits.dtype.itemsize <= 2 or bits.dtype.kind == "b"
                return (bits.view(f"u{bits.dtype.itemsize}") if narrow else bits)[0]
            case "size":
                return np.int64(sizes[a.name])
            case "error":
                return buffer(a, ERROR_WORDS * 8, np.zeros(ERROR_WORDS, np.int64))
            case "workspace":
                return buffer(a, evaluate(interface.workspace, sizes))

    def launch(kernel: Kernel, function: Any) -> None:
        blocks = evaluate(kernel.blocks, sizes)
        if blocks > MOST_BLOCKS:
            raise BackendError(
                f"{interface.name}: a launch has {blocks} blocks, and {MOST_BLOCKS} are the most",
                code="TC0810",
                help="ask for larger tiles by the option tile, or for fewer blocks by the option blocks",
            )
        if blocks > 0:
            session.launch(function, [value(a) for a in kernel.arguments], blocks, kernel)

    def all_of(steps: Sequence[tuple[Kernel, Any]], depth: int) -> None:
        """Launch kernels that stand in the same loops of the host down to a depth."""
        for loop, group in itertools.groupby(steps, lambda x: x[0].loops[depth : depth + 1]):
            inner = list(group)
            if not loop:
                for kernel, function in inner:
                    launch(kernel, function)
                continue
            for n in range(evaluate(loop[0].trips, sizes)):
                sizes[loop[0].counter] = n
                all_of(inner, depth + 1)

    record = np.zeros(ERROR_WORDS, np.int64)
    try:
        all_of(list(zip(kernels, functions, strict=True)), 0)
        if ("error", "") in buffers:
            session.download(_bytes(record), buffers["error", ""])
        if record[0] == 0:
            for name in interface.outputs:
                if ("array", name) in buffers and given[name].size:
                    session.download(_bytes(given[name]), buffers["array", name])
    finally:
        for b in buffers.values():
            session.free(b)
    if record[0] == 0:
        return None
    number, subscript, count = (int(x) for x in record[:3])
    point = tuple(int(x) for x in record[3 : 3 + count])
    return number - 1, subscript, point, int(record[3 + count])


def _bytes(a: Array) -> Array:
    """A dense array of any type as bytes."""
    return a.reshape(-1).view(np.uint8)
