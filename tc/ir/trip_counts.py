"""Trip counts: how many iterations the loops of a statement have at run time."""

from __future__ import annotations

from tc.ir.expr import IntImm, Sub
from tc.ir.loops import Block, For, If, LoopKind, Promote, Stmt
from tc.ir.simplify import simplify

_UNKNOWN = 64  # assumed for a loop of dynamic length


def iterations(s: Stmt) -> int:
    """Iterations of the loops in a statement that remain loops in the code; unrolled and vector loops count
    once."""
    match s:
        case Block():
            return max((iterations(c) for c in s.body), default=1)
        case For(kind=LoopKind.SERIAL):
            trips = simplify(Sub(s.upper, s.lower), exact=True)
            each = trips.value if isinstance(trips, IntImm) else _UNKNOWN
            return each * iterations(s.body)
        case For() | Promote():
            return iterations(s.body)
        case If():
            branches = [s.then, *([] if s.otherwise is None else [s.otherwise])]
            return max(iterations(b) for b in branches)
        case _:
            return 1
