"""What a call of a kernel passes and gets, of a checked program: its signature, and the boxes of its
tensors."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from tc.dtypes import DType
from tc.errors import DTypeError
from tc.ir.evaluate import evaluate
from tc.ir.program import Program
from tc.lang import resolved as r
from tc.pipeline.front import Built, Front
from tc.range_table import Boxes, Range, shown
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


def _annotation(p: Param) -> str:
    dims = ", ".join(map(str, p.dims))
    return f"{p.dtype}[{dims}]" if not p.scalar else str(p.dtype)


def definition(front: Front) -> str:
    """The text of the def."""
    return front.checked.span.text


def shapes_of(program: Program, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {
        b.name: tuple(max(0, evaluate(d.extent, sizes)) for d in (b.box[:-1] if b.pairs else b.box))
        for b in program.buffers
        if b.role != "temporary"
    }


def python_signature(takes: Signature) -> inspect.Signature:
    """The arguments of a call as Python's `inspect.signature` shows them."""
    kinds = inspect.Parameter
    params = [kinds(p.name, kinds.POSITIONAL_OR_KEYWORD, annotation=_annotation(p)) for p in takes.params]
    outs = tuple(f"{o.dtype}[{', '.join(['…'] * o.ndim)}]" for o in takes.outputs)
    params.append(kinds("out", kinds.KEYWORD_ONLY, default=None))
    return inspect.Signature(params, return_annotation=outs[0] if len(outs) == 1 else outs)


def same_types(front: Front, built: Built) -> None:
    """Beyond 32 bits indices as values are int64; a result whose type that changes must be declared."""
    for returned in front.checked.returns:
        now, before = built.typed.dtype(returned.tensor), front.typed.dtype(returned.tensor)
        if now != before:
            raise DTypeError(
                f"'{returned.name}' takes its type from indices, which for these sizes are {now}, "
                f"not {before}",
                returned.span,
                code="TC0408",
                help=f"declare it in the returns: {now}(…) {returned.name}",
            )


def origins(front: Front) -> list[str]:
    """What to know of results that do not start at 0."""
    out: list[str] = []
    for returned in front.checked.returns:
        for d, b in enumerate(front.ranges.box(returned.tensor)):
            bound = shown(b)
            if isinstance(bound, Range) and bound.min != 0:
                out.append(
                    f"dimension {d} of '{returned.name}' starts at {bound.min}: element 0 of the "
                    f"returned array there is {returned.name}(…{bound.min}…)"
                )
    return out
