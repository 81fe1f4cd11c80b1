"""Expressions to scalar LLVM IR (opaque pointers), with the numerics of docs/language.md.

The two 16-bit floating types are `i16` between a load and a cast; there is no arithmetic on them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tc.codegen.numerics import MAX_POINT, bits16
from tc.dtypes import BOOL, FLOAT32, FLOAT64, DType
from tc.errors import InternalError, unreachable
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
)
from tc.ir.loops import Array
from tc.lang import builtins

# Built-ins that LLVM compiles to an instruction or evaluates exactly.
INTRINSICS = {
    "sqrt": "llvm.sqrt",
    "fabs": "llvm.fabs",
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "trunc": "llvm.trunc",
    "round": "llvm.round",
    "copysign": "llvm.copysign",
    "fma": "llvm.fma",
    "fmin": "llvm.minnum",
    "fmax": "llvm.maxnum",
}
PREDICATES: dict[type, tuple[str, str, str]] = {  # float, signed, unsigned
    EQ: ("oeq", "eq", "eq"),
    NE: ("une", "ne", "ne"),
    LT: ("olt", "slt", "ult"),
    LE: ("ole", "sle", "ule"),
    GT: ("ogt", "sgt", "ugt"),
    GE: ("oge", "sge", "uge"),
}


def power_of_two(constant: int | float | None) -> int | None:
    """The exponent of an integer that is a power of two, else None."""
    if not isinstance(constant, int) or constant <= 0 or constant.bit_count() != 1:
        return None
    return constant.bit_length() - 1


def llvm_type(t: DType) -> str:
    """The type of a value in registers."""
    if t.is_bool:
        return "i1"
    if t.is_half:
        return "i16"
    if t.is_float:
        return "float" if t == FLOAT32 else "double"
    return f"i{t.bits}"


def storage_type(t: DType) -> str:
    """The type of a value in memory."""
    return "i8" if t.is_bool else llvm_type(t)


def float_literal(value: float, t: DType) -> str:
    """A float32 or float64 constant, exact: the bits of the value as a double."""
    if t == FLOAT32:
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class ExprEmitter:
    """Appends instructions to `lines`; `env` maps names to operands."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.helpers: set[str] = set()
        self.count = 0
        self.block = "entry"
        self.bases: dict[str, str] = {}
        self.point: tuple[str, ...] = ()

    def op(self, text: str) -> str:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def call(self, result: str, name: str, *args: tuple[str, str]) -> str:
        """A call of an external function or intrinsic, declared at first use; args are (type, operand)."""
        self.declarations.add(f"declare {result} @{name}({', '.join(t for t, _ in args)})")
        return self.op(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})")

    def helper(self, result: str, name: str, argument_type: str, argument: str) -> str:
        self.helpers.add(name)
        return self.op(f"call {result} @{name}({argument_type} {argument})")

    # Values.

    def value(self, e: Expr, env: Mapping[str, str]) -> str:
        match e:
            case IntImm():
                return str(e.dtype.wrap(e.value))
            case UIntImm():
                return ("true" if e.value else "false") if e.dtype.is_bool else str(e.dtype.wrap(e.value))
            case FloatImm():
                if e.dtype.is_half:
                    return str(bits16(e.value, e.dtype))
                return float_literal(e.value, e.dtype)
            case Variable():
                if e.name not in env:
                    raise InternalError(f"the loop nest uses '{e.name}', which nothing defines")
                return env[e.name]
            case Cast():
                return self.cast(self.value(e.value, env), e.value.dtype, e.dtype)
            case Add() | Sub() | Mul() | Div():
                return self.arithmetic(e, env)
            case FloorDiv() | FloorMod():
                a, b = self.value(e.a, env), self.value(e.b, env)
                constant = e.b.value if isinstance(e.b, (IntImm, UIntImm)) else None
                return self.division(a, b, e.dtype, isinstance(e, FloorDiv), constant)
            case Min() | Max():
                a, b = self.value(e.a, env), self.value(e.b, env)
                return self.extremum(a, b, e.dtype, isinstance(e, Min))
            case EQ() | NE() | LT() | LE() | GT() | GE():
                a, b = self.value(e.a, env), self.value(e.b, env)
                t = e.a.dtype
                predicate = PREDICATES[type(e)]
                if t.is_float:
                    return self.op(f"fcmp {predicate[0]} {llvm_type(t)} {a}, {b}")
                return self.op(f"icmp {predicate[1 if t.is_signed else 2]} {llvm_type(t)} {a}, {b}")
            case And():
                a, b = self.value(e.a, env), self.value(e.b, env)
                return self.op(f"and i1 {a}, {b}")
            case Or():
                a, b = self.value(e.a, env), self.value(e.b, env)
                return self.op(f"or i1 {a}, {b}")
            case Not():
                return self.op(f"xor i1 {self.value(e.a, env)}, true")
            case Select():
                c = self.value(e.condition, env)
                a, b = self.value(e.true_value, env), self.value(e.false_value, env)
                t = llvm_type(e.dtype)
                return self.op(f"select i1 {c}, {t} {a}, {t} {b}")
            case IfThenElse():
                return self.lazy(e, env)
            case Let():
                return self.value(e.body, {**env, e.name: self.value(e.value, env)})
            case Call():
                return self.intrinsic(e, env)
            case Load():
                return self.load(e, env)
            case _:
                unreachable(e)

    def arithmetic(self, e: Add | Sub | Mul | Div, env: Mapping[str, str]) -> str:
        a, b = self.value(e.a, env), self.value(e.b, env)
        return self.combine({Add: "+", Sub: "-", Mul: "*", Div: "/"}[type(e)], a, b, e.dtype)

    def combine(self, operator: str, a: str, b: str, t: DType) -> str:
        """`+ - * /` and the reductions' `min max` on two operands."""
        if operator in ("min", "max"):
            return self.extremum(a, b, t, operator == "min")
        if t.is_bool:  # as sums and products in int32, compared with 0
            return self.op(f"{'or' if operator == '+' else 'and'} i1 {a}, {b}")
        name = {"+": "add", "-": "sub", "*": "mul", "/": "div"}[operator]
        if t.is_half:
            raise InternalError(f"arithmetic on {t}")
        return self.op(f"{'f' if t.is_float else ''}{name} {llvm_type(t)} {a}, {b}")

    def extremum(self, a: str, b: str, t: DType, least: bool) -> str:
        ty = llvm_type(t)
        if t.is_bool:
            return self.op(f"{'and' if least else 'or'} i1 {a}, {b}")
        if t.is_half:
            raise InternalError(f"arithmetic on {t}")
        if t.is_float:  # IEEE 754-2019 minimum and maximum: a NaN wins
            return self.call(ty, f"llvm.{'minimum' if least else 'maximum'}.f{t.bits}", (ty, a), (ty, b))
        name = f"{'s' if t.is_signed else 'u'}{'min' if least else 'max'}"
        return self.call(ty, f"llvm.{name}.{ty}", (ty, a), (ty, b))

    def division(self, a: str, b: str, t: DType, quotient: bool, constant: int | None) -> str:
        """Floor division or its remainder; nothing traps."""
        ty = llvm_type(t)
        if constant == 0:
            return "0"
        if not t.is_signed:
            divisor = b
            if constant is None:
                zero = self.op(f"icmp eq {ty} {b}, 0")
                divisor = self.op(f"select i1 {zero}, {ty} 1, {ty} {b}")
                r = self.op(f"{'udiv' if quotient else 'urem'} {ty} {a}, {divisor}")
                return self.op(f"select i1 {zero}, {ty} 0, {ty} {r}")
            return self.op(f"{'udiv' if quotient else 'urem'} {ty} {a}, {divisor}")
        if (bits := power_of_two(constant)) is not None:
            return self.op(f"ashr {ty} {a}, {bits}" if quotient else f"and {ty} {a}, {(1 << bits) - 1}")
        if constant is not None and constant > 0:
            r = self.op(f"srem {ty} {a}, {b}")
            negative = self.op(f"ashr {ty} {r}, {t.bits - 1}")
            if quotient:
                q = self.op(f"sdiv {ty} {a}, {b}")
                return self.op(f"add {ty} {q}, {negative}")
            fix = self.op(f"and {ty} {negative}, {b}")
            return self.op(f"add {ty} {r}, {fix}")
        zero = self.op(f"icmp eq {ty} {b}, 0")
        minus = self.op(f"icmp eq {ty} {b}, -1")
        either = self.op(f"or i1 {zero}, {minus}")
        divisor = self.op(f"select i1 {either}, {ty} 1, {ty} {b}")
        r = self.op(f"srem {ty} {a}, {divisor}")
        nonzero = self.op(f"icmp ne {ty} {r}, 0")
        mixed = self.op(f"xor {ty} {r}, {divisor}")
        opposite = self.op(f"icmp slt {ty} {mixed}, 0")
        adjust = self.op(f"and i1 {nonzero}, {opposite}")
        if quotient:
            q = self.op(f"sdiv {ty} {a}, {divisor}")
            one = self.op(f"zext i1 {adjust} to {ty}") if t.bits > 1 else adjust
            q = self.op(f"sub {ty} {q}, {one}")
            negated = self.op(f"sub {ty} 0, {a}")
            q = self.op(f"select i1 {minus}, {ty} {negated}, {ty} {q}")
            return self.op(f"select i1 {zero}, {ty} 0, {ty} {q}")
        moved = self.op(f"add {ty} {r}, {divisor}")
        r = self.op(f"select i1 {adjust}, {ty} {moved}, {ty} {r}")
        return self.op(f"select i1 {zero}, {ty} 0, {ty} {r}")

    def cast(self, v: str, source: DType, target: DType) -> str:
        """A conversion; see `Cast` in tc.ir.expr for what it means."""
        if source == target:
            return v
        if source.is_half:
            name = "tc_half_to_float" if source.kind == "float" else "tc_bfloat_to_float"
            return self.cast(self.helper("float", name, "i16", v), FLOAT32, target)
        if target.is_half:
            return self.narrow(v, source, target)
        s, t = llvm_type(source), llvm_type(target)
        if target.is_bool:
            if source.is_float:
                return self.op(f"fcmp une {s} {v}, 0.0")
            return self.op(f"icmp ne {s} {v}, 0")
        if source.is_float:
            if target.is_float:
                return self.op(f"{'fpext' if source.bits < target.bits else 'fptrunc'} {s} {v} to {t}")
            name = f"llvm.fpto{'s' if target.is_signed else 'u'}i.sat.{t}.f{source.bits}"
            return self.call(t, name, (s, v))
        if target.is_float:
            return self.op(f"{'sitofp' if source.is_signed else 'uitofp'} {s} {v} to {t}")
        if source.bits == target.bits:
            return v
        if source.bits > target.bits:
            return self.op(f"trunc {s} {v} to {t}")
        return self.op(f"{'sext' if source.is_signed else 'zext'} {s} {v} to {t}")

    def narrow(self, v: str, source: DType, target: DType) -> str:
        if source.is_int and source.bits == 64 and target.kind == "bfloat":
            v = self.helper("i64", f"tc_{source}_to_53", "i64", v)
        if source != FLOAT32:
            v = self.cast(v, source, FLOAT64)
            v = self.helper("float", "tc_double_to_odd", "double", v)
        name = "tc_float_to_half" if target.kind == "float" else "tc_float_to_bfloat"
        return self.helper("i16", name, "float", v)

    def lazy(self, e: IfThenElse, env: Mapping[str, str]) -> str:
        c = self.value(e.condition, env)
        yes, no, after = self.label("then"), self.label("else"), self.label("endif")
        self.do(f"br i1 {c}, label %{yes}, label %{no}")
        self.start(yes)
        a = self.value(e.then_value, env)
        a_block = self.block
        self.do(f"br label %{after}")
        self.start(no)
        b = self.value(e.else_value, env)
        b_block = self.block
        self.do(f"br label %{after}")
        self.start(after)
        return self.op(f"phi {llvm_type(e.dtype)} [ {a}, %{a_block} ], [ {b}, %{b_block} ]")

    def intrinsic(self, e: Call, env: Mapping[str, str]) -> str:
        if e.kind != "intrinsic":
            raise InternalError(f"a loop nest reads '{e.name}' by its Func")
        args = [(llvm_type(a.dtype), self.value(a, env)) for a in e.args]
        t = llvm_type(e.dtype)
        if e.name == "abs":
            if e.dtype.is_float:
                return self.call(t, f"llvm.fabs.f{e.dtype.bits}", *args)
            return self.call(t, f"llvm.abs.{t}", *args, ("i1", "false")) if e.dtype.is_signed else args[0][1]
        if e.name in INTRINSICS:
            return self.call(t, f"{INTRINSICS[e.name]}.f{e.dtype.bits}", *args)
        builtin = builtins.find(e.name)
        if builtin is None or builtin.kind != "math" or e.dtype not in (FLOAT32, FLOAT64):
            raise InternalError(f"no LLVM spelling for {e.name} of {e.dtype}")
        return self.call(t, builtin.f32() if e.dtype == FLOAT32 else builtin.c, *args)

    # Memory.

    def load(self, e: Load, env: Mapping[str, str]) -> str:
        array = self.arrays[e.buffer]
        subscripts = [self.value(s, env) for s in e.subscripts]
        for d in e.checked:
            self.check(subscripts[d], array, d, e.site, env)
        return self.read(array, self.address(array, subscripts, env))

    def address(self, array: Array, subscripts: list[str], env: Mapping[str, str]) -> str:
        base = self.bases[array.name]
        if not subscripts:
            return base
        position = subscripts[0]
        for s, extent in zip(subscripts[1:], array.shape[1:], strict=True):
            position = self.op(f"mul i64 {position}, {self.value(extent, env)}")
            if s != "0":
                position = self.op(f"add i64 {position}, {s}")
        return self.op(f"getelementptr {storage_type(array.dtype)}, ptr {base}, i64 {position}")

    def read(self, array: Array, address: str) -> str:
        ty = storage_type(array.dtype)
        v = self.op(f"load {ty}, ptr {address}, align {array.dtype.itemsize}")
        return self.op(f"icmp ne i8 {v}, 0") if array.dtype == BOOL else v

    def write(self, array: Array, address: str, v: str) -> None:
        if array.dtype == BOOL:
            v = self.op(f"zext i1 {v} to i8")
        self.do(f"store {storage_type(array.dtype)} {v}, ptr {address}, align {array.dtype.itemsize}")

    def check(self, subscript: str, array: Array, dimension: int, site: int, env: Mapping[str, str]) -> None:
        """Return from the kernel with the error record filled if a subscript is out of range."""
        extent = self.value(array.shape[dimension], env)
        inside, outside = self.label("inside"), self.label("outside")
        ok = self.op(f"icmp ult i64 {subscript}, {extent}")
        self.do(f"br i1 {ok}, label %{inside}, label %{outside}")
        self.start(outside)
        lower = self.value(array.lower[dimension], env) if array.lower else "0"
        subscript = subscript if lower == "0" else self.op(f"add i64 {subscript}, {lower}")
        for slot, v in enumerate(
            error_record(site, subscript, self.point, array.source_dimension(dimension))
        ):
            at = self.op(f"getelementptr i64, ptr %error, i64 {slot}")
            self.do(f"store i64 {v}, ptr {at}")
        self.do("ret i32 1")
        self.start(inside)


def error_record(site: int, subscript: str, point: tuple[str, ...], dimension: int) -> tuple[str, ...]:
    """The words that a failed check stores: site + 1, the subscript, the number of iteration variables, their
    values, and the dimension of the array."""
    kept = point[:MAX_POINT]
    return (str(site + 1), subscript, str(len(kept)), *kept, str(dimension))
