"""Typed values in LLVM text: scalars that all lanes share, and vectors.

Pure instructions are hash-consed by scope: the same text in the same block, or in one around it, is computed
once.  The 16-bit floating types are `i16` between a load and a cast; arithmetic never meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from tc.codegen.llvm_expr import INTRINSICS, float_literal, llvm_type, power_of_two
from tc.codegen.llvm_helpers import HELPERS
from tc.codegen.numerics import bits16
from tc.codegen.vector_math import Pasted, paste, paste_conversion
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT32, UINT32, DType
from tc.errors import InternalError
from tc.lang import builtins

from ..isa import Isa
from . import lane_reduction
from .instructions import InstructionEmitter

LIKELY = "!prof !1"  # the first of two branches is likely
WEIGHTS = '!1 = !{!"branch_weights", i32 2000, i32 1}'
# Of a choice between two numbers.  Without it LLVM makes many choices in loops branches, which processors
# mispredict where data decide, as in the tables of dynamic programming.
UNPREDICTABLE = "!unpredictable !2"
NO_WEIGHTS = "!2 = !{}"


@dataclass(frozen=True, slots=True)
class Value:
    """An operand.  `lanes` is 0 for a scalar; `constant` is its value where it is a literal.  For a mask,
    `active` is the number of its leading lanes that are set, if it is a mask of leading lanes; `some` says
    that its first lane is set; `places` are the lanes that are set, where these are known otherwise."""

    text: str
    dtype: DType
    lanes: int = 0
    constant: int | float | None = None
    active: int | None = None
    some: bool = False
    places: tuple[int, ...] | None = None


@cache
def type_text(t: DType, lanes: int) -> str:
    """LLVM's name of a vector type, or of the scalar type for 0 lanes."""
    return f"<{lanes} x {llvm_type(t)}>" if lanes else llvm_type(t)


def suffix(t: DType, lanes: int) -> str:
    """The name of a type in the name of an intrinsic."""
    base = f"f{t.bits}" if t.is_float else ("i1" if t.is_bool else f"i{t.bits}")
    return f"v{lanes}{base}" if lanes else base


class _Sink:
    """Takes the instructions of a vector function; from its first branch on, none is shared."""

    def __init__(self, emitter: ValueEmitter) -> None:
        self.emitter = emitter
        self.straight = True
        self.block = emitter.fn.block

    def op(self, text: str) -> str:
        return self.emitter.pure(text) if self.straight else self.emitter.op(text)

    def do(self, text: str) -> None:
        self.straight = False
        self.emitter.do(text)

    def label(self, stem: str) -> str:
        return self.emitter.label(stem)

    def start(self, label: str) -> None:
        self.emitter.start(label)
        self.block = label


