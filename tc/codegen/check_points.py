"""Where checked accesses are: in the variables of the source, for the record of one that fails.

Loops may have been split and reordered since; those of the statement are recorded, which the reader knows.
"""

from __future__ import annotations

from dataclasses import replace

from tc.errors import InternalError, unreachable
from tc.ir.expr import Load, substitute, walk
from tc.ir.loops import (
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
)
from tc.ir.simplify import simplify


def source_points(nest: LoopNest) -> LoopNest:
    """A nest whose statements with checked accesses have the points of the source."""
    if not any(s.values for s in nest.sites):
        return nest

    def moved(s: Stmt) -> Stmt:
        match s:
            case Block():
                return Block(tuple(map(moved, s.body)))
            case For() | Promote() | Launch():
                return replace(s, body=moved(s.body))
            case If():
                return If(s.condition, moved(s.then), None if s.otherwise is None else moved(s.otherwise))
            case Compute():
                loads = (e for x in (s.value, *s.subscripts) for e in walk(x))
                sites = {e.site for e in loads if isinstance(e, Load) and e.checked}
                found = next((nest.sites[n] for n in sites if nest.sites[n].values), None)
                if found is None:
                    return s
                if len(found.loops) != len(s.point):
                    raise InternalError(f"{s.stage} runs at {len(s.point)} and not {len(found.loops)} loops")
                at = dict(zip(found.loops, s.point, strict=True))
                return replace(s, point=tuple(simplify(substitute(v, at), exact=True) for v in found.values))
            case Prefetch() | Combine() | Sync():
                return s
            case _:
                unreachable(s)

    return replace(nest, body=moved(nest.body))
