"""The arrays through which threads of a launch pass values to others.

A pointer of C with `restrict` says that during the call nobody else writes what it points to, other threads
included: a compiler may then read an element once for both sides of a barrier, or before it.  So no pointer
to such an array may have it.
"""

from __future__ import annotations

from tc.ir.expr import Load, walk
from tc.ir.loops import Combine, Compute, Launch, Sync, expressions, statements


def exchanged(launch: Launch) -> frozenset[str]:
    """The arrays that the body both reads and writes, if it has barriers."""
    body = tuple(statements(launch))
    if not any(isinstance(s, Sync | Combine) for s in body):
        return frozenset()
    computed = [s for s in body if isinstance(s, Compute)]
    read = {e.buffer for s in body for x in expressions(s) for e in walk(x) if isinstance(e, Load)}
    read |= {s.buffer for s in computed if s.op is not None}
    return frozenset(s.buffer for s in computed if s.buffer in read)
