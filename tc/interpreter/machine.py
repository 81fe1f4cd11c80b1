"""The oracle: what a program means, in NumPy.

Integers are computed in their declared types (two's complement), floats in float64, straight from the
typed tree and concrete ranges; no IR, no isl, no generated code.  Spaces are walked in chunks, so that a
reduction over 10^9 points needs no 10^9 elements at once.  With `points` only chosen output elements
are computed, on demand through the statements, for problems too large to run whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from tc.errors import BoundsError, InternalError
from tc.interpreter.arithmetic import UFUNCS, Array, neutral, numpy_type, poison
from tc.interpreter.expressions import Env, Expressions
from tc.interpreter.regions import CHUNK, Region, chunks, within
from tc.ir.evaluate import evaluate
from tc.ir.program import Range
from tc.lang import resolved as r
from tc.lang.types import Typed
from tc.ranges import Bound, Ranges


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
    return {out.name: machine.result(out.tensor.storage) for out in typed.checked.returns}


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
        ranked = {n: _positions(at, whole[n].ndim) for n, at in points.items()}
        return {n: np.broadcast_to(whole[n][tuple(at.T)], len(at)) for n, at in ranked.items()}
    machine = _Machine(typed, ranges, sizes, arrays, scalars, outputs or {})
    returned = {out.name: out.tensor for out in typed.checked.returns}
    result: dict[str, Array] = {}
    with np.errstate(all="ignore"):
        for name, at in points.items():
            storage = returned[name].storage
            at = _positions(at, storage.rank)
            logical = [at[:, d] + lo for d, (lo, _) in enumerate(machine.boxes[storage])]
            result[name] = machine.elements(storage, logical, len(typed.checked.statements), len(at))
    return result


def _positions(at: Array, rank: int) -> Array:
    """Subscripts, one row for each element; those of a tensor without dimensions are empty rows."""
    found = np.asarray(at, np.int64)
    return found.reshape(-1, rank) if rank else found.reshape(len(found) if found.ndim else 1, 0)


class _Machine(Expressions):
    def __init__(
        self,
        typed: Typed,
        ranges: Ranges,
        sizes: Mapping[str, int],
        arrays: Mapping[str, Array],
        scalars: Mapping[str, complex],
        outputs: Mapping[str, Array],
    ) -> None:
        super().__init__(typed.checked.statements, sizes, scalars)
        self.typed = typed
        self.ranges = ranges
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
        self.reading = self._read_array
        self.snapshot: tuple[r.Tensor, Array] | None = None
        self.undefined: set[r.Tensor] = set()  # read before anything has defined an element

    def result(self, storage: r.Tensor) -> Array:
        """A tensor after the last statement; one that loops without iterations define has no elements."""
        found = self.values.get(storage)
        return self._filled(storage, poison(self.typed.dtype(storage))) if found is None else found

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
            for region in chunks(self._region(k, st.indices)):
                env = self._env(k, st.indices, region)
                live = self._lhs_conditions(st, env)
                where = self._slices(st, env, region)
                target[where] = np.where(live, neutral(st.op, dtype), target[where])
        names = st.variables
        for region in chunks(self._region(k, names)):
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
                where, kept = within(where, target.shape)
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

    def _scatter(self, st: r.Statement, env: Env, value: Array, target: Array) -> None:
        """Update elements that data choose, one point after the other."""
        live = np.ones(env.shape, np.bool_) if env.mask is None else np.broadcast_to(env.mask, env.shape)
        at: list[Array] = []
        for d, (sub, origin) in enumerate(zip(st.subscripts, self.origin(st.target), strict=True)):
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

    def _env(self, k: int, names: Sequence[str], region: Region) -> Env:
        values: dict[str, Array] = {}
        for d, (v, (lo, hi)) in enumerate(zip(names, region, strict=True)):
            shape = [1] * len(names)
            shape[d] = hi - lo
            values[v] = np.arange(lo, hi, dtype=np.int64).reshape(shape)
        return Env(k, values, None, tuple(hi - lo for lo, hi in region))

    def _lhs_conditions(self, st: r.Statement, env: Env) -> Array:
        """The conditions that the left-hand side's variables decide; the others cut no initialisation."""
        live = np.ones(env.shape, np.bool_)
        for c in st.conditions:
            used = {e.name for e in r.walk(r.expand_lets(c, st)) if isinstance(e, r.Index)}
            if used <= set(st.indices):
                live &= np.broadcast_to(self.evaluate(c, env), env.shape)
        return live

    def _slices(self, st: r.Statement, env: Env, region: Region) -> tuple[slice, ...]:
        origin = self.origin(st.target)
        out: list[slice] = []
        for sub, (lo, hi), at in zip(st.subscripts, region, origin, strict=True):
            offset = int(self.evaluate(sub.offset, env)) if sub.offset is not None else 0
            out.append(slice(lo + offset - at, hi + offset - at))
        return tuple(out)

    def _read_array(self, t: r.Tensor, at: list[Array], env: Env) -> Array:
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
        empty = Env(k, {}, None, (count,))
        shift = [lo - o for (lo, _), o in zip(self.boxes[storage], self.origin(st.target), strict=True)]
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
        env = Env(k, values, inside, (count,))
        if not st.reduces:
            for c in st.conditions:
                inside = inside & np.broadcast_to(self._point_value(c, env), (count,))
            env = Env(k, values, inside, (count,))
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

    def _reduce_points(self, k: int, st: r.Statement, env: Env, inside: Array, result: Array) -> None:
        ufunc = UFUNCS[st.op.rstrip("!").rstrip("=")]
        dtype = self.typed.dtype(st.target.storage)
        rank = len(st.reductions)
        step = max(1, CHUNK // max(1, len(inside)))
        for region in chunks(self._region(k, st.reductions), step):
            values: dict[str, Array] = {v: a.reshape(-1, *[1] * rank) for v, a in env.values.items()}
            inner = self._env(k, st.reductions, region)
            values |= {v: a[None] for v, a in inner.values.items()}
            shape = (len(inside), *inner.shape)
            mask = np.broadcast_to(inside.reshape(-1, *[1] * rank), shape)
            chunk = Env(k, values, mask, shape)
            for c in st.conditions:
                chunk = chunk.under(np.broadcast_to(self._point_value(c, chunk), shape))
            raw = np.broadcast_to(self._point_value(st.value, chunk), shape)
            live = mask if chunk.mask is None else chunk.mask
            value: Array = np.where(live, raw, np.asarray(neutral(st.op, dtype), raw.dtype))
            axes = tuple(range(1, rank + 1))
            result[:] = ufunc(result, ufunc.reduce(value, axis=axes, dtype=value.dtype) if axes else value)

    def _point_value(self, e: r.Exp, env: Env) -> Array:
        held, self.reading = self.reading, self._read_points
        try:
            return self.evaluate(e, env)
        finally:
            self.reading = held

    def _read_points(self, t: r.Tensor, at: list[Array], env: Env) -> Array:
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


def _range(b: Bound, known: Mapping[str, int]) -> tuple[int, int]:
    if not isinstance(b, Range):
        raise InternalError(f"a range still {b}")
    lo = evaluate(b.min, known)
    return lo, lo + evaluate(b.extent, known)
