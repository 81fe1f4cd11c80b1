"""IR expressions to Halide expressions.

A subscript reaches Halide in one of four forms, and no form lets a kernel read foreign memory:

* an affine one that lies inside the tensor for every point of the stage's box: as it is;
* one that is right only where a condition holds, or that Halide cannot bound: clamped to the tensor, which
  changes nothing where it is used;
* a checked one (`Call.checked`): `require`d to be inside, then clamped for the bounds;
* of an empty tensor: nothing can be read, the value is 0; a checked subscript is out of range if it runs.

What a failed check reports is a line of decimal numbers, which the run time turns into the record of the
calling convention: `value, site + 1, number of variables, their values` (Halide puts the value first).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tc.dtypes import BOOL, INT32, DType
from tc.errors import InternalError, unreachable
from tc.halide import arithmetic
from tc.halide.binding import HlExpr, element, hl, literal
from tc.halide.builtins import FUNCTIONS
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.intervals import Intervals, box_interval, fits_int32, interval, is_affine, is_index, within
from tc.ir.program import Box

SubscriptForm = Literal["plain", "clamp", "check"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a read of a Func or an image becomes: something indexed innermost dimension first."""

    source: Any  # hl.Func or hl.ImageParam
    box: Box
    dtype: DType

    def at(self, subscripts: list[HlExpr]) -> HlExpr:
        """The element at logical coordinates, in its compute type."""
        # A FuncRef is not an Expr everywhere: `select` takes one without dimensions for a Tuple.
        read = self.source[tuple(reversed(subscripts))]
        value = read if isinstance(read, hl.Expr) else hl.Expr(read)
        return value != hl.u8(0) if self.dtype.is_bool else value


