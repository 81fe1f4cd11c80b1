"""The oracle of the workspace: arrays that are live at the same time are disjoint and inside of the
workspace, and each iteration of a parallel loop has private ones.

The trace identifies arrays by name and cells by subscripts; this checks addresses.  It does not run the nest,
so it is fast at all sizes: conditions on sizes, which select versions, are evaluated, of other conditions
both outcomes are possible.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, Load, variables, walk
from tc.ir.loops import Array, Block, Compute, For, If, LoopKind, LoopNest, Promote, Stmt


def misplaced(nest: LoopNest, sizes: Mapping[str, int]) -> str | None:
    """The first error in the placement of a nest's arrays at these sizes, or None."""
    found = _Uses({a.name: a for a in nest.arrays if a.role in ("temporary", "private")})
    found.visit(nest.body, sizes, None)
    if found.problem is not None:
        return found.problem
    end_of_all = evaluate(nest.workspace, sizes)
    taken: list[tuple[int, int, str]] = []
    for name, tasks in found.tasks.items():
        array = found.arrays[name]
        nbytes = math.prod(max(0, evaluate(n, sizes)) for n in array.shape) * array.dtype.itemsize
        if not nbytes or not tasks:
            continue
        if tasks > 1 and array.stride < nbytes:
            return f"'{name}' has {nbytes} bytes, {array.stride} in each of {tasks} tasks"
        start = 0 if array.offset is None else evaluate(array.offset, sizes)
        taken.append((start, start + (tasks - 1) * array.stride + nbytes, name))
        if start < 0 or taken[-1][1] > end_of_all:
            return f"'{name}' ends at {taken[-1][1]}, the workspace at {end_of_all}"
    for (_, end, first), (start, _, second) in itertools.pairwise(sorted(taken)):
        if start < end:
            return f"'{first}' ends at {end}, where '{second}', at {start}, has begun"
    return None


@dataclass(slots=True)
class _Uses:
    """`tasks`: how many of each array that is used there are."""

    arrays: Mapping[str, Array]
    tasks: dict[str, int] = field(default_factory=dict[str, int])
    problem: str | None = None

    def visit(self, s: Stmt, known: Mapping[str, int], parallel: tuple[str, int] | None) -> None:
        """`known`: sizes, and the names whose values they say; `parallel`: the outermost parallel loop."""
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
    if any(isinstance(x, Load) for x in walk(e)) or not variables(e) <= known.keys():
        return None
    return int(evaluate(e, known))
