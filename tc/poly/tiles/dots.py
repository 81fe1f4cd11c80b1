"""Shifted factors of dot products of bytes, whose instructions take one unsigned and one signed factor.

If both have the same signedness, 128 is added to the packed one, and 128 times the sum of the other factor is
subtracted from the result: sum((b + s) * a) - s * sum(a) = sum(b * a), in integers that wrap around.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tc.dtypes import DType
from tc.ir.expr import ZERO, Add, Cast, Expr, IntImm, Load, Mul, UIntImm, Variable, substitute, variables
from tc.ir.loops import Array, Compute, For, LoopKind, Promote, Stmt
from tc.ir.simplify import simplify
from tc.poly.tile_plan import Axis, Dot, Nest, Phase
from tc.poly.tiles.builder import Builder, Span, block, contiguous, loads, points_of
from tc.poly.tiles.dynamic import vectors

_BYTES = 64  # of the other factor that are summed at a time


@dataclass(frozen=True, slots=True)
class Shift:
    """The amounts that results are too large by: `array`, indexed by the offsets of `axes` in the cache tile;
    the loops `fill` compute it."""

    array: Array
    axes: tuple[str, ...]
    fill: Stmt


def zero_of(t: DType) -> Expr:
    return _literal(0, t)


def _literal(value: int, t: DType) -> Expr:
    return IntImm(value, t) if t.is_signed else UIntImm(value, t)


def shifted(value: Expr, dot: Dot) -> Expr:
    """An element of the packed factor with the shift added, in the type of the pack."""
    out: Expr = value if value.dtype == dot.dtype else Cast(dot.dtype, value)
    return Add(out, _literal(dot.dtype.wrap(dot.shift), dot.dtype)) if dot.shift else out


def shift(
    builder: Builder, n: Nest, phase: Phase, dot: Dot, spans: Mapping[str, Span], chunk: str | None
) -> Shift:
    """The sums of the other factor over a cache tile, times the shift."""
    return _Shifter(builder, n, phase, dot, spans).made(chunk)


@dataclass(slots=True)
class _Shifter:
    """Emits the loops that compute a `Shift`."""

    builder: Builder
    nest: Nest
    phase: Phase
    dot: Dot
    spans: Mapping[str, Span]

    @property
    def read(self) -> Load:
        return loads(self.builder.bodies[self.dot.statement])[self.dot.other]

    def made(self, chunk: str | None) -> Shift:
        builder, statement = self.builder, self.dot.statement
        names = {v for e in self.read.subscripts for v in variables(e)}
        axes = [a for a in self.nest.axes if a.vars.get(statement) in names]
        t = builder.bodies[statement].dtype
        stem = f"{self.read.buffer}.{statement}.{self.dot.other}"
        shape = tuple(self.spans[a.name].bound for a in axes)
        array = self.flagged(builder.private(f"{stem}.shift", t, shape, chunk))
        at: dict[str, Expr] = {a.name: Variable(builder.name(a.name)) for a in axes}
        along = contiguous(self.read, (*axes, *self.phase.axes), statement)
        if along in axes:
            return Shift(array, tuple(a.name for a in axes), self.rows(array, axes, at, along))
        size = self.dot.size
        lanes = _BYTES // size
        name = f"{stem}.sums{builder.version}"
        sums = next((a for a in builder.arrays if a.name == name), None)
        if sums is None:
            sums = Array(name, t, (IntImm(lanes),), "register", ZERO, shift=True)
            builder.arrays.append(sums)
        where = tuple(at[a.name] for a in axes)
        lane = builder.name("lane")

        def compute(target: Array, place: tuple[Expr, ...], value: Expr, update: bool = True) -> Stmt:
            return Compute(f"{statement}.shift", target.name, place, "+" if update else None, value, (), "")

        def across(body: Stmt) -> Stmt:
            return For(lane, ZERO, IntImm(lanes), 1, LoopKind.VECTOR, body)

        last = self.phase.axes[-1]
        whole, rest = divmod(self.spans[last.name].extent, _BYTES)
        step, inside = builder.name(last.name), builder.name(last.name)
        outer = {a.name: Variable(builder.name(a.name)) for a in self.phase.axes[:-1]}
        parts: list[Stmt] = []
        if whole:
            place = Add(Mul(Variable(step), IntImm(_BYTES)), Mul(Variable(lane), IntImm(size)))
            value = self.product({**at, **outer, last.name: Add(place, Variable(inside))})
            s = For(inside, ZERO, IntImm(size), 1, LoopKind.DOT, compute(sums, (Variable(lane),), value))
            parts.append(For(step, ZERO, IntImm(whole), 1, LoopKind.SERIAL, across(s)))
        if rest:
            value = self.product({**at, **outer, last.name: Add(IntImm(whole * _BYTES), Variable(step))})
            parts.append(For(step, ZERO, IntImm(rest), 1, LoopKind.SERIAL, compute(array, where, value)))
        s = block(parts)
        for a in reversed(self.phase.axes[:-1]):
            s = For(outer[a.name].name, ZERO, self.points(a), 1, LoopKind.SERIAL, s)
        total = across(compute(array, where, Load(sums.name, (Variable(lane),), t)))
        start = [compute(array, where, zero_of(t), False)]
        start += [across(compute(sums, (Variable(lane),), zero_of(t), False))] if whole else []
        s = block([*start, s, *([total] if whole else [])])
        kept = frozenset([array.name, sums.name] if whole else [array.name])
        s = Promote(kept, kept - {array.name}, s)
        for a in reversed(axes):
            var = at[a.name]
            assert isinstance(var, Variable)
            s = For(var.name, ZERO, self.points(a), 1, LoopKind.SERIAL, s)
        return Shift(array, tuple(a.name for a in axes), s)

    def rows(self, array: Array, axes: Sequence[Axis], at: Mapping[str, Expr], along: Axis) -> Stmt:
        """The sums of a factor that is contiguous along an axis of the results, in lanes along it."""
        builder, statement, t = self.builder, self.dot.statement, array.dtype
        where = tuple(at[a.name] for a in axes)
        inside = {a.name: Variable(builder.name(a.name)) for a in self.phase.axes}
        inner: Stmt = Compute(
            f"{statement}.shift", array.name, where, "+", self.product({**at, **inside}), (), ""
        )
        zero = Compute(f"{statement}.shift", array.name, where, None, zero_of(t), (), "")

        def across(s: Stmt) -> Stmt:
            var = at[along.name]
            assert isinstance(var, Variable)
            return vectors(builder, var.name, self.points(along), _BYTES // t.itemsize, s)

        inner = across(inner)
        for a in reversed(self.phase.axes):
            inner = For(inside[a.name].name, ZERO, self.points(a), 1, LoopKind.SERIAL, inner)
        s = block([across(zero), inner])
        for a in reversed(axes):
            var = at[a.name]
            if a is not along and isinstance(var, Variable):
                s = For(var.name, ZERO, self.points(a), 1, LoopKind.SERIAL, s)
        return s

    def flagged(self, array: Array) -> Array:
        out = replace(array, shift=True)
        arrays = self.builder.arrays
        arrays[next(i for i, a in enumerate(arrays) if a.name == array.name)] = out
        return out

    def points(self, a: Axis) -> Expr:
        return points_of(a, self.spans[a.name])

    def product(self, inside: Mapping[str, Expr]) -> Expr:
        """An element of the other factor times the shift, in the type of the sum."""
        statement, t = self.dot.statement, self.builder.bodies[self.dot.statement].dtype
        axes = (*self.nest.axes, *self.phase.axes)
        point = {
            a.vars[statement]: simplify(
                Add(Add(a.low, self.spans[a.name].origin), inside[a.name]), exact=True
            )
            for a in axes
            if a.name in inside
        }
        subscripts = tuple(simplify(substitute(e, dict(point)), exact=True) for e in self.read.subscripts)
        value = Cast(t, replace(self.read, subscripts=subscripts))
        return Mul(value, _literal(t.wrap(self.dot.shift), t))
