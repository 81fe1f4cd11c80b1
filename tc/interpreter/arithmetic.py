"""Arithmetic of the oracle: operators, conversions and built-ins on NumPy arrays."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tc.dtypes import FLOAT16, DType
from tc.errors import InternalError
from tc.lang.builtins import BUILTINS

Array = npt.NDArray[Any]

UFUNCS: dict[str, np.ufunc] = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}


def numpy_type(dtype: DType) -> np.dtype[Any]:
    """The type the oracle computes in: float64 for every floating type, complex128 for complex ones."""
    if dtype.is_complex:
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if dtype.is_float else np.dtype(dtype.name)


def poison(dtype: DType) -> complex:
    """What an element that nothing defined holds: never a plausible value."""
    if dtype.is_complex:
        return complex(math.nan, math.nan)
    return math.nan if dtype.is_float else int(dtype.min) if dtype.is_signed else int(dtype.max)


def neutral(op: str, dtype: DType) -> float | int:
    match op.rstrip("!").rstrip("="):
        case "+":
            return 0
        case "*":
            return 1
        case "min":
            return dtype.max
        case _:
            return dtype.min


def fold(ufunc: np.ufunc, args: list[Array]) -> Array:
    out = args[0]
    for a in args[1:]:
        out = ufunc(out, a)
    return out


def binary(op: str, a: Array, b: Array) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" if np.issubdtype(a.dtype, np.floating):
            return a / b
        case "/":
            safe = np.where((b == 0) | (b == _minus_one(b)), np.ones_like(b), b)
            out = (
                np.where(b == _minus_one(b), np.negative(a), a // safe) if b.dtype.kind == "i" else a // safe
            )
            return np.where(b == 0, np.zeros_like(out), out).astype(a.dtype)
        case "%":
            safe = np.where((b == 0) | (b == _minus_one(b)), np.ones_like(b), b)
            return np.where((b == 0), np.zeros_like(a), a % safe).astype(a.dtype)
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case ">":
            return a > b
        case "<=":
            return a <= b
        case ">=":
            return a >= b
        case "&&":
            return a & b
        case "||":
            return a | b
        case _:
            raise InternalError(f"no such operator: {op}")


def _minus_one(b: Array) -> Array:
    return np.asarray(-1 if b.dtype.kind == "i" else 0, b.dtype)


def convert(a: Array, target: DType) -> Array:
    """A conversion by the language's rules: float to integer truncates, saturates, NaN gives 0."""
    a = np.asarray(a)
    out = numpy_type(target)
    if target.is_float and target.bits < 64 and a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        return _to_odd(a)
    if target.is_float or target.is_complex or a.dtype.kind in "iub":
        return a.astype(out)
    if target.is_bool:
        return a != 0
    whole = np.trunc(np.where(np.isnan(a), 0.0, a))
    low, high = float(target.min), float(target.max)  # 2^63 - 1 rounds up to 2^63: compare with >=
    inside = (whole > low) & (whole < high)
    result = np.where(inside, whole, 0.0).astype(out)
    result = np.where(whole <= low, np.asarray(target.min, out), result)
    return np.where(whole >= high, np.asarray(target.max, out), result)


def _to_odd(a: Array) -> Array:
    """64-bit integers as doubles that round to a narrower type as the integers do: beyond 2^53 the eleven
    bits that a double may lack become one, which tells only that there were some."""
    bits = a.view(np.uint64)
    offset, span = (1 << 53, 1 << 54) if a.dtype.kind == "i" else (0, 1 << 53)
    far = bits + np.uint64(offset) > np.uint64(span)
    low = np.uint64(0x7FF)
    few = (bits | ((bits & low) + low)) & ~low
    return np.where(far, few, bits).view(a.dtype).astype(np.float64)


def rounded(a: Array, target: DType) -> Array:
    """Doubles as the nearest numbers of a floating or complex type, ties to even: what a cast that is written
    does."""
    if target.is_complex:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return a.astype(target.name).astype(np.complex128)
    if target.bits == 64:
        return a
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if target.bits == 32 or target == FLOAT16:
            return a.astype(np.float32 if target.bits == 32 else np.float16).astype(np.float64)
        # bfloat16 by way of float32: where that is between two, their odd one, so that no tie comes of it.
        single = np.atleast_1d(a.astype(np.float32))
        bits = single.view(np.uint32)
        wide = single.astype(np.float64)
        toward_zero = bits - (np.abs(wide) > np.abs(a)).astype(np.uint32)
        odd = np.where((wide != a) & ~np.isnan(a), toward_zero | np.uint32(1), bits)
        near = (odd + np.uint32(0x7FFF) + ((odd >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
        found = np.where(np.isnan(a), np.nan, near.view(np.float32).astype(np.float64))
        return found.reshape(np.shape(a))


def _round(a: Array) -> Array:
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.copysign(1.0, a), whole)


def _sigmoid(a: Array) -> Array:
    return np.where(a >= 0, 1 / (1 + np.exp(-a)), np.exp(a) / (1 + np.exp(a)))


def _fdim(a: Array, b: Array) -> Array:
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a > b, a - b, 0.0))


def _fma(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def _norm(*parts: Array) -> Array:
    """Of squares none overflows or vanishes, and an infinity counts for more than NaN."""
    return reduce(np.hypot, parts)


def _reciprocal(f: Callable[..., Any]) -> Callable[..., Any]:
    def inverse(*args: Array) -> Any:
        return 1 / f(*args)

    return inverse


def _power_of_ten(a: Array) -> Array:
    return np.power(10.0, a)


_SAME_NAME = (
    "ceil cos cosh exp exp2 expm1 fabs floor log log10 log1p log2 sin sinh sqrt tan tanh trunc cbrt fmod "
    "hypot copysign fmax fmin"
)
_NUMPY: dict[str, Callable[..., Any]] = {
    **{n: getattr(np, n) for n in _SAME_NAME.split()},
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("cos", "cosh", "sin", "sinh", "tan", "tanh", "tan2")},
    "pow": np.power,
    "round": _round,
    "rsqrt": _reciprocal(np.sqrt),
    "rcbrt": _reciprocal(np.cbrt),
    "fdivide": np.divide,
    "fma": _fma,
    "rhypot": _reciprocal(np.hypot),
    "sigmoid": _sigmoid,
    "fdim": _fdim,
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": _reciprocal(_norm),
    "rnorm4d": _reciprocal(_norm),
    "exp10": _power_of_ten,
}


@cache
def function(name: str) -> Callable[..., Any]:
    """A built-in on float64 arrays: NumPy's, else the C library's applied element by element."""
    if name in _NUMPY:
        return _NUMPY[name]
    b = BUILTINS[name]
    prototype = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * b.arity)
    if b.own:
        from tc import _native

        scalar: Any = prototype(_native.symbols()[b.c])
    else:
        libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
        scalar = getattr(libm, b.c)
        scalar.restype, scalar.argtypes = ctypes.c_double, [ctypes.c_double] * b.arity
    return np.frompyfunc(lambda *a: scalar(*map(float, a)), b.arity, 1)
