"""Index arithmetic as affine forms of operands: subscripts, bounds of loops, conditions on indices."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tc.dtypes import INT32, INT64
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
    Select,
    Sub,
    Variable,
    variables,
    walk,
)
from tc.ir.loops import Array
from tc.ir.simplify import linear_terms

from ..isa import Isa
from .affine import LANE, Affine, factors
from .promotion import PromotionEmitter
from .values import Value, type_text

_UNBOUNDED = 1 << 62  # beyond every index
_INT32_MAX = (1 << 31) - 1  # what integers of 32 bits hold, signed or not


@dataclass(frozen=True, slots=True)
class Env:
    """The environment of an expression: loop variables as affine forms, lets as values."""

    affine: Mapping[str, Affine]
    values: Mapping[str, Value]

    def bind(self, name: str, a: Affine) -> Env:
        return Env({**self.affine, name: a}, self.values)

    def at_lane(self, number: int) -> Env:
        """The environment at one lane."""
        return Env({n: a.at_lane(number) for n, a in self.affine.items()}, self.values)

    def varies(self, e: Expr) -> bool:
        """Whether an index differs between lanes."""
        return any(n in self.affine and self.affine[n].lane for n in variables(e))

    def let(self, name: str, v: Value) -> Env:
        return Env(self.affine, {**self.values, name: v})


@dataclass(slots=True)
class LoopContext:
    """An enclosing loop, for loop-invariant code motion.

    `defined` are the operands that are defined before the loop, `depth` is the number of scopes open there;
    `maybe_empty`: the loop may have no iteration; `written` are the buffers that it writes.  `preheader`
    collects the instructions moved before the loop, `values` the values of hoisted expressions, by what they
    are made of.
    """

    defined: AbstractSet[str]
    depth: int
    maybe_empty: bool
    written: AbstractSet[str]
    preheader: list[str] = field(default_factory=list[str])
    values: dict[Hashable, Value] = field(default_factory=dict[Hashable, Value])


def operands(env: Env) -> Iterator[str]:
    """The operands in the forms of an environment."""
    return (n for a in env.affine.values() for operand, _ in a.terms for n in factors(operand))


def compares(kind: type, difference: int) -> bool:
    """Whether a comparison holds, by the difference of its sides."""
    d = difference
    return {EQ: d == 0, NE: d != 0, LT: d < 0, LE: d <= 0, GT: d > 0, GE: d >= 0}[kind]


_Flat = tuple[tuple[Expr, ...], tuple[tuple[str, int], ...], tuple[tuple[Expr, int], ...], int]


class IndexEmitter(PromotionEmitter):
    """Emits index arithmetic, of which most is done while code is written."""

    def __init__(self, isa: Isa, fast_math: bool, arrays: Mapping[str, Array]) -> None:
        super().__init__(isa, fast_math, arrays)
        self.sizes = Env({}, {})  # of the dynamic sizes
        # Of operands: the least and the greatest value, if known.
        self.ranges: dict[str, tuple[int, int]] = {}
        # Expressions of dynamic sizes that this function has computed.
        self.hoisted_sizes: dict[Expr, str] = {}
        self._flat: dict[int, _Flat] = {}

    def value(self, e: Expr, env: Env) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    # Index arithmetic.

    def form(self, e: Expr, env: Env) -> Affine | None:
        """The affine form of an index expression; None where it has none."""
        match e:
            case IntImm():
                return Affine((), e.value)
            case Variable():
                return env.affine.get(e.name)
            case Add() | Sub():
                a = self.form(e.a, env)
                b = self.form(e.b, env) if a is not None else None
                if a is None or b is None:
                    return None
                return a + b if isinstance(e, Add) else a - b
            case Mul():
                a, b = self.form(e.a, env), self.form(e.b, env)
                return None if a is None or b is None else a.times(b)
            case FloorDiv() | FloorMod() if isinstance(e.b, IntImm) and e.b.value > 0:
                a = self.form(e.a, env)
                found = None if a is None else self._divide_form(a, e.b.value, isinstance(e, FloorDiv))
                return self._size_form(e) if found is None else found
            case FloorDiv() | FloorMod():
                return self._size_form(e)
            case Min() | Max():
                a, b = self.form(e.a, env), self.form(e.b, env)
                if a is None or b is None:
                    return None
                d = a - b
                if not d.terms:
                    return (
                        (a if d.constant <= 0 else b) if isinstance(e, Min) else (a if d.constant >= 0 else b)
                    )
                return self._size_form(e)
            case Cast() | Select() | IfThenElse() if e.dtype == INDEX:
                return self._size_form(e) or self._constant_form(e, env)
            case Cast() | Call():
                return self._constant_form(e, env)
            case _:
                return None

    def _constant_form(self, e: Expr, env: Env) -> Affine | None:
        """The form of an index expression whose value is a number here, in an integer type that holds it."""
        match e:
            case Cast() if e.value.dtype.is_int:
                a = self.form(e.value, env)
            case Call() if e.name == "abs":
                a = self.form(e.args[0], env)
                a = None if a is None else Affine(a.terms, abs(a.constant))
            case _:
                return None
        if a is None or a.terms or not e.dtype.is_int or e.dtype.bits < 32:
            return None
        least = -_INT32_MAX if e.dtype.is_signed else 0
        return a if least <= a.constant <= _INT32_MAX else None

    def _size_form(self, e: Expr) -> Affine | None:
        """The form of an expression of dynamic sizes alone, which is computed once, at the function's entry;
        None for other expressions."""
        if not self.sizes.affine or not variables(e) <= self.sizes.affine.keys():
            return None
        if any(isinstance(x, (Call, Load, Let)) for x in walk(e)):
            return None
        return Affine.of(self.hoist_sizes(e))

    def hoist_sizes(self, e: Expr) -> str:
        """Compute an expression of dynamic sizes at the function's entry; an i64 operand."""
        found = self.hoisted_sizes.get(e)
        if found is None:
            with self.fn.moved_to(self.fn.entry, [{}]):
                # `form` would call this function again.
                found = self._size_value(e).text
            self.hoisted_sizes[e] = found
        return found

    def _size_value(self, e: Expr) -> Value:
        """The value of an expression of dynamic sizes, computed without `form`."""
        match e:
            case FloorDiv() | FloorMod():
                a, b = self.value(e.a, self.sizes), self.value(e.b, self.sizes)
                return self.division(a, b, isinstance(e, FloorDiv))
            case Min() | Max():
                return self.extremum(
                    self.value(e.a, self.sizes), self.value(e.b, self.sizes), isinstance(e, Min)
                )
            case _:
                return self.value(e, self.sizes)

    def _divide_form(self, a: Affine, divisor: int, quotient: bool) -> Affine | None:
        """The form of a floor division or its remainder, where the terms that the divisor does not divide
        stay within one multiple of it; else None."""
        whole, rest = (
            tuple((n, f) for n, f in a.terms if (f % divisor == 0) == divides) for divides in (True, False)
        )
        offset = a.constant % divisor
        low = high = offset
        active = self.mask.active if self.mask is not None and self.mask.active else self.lanes
        for name, factor in rest:
            if name != LANE:
                return None
            low, high = low + min(0, factor * (active - 1)), high + max(0, factor * (active - 1))
        if low < 0 or high >= divisor:
            return None
        if not quotient:
            return Affine(rest, offset)
        return Affine(tuple((n, f // divisor) for n, f in whole), (a.constant - offset) // divisor)

    def _nonnegative_division(self, e: FloorDiv | FloorMod, env: Env) -> Value | None:
        """A quotient or remainder, by a constant, of a value that is known to be 0 or more; None of others.
        Lanes are divided in 32 bits where these hold the value, as there is no vector division of longer
        integers."""
        a = self.form(e.a, env)
        least, greatest = (-1, 0) if a is None else self.value_range(a)
        if a is None or least < 0 or not isinstance(e.b, IntImm) or e.b.value <= 0:
            return None
        b, quotient = e.b.value, isinstance(e, FloorDiv)
        v = self.index_value(a)
        if not v.lanes or greatest > _INT32_MAX or b > _INT32_MAX:
            found = self.unsigned_division(v, b, quotient)
            if not v.lanes:
                self.ranges[found.text] = (least // b, greatest // b) if quotient else (0, b - 1)
            return found
        narrow, wide = (type_text(t, v.lanes) for t in (INT32, INT64))
        short = Value(self.pure(f"trunc {wide} {v.text} to {narrow}"), INT32, v.lanes)
        found = self.unsigned_division(short, b, quotient)
        return Value(self.pure(f"zext {narrow} {found.text} to {wide}"), INT64, v.lanes)

    def value_range(self, a: Affine) -> tuple[int, int]:
        """Bounds of the least and the greatest value of a form."""
        least = greatest = a.constant
        for name, factor in a.terms:
            low, high = (
                (0, self.lanes - 1) if name == LANE else self.ranges.get(name, (-_UNBOUNDED, _UNBOUNDED))
            )
            least += min(factor * low, factor * high)
            greatest += max(factor * low, factor * high)
        return least, greatest

    def affine(self, e: Expr, env: Env) -> Affine:
        """The form of an index expression that all lanes share; if it is not affine, its value becomes an
        operand."""
        a = self.form(e, env)
        if a is not None:
            return a
        v = self.value(e, env)
        if v.lanes:
            raise InternalError("a bound of a loop differs between lanes")
        return Affine((), int(v.constant)) if v.constant is not None else Affine.of(v.text)

    def address(self, array: Array, subscripts: tuple[Expr, ...], env: Env) -> Affine | None:
        """The affine form of an element's position in its array, in elements; None where lanes differ in a
        way that is not affine."""
        cached = self._flat.get(id(subscripts))
        if cached is None:
            cached = self._flatten(array, subscripts)
            self._flat[id(subscripts)] = cached
        _, names, others, constant = cached
        total: dict[str, int] = {}
        affine = env.affine
        for name, factor in names:
            a = affine.get(name)
            if a is None:
                a = self._operand(Variable(name), env)
                if a is None:
                    return None
            constant += factor * a.constant
            for n, f in a.terms:
                total[n] = total.get(n, 0) + factor * f
        for e, factor in others:
            a = self.form(e, env)
            if a is None:
                a = self._operand(e, env)
                if a is None:
                    return None
            constant += factor * a.constant
            for n, f in a.terms:
                total[n] = total.get(n, 0) + factor * f
        return Affine(tuple(sorted((n, f) for n, f in total.items() if f)), constant)

    def _flatten(self, array: Array, subscripts: tuple[Expr, ...]) -> _Flat:
        """A position as a sum: variables, other terms, a constant.  The subscripts are returned, too, to keep
        them alive with the cached result."""
        names: dict[str, int] = {}
        others: list[tuple[Expr, int]] = []
        constant = 0
        for e, stride in zip(subscripts, self.strides[array.name], strict=True):
            terms, offset = linear_terms(e)
            if not isinstance(stride, int):
                others += [(Mul(term, stride), factor) for term, factor in terms.items()]
                if offset:
                    others.append((stride, offset))
                continue
            constant += offset * stride
            for term, factor in terms.items():
                if isinstance(term, Variable):
                    names[term.name] = names.get(term.name, 0) + factor * stride
                else:
                    others.append((term, factor * stride))
        return subscripts, tuple(names.items()), tuple(_combine_quotients(others)), constant

    def _operand(self, e: Expr, env: Env) -> Affine | None:
        """The form of a scalar value as one operand; None for a vector."""
        v = self.value(e, env)
        if v.lanes:
            return None
        return Affine((), int(v.constant)) if v.constant is not None else Affine.of(v.text)


def _combine_quotients(terms: list[tuple[Expr, int]]) -> list[tuple[Expr, int]]:
    """A sum of quotients and remainders of an index, such as `9 * (m / 9) + 3 * (m / 3 % 3) + m % 3`, as the
    index itself; another sum as it is.  A remainder is `x % k = x - k * (x / k)`."""
    total: dict[tuple[Expr, int], int] = {}
    for e, factor in terms:
        match e:
            case FloorMod(a=x, b=IntImm() as k) if k.value > 0:
                m, d = _as_quotient(x)
                total[m, d * k.value] = total.get((m, d * k.value), 0) - factor * k.value
            case _:
                m, d = _as_quotient(e)
        total[m, d] = total.get((m, d), 0) + factor
    left = {q: factor for q, factor in total.items() if factor}
    whole = len(left) < len(terms) and all(d == 1 for _, d in left)
    return [(m, factor) for (m, _), factor in left.items()] if whole else terms


def _as_quotient(e: Expr) -> tuple[Expr, int]:
    """The dividend and the constant divisor of a value, with nested quotients combined; the divisor is 1 if
    it is no quotient."""
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
        m, d = _as_quotient(e.a)
        return m, d * e.b.value
    return e, 1
