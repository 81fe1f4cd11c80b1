"""Statements of a loop nest with values substituted for variables."""

from __future__ import annotations

from dataclasses import replace

from tc.ir.expr import Expr, substitute
from tc.ir.loops import Block, Compute, For, If, Promote, Stmt
from tc.ir.simplify import simplify


def substituted(s: Stmt, values: dict[str, Expr]) -> Stmt:
    """A statement of single threads with values substituted for variables."""

    def of(e: Expr) -> Expr:
        return simplify(substitute(e, values), exact=False)

    def index(e: Expr) -> Expr:
        return simplify(substitute(e, values), exact=True)

    match s:
        case Block():
            return replace(s, body=tuple(substituted(c, values) for c in s.body))
        case If():
            otherwise = None if s.otherwise is None else substituted(s.otherwise, values)
            return If(index(s.condition), substituted(s.then, values), otherwise)
        case For():
            inner = {v: e for v, e in values.items() if v != s.var}
            return replace(s, lower=index(s.lower), upper=index(s.upper), body=substituted(s.body, inner))
        case Promote():
            return replace(s, body=substituted(s.body, values))
        case Compute():
            return replace(
                s,
                subscripts=tuple(map(index, s.subscripts)),
                value=of(s.value),
                point=tuple(map(index, s.point)),
            )
        case _:
            return s
