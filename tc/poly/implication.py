"""Whether a condition follows from others, for all values of its variables, by isl.

Range inference uses it to find the guarded accesses that their guards alone keep in bounds
(docs/language.md, "Guards").
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import islpy as isl

from tc.halide.solve import Term
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    UIntImm,
    Variable,
)
from tc.poly.context import GaveUp, given_up_after, isl_context

_OPERATIONS = 20_000  # operations of isl; guards that need more prove nothing
_LARGEST = 60  # nodes of a term that is written out


def implies(guards: Sequence[Term], condition: Term, sizes: Collection[str]) -> bool:
    """Whether `condition` holds wherever all `guards` do, for sizes that are not negative.

    Terms are integers without bounds; what is not quasi-affine (a product of variables, a symbolic divisor, a
    choice) counts as a variable, the same for equal terms.  False where isl does not see it.
    """
    if any(_nodes(t) > _LARGEST for t in (*guards, condition)):
        return False
    text = _Text()
    try:
        facts = [text.condition(g) for g in guards]
        facts.append(f"not ({text.condition(condition)})")
    except ValueError:
        return False
    facts += [f"{text.name(s)} >= 0" for s in sizes if s in text.names]
    with isl_context() as ctx:
        try:
            with given_up_after(_OPERATIONS):
                names = ", ".join(text.names.values())
                formula = " and ".join(f"({f})" for f in facts)
                return isl.Set.read_from_str(ctx, f"[{names}] -> {{ : {formula} }}").is_empty()
        except GaveUp:
            return False


def implied(condition: Expr, facts: Sequence[Expr], sizes: Collection[str]) -> bool:
    """`implies` for index expressions; what reads data is a variable of its own."""
    return implies([_term(f) for f in facts], _term(condition), sizes)


_OPERATORS: dict[type, str] = {
    **{Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", Min: "min", Max: "max"},
    **{EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=", And: "and", Or: "or"},
}


def _term(e: Expr) -> Term:
    """An index expression as a term of the solver; what reads data is a variable of its own."""
    match e:
        case IntImm():
            return e.value
        case UIntImm():
            return bool(e.value)
        case Variable():
            return e.name
        case Not():
            return ("not", _term(e.a))
        case (
            Add() | Sub() | Mul() | FloorDiv() | FloorMod() | Min() | Max()
            | EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or()
        ):  # fmt: skip
            return (_OPERATORS[type(e)], _term(e.a), _term(e.b))
        case Call():
            return ("data", repr(e))
        case _:
            return ("opaque", repr(e))


def _nodes(t: Term) -> int:
    return 1 + sum(map(_nodes, t[1:])) if isinstance(t, tuple) else 1


class _Text:
    """Terms in isl's notation; `names` are the parameters for variables and for opaque terms."""

    def __init__(self) -> None:
        self.names: dict[Term, str] = {}

    def name(self, t: Term) -> str:
        return self.names.setdefault(t, f"p{len(self.names)}")

    def condition(self, t: Term) -> str:
        """A condition as a formula; ValueError for other terms."""
        match t:
            case bool():
                return "0 = 0" if t else "0 = 1"
            case ("not", a):
                return f"not ({self.condition(a)})"
            case ("and" | "or" as op, a, b):
                return f"(({self.condition(a)}) {op} ({self.condition(b)}))"
            case ("==", a, b):
                return f"{self.value(a)} = {self.value(b)}"
            case ("!=" | "<" | "<=" | ">" | ">=" as op, a, b):
                return f"{self.value(a)} {op} {self.value(b)}"
            case _:
                raise ValueError(f"no condition: {t!r}")

    def value(self, t: Term) -> str:
        """An integer term as a quasi-affine expression."""
        match t:
            case int():
                return str(t)
            case str():
                return self.name(t)
            case ("-", a):
                return f"(-{self.value(a)})"
            case ("+" | "-" as op, a, b):
                return f"({self.value(a)} {op} {self.value(b)})"
            case ("*", int() as n, a) | ("*", a, int() as n):
                return f"({n}*{self.value(a)})"
            case ("//", a, int() as n) if n > 0:
                return f"floor({self.value(a)}/{n})"
            case ("%", a, int() as n) if n > 0:
                return f"({self.value(a)} mod {n})"
            case ("min" | "max" as op, a, b):
                return f"{op}({self.value(a)}, {self.value(b)})"
            case _:
                return self.name(t)
