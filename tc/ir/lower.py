"""A typed def with its ranges becomes a Program.

What happens here: views of tensors across calls turn into shifts, `op=!` into an initialising stage and
an update, tensors into versions (SSA), half-precision arithmetic into float32 with conversions at loads
and stores, and lets into `Let`s (inlined where a lazy branch guards a read they make).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tc.dtypes import FLOAT32, DType
from tc.errors import InternalError, unreachable
from tc.ir import expr as x
from tc.ir.expr import INDEX, Expr
from tc.ir.program import (
    Box,
    Buffer,
    Domain,
    Func,
    IterVar,
    Loop,
    Op,
    Precondition,
    Program,
    Range,
    Scalar,
    Site,
    Stage,
)
from tc.ir.simplify import simplify
from tc.lang import lets
from tc.lang import resolved as r
from tc.lang.builtins import BUILTINS
from tc.lang.types import Typed

_OPS: Mapping[str, Op] = {"+": "+", "*": "*", "min": "min", "max": "max"}
_NODES = {
    "+": x.Add, "-": x.Sub, "*": x.Mul, "==": x.EQ, "!=": x.NE, "<": x.LT, "<=": x.LE, ">": x.GT, ">=": x.GE,
    "&&": x.And, "||": x.Or,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Boxes:
    """What range inference found, in the IR's terms: per tensor storage, per statement and variable, and for
    the variables of sequential loops."""

    tensors: Mapping[r.Tensor, Box]
    variables: tuple[Mapping[str, Range], ...]
    preconditions: tuple[Precondition, ...] = ()
    counters: Mapping[str, Range] = field(default_factory=dict[str, Range])

    def box(self, t: r.Tensor) -> Box:
        """The range of a tensor as it is seen: a view starts at 0."""
        if t.base is None:
            return self.tensors[t]
        return tuple(Range(x.ZERO, b.extent) for b in self.box(t.base))


def lower(
    typed: Typed, boxes: Boxes, *, given: frozenset[str] = frozenset(), strict: bool = False
) -> Program:
    """The program of a typed def, symbolic in its sizes.

    `given` names the `accumulate` outputs for which the caller passes a buffer; `strict` rounds half
    values after every statement instead of keeping them in float32.
    """
    return _Lowering(typed, boxes, given, strict).run()


def neutral(op: Op, dtype: DType) -> Expr:
    """The neutral element of a reduction."""
    match op:
        case "+":
            return x.imm(0, dtype)
        case "*":
            return x.imm(1, dtype)
        case "min":
            return x.imm(dtype.max, dtype)
        case "max":
            return x.imm(dtype.min, dtype)


def compute_type(dtype: DType) -> DType:
    """The type arithmetic happens in: 16-bit floating types compute in float32."""
    return FLOAT32 if dtype.is_half else dtype


@dataclass(slots=True)
class _Storage:
    """A tensor's buffer and its versions while stages are made."""

    tensor: r.Tensor
    buffer: Buffer
    dtype: DType  # of the language; the buffer may hold a wider one
    versions: int = 0
    current: str = ""
    read: bool = False  # by another tensor since the current version began
    rounded: str | None = None  # the half output this float32 buffer is rounded into at the end
    defined: bool = field(default=False)


