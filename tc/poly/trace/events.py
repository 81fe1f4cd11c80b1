"""Cells, instances and events; index expressions that may depend on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tc.dtypes import BOOL, DType
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
    Cast,
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

ANY_INDEX = -(1 << 62)


class OutOfBoundsError(Exception):
    """An access of the nest is outside of its array."""


@dataclass(frozen=True, slots=True)
class Event:
    """An executed instance: the cells that its value reads, the cell that it writes, whether it updates that
    cell, and the iterations of the enclosing unordered loops.  `folded`, of an instance of the program, gives
    the reads that are left after constant folding, where this may remove some."""

    instance: Instance
    reads: frozenset[Cell]
    write: Cell
    update: bool
    iterations: tuple[tuple[int, int], ...] = ()
    folded: Callable[[], frozenset[Cell]] | None = None

    @property
    def needs(self) -> frozenset[Cell]:
        """The reads that cannot be left out."""
        return self.reads if self.folded is None else self.folded()


def instance_text(i: Instance) -> str:
    return f"{i[0]}({', '.join(map(str, i[1]))})"


def written_buffers(program: Program) -> frozenset[str]:
    return frozenset(program.func_buffers[s.func] for s in program.stages)


def possible_indices(size: int, written: bool) -> Sequence[int]:
    """The values of a data-dependent subscript; in an array that is never written one element represents
    all."""
    return range(size) if written else (ANY_INDEX,) if size else ()


@dataclass(frozen=True, slots=True)
class _NamedReads:
    """Reads in the scope of a let, on whose value their subscripts or guards may depend."""

    name: str
    value: Expr
    reads: _Reads


@dataclass(frozen=True, slots=True)
class _ConditionalReads:
    """Reads in the branches of a condition."""

    condition: Expr
    then: _Reads
    otherwise: _Reads


# The reads of an expression in order of evaluation, with the conditions that decide about them.  Only these
# are evaluated for each instance, not the whole expression.
_Reads = tuple[Expr | _NamedReads | _ConditionalReads, ...]


def executed_reads(e: Expr, env: dict[str, int]) -> list[tuple[Expr, dict[str, int]]]:
    """The reads that the evaluation of `e` may execute, each with the values of variables there."""
    out: list[tuple[Expr, dict[str, int]]] = []
    _collect_reads(_READS.of(e), env, out)
    return out


def _collect_reads(reads: _Reads, env: dict[str, int], out: list[tuple[Expr, dict[str, int]]]) -> None:
    for x in reads:
        if isinstance(x, _NamedReads):
            inner = {k: v for k, v in env.items() if k != x.name}
            value = known_value(x.value, env)
            if value is not None:
                inner[x.name] = value
            _collect_reads(x.reads, inner, out)
        elif isinstance(x, _ConditionalReads):
            chosen = known_value(x.condition, env)
            if chosen is None or chosen:
                _collect_reads(x.then, env, out)
            if chosen is None or not chosen:
                _collect_reads(x.otherwise, env, out)
        else:
            out.append((x, env))


def _reads(e: Expr) -> _Reads:
    match e:
        case Let():
            value, body = _reads(e.value), _reads(e.body)
            return (
                (*value, _NamedReads(e.name, e.value, body))
                if e.name in _deciding_names(body)
                else (*value, *body)
            )
        case IfThenElse():
            condition, then, otherwise = map(_reads, (e.condition, e.then_value, e.else_value))
            if then or otherwise:
                return (*condition, _ConditionalReads(e.condition, then, otherwise))
            return condition
        case _:
            inner = tuple(x for c in children(e) for x in _reads(c))
            is_read = isinstance(e, Load) or (isinstance(e, Call) and e.kind != "intrinsic")
            return (*inner, e) if is_read else inner


def _deciding_names(reads: _Reads) -> set[str]:
    """The names on which subscripts and guards of reads depend."""
    out: set[str] = set()
    for x in reads:
        if isinstance(x, _NamedReads):
            out |= variables(x.value) | (_deciding_names(x.reads) - {x.name})
        elif isinstance(x, _ConditionalReads):
            out |= variables(x.condition) | _deciding_names(x.then) | _deciding_names(x.otherwise)
        else:
            out |= variables(x)
    return out


def known_value(e: Expr, env: Mapping[str, int]) -> int | None:
    """The value of an expression of indices and sizes; None if it depends on data."""
    if isinstance(e, IntImm):
        return e.value
    if _is_datum(e):
        return None
    code = _CODE.of(e)
    if code is not None:
        try:
            return int(code(env))
        except KeyError:  # a name with a data-dependent value; the result may not depend on it
            pass
    names, found = _FOLDED.of(e)
    key = tuple(env.get(n) for n in names)
    if key not in found:
        value = constant(simplify(substitute_typed(e, dict(env)), exact=True))
        found[key] = None if value is None else int(value)
    return found[key]


def _is_datum(e: Expr) -> bool:
    """Whether it is an element of an array, which no folding makes a constant."""
    while isinstance(e, Cast):
        e = e.value
    return isinstance(e, Load) or (isinstance(e, Call) and e.kind != "intrinsic")


def known_values(es: Sequence[Expr], env: Mapping[str, int]) -> tuple[int, ...] | None:
    """The values of expressions of indices and sizes; None if one depends on data, or has no compiled
    code."""
    code = _CODES.of(es)
    if code is not None:
        try:
            return code(env)
        except KeyError:
            pass
    return None


class _IdentityCache(Generic[K, T]):
    """A cache of results by the identity of their argument, which it keeps alive."""

    def __init__(self, make: Callable[[K], T], limit: int = 1 << 14) -> None:
        self.make, self.limit = make, limit
        self.results: dict[int, tuple[K, T]] = {}

    def of(self, e: K) -> T:
        results = self.results.get(id(e))
        if results is None or results[0] is not e:
            if len(self.results) > self.limit:
                self.results.clear()
            results = self.results[id(e)] = e, self.make(e)
        return results[1]


def _function(e: Expr) -> Callable[[Mapping[str, int]], int] | None:
    text = python(e)
    return None if text is None else eval(f"lambda v: {text}")


def _functions(es: Sequence[Expr]) -> Callable[[Mapping[str, int]], tuple[int, ...]] | None:
    texts = [python(e) if e.dtype != BOOL else None for e in es]
    return None if None in texts else eval(f"lambda v: ({''.join(f'{x}, ' for x in texts)})")


def _values_by_variables(e: Expr) -> tuple[tuple[str, ...], dict[tuple[int | None, ...], int | None]]:
    """The names of an expression's variables, and its known values, which are none yet, by those of these."""
    return tuple(sorted(variables(e))), {}


