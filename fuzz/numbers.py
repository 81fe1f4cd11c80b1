"""Values with bounds on their errors: what every correct backend computes, and how far it may be off.

Floating values are float64, whatever their type; integers have their type.  With each element goes a bound on
the difference to what another order of operations, contraction or a wider intermediate gives (N. J. Higham,
Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, ch. 3): 0 where all of it is exact, infinity
where it cannot be said, as where two values are compared that may be equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

Array = np.ndarray[Any, Any]

FLOATS = ("float", "double", "half", "bfloat16")
SIGNED = ("int8", "int16", "int", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
TYPES = (*FLOATS, *INTEGERS, "bool")
BITS = {"half": 16, "bfloat16": 16, "float": 32, "double": 64, "bool": 1, "int": 32} | {
    t: int(t.lstrip("uint")) for t in INTEGERS if t != "int"
}
NUMPY: dict[str, np.dtype[Any]] = {
    **{t: np.dtype(t) for t in INTEGERS if t != "int"},
    **{"int": np.dtype("int32"), "float": np.dtype("float32"), "double": np.dtype("float64")},
    **{"half": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16), "bool": np.dtype("bool")},
}
# Significant bits, least and greatest positive numbers.
_PRECISION = {"float": 24, "double": 53, "half": 11, "bfloat16": 8}
_TINY = {"float": 2.0**-149, "double": 2.0**-1074, "half": 2.0**-24, "bfloat16": 2.0**-133}
_LARGE = {"float": 3.4e38, "double": 1.79e308, "half": 65504.0, "bfloat16": 3.38e38}
_ULPS = 4  # of a built-in function, LANGUAGE.md §3


@dataclass(frozen=True)
class Value:
    """Elements of a type, and bounds on their errors, of shapes that broadcast."""

    type: str
    of: Array
    error: Array

    @property
    def floating(self) -> bool:
        return self.type in FLOATS


_ZERO = np.zeros(())


def exact(t: str, of: Any) -> Value:
    return Value(t, np.asarray(of, np.float64 if t in FLOATS else NUMPY[t]), _ZERO)


def _scaled(a: Array, error: Array) -> Array:
    """|a|·error, 0 where there is no error."""
    return np.where(error == 0, 0.0, np.nan_to_num(np.abs(a) * error, nan=np.inf, posinf=np.inf))


def _few_bits(v: Array) -> Array:
    """Whether numbers are multiples of 2^-16 and small, as what is computed from small integers is."""
    return (np.abs(v) < 2.0**30) & (v * 65536 == np.rint(v * 65536))


def rounded(t: str, v: Array, error: Array, of: tuple[Array, ...] = (), ulps: float = 1) -> Value:
    """The result of one operation on `of` in a floating type.  It is exact if it is a number of the type and
    the operands are exact; where it may overflow it may be anything."""
    v = np.asarray(v, np.float64)
    unit = 2.0 ** (1 - _PRECISION[t])
    whole = (v.astype(NUMPY[t]).astype(np.float64) == v) if t != "double" else _few_bits(v)
    special_ = ~np.isfinite(v)
    slack = np.where((whole | special_) & (error == 0), 0.0, error + ulps * unit * np.abs(v) + _TINY[t])
    near = np.isfinite(v) & (np.abs(v) > 0.98 * _LARGE[t])
    if of:
        operands = np.isfinite(of[0])
        for x in of[1:]:
            operands = operands & np.isfinite(x)
        near = near | (np.isinf(v) & operands)
    slack = np.where(np.isnan(slack) | near, np.inf, slack)
    # An infinity or NaN that comes of an inexact operand may be another.
    return Value(t, v, np.where(special_ & (error > 0), np.inf, slack))


def _worst(*errors: Array) -> Array:
    """Bounds of what is certain or not."""
    out = errors[0]
    for e in errors[1:]:
        out = np.maximum(out, e)
    return np.where(out > 0, np.inf, 0.0)


def convert(v: Value, t: str) -> Value:
    """Floats round, and become integers truncated and saturated, NaN 0; integers wrap around."""
    if v.type == t:
        return v
    if t in FLOATS:
        return rounded(t, v.of.astype(np.float64), v.error)
    if not v.floating:
        return Value(t, v.of != 0 if t == "bool" else v.of.astype(NUMPY[t]), v.error)
    if t == "bool":
        return Value(t, v.of != 0, np.where((v.error > 0) & ~(np.abs(v.of) > v.error), np.inf, 0.0))
    info = np.iinfo(NUMPY[t])
    low, high = float(info.min), float(info.max)

    def whole(a: Array) -> Array:
        a = np.trunc(np.where(np.isnan(a), 0.0, a))
        inside = (a > low) & (a < high)
        out = np.where(inside, a, 0.0).astype(NUMPY[t])
        return np.where(inside, out, np.where(a <= low, info.min, info.max).astype(NUMPY[t]))

    uncertain = (v.error > 0) & (np.isinf(v.error) | (whole(v.of - v.error) != whole(v.of + v.error)))
    return Value(t, whole(v.of), np.where(uncertain, np.inf, 0.0))


def common(*types: str) -> str:
    """The type of arithmetic on these."""
    floats = [t for t in types if t in FLOATS]
    if floats:
        assert not {"half", "bfloat16"} <= set(floats), types
        return max(floats, key=lambda t: BITS[t])
    if set(types) == {"bool"}:
        return "int"
    bits = max(BITS["int"] if t == "bool" else BITS[t] for t in types)
    name = f"int{bits}" if any(t in SIGNED or t == "bool" for t in types) else f"uint{bits}"
    return "int" if name == "int32" else name


def arithmetic(op: str, a: Value, b: Value) -> Value:
    """`+ - * / %` of values of one type."""
    if not a.floating:
        x, y = a.of, b.of
        match op:
            case "+" | "-" | "*":
                out = {"+": np.add, "-": np.subtract, "*": np.multiply}[op](x, y)
            case _:
                safe = np.where(y == 0, np.ones_like(y), y)
                # The quotient of the least number by -1 wraps around, the remainder is 0.
                negated = (y == -1) if a.type in SIGNED else np.zeros(np.shape(y), bool)
                safe = np.where(negated, np.ones_like(y), safe)
                if op == "/":
                    out = np.where(negated, np.negative(x), np.floor_divide(x, safe))
                else:
                    out = np.where(negated, np.zeros_like(x), np.mod(x, safe))
                out = np.where(y == 0, np.zeros_like(out), out)
        return Value(a.type, np.asarray(out).astype(NUMPY[a.type]), _worst(a.error, b.error))
    x, y, ex, ey = a.of, b.of, a.error, b.error
    match op:
        case "+":
            return rounded(a.type, x + y, ex + ey, (x, y))
        case "-":
            return rounded(a.type, x - y, ex + ey, (x, y))
        case "*":
            return rounded(a.type, x * y, _scaled(x, ey) + _scaled(y, ex) + ex * ey, (x, y))
        case _:
            q = x / y
            room = np.abs(y) - ey
            error = np.where(
                (ex == 0) & (ey == 0), 0.0, (ex + _scaled(q, ey)) / np.where(room > 0, room, np.nan)
            )
            # A zero may be of either sign.
            error = np.where(np.isnan(error) | (y == 0), np.inf, error)
            return rounded(a.type, q, error, (x, y), 2)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def comparison(op: str, a: Value, b: Value) -> Value:
    out = _COMPARE[op](a.of, b.of)
    if not a.floating:
        return Value("bool", out, _worst(a.error, b.error))
    e = a.error + b.error
    with np.errstate(all="ignore"):
        uncertain = (e > 0) & ~(np.abs(a.of - b.of) > e)
    return Value("bool", out, np.where(uncertain, np.inf, 0.0))


def logical(op: str, a: Value, b: Value) -> Value:
    return Value("bool", a.of & b.of if op == "&&" else a.of | b.of, _worst(a.error, b.error))


def negated(v: Value) -> Value:
    if v.type == "bool":
        return Value("bool", ~v.of, v.error)
    return Value(v.type, np.negative(v.of), v.error)


def chosen(c: Value, a: Value, b: Value) -> Value:
    return Value(
        a.type, np.where(c.of, a.of, b.of), np.where(c.error > 0, np.inf, np.where(c.of, a.error, b.error))
    )


def extremum(name: str, a: Value, b: Value) -> Value:
    """`min max fmin fmax` of values of one type."""
    f = {"min": np.minimum, "max": np.maximum, "fmin": np.fmin, "fmax": np.fmax}[name]
    e = np.maximum(a.error, b.error)
    if a.floating:
        # Where one of them is not a number and the other may be, neither is known.
        e = np.where((e > 0) & (np.isnan(a.of) | np.isnan(b.of)), np.inf, e)
    return Value(a.type, f(a.of, b.of), e if a.floating else _worst(a.error, b.error))


def _round(a: Array) -> Array:
    """Half away from zero."""
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.copysign(1.0, a), whole)


# name: (function, whether it jumps)
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], bool]] = {
    "exp": (np.exp, False),
    "log": (np.log, False),
    "sqrt": (np.sqrt, False),
    "tanh": (np.tanh, False),
    "sin": (np.sin, False),
    "erf": (special.erf, False),
    "sigmoid": (special.expit, False),
    "fabs": (np.abs, False),
    "floor": (np.floor, True),
    "ceil": (np.ceil, True),
    "trunc": (np.trunc, True),
    "round": (_round, True),
}  # fmt: skip
_EXACT = ("fabs", "floor", "ceil", "trunc", "round")


def function(name: str, v: Value) -> Value:
    """A built-in of one floating argument."""
    f, jumps = FUNCTIONS[name]
    out = np.asarray(f(v.of))
    low, high = np.asarray(f(v.of - v.error)), np.asarray(f(v.of + v.error))
    if jumps:
        spread = np.where((v.error > 0) & (low != high), np.inf, 0.0)
    else:
        spread = np.where(v.error == 0, 0.0, np.maximum(np.abs(low - out), np.abs(high - out)))
        spread = np.where(np.isnan(spread) | np.isinf(v.error), np.inf, spread)
    if name == "sin":  # beyond this the reduction of the argument is not what is tested
        spread = np.where(np.abs(v.of) > 1e4, np.inf, spread)
    if name in _EXACT:
        return Value(v.type, out, spread)
    good = np.array([0.0, 1.0]) if name != "sqrt" else None
    known = np.isin(out, good) if good is not None else out * out == v.of
    error = np.where(
        known & (v.error == 0), spread, spread + _ULPS * 2.0 ** (1 - _PRECISION[v.type]) * np.abs(out)
    )
    return rounded(
        v.type,
        out,
        np.nan_to_num(error, nan=np.inf, posinf=np.inf) * (np.isfinite(out) | (v.error > 0)),
        (v.of,),
    )


def absolute(v: Value) -> Value:
    return Value(v.type, np.abs(v.of), v.error)


# Reductions.

NEUTRAL = {"+": 0.0, "*": 1.0, "min": math.inf, "max": -math.inf}


def neutral(op: str, t: str) -> Any:
    """The neutral element: of min and max, infinities or the ends of an integer type."""
    if t in FLOATS or op in "+*":
        return NEUTRAL[op]
    if t == "bool":
        return op == "min"
    info = np.iinfo(NUMPY[t])
    return info.max if op == "min" else info.min


def reduced(op: str, v: Value, axes: tuple[int, ...], start: Value | None) -> Value:
    """All elements along some axes, in any order, with what was there before."""
    of, error = v.of, np.broadcast_to(v.error, v.of.shape)
    t = v.type
    if t not in FLOATS:
        f: Any = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}[op]
        if t == "bool":
            f = np.logical_and if op == "min" else np.logical_or
            out = f.reduce(of, axis=axes, initial=op == "min")
        else:
            out = f.reduce(of, axis=axes, initial=neutral(op, t), dtype=NUMPY[t])
        worst = np.max(error, axis=axes, initial=0.0)
        if start is not None:
            out, worst = f(out, start.of), np.maximum(worst, start.error)
        return Value(t, np.asarray(out).astype(NUMPY[t]), np.where(worst > 0, np.inf, 0.0))
    if start is not None:
        # One more element.
        of = np.concatenate([_flat(of, axes), np.expand_dims(start.of, -1)], -1)
        error = np.concatenate(
            [_flat(error, axes), np.expand_dims(np.broadcast_to(start.error, start.of.shape), -1)], -1
        )
    else:
        of, error = _flat(of, axes), _flat(error, axes)
    wide = "double" if t == "double" else "float"
    unit, count = 2.0 ** (1 - _PRECISION[wide]), of.shape[-1]
    finite = np.where(np.isfinite(of), of, 0.0)
    if op in ("min", "max"):
        out = (np.minimum if op == "min" else np.maximum).reduce(of, -1, initial=NEUTRAL[op])
        worst = np.max(error, -1, initial=0.0)
        worst = np.where((worst > 0) & np.isnan(of).any(-1), np.inf, worst)
        return Value(t, out, worst)
    if op == "+":
        out = np.sum(of, -1)
        terms = np.sum(np.abs(finite), -1)
        certain = (
            (_few_bits(of) | ~np.isfinite(of)).all(-1)
            & (terms < 2.0 ** (_PRECISION[wide] - 6))
            & (error == 0).all(-1)
        )
        certain |= (of == np.rint(of)).all(-1) & (terms < 2.0 ** _PRECISION[wide]) & (error == 0).all(-1)
        spread = np.sum(error, -1) + count * unit * terms
    else:
        out = np.prod(of, -1)
        terms = np.prod(np.maximum(np.abs(finite), 1.0), -1)
        small = np.prod(np.where(finite == 0, 1.0, np.minimum(np.abs(finite), 1.0)), -1)
        certain = (of == np.rint(of)).all(-1) & (terms < 2.0 ** _PRECISION[wide]) & (error == 0).all(-1)
        larger = np.prod(np.abs(finite) + error, -1)
        spread = larger - np.prod(np.abs(finite), -1) + (count * unit) * larger
        spread = np.where((small < 1e-30) & ~certain, np.inf, spread)
    special_ = ~np.isfinite(of).all(-1)
    certain |= special_ & (error == 0).all(-1)
    if op == "*":  # where factors underflow to 0 before they meet an infinity, there is a NaN
        decided = (np.isnan(of) | (of == 0)).any(-1)  # it is one anyway
        certain &= ~(np.isinf(of).any(-1) & ~decided & (small < 1e-30))
    spread = np.where(certain, 0.0, np.where(special_ & (error > 0).any(-1), np.inf, spread))
    # Partial results in another order may overflow.
    spread = np.where(terms > 0.98 * _LARGE[wide], np.inf, np.nan_to_num(spread, nan=np.inf, posinf=np.inf))
    return rounded(t, out, spread)


def _flat(a: Array, axes: tuple[int, ...]) -> Array:
    """The axes as one, the last."""
    kept = [i for i in range(a.ndim) if i not in axes]
    return np.transpose(a, (*kept, *axes)).reshape(
        *(a.shape[i] for i in kept), math.prod(a.shape[i] for i in axes)
    )