class ValueEmitter(InstructionEmitter):
    """Emits arithmetic on scalars and vectors; keeps the helpers of the module."""

    def __init__(self, isa: Isa, fast_math: bool) -> None:
        super().__init__()
        self.isa = isa
        self.fast_math = fast_math
        self.helpers: set[str] = set()
        self.texts: dict[str, str] = {}  # definitions of vector functions
        self.float_comparisons: set[str] = set()  # the names of their results

    # Literals, splats.

    def integer(self, value: int, t: DType) -> Value:
        value = t.wrap(value)
        return Value(("true" if value else "false") if t.is_bool else str(value), t, 0, value)

    def floating(self, value: float, t: DType) -> Value:
        text = str(bits16(value, t)) if t.is_half else float_literal(value, t)
        return Value(text, t, 0, value)

    def literal(self, value: int | float, t: DType) -> Value:
        return self.floating(float(value), t) if t.is_float else self.integer(int(value), t)

    def widen(self, v: Value, lanes: int) -> Value:
        """A scalar, broadcast to all lanes."""
        if v.lanes == lanes:
            return v
        if v.lanes:
            raise InternalError(f"a vector of {v.lanes} lanes where {lanes} are in use")
        element = llvm_type(v.dtype)
        if v.constant is not None:
            text = "<" + ", ".join([f"{element} {v.text}"] * lanes) + ">"
            return Value(text, v.dtype, lanes, v.constant)
        ty = type_text(v.dtype, lanes)
        one = self.pure(f"insertelement {ty} poison, {element} {v.text}, i64 0")
        return Value(
            self.pure(f"shufflevector {ty} {one}, {ty} poison, <{lanes} x i32> zeroinitializer"),
            v.dtype,
            lanes,
        )

    def unify(self, *values: Value) -> tuple[int, tuple[Value, ...]]:
        """The number of lanes of these values, and the values with scalars broadcast to it."""
        lanes = max(v.lanes for v in values)
        return lanes, tuple(self.widen(v, lanes) for v in values) if lanes else values

    def steps(self, t: DType, lanes: int, factor: int) -> Value:
        """`<0, factor, 2 factor, …>`."""
        ty = llvm_type(t)
        return Value("<" + ", ".join(f"{ty} {i * factor}" for i in range(lanes)) + ">", t, lanes)

    # Arithmetic.

    def binary(self, operator: str, a: Value, b: Value) -> Value:
        """`+ - * /` (floating division only) and the reductions' `min max`."""
        if operator in ("min", "max"):
            return self.extremum(a, b, operator == "min")
        lanes, (a, b) = self.unify(a, b)
        t = a.dtype
        ty = type_text(t, lanes)
        if t.is_bool:
            return Value(self.pure(f"{'or' if operator == '+' else 'and'} {ty} {a.text}, {b.text}"), t, lanes)
        if t.is_half:
            raise InternalError(f"arithmetic on {t}")
        name = {"+": "add", "-": "sub", "*": "mul", "/": "div"}[operator]
        if t.is_float:
            flags = " contract" if operator != "/" else " arcp" if self.fast_math else ""
            return Value(self.pure(f"f{name}{flags} {ty} {a.text}, {b.text}"), t, lanes)
        return Value(self.pure(f"{name} {ty} {a.text}, {b.text}"), t, lanes)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """`a * b + c`, rounded once where the machine can."""
        if not self.isa.fma or not a.dtype.is_float:
            return self.binary("+", self.binary("*", a, b), c)
        lanes, (a, b, c) = self.unify(a, b, c)
        ty = type_text(a.dtype, lanes)
        args = ((ty, a.text), (ty, b.text), (ty, c.text))
        return Value(self.call(ty, f"llvm.fma.{suffix(a.dtype, lanes)}", *args), a.dtype, lanes)

    def extremum(self, a: Value, b: Value, least: bool) -> Value:
        lanes, (a, b) = self.unify(a, b)
        t = a.dtype
        ty = type_text(t, lanes)
        if t.is_bool:
            return Value(self.pure(f"{'and' if least else 'or'} {ty} {a.text}, {b.text}"), t, lanes)
        if t.is_float:
            # A NaN wins.  x86's min and max return their second operand, here `a`, if one is a NaN, so only
            # `b` is tested: three instructions instead of LLVM's six, which also order -0 and +0, as the
            # language does not ask.  `a` is the old value of an update.  If it were chosen last, LLVM would
            # store to the same place under a mask, which AMD runs in microcode.
            order = "olt" if least else "ogt"
            c = self.pure(f"fcmp {order} {ty} {b.text}, {a.text}")
            ct = type_text(BOOL, lanes)
            best = self.pure(f"select {ct} {c}, {ty} {b.text}, {ty} {a.text}")
            nan = self.pure(f"fcmp uno {ty} {b.text}, {b.text}")
            return Value(self.pure(f"select {ct} {nan}, {ty} {b.text}, {ty} {best}"), t, lanes)
        if not lanes:
            c = self.compare(("", "slt", "ult") if least else ("", "sgt", "ugt"), a, b)
            return self.select(c, a, b)
        name = f"{'s' if t.is_signed else 'u'}{'min' if least else 'max'}"
        text = self.call(ty, f"llvm.{name}.{suffix(t, lanes)}", (ty, a.text), (ty, b.text))
        return Value(text, t, lanes)

    def compare(self, predicate: tuple[str, str, str], a: Value, b: Value) -> Value:
        """`predicate` names the comparison of floats, signed and unsigned integers."""
        lanes, (a, b) = self.unify(a, b)
        t = a.dtype
        ty = type_text(t, lanes)
        if t.is_float:
            text = self.pure(f"fcmp {predicate[0]} {ty} {a.text}, {b.text}")
            self.float_comparisons.add(text)
            return Value(text, BOOL, lanes)
        return Value(
            self.pure(f"icmp {predicate[1 if t.is_signed else 2]} {ty} {a.text}, {b.text}"), BOOL, lanes
        )

    def logical(self, name: str, a: Value, b: Value) -> Value:
        lanes, (a, b) = self.unify(a, b)
        return Value(self.pure(f"{name} {type_text(BOOL, lanes)} {a.text}, {b.text}"), BOOL, lanes)

    def negate(self, a: Value) -> Value:
        lanes, (a, one) = self.unify(a, self.integer(1, BOOL))
        return Value(self.pure(f"xor {type_text(BOOL, lanes)} {a.text}, {one.text}"), BOOL, lanes)

    def select(self, c: Value, a: Value, b: Value) -> Value:
        if c.constant is not None:
            return a if c.constant else b
        lanes = max(c.lanes, a.lanes, b.lanes)
        if lanes:
            a, b = self.widen(a, lanes), self.widen(b, lanes)
        ty = type_text(a.dtype, lanes)
        if not lanes and a.dtype.is_float and c.text not in self.float_comparisons:
            # LLVM makes this a branch.
            bits = f"i{a.dtype.bits}"
            x, y = (self.pure(f"bitcast {ty} {v.text} to {bits}") for v in (a, b))
            chosen = self.pure(f"select i1 {c.text}, {bits} {x}, {bits} {y}, {UNPREDICTABLE}")
            return Value(self.pure(f"bitcast {bits} {chosen} to {ty}"), a.dtype)
        text = f"select {type_text(BOOL, c.lanes)} {c.text}, {ty} {a.text}, {ty} {b.text}"
        if not lanes:
            text += f", {UNPREDICTABLE}"
        return Value(self.pure(text), a.dtype, lanes)

    def merge(self, c: Value, a: Value, b: Value) -> Value:
        """The value of `select` for two numbers that have just been read, by operations on their bits: LLVM
        makes a choice between two reads one of addresses, and that a branch."""
        if c.constant is not None or a.lanes or b.lanes or c.lanes or a.dtype.is_bool:
            return self.select(c, a, b)
        ty, bits = type_text(a.dtype, 0), f"i{a.dtype.bits}"
        mask = self.pure(f"sext i1 {c.text} to {bits}")
        x, y = (self.pure(f"bitcast {ty} {v.text} to {bits}") for v in (a, b))
        differ = self.pure(f"xor {bits} {x}, {y}")
        changed = self.pure(f"and {bits} {differ}, {mask}")
        merged = self.pure(f"xor {bits} {changed}, {y}")
        return Value(self.pure(f"bitcast {bits} {merged} to {ty}"), a.dtype)

    def unsigned_division(self, a: Value, divisor: int, quotient: bool) -> Value:
        """The quotient of a value that is 0 or more by a positive constant, or its remainder."""
        b = self.integer(divisor, a.dtype)
        b = self.widen(b, a.lanes) if a.lanes else b
        name = "udiv" if quotient else "urem"
        text = self.pure(f"{name} {type_text(a.dtype, a.lanes)} {a.text}, {b.text}")
        return Value(text, a.dtype, a.lanes)

    def division(self, a: Value, b: Value, quotient: bool) -> Value:
        """Floor division or its remainder; nothing traps, and x/0 = x%0 = 0."""
        t, constant = a.dtype, b.constant
        if constant == 0:
            return self.integer(0, t)
        lanes, (a, b) = self.unify(a, b)
        ty, x, y = type_text(t, lanes), a.text, b.text

        def fixed(value: int) -> str:
            v = self.integer(value, t)
            return self.widen(v, lanes).text if lanes else v.text

        ct = type_text(BOOL, lanes)
        zero, one = fixed(0), fixed(1)
        if not t.is_signed:
            name = "udiv" if quotient else "urem"
            if constant is not None:
                return Value(self.pure(f"{name} {ty} {x}, {y}"), t, lanes)
            none = self.pure(f"icmp eq {ty} {y}, {zero}")
            divisor = self.pure(f"select {ct} {none}, {ty} {one}, {ty} {y}")
            r = self.pure(f"{name} {ty} {x}, {divisor}")
            return Value(self.pure(f"select {ct} {none}, {ty} {zero}, {ty} {r}"), t, lanes)
        if (bits := power_of_two(constant)) is not None:
            if quotient:
                return Value(self.pure(f"ashr {ty} {x}, {fixed(bits)}"), t, lanes)
            return Value(self.pure(f"and {ty} {x}, {fixed((1 << bits) - 1)}"), t, lanes)
        if constant is not None and constant > 0:
            r = self.pure(f"srem {ty} {x}, {y}")
            negative = self.pure(f"ashr {ty} {r}, {fixed(t.bits - 1)}")
            if quotient:
                q = self.pure(f"sdiv {ty} {x}, {y}")
                return Value(self.pure(f"add {ty} {q}, {negative}"), t, lanes)
            fix = self.pure(f"and {ty} {negative}, {y}")
            return Value(self.pure(f"add {ty} {r}, {fix}"), t, lanes)
        none = self.pure(f"icmp eq {ty} {y}, {zero}")
        minus = self.pure(f"icmp eq {ty} {y}, {fixed(-1)}")
        either = self.pure(f"or {ct} {none}, {minus}")
        divisor = self.pure(f"select {ct} {either}, {ty} {one}, {ty} {y}")
        r = self.pure(f"srem {ty} {x}, {divisor}")
        nonzero = self.pure(f"icmp ne {ty} {r}, {zero}")
        mixed = self.pure(f"xor {ty} {r}, {divisor}")
        opposite = self.pure(f"icmp slt {ty} {mixed}, {zero}")
        adjust = self.pure(f"and {ct} {nonzero}, {opposite}")
        if quotient:
            q = self.pure(f"sdiv {ty} {x}, {divisor}")
            q = self.pure(f"sub {ty} {q}, {self.pure(f'zext {ct} {adjust} to {ty}')}")
            negated = self.pure(f"sub {ty} {zero}, {x}")
            q = self.pure(f"select {ct} {minus}, {ty} {negated}, {ty} {q}")
        else:
            moved = self.pure(f"add {ty} {r}, {divisor}")
            q = self.pure(f"select {ct} {adjust}, {ty} {moved}, {ty} {r}")
        return Value(self.pure(f"select {ct} {none}, {ty} {zero}, {ty} {q}"), t, lanes)

    # Conversions and functions.

    def cast(self, v: Value, target: DType) -> Value:
        """A conversion; see `Cast` in tc.ir.expr for its meaning."""
        source = v.dtype
        if source == target:
            return v
        if v.constant is not None and source.is_int and target.is_int and not target.is_bool:
            out = self.integer(int(v.constant), target)
            return self.widen(out, v.lanes) if v.lanes else out
        if source.is_half:
            return self.cast(self._apply(_half_name(source, True), v, FLOAT32), target)
        if target.is_half:
            if source == FLOAT64:
                v = self._lanewise("tc_double_to_odd", v, FLOAT32)
            else:
                v = self._integers_to_half(v, target)
            return self._apply(_half_name(target, False), v, target)
        lanes = v.lanes
        a, b = type_text(source, lanes), type_text(target, lanes)
        if target.is_bool:
            zero = self.literal(0, source)
            return self.compare(("une", "ne", "ne"), v, zero)
        if source.is_float and target.is_float:
            return Value(
                self.pure(f"{'fpext' if target == FLOAT64 else 'fptrunc'} {a} {v.text} to {b}"), target, lanes
            )
        if source.is_float and lanes and target.bits <= 32:
            return self._saturated(v, target)
        if source.is_float:
            kind = f"fpto{'s' if target.is_signed else 'u'}i.sat"
            name = f"llvm.{kind}.{suffix(target, lanes)}.{suffix(source, lanes)}"
            return Value(self.call(b, name, (a, v.text)), target, lanes)
        if target.is_float:
            signed = source.is_signed and not source.is_bool
            return Value(self.pure(f"{'si' if signed else 'ui'}tofp {a} {v.text} to {b}"), target, lanes)
        if source.is_bool or target.bits > source.bits:
            signed = source.is_signed and not source.is_bool
            return Value(self.pure(f"{'sext' if signed else 'zext'} {a} {v.text} to {b}"), target, lanes)
        if target.bits < source.bits:
            return Value(self.pure(f"trunc {a} {v.text} to {b}"), target, lanes)
        return Value(v.text, target, lanes, v.constant)

    def _saturated(self, v: Value, target: DType) -> Value:
        """Lanes of floats as integers of at most 32 bits; LLVM's saturating conversion would convert one lane
        after the other."""
        source, lanes = v.dtype, v.lanes

        def every(x: float) -> Value:
            return self.widen(self.floating(x, source), lanes)

        digits = target.bits - target.is_signed  # of the largest integer; the largest float below has 24
        top = target.max if source == FLOAT64 or digits < 24 else target.max + 1 - (1 << digits - 24)
        x = self.select(self.compare(("ord", "", ""), v, v), v, every(0.0))
        for bound, beyond in ((target.min, "olt"), (top, "ogt")):
            x = self.select(self.compare((beyond, "", ""), x, every(float(bound))), every(float(bound)), x)
        wide = UINT32 if target == UINT32 else INT32
        kind = "fptoui" if wide == UINT32 else "fptosi"
        text = self.pure(f"{kind} {type_text(source, lanes)} {x.text} to {type_text(wide, lanes)}")
        out = Value(text, wide, lanes)
        if top != target.max:  # values that are not less than the next power of two
            greatest = self.widen(self.integer(int(target.max), target), lanes)
            out = self.select(self.compare(("ogt", "", ""), v, every(float(top))), greatest, out)
        return self.cast(out, target)

    def _integers_to_half(self, v: Value, target: DType) -> Value:
        """A value that is not float32 yet, in float32 such that rounding to 16 bits rounds once."""
        if v.dtype == FLOAT32:
            return v
        if v.dtype.is_int and v.dtype.bits == 64 and target.kind == "bfloat":
            v = self._lanewise(f"tc_{v.dtype}_to_53", v, v.dtype)
        if v.dtype.is_int and v.dtype.bits >= 32:
            return self._lanewise("tc_double_to_odd", self.cast(v, FLOAT64), FLOAT32)
        return self.cast(v, FLOAT32)

    def _lanewise(self, helper: str, v: Value, result: DType) -> Value:
        """A scalar helper of tc.codegen.llvm_helpers, applied lane by lane."""
        self.helpers.add(helper)
        r, a = llvm_type(result), llvm_type(v.dtype)
        if not v.lanes:
            return Value(self.pure(f"call {r} @{helper}({a} {v.text})"), result)
        return self.each_lane(result, [v], lambda xs: self.pure(f"call {r} @{helper}({a} {xs[0]})"))

    def each_lane(self, result: DType, args: Sequence[Value], f: Callable[[list[str]], str]) -> Value:
        """`f` applied to the scalars of each lane."""
        lanes = max(a.lanes for a in args)
        ty = type_text(result, lanes)
        out = "poison"
        for i in range(lanes):
            xs = [
                self.pure(f"extractelement {type_text(a.dtype, lanes)} {a.text}, i64 {i}")
                if a.lanes
                else a.text
                for a in args
            ]
            r = f(xs)
            out = self.pure(f"insertelement {ty} {out}, {llvm_type(result)} {r}, i64 {i}")
        return Value(out, result, lanes)

    def _apply(self, name: str, v: Value, result: DType) -> Value:
        """A conversion between float32 and a 16-bit type."""
        native = self.isa.half_conversions and name in ("half_to_float", "float_to_half")
        pasted = paste_conversion(name, max(v.lanes, 1), v.text, _Sink(self), native=native)
        return self._pasted(pasted, result, v.lanes)

    def _pasted(self, p: Pasted, t: DType, lanes: int) -> Value:
        self.declarations |= p.declarations
        self.texts |= p.functions
        return Value(p.operand, t, lanes)

    def intrinsic(self, name: str, args: Sequence[Value], t: DType) -> Value:
        """A built-in function of floating arguments, or `abs`."""
        lanes, args = self.unify(*args)
        ty = type_text(t, lanes)
        pairs = [(ty, a.text) for a in args]
        if name == "abs" and not t.is_float:
            if not t.is_signed:
                return args[0]
            return Value(self.call(ty, f"llvm.abs.{suffix(t, lanes)}", *pairs, ("i1", "false")), t, lanes)
        if name == "abs":
            name = "fabs"
        if name in INTRINSICS and (name != "fma" or self.isa.fma):
            return Value(self.call(ty, f"{INTRINSICS[name]}.{suffix(t, lanes)}", *pairs), t, lanes)
        pasted = paste(
            name, t, max(lanes, 1), [a.text for a in args], _Sink(self),
            fma=self.isa.fma, fast=self.fast_math, avx512=self.isa.vector_bytes == 64,
        )  # fmt: skip
        if pasted is not None:
            return self._pasted(pasted, t, lanes)
        builtin = builtins.find(name)
        if builtin is None or builtin.kind != "math" or t not in (FLOAT32, FLOAT64):
            raise InternalError(f"no LLVM spelling for {name} of {t}")
        scalar = builtin.f32() if t == FLOAT32 else builtin.c
        element = llvm_type(t)
        if not lanes:
            return Value(self.call(element, scalar, *pairs), t)
        return self.each_lane(t, args, lambda xs: self.call(element, scalar, *((element, x) for x in xs)))

    def reduce(self, operator: str, v: Value) -> Value:
        """All lanes of a vector combined, in a fixed order (by halves, as LLVM's reductions with
        `reassoc`)."""
        while v.lanes > 1:
            half = v.lanes // 2
            ty = type_text(v.dtype, v.lanes)

            def part(first: int, n: int = half, ty: str = ty, text: str = v.text) -> str:
                picked = ", ".join(f"i32 {first + i}" for i in range(n))
                return self.pure(f"shufflevector {ty} {text}, {ty} poison, <{n} x i32> <{picked}>")

            v = self.binary(operator, Value(part(0), v.dtype, half), Value(part(half), v.dtype, half))
        element = self.pure(f"extractelement {type_text(v.dtype, 1)} {v.text}, i64 0")
        return Value(element, v.dtype)

    def reduce_together(self, operator: str, vectors: Sequence[Value]) -> Value:
        """`reduce` of each of several vectors, a power of two up to their lanes, as the lanes of one."""
        t = vectors[0].dtype
        found, order = lane_reduction.steps(len(vectors), vectors[0].lanes, t.itemsize)
        left = [vectors[i].text for i in order]
        lanes = 0
        for step in found:
            pairs = list(zip(left[::2], left[1::2], strict=True)) if left[1:] else [(left[0], left[0])]
            ty, lanes = type_text(t, step.lanes), len(step.first)

            def part(pair: tuple[str, str], order: tuple[int, ...], ty: str = ty) -> Value:
                picked = ", ".join(f"i32 {i}" for i in order)
                text = f"shufflevector {ty} {pair[0]}, {ty} {pair[1]}, <{len(order)} x i32> <{picked}>"
                return Value(self.pure(text), t, len(order))

            left = [self.binary(operator, part(x, step.first), part(x, step.second)).text for x in pairs]
        return Value(left[0], t, lanes)

    def helper_text(self) -> list[str]:
        out: list[str] = []
        for name in sorted(self.helpers):
            text, needs = HELPERS[name]
            out.append(text)
            self.declarations |= set(needs)
        return out


def _half_name(t: DType, widen: bool) -> str:
    kind = "half" if t.kind == "float" else "bfloat"
    return f"{kind}_to_float" if widen else f"float_to_{kind}"
