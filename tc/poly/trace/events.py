"""Cells, instances and events; index expressions that may depend on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

K = TypeVar("K")
T = TypeVar("T")
Cell = tuple[str, tuple[int, ...]]
Instance = tuple[str, tuple[int, ...]]

SOMEWHERE = -(1 << 62)


class OutOfBoundsError(Exception):
    """An access of the nest is outside of its array."""


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
    """A data-dependent subscript; of an array that is never written one element represents all."""
    return range(size) if written else (SOMEWHERE,) if size else ()


@dataclass(frozen=True, slots=True)
class _Named:
    """Reads below a name on whose value their subscripts or guards may depend."""

    name: str
    value: Expr
    reads: _Reads


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Reads in the branches of a condition."""

    condition: Expr
    then: _Reads
    otherwise: _Reads


# What evaluating an expression reads, in order, and what decides about it: all that is looked at for each
# instance, of expressions that may be large.
_Reads = tuple[Expr | _Named | _Chosen, ...]


def reads_made(e: Expr, env: dict[str, int]) -> list[tuple[Expr, dict[str, int]]]:
    """The reads that evaluation of `e` may make, each with the values known at that place."""
    out: list[tuple[Expr, dict[str, int]]] = []
    _made(_READS.of(e), env, out)
    return out


def _made(reads: _Reads, env: dict[str, int], out: list[tuple[Expr, dict[str, int]]]) -> None:
    for x in reads:
        if isinstance(x, _Named):
            inner = {k: v for k, v in env.items() if k != x.name}
            value = known(x.value, env)
            if value is not None:
                inner[x.name] = value
            _made(x.reads, inner, out)
        elif isinstance(x, _Chosen):
            chosen = known(x.condition, env)
            if chosen is None or chosen:
                _made(x.then, env, out)
            if chosen is None or not chosen:
                _made(x.otherwise, env, out)
        else:
            out.append((x, env))


def _reads(e: Expr) -> _Reads:
    match e:
        case Let():
            value, body = _reads(e.value), _reads(e.body)
            return (*value, _Named(e.name, e.value, body)) if e.name in _decisive(body) else (*value, *body)
        case IfThenElse():
            condition, then, otherwise = map(_reads, (e.condition, e.then_value, e.else_value))
            if then or otherwise:
                return (*condition, _Chosen(e.condition, then, otherwise))
            return condition
        case _:
            inner = tuple(x for c in children(e) for x in _reads(c))
            is_read = isinstance(e, Load) or (isinstance(e, Call) and e.kind != "intrinsic")
            return (*inner, e) if is_read else inner


def _decisive(reads: _Reads) -> set[str]:
    """The names on which subscripts and guards of reads depend."""
    out: set[str] = set()
    for x in reads:
        if isinstance(x, _Named):
            out |= variables(x.value) | (_decisive(x.reads) - {x.name})
        elif isinstance(x, _Chosen):
            out |= variables(x.condition) | _decisive(x.then) | _decisive(x.otherwise)
        else:
            out |= variables(x)
    return out


def known(e: Expr, env: Mapping[str, int]) -> int | None:
    """The value of an expression of indices and sizes; None if it depends on data."""
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


def known_all(es: Sequence[Expr], env: Mapping[str, int]) -> tuple[int, ...] | None:
    """The values of expressions of indices and sizes; None if one depends on data, or cannot be evaluated in
    the fast way."""
    code = _CODES.of(es)
    if code is not None:
        try:
            return code(env)
        except KeyError:
            pass
    return None


class _Remembered(Generic[K, T]):
    """A cache of results by the identity of their argument, which is kept alive for that."""

    def __init__(self, make: Callable[[K], T], most: int = 1 << 14) -> None:
        self.make, self.most = make, most
        self.found: dict[int, tuple[K, T]] = {}

    def of(self, e: K) -> T:
        found = self.found.get(id(e))
        if found is None or found[0] is not e:
            if len(self.found) > self.most:
                self.found.clear()
            found = self.found[id(e)] = e, self.make(e)
        return found[1]


def _function(e: Expr) -> Callable[[Mapping[str, int]], int] | None:
    text = python(e)
    return None if text is None else eval(f"lambda v: {text}")


def _functions(es: Sequence[Expr]) -> Callable[[Mapping[str, int]], tuple[int, ...]] | None:
    texts = [python(e) if e.dtype != BOOL else None for e in es]
    return None if None in texts else eval(f"lambda v: ({''.join(f'{x}, ' for x in texts)})")


_READS = _Remembered(_reads)
_CODE = _Remembered(_function)
_CODES = _Remembered(_functions)
_OPERATORS: dict[type[Expr], str] = {
    Add: "+", Sub: "-", Mul: "*", EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=",
    And: "and", Or: "or",
}  # fmt: skip


def python(e: Expr) -> str | None:
    """The Python text of an expression of indices, which do not wrap around; None for other expressions."""
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
