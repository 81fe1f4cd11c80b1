"""Complex numbers of the oracle: NumPy's, but that a factor or divisor that is real as it is written, or
purely imaginary, scales: an infinity or NaN of the other part does not spread by way of a product with 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tc.lang import resolved as r

Array: TypeAlias = npt.NDArray[Any]
Form = Literal["real", "imaginary", "complex"]


def form(e: r.Exp, st: r.Statement) -> Form:
    """What a typed expression is by its form: a real number that became complex, a literal, their product."""
    match e:
        case r.Const():
            return "real"
        case r.Imaginary():
            return "imaginary"
        case r.Cast() if e.operand.dtype is not None and not e.operand.dtype.is_complex:
            return "real"
        case r.Cast() | r.Unary():
            return form(e.operand, st)
        case r.Let():
            return form(st.let(e.name), st)
        case r.Binary(op="*" | "/"):
            a, b = form(e.left, st), form(e.right, st)
            if "complex" in (a, b):
                return "complex"
            return "real" if a == b else "imaginary"
        case _:
            return "complex"


def multiplied(left: Array, right: Array, of_a: Form, of_b: Form) -> Array:
    a, b = np.asarray(left, np.complex128), np.asarray(right, np.complex128)
    if of_a == "real":
        return _of(a.real * b.real, a.real * b.imag)
    if of_b == "real":
        return _of(a.real * b.real, a.imag * b.real)
    if of_a == "imaginary":
        return _of(-(a.imag * b.imag), a.imag * b.real)
    if of_b == "imaginary":
        return _of(-(a.imag * b.imag), a.real * b.imag)
    return a * b


def divided(left: Array, right: Array, of_a: Form, of_b: Form) -> Array:
    a, b = np.asarray(left, np.complex128), np.asarray(right, np.complex128)
    if of_b == "real":
        return _of(a.real / b.real, a.imag / b.real)
    if of_b == "imaginary":
        return _of(a.imag / b.imag, -(a.real / b.imag))
    return a / b


def _of(real: Array, imaginary: Array) -> Array:
    out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imaginary)), np.complex128)
    out.real, out.imag = real, imaginary
    return out


def _polar(radius: Array, angle: Array) -> Array:
    return _of(radius * np.cos(angle), radius * np.sin(angle))


def _real(a: Array) -> Array:
    return np.asarray(a, np.complex128).real


def _imag(a: Array) -> Array:
    return np.asarray(a, np.complex128).imag


def _arg(a: Array) -> Array:
    return np.arctan2(_imag(a), _real(a))


def _conj(a: Array) -> Array:
    return np.conjugate(a)


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "conj": _conj,
    "real": _real,
    "imag": _imag,
    "arg": _arg,
    "polar": _polar,
}
