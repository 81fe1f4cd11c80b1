"""Lets of a statement: which an expression uses, which stand under a lazy guard, and their substitution."""

from __future__ import annotations

from tc.lang import resolved as r
from tc.lang.exact import is_inexact


def used_in(e: r.Exp) -> set[str]:
    """The lets an expression mentions itself."""
    return {n.name for n in r.walk(e) if isinstance(n, r.Let)}


def reads_data(e: r.Exp, st: r.Statement) -> bool:
    """Whether an expression, lets substituted, reads a tensor."""
    return any(isinstance(n, r.Access) for n in r.walk(r.expand_lets(e, st)))


def inexact(e: r.Exp, st: r.Statement) -> bool:
    """Whether an integer expression, lets substituted, is more than exact index arithmetic."""
    return is_inexact(r.expand_lets(e, st))


def inline(e: r.Exp, st: r.Statement, names: set[str]) -> r.Exp:
    """An expression with the lets of these names substituted."""
    if isinstance(e, r.Let) and e.name in names:
        return inline(st.let(e.name), st, names)
    return r.rebuild(e, lambda c: inline(c, st, names))


def under_guard(st: r.Statement) -> set[str]:
    """The lets used, directly or through other lets, in a branch of a ternary."""
    out: set[str] = set()

    def scan(e: r.Exp, guarded: bool) -> None:
        if isinstance(e, r.Let):
            if guarded:
                out.add(e.name)
            scan(st.let(e.name), guarded)
        elif isinstance(e, r.If):
            scan(e.condition, guarded)
            scan(e.then, True)
            scan(e.otherwise, True)
        else:
            for c in r.children(e):
                scan(c, guarded)

    scan(st.value, False)
    return out
