"""Expressions to text in dialects of C, with the numerics of docs/language.md.

An expression becomes text, and statements that must run before it: for checked subscripts, lets, and lazy
ternaries with either of these inside.  Narrow integers are cast back after each operation; wider ones wrap by
-fwrapv in C, and elsewhere because `tc.transforms.loops.narrow` made those unsigned that may overflow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tc.codegen.c_helpers import Helpers, short
from tc.codegen.dialect import C99, Dialect
from tc.codegen.names import bound, identifier
from tc.codegen.numerics import bits16
from tc.dtypes import BOOL, FLOAT32, FLOAT64, UINT16, UINT32, UINT64, DType
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
    variables,
)
from tc.ir.loops import Array
from tc.ir.printer import float_text
from tc.ir.simplify import is_pure
from tc.lang import builtins

# Precedences of C, weakest first.
TERNARY, OR, AND, EQUAL, RELATION, SUM, PRODUCT, UNARY, ATOM = range(9)

_BINARY: dict[type, tuple[str, int]] = {
    Add: ("+", SUM), Sub: ("-", SUM), Mul: ("*", PRODUCT), Div: ("/", PRODUCT),
    EQ: ("==", EQUAL), NE: ("!=", EQUAL), LT: ("<", RELATION), LE: ("<=", RELATION),
    GT: (">", RELATION), GE: (">=", RELATION), And: ("&&", AND), Or: ("||", OR),
}  # fmt: skip

# POSIX functions, declared where they are used, since -std=c99 hides them in math.h.
_UNDECLARED = frozenset(("j0", "j1", "y0", "y1"))


@dataclass(frozen=True, slots=True)
class Text:
    """C text and the precedence of its outermost operator."""

    text: str
    level: int = ATOM

    def at(self, level: int) -> str:
        """The text as an operand that needs at least this precedence."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True, slots=True)
class ArrayStyle:
    """The name of an array, and whether its accesses are `A[i][j]` (`nested`) or `A[i * N + j]`."""

    name: str
    nested: bool


