"""Cells, instances and events; index expressions where data may decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tc.dtypes import BOOL
from tc.errors import InternalError
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    UIntImm,
    Variable,
    children,
    constant,
    variables,
)
from tc.ir.program import Program
from tc.ir.simplify import simplify, substitute_typed

T = TypeVar("T")
Cell = tuple[str, tuple[int, ...]]
Instance = tuple[str, tuple[int, ...]]

SOMEWHERE = -(1 << 62)


class OutOfBoundsError(Exception):
    """An access of the nest leaves its array."""


@dataclass(frozen=True, slots=True)
class Event:
    """One executed instance: the cells it reads (by its value), the cell it writes, whether it combines with
    that cell's old value, and the iterations of the unordered loops around it."""

    instance: Instance
    reads: frozenset[Cell]
    write: Cell
    update: bool
    iterations: tuple[tuple[int, int], ...] = ()
    needs: frozenset[Cell] = frozenset()  # of `reads`, those that its value still makes when it is folded


def shown(i: Instance) -> str:
    return f"{i[0]}({', '.join(map(str, i[1]))})"


def written_buffers(program: Program) -> frozenset[str]:
    return frozenset(program.func_buffers[s.func] for s in program.stages)


def anywhere(size: int, written: bool) -> Sequence[int]:
    """Where data decide about a subscript: of what nobody writes, one place stands for all."""
    return range(size) if written else (SOMEWHERE,) if size else ()


def reads_made(e: Expr, env: dict[str, int]) -> Iterator[tuple[Expr, dict[str, int]]]:
    """The reads that evaluating `e` may make, each with what is known where it is made."""
    always = _READS.of(e)
    if always is not None:
        return ((read, env) for read in always)
    return _reads_where(e, env)


def _reads_where(e: Expr, env: dict[str, int]) -> Iterator[tuple[Expr, dict[str, int]]]:
    match e:
        case Let():
            yield from _reads_where(e.value, env)
            value = known(e.value, env)
            inner = {k: v for k, v in env.items() if k != e.name}
            yield from _reads_where(e.body, inner if value is None else {**inner, e.name: value})
        case IfThenElse():
            yield from _reads_where(e.condition, env)
            chosen = known(e.condition, env)
            if chosen is None or chosen:
                yield from _reads_where(e.then_value, env)
            if chosen is None or not chosen:
                yield from _reads_where(e.else_value, env)
        case _:
            for c in children(e):
                yield from _reads_where(c, env)
            if isinstance(e, Load) or (isinstance(e, Call) and e.kind != "intrinsic"):
                yield e, env


def known(e: Expr, env: Mapping[str, int]) -> int | None:
    """The value of an expression of indices and sizes; None where data decides."""
    if isinstance(e, IntImm):
        return e.value
    code = _CODE.of(e)
    if code is not None:
        try:
            return int(code(env))
        except KeyError:  # of a name whose value data decides: the rest may do without it
            pass
    value = constant(simplify(substitute_typed(e, dict(env)), exact=True))
    return None if value is None else int(value)


class _Remembered(Generic[T]):
    """What an expression that is looked at often comes to, by its identity; for that it is kept alive."""

    def __init__(self, make: Callable[[Expr], T], most: int = 1 << 14) -> None:
        self.make, self.most = make, most
        self.found: dict[int, tuple[Expr, T]] = {}

    def of(self, e: Expr) -> T:
        found = self.found.get(id(e))
        if found is None or found[0] is not e:
            if len(self.found) > self.most:
                self.found.clear()
            found = self.found[id(e)] = e, self.make(e)
        return found[1]


def _always(e: Expr) -> tuple[Expr, ...] | None:
    """The reads of an expression in which nothing decides which are made, in order; None of others."""
    if isinstance(e, Let | IfThenElse):
        return None
    out: list[Expr] = []
    for c in children(e):
        inner = _always(c)
        if inner is None:
            return None
        out += inner
    return (*out, e) if isinstance(e, Load) or (isinstance(e, Call) and e.kind != "intrinsic") else tuple(out)


def _function(e: Expr) -> Callable[[Mapping[str, int]], int] | None:
    text = python(e)
    return None if text is None else eval(f"lambda v: {text}")


_READS = _Remembered(_always)
_CODE = _Remembered(_function)
_OPERATORS: dict[type[Expr], str] = {
    Add: "+", Sub: "-", Mul: "*", EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=",
    And: "and", Or: "or",
}  # fmt: skip


def python(e: Expr) -> str | None:
    """An expression of indices, which do not wrap around, in Python; None of another."""
    if e.dtype not in (INDEX, BOOL):
        return None
    match e:
        case IntImm() | UIntImm():
            return str(e.value)
        case Variable():
            return f"v[{e.name!r}]"
        case Not():
            a = python(e.a)
            return a and f"(not {a})"
        case FloorDiv() | FloorMod() if not isinstance(e.b, IntImm) or e.b.value <= 0:
            return None  # a division by 0 is 0
        case FloorDiv() | FloorMod() | Min() | Max():
            a, b = python(e.a), python(e.b)
            if a is None or b is None:
                return None
            if isinstance(e, Min | Max):
                return f"{'min' if isinstance(e, Min) else 'max'}({a}, {b})"
            return f"({a} {'//' if isinstance(e, FloorDiv) else '%'} {b})"
        case Add() | Sub() | Mul() | EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or():
            a, b = python(e.a), python(e.b)
            return None if a is None or b is None else f"({a} {_OPERATORS[type(e)]} {b})"
        case _:
            return None


def integer(e: Expr, env: Mapping[str, int]) -> int:
    value = known(e, env)
    if value is None:
        raise InternalError(f"no value for {sorted(variables(e) - env.keys())}")
    return value
