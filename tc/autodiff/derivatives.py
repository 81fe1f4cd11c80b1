"""Derivatives of expressions: what each read of a tensor contributes to the value of a statement.

The table of built-ins is that of a calculus book.  Where a function is not differentiable the value that
PyTorch takes is taken: 0 at the kink of `abs` and of a maximum with a constant (`relu`), a half each where
both operands of `min` and `max` are equal.  What steps (`floor`, `round`, integer results) has 0.
A condition goes to the whole contribution, so that what it masks is never computed with: 0 * inf is no zero.
The rules are those of analytic functions.  `tc.autodiff.complex_rules` has those that are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tc.autodiff.arithmetic import conj, intrinsic, minus, number, times
from tc.autodiff.complex_rules import CONVERSION, LINEAR, Linear, Rule
from tc.errors import SemanticError, Span
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LT,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Select,
    Sub,
    constant,
)

Through = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Part:
    """`factor`, where `conditions` hold, is what the read `access` gets of the adjoint of the value.

    For tangents, `factor` times the tangent of the read is what the value gets of it, by way of `through` if
    there are functions between them that are not analytic.
    """

    access: Call
    factor: Expr
    conditions: tuple[Expr, ...] = ()
    through: Through | None = None


def parts(
    value: Expr,
    seed: Expr,
    own: Expr,
    active: Callable[[Call], bool],
    span: Span | None,
    *,
    tangents: bool = False,
) -> Iterator[Part]:
    """The contributions of a statement `own = value` to what it reads, for the adjoint `seed` of `own`; or
    those of what it reads to its `tangents`.

    `own` is the value as it is stored, for derivatives that are cheaper in terms of it.  `active` says for
    which reads contributions are wanted.  Raises SemanticError, code TC0241, for a function without a
    derivative on the way to one.
    """
    yield from _Walk(active, span, tangents).walk(value, seed, _Place(), own)


@dataclass(frozen=True, slots=True)
class _Place:
    """Under which conditions an expression counts, and what is between its tangent and that of the value."""

    conditions: tuple[Expr, ...] = ()
    through: Through | None = None

    def where(self, condition: Expr) -> _Place:
        return _Place((*self.conditions, condition), self.through)

    def behind(self, inner: Through) -> _Place:
        """The place of what a function is applied to."""
        outer = self.through
        return _Place(self.conditions, inner if outer is None else lambda t: outer(inner(t)))


class _Walk:
    """Goes from a value to its reads.  The derivatives of analytic functions that are multiplied on the way
    are conjugated for adjoints, and not for tangents."""

    def __init__(self, active: Callable[[Call], bool], span: Span | None, tangents: bool) -> None:
        self.active = active
        self.span = span
        self.tangents = tangents

    def matters(self, e: Expr) -> bool:
        """Whether a derivative passes through an expression to a read that is active."""
        match e:
            case Call() if e.kind != "intrinsic":
                return e.dtype.is_inexact and self.active(e)
            case Call(name="pow") if constant(e.args[1]) == 0:
                return False
            case Call():
                return e.name not in STEPS and any(map(self.matters, e.args))
            case Cast():
                return e.dtype.is_inexact and e.value.dtype.is_inexact and self.matters(e.value)
            case Add() | Sub() | Mul() | Div() | Min() | Max():
                return e.dtype.is_inexact and (self.matters(e.a) or self.matters(e.b))
            case Select():
                return self.matters(e.true_value) or self.matters(e.false_value)
            case IfThenElse():
                return self.matters(e.then_value) or self.matters(e.else_value)
            case _:
                return False

    def factor(self, e: Expr) -> Expr:
        """A part of the derivative of an analytic function, as it is multiplied."""
        return e if self.tangents else conj(e)

    def walk(self, e: Expr, g: Expr, at: _Place, own: Expr | None = None) -> Iterator[Part]:
        if not self.matters(e):
            return
        own = None if own is e else own  # which says nothing of a branch
        shown = e if own is None or own.dtype != e.dtype else own
        match e:
            case Call() if e.kind != "intrinsic":
                yield Part(e, g, at.conditions, at.through)
            case Cast():
                yield from self._conversion(e, g, at, own)
            case Add():
                yield from self.walk(e.a, g, at)
                yield from self.walk(e.b, g, at)
            case Sub():
                yield from self.walk(e.a, g, at)
                yield from self.walk(e.b, minus(g), at)
            case Mul():
                yield from self.walk(e.a, times(g, self.factor(e.b)), at)
                yield from self.walk(e.b, times(g, self.factor(e.a)), at)
            case Div():
                by = self.factor(e.b)
                yield from self.walk(e.a, Div(g, by), at)
                yield from self.walk(e.b, Div(times(minus(g), self.factor(shown)), by), at)
            case Min() | Max():
                yield from self._extreme(e, g, at, shown)
            case Select():
                yield from self.walk(e.true_value, g, at.where(e.condition), own)
                yield from self.walk(e.false_value, g, at.where(Not(e.condition)), own)
            case IfThenElse():
                yield from self.walk(e.then_value, g, at.where(e.condition), own)
                yield from self.walk(e.else_value, g, at.where(Not(e.condition)), own)
            case Call():
                yield from self._intrinsic(e, g, at, shown)
            case _:
                raise AssertionError(type(e))

    def _conversion(self, e: Cast, g: Expr, at: _Place, own: Expr | None) -> Iterator[Part]:
        if e.dtype.is_complex or at.through is not None:
            yield from self._linear(CONVERSION, (e.value,), 0, e, g, at, own)
        else:
            yield from self.walk(e.value, Cast(e.value.dtype, g), at, own)

    def _linear(
        self,
        rule: Linear,
        args: tuple[Expr, ...],
        k: int,
        value: Expr,
        g: Expr,
        at: _Place,
        own: Expr | None = None,
    ) -> Iterator[Part]:
        """The parts of an argument of a function that is linear in the parts of a complex number."""
        a = args[k]
        if self.tangents:
            inner = at.behind(lambda t: times(g, rule.tangent(args, value, k, t)))
            yield from self.walk(a, number(1, a), inner, own)
        else:
            yield from self.walk(a, rule.adjoint(args, value, k, g), at, own)

    def _extreme(self, e: Min | Max, g: Expr, at: _Place, shown: Expr) -> Iterator[Part]:
        before: type[LT] | type[GT] = LT if isinstance(e, Min) else GT
        yield from self._choice(e.a, e.b, before, g, at, shown)

    def _choice(
        self, a: Expr, b: Expr, before: type[LT] | type[GT], g: Expr, at: _Place, shown: Expr
    ) -> Iterator[Part]:
        """The parts of the operand that comes `before` the other."""
        zero = number(0, g)
        if self.matters(a) and self.matters(b):
            for x, y in ((a, b), (b, a)):
                half = Select(EQ(x, y), times(number(0.5, g), g), zero)
                yield from self.walk(x, Select(before(x, y), g, half), at)
            return
        x, y = (a, b) if self.matters(a) else (b, a)
        yield from self.walk(x, g, at.where(before(shown, y)))

    def _intrinsic(self, e: Call, g: Expr, at: _Place, shown: Expr) -> Iterator[Part]:
        name, args = e.name, e.args
        if name in ("fmax", "fmin"):
            yield from self._choice(args[0], args[1], GT if name == "fmax" else LT, g, at, shown)
            return
        meets_complex = e.dtype.is_complex or args[0].dtype.is_complex
        if name in LINEAR and meets_complex:
            for k, a in enumerate(args):
                if self.matters(a):
                    yield from self._linear(LINEAR[name], args, k, shown, g, at)
            return
        if name not in DERIVATIVES:
            raise SemanticError(
                f"'{name}' has no derivative here",
                self.span,
                code="TC0241",
                help="leave what is read in it out of wrt=, or write the gradient yourself",
            )
        factors, y = tuple(map(self.factor, args)), self.factor(shown)
        for k, a in enumerate(args):
            if self.matters(a):
                yield from self.walk(a, DERIVATIVES[name](factors, y, k, g), at)


def _unary(f: Callable[[Expr, Expr, Callable[[float], Expr]], Expr]) -> Rule:
    """A rule from the derivative as a function of argument, value and a maker of numbers."""
    return lambda args, y, k, g: times(g, f(args[0], y, lambda v: number(v, args[0])))


def _quotient(f: Callable[[Expr, Expr, Callable[[float], Expr]], Expr]) -> Rule:
    """A rule from the reciprocal of the derivative."""
    return lambda args, y, k, g: Div(g, f(args[0], y, lambda v: number(v, args[0])))


def _power(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    a, b = args
    if k == 0:
        n = constant(b)
        if n == 2:
            return times(g, Mul(number(2, a), a))
        if n == 1:
            return g
        if n == 0.5:
            return Div(times(g, number(0.5, a)), y)
        if n is not None:
            return times(g, Mul(b, intrinsic("pow", a, number(n - 1, a))))
        # A power of 0 is 1 for all bases, also for 0, of which there is no power below 0.
        slope = Mul(b, intrinsic("pow", a, Sub(b, number(1, b))))
        return Select(EQ(b, number(0, b)), number(0, g), times(g, slope))
    # 0 to any power above 0 stays 0, whatever the power.
    stays = And(EQ(a, number(0, a)), GE(b, number(0, b)))
    return Select(stays, number(0, g), times(g, Mul(y, intrinsic("log", a))))


def _hypot(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    return times(g, Select(EQ(y, number(0, y)), number(0, y), Div(args[k], y)))


def _angle(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    square = Add(_square(args[0]), _square(args[1]))
    slope = Select(EQ(square, number(0, square)), number(0, square), Div(args[1 - k], square))
    return times(g if k == 0 else minus(g), slope)


def _copysign(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    if k:
        return number(0, g)
    sign = Select(EQ(y, args[0]), number(1, y), number(-1, y))
    return times(g, Select(EQ(y, number(0, y)), number(0, y), sign))


def _reciprocal_norm(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    return times(minus(g), Mul(args[k], Mul(y, Mul(y, y))))


def _square(a: Expr) -> Expr:
    return Mul(a, a)


_ROOT_PI = math.sqrt(math.pi)
_ROOT_2PI = math.sqrt(2 * math.pi)

# Not differentiable where they step, and 0 elsewhere.
STEPS = frozenset(["ceil", "floor", "round", "trunc", "logb", "nextafter"])

DERIVATIVES: Mapping[str, Rule] = {
    "exp": _unary(lambda x, y, n: y),
    "exp2": _unary(lambda x, y, n: Mul(y, n(math.log(2)))),
    "exp10": _unary(lambda x, y, n: Mul(y, n(math.log(10)))),
    "expm1": _unary(lambda x, y, n: Add(y, n(1))),
    "log": _quotient(lambda x, y, n: x),
    "log2": _quotient(lambda x, y, n: Mul(x, n(math.log(2)))),
    "log10": _quotient(lambda x, y, n: Mul(x, n(math.log(10)))),
    "log1p": _quotient(lambda x, y, n: Add(x, n(1))),
    "sqrt": lambda args, y, k, g: Div(times(g, number(0.5, y)), y),
    "rsqrt": _unary(lambda x, y, n: Mul(n(-0.5), Mul(y, Mul(y, y)))),
    "cbrt": lambda args, y, k, g: Div(g, Mul(number(3, y), _square(y))),
    "rcbrt": lambda args, y, k, g: Div(times(minus(g), y), Mul(number(3, y), args[0])),
    "sin": _unary(lambda x, y, n: intrinsic("cos", x)),
    "cos": _unary(lambda x, y, n: minus(intrinsic("sin", x))),
    "tan": _unary(lambda x, y, n: Add(n(1), _square(y))),
    "sinpi": _unary(lambda x, y, n: Mul(n(math.pi), intrinsic("cospi", x))),
    "cospi": _unary(lambda x, y, n: Mul(n(-math.pi), intrinsic("sinpi", x))),
    "asin": _unary(lambda x, y, n: intrinsic("rsqrt", Sub(n(1), _square(x)))),
    "acos": lambda args, y, k, g: times(
        minus(g), intrinsic("rsqrt", Sub(number(1, args[0]), _square(args[0])))
    ),
    "atan": _quotient(lambda x, y, n: Add(n(1), _square(x))),
    "sinh": _unary(lambda x, y, n: intrinsic("cosh", x)),
    "cosh": _unary(lambda x, y, n: intrinsic("sinh", x)),
    "tanh": _unary(lambda x, y, n: Sub(n(1), _square(y))),
    "asinh": _unary(lambda x, y, n: intrinsic("rsqrt", Add(_square(x), n(1)))),
    "acosh": _unary(lambda x, y, n: intrinsic("rsqrt", Sub(_square(x), n(1)))),
    "atanh": _quotient(lambda x, y, n: Sub(n(1), _square(x))),
    "sigmoid": _unary(lambda x, y, n: Mul(y, Sub(n(1), y))),
    "erf": _unary(lambda x, y, n: Mul(n(2 / _ROOT_PI), intrinsic("exp", minus(_square(x))))),
    "erfc": _unary(lambda x, y, n: Mul(n(-2 / _ROOT_PI), intrinsic("exp", minus(_square(x))))),
    "erfcx": _unary(lambda x, y, n: Sub(Mul(n(2), Mul(x, y)), n(2 / _ROOT_PI))),
    "erfinv": _unary(lambda x, y, n: Mul(n(_ROOT_PI / 2), intrinsic("exp", _square(y)))),
    "erfcinv": _unary(lambda x, y, n: Mul(n(-_ROOT_PI / 2), intrinsic("exp", _square(y)))),
    "normcdf": _unary(lambda x, y, n: Mul(n(1 / _ROOT_2PI), intrinsic("exp", Mul(n(-0.5), _square(x))))),
    "normcdfinv": _unary(lambda x, y, n: Mul(n(_ROOT_2PI), intrinsic("exp", Mul(n(0.5), _square(y))))),
    "lgamma": _unary(lambda x, y, n: intrinsic("digamma", x)),
    "tgamma": _unary(lambda x, y, n: Mul(y, intrinsic("digamma", x))),
    "digamma": _unary(lambda x, y, n: intrinsic("trigamma", x)),
    "fabs": lambda args, y, k, g: _signed(args[0], g),
    "abs": lambda args, y, k, g: _signed(args[0], g),
    "pow": _power,
    "atan2": _angle,
    "hypot": _hypot,
    "norm3d": _hypot,
    "norm4d": _hypot,
    "rhypot": _reciprocal_norm,
    "rnorm3d": _reciprocal_norm,
    "rnorm4d": _reciprocal_norm,
    "fdim": lambda args, y, k, g: Select(GT(args[0], args[1]), g if k == 0 else minus(g), number(0, g)),
    "fdivide": lambda args, y, k, g: Div(g, args[1]) if k == 0 else Div(times(minus(g), y), args[1]),
    "fma": lambda args, y, k, g: g if k == 2 else times(g, args[1 - k]),
    "fmod": lambda args, y, k, g: g if k == 0 else times(minus(g), intrinsic("trunc", Div(args[0], args[1]))),
    "remainder": lambda args, y, k, g: g if k == 0 else Div(times(g, Sub(y, args[0])), args[1]),
    "copysign": _copysign,
    "j0": _unary(lambda x, y, n: minus(intrinsic("j1", x))),
    "j1": _unary(lambda x, y, n: Select(EQ(x, n(0)), n(0.5), Sub(intrinsic("j0", x), Div(y, x)))),
    "y0": _unary(lambda x, y, n: minus(intrinsic("y1", x))),
    "y1": _unary(lambda x, y, n: Sub(intrinsic("y0", x), Div(y, x))),
    "cyl_bessel_i0": _unary(lambda x, y, n: intrinsic("cyl_bessel_i1", x)),
    "cyl_bessel_i1": _unary(
        lambda x, y, n: Select(EQ(x, n(0)), n(0.5), Sub(intrinsic("cyl_bessel_i0", x), Div(y, x)))
    ),
}


def _signed(x: Expr, g: Expr) -> Expr:
    zero = number(0, g)
    return Select(GT(x, number(0, x)), g, Select(LT(x, number(0, x)), minus(g), zero))
