"""A small language for straight-line vector code: Python operators append LLVM IR instructions.

The same body is written for any number of lanes.  One lane is a plain scalar and runs the same operations in
the same order, so that a result never depends on where a vector loop ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tc.codegen.vector_math.formats import DOUBLE, Format, Target, literal

_SUFFIX = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "i1": "i1",
}
_INTEGER = {"float": "i32", "double": "i64"}


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An operand.  Operators take values of the same type or Python numbers."""

    body: Body = field(repr=False)
    element: str
    operand: str

    @property
    def is_float(self) -> bool:
        return self.element in _INTEGER

    @property
    def type(self) -> str:
        return self.body.type(self.element)

    def _with(self, instruction: str, other: Value | float, element: str = "") -> Value:
        o = self.body.constant(other, self.element) if isinstance(other, (int, float)) else other
        assert o.element == self.element, (instruction, self, o)
        return self.body.op(f"{instruction} {self.type} {self.operand}, {o.operand}", element or self.element)

    def __add__(self, other: Value | float) -> Value:
        return self._with("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._with("fsub" if self.is_float else "sub", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._with("fmul" if self.is_float else "mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._with("fdiv", other)

    def __rsub__(self, other: float) -> Value:
        return self.body.constant(other, self.element) - self

    def __rtruediv__(self, other: float) -> Value:
        return self.body.constant(other, self.element) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Value:
        return self.body.op(f"fneg {self.type} {self.operand}", self.element) if self.is_float else 0 - self

    def __and__(self, other: Value | int) -> Value:
        return self._with("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._with("xor", other)

    def __invert__(self) -> Value:
        return self._with("xor", -1)

    def __lshift__(self, count: int) -> Value:
        return self._with("shl", count)

    def __rshift__(self, count: int) -> Value:
        """Zeros come in."""
        return self._with("lshr", count)

    def ashr(self, count: int) -> Value:
        return self._with("ashr", count)

    def _compare(self, predicate: str, other: Value | float) -> Value:
        prefix, kind = ("o" if predicate != "ne" else "u", "fcmp") if self.is_float else ("", "icmp")
        if not self.is_float and predicate not in ("eq", "ne") and predicate[0] != "u":
            prefix = "s"
        return self._with(f"{kind} {prefix}{predicate}", other, "i1")

    # Comparisons; integers are signed.  With a NaN all but `ne` are false.
    def lt(self, other: Value | float) -> Value:
        return self._compare("lt", other)

    def le(self, other: Value | float) -> Value:
        return self._compare("le", other)

    def gt(self, other: Value | float) -> Value:
        return self._compare("gt", other)

    def ge(self, other: Value | float) -> Value:
        return self._compare("ge", other)

    def eq(self, other: Value | float) -> Value:
        return self._compare("eq", other)

    def ne(self, other: Value | float) -> Value:
        return self._compare("ne", other)

    def is_nan(self) -> Value:
        return self._with("fcmp uno", self, "i1")

    def select(self, yes: Value | float, no: Value | float) -> Value:
        """Of a truth value: `yes` where it holds."""
        some = yes if isinstance(yes, Value) else no
        assert isinstance(some, Value)
        t = some.element
        a = yes if isinstance(yes, Value) else self.body.constant(yes, t)
        b = no if isinstance(no, Value) else self.body.constant(no, t)
        assert a.element == b.element
        return self.body.op(
            f"select {self.type} {self.operand}, {a.type} {a.operand}, {b.type} {b.operand}", t
        )

    def at_most(self, limit: float) -> Value:
        """The lesser of the two; a NaN stays one (`minps limit, x`)."""
        return self.gt(limit).select(limit, self)

    def at_least(self, limit: float) -> Value:
        return self.lt(limit).select(limit, self)

    def convert(self, instruction: str, element: str) -> Value:
        return self.body.op(f"{instruction} {self.type} {self.operand} to {self.body.type(element)}", element)

    def bits(self) -> Value:
        return self.convert("bitcast", _INTEGER[self.element])

    def float(self) -> Value:
        """The floating number with these bits."""
        return self.convert("bitcast", "float" if self.element == "i32" else "double")

    def abs(self) -> Value:
        return self.body.intrinsic("fabs", self)

    def sqrt(self) -> Value:
        return self.body.intrinsic("sqrt", self)

    def copysign(self, sign: Value) -> Value:
        return self.body.intrinsic("copysign", self, sign)


class Sink(Protocol):
    """Where instructions go; tc.codegen.llvm_expr.ExprEmitter is one."""

    block: str

    def op(self, text: str) -> str: ...
    def do(self, text: str) -> None: ...
    def label(self, stem: str) -> str: ...
    def start(self, label: str) -> None: ...


class Lines:
    """A sink of its own: the body of a function."""

    def __init__(self) -> None:
        self.block = "entry"
        self.lines = ["entry:"]
        self._count = 0

    def op(self, text: str) -> str:
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label


class Body:
    """Instructions for one function, on their way to a sink."""

    def __init__(self, lanes: int, target: Target, sink: Sink) -> None:
        self.lanes = lanes
        self.target = target
        self.sink = sink
        self.declarations: set[str] = set()
        self.functions: dict[str, str] = {}  # out-of-line rare paths

    def type(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def suffix(self, element: str) -> str:
        return _SUFFIX[element] if self.lanes == 1 else f"v{self.lanes}{_SUFFIX[element]}"

    def op(self, instruction: str, element: str) -> Value:
        return Value(self, element, self.sink.op(instruction))

    def constant(self, value: float, element: str) -> Value:
        if element in _INTEGER:
            text = literal(float(value), element)
        else:
            assert isinstance(value, int)
            text = ("true" if value else "false") if element == "i1" else str(value)
        return Value(self, element, text if self.lanes == 1 else f"splat ({element} {text})")

    def intrinsic(self, name: str, *args: Value, element: str = "") -> Value:
        """An intrinsic that is overloaded on its first operand's type only."""
        return self.call(f"llvm.{name}.{self.suffix(args[0].element)}", element or args[0].element, *args)

    def call(self, symbol: str, element: str, *args: Value) -> Value:
        ty = self.type(element)
        self.declarations.add(f"declare {ty} @{symbol}({', '.join(a.type for a in args)})")
        return self.op(f"call {ty} @{symbol}({', '.join(f'{a.type} {a.operand}' for a in args)})", element)

    def _x86(self, name: str, args: Sequence[Value], immediate: int | None) -> Value:
        """A masked AVX-512 intrinsic with an all-ones mask; less than 128 bits are widened."""
        element = args[0].element
        width = 32 if element == "float" else 64
        lanes = max(self.lanes, 128 // width)
        kind, total = "ps" if width == 32 else "pd", lanes * width
        ty = f"<{lanes} x {element}>"
        operands = [f"{ty} {self._widened(a, lanes)}" for a in args]
        types = [ty] * len(args)
        if immediate is not None:
            operands.append(f"i32 {immediate}")
            types.append("i32")
        mask = "i16" if lanes == 16 else "i8"
        operands += [f"{ty} zeroinitializer", f"{mask} -1"]
        types += [ty, mask]
        if total == 512:
            operands.append("i32 4")  # the current rounding direction
            types.append("i32")
        symbol = f"llvm.x86.avx512.mask.{name}.{kind}.{total}"
        self.declarations.add(f"declare {ty} @{symbol}({', '.join(types)})")
        result = self.sink.op(f"call {ty} @{symbol}({', '.join(operands)})")
        return self._narrowed(element, lanes, result)

    def _narrowed(self, element: str, lanes: int, wide: str) -> Value:
        """The first elements of a vector of so many lanes: the opposite of `_widened`."""
        ty = f"<{lanes} x {element}>"
        if self.lanes == 1:
            wide = self.sink.op(f"extractelement {ty} {wide}, i64 0")
        elif self.lanes < lanes:
            low = ", ".join(f"i32 {i}" for i in range(self.lanes))
            wide = self.sink.op(f"shufflevector {ty} {wide}, {ty} poison, <{self.lanes} x i32> <{low}>")
        return Value(self, element, wide)

    def _widened(self, a: Value, lanes: int) -> str:
        if self.lanes == lanes:
            return a.operand
        ty = f"<{lanes} x {a.element}>"
        if self.lanes == 1:
            return self.sink.op(f"insertelement {ty} zeroinitializer, {a.type} {a.operand}, i64 0")
        order = ", ".join(f"i32 {min(i, self.lanes)}" for i in range(lanes))
        return self.sink.op(
            f"shufflevector {a.type} {a.operand}, {a.type} zeroinitializer, <{lanes} x i32> <{order}>"
        )

    def scalef(self, x: Value, n: Value) -> Value:
        """x 2^floor(n), rounded once, for any n."""
        return self._x86("scalef", [x, n], None)

    def getexp(self, x: Value) -> Value:
        """floor(log2 |x|), also of subnormals; -inf of zero, +inf of infinity."""
        return self._x86("getexp", [x], None)

    def getmant(self, x: Value) -> Value:
        """|x| times a power of two, in [3/4, 3/2); NaN for negative x, 1 for zeros and infinity."""
        return self._x86("getmant", [x], 0b1111)

    def looked_up(self, table: Sequence[float], places: Value) -> Value:
        """Elements of a table of sixteen float32, by the last four bits of integers; with AVX-512 only."""
        wide = "<16 x float>"
        symbol = "llvm.x86.avx512.permvar.sf.512"
        self.declarations.add(f"declare {wide} @{symbol}({wide}, <16 x i32>)")
        elements = ", ".join(f"float {literal(x, 'float')}" for x in table)
        at = self._widened(places, 16)
        result = self.sink.op(f"call {wide} @{symbol}({wide} <{elements}>, <16 x i32> {at})")
        return self._narrowed("float", 16, result)

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """a b + c in one rounding; only where the target has it."""
        assert self.target.fma
        b = b if isinstance(b, Value) else self.constant(b, a.element)
        c = c if isinstance(c, Value) else self.constant(c, a.element)
        return self.intrinsic("fma", a, b, c)

    def mad(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """a b + c in one rounding where the target has it, else in two."""
        return self.fma(a, b, c) if self.target.fma else a * b + c

    def wide(self) -> Body:
        """For float64 work on lanes of float32: too many for the AVX-512 intrinsics."""
        other = Body(self.lanes, Target(self.target.fma), self.sink)
        other.declarations, other.functions = self.declarations, self.functions
        return other

    def in_double(self, f: Format, function: Callable[[Body, Format, Value], Value], x: Value) -> Value:
        """A function of one variable by its float64 form."""
        if f is DOUBLE:
            return function(self, f, x)
        wide = self.wide()
        return function(wide, DOUBLE, Value(wide, "double", x.convert("fpext", "double").operand)).convert(
            "fptrunc", "float"
        )

    def two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """a + b and its rounding error (Knuth)."""
        s = a + b
        t = s - a
        return s, (a - (s - t)) + (b - t)

    def fast_two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The same for |a| >= |b| or a = 0 (Dekker)."""
        s = a + b
        return s, b - (s - a)

    def two_product(self, f: Format, a: Value, b: Value | float) -> tuple[Value, Value]:
        """a b and its rounding error; without FMA by splitting (Veltkamp, Dekker), which truncates halves."""
        if not isinstance(b, Value):
            b = self.constant(b, a.element)
        p = a * b
        if self.target.fma:
            return p, self.fma(a, b, -p)
        mask = -(1 << (f.precision + 1) // 2)
        ah, bh = (a.bits() & mask).float(), (b.bits() & mask).float()
        al, bl = a - ah, b - bh
        return p, ((ah * bh - p) + (ah * bl + al * bh)) + al * bl

    def rarely(self, mask: Value, x: Value, usual: Value, symbol: str) -> Value:
        """`usual`, but in lanes of the mask the external scalar function of x: a branch that is not taken as
        long as no lane is."""
        sink, ty = self.sink, x.type
        if self.lanes == 1:
            some = mask.operand
            self.declarations.add(f"declare {ty} @{symbol}({ty})")
            function = symbol
        else:
            bits = sink.op(f"bitcast {mask.type} {mask.operand} to i{self.lanes}")
            some = sink.op(f"icmp ne i{self.lanes} {bits}, 0")
            function = self._per_lane(symbol, x.element)
        rare, after = sink.label("rare"), sink.label("usual")
        before = sink.block
        sink.do(f"br i1 {some}, label %{rare}, label %{after}")
        sink.start(rare)
        called = sink.op(f"call {ty} @{function}({ty} {x.operand})")
        if self.lanes > 1:
            choice = f"{mask.type} {mask.operand}, {ty} {called}, {ty} {usual.operand}"
            called = sink.op(f"select {choice}")
        end = sink.block
        sink.do(f"br label %{after}")
        sink.start(after)
        return self.op(f"phi {ty} [ {usual.operand}, %{before} ], [ {called}, %{end} ]", x.element)

    def _per_lane(self, symbol: str, element: str) -> str:
        ty = self.type(element)
        name = f"tc_lanes_{symbol}_{self.suffix(element)}"
        self.declarations.add(f"declare {element} @{symbol}({element})")
        lines = [f"define internal {ty} @{name}({ty} %x) noinline nounwind {{"]
        result = "poison"
        for i in range(self.lanes):
            lines += [
                f"  %x{i} = extractelement {ty} %x, i64 {i}",
                f"  %y{i} = call {element} @{symbol}({element} %x{i})",
                f"  %r{i} = insertelement {ty} {result}, {element} %y{i}, i64 {i}",
            ]
            result = f"%r{i}"
        self.functions[name] = "\n".join([*lines, f"  ret {ty} {result}", "}", ""])
        return name

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """A polynomial, lowest coefficient first."""
        value = self.constant(coefficients[-1], x.element)
        for c in reversed(coefficients[:-1]):
            value = self.mad(value, x, c)
        return value

    def power(self, f: Format, n: Value) -> Value:
        """2^n for an integer n (as a floating number) that gives a normal number."""
        return (((n + f.magic).bits() + f.bias) << f.fraction).float()

    def series(self, x: Value, coefficients: Sequence[float]) -> Value:
        """A polynomial whose rounding errors do not matter: short ones by Horner's rule."""
        return self.horner(x, coefficients) if x.element == "float" else self.estrin(x, coefficients)

    def estrin(self, x: Value, coefficients: Sequence[float | Value]) -> Value:
        """The same with logarithmic latency, for a few multiplications more (Muller, "Elementary
        Functions", 3rd ed., 2016, 4.2)."""
        terms = [c if isinstance(c, Value) else self.constant(c, x.element) for c in coefficients]
        power = x
        while len(terms) > 1:
            paired = [self.mad(b, power, a) for a, b in zip(terms[::2], terms[1::2])]
            if len(terms) % 2:
                paired.append(terms[-1])
            terms = paired
            if len(terms) > 1:
                power = power * power
        return terms[0]
