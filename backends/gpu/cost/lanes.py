"""Index expressions, evaluated for all lanes of many warps, and the sectors of global memory that they touch.

Global memory is fetched in 32 bytes (CUDA C++ programming guide, "Device memory accesses").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tc.dtypes import DType
from tc.errors import InternalError
from tc.interpreter.arithmetic import function
from tc.ir import expr as x
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, Load
from tc.ir.loops import Array
from tc.ir.printer import text
from tc.poly.gpu.banks import Lanes

SECTOR = 32
LINE = 128  # bytes of a line of the L1 cache


def sectors(addresses: Lanes, mask: Lanes, itemsize: int) -> tuple[Lanes, Lanes]:
    """For each row of byte addresses the sectors that its active lanes touch, and the sectors that as many
    distinct elements would touch if they were contiguous and aligned."""
    active = _active(addresses, mask)
    return _distinct(active // SECTOR), -(-_distinct(active) * itemsize // SECTOR)


def lines(addresses: Lanes, mask: Lanes) -> Lanes:
    """For each row of byte addresses the lines of the L1 cache that its active lanes touch."""
    return _distinct(_active(addresses, mask) // LINE)


def _active(addresses: Lanes, mask: Lanes) -> Lanes:
    """Sorted rows in which lanes that are not active have the address of one that is."""
    first = addresses[np.arange(len(addresses)), mask.argmax(1)][:, None]
    return np.sort(np.where(mask, addresses, first), axis=1)


def _distinct(ordered: Lanes) -> Lanes:
    return 1 + (np.diff(ordered) != 0).sum(1)


_where: Callable[[Any, Any, Any], Lanes] = np.where
_OPERATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    x.Add: np.add, x.Sub: np.subtract, x.Mul: np.multiply, x.Min: np.minimum, x.Max: np.maximum,
    x.EQ: np.equal, x.NE: np.not_equal, x.LT: np.less, x.LE: np.less_equal, x.GT: np.greater,
    x.GE: np.greater_equal, x.And: np.logical_and, x.Or: np.logical_or,
}  # fmt: skip
# The operations of index expressions.
INDEX = (
    x.IntImm, x.UIntImm, x.Variable, x.Cast, x.Not, x.FloorDiv, x.FloorMod, x.Select, x.IfThenElse,
    *_OPERATIONS,
)  # fmt: skip


def evaluate_lanes(
    e: Expr, env: Mapping[str, Lanes], load: Callable[[Load, Mapping[str, Lanes]], Lanes] | None = None
) -> Any:
    """The value of an index expression or of a condition for each lane; a scalar argument counts as 0, an
    array element as the result of `load`."""
    match e:
        case x.IntImm() | x.UIntImm() | x.FloatImm():
            return e.value
        case x.Variable():
            return env.get(e.name, 0)
        case x.Cast():
            value = evaluate_lanes(e.value, env, load)
            if e.value.dtype.is_float and e.dtype.is_int:
                value = _truncate(value)
            return np.asarray(value).astype(e.dtype.name).astype(np.int64) if _is_narrow(e.dtype) else value
        case x.Div():
            with np.errstate(all="ignore"):
                return np.divide(evaluate_lanes(e.a, env, load), evaluate_lanes(e.b, env, load))
        case x.Call(name="abs", kind="intrinsic"):
            return np.abs(evaluate_lanes(e.args[0], env, load))
        case x.Call(kind="intrinsic"):
            with np.errstate(all="ignore"):
                return function(e.name)(*(np.float64(evaluate_lanes(a, env, load)) for a in e.args))
        case x.Not():
            return np.logical_not(evaluate_lanes(e.a, env, load))
        case x.FloorDiv() | x.FloorMod():
            a, b = evaluate_lanes(e.a, env, load), np.asarray(evaluate_lanes(e.b, env, load))
            divided: Callable[[Any, Any], Lanes] = (
                np.floor_divide if isinstance(e, x.FloorDiv) else np.remainder
            )
            return _where(b == 0, 0, divided(a, b + (b == 0)))
        case x.Select() | x.IfThenElse():
            return _where(*(evaluate_lanes(c, env, load) for c in x.children(e)))
        case Load() if load is not None:
            return load(e, env)
        case _ if type(e) in _OPERATIONS:
            return _OPERATIONS[type(e)](*(evaluate_lanes(c, env, load) for c in x.children(e)))
        case _:
            raise InternalError(f"not an index expression: {text(e)}")


def _is_narrow(t: DType) -> bool:
    return t.is_int and t.bits < 32


def _truncate(value: Any) -> Lanes:
    """Floating-point values truncated to integers; indices are below 2^53."""
    return np.trunc(np.nan_to_num(np.clip(value, -(2.0**53), 2.0**53))).astype(np.int64)


def strides_of(a: Array, sizes: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """The extents and the strides, in elements, of an array's dimensions."""
    shape = [max(0, evaluate(n, sizes)) for n in a.shape]
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * (shape[d + 1] + (a.padding if d == len(shape) - 2 else 0))
    return shape, strides
