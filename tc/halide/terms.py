"""Terms of the solver to IR expressions and back, and as text."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache

from tc.errors import InternalError
from tc.halide.solve import Term
from tc.ir import expr as x

_BINARY: Mapping[str, type] = {
    "+": x.Add, "-": x.Sub, "*": x.Mul, "//": x.FloorDiv, "%": x.FloorMod, "min": x.Min, "max": x.Max,
    "==": x.EQ, "!=": x.NE, "<": x.LT, "<=": x.LE, ">": x.GT, ">=": x.GE, "and": x.And, "or": x.Or,
}  # fmt: skip
_NAMES = {v: k for k, v in _BINARY.items()}


def expr_of(t: Term) -> x.Expr:
    """A term as an expression of type `INDEX` (or bool)."""
    match t:
        case bool():
            return x.TRUE if t else x.FALSE
        case int():
            return x.IntImm(t)
        case str():
            return x.Variable(t)
        case ("not", a):
            return x.Not(expr_of(a))
        case ("-", a):
            return x.Sub(x.ZERO, expr_of(a))
        case ("select", c, a, b):
            return x.Select(expr_of(c), expr_of(a), expr_of(b))
        case (op, a, b):
            return _BINARY[str(op)](expr_of(a), expr_of(b))
        case _:
            raise InternalError(f"not a term: {t!r}")


@lru_cache(1 << 12)
def free(t: Term) -> frozenset[str]:
    """The variables of a term."""
    match t:
        case bool() | int():
            return frozenset()
        case str():
            return frozenset((t,))
        case _:
            return frozenset[str]().union(*map(free, t[1:]))


def attained(t: Term, variables: AbstractSet[str]) -> bool:
    """Whether the bounds that arithmetic on intervals gives for a term are those of its values: each of the
    variables, which are independent, occurs once at most, and operations are monotonic in each operand."""
    names: list[str] = []

    def monotonic(t: Term) -> bool:
        match t:
            case bool() | int():
                return True
            case str():
                names.append(t)
                return True
            case ("+" | "-" | "*" | "//" | "min" | "max", *parts):
                return all(map(monotonic, parts))
            case _:
                return not variables & free(t)

    found = monotonic(t)
    mine = [n for n in names if n in variables]
    return found and len(mine) == len(set(mine))


_LEVEL = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "//", "%"), 6),
}
_SPELLED = {"//": "/", "and": "&&", "or": "||"}


def show(t: Term, level: int = 0) -> str:
    """A term in the language's own spelling."""
    match t:
        case bool():
            return "true" if t else "false"
        case int():
            return str(t) if t >= 0 or level < 5 else f"({t})"
        case str():
            return t
        case ("not", a):
            return f"!({show(a)})"
        case ("-", a):
            return f"-{show(a, 7)}"
        case ("select", c, a, b):
            return f"({show(c, 2)} ? {show(a, 1)} : {show(b, 1)})"
        case ("min" | "max" as op, a, b):
            return f"{op}({show(a)}, {show(b)})"
        case ("+", a, int() as b) if b < 0:
            return show(("-", a, -b), level)
        case ("+", ("*", a, -1), b):
            return show(("-", b, a), level)
        case ("+", a, ("*", b, -1)):
            return show(("-", a, b), level)
        case (op, a, b):
            mine = _LEVEL[str(op)]
            text = f"{show(a, mine)} {_SPELLED.get(str(op), op)} {show(b, mine + 1)}"
            return f"({text})" if mine < level else text
        case _:
            raise InternalError(f"not a term: {t!r}")
