"""One call, the explaining way: arrays made dense, results allocated, the kernel run, buffers written back.

`tc._native.Dispatcher` does the same for calls that need none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tc import _native
from tc.dtypes import DType
from tc.runtime import call_spec as specs
from tc.runtime.arrays import HostArray, allocate, dlpack_type, mark_written, numpy_dtype, result
from tc.runtime.call_spec import CallSpec
from tc.runtime.signature import Bound, Param, Signature

Failed = Callable[[Any], Any]


def call_spec(
    signature: Signature,
    types: Mapping[str, DType],
    shapes: Mapping[str, tuple[int, ...]],
    specialized: Mapping[str, int],
    inout: frozenset[str],
) -> CallSpec:
    """The exact arguments of a kernel: those of a signature at these shapes; `types` are of parameters that
    have others than declared, `specialized` the values of specialised scalars."""
    inputs: list[Any] = []
    for p in signature.params:
        code, bits = dlpack_type(types.get(p.name, p.dtype))
        if p.scalar:
            inputs.append(("scalar", code, bits, specialized.get(p.name)))
        else:
            inputs.append(("tensor", code, bits, shapes[p.name]))
    outputs = [(*dlpack_type(o.dtype), shapes[o.name], o.name in inout) for o in signature.outputs]
    return CallSpec(
        signature.entry,
        tuple(inputs),
        tuple(outputs),
        tuple(p.name for p in signature.params),
        tuple(o.name for o in signature.outputs),
    )


def result_type(signature: Signature) -> type[Any] | None:
    """The named tuple of several results."""
    return specs.result_type(signature.entry, tuple(o.name for o in signature.outputs))


def call(
    bound: Bound,
    shapes: Mapping[str, tuple[int, ...]],
    run: Callable[[Sequence[np.ndarray[Any, Any]], Sequence[np.ndarray[Any, Any]]], Any],
    reads: Collection[str],
) -> Any:
    """Run a kernel on a bound call; `run(inputs, outputs)` gets dense arrays in signature order (scalars as
    0-D arrays) and returns the error record or None.  `reads`: the inputs that it reads.  Returns (results,
    error)."""
    bound.check_outputs(shapes)
    signature = bound.signature
    aliased = {name for _, name in bound.aliases if name in reads}
    inputs = [_input(p, bound, p.name in aliased) for p in signature.params]
    buffers: list[HostArray] = []
    dense: list[np.ndarray[Any, Any]] = []
    for o in signature.outputs:
        given, first = bound.out.get(o.name), bound.first
        assert isinstance(first, HostArray | None)
        buffer = given or allocate(first, o.dtype, shapes[o.name], o.name, o.span)
        assert isinstance(buffer, HostArray)
        buffers.append(buffer)
        dense.append(buffer.dense())
    error = run(inputs, dense)
    if error is not None:
        return None, error
    for buffer, values in zip(buffers, dense, strict=True):
        if values is not buffer.array:
            buffer.array[...] = values
        if buffer.read_only is False:
            mark_written(buffer)
    made = [result(b) for b in buffers]
    kind = result_type(signature)
    return (made[0] if kind is None else kind(*made)), None


def call_entry(
    bound: Bound, shapes: Mapping[str, tuple[int, ...]], entry: _native.Entry, reads: Collection[str]
) -> Any:
    """`call` of an entry."""

    def run(inputs: Sequence[np.ndarray[Any, Any]], outputs: Sequence[np.ndarray[Any, Any]]) -> Any:
        addresses = [a.__array_interface__["data"][0] for a in (*inputs, *outputs)]
        code, record = entry.run(addresses, bound.library == "torch")
        return record if code else None

    return call(bound, shapes, run, reads)


def _input(p: Param, bound: Bound, aliased: bool) -> np.ndarray[Any, Any]:
    if p.scalar:
        return scalar(p, bound)
    array = bound.host(p.name)
    values = array.dense()
    # A result may be written over an input only once nothing reads the input any more: read a copy.
    return values.copy() if aliased and values is array.array else values


def scalar(p: Param, bound: Bound) -> np.ndarray[Any, Any]:
    """The value of a scalar parameter, in its type, as an array without dimensions."""
    code, bits = dlpack_type(p.dtype)
    return np.frombuffer(_native.pack(bound.scalars[p.name], code, bits), numpy_dtype(p.dtype)).reshape(())
