"""The values of expressions at all points of a region at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tc.errors import BoundsError, unreachable
from tc.interpreter.arithmetic import Array, binary, convert, fold, function, numpy_type, rounded
from tc.interpreter.complex_numbers import FUNCTIONS, divided, form, multiplied
from tc.interpreter.regions import Region
from tc.lang import resolved as r
from tc.lang.exact import is_inexact


@dataclass(frozen=True, slots=True)
class Env:
    """Index variables as broadcastable arrays; `mask` where the point is live (None: everywhere)."""

    statement: int
    values: Mapping[str, Array]
    mask: Array | None
    shape: tuple[int, ...]

    def under(self, condition: Array) -> Env:
        mask = condition if self.mask is None else self.mask & condition
        return Env(self.statement, self.values, mask, self.shape)


class Expressions:
    """Evaluates the expressions of statements, given sizes, scalars, counters of loops and boxes.

    `reading` has the elements of a tensor at zero-based coordinates: whoever runs statements sets it.
    """

    def __init__(
        self, statements: Sequence[r.Statement], sizes: Mapping[str, int], scalars: Mapping[str, complex]
    ) -> None:
        self.statements = statements
        self.sizes = sizes
        self.scalars = scalars
        self.known = {**sizes, **{k: v for k, v in scalars.items() if isinstance(v, int)}}
        self.boxes: dict[r.Tensor, Region] = {}
        self.reading: Callable[[r.Tensor, list[Array], Env], Array]

    def evaluate(self, e: r.Exp, env: Env) -> Array:
        match e:
            case r.Const():
                if e.dtype is None:
                    return np.asarray(e.value)
                return np.asarray(e.value).astype(numpy_type(e.dtype))
            case r.Imaginary():
                return np.asarray(complex(0.0, e.value))
            case r.Index():
                return env.values[e.name].astype(numpy_type(e.dtype)) if e.dtype else env.values[e.name]
            case r.Size():
                return np.asarray(self.sizes[e.name], numpy_type(e.dtype) if e.dtype else np.int64)
            case r.Scalar():
                return np.asarray(self.scalars[e.name]).astype(numpy_type(e.declared))
            case r.Counter():
                return np.asarray(self.known[e.name], numpy_type(e.dtype) if e.dtype else np.int64)
            case r.ExtentOf():
                lo, hi = self.boxes[e.tensor.storage][e.axis]
                return np.asarray(hi - lo, numpy_type(e.dtype) if e.dtype else np.int64)
            case r.LastIndex():
                kind = numpy_type(e.dtype) if e.dtype else np.dtype(np.int64)
                return np.asarray(np.iinfo(kind).max, kind)
            case r.OriginOf():
                at = self.origin(e.tensor)[e.axis]
                return np.asarray(at, numpy_type(e.dtype) if e.dtype else np.int64)
            case r.Let():
                return self.evaluate(self.statements[env.statement].let(e.name), env)
            case r.Access():
                return self._access(e, env)
            case r.Apply():
                return self._apply(e, env)
            case r.Unary():
                operand = self.evaluate(e.operand, env)
                return np.logical_not(operand) if e.op == "!" else np.negative(operand)
            case r.Binary(op="*" | "/") if e.dtype is not None and e.dtype.is_complex:
                st = self.statements[env.statement]
                kinds = form(e.left, st), form(e.right, st)
                return (multiplied if e.op == "*" else divided)(
                    self.evaluate(e.left, env), self.evaluate(e.right, env), *kinds
                )
            case r.Binary():
                return binary(e.op, self.evaluate(e.left, env), self.evaluate(e.right, env))
            case r.If():
                condition = np.asarray(self.evaluate(e.condition, env))
                then = self.evaluate(e.then, env.under(np.broadcast_to(condition, env.shape)))
                otherwise = self.evaluate(e.otherwise, env.under(np.broadcast_to(~condition, env.shape)))
                return np.where(condition, then, otherwise)
            case r.Cast():
                value = convert(self.evaluate(e.operand, env), e.target)
                inexact = e.target.is_float or e.target.is_complex
                return rounded(value, e.target) if e.written and inexact else value
            case _:
                unreachable(e)

    def _access(self, e: r.Access, env: Env) -> Array:
        at: list[Array] = []
        shape = [hi - lo for lo, hi in self.boxes[e.tensor.storage]]
        for d, (sub, origin) in enumerate(zip(e.subscripts, self.origin(e.tensor), strict=True)):
            index = np.asarray(self._index(sub, env)).astype(np.int64) - origin
            good = (index >= 0) & (index < shape[d])
            live = good if env.mask is None else good | ~env.mask
            if not np.all(live):
                where = np.argwhere(~np.broadcast_to(live, env.shape))[0]
                value = int(np.broadcast_to(index, env.shape)[tuple(where)]) + origin
                raise BoundsError(
                    f"subscript {value} of '{e.tensor.name}' is outside dimension {d}, "
                    f"{origin} to {origin + shape[d] - 1}",
                    sub.span,
                    code="TC0701",
                )
            at.append(np.where(good, index, 0))
        if 0 in shape:  # nothing is live here, and there is nothing to read
            dtype = numpy_type(e.dtype) if e.dtype else np.dtype(np.float64)
            return np.zeros(np.broadcast_shapes(*(a.shape for a in at)), dtype)
        return self.reading(e.tensor, at, env)

    def _index(self, e: r.Exp, env: Env) -> Array:
        """A subscript: exact integers, data in its own type."""
        if isinstance(e, r.Let):
            return self._index(self.statements[env.statement].let(e.name), env)
        if isinstance(e, r.Index):
            return env.values[e.name]
        st = self.statements[env.statement]
        if is_inexact(r.expand_lets(e, st)):
            return self.evaluate(e, env)
        match e:
            case r.Cast():
                return self._index(e.operand, env)
            case r.Binary() if e.op in ("+", "-", "*", "/", "%"):
                a, b = (np.asarray(self._index(c, env)).astype(np.int64) for c in (e.left, e.right))
                return binary(e.op, a, b)
            case r.Unary(op="-"):
                return -np.asarray(self._index(e.operand, env)).astype(np.int64)
            case _:
                return self.evaluate(e, env)

    def _apply(self, e: r.Apply, env: Env) -> Array:
        args = [self.evaluate(a, env) for a in e.args]
        match e.function:
            case "min":
                return fold(np.minimum, args)
            case "max":
                return fold(np.maximum, args)
            case "select":
                return np.where(args[0], args[1], args[2])
            case "abs":
                return np.abs(args[0])
            case "nextafter" if e.dtype is not None and e.dtype.bits <= 32:
                # The one function whose meaning lies in the precision of its type.
                return np.nextafter(args[0].astype(np.float32), args[1].astype(np.float32)).astype(np.float64)
            case name if name in FUNCTIONS:
                return FUNCTIONS[name](*args)
            case name:
                complex_values = e.dtype is not None and e.dtype.is_complex
                return np.asarray(function(name)(*args), np.complex128 if complex_values else np.float64)

    def origin(self, t: r.Tensor) -> tuple[int, ...]:
        """The coordinate, as seen through `t`, of the first stored element."""
        return (0,) * t.rank if t.base is not None else tuple(lo for lo, _ in self.boxes[t])
