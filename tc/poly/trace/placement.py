"""The oracle of the workspace: arrays that a nest uses are disjoint and inside of the workspace, and each
iteration of a parallel loop has its own private arrays.

The trace identifies arrays by name and cells by subscripts; this checks addresses.  It does not run the nest,
so it is fast at all sizes.  Conditions on sizes, which select size variants, are evaluated; other conditions
may have both outcomes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import Call, Expr, FloatImm, Load, variables, walk
from tc.ir.loops import Array, Block, Compute, For, If, LoopKind, LoopNest, Promote, Stmt


def misplaced(nest: LoopNest, sizes: Mapping[str, int]) -> str | None:
    """The first error in the placement of a nest's arrays at these sizes, or None."""
    uses = _Uses({a.name: a for a in nest.arrays if a.role in ("temporary", "private")})
    uses.visit(nest.body, sizes, None)
    if uses.problem is not None:
        return uses.problem
    workspace_end = evaluate(nest.workspace, sizes)
    ranges: list[tuple[int, int, str]] = []
    for name, tasks in uses.tasks.items():
        array = uses.arrays[name]
        nbytes = math.prod(max(0, evaluate(n, sizes)) for n in array.shape) * array.dtype.itemsize
        if not nbytes or not tasks:
            continue
        if tasks > 1 and array.stride < nbytes:
            return f"'{name}' has {nbytes} bytes, {array.stride} in each of {tasks} tasks"
        start = 0 if array.offset is None else evaluate(array.offset, sizes)
        ranges.append((start, start + (tasks - 1) * array.stride + nbytes, name))
        if start < 0 or ranges[-1][1] > workspace_end:
            return f"'{name}' ends at {ranges[-1][1]}, the workspace at {workspace_end}"
    for (_, end, first), (start, _, second) in itertools.pairwise(sorted(ranges)):
        if start < end:
            return f"'{first}' ends at {end}, where '{second}', at {start}, has begun"
    return None


@dataclass(slots=True)
class _Uses:
    """The arrays that a nest uses; `tasks`: the number of copies of each, one for each task."""

    arrays: Mapping[str, Array]
    tasks: dict[str, int] = field(default_factory=dict[str, int])
    problem: str | None = None

    def visit(self, s: Stmt, known: Mapping[str, int], parallel: tuple[str, int] | None) -> None:
        """`known` are sizes, and names whose values depend only on sizes; `parallel` is the outermost
        parallel loop with its trip count."""
        match s:
            case Block():
                for c in s.body:
                    self.visit(c, known, parallel)
            case For():
                low, high = _value(s.lower, known), _value(s.upper, known)
                if s.kind is LoopKind.PARALLEL and parallel is None:
                    if low is None or high is None:
                        raise InternalError(f"the sizes do not say how long the parallel loop {s.var} is")
                    parallel = s.var, max(0, high - low)
                inner = {k: v for k, v in known.items() if k != s.var}
                if low is not None and high == low + 1:
                    inner[s.var] = low
                self.visit(s.body, inner, parallel)
            case If():
                chosen = _value(s.condition, known)
                if chosen is None or chosen:
                    self.visit(s.then, known, parallel)
                if s.otherwise is not None and not chosen:
                    self.visit(s.otherwise, known, parallel)
            case Promote():
                self.visit(s.body, known, parallel)
            case Compute():
                self.use(s.buffer, parallel, written=True)
                for name in _read(s):
                    self.use(name, parallel, written=False)
            case _:
                pass

    def use(self, name: str, parallel: tuple[str, int] | None, *, written: bool) -> None:
        array = self.arrays.get(name)
        if array is None:
            return
        loop, count = parallel if parallel is not None else (None, 1)
        if array.owner is not None and array.owner != loop:
            self.problem = f"'{name}' is used outside of the loop {array.owner}"
        elif array.owner is None and array.role == "private" and loop is not None and written:
            self.problem = f"the iterations of {loop} share '{name}'"
        self.tasks[name] = max(self.tasks.get(name, 0), count if array.owner is not None else 1)


def _read(s: Compute) -> Iterator[str]:
    return (x.buffer for e in (s.value, *s.subscripts) for x in walk(e) if isinstance(x, Load))


def _value(e: Expr, known: Mapping[str, int]) -> int | None:
    inexact = any(isinstance(x, Load | Call | FloatImm) for x in walk(e))
    if inexact or not variables(e) <= known.keys():
        return None
    return int(evaluate(e, known))
