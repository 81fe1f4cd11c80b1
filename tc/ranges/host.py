"""Bounds that are not exact index arithmetic, such as `where i in 0:int32(N*1.5)`.

They are computed on the host, in the types of the language, once the sizes and scalars in them are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tc.dtypes import INT32, INT64, DType
from tc.errors import InternalError, RangeError, unreachable
from tc.lang import resolved as r
from tc.lang.exact import is_float, is_inexact
from tc.lang.types import own_type


def _round(a: Any) -> Any:
    """The nearest integer, half away from zero."""
    whole = np.trunc(a)
    return whole + np.copysign(type(a)(1), a) if abs(a - whole) >= 0.5 else whole


_SAME_NAME = "ceil floor trunc sqrt cbrt exp exp2 expm1 log log2 log10 log1p fmod"
_FUNCTIONS: Mapping[str, Any] = {
    **{n: getattr(np, n) for n in _SAME_NAME.split()},
    "pow": np.power,
    "fabs": np.abs,
    "round": _round,
    "fmin": np.fmin,
    "fmax": np.fmax,
}


def is_exact(bound: r.Exp) -> bool:
    """Whether a bound (without lets) is exact index arithmetic, which range inference follows."""
    return not is_inexact(bound) and not any(map(is_float, r.walk(bound)))


def names(bound: r.Exp) -> frozenset[str]:
    """The sizes and integer scalars that a bound (without lets) waits for; none if it is exact."""
    if is_exact(bound):
        return frozenset()
    return frozenset(x.name for x in r.walk(bound) if isinstance(x, r.Size | r.Scalar))


def check(bound: r.Exp) -> None:
    """Raises RangeError, code TC0310, for what the host does not know (a float scalar, a tensor's extent)
    or cannot compute."""
    for x in r.walk(bound):
        unknown = isinstance(x, r.Counter | r.ExtentOf | r.OriginOf | r.LastIndex | r.Access | r.Index) or (
            isinstance(x, r.Scalar) and not x.declared.is_int
        )
        unknown = unknown or (isinstance(x, r.Cast) and x.target.is_complex)
        name = x.name if isinstance(x, r.Scalar) else x.span.text
        function = x.function if isinstance(x, r.Apply) else ""
        if unknown or (function and function not in {*_FUNCTIONS, "min", "max", "abs", "select"}):
            raise RangeError(
                f"this bound cannot be computed from '{name}' before the kernel runs",
                bound.span,
                code="TC0310",
                help="use sizes and integer scalars, with + - * / % min max, casts, sqrt, floor, ceil, …",
            )


def value(e: r.Exp, known: Mapping[str, int]) -> int:
    """The value of an integer expression that `check` has passed, of sizes and scalars that are all known."""
    with np.errstate(all="ignore"):
        return int(_value(e, known))


def _value(e: r.Exp, known: Mapping[str, int]) -> Any:
    match e:
        case r.Const():
            return _of(own_type(e), e.value)
        case r.Size():
            return _index(known[e.name])
        case r.Scalar():
            return _of(e.declared, known[e.name])
        case r.Cast():
            if isinstance(e.operand, r.Const) and e.target.is_float:
                return _of(e.target, e.operand.value)
            return _converted(_value(e.operand, known), e.target)
        case r.Unary():
            a = _value(e.operand, known)
            return np.logical_not(a) if e.op == "!" else np.negative(a)
        case r.Binary():
            return _binary(e, known)
        case r.If():
            return _value(e.then if _value(e.condition, known) else e.otherwise, known)
        case r.Apply(function="select"):
            c, a, b = e.args
            return _value(a if _value(c, known) else b, known)
        case r.Apply(function="min" | "max" | "abs"):
            args = _matched(e.args, known)
            if e.function == "abs":
                return np.abs(args[0])
            return (min if e.function == "min" else max)(args)
        case r.Apply():
            args = _matched(e.args, known)
            return _FUNCTIONS[e.function](*(a if _is_float(a) else np.float32(a) for a in args))
        case (
            r.Counter()
            | r.ExtentOf()
            | r.OriginOf()
            | r.LastIndex()
            | r.Access()
            | r.Index()
            | r.Let()
            | r.Imaginary()
        ):
            raise InternalError(f"no bound for the host: {e.span.text}")
        case _:
            unreachable(e)


def _binary(e: r.Binary, known: Mapping[str, int]) -> Any:
    a, b = _matched((e.left, e.right), known)
    integers = not _is_float(a)
    match e.op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" if integers:
            return type(a)(0) if b == 0 else np.floor_divide(a, b)
        case "/":
            return a / b
        case "%":
            return type(a)(0) if b == 0 else np.mod(a, b)
        case "&&":
            return a and b
        case "||":
            return a or b
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case _:
            return a >= b


def _matched(operands: tuple[r.Exp, ...], known: Mapping[str, int]) -> list[Any]:
    """The values of operands in their common type, to which literals adapt."""
    values: list[Any] = [_value(x, known) for x in operands]
    typed = [v for v, x in zip(values, operands, strict=True) if not isinstance(x, r.Const)] or values
    floats = [v for v in typed if _is_float(v)]
    if not floats and any(map(_is_float, values)):
        common: Any = np.float32
    elif floats:
        common = max(floats, key=lambda v: v.dtype.itemsize).dtype.type
    else:
        common = np.result_type(*typed).type
    pairs = zip(values, operands, strict=True)
    return [common(x.value) if isinstance(x, r.Const) else v.astype(common) for v, x in pairs]


def _is_float(a: Any) -> bool:
    return isinstance(a, np.floating)


def _index(n: int) -> Any:
    """Sizes as values are int32, or int64 where they do not fit."""
    return np.int32(n) if INT32.min <= n <= INT32.max else np.int64(n)


def _of(dtype: DType, value: float) -> Any:
    return np.dtype("float32" if dtype.is_half else dtype.name).type(value)


def _converted(a: Any, target: DType) -> Any:
    """A conversion by the language's rules: float to integer truncates and saturates, NaN gives 0."""
    if target.is_int and _is_float(a):
        exact = float(a)
        if math.isnan(exact):
            return _of(target, 0)
        whole = int(exact) if math.isfinite(exact) else int(INT64.max if exact > 0 else INT64.min)
        return _of(target, min(max(whole, int(target.min)), int(target.max)))
    if target.kind == "bfloat":
        bits = int(np.float32(a).view(np.uint32))
        return np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    return np.float32(a.astype(np.float16)) if target.is_half else a.astype(target.name)
