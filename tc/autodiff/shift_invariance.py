"""Versions whose adjoint is 0, because results are the same whatever is added to their elements.

A soft-max subtracts the maximum m of a row before it takes exponentials, so that none overflows, and divides
by their sum: the quotients are the same with any number in place of m.  So m gets no adjoint, and the element
that it comes from is not searched for.  This also holds for log-soft-max, log-sum-exp, cross entropy and
attention.

When δ is added to an element m(at), a value v becomes v·exp(scale·δ) + shift·δ.  Exponentials turn a shift
into a scale, logarithms a scale into a shift, and products add scales.  A sum or an extreme of values that
change alike changes as they do.  Results with scale 0 and shift 0 do not depend on m.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import reduce
from typing import cast

from tc.autodiff.tape import Definition, Tape, depends_on, reads
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Call,
    Cast,
    Div,
    Expr,
    IfThenElse,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Variable,
    children,
    constant,
    substitute,
    variables,
    walk,
)
from tc.ir.simplify import simplify

_NOUGHT = Fraction(0)


@dataclass(frozen=True, slots=True)
class _Change:
    """How a value follows the element `at` of the version in hand; one that is scaled has no shift.  `at` is
    written in the variables of a definition or, for an element (_0, _1, …) of a version, in these."""

    scale: Fraction = _NOUGHT
    shift: Fraction = _NOUGHT
    at: tuple[Expr, ...] = ()

    def of(self, scale: Fraction = _NOUGHT, shift: Fraction = _NOUGHT) -> _Change:
        """Another change that follows the same element."""
        return _Change(scale, shift, self.at) if scale or shift else _NONE


class _Literal(Enum):
    """Numbers that change like values beside them do."""

    ZERO = 0  # however it is scaled
    INFINITE = 1  # whatever is added to it or scales it


_Any = _Change | _Literal
_NONE = _Change()


class _Unknown(Exception):
    """A value that changes in another way."""


def without_effect(tape: Tape, active: Collection[str], results: Collection[str]) -> frozenset[str]:
    """Those of the active versions that extremes are taken for, on whose values `results` do not depend."""
    return frozenset(n for n in active if _is_extreme(tape, n) and _Changes(tape, n).leave(results))


def _is_extreme(tape: Tape, name: str) -> bool:
    v = tape.versions[name]
    return (
        v.dtype.is_float
        and not (v.in_place or v.carrier)
        and any(d.op in ("min", "max") or isinstance(d.value, Min | Max) for d in tape.of(name))
    )


class _Changes:
    """How the versions of a tape follow one of them, `name`."""

    def __init__(self, tape: Tape, name: str) -> None:
        rank = len(tape.versions[name].box)
        self.tape = tape
        self.found: dict[str, _Any] = {
            name: _Change(shift=Fraction(1), at=tuple(map(_coordinate, range(rank))))
        }
        self.name = name

    def leave(self, results: Collection[str]) -> bool:
        """Whether all of some results stay the same."""
        wanted = depends_on(self.tape.definitions, results)
        last = {d.target: k for k, d in enumerate(self.tape.definitions)}
        try:
            for k, d in enumerate(self.tape.definitions):
                if d.target in wanted and d.target != self.name and last[d.target] == k:
                    self._version(d.target)
        except _Unknown:
            return False
        return all(self._is_same(self.found.get(n, _NONE)) for n in results)

    def _version(self, name: str) -> None:
        own = self.tape.of(name)
        if not any(c.name in self.found for d in own for c in reads(d)):
            return
        v = self.tape.versions[name]
        if v.in_place or v.carrier:
            raise _Unknown
        change = reduce(_alike, map(self._definition, own))
        if not self._is_same(change):
            self.found[name] = change

    @staticmethod
    def _is_same(change: _Any) -> bool:
        return change == _NONE or isinstance(change, _Literal)

    def _definition(self, d: Definition) -> _Any:
        """The change of what a definition gives, in terms of coordinates of its target."""
        for e in (*d.args, *d.domain.conditions):
            self._stays(e)
        change = self._of(d.value)
        if isinstance(change, _Literal):
            return change
        if d.op == "*" and change != _NONE:
            raise _Unknown
        if d.op == "+" and change.shift:
            raise _Unknown
        place = {a.name: _coordinate(k) for k, a in enumerate(d.args) if isinstance(a, Variable)}
        own = {v.name for v in d.domain.vars}
        if any((variables(e) & own) - set(place) for e in change.at):
            raise _Unknown
        return _NONE if d.arg else _moved(change, place)

    def _stays(self, e: Expr) -> None:
        """Raise _Unknown for a value, an index or a condition that changes."""
        if any(isinstance(x, Call) and x.name in self.found for x in walk(e)) and not self._is_same(
            self._of(e)
        ):
            raise _Unknown

    def _of(self, e: Expr) -> _Any:
        if not any(isinstance(x, Call) and x.name in self.found for x in walk(e)):
            value = constant(e)
            if value is None or not e.dtype.is_float:
                return _NONE
            return _Literal.ZERO if value == 0 else _Literal.INFINITE if math.isinf(value) else _NONE
        match e:
            case Call() if e.name in self.found:
                return self._read(e)
            case Call():
                return self._function(e)
            case Cast() if e.dtype.is_float and e.value.dtype.is_float:
                return self._of(e.value)
            case Add() | Sub() if e.dtype.is_float:
                return _sum(self._of(e.a), self._of(e.b), 1 if isinstance(e, Add) else -1)
            case Mul() | Div() if e.dtype.is_float:
                return self._product(e)
            case Min() | Max() if e.dtype.is_float:
                return _alike(self._of(e.a), self._of(e.b))
            case Select():
                self._stays(e.condition)
                return _alike(self._of(e.true_value), self._of(e.false_value))
            case IfThenElse(condition=EQ(a=Call() as a, b=b)) if self._infinite(a, b, e):
                return self._of(e.else_value)
            case IfThenElse():
                self._stays(e.condition)
                return _alike(self._of(e.then_value), self._of(e.else_value))
            case EQ() | NE() | LT() | LE() | GT() | GE() if e.a.dtype.is_float:
                _alike(self._of(e.a), self._of(e.b))
                return _NONE
            case _:
                return self._none_of(e)

    def _infinite(self, a: Call, b: Expr, e: IfThenElse) -> bool:
        """Whether a choice is for where the element itself is infinite, so that nothing changes when a number
        is added to it: then that the choice is a constant there says nothing."""
        if a.name != self.name or self._of(b) is not _Literal.INFINITE or constant(e.then_value) is None:
            return False
        change, own = self._of(e.else_value), self._of(a)
        return isinstance(change, _Change) and isinstance(own, _Change) and change.at in ((), own.at)

    def _read(self, e: Call) -> _Any:
        for a in e.args:
            self._stays(a)
        change = self.found[e.name]
        if isinstance(change, _Literal):
            return change
        return _moved(change, {f"_{k}": a for k, a in enumerate(e.args)})

    def _function(self, e: Call) -> _Any:
        if e.name in ("fmax", "fmin"):
            return _alike(*map(self._of, e.args))
        change = self._of(e.args[0]) if e.args and e.name in _RULES else _NONE
        if isinstance(change, _Literal) or change == _NONE:
            return self._none_of(e)
        for a in e.args[1:]:
            self._stays(a)
        return _RULES[e.name](change, e.args[1:])

    def _none_of(self, e: Expr) -> _Change:
        """The change of a value whose operands do not change."""
        for c in children(e):
            self._stays(c)
        return _NONE

    def _product(self, e: Mul | Div) -> _Any:
        a, b, divides = self._of(e.a), self._of(e.b), isinstance(e, Div)
        if isinstance(a, _Change) and a.shift:
            by = _number(e.b)
            return a.of(shift=a.shift / by if divides else a.shift * by)
        if isinstance(b, _Change) and b.shift:
            if divides:
                raise _Unknown
            return b.of(shift=b.shift * _number(e.a))
        if a is _Literal.ZERO or (b is _Literal.ZERO and not divides):
            return _Literal.ZERO
        if not isinstance(a, _Change) or not isinstance(b, _Change):
            raise _Unknown
        return _placed(a, b).of(a.scale - b.scale if divides else a.scale + b.scale)


def _coordinate(k: int) -> Variable:
    return Variable(f"_{k}")


def _moved(change: _Change, values: Mapping[str, Expr]) -> _Change:
    at = tuple(simplify(substitute(e, dict(values)), exact=True) for e in change.at)
    return _Change(change.scale, change.shift, at)


def _placed(a: _Change, b: _Change) -> _Change:
    """The one of two changes that has a place; if both have, it is the same."""
    if a != _NONE and b != _NONE and a.at != b.at:
        raise _Unknown
    return b if a == _NONE else a


def _number(e: Expr) -> Fraction:
    """A literal by which a shift is multiplied."""
    value = constant(e)
    if not value or not math.isfinite(value):
        raise _Unknown
    return Fraction(value)


def _alike(a: _Any, b: _Any) -> _Any:
    """The change of either of two values, which is the same."""
    if isinstance(a, _Literal) and isinstance(b, _Literal):
        return a if a is b else _NONE
    if isinstance(a, _Literal):
        a, b = b, a
    change = cast("_Change", a)
    if b is _Literal.INFINITE or (b is _Literal.ZERO and not change.shift) or a == b:
        return change
    raise _Unknown


def _sum(a: _Any, b: _Any, sign: int) -> _Any:
    if b is _Literal.ZERO:
        return a
    if _Literal.INFINITE in (a, b):
        return _Literal.INFINITE
    second = cast("_Change", b)
    if a is _Literal.ZERO:
        return second.of(second.scale, sign * second.shift)
    first = cast("_Change", a)
    if first.scale != second.scale:
        raise _Unknown
    return _placed(first, second).of(first.scale, first.shift + sign * second.shift)


def _exp(c: _Change, _: tuple[Expr, ...]) -> _Change:
    if c.scale:
        raise _Unknown
    return c.of(scale=c.shift)


def _log(c: _Change, _: tuple[Expr, ...]) -> _Change:
    return c.of(shift=_scale(c))


def _scale(c: _Change) -> Fraction:
    """The scale of what is not shifted."""
    if c.shift:
        raise _Unknown
    return c.scale


_Rule = Callable[[_Change, tuple[Expr, ...]], _Change]
_RULES: Mapping[str, _Rule] = {
    "exp": _exp,
    "log": _log,
    "pow": lambda c, others: c.of(_scale(c) * _number(others[0])),
    "sqrt": lambda c, _: c.of(_scale(c) / 2),
    "rsqrt": lambda c, _: c.of(-_scale(c) / 2),
    "fabs": lambda c, _: c.of(_scale(c)),
    "abs": lambda c, _: c.of(_scale(c)),
}
