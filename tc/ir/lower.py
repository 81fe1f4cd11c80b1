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
from tc.errors import InternalError
from tc.ir import expr as x
from tc.ir.boxes import Boxes
from tc.ir.cut_writes import over_coordinates
from tc.ir.expr import Expr
from tc.ir.lower_expressions import Expressions, compute_type
from tc.ir.program import (
    Box,
    Buffer,
    Domain,
    Func,
    IterVar,
    Loop,
    Op,
    Program,
    Range,
    Scalar,
    Site,
    Stage,
)
from tc.ir.simplify import simplify
from tc.lang import resolved as r
from tc.lang.types import Typed

_OPS: Mapping[str, Op] = {"+": "+", "*": "*", "min": "min", "max": "max"}


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


@dataclass(slots=True)
class _Storage:
    """A tensor's buffer and its versions while stages are made."""

    tensor: r.Tensor
    buffer: Buffer
    dtype: DType  # of the language; the buffer may hold a wider one
    versions: int = 0
    current: str = ""
    read: bool = False  # read by another tensor since the current version began
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
        self.expressions = Expressions(boxes, self.counters, strict, self._access)
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
    ) -> Stage:
        name = f"S{len(self.stages)}"
        made = Stage(name, func, args, op, value, domain, text, init, span, self.around, checked)
        self.stages.append(made)
        return made

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
        shift = self.boxes.shift(st.target)
        args: list[Expr] = []
        checked: list[tuple[int, int]] = []
        cut: dict[int, Expr | None] = {}
        for d, (sub, offset) in enumerate(zip(st.subscripts, shift, strict=True)):
            e: Expr = x.Variable(sub.index) if sub.data is None else self.expressions.index(sub.data, st)
            if sub.data is not None:
                checked.append((d, sub.site))
                self.sites[sub.site] = Site(st.target.name, _left(text), st.variables, sub.span)
            if sub.offset is not None:
                e = x.Add(e, self.expressions.index(sub.offset, st))
            args.append(e if offset is None else x.Add(e, offset))
            if (k, d) in self.boxes.cut:
                cut[d] = self._offset(st, sub, offset)
        conditions = tuple(self.expressions.condition(c, st) for c in st.conditions)
        pure = tuple(IterVar(v, ranges[v], "pure") for v in st.indices)
        domain = Domain(pure + tuple(IterVar(v, ranges[v], "reduction") for v in st.reductions), conditions)
        op = _OPS[st.op.removesuffix("!").removesuffix("=")] if st.reduces else None
        value = self.expressions.root(st, s.buffer.dtype)
        reads_self = any(a.tensor.storage is st.target.storage for e in st.roots() for a in r.accesses(e))
        plain = all(isinstance(a, x.Variable) for a in args)
        whole = plain and tuple(ranges[v] for v in st.indices) == s.buffer.box
        if op is not None and self.around and not st.initializes and not s.defined:
            self._start_before_loop(s, op, st, text)
        if op is not None and (st.initializes or not s.defined):
            # In a loop each iteration starts anew what it reduces into, and nothing else.
            first = not s.defined and not self.around
            # A first definition initialises the whole box, a later one the elements of its left-hand side.
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
        made = self._stage(func, tuple(args), op, value, domain, text, False, st.span, tuple(checked))
        if cut:
            self._over_coordinates(made, s.buffer.box, cut)
        self._name_iterations(self.stages[-1], st)
        s.defined = True
        if self.strict and s.dtype.is_half and s.buffer.dtype == FLOAT32 and op is not None:
            read = x.Call(func, tuple(args), FLOAT32, "func")
            value = x.Cast(FLOAT32, x.Cast(s.dtype, read))
            text = f"{text}  # rounded to {s.dtype}"
            made = self._stage(func, tuple(args), None, value, Domain(pure), text, False, st.span)
            if cut:
                self._over_coordinates(made, s.buffer.box, cut)

    def _name_iterations(self, stage: Stage, st: r.Statement) -> None:
        """Let the accesses of a stage name the iterations of the loops around, in place of the variables of
        subscripts without one."""
        own = {sub.index for sub in st.subscripts if sub.point is not None}
        loops = tuple(loop.name for loop in st.loops)
        numbers = {c.site for c in stage.calls} | {n for _, n in stage.checked}
        for n in numbers & self.sites.keys() if loops or own else ():
            site = self.sites[n]
            values = dict(zip(site.variables, site.values or map(x.Variable, site.variables), strict=True))
            values = {v: e for v, e in values.items() if v not in own}
            self.sites[n] = replace(
                site,
                variables=(*loops, *values),
                loops=stage.domain.names,
                values=(*(self.counters[v] for v in loops), *values.values()),
            )

    def _offset(self, st: r.Statement, sub: r.Subscript, shift: Expr | None) -> Expr | None:
        """The amount that a subscript of a left-hand side adds to its variable."""
        own = None if sub.offset is None else self.expressions.index(sub.offset, st)
        return x.Add(own, shift) if own is not None and shift is not None else own or shift

    def _over_coordinates(self, stage: Stage, box: Box, cut: Mapping[int, Expr | None]) -> None:
        """Let the stage made last iterate over its tensor in some dimensions."""
        made, at = over_coordinates(stage, box, cut)
        self.stages[-1] = made
        reads = (e for root in (made.value, *made.args) for e in x.walk(root))
        numbers = {e.site for e in reads if isinstance(e, x.Call)} | {n for _, n in made.checked}
        for n in numbers & self.sites.keys():
            self.sites[n] = self.sites[n].moved(made, at)

    def _counted(self, b: Range) -> Range:
        """A range in terms of variables that count from 0."""
        if not self.around:
            return b
        ends = (simplify(x.substitute(e, self.counters), exact=True) for e in (b.min, b.extent))
        return Range(*ends)

    def _start_before_loop(self, s: _Storage, op: Op, st: r.Statement, text: str) -> None:
        """Start a tensor that a loop reduces into from the neutral element, before the outermost loop."""
        later = [n for n, stage in enumerate(self.stages) if stage.loops[:1] == self.around[:1]]
        of_loop, self.stages = (
            self.stages[later[0] :] if later else [],
            self.stages[: later[0] if later else None],
        )
        around, self.around = self.around, ()
        func = self._begin(s, pure_definition=True)
        text = f"{text}  # starts from the neutral element"
        self._add(func, s.buffer.box, neutral(op, s.buffer.dtype), text, True, None, st.span)
        self.stages += [replace(stage, name=f"S{len(self.stages) + n}") for n, stage in enumerate(of_loop)]
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

    def _access(self, e: r.Access, st: r.Statement) -> Expr:
        s = self.storages[e.tensor.storage]
        subscripts: list[Expr] = []
        for sub, offset in zip(e.subscripts, self.boxes.shift(e.tensor), strict=True):
            index = self.expressions.index(sub, st)
            subscripts.append(index if offset is None else x.Add(index, offset))
        if e.site >= 0 and e.site not in self.sites:
            self.sites[e.site] = Site(e.tensor.name, e.text, st.variables, e.span)
        if s.tensor.role == "param" and s.buffer.role == "input":
            return x.Call(s.buffer.name, tuple(subscripts), s.buffer.dtype, "image", (), e.site)
        if not s.current and self.loops:  # an earlier iteration has defined it
            self._version(s, None)
        if not s.current:
            raise InternalError(f"'{e.tensor.name}' is read before it has a version")
        return x.Call(s.current, tuple(subscripts), s.buffer.dtype, "func", (), e.site)


def _left(text: str) -> str:
    """The left-hand side of a statement's text."""
    return re.split(r" (?:[+*]|min|max)=", text)[0]
