"""Where names occur in an expression of the syntax tree, and what a subscript adds to its index."""

from __future__ import annotations

from tc.errors import Span
from tc.lang import syntax as s
from tc.lang.builtins import find
from tc.lang.scope import CONSTANTS


def offset(e: s.Exp, index: str) -> s.Exp | None:
    """`e - index`, where `e` is a sum that holds the index once and positively; else None."""
    match e:
        case s.Name():
            return s.IntLit(0, e.span)
        case s.Binary(op="+") if _holds(e.left, index):
            rest = offset(e.left, index)
            return rest and _plus(rest, e.right, "+", e.span)
        case s.Binary(op="+"):
            rest = offset(e.right, index)
            return rest and _plus(e.left, rest, "+", e.span)
        case s.Binary(op="-") if _holds(e.left, index):
            rest = offset(e.left, index)
            return rest and _plus(rest, e.right, "-", e.span)
        case _:
            return None


def _plus(a: s.Exp, b: s.Exp, op: str, span: Span) -> s.Exp:
    if isinstance(b, s.IntLit) and b.value == 0:
        return a
    if isinstance(a, s.IntLit) and a.value == 0:
        return b if op == "+" else s.Unary("-", b, span)
    return s.Binary(op, a, b, span)


def _holds(e: s.Exp, name: str) -> bool:
    return any(n.id == name for n in names(e))


def names(e: s.Exp) -> list[s.Name]:
    if isinstance(e, s.Name):
        return [e]
    return [n for p in s.parts(e) for n in names(p)]


def indices(e: s.Exp) -> list[s.Name]:
    """The names that a subscript makes index variables: `pi` is none in what it converts, as in
    `int(pi * float(i))`."""
    if isinstance(e, s.Cast):
        return [n for n in names(e) if n.id not in CONSTANTS]
    if isinstance(e, s.Name):
        return [e]
    return [n for p in s.parts(e) for n in indices(p)]


def calls(e: s.Exp) -> list[s.Call]:
    """The calls of an expression that are not inside another tensor access."""
    if isinstance(e, s.Call) and find(e.name) is None:
        return [e]
    return [c for p in s.parts(e) for c in calls(p)]
