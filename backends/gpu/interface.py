"""The parameters and results of a call of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.ir.expr import Expr, Variable
from tc.ir.program import Program


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
