"""Values of stages in terms of elements of buffers, at zero-based positions instead of logical
coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tc.ir.expr import Call, Expr, Load, Sub, rebuild
from tc.ir.program import Box, Program
from tc.ir.simplify import simplify


def stage_bodies(program: Program) -> Mapping[str, Expr]:
    """Each stage's value with `Call`s of Funcs and images turned into zero-based `Load`s."""
    buffers = {b.name: b for b in program.buffers}
    func_buffers = program.func_buffers

    def lower(e: Expr) -> Expr:
        e = rebuild(e, lower)
        if isinstance(e, Call) and e.kind != "intrinsic":
            buffer = buffers[func_buffers.get(e.name, e.name)]
            return Load(buffer.name, zero_based(e.args, buffer.box), e.dtype, e.checked, e.site)
        return e

    return {s.name: lower(s.value) for s in program.stages}


def zero_based(subscripts: Iterable[Expr], box: Box) -> tuple[Expr, ...]:
    """Logical coordinates as zero-based positions in dense storage."""
    return tuple(simplify(Sub(e, r.min), exact=True) for e, r in zip(subscripts, box, strict=True))