class _Lowering:
    def __init__(self, typed: Typed, boxes: Boxes, given: frozenset[str], strict: bool) -> None:
        self.typed = typed
        self.checked = typed.checked
        self.boxes = boxes
        self.given = given
        self.strict = strict
        self.storages: dict[r.Tensor, _Storage] = {}
        self.buffers: list[Buffer] = []
        self.funcs: list[Func] = []
        self.stages: list[Stage] = []
        self.sites: dict[int, Site] = {}
        self.names: set[str] = set()
        self.loops: dict[r.Loop, Loop] = {}
        self.counters: dict[str, Expr] = {}  # the variables of the source in terms of those that count from 0
        self.around: tuple[Loop, ...] = ()  # the loops around the stages that are made
        for st in self.checked.statements:
            for loop in st.loops:
                self._make_loop(loop)

    def _make_loop(self, loop: r.Loop) -> None:
        if loop in self.loops:
            return
        values = self.boxes.counters[loop.name]
        low, trips = (
            simplify(x.substitute(e, self.counters), exact=True) for e in (values.min, values.extent)
        )
        at = x.Variable(loop.name)
        value = x.Sub(x.Sub(x.Add(low, trips), x.IntImm(1)), at) if loop.down else x.Add(low, at)
        self.loops[loop] = Loop(loop.name, trips)
        self.counters[loop.name] = simplify(value, exact=True)

    def run(self) -> Program:
        c = self.checked
        outputs = {out.tensor.storage: out for out in c.returns}
        for out in c.returns:
            self.names.add(out.name)
        for p in c.params:
            if isinstance(p, r.Tensor):
                self.names.add(p.name)
                buffer = Buffer(p.name, self.typed.dtype(p), self.boxes.tensors[p], "input")
                self.storages[p] = _Storage(p, buffer, buffer.dtype, defined=True)
                self.buffers.append(buffer)
        written = dict.fromkeys(st.target.storage for st in c.statements)
        for t in written:
            self._make_storage(t, outputs.get(t))
        for k, st in enumerate(c.statements):
            self._statement(k, st)
        self.around = ()
        for s in self.storages.values():
            if s.rounded is not None:
                self._round_into(s)
        count = 1 + max(self.sites, default=-1)
        return Program(
            c.name,
            c.sizes,
            tuple(p.name for p in c.params),
            tuple(Scalar(p.name, p.dtype, p.specialized) for p in c.params if isinstance(p, r.ScalarParam)),
            tuple(self.buffers),
            tuple(out.name for out in c.returns),
            self._ordered_funcs(),
            tuple(self.stages),
            tuple(self.sites.get(n, Site("", "", ())) for n in range(count)),
            self.boxes.preconditions,
        )

    def _ordered_funcs(self) -> tuple[Func, ...]:
        """The Funcs so that each comes after those it reads: by their last stage.

        A version that another Func has read gets no more stages, so what a Func reads is complete before
        its own last stage.
        """
        last = {st.func: n for n, st in enumerate(self.stages)}
        return tuple(sorted(self.funcs, key=lambda f: last.get(f.name, -1)))

    # ---- storage and versions

    def _fresh(self, name: str) -> str:
        base, n = name, 1
        while name in self.names:
            n += 1
            name = f"{base}_{n}"
        self.names.add(name)
        return name

    def _make_storage(self, t: r.Tensor, out: r.Returned | None) -> None:
        dtype, box = self.typed.dtype(t), self.boxes.tensors[t]
        reduces = any(st.reduces for st in self.checked.statements if st.target.storage is t)
        from_caller = out is not None and (
            out.mode == "inout" or (out.mode == "accumulate" and out.name in self.given)
        )
        filled = any(st.box is not None for st in self.checked.statements if st.target is t)
        if out is None:
            name = self._fresh(t.name)
            buffer = Buffer(name, compute_type(dtype), box, "temporary", kept=t.kept, filled=filled)
            self.storages[t] = _Storage(t, buffer, dtype)
            self.buffers.append(buffer)
            return
        buffer = Buffer(out.name, dtype, box, "output", from_caller, filled=filled)
        self.buffers.append(buffer)
        if dtype.is_half and reduces:
            # 16-bit types accumulate in 32 bits: the reductions work on a float32 buffer.
            wide = Buffer(self._fresh(f"{out.name}_f32"), FLOAT32, box, "temporary")
            self.buffers.append(wide)
            s = self.storages[t] = _Storage(t, wide, dtype, rounded=out.name)
            if from_caller:
                source = self._version(_Storage(t, buffer, dtype), None)
                value = x.Cast(FLOAT32, x.Call(source, self._identity(box), dtype, "func"))
                self._add(self._version(s, None), box, value, f"{wide.name} = float32({out.name})")
                s.defined = True
            return
        s = self.storages[t] = _Storage(t, buffer, dtype)
        if from_caller:
            self._version(s, None)
            s.defined = True

    def _version(self, s: _Storage, previous: str | None) -> str:
        name = s.buffer.name if s.versions == 0 else f"{s.buffer.name}.{s.versions}"
        s.versions += 1
        s.current, s.read = name, False
        self.funcs.append(Func(name, s.buffer.name, s.buffer.dtype, s.buffer.box, previous))
        return name

    def _identity(self, box: Box) -> tuple[Expr, ...]:
        return tuple(x.Variable(f"i{d}") for d in range(len(box)))

    def _add(
        self,
        func: str,
        box: Box,
        value: Expr,
        text: str,
        init: bool = False,
        names: tuple[str, ...] | None = None,
        span: r.Span | None = None,
    ) -> None:
        """A stage over a whole box."""
        names = names or tuple(f"i{d}" for d in range(len(box)))
        domain = Domain(tuple(IterVar(n, b, "pure") for n, b in zip(names, box, strict=True)))
        args = tuple(x.Variable(n) for n in names)
        self._stage(func, args, None, value, domain, text, init, span)

    def _stage(
        self,
        func: str,
        args: tuple[Expr, ...],
        op: Op | None,
        value: Expr,
        domain: Domain,
        text: str,
        init: bool = False,
        span: r.Span | None = None,
        checked: tuple[tuple[int, int], ...] = (),
    ) -> None:
        name = f"S{len(self.stages)}"
        made = Stage(name, func, args, op, value, domain, text, init, span, self.around, checked)
        self.stages.append(made)

    def _round_into(self, s: _Storage) -> None:
        """The final conversion of a half output that was accumulated in float32."""
        assert s.rounded is not None
        buffer = next(b for b in self.buffers if b.name == s.rounded)
        target = _Storage(s.tensor, buffer, s.dtype, versions=1 if buffer.inout else 0)
        func = self._version(target, None)
        value = x.Cast(s.dtype, x.Call(s.current, self._identity(buffer.box), FLOAT32, "func"))
        self._add(func, buffer.box, value, f"{buffer.name} = {s.dtype}({s.buffer.name})")

    # ---- statements

    def _statement(self, k: int, st: r.Statement) -> None:
        s = self.storages[st.target.storage]
        self.around = tuple(self.loops[loop] for loop in st.loops)
        ranges = {v: self._counted(b) for v, b in self.boxes.variables[k].items()}
        text = " ".join(st.span.text.split())
        shift = self._shift(st.target)
        args: list[Expr] = []
        checked: list[tuple[int, int]] = []
        for d, (sub, offset) in enumerate(zip(st.subscripts, shift, strict=True)):
            e: Expr = x.Variable(sub.index) if sub.data is None else self.index(sub.data, st)
            if sub.data is not None:
                checked.append((d, sub.site))
                self.sites[sub.site] = Site(st.target.name, _left(text), st.variables, sub.span)
            if sub.offset is not None:
                e = x.Add(e, self.index(sub.offset, st))
            args.append(e if offset is None else x.Add(e, offset))
        conditions = tuple(self.condition(c, st) for c in st.conditions)
        pure = tuple(IterVar(v, ranges[v], "pure") for v in st.indices)
        domain = Domain(pure + tuple(IterVar(v, ranges[v], "reduction") for v in st.reductions), conditions)
        op = _OPS[st.op.removesuffix("!").removesuffix("=")] if st.reduces else None
        value = self.root(st, s.buffer.dtype)
        reads_self = any(a.tensor.storage is st.target.storage for e in st.roots() for a in r.accesses(e))
        plain = all(isinstance(a, x.Variable) for a in args)
        whole = plain and tuple(ranges[v] for v in st.indices) == s.buffer.box
        if op is not None and self.around and not st.initializes and not s.defined:
            self._start_before_loop(s, op, st, text)
        if op is not None and (st.initializes or not s.defined):
            # In a loop each iteration starts anew what it reduces into, and nothing else.
            first = not s.defined and not self.around
            # A first definition initialises the whole box, a later one what its left-hand side covers.
            lhs = set(st.indices)
            kept = (
                ()
                if first
                else tuple(
                    c for c in conditions if x.variables(c) - {*self.checked.sizes, *self.counters} <= lhs
                )
            )
            covers = first or (whole and not kept)
            func = self._begin(s, pure_definition=covers and not reads_self)
            init_text = f"{text}  # starts from the neutral element"
            start = neutral(op, s.buffer.dtype)
            if first:
                names = st.indices if plain else None
                self._add(func, s.buffer.box, start, init_text, True, names, st.span)
            else:
                self._stage(func, tuple(args), None, start, Domain(pure, kept), init_text, True, st.span)
        else:
            func = self._begin(s, pure_definition=op is None and whole and not conditions and not reads_self)
        self._mark_reads(st)
        self._stage(func, tuple(args), op, value, domain, text, False, st.span, tuple(checked))
        s.defined = True
        if self.strict and s.dtype.is_half and s.buffer.dtype == FLOAT32 and op is not None:
            read = x.Call(func, tuple(args), FLOAT32, "func")
            value = x.Cast(FLOAT32, x.Cast(s.dtype, read))
            self._stage(func, tuple(args), None, value, Domain(pure), f"{text}  # rounded to {s.dtype}")

    def _counted(self, b: Range) -> Range:
        """A range in terms of variables that count from 0."""
        if not self.around:
            return b
        ends = (simplify(x.substitute(e, self.counters), exact=True) for e in (b.min, b.extent))
        return Range(*ends)

    def _start_before_loop(self, s: _Storage, op: Op, st: r.Statement, text: str) -> None:
        """Start a tensor that a loop reduces into from the neutral element, before the outermost loop."""
        later = [n for n, stage in enumerate(self.stages) if stage.loops[:1] == self.around[:1]]
        held, self.stages = (
            self.stages[later[0] :] if later else [],
            self.stages[: later[0] if later else None],
        )
        around, self.around = self.around, ()
        func = self._begin(s, pure_definition=True)
        text = f"{text}  # starts from the neutral element"
        self._add(func, s.buffer.box, neutral(op, s.buffer.dtype), text, True, None, st.span)
        self.stages += [replace(stage, name=f"S{len(self.stages) + n}") for n, stage in enumerate(held)]
        self.around = around
        s.defined = True

    def _begin(self, s: _Storage, pure_definition: bool) -> str:
        """The version a stage defines: a new one where the last has been read by another tensor, or where
        the stage defines every element anew.  With sequential loops there is one version, which
        `tc.transforms.program.segments` tells apart."""
        if not s.current:
            return self._version(s, None)
        if self.loops:
            return s.current
        if s.read or pure_definition:
            return self._version(s, None if pure_definition else s.current)
        return s.current

    def _mark_reads(self, st: r.Statement) -> None:
        for e in st.roots():
            for a in r.accesses(e):
                if a.tensor.storage is not st.target.storage:
                    self.storages[a.tensor.storage].read = True

    def _shift(self, t: r.Tensor) -> list[Expr | None]:
        """What to add to a view's subscripts to address its storage."""
        out: list[Expr | None] = [None] * t.rank
        while t.base is not None:
            t = t.base
            for d, b in enumerate(self.boxes.box(t)):
                if b.min != x.ZERO:
                    held = out[d]
                    out[d] = b.min if held is None else x.Add(held, b.min)
        return out

    # ---- expressions

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
        dtype = compute_type(_typed(e))
        match e:
            case r.Const():
                return x.imm(e.value, dtype)
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
                return _cast(dtype, self._access(e, st))
            case r.Apply():
                return self._apply(e, st)
            case r.Unary():
                operand = self.value(e.operand, st)
                if e.op == "!":
                    return x.Not(operand)
                # -x of a floating x keeps the sign of zero, which 0 - x would not.
                return x.Mul(operand, x.imm(-1, dtype)) if dtype.is_float else x.Sub(x.imm(0, dtype), operand)
            case r.Binary():
                a, b = self.value(e.left, st), self.value(e.right, st)
                if e.op == "/":
                    return x.Div(a, b) if a.dtype.is_float else x.FloorDiv(a, b)
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
        dtype = compute_type(_typed(e))
        match e.function:
            case "min" | "max":
                node = x.Min if e.function == "min" else x.Max
                out = args[0]
                for a in args[1:]:
                    out = node(out, a)
                return out
            case "select":
                return x.Select(args[0], args[1], args[2])
            case "abs" if not dtype.is_float and not dtype.is_signed:
                return args[0]
            case "abs":
                return x.Call("fabs" if dtype.is_float else "abs", tuple(args), dtype, "intrinsic")
            case name if name in BUILTINS:
                return x.Call(name, tuple(args), dtype, "intrinsic")
            case _:
                raise InternalError(f"no lowering for the built-in {e.function!r}")

    def _access(self, e: r.Access, st: r.Statement) -> Expr:
        s = self.storages[e.tensor.storage]
        subscripts: list[Expr] = []
        for sub, offset in zip(e.subscripts, self._shift(e.tensor), strict=True):
            index = self.index(sub, st)
            subscripts.append(index if offset is None else x.Add(index, offset))
        if e.site >= 0 and e.site not in self.sites:
            names = ", ".join(sub.name if isinstance(sub, r.Index) else sub.span.text for sub in e.subscripts)
            self.sites[e.site] = Site(e.tensor.name, f"{e.tensor.name}({names})", st.variables, e.span)
        if s.tensor.role == "param" and s.buffer.role == "input":
            return x.Call(s.buffer.name, tuple(subscripts), s.buffer.dtype, "image", (), e.site)
        if not s.current and self.loops:  # an earlier iteration has defined it
            self._version(s, None)
        if not s.current:
            raise InternalError(f"'{e.tensor.name}' is read before it has a version")
        return x.Call(s.current, tuple(subscripts), s.buffer.dtype, "func", (), e.site)

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
            case r.Binary() if e.op in ("==", "!=", "<", "<=", ">", ">=") and not _typed(e.left).is_float:
                return _NODES[e.op](self.index(e.left, st), self.index(e.right, st))
            case _:
                return self.value(lets.inline(e, st, {b.name for b in st.lets}), st)


def _cast(dtype: DType, e: Expr) -> Expr:
    return e if e.dtype == dtype else x.Cast(dtype, e)


def _typed(e: r.Exp) -> DType:
    if e.dtype is None:
        raise InternalError(f"untyped expression: {e!r}")
    return e.dtype


def _left(text: str) -> str:
    """The left-hand side of a statement's text."""
    return re.split(r" (?:[+*]|min|max)=", text)[0]
