"""What a call of a kernel passes and gets, of a checked program: its signature, and the boxes of its
tensors."""

from __future__ import annotations

from tc.dtypes import DType
from tc.lang import resolved as r
from tc.pipeline.front import Front
from tc.range_table import Boxes
from tc.ranges import Ranges
from tc.runtime.signature import Bound, Output, Param, Signature


def foreign_integers(front: Front, bound: Bound) -> dict[str, DType]:
    """The subscript-only parameters that came in another integer type than declared."""
    declared = {p.name: p.declared for p in front.checked.params if isinstance(p, r.Tensor)}
    found = {n: bound.arrays[n].dtype for n in front.any_integer}
    return {n: t for n, t in found.items() if t != declared[n]}


def boxes_of(front: Front, ranges: Ranges) -> Boxes:
    out = {p.name: ranges.box(p) for p in front.checked.params if isinstance(p, r.Tensor)}
    out |= {x.name: ranges.box(x.tensor) for x in front.checked.returns}
    return out


def signature(front: Front) -> Signature:
    params: list[Param] = []
    for p in front.checked.params:
        if isinstance(p, r.ScalarParam):
            params.append(Param(p.name, p.dtype, (), True, specialized=p.specialized, span=p.span))
            continue
        dims = tuple(d.name if isinstance(d, r.Size) else int(d.value) for d in p.dims or ())  # type: ignore[union-attr]
        params.append(
            Param(p.name, front.typed.dtype(p), dims, any_integer=p.name in front.any_integer, span=p.span)
        )
    outputs = tuple(
        Output(x.name, x.tensor.rank, front.typed.dtype(x.tensor), x.mode == "inout", x.span)
        for x in front.checked.returns
    )
    return Signature(front.checked.name, tuple(params), outputs)
