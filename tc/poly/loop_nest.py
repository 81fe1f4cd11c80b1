"""Loops plus storage: the loop nest of a program with its calling convention and workspace."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import reduce

from tc.ir.expr import Add, Expr, FloorDiv, IntImm, Mul
from tc.ir.loops import Array, LoopNest, ScalarArgument, Stmt
from tc.ir.program import Program
from tc.ir.simplify import simplify

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def assemble(program: Program, body: Stmt, unused: AbstractSet[str] = frozenset()) -> LoopNest:
    """The nest of `body`; temporaries get 64-byte aligned places in the workspace, in program order, except
    the `unused` ones, which other arrays replace."""
    arrays: list[Array] = []
    offset: Expr = IntImm(0)
    for b in program.buffers:
        shape = tuple(simplify(r.extent, exact=True) for r in b.box)
        lower = tuple(simplify(r.min, exact=True) for r in b.box)
        if b.role != "temporary" or b.name in unused:
            arrays.append(Array(b.name, b.dtype, shape, b.role, None, lower))
            continue
        arrays.append(Array(b.name, b.dtype, shape, b.role, offset, lower, planes=b.planes))
        size: Expr = reduce(Mul, shape, IntImm(b.dtype.itemsize))
        lines = FloorDiv(Add(size, IntImm(ALIGNMENT - 1)), IntImm(ALIGNMENT))
        offset = simplify(Add(offset, Mul(lines, IntImm(ALIGNMENT))), exact=True)
    return LoopNest(
        program.name,
        (*program.params, *program.outputs),
        program.outputs,
        program.sizes,
        tuple(arrays),
        tuple(ScalarArgument(s.name, s.dtype) for s in program.scalars),
        body,
        offset,
        program.sites,
        origins=program.origins,
    )
