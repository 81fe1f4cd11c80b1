"""Typed expressions of statements in the IR: values in their compute type, subscripts and conditions as exact
integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tc.dtypes import FLOAT32, DType
from tc.errors import InternalError, unreachable
from tc.ir import expr as x
from tc.ir.boxes import Boxes
from tc.ir.expr import INDEX, Expr
from tc.lang import lets
from tc.lang import resolved as r
from tc.lang.builtins import BUILTINS

Read: TypeAlias = Callable[[r.Access, r.Statement], Expr]

_NODES = {
    "+": x.Add, "-": x.Sub, "*": x.Mul, "==": x.EQ, "!=": x.NE, "<": x.LT, "<=": x.LE, ">": x.GT, ">=": x.GE,
    "&&": x.And, "||": x.Or,
}  # fmt: skip


def compute_type(dtype: DType) -> DType:
    """The type arithmetic happens in: 16-bit floating types compute in float32."""
    return FLOAT32 if dtype.is_half else dtype


class Expressions:
    """Lowers expressions.  `read` lowers an access, `counters` are the variables of loops in terms of those
    that count from 0; `strict` rounds half values of statements."""

    def __init__(self, boxes: Boxes, counters: Mapping[str, Expr], strict: bool, read: Read) -> None:
        self.boxes = boxes
        self.counters = counters
        self.strict = strict
        self.read = read

    def root(self, st: r.Statement, stored: DType) -> Expr:
        """A statement's right-hand side as it is stored, with its lets around it."""
        kept: list[r.LetBinding] = []
        guarded = lets.under_guard(st)
        used = lets.used_in(st.value)
        inlined: set[str] = set()
        for b in reversed(st.lets):
            if b.name not in used:
                continue
            used |= lets.used_in(b.value)
            if b.name in guarded and lets.reads_data(b.value, st):
                inlined.add(b.name)
            else:
                kept.insert(0, b)
        body = self.value(lets.inline(st.value, st, inlined), st)
        if stored != body.dtype:
            body = x.Cast(stored, body)
        elif self.strict and st.value.dtype is not None and st.value.dtype.is_half:
            body = x.Cast(FLOAT32, x.Cast(st.value.dtype, body))
        for b in reversed(kept):
            body = x.Let(b.name, self.value(lets.inline(b.value, st, inlined), st), body)
        return body

    def value(self, e: r.Exp, st: r.Statement) -> Expr:
        """A typed expression in its compute type."""
        dtype = compute_type(typed_as(e))
        match e:
            case r.Const():
                return x.imm(e.value, dtype)
            case r.Imaginary():
                return x.Call("imaginary", (x.imm(e.value, dtype.part),), dtype, "intrinsic")
            case r.Index() | r.Size():
                return _cast(dtype, x.Variable(e.name))
            case r.Counter() | r.ExtentOf() | r.OriginOf():
                return _cast(dtype, self.index(e, st))
            case r.Scalar():
                return _cast(dtype, x.Variable(e.name, e.declared))
            case r.LastIndex():
                return x.imm(dtype.max, dtype)
            case r.Let():
                return x.Variable(e.name, dtype)
            case r.Access():
                return _cast(dtype, self.read(e, st))
            case r.Apply():
                return self._apply(e, st)
            case r.Unary():
                operand = self.value(e.operand, st)
                if e.op == "!":
                    return x.Not(operand)
                # -x of a floating x keeps the sign of zero, which 0 - x would not.
                inexact = dtype.is_float or dtype.is_complex
                return x.Mul(operand, x.imm(-1, dtype)) if inexact else x.Sub(x.imm(0, dtype), operand)
            case r.Binary():
                a, b = self.value(e.left, st), self.value(e.right, st)
                if e.op == "/":
                    return x.Div(a, b) if a.dtype.is_float or a.dtype.is_complex else x.FloorDiv(a, b)
                return x.FloorMod(a, b) if e.op == "%" else _NODES[e.op](a, b)
            case r.If():
                return x.IfThenElse(
                    self.value(e.condition, st), self.value(e.then, st), self.value(e.otherwise, st)
                )
            case r.Cast():
                inner = self.value(e.operand, st)
                if e.target.is_half and inner.dtype != e.target and (e.written or not inner.dtype.is_float):
                    return x.Cast(FLOAT32, x.Cast(e.target, inner))
                return _cast(dtype, inner)
            case _:
                unreachable(e)

    def _apply(self, e: r.Apply, st: r.Statement) -> Expr:
        args = [self.value(a, st) for a in e.args]
        dtype = compute_type(typed_as(e))
        match e.function:
            case "min" | "max":
                node = x.Min if e.function == "min" else x.Max
                out = args[0]
                for a in args[1:]:
                    out = node(out, a)
                return out
            case "select":
                return x.Select(args[0], args[1], args[2])
            case "abs" if args[0].dtype.is_complex:
                return x.Call("abs", tuple(args), dtype, "intrinsic")
            case "abs" if not dtype.is_float and not dtype.is_signed:
                return args[0]
            case "abs":
                return x.Call("fabs" if dtype.is_float else "abs", tuple(args), dtype, "intrinsic")
            case name if name in BUILTINS:
                return x.Call(name, tuple(args), dtype, "intrinsic")
            case _:
                raise InternalError(f"no lowering for the built-in {e.function!r}")

    def index(self, e: r.Exp, st: r.Statement) -> Expr:
        """A subscript, bound or offset as exact integer arithmetic; data enters through a cast."""
        match e:
            case r.Const():
                return x.IntImm(int(e.value))
            case r.Index() | r.Size():
                return x.Variable(e.name)
            case r.Counter():
                return self.counters[e.name]
            case r.Scalar():
                return _cast(INDEX, x.Variable(e.name, e.declared))
            case r.ExtentOf():
                return self.boxes.box(e.tensor)[e.axis].extent
            case r.OriginOf():
                return self.boxes.box(e.tensor)[e.axis].min
            case r.Let():
                return self.index(st.let(e.name), st)
            case r.Cast() if not lets.inexact(e, st):
                return self.index(e.operand, st)
            case _ if lets.inexact(e, st):
                return _cast(INDEX, self.value(lets.inline(e, st, {b.name for b in st.lets}), st))
            case r.Unary(op="-"):
                return x.Sub(x.ZERO, self.index(e.operand, st))
            case r.Binary() if e.op in ("+", "-", "*", "/", "%"):
                a, b = self.index(e.left, st), self.index(e.right, st)
                if e.op == "/":
                    return x.FloorDiv(a, b)
                return x.FloorMod(a, b) if e.op == "%" else _NODES[e.op](a, b)
            case r.Apply(function="min" | "max"):
                node = x.Min if e.function == "min" else x.Max
                out = self.index(e.args[0], st)
                for a in e.args[1:]:
                    out = node(out, self.index(a, st))
                return out
            case r.Apply(function="abs"):
                a = self.index(e.args[0], st)
                return x.Max(a, x.Sub(x.ZERO, a))
            case r.If() | r.Apply(function="select"):
                c, a, b = r.children(e)
                return x.Select(self.condition(c, st), self.index(a, st), self.index(b, st))
            case _:
                return _cast(INDEX, self.value(lets.inline(e, st, {b.name for b in st.lets}), st))

    def condition(self, e: r.Exp, st: r.Statement) -> Expr:
        """A relation between index expressions."""
        match e:
            case r.Let():
                return self.condition(st.let(e.name), st)
            case r.Unary(op="!"):
                return x.Not(self.condition(e.operand, st))
            case r.Binary(op="&&" | "||"):
                return _NODES[e.op](self.condition(e.left, st), self.condition(e.right, st))
            case r.Binary() if e.op in ("==", "!=", "<", "<=", ">", ">=") and typed_as(e.left).is_int:
                return _NODES[e.op](self.index(e.left, st), self.index(e.right, st))
            case _:
                return self.value(lets.inline(e, st, {b.name for b in st.lets}), st)


def _cast(dtype: DType, e: Expr) -> Expr:
    return e if e.dtype == dtype else x.Cast(dtype, e)


def typed_as(e: r.Exp) -> DType:
    if e.dtype is None:
        raise InternalError(f"untyped expression: {e!r}")
    return e.dtype
