"""Derivatives where complex numbers meet real ones, or their conjugates.

These functions are linear in the real and the imaginary part of a small change, but not in the change as a
complex number: each has a rule for tangents and one for adjoints.  The adjoint of a complex number x + iy is
dL/dx + i dL/dy, as in PyTorch, so that the rules of a real function hold for an analytic one with the
conjugates of its arguments.  At 0, where they have no derivative, `abs` and `arg` take 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tc.autodiff.arithmetic import conj, converted, imag, intrinsic, number, real, times, unit
from tc.dtypes import complex_of
from tc.ir.expr import GT, NE, Div, Expr, Mul, Select

# Arguments, value, which argument, and the adjoint of the value or the tangent of the argument.
Rule = Callable[[tuple[Expr, ...], Expr, int, Expr], Expr]


@dataclass(frozen=True, slots=True)
class Linear:
    """`adjoint` is the adjoint of an argument, `tangent` that of the value."""

    adjoint: Rule
    tangent: Rule


def _direction(z: Expr, size: Expr) -> Expr:
    """A number of absolute value 1, or 0."""
    safe = GT(size, number(0, size))
    return Select(safe, Div(z, converted(z.dtype, size)), number(0, z))


def _of_arg(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    (z,) = args
    turned = times(converted(z.dtype, g), unit(z.dtype))
    return Select(NE(z, number(0, z)), Div(turned, conj(z)), number(0, z))


def _arg_of(args: tuple[Expr, ...], y: Expr, k: int, t: Expr) -> Expr:
    (z,) = args
    return Select(NE(z, number(0, z)), imag(Div(t, z)), number(0, y))


def _of_polar(args: tuple[Expr, ...], y: Expr, k: int, g: Expr) -> Expr:
    return imag(Mul(g, conj(y))) if k else real(Mul(g, conj(_turn(args[1]))))


def _polar_of(args: tuple[Expr, ...], y: Expr, k: int, t: Expr) -> Expr:
    moved = converted(y.dtype, t)
    return times(moved, Mul(y, unit(y.dtype)) if k else _turn(args[1]))


def _turn(angle: Expr) -> Expr:
    return intrinsic("polar", number(1, angle), angle, dtype=complex_of(angle.dtype))


LINEAR: Mapping[str, Linear] = {
    "conj": Linear(lambda args, y, k, g: conj(g), lambda args, y, k, t: conj(t)),
    "real": Linear(lambda args, y, k, g: converted(args[0].dtype, g), lambda args, y, k, t: real(t)),
    "imag": Linear(
        lambda args, y, k, g: times(converted(args[0].dtype, g), unit(args[0].dtype)),
        lambda args, y, k, t: imag(t),
    ),
    "abs": Linear(
        lambda args, y, k, g: times(converted(args[0].dtype, g), _direction(args[0], y)),
        lambda args, y, k, t: real(Mul(t, conj(_direction(args[0], y)))),
    ),
    "arg": Linear(_of_arg, _arg_of),
    "polar": Linear(_of_polar, _polar_of),
}

# Of a conversion, of real numbers too: adjoints have the type of the argument, tangents that of the value.
CONVERSION = Linear(
    lambda args, y, k, g: converted(args[0].dtype, g if args[0].dtype.is_complex else real(g)),
    lambda args, y, k, t: converted(y.dtype, t),
)
