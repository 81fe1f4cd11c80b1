"""The oracle: what a program means, in NumPy.

Integers are computed in their declared types (two's complement), floats in float64, straight from the
typed tree and concrete ranges; no IR, no isl, no generated code.  Spaces are walked in chunks, so that a
reduction over 10^9 points needs no 10^9 elements at once.  With `points` only chosen output elements
are computed, on demand through the statements, for problems too large to run whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tc.errors import BoundsError, InternalError, unreachable
from tc.interpreter.arithmetic import (
    UFUNCS,
    Array,
    binary,
    convert,
    fold,
    function,
    neutral,
    numpy_type,
    poison,
    rounded,
)
from tc.interpreter.complex_numbers import FUNCTIONS, divided, form, multiplied
from tc.ir.evaluate import evaluate
from tc.ir.program import Range
from tc.lang import resolved as r
from tc.lang.exact import is_inexact
from tc.lang.types import Typed
from tc.ranges import Bound, Ranges

Region = tuple[tuple[int, int], ...]  # half-open per dimension

CHUNK = 1 << 20  # points evaluated at once


def run(
    typed: Typed,
    ranges: Ranges,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    scalars: Mapping[str, complex],
    outputs: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """All returned tensors; floating ones as float64, complex ones as complex128.

    `arrays`: the tensor parameters; `outputs`: caller's buffers of in/out or accumulated results (they
    are not written).  Sizes must satisfy the preconditions.
    """
    machine = _Machine(typed, ranges, sizes, arrays, scalars, outputs or {})
    with np.errstate(all="ignore"):
        machine.block(range(len(typed.checked.statements)), 0)
    return {out.name: machine.values[out.tensor.storage] for out in typed.checked.returns}


def run_points(
    typed: Typed,
    ranges: Ranges,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    scalars: Mapping[str, complex],
    outputs: Mapping[str, Array] | None,
    points: Mapping[str, Array],
) -> dict[str, Array]:
    """Chosen elements: `points[name]` has shape (n, rank), zero-based; the result has shape (n,)."""
    if any(
        st.loops or st.scattered for st in typed.checked.statements
    ):  # an element may need all iterations before
        whole = run(typed, ranges, sizes, arrays, scalars, outputs)
        ranked = {n: np.asarray(at, np.int64).reshape(-1, whole[n].ndim) for n, at in points.items()}
        return {n: whole[n][tuple(at.T)] for n, at in ranked.items()}
    machine = _Machine(typed, ranges, sizes, arrays, scalars, outputs or {})
    returned = {out.name: out.tensor for out in typed.checked.returns}
    result: dict[str, Array] = {}
    with np.errstate(all="ignore"):
        for name, at in points.items():
            storage = returned[name].storage
            at = np.asarray(at, np.int64).reshape(-1, storage.rank)
            logical = [at[:, d] + lo for d, (lo, _) in enumerate(machine.boxes[storage])]
            result[name] = machine.elements(storage, logical, len(typed.checked.statements), len(at))
    return result


@dataclass(frozen=True, slots=True)
class _Env:
    """Index variables as broadcastable arrays; `mask` where the point is live (None: everywhere)."""

    statement: int
    values: Mapping[str, Array]
    mask: Array | None
    shape: tuple[int, ...]

    def under(self, condition: Array) -> _Env:
        mask = condition if self.mask is None else self.mask & condition
        return _Env(self.statement, self.values, mask, self.shape)


class _Machine:
    def __init__(
        self,
        typed: Typed,
        ranges: Ranges,
        sizes: Mapping[str, int],
        arrays: Mapping[str, Array],
        scalars: Mapping[str, complex],
        outputs: Mapping[str, Array],
    ) -> None:
        self.typed = typed
        self.statements = typed.checked.statements
        self.sizes = sizes
        self.scalars = scalars
        self.known = {**sizes, **{k: v for k, v in scalars.items() if isinstance(v, int)}}
        self.ranges = ranges
        self.boxes: dict[r.Tensor, Region] = {}
        for t, box in ranges.boxes.items():
            self.boxes[t] = tuple(_range(b, self.known) for b in box)
        self.variables: list[dict[str, tuple[int, int]]] = [{} for _ in ranges.variables]
        for k, st in enumerate(self.statements):
            if not st.loops:
                self.measure(k)
        self.values: dict[r.Tensor, Array] = {}
        self.initial: dict[r.Tensor, Array] = {}
        for p in typed.checked.params:
            if isinstance(p, r.Tensor):
                self.values[p] = np.asarray(arrays[p.name]).astype(numpy_type(typed.dtype(p)), copy=False)
        for out in typed.checked.returns:
            if out.mode != "fresh" and out.name in outputs:
                storage = out.tensor.storage
                value = np.asarray(outputs[out.name]).astype(numpy_type(typed.dtype(storage)))
                self.initial[storage] = self.values[storage] = value
        self.reading: Callable[[r.Tensor, list[Array], _Env], Array] = self._read_array
        self.snapshot: tuple[r.Tensor, Array] | None = None
        self.undefined: set[r.Tensor] = set()  # read before anything has defined an element

    # ---- whole tensors

    def block(self, statements: Sequence[int], depth: int) -> None:
        """Run statements of one block, at this depth of sequential loops, in order."""

        def loop_of(k: int) -> r.Loop | None:
            loops = self.statements[k].loops
            return loops[depth] if len(loops) > depth else None

        for loop, group in itertools.groupby(statements, loop_of):
            inner = list(group)
            if loop is None:
                for k in inner:
                    self.execute(k)
                continue
            low, high = _range(self.ranges.counters[loop.name], self.known)
            for value in reversed(range(low, high)) if loop.down else range(low, high):
                self.known[loop.name] = value
                for k in inner:
                    if len(self.statements[k].loops) == depth + 1:
                        self.measure(k)
                self.block(inner, depth + 1)

    def measure(self, k: int) -> None:
        """The ranges of a statement's variables, in the iteration in hand."""
        found = self.ranges.variables[k]
        self.variables[k] = {v: _range(b, self.known) for v, b in found.items()}

    def execute(self, k: int) -> None:
        """Run one statement: its right-hand side is read in full before anything is written."""
        st = self.statements[k]
        storage = st.target.storage
        dtype = self.typed.dtype(storage)
        first = storage not in self.values and storage not in self.undefined
        if first or (storage in self.undefined and st.reduces):
            start = neutral(st.op, dtype) if st.reduces else poison(dtype)
            self.values[storage] = self._filled(storage, start)
        self.undefined.discard(storage)
        target = self.values[storage]
        if any(a.tensor.storage is storage for e in st.roots() for a in r.accesses(e)):
            self.snapshot = (storage, target.copy())
        if st.initializes and not first:
            for region in _chunks(self._region(k, st.indices)):
                env = self._env(k, st.indices, region)
                live = self._lhs_conditions(st, env)
                where = self._slices(st, env, region)
                target[where] = np.where(live, neutral(st.op, dtype), target[where])
        names = st.variables
        for region in _chunks(self._region(k, names)):
            env = self._env(k, names, region)
            for c in st.conditions:
                env = env.under(np.broadcast_to(self.evaluate(c, env), env.shape))
            value = np.broadcast_to(self.evaluate(st.value, env), env.shape)
            if st.scattered:
                self._scatter(st, env, value, target)
                continue
            where = self._slices(st, env, region[: len(st.indices)])
            mask = env.mask
            if mask is not None:
                mask = np.broadcast_to(mask, env.shape)
                where, kept = _within(where, target.shape)
                value, mask = value[kept], mask[kept]
            if not st.reduces:
                target[where] = value if mask is None else np.where(mask, value, target[where])
                continue
            if mask is not None:
                value = np.where(mask, value, np.asarray(neutral(st.op, dtype), value.dtype))
            axes = tuple(range(len(st.indices), len(names)))
            ufunc = UFUNCS[st.op.rstrip("!").rstrip("=")]
            if axes:
                value = ufunc.reduce(value, axis=axes, dtype=value.dtype)
            target[where] = ufunc(target[where], value)
        self.snapshot = None

    def _scatter(self, st: r.Statement, env: _Env, value: Array, target: Array) -> None:
        """Update elements that data choose, one point after the other."""
        live = np.ones(env.shape, np.bool_) if env.mask is None else np.broadcast_to(env.mask, env.shape)
        at: list[Array] = []
        for d, (sub, origin) in enumerate(zip(st.subscripts, self._origin(st.target), strict=True)):
            if sub.data is not None:
                index = np.asarray(self._index(sub.data, env)).astype(np.int64)
            else:
                offset = int(self.evaluate(sub.offset, env)) if sub.offset is not None else 0
                index = env.values[sub.index] + offset
            index = np.broadcast_to(index, env.shape)[live] - origin
            bad = (index < 0) | (index >= target.shape[d])
            if bad.any():
                found = int(index[bad][0]) + origin
                raise BoundsError(
                    f"subscript {found} of '{st.target.name}' is outside dimension {d}, "
                    f"{origin} to {origin + target.shape[d] - 1}",
                    sub.span,
                    code="TC0701",
                )
            at.append(index)
        UFUNCS[st.op.rstrip("!").rstrip("=")].at(target, tuple(at), value[live].astype(target.dtype))

    def _filled(self, storage: r.Tensor, value: complex) -> Array:
        shape = tuple(hi - lo for lo, hi in self.boxes[storage])
        return np.full(shape, value, numpy_type(self.typed.dtype(storage)))

    def _region(self, k: int, names: Sequence[str]) -> Region:
        return tuple(self.variables[k][v] for v in names)

    def _env(self, k: int, names: Sequence[str], region: Region) -> _Env:
        values: dict[str, Array] = {}
        for d, (v, (lo, hi)) in enumerate(zip(names, region, strict=True)):
            shape = [1] * len(names)
            shape[d] = hi - lo
            values[v] = np.arange(lo, hi, dtype=np.int64).reshape(shape)
        return _Env(k, values, None, tuple(hi - lo for lo, hi in region))

    def _lhs_conditions(self, st: r.Statement, env: _Env) -> Array:
        """The conditions that the left-hand side's variables decide; the others cut no initialisation."""
        live = np.ones(env.shape, np.bool_)
        for c in st.conditions:
            used = {e.name for e in r.walk(r.expand_lets(c, st)) if isinstance(e, r.Index)}
            if used <= set(st.indices):
                live &= np.broadcast_to(self.evaluate(c, env), env.shape)
        return live

    def _slices(self, st: r.Statement, env: _Env, region: Region) -> tuple[slice, ...]:
        origin = self._origin(st.target)
        out: list[slice] = []
        for sub, (lo, hi), at in zip(st.subscripts, region, origin, strict=True):
            offset = int(self.evaluate(sub.offset, env)) if sub.offset is not None else 0
            out.append(slice(lo + offset - at, hi + offset - at))
        return tuple(out)

    def _origin(self, t: r.Tensor) -> tuple[int, ...]:
        """The coordinate, as seen through `t`, of the first stored element."""
        return (0,) * t.rank if t.base is not None else tuple(lo for lo, _ in self.boxes[t])

    def _read_array(self, t: r.Tensor, at: list[Array], env: _Env) -> Array:
        storage = t.storage
        held = self.snapshot
        if storage not in self.values:  # an iteration reads none of what later ones define
            self.values[storage] = self._filled(storage, poison(self.typed.dtype(storage)))
            self.undefined.add(storage)
        values = held[1] if held is not None and held[0] is storage else self.values[storage]
        return values[tuple(at)] if at else values[()]

    # ---- chosen elements

    def elements(self, storage: r.Tensor, at: list[Array], before: int, count: int) -> Array:
        """The values `storage` has before statement `before` at logical coordinates (arrays of `count`)."""
        if count == 0:
            return np.empty(0, numpy_type(self.typed.dtype(storage)))
        k = before - 1
        while k >= 0 and self.statements[k].target.storage is not storage:
            k -= 1
        dtype = self.typed.dtype(storage)
        if k < 0:
            source = self.initial.get(storage, self.values.get(storage))
            if source is None:
                return np.full(count, poison(dtype), numpy_type(dtype))
            return source[tuple(a - lo for a, (lo, _) in zip(at, self.boxes[storage], strict=True))]
        st = self.statements[k]
        empty = _Env(k, {}, None, (count,))
        shift = [lo - o for (lo, _), o in zip(self.boxes[storage], self._origin(st.target), strict=True)]
        values: dict[str, Array] = {}
        inside = np.ones(count, np.bool_)
        for sub, a, s in zip(st.subscripts, at, shift, strict=True):
            offset = int(self.evaluate(sub.offset, empty)) if sub.offset is not None else 0
            values[sub.index] = a - s - offset
            lo, hi = self.variables[k][sub.index]
            inside &= (values[sub.index] >= lo) & (values[sub.index] < hi)
        first = storage not in self.initial and not any(
            s.target.storage is storage for s in self.statements[:k]
        )
        result = np.full(count, poison(dtype), numpy_type(dtype))
        if st.reduces and first:
            result[:] = neutral(st.op, dtype)
        env = _Env(k, values, inside, (count,))
        if not st.reduces:
            for c in st.conditions:
                inside = inside & np.broadcast_to(self._point_value(c, env), (count,))
            env = _Env(k, values, inside, (count,))
            result[inside] = np.broadcast_to(self._point_value(st.value, env), (count,))[inside]
            keep = ~inside
        else:
            fresh = np.zeros(count, np.bool_)
            if st.initializes and not first:
                fresh = inside & self._lhs_conditions(st, env)
                result[fresh] = neutral(st.op, dtype)
            keep = ~fresh if not first else np.zeros(count, np.bool_)
        if keep.any():
            result[keep] = self.elements(storage, [a[keep] for a in at], k, int(keep.sum()))
        if st.reduces:
            self._reduce_points(k, st, env, inside, result)
        return result

    def _reduce_points(self, k: int, st: r.Statement, env: _Env, inside: Array, result: Array) -> None:
        ufunc = UFUNCS[st.op.rstrip("!").rstrip("=")]
        dtype = self.typed.dtype(st.target.storage)
        rank = len(st.reductions)
        step = max(1, CHUNK // max(1, len(inside)))
        for region in _chunks(self._region(k, st.reductions), step):
            values: dict[str, Array] = {v: a.reshape(-1, *[1] * rank) for v, a in env.values.items()}
            inner = self._env(k, st.reductions, region)
            values |= {v: a[None] for v, a in inner.values.items()}
            shape = (len(inside), *inner.shape)
            mask = np.broadcast_to(inside.reshape(-1, *[1] * rank), shape)
            chunk = _Env(k, values, mask, shape)
            for c in st.conditions:
                chunk = chunk.under(np.broadcast_to(self._point_value(c, chunk), shape))
            raw = np.broadcast_to(self._point_value(st.value, chunk), shape)
            live = mask if chunk.mask is None else chunk.mask
            value: Array = np.where(live, raw, np.asarray(neutral(st.op, dtype), raw.dtype))
            axes = tuple(range(1, rank + 1))
            result[:] = ufunc(result, ufunc.reduce(value, axis=axes, dtype=value.dtype) if axes else value)

    def _point_value(self, e: r.Exp, env: _Env) -> Array:
        held, self.reading = self.reading, self._read_points
        try:
            return self.evaluate(e, env)
        finally:
            self.reading = held

    def _read_points(self, t: r.Tensor, at: list[Array], env: _Env) -> Array:
        storage = t.storage
        if storage.role == "param" and storage in self.values:
            return self._read_array(t, at, env)
        logical = [a + lo for a, (lo, _) in zip(at, self.boxes[storage], strict=True)]
        full: list[Array] = list(np.broadcast_arrays(*logical)) if logical else []
        shape = full[0].shape if full else ()
        table = np.stack([a.reshape(-1) for a in full], 1) if full else np.zeros((1, 0), np.int64)
        unique, inverse = np.unique(table, axis=0, return_inverse=True)
        values = self.elements(storage, list(unique.T), env.statement, len(unique))
        return values[inverse.reshape(-1)].reshape(shape)

    # ---- expressions

    def evaluate(self, e: r.Exp, env: _Env) -> Array:
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
                at = self._origin(e.tensor)[e.axis]
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

    def _access(self, e: r.Access, env: _Env) -> Array:
        at: list[Array] = []
        shape = [hi - lo for lo, hi in self.boxes[e.tensor.storage]]
        for d, (sub, origin) in enumerate(zip(e.subscripts, self._origin(e.tensor), strict=True)):
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

    def _index(self, e: r.Exp, env: _Env) -> Array:
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

    def _apply(self, e: r.Apply, env: _Env) -> Array:
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


def _range(b: Bound, known: Mapping[str, int]) -> tuple[int, int]:
    if not isinstance(b, Range):
        raise InternalError(f"a range still {b}")
    lo = evaluate(b.min, known)
    return lo, lo + evaluate(b.extent, known)


def _within(where: tuple[slice, ...], shape: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of a box that lies in an array, and where that part is in the box.  The rest is what the
    conditions of a statement cut away."""
    starts = [min(max(s.start, 0), n) for s, n in zip(where, shape, strict=True)]
    ends = [max(min(s.stop, n), a) for s, n, a in zip(where, shape, starts, strict=True)]
    inside = tuple(slice(a, b) for a, b in zip(starts, ends, strict=True))
    kept = tuple(slice(a - s.start, b - s.start) for a, b, s in zip(starts, ends, where, strict=True))
    return inside, kept


def _chunks(region: Region, limit: int = 0) -> Iterator[Region]:
    """Parts of a box of at most `limit` points, in lexicographic order; nothing for an empty one."""
    limit = limit or CHUNK
    if any(hi <= lo for lo, hi in region):
        return
    steps: list[int] = []
    room = limit
    for lo, hi in reversed(region):
        step = max(1, min(hi - lo, room))
        room //= step
        steps.append(step)
    steps.reverse()
    parts = [
        [(a, min(a + step, hi)) for a in range(lo, hi, step)]
        for (lo, hi), step in zip(region, steps, strict=True)
    ]
    yield from itertools.product(*parts)
