"""Loop interchange: the loops of a reduction get the order in which its operands lie in memory.

By default they have the order in which the program first names their variables.  They may be permuted: the
language promises no particular order of a reduction, only that it is the same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tc.ir.evaluate import evaluate
from tc.ir.expr import Call, Expr, IfThenElse, walk
from tc.ir.program import Box, Domain, IterVar, Program, Stage, moved_sites
from tc.ir.simplify import linear_terms


def interchange(program: Program, typical: Mapping[str, int]) -> Program:
    """The program with the loops of each reduction ordered so that no inner loop has a larger stride in an
    array than an outer loop.

    Reductions for which there is no such order, or with conditions, stay as they are.  The decision is made
    at `typical` values of dynamic sizes.
    """
    for stage in program.stages:
        other = _ordered(program, stage, typical)
        if other is not stage:
            stages = tuple(other if s is stage else s for s in program.stages)
            program = replace(program, stages=stages, sites=moved_sites(program, other))
    return program


def _ordered(program: Program, stage: Stage, typical: Mapping[str, int]) -> Stage:
    loops = [v for v in stage.domain.vars if v.kind == "reduction"]
    if len(loops) < 2 or stage.domain.conditions or any(isinstance(e, IfThenElse) for e in walk(stage.value)):
        return stage
    reads = [e for e in walk(stage.value) if isinstance(e, Call) and e.kind != "intrinsic"]
    own = program.func_buffers[stage.func]
    if any(program.func_buffers.get(e.name) == own for e in reads):
        return stage
    steps = [_steps(_box(program, e), e, typical) for e in reads]

    def before(a: IterVar, b: IterVar) -> bool:
        """Whether `a` has a larger stride than `b` in some array."""
        return any(s.get(a.name, 0) > s.get(b.name, 0) > 0 for s in steps)

    out: list[IterVar] = []
    while loops:
        first = next((v for v in loops if not any(before(w, v) for w in loops if w is not v)), None)
        if first is None:
            return stage
        loops.remove(first)
        out.append(first)
    pure = [v for v in stage.domain.vars if v.kind != "reduction"]
    return replace(stage, domain=Domain((*pure, *out), stage.domain.conditions))


def _box(program: Program, read: Call) -> Box:
    found = next((f.box for f in program.funcs if f.name == read.name), None)
    return program.buffer(read.name).box if found is None else found


def _steps(box: Box, read: Call, typical: Mapping[str, int]) -> Mapping[str, int]:
    """The stride of each variable, in elements, in the subscripts that are sums of variables."""
    out: dict[str, int] = {}
    step = 1
    for r, a in zip(reversed(box), reversed(read.args), strict=True):
        terms: dict[Expr, int] = linear_terms(a)[0]
        for name, factor in ((getattr(t, "name", None), c) for t, c in terms.items()):
            if name is not None:
                out[name] = out.get(name, 0) + abs(factor) * step
        step *= max(1, evaluate(r.extent, typical))
    return out
