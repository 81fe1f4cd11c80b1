"""Derivatives of expressions: what each read of a tensor contributes to the value of a statement.

The table of built-ins is that of a calculus book.  Where a function is not differentiable the value that
PyTorch takes is taken: 0 at the kink of `abs` and of a maximum with a constant (`relu`), a half each where
both operands of `min` and `max` are equal.  What steps (`floor`, `round`, integer results) has 0.
A condition goes to the whole contribution, so that what it masks is never computed with: 0 * inf is no zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tc.errors import SemanticError, Span
from tc.ir.expr import (
    EQ,
    GT,
    LT,
    Add,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Select,
    Sub,
    constant,
    imm,
)


@dataclass(frozen=True, slots=True)
class Part:
    """`factor`, where `conditions` hold, is what the read `access` gets of the adjoint of the value."""

    access: Call
    factor: Expr
    conditions: tuple[Expr, ...] = ()


def number(value: float, like: Expr) -> Expr:
    return imm(value, like.dtype)


def times(a: Expr, b: Expr) -> Expr:
    """A product without factors of 1."""
    if constant(a) == 1:
        return b
    if constant(b) == 1:
        return a
    if constant(a) == -1:
        return minus(b)
    if constant(b) == -1:
        return minus(a)
    return Mul(a, b)


def minus(a: Expr) -> Expr:
    match a:
        case FloatImm():
            return FloatImm(-a.value, a.dtype)
        case Mul(a=x, b=y) if constant(y) == -1:
            return x
        case Mul(a=x, b=y) if isinstance(x, FloatImm):
            return times(minus(x), y)
        case Mul(a=Mul(b=FloatImm(value=-1.0)) as x, b=y):
            return times(minus(x), y)
        case _:
            return Mul(a, number(-1, a))


def parts(
    value: Expr, seed: Expr, own: Expr, active: Callable[[Call], bool], span: Span | None
) -> Iterator[Part]:
    """The contributions of a statement `own = value` to what it reads, for the adjoint `seed` of `own`.

    `own` is the value as it is stored, for derivatives that are cheaper in terms of it.  `active` says for
    which reads contributions are wanted.  Raises SemanticError, code TC0241, for a function without a
    derivative on the way to one.
    """
    yield from _Reverse(active, span).walk(value, seed, (), own)


class _Reverse:
    def __init__(self, active: Callable[[Call], bool], span: Span | None) -> None:
        self.active = active
        self.span = span

    def matters(self, e: Expr) -> bool:
        """Whether a derivative passes through an expression to a read that is active."""
        match e:
            case Call() if e.kind != "intrinsic":
                return e.dtype.is_float and self.active(e)
            case Call():
                return e.name not in STEPS and any(map(self.matters, e.args))
            case Cast():
                return e.dtype.is_float and e.value.dtype.is_float and self.matters(e.value)
            case Add() | Sub() | Mul() | Div() | Min() | Max():
                return e.dtype.is_float and (self.matters(e.a) or self.matters(e.b))
            case Select():
                return self.matters(e.true_value) or self.matters(e.false_value)
            case IfThenElse():
                return self.matters(e.then_value) or self.matters(e.else_value)
            case _:
                return False

    def walk(self, e: Expr, g: Expr, where: tuple[Expr, ...], own: Expr | None = None) -> Iterator[Part]:
        if not self.matters(e):
            return
        shown = e if own is None or own.dtype != e.dtype else own
        match e:
            case Call() if e.kind != "intrinsic":
                yield Part(e, g, where)
            case Cast():
                yield from self.walk(e.value, Cast(e.value.dtype, g), where, own)
            case Add():
                yield from self.walk(e.a, g, where)
                yield from self.walk(e.b, g, where)
            case Sub():
                yield from self.walk(e.a, g, where)
                yield from self.walk(e.b, minus(g), where)
            case Mul():
                yield from self.walk(e.a, times(g, e.b), where)
                yield from self.walk(e.b, times(g, e.a), where)
            case Div():
                yield from self.walk(e.a, Div(g, e.b), where)
                yield from self.walk(e.b, Div(times(minus(g), shown), e.b), where)
            case Min() | Max():
                yield from self._extreme(e, g, where, shown)
            case Select():
                yield from self.walk(e.true_value, g, (*where, e.condition), own)
                yield from self.walk(e.false_value, g, (*where, Not(e.condition)), own)
            case IfThenElse():
                yield from self.walk(e.then_value, g, (*where, e.condition), own)
                yield from self.walk(e.else_value, g, (*where, Not(e.condition)), own)
            case Call():
                yield from self._intrinsic(e, g, where, shown)
            case _:
                raise AssertionError(type(e))

    def _extreme(self, e: Min | Max, g: Expr, where: tuple[Expr, ...], shown: Expr) -> Iterator[Part]:
        before: type[LT] | type[GT] = LT if isinstance(e, Min) else GT
        yield from self._choice(e.a, e.b, before, g, where, shown)

    def _choice(
        self, a: Expr, b: Expr, before: type[LT] | type[GT], g: Expr, where: tuple[Expr, ...], shown: Expr
    ) -> Iterator[Part]:
        """The parts of the operand that comes `before` the other."""
        zero = number(0, g)
        if self.matters(a) and self.matters(b):
            for x, y in ((a, b), (b, a)):
                half = Select(EQ(x, y), times(number(0.5, g), g), zero)
                yield from self.walk(x, Select(before(x, y), g, half), where)
            return
        x, y = (a, b) if self.matters(a) else (b, a)
        chosen = before(shown, y)
        yield from self.walk(x, g, (*where, chosen))

    def _intrinsic(self, e: Call, g: Expr, where: tuple[Expr, ...], shown: Expr) -> Iterator[Part]:
        name, args = e.name, e.args
        if name in ("fmax", "fmin"):
            yield from self._choice(args[0], args[1], GT if name == "fmax" else LT, g, where, shown)
            return
        if name not in DERIVATIVES:
            raise SemanticError(
                f"'{name}' has no derivative here",
                self.span,
                code="TC0241",
                help="leave what is read in it out of wrt=, or write the gradient yourself",
            )
        for k, a in enumerate(args):
            if self.matters(a):
                yield from self.walk(a, DERIVATIVES[name](args, shown, k, g), where)


Rule = Callable[[tuple[Expr, ...], Expr, int, Expr], Expr]  # arguments, value, which argument, adjoint


def call(name: str, *args: Expr) -> Expr:
    return Call(name, args, args[0].dtype, "intrinsic")


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
        lower = number(n - 1, a) if n is not None else Sub(b, number(1, b))
        return times(g, Mul(b, call("pow", a, lower)))
    # 0 to any power above 0 stays 0, whatever the power.
    return times(g, Select(GT(a, number(0, a)), Mul(y, call("log", a)), number(0, a)))


def _hypot(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    return times(g, Select(GT(y, number(0, y)), Div(args[k], y), number(0, y)))


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
    "sin": _unary(lambda x, y, n: call("cos", x)),
    "cos": _unary(lambda x, y, n: minus(call("sin", x))),
    "tan": _unary(lambda x, y, n: Add(n(1), _square(y))),
    "sinpi": _unary(lambda x, y, n: Mul(n(math.pi), call("cospi", x))),
    "cospi": _unary(lambda x, y, n: Mul(n(-math.pi), call("sinpi", x))),
    "asin": _unary(lambda x, y, n: call("rsqrt", Sub(n(1), _square(x)))),
    "acos": lambda args, y, k, g: times(minus(g), call("rsqrt", Sub(number(1, args[0]), _square(args[0])))),
    "atan": _quotient(lambda x, y, n: Add(n(1), _square(x))),
    "sinh": _unary(lambda x, y, n: call("cosh", x)),
    "cosh": _unary(lambda x, y, n: call("sinh", x)),
    "tanh": _unary(lambda x, y, n: Sub(n(1), _square(y))),
    "asinh": _unary(lambda x, y, n: call("rsqrt", Add(_square(x), n(1)))),
    "acosh": _unary(lambda x, y, n: call("rsqrt", Sub(_square(x), n(1)))),
    "atanh": _quotient(lambda x, y, n: Sub(n(1), _square(x))),
    "sigmoid": _unary(lambda x, y, n: Mul(y, Sub(n(1), y))),
    "erf": _unary(lambda x, y, n: Mul(n(2 / _ROOT_PI), call("exp", minus(_square(x))))),
    "erfc": _unary(lambda x, y, n: Mul(n(-2 / _ROOT_PI), call("exp", minus(_square(x))))),
    "erfcx": _unary(lambda x, y, n: Sub(Mul(n(2), Mul(x, y)), n(2 / _ROOT_PI))),
    "erfinv": _unary(lambda x, y, n: Mul(n(_ROOT_PI / 2), call("exp", _square(y)))),
    "erfcinv": _unary(lambda x, y, n: Mul(n(-_ROOT_PI / 2), call("exp", _square(y)))),
    "normcdf": _unary(lambda x, y, n: Mul(n(1 / _ROOT_2PI), call("exp", Mul(n(-0.5), _square(x))))),
    "normcdfinv": _unary(lambda x, y, n: Mul(n(_ROOT_2PI), call("exp", Mul(n(0.5), _square(y))))),
    "lgamma": _unary(lambda x, y, n: call("digamma", x)),
    "tgamma": _unary(lambda x, y, n: Mul(y, call("digamma", x))),
    "digamma": _unary(lambda x, y, n: call("trigamma", x)),
    "fabs": lambda args, y, k, g: _signed(args[0], g),
    "abs": lambda args, y, k, g: _signed(args[0], g),
    "pow": _power,
    "atan2": lambda args, y, k, g: times(
        g if k == 0 else minus(g), Div(args[1 - k], Add(_square(args[0]), _square(args[1])))
    ),
    "hypot": _hypot,
    "norm3d": _hypot,
    "norm4d": _hypot,
    "rhypot": _reciprocal_norm,
    "rnorm3d": _reciprocal_norm,
    "rnorm4d": _reciprocal_norm,
    "fdim": lambda args, y, k, g: Select(GT(args[0], args[1]), g if k == 0 else minus(g), number(0, g)),
    "fdivide": lambda args, y, k, g: Div(g, args[1]) if k == 0 else Div(times(minus(g), y), args[1]),
    "fma": lambda args, y, k, g: g if k == 2 else times(g, args[1 - k]),
    "fmod": lambda args, y, k, g: g if k == 0 else times(minus(g), call("trunc", Div(args[0], args[1]))),
    "remainder": lambda args, y, k, g: g if k == 0 else Div(times(g, Sub(y, args[0])), args[1]),
    "copysign": lambda args, y, k, g: (
        times(g, Select(EQ(y, args[0]), number(1, y), number(-1, y))) if k == 0 else number(0, g)
    ),
    "j0": _unary(lambda x, y, n: minus(call("j1", x))),
    "j1": _unary(lambda x, y, n: Select(EQ(x, n(0)), n(0.5), Sub(call("j0", x), Div(y, x)))),
    "y0": _unary(lambda x, y, n: minus(call("y1", x))),
    "y1": _unary(lambda x, y, n: Sub(call("y0", x), Div(y, x))),
    "cyl_bessel_i0": _unary(lambda x, y, n: call("cyl_bessel_i1", x)),
    "cyl_bessel_i1": _unary(
        lambda x, y, n: Select(EQ(x, n(0)), n(0.5), Sub(call("cyl_bessel_i0", x), Div(y, x)))
    ),
}


def _signed(x: Expr, g: Expr) -> Expr:
    zero = number(0, g)
    return Select(GT(x, number(0, x)), g, Select(LT(x, number(0, x)), minus(g), zero))