@dataclass(slots=True)
class CExpr:
    """Translates expressions to text; `lines` collects statements that must run before.

    The intrinsics `/` and `%` of integers are those of C, for operands that are not negative.
    """

    arrays: Mapping[str, Array]
    styles: Mapping[str, ArrayStyle]
    helpers: Helpers
    lines: list[str] = field(default_factory=list[str])
    prototypes: set[str] = field(default_factory=set[str])
    used_names: set[str] = field(default_factory=set[str])
    used_buffers: set[str] = field(default_factory=set[str])
    point: Sequence[str] = ()
    pad: str = "  "
    fails: bool = False  # whether there is a check
    frame: int = 0  # bytes of stack for library functions

    @property
    def dialect(self) -> Dialect:
        return self.helpers.dialect

    def type(self, t: DType) -> str:
        return self.helpers.dialect.type(t)

    def fresh(self, stem: str) -> str:
        """A name that is not used in the kernel."""
        name, count = stem, 0
        while name in self.used_names:
            count += 1
            name = f"{stem}{count}"
        self.used_names.add(name)
        return name

    def value(self, e: Expr, env: Mapping[str, str]) -> Text:
        match e:
            case IntImm() | UIntImm() | FloatImm():
                return literal(e, self.dialect)
            case Variable():
                if e.name not in env:
                    raise InternalError(f"the loop nest uses '{e.name}', which nothing defines")
                return Text(env[e.name])
            case Cast():
                return self.cast(self.value(e.value, env), e.value.dtype, e.dtype)
            case Add() | Sub() | Mul() | Div():
                return self.arithmetic(e, env)
            case FloorDiv() | FloorMod():
                stem = "floordiv" if isinstance(e, FloorDiv) else "floormod"
                return self.call(
                    self.helpers.typed(stem, e.dtype), self.value(e.a, env), self.value(e.b, env)
                )
            case Min() | Max():
                a, b = self.value(e.a, env), self.value(e.b, env)
                return self.combine("min" if isinstance(e, Min) else "max", a, b, e.dtype)
            case EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or():
                symbol, level = _BINARY[type(e)]
                a, b = (_grouped(level, self.value(x, env)) for x in (e.a, e.b))
                return Text(f"{a} {symbol} {b}", level)
            case Not():
                return Text(f"!{self.value(e.a, env).at(UNARY)}", UNARY)
            case Select():
                c = self.value(e.condition, env)
                a, b = self.value(e.true_value, env), self.value(e.false_value, env)
                return Text(f"{c.at(OR)} ? {a.at(OR)} : {b.at(TERNARY)}", TERNARY)
            case IfThenElse():
                return self.lazy(e, env)
            case Let():
                if e.name not in variables(e.body):
                    if not is_pure(e.value):
                        self.line(f"(void)({self.value(e.value, env).text});")
                    return self.value(e.body, env)
                v = self.value(e.value, env)
                name = self.fresh(identifier(e.name))
                self.line(f"const {self.type(e.value.dtype)} {name} = {v.text};")
                return self.value(e.body, bound(env, e.name, name))
            case Call():
                return self.intrinsic(e, env)
            case Load():
                return self.load(e, env)
            case _:
                unreachable(e)

    def line(self, text: str) -> None:
        self.lines.append(f"{self.pad}{text}")

    def call(self, name: str, *args: Text) -> Text:
        return Text(f"{name}({', '.join(a.at(TERNARY) for a in args)})")

    def arithmetic(self, e: Add | Sub | Mul | Div, env: Mapping[str, str]) -> Text:
        a, b = self.value(e.a, env), self.value(e.b, env)
        symbol, level = _BINARY[type(e)]
        t = e.dtype
        if t.is_half or t.is_bool:
            raise InternalError(f"arithmetic on {t}")
        if isinstance(e.a, (IntImm, UIntImm)) and isinstance(e.b, (IntImm, UIntImm)) and t.bits == 64:
            a = Text(f"({self.type(t)}){a.at(UNARY)}", UNARY)
        if isinstance(e, Sub) and e.a in (IntImm(0, t), UIntImm(0, t)):
            return self.wrapped(Text(f"-{b.at(ATOM)}", UNARY), t)
        # Floating sums and products are evaluated as grouped; integers may be written flat.
        flat = t.is_int and t.bits >= 32 and isinstance(e, (Add, Mul)) and type(e.b) is type(e)
        return self.wrapped(Text(f"{a.at(level)} {symbol} {b.at(level + (not flat))}", level), t)

    def wrapped(self, v: Text, t: DType) -> Text:
        """An integer narrower than C's int, brought back to its type."""
        if t.is_int and t.bits < 32:
            return Text(f"({self.type(t)}){v.at(UNARY)}", UNARY)
        return v

    def combine(self, operator: str, a: Text, b: Text, t: DType) -> Text:
        """`+ *` and `min max` of two values, for reductions."""
        if t.is_half:
            raise InternalError(f"arithmetic on {t}")
        if t.is_bool:  # as sums and products in int32, compared with 0
            either = operator in ("+", "max")
            return Text(f"{a.at(EQUAL)} {'||' if either else '&&'} {b.at(EQUAL)}", OR if either else AND)
        if operator in ("min", "max"):
            return self.call(self.helpers.typed(operator, t), a, b)
        level = SUM if operator == "+" else PRODUCT
        if not self.overflows(t):
            return self.wrapped(Text(f"{a.at(level)} {operator} {b.at(level + 1)}", level), t)
        u = UINT64 if t.bits == 64 else UINT32
        a, b = self.cast(a, t, u), self.cast(b, t, u)
        return self.cast(Text(f"{a.at(level)} {operator} {b.at(level + 1)}", level), u, t)

    def overflows(self, t: DType) -> bool:
        """Whether sums or products of this type must be unsigned to wrap (uint16, as C multiplies int)."""
        return not self.dialect.wraps and ((t.is_int and t.is_signed and t.bits >= 32) or t == UINT16)

    def cast(self, v: Text, source: DType, target: DType) -> Text:
        """A conversion; see `Cast` in tc.ir.expr for what it means."""
        if source == target:
            return v
        if source.is_half:
            return self.cast(self.call(self.helpers.named(f"tc_{short(source)}_to_f32"), v), FLOAT32, target)
        if target.is_half:
            if source.is_int and source.bits == 64 and target.kind == "bfloat":
                # A float16 is exact in a double, or infinite.
                v = self.call(self.helpers.named(f"tc_{short(source)}_to_53"), v)
            if source != FLOAT32:
                v = self.call(self.helpers.named("tc_f64_to_odd"), self.cast(v, source, FLOAT64))
            return self.call(self.helpers.named(f"tc_f32_to_{short(target)}"), v)
        if target.is_bool:
            return Text(f"{v.at(EQUAL + 1)} != 0", EQUAL)
        if source.is_float and target.is_int:
            return self.call(self.helpers.to_integer(source, target), v)
        return Text(f"({self.type(target)}){v.at(UNARY)}", UNARY)

    def lazy(self, e: IfThenElse, env: Mapping[str, str]) -> Text:
        c = self.value(e.condition, env)
        before, self.lines, outer = self.lines, [], self.pad
        self.pad = outer + "  "
        a = self.value(e.then_value, env)
        then_lines, self.lines = self.lines, []
        b = self.value(e.else_value, env)
        else_lines, self.lines, self.pad = self.lines, before, outer
        if not then_lines and not else_lines:
            return Text(f"{c.at(OR)} ? {a.at(OR)} : {b.at(TERNARY)}", TERNARY)
        name = self.fresh("chosen")
        self.line(f"{self.type(e.dtype)} {name};")
        self.line(f"if ({c.text}) {{")
        self.lines += [*then_lines, f"{outer}  {name} = {a.text};"]
        self.line("} else {")
        self.lines += [*else_lines, f"{outer}  {name} = {b.text};"]
        self.line("}")
        return Text(name)

    def intrinsic(self, e: Call, env: Mapping[str, str]) -> Text:
        if e.kind != "intrinsic":
            raise InternalError(f"a loop nest reads '{e.name}' by its Func")
        args = [self.value(a, env) for a in e.args]
        if e.name in ("/", "%"):
            a, b = args
            return Text(f"{a.at(PRODUCT)} {e.name} {b.at(PRODUCT + 1)}", PRODUCT)
        if e.name == "abs" and not e.dtype.is_float:
            return self.call(self.helpers.typed("abs", e.dtype), *args) if e.dtype.is_signed else args[0]
        builtin = builtins.find("fabs" if e.name == "abs" else e.name)
        if builtin is None or builtin.kind != "math" or e.dtype not in (FLOAT32, FLOAT64):
            raise InternalError(f"no {self.dialect.name} spelling for {e.name} of {e.dtype}")
        if e.dtype == FLOAT32 and builtin.name in self.dialect.replaced:
            return self.call(self.helpers.named(self.dialect.replaced[builtin.name]), *args)
        if e.dtype == FLOAT32 and builtin.name in self.dialect.doubled:
            name, _ = self.dialect.function(builtin, FLOAT64)
            wide = [Text(f"({self.type(FLOAT64)}){a.at(UNARY)}", UNARY) for a in args]
            return Text(f"({self.type(FLOAT32)}){self.call(name, *wide).at(UNARY)}", UNARY)
        name, own = self.dialect.function(builtin, e.dtype)
        self.frame = max(self.frame, self.dialect.stack_frames.get(name, 0))
        if own:
            self.helpers.math.add(name)
        elif self.dialect is C99 and builtin.name in _UNDECLARED:
            self.prototypes.add(f"{self.type(e.dtype)} {name}({self.type(e.dtype)});")
        return self.call(name, *args)

    # Memory.

    def load(self, e: Load, env: Mapping[str, str]) -> Text:
        array = self.arrays[e.buffer]
        subscripts = [self.value(s, env) for s in e.subscripts]
        for d in e.checked:
            subscripts[d] = self.check(subscripts[d], e, d, env)
        return self.read(array, self.element(array, subscripts, env))

    def read(self, array: Array, element: str) -> Text:
        return Text(f"{element} != 0", EQUAL) if array.dtype == BOOL else Text(element)

    def check(self, subscript: Text, e: Load, dimension: int, env: Mapping[str, str]) -> Text:
        name, extent, logical = self.checked_subscript(subscript, e, dimension, env)
        point = ", ".join(self.point) or "0"
        place = self.arrays[e.buffer].source_dimension(dimension)
        fail = self.helpers.named("tc_fail")
        self.fails = True
        self.line(f"if ({name} < 0 || {name} >= {extent})")
        self.line(
            f"  return {fail}(error, {e.site}, {logical}, {place}, {len(self.point)},"
            f" (const int64_t[]){{{point}}});"
        )
        return Text(name)

    def checked_subscript(
        self, subscript: Text, e: Load, dimension: int, env: Mapping[str, str]
    ) -> tuple[str, str, str]:
        """A checked subscript as a variable, the extent that limits it, and its value in the source."""
        array = self.arrays[e.buffer]
        extent = self.value(array.shape[dimension], env)
        name = self.fresh("at")
        self.line(f"const {self.type(e.subscripts[dimension].dtype)} {name} = {subscript.text};")
        lower = self.value(array.lower[dimension], env).at(SUM) if array.lower else "0"
        logical = name if lower == "0" else f"{name} + {lower}"
        return name, extent.at(SUM), logical

    def element(self, array: Array, subscripts: Sequence[Text], env: Mapping[str, str]) -> str:
        """The lvalue of an element."""
        self.used_buffers.add(array.name)
        style = self.styles[array.name]
        if not subscripts:
            return f"{style.name}[0]"
        if style.nested:
            return style.name + "".join(f"[{s.text}]" for s in subscripts)
        position = subscripts[0]
        for s, extent in zip(subscripts[1:], array.shape[1:], strict=True):
            scaled = f"{position.at(PRODUCT)} * {self.value(extent, env).at(UNARY)}"
            position = Text(f"{scaled} + {s.at(SUM + 1)}", SUM)
        return f"{style.name}[{position.text}]"


