"""The reads of a stage: subscripts and guards, found in its value without isl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tc.ir.expr import Call, Expr, IfThenElse, Let, Variable, children, inline_lets
from tc.ir.program import Stage


@dataclass(frozen=True, slots=True)
class Read:
    """One occurrence of a read in a stage's value.

    `subscripts` and `guards` have their lets inlined.  A guard is a condition and the value it has where
    the read happens; only lazy ternaries guard.
    """

    call: Call
    subscripts: tuple[Expr, ...]
    guards: tuple[tuple[Expr, bool], ...]


def reads_of(e: Expr) -> Iterator[Read]:
    """The reads of Funcs and images in an expression, in evaluation order."""
    yield from _reads(e, {}, ())


def reads(stage: Stage) -> tuple[Read, ...]:
    """The reads of a stage's value, and of the subscripts of a scatter; the element that an `op` updates is
    not among them."""
    return (*reads_of(stage.value), *(x for a in stage.args for x in reads_of(a)))


def _reads(e: Expr, lets: Mapping[str, Expr], guards: tuple[tuple[Expr, bool], ...]) -> Iterator[Read]:
    match e:
        case Let():
            yield from _reads(e.value, lets, guards)
            inner = {**lets, e.name: inline_lets(e.value, dict(lets))}
            yield from _reads(e.body, inner, guards)
        case IfThenElse():
            yield from _reads(e.condition, lets, guards)
            condition = inline_lets(e.condition, dict(lets))
            yield from _reads(e.then_value, lets, (*guards, (condition, True)))
            yield from _reads(e.else_value, lets, (*guards, (condition, False)))
        case Call(kind="func" | "image"):
            for a in e.args:
                yield from _reads(a, lets, guards)
            yield Read(e, tuple(inline_lets(a, dict(lets)) for a in e.args), guards)
        case Variable():
            return
        case _:
            for c in children(e):
                yield from _reads(c, lets, guards)
