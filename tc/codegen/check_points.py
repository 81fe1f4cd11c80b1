"""The points of checked accesses in the variables of the source, for the record of a failed check.

Loops may have been split and reordered, but the record has the variables of the statement, which users know.
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
    """The nest with the points of the source in statements with checked accesses."""
    if not any(s.values for s in nest.sites):
        return nest

    def rewritten(s: Stmt) -> Stmt:
        match s:
            case Block():
                return Block(tuple(map(rewritten, s.body)))
            case For() | Promote() | Launch():
                return replace(s, body=rewritten(s.body))
            case If():
                return If(
                    s.condition, rewritten(s.then), None if s.otherwise is None else rewritten(s.otherwise)
                )
            case Compute():
                loads = (e for x in (s.value, *s.subscripts) for e in walk(x))
                sites = {e.site for e in loads if isinstance(e, Load) and e.checked}
                found = next((nest.sites[n] for n in sites if nest.sites[n].values), None)
                if found is None:
                    return s
                if len(found.loops) != len(s.point):
                    raise InternalError(f"{s.stage} runs at {len(s.point)} and not {len(found.loops)} loops")
                substitution = dict(zip(found.loops, s.point, strict=True))
                return replace(
                    s, point=tuple(simplify(substitute(v, substitution), exact=True) for v in found.values)
                )
            case Prefetch() | Combine() | Sync():
                return s
            case _:
                unreachable(s)

    return replace(nest, body=rewritten(nest.body))