_READS = _IdentityCache(_reads)
_CODE = _IdentityCache(_function)
_CODES = _IdentityCache(_functions)
_FOLDED = _IdentityCache(_values_by_variables)
_OPERATORS: dict[type[Expr], str] = {
    Add: "+", Sub: "-", Mul: "*", EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=",
    And: "and", Or: "or",
}  # fmt: skip


def python(e: Expr) -> str | None:
    """The Python text of an expression of integers that wrap, but for those of indices, which do not
    overflow; None for other expressions."""
    if not (e.dtype.is_bool or e.dtype.is_int):
        return None
    match e:
        case IntImm() | UIntImm():
            return str(e.value)
        case Variable():
            return _wrapped(f"v[{e.name!r}]", e.dtype)
        case Cast():
            a = python(e.value)
            if a is None or e.dtype.is_bool:
                return a and f"({a} != 0)"
            return _wrapped(f"(+{a})", e.dtype)
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
            if a is None or b is None:
                return None
            return _wrapped(f"({a} {_OPERATORS[type(e)]} {b})", e.dtype)
        case _:
            return None


def _wrapped(text: str, dtype: DType) -> str:
    """The text of a value of a type, from that of an integer."""
    if dtype.is_bool or dtype == INDEX:
        return text
    if not dtype.is_signed:
        return f"({text} & {(1 << dtype.bits) - 1})"
    half = 1 << (dtype.bits - 1)
    return f"((({text} + {half}) & {2 * half - 1}) - {half})"


def integer(e: Expr, env: Mapping[str, int]) -> int:
    value = known_value(e, env)
    if value is None:
        raise InternalError(f"no value for {sorted(variables(e) - env.keys())}")
    return value
