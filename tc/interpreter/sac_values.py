# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Values of the SaC oracle: NumPy arrays with element types, and their arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import BOOL, FLOAT64, INT32, DType, promote
from tc.errors import DTypeError, PreconditionError, Span

Array = np.ndarray[Any, Any]
Type = DType | str  # "int" and "float" are the types of literals

_SAME_NAME = (
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "floor",
    "ceil",
    "fabs",
    "fmod",
)
FUNCTIONS: dict[str, Any] = {
    **{n: getattr(np, n) for n in _SAME_NAME},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "pow": np.power,
}


@dataclass(frozen=True, slots=True)
class Value:
    """`data` holds floats in float64 and integers in their type.  `symbols`: index variables that it is the
    value of."""

    data: Array
    dtype: Type
    symbols: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape


def settle(dtype: Type) -> DType:
    return (INT32 if dtype == "int" else FLOAT64) if isinstance(dtype, str) else dtype


def storage(dtype: Type) -> np.dtype[Any]:
    """How elements are held: literals of integers in 64 bits."""
    if isinstance(dtype, str):
        return np.dtype(np.int64 if dtype == "int" else np.float64)
    return np.dtype(np.float64) if dtype.is_float else np.dtype(dtype.name)


def cast(v: Value, target: Type) -> Value:
    """A conversion: integers wrap, floats truncate, saturate and give 0 for NaN."""
    if isinstance(target, DType) and target.is_int and v.data.dtype.kind == "f":
        whole = np.trunc(np.nan_to_num(v.data, nan=0.0, posinf=np.inf, neginf=-np.inf))
        lo, hi = int(target.min), int(target.max)
        flat = [lo if x <= lo else hi if x >= hi else int(x) for x in whole.ravel().tolist()]
        return Value(np.array(flat, storage(target)).reshape(v.shape), target)
    with np.errstate(all="ignore"):
        return Value(np.asarray(v.data.astype(storage(target))), target)


def join(a: Type, b: Type, arithmetic: bool = True) -> Type:
    if isinstance(a, str) and isinstance(b, str):
        return "float" if "float" in (a, b) else "int"
    if isinstance(a, str):
        a, b = b, a
    if isinstance(b, str):
        assert isinstance(a, DType)
        if b == "float" and not a.is_float:
            return FLOAT64
        return promote(a, a) if arithmetic else a
    assert isinstance(a, DType)
    return a if a == b and not arithmetic else promote(a, b)


def common(values: Sequence[Value], span: Span) -> tuple[list[Array], tuple[int, ...]]:
    """The data of operands of one shape, or scalars."""
    shapes = {v.shape for v in values if v.shape}
    if len(shapes) > 1:
        shown = " and ".join(str(list(x)) for x in sorted(shapes))
        raise PreconditionError(f"the shapes {shown} differ", span, code="TC0601")
    return [v.data for v in values], next(iter(shapes), ())


def binary(op: str, a: Value, b: Value, span: Span) -> Value:
    if op in ("&&", "||"):
        (x, y), _ = common([a, b], span)
        if a.dtype != BOOL or b.dtype != BOOL:
            raise DTypeError(f"expected bool for '{op}'", span, code="TC0451")
        return Value(np.asarray(x & y if op == "&&" else x | y), BOOL)
    dtype = join(a.dtype, b.dtype)
    (x, y), _ = common([cast(a, dtype), cast(b, dtype)], span)
    with np.errstate(all="ignore"):
        match op:
            case "==" | "!=" | "<" | ">" | "<=" | ">=":
                compare = {"==": "equal", "!=": "not_equal", "<": "less", ">": "greater"}
                name = compare.get(op, "less_equal" if op == "<=" else "greater_equal")
                return Value(np.asarray(getattr(np, name)(x, y)), BOOL)
            case "+":
                out = np.add(x, y)
            case "-":
                out = np.subtract(x, y)
            case "*":
                out = np.multiply(x, y)
            case _:
                out = _divided(op, x, y, dtype, span)
        return Value(np.asarray(out).astype(storage(dtype)), dtype)


def _divided(op: str, x: Array, y: Array, dtype: Type, span: Span) -> Any:
    """`/` and `%`: of integers towards zero, and 0 for a divisor of 0."""
    if storage(dtype).kind == "f":
        if op == "%":
            raise DTypeError("'%' is for integers", span, code="TC0452")
        return np.divide(x, y)
    shape = np.broadcast_shapes(x.shape, y.shape)
    pairs = zip(np.broadcast_to(x, shape).ravel().tolist(), np.broadcast_to(y, shape).ravel().tolist())
    found = [_truncated(op, p, q) for p, q in pairs]
    bits = settle(dtype) if dtype != "int" else None
    wrapped = [bits.wrap(n) if bits is not None else n for n in found]
    return np.array(wrapped, storage(dtype)).reshape(shape)


def _truncated(op: str, p: int, q: int) -> int:
    if q == 0:
        return 0
    whole = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
    return whole if op == "/" else p - whole * q


def negated(v: Value) -> Value:
    dtype = v.dtype if isinstance(v.dtype, str) else promote(v.dtype, v.dtype)
    with np.errstate(all="ignore"):
        return Value(np.asarray(-cast(v, dtype).data), dtype)


def math(name: str, args: Sequence[Value], span: Span) -> Value:
    dtype: Type = args[0].dtype
    for a in args[1:]:
        dtype = join(dtype, a.dtype)
    target = settle(dtype) if settle(dtype).is_float else FLOAT64
    data, _ = common([cast(a, FLOAT64) for a in args], span)
    with np.errstate(all="ignore"):
        return Value(np.asarray(FUNCTIONS[name](*data)), target)


def reduce(op: str, v: Value) -> Value:
    """All elements with + * min max; the neutral element where there are none."""
    v = cast(v, INT32) if v.dtype == BOOL else v
    dtype = settle(v.dtype)
    data = cast(v, dtype).data
    if not data.size:
        start = {"+": 0, "*": 1, "min": dtype.max, "max": dtype.min}[op]
        return Value(np.array(start, storage(dtype)), dtype)
    with np.errstate(all="ignore"):
        match op:
            case "+":
                out = np.add.reduce(data, axis=None, dtype=storage(dtype))
            case "*":
                out = np.multiply.reduce(data, axis=None, dtype=storage(dtype))
            case "min":
                out = np.min(data)
            case _:
                out = np.max(data)
    return Value(np.asarray(out), dtype)