def _grouped(level: int, v: Text) -> str:
    """An operand of a comparison or of && and ||, with parentheses around && in || and around a comparison in
    a comparison, for which compilers warn."""
    if level in (AND, OR):
        return v.text if v.level == level else v.at(EQUAL)
    return v.at(SUM)


def literal(e: IntImm | UIntImm | FloatImm, dialect: Dialect = C99) -> Text:
    """A literal of the same value, in the same type or in one that converts to it exactly."""
    t = e.dtype
    if isinstance(e, FloatImm):
        return _float_literal(e.value, t, dialect)
    if t.is_bool:
        return Text("true" if e.value else "false")
    v = t.wrap(e.value)
    if not t.is_signed:
        suffix = "" if t.bits < 32 else "u" if v < 1 << 32 else "u" + dialect.long_suffix
        return Text(f"{v}{suffix}")
    if v == t.min and t.bits >= 32:
        return Text(dialect.text(f"INT{t.bits}_MIN"))
    suffix = "" if -(1 << 31) <= v < 1 << 31 else dialect.long_suffix
    return Text(f"{v}{suffix}", UNARY if v < 0 else ATOM)


def _float_literal(value: float, t: DType, dialect: Dialect) -> Text:
    if t.is_half:
        return Text(f"0x{bits16(value, t):04x}")
    single = t == FLOAT32
    if math.isnan(value) or math.isinf(value):
        text = dialect.text("NAN" if math.isnan(value) else "INFINITY")
        if (
            not single and dialect is not C99
        ):  # NAN and INFINITY are float, which would choose overloads of float
            text = f"(double){text}"
        sign = "-" if value < 0 else ""
        return Text(sign + text, UNARY if sign or text.startswith("(double)") else ATOM)
    shown = float_text(value, single)
    negative = shown.startswith("-")
    return Text(shown + ("f" if single else ""), UNARY if negative else ATOM)