@dataclass(frozen=True, slots=True)
class Scope:
    """The names an expression may use: index variables and sizes (int32), scalars, lets, tensors.

    `intervals` knows the index variables and sizes; `point` holds the stage's variables in domain order,
    `live` says where a padded instance of the stage is one of its domain's, and `own` is the Func it
    defines; `guard` is the condition under which the expression counts, `guarded` that there is one.
    `clamp_all`: what is computed at padded instances reads inside the tensors too.
    """

    indices: Mapping[str, HlExpr]
    intervals: Intervals
    scalars: Mapping[str, HlExpr]
    tensors: Mapping[str, Tensor]
    point: tuple[HlExpr, ...]
    live: HlExpr | None
    own: str
    clamp_all: bool
    lets: Mapping[str, HlExpr] = field(default_factory=dict[str, HlExpr])
    guard: HlExpr | None = None
    guarded: bool = False

    def under(self, condition: HlExpr) -> Scope:
        guard = condition if self.guard is None else self.guard & condition
        return replace(self, guard=guard, guarded=True)

    # ---- values

    def value(self, e: Expr) -> HlExpr:
        """A value in the Halide type of its IR type (`binding.element`)."""
        match e:
            case x.IntImm() | x.UIntImm() | x.FloatImm():
                return literal(e.value, e.dtype)
            case x.Variable():
                return self._variable(e)
            case x.Cast():
                if self._small_index(e.value):
                    return arithmetic.convert(hl.Expr(self.index(e.value)), INT32, e.dtype)
                return arithmetic.convert(self.value(e.value), e.value.dtype, e.dtype)
            case x.EQ() | x.NE() | x.LT() | x.LE() | x.GT() | x.GE() if self._small_index(e):
                return self.index(e)
            case (
                x.Add() | x.Sub() | x.Mul() | x.Div() | x.FloorDiv() | x.FloorMod() | x.Min() | x.Max()
                | x.EQ() | x.NE() | x.LT() | x.LE() | x.GT() | x.GE() | x.And() | x.Or()
            ):  # fmt: skip
                return arithmetic.BINARY[type(e)](self.value(e.a), self.value(e.b), e.a.dtype)
            case x.Not():
                return hl.logical_not(self.value(e.a))
            case x.Select():
                then, otherwise = self.value(e.true_value), self.value(e.false_value)
                return _chosen(self.value(e.condition), then, otherwise, e.true_value, e.false_value)
            case x.IfThenElse():
                condition = self.value(e.condition)
                then = self.under(condition).value(e.then_value)
                otherwise = self.under(hl.logical_not(condition)).value(e.else_value)
                return _chosen(condition, then, otherwise, e.then_value, e.else_value)
            case x.Let():
                return replace(self, lets={**self.lets, e.name: self.value(e.value)}).value(e.body)
            case x.Call(kind="intrinsic"):
                return FUNCTIONS[e.name](*map(self.value, e.args), e.dtype)
            case x.Call():
                return self._read(e)
            case x.Load():
                raise InternalError(f"a Load in a program: {e.buffer}")
            case _:
                unreachable(e)

    def _variable(self, e: x.Variable) -> HlExpr:
        if e.name in self.lets:
            return self.lets[e.name]
        if e.name in self.indices:
            return hl.cast(element(e.dtype), self.indices[e.name])
        scalar = self.scalars[e.name]
        return scalar != hl.u8(0) if e.dtype == BOOL else scalar

    # ---- index arithmetic

    def _small_index(self, e: Expr) -> bool:
        return is_index(e, self._names) and fits_int32(e, self._names)

    @property
    def _names(self) -> Intervals:
        return {k: v for k, v in self.intervals.items() if k not in self.lets}

    def index(self, e: Expr) -> HlExpr:
        """Index arithmetic that fits int32 (`_small_index`), in int32 or bool."""
        match e:
            case x.IntImm():
                return hl.i32(e.value)
            case x.UIntImm():
                return literal(e.value, e.dtype)
            case x.Variable():
                return self.indices[e.name]
            case x.Cast():
                return hl.i32(self.value(e.value))
            case x.FloorDiv(b=x.IntImm(value=n)) if n > 0:
                return self.index(e.a) / hl.i32(n)
            case x.FloorMod(b=x.IntImm(value=n)) if n > 0:
                return self.index(e.a) % hl.i32(n)
            case x.Not():
                return hl.logical_not(self.index(e.a))
            case x.Select():
                return hl.select(*(self.index(c) for c in x.children(e)))
            case _ if type(e) in arithmetic.INDEX:
                a, b = x.children(e)
                return arithmetic.INDEX[type(e)](self.index(a), self.index(b))
            case _:
                raise InternalError(f"not index arithmetic: {e!r}")

    def condition(self, e: Expr) -> HlExpr:
        """A bool expression, in int32 arithmetic where it fits."""
        return self.index(e) if self._small_index(e) else self.value(e)

    # ---- reads

    def _read(self, e: x.Call) -> HlExpr:
        tensor = self.tensors[e.name]
        spans = [box_interval(tensor.box, d) for d in range(len(tensor.box))]
        if any(s is not None and s[0] > s[1] for s in spans):
            # No element is there to be read; what data say is still checked, where it is not simplified away.
            nothing = literal(0, e.dtype)
            for d in e.checked:
                checked = self._checked(e, e.args[d], tensor.box, d)
                nothing = hl.select(checked == hl.i64(0), literal(1, e.dtype), nothing)
            return nothing
        subscripts: list[HlExpr] = []
        # Clamped into a dimension of extent 1 a subscript is a constant, and its check would be simplified
        # away with it: there the read depends on the subscript once more.
        only: list[HlExpr] = []
        for d, sub in enumerate(e.args):
            small = self._small_index(sub)
            match self.form(e, d):
                case "plain":
                    subscripts.append(self.index(sub))
                case "clamp":
                    value = self.index(sub) if small else self.value(sub)
                    subscripts.append(self._clamped(value, tensor.box, d, small))
                case "check":
                    checked = self._checked(e, sub, tensor.box, d)
                    subscripts.append(self._clamped(checked, tensor.box, d, False))
                    span = spans[d]
                    if span is not None and span[0] == span[1]:
                        only.append(checked == hl.i64(span[0]))
        read = tensor.at(subscripts)
        for here in only:
            read = hl.select(here, read, hl.cast(read.type(), hl.i32(0)))
        return read

    def form(self, e: x.Call, d: int) -> SubscriptForm:
        """What is done to subscript `d` of a read."""
        if d in e.checked:
            return "check"
        sub = e.args[d]
        if self.clamp_all and e.name != self.own:
            return "clamp"
        inside = self._small_index(sub) and self._inside(sub, self.tensors[e.name].box, d)
        return "plain" if inside else "clamp"

    def _inside(self, sub: Expr, box: Box, d: int) -> bool:
        names = self._names
        if not is_affine(sub, names):
            return False
        span, found = box_interval(box, d), interval(sub, names)
        if span is None or found is None:  # symbolic, for reading only: unguarded subscripts are in range
            return not self.guarded
        return within(found, span)

    def _bounds(self, box: Box, d: int) -> tuple[HlExpr, HlExpr]:
        """The first and the last coordinate of a dimension, in int32."""
        return self.index(box[d].min), self.index(box[d].min) + self.index(box[d].extent) - hl.i32(1)

    def _clamped(self, index: HlExpr, box: Box, d: int, small: bool) -> HlExpr:
        """A subscript, in int32 (`small`) or int64, put into the tensor."""
        lo, hi = self._bounds(box, d)
        if small:
            return hl.clamp(index, lo, hi)
        return hl.unsafe_promise_clamped(hl.i32(hl.clamp(index, hl.i64(lo), hl.i64(hi))), lo, hi)

    def _checked(self, e: x.Call, sub: Expr, box: Box, d: int) -> HlExpr:
        lo, hi = self._bounds(box, d)
        value = self.value(sub)
        good = (value >= hl.i64(lo)) & (value <= hl.i64(hi))
        for condition in (self.guard, self.live):
            if condition is not None:
                good = good | hl.logical_not(condition)
        record = [hl.i64(e.site + 1), hl.i64(len(self.point)), *map(hl.i64, self.point), hl.i64(d)]
        return hl.require(good, value, *record)


def _chosen(condition: HlExpr, then: HlExpr, otherwise: HlExpr, a: Expr, b: Expr) -> HlExpr:
    """`condition ? a : b`.  Halide makes `c ? k + 1 : m` to `(c ? k : m - 1) + 1`, and gives up where `m - 1`
    overflows; it does not see through a double, which holds every int32."""
    if _may_overflow(a) and not isinstance(b, x.IntImm):
        otherwise = hl.i32(hl.f64(otherwise))
    elif _may_overflow(b) and not isinstance(a, x.IntImm):
        then = hl.i32(hl.f64(then))
    return hl.select(condition, then, otherwise)


def _may_overflow(e: Expr) -> bool:
    """Whether a literal is an int32 to which not every coordinate can be added."""
    return isinstance(e, x.IntImm) and e.dtype == INT32 and abs(e.value) >= 2**30
