# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The SaC oracle without values: evaluates shapes, element types and index arithmetic of a syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64
from tc.errors import Error, PreconditionError, RangeError, SemanticError, Span
from tc.interpreter.sac_facts import NOTHING, compared, joined, paired, protected, reduced
from tc.interpreter.sac_shapes import (
    Abstract,
    Env,
    Lin,
    Part,
    Plan,
    Trace,
    axes_of,
    bound_env,
    brought,
    choose,
    extent,
    folded,
    homogeneous,
    infer,
    of_value,
    taken,
    unbounded,
    unknown,
)
from tc.interpreter.sac_values import FUNCTIONS, Type, Value, cast, join, settle
from tc.lang.sac import syntax as s
from tc.lang.sac.names import parameters

CASTS = {"tob": "byte", "tos": "short", "toi": "int", "tol": "long", "tof": "float", "tod": "double"}
SHAPED = frozenset(("genarray", "reshape", "take", "drop", "tile", "iota"))
_FRESH = count()


@dataclass(slots=True)
class Shapes:
    """`evaluate` gives the value of an expression where no index is part of it."""

    functions: Mapping[str, Sequence[s.Function]]
    evaluate: Callable[[s.Exp, Mapping[str, Value]], Value]
    known: dict[str, tuple[Lin, Lin]] = field(default_factory=dict[str, tuple[Lin, Lin]])
    traces: list[Trace] = field(default_factory=list[Trace])
    guards: int = 0
    facts: list[Lin] = field(default_factory=list[Lin])  # not negative where the conditions around hold

    def exp(self, e: s.Exp, env: Env) -> Abstract:
        match e:
            case s.Int():
                return Abstract((), "int" if e.value <= INT32.max else INT64, (Lin((), e.value),))
            case s.Float():
                return Abstract((), FLOAT32 if e.single else "float")
            case s.Bool():
                return Abstract((), BOOL)
            case s.Name():
                return env[e.id]
            case s.Vector():
                return self._vector([self.exp(x, env) for x in e.items], e.span)
            case s.Select():
                return self._select(self.exp(e.array, env), [self.exp(x, env) for x in e.index], e.span)
            case s.Unary():
                a = self.exp(e.operand, env)
                items = None if a.items is None or e.op == "!" else tuple(i.times(-1) for i in a.items)
                dtype = a.dtype if isinstance(a.dtype, str) or e.op == "!" else join(a.dtype, a.dtype)
                whens = None if a.whens is None else tuple((no, yes) for yes, no in a.whens)
                return Abstract(a.shape, dtype, items, whens=whens)
            case s.Binary():
                return self._binary(e.op, self.exp(e.left, env), self.exp(e.right, env), e.span)
            case s.Ternary():
                ((yes, no),) = self.exp(e.condition, env).whens or (NOTHING,)
                self.guards += 1
                a, b = self._below(e.then, env, yes), self._below(e.otherwise, env, no)
                self.guards -= 1
                shape = self.agree(a.shape, b.shape, e.span)
                return Abstract(shape, join(a.dtype, b.dtype, False), a.items if a.items == b.items else None)
            case s.Call():
                shapes = e.name in self.functions or e.name in SHAPED
                return self.call(e, [self.numbers(a, env) if shapes else self.exp(a, env) for a in e.args])
            case s.Comprehension():
                p = self.plan(e, env)
                return self.of_plan(p)
            case s.WithLoop():
                p = self.with_plan(e, env)
                if e.operator == "fold":
                    start = self.exp(e.args[0], env)
                    dtype = settle(p.dtype) if start.dtype != BOOL else BOOL
                    return Abstract(start.shape, dtype)
                return self.of_plan(p)

    def _below(self, e: s.Exp, env: Env, facts: Sequence[Lin]) -> Abstract:
        kept = len(self.facts)
        self.facts += facts
        try:
            return self.exp(e, env)
        finally:
            del self.facts[kept:]

    def numbers(self, e: s.Exp, env: Env) -> Abstract:
        """An expression that decides a shape: its integers are computed where no index is part of it."""
        a = self.exp(e, env)
        if a.rank > 1 or settle(a.dtype).is_float or a.dtype == BOOL:
            return a
        if a.items is not None and not any(n.startswith("?") for i in a.items for n, _ in i.terms):
            return a
        values = {n.id: env[n.id].value for n in parameters(e)}
        given = {n: v for n, v in values.items() if v is not None}
        if len(given) < len(values):
            return a
        try:
            return of_value(self.evaluate(e, given))
        except Error:  # below a condition that does not hold; elsewhere it comes out when it is evaluated
            return a

    def of_plan(self, p: Plan) -> Abstract:
        shape = (*p.frame, *p.cell)
        return Abstract(shape, p.dtype, self._filled(shape, p.dtype))

    def _filled(self, shape: Sequence[Lin], dtype: Type) -> tuple[Lin, ...] | None:
        """Unknown items, one an element, for what may serve as an index."""
        if settle(dtype).is_float or dtype == BOOL or len(shape) > 1:
            return None
        n = shape[0].number if shape else 1
        return None if n is None else tuple(unknown() for _ in range(min(max(n, 0), 64)))

    def _vector(self, found: list[Abstract], span: Span) -> Abstract:
        dtype: Type = found[0].dtype if found else "int"
        for a in found[1:]:
            dtype = join(dtype, a.dtype, False)
        n = Lin((), len(found))
        if all(not a.rank for a in found):
            items = tuple(a.items[0] if a.items else unknown() for a in found)
            return Abstract((n,), dtype, items)
        shape = found[0].shape
        for a in found[1:]:
            shape = self.agree(shape, a.shape, span)
        return Abstract((n, *shape), dtype)

    def agree(self, a: Sequence[Lin], b: Sequence[Lin], span: Span) -> tuple[Lin, ...]:
        if len(a) != len(b):
            raise SemanticError("the shapes differ in rank", span, code="TC0256")
        for x, y in zip(a, b, strict=True):
            if x != y and (x.number is None or x.number != y.number):
                raise PreconditionError("the shapes differ", span, code="TC0601")
        return tuple(a)

    def index_of(self, found: Sequence[Abstract], span: Span) -> tuple[Lin, ...]:
        if len(found) == 1 and found[0].rank == 1:
            return self.items_of(found[0], span)
        return tuple(a.items[0] if a.items else unknown() for a in found)

    def items_of(self, a: Abstract, span: Span) -> tuple[Lin, ...]:
        if a.rank != 1:
            raise SemanticError("a vector is needed here", span, code="TC0254")
        if a.items is None:
            n = a.shape[0].number
            if n is None:
                raise SemanticError("a vector of unknown length", span, code="TC0255")
            return tuple(unknown() for _ in range(n))
        return a.items

    def _select(self, a: Abstract, found: Sequence[Abstract], span: Span) -> Abstract:
        index = self.index_of(found, span)
        if len(index) > a.rank:
            raise SemanticError("an index longer than the rank", span, code="TC0254")
        for i, n in zip(index, a.shape, strict=False):
            below = 0 if not self.guards else 2 if protected(i, n, self.facts) else 1
            for trace in self.traces:
                trace.found.append((n, i, below))
        shape = a.shape[len(index) :]
        if a.rank == 1 and len(index) == 1 and a.items is not None and index[0].number is not None:
            k = index[0].number
            if 0 <= k < len(a.items):
                return Abstract((), a.dtype, (a.items[k],))
        return Abstract(shape, a.dtype, self._filled(shape, a.dtype))

    def _binary(self, op: str, a: Abstract, b: Abstract, span: Span) -> Abstract:
        if op == "++":
            if not a.rank or not b.rank:
                raise SemanticError("'++' of a scalar", span, code="TC0254")
            rest = self.agree(a.shape[1:], b.shape[1:], span)
            items = None if a.items is None or b.items is None else a.items + b.items
            dtype = b.dtype if a.items == () else a.dtype if b.items == () else join(a.dtype, b.dtype, False)
            return Abstract((a.shape[0] + b.shape[0], *rest), dtype, items)
        shape = a.shape if not b.rank else b.shape if not a.rank else self.agree(a.shape, b.shape, span)
        if op in ("&&", "||"):
            whens = paired(lambda x, y: joined(op, x, y), a, a.whens, b, b.whens)
            return Abstract(shape, BOOL, whens=whens)
        dtype = join(a.dtype, b.dtype)
        whole = not settle(dtype).is_float
        if op in ("==", "!=", "<", ">", "<=", ">="):
            whens = paired(lambda x, y: compared(op, x, y), a, a.items, b, b.items) if whole else None
            return Abstract(shape, BOOL, whens=whens)
        if not whole:
            return Abstract(shape, dtype)
        return Abstract(shape, dtype, paired(lambda x, y: self._number(op, x, y), a, a.items, b, b.items))

    def _number(self, op: str, x: Lin, y: Lin) -> Lin:
        p, q = x.number, y.number
        if op in "+-":
            return x + (y if op == "+" else y.times(-1))
        if op == "*" and (p is not None or q is not None):
            return y.times(p) if p is not None else x.times(q or 0)
        if p is not None and q is not None and op in "/%":
            whole = 0 if q == 0 else abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
            return Lin((), whole if op == "/" else 0 if q == 0 else p - whole * q)
        return unknown()

    # ---- calls

    def call(self, e: s.Call, args: list[Abstract]) -> Abstract:
        f = choose(self.functions.get(e.name, ()), [(len(a.shape), a.dtype) for a in args])
        if f is not None:
            env = {p.name: self._declared(a, p.type) for p, a in zip(f.params, args, strict=True)}
            for x in f.body:
                env[x.name] = self.numbers(x.value, env)
            return self._declared(self.exp(f.results[0], env), f.types[0])
        return self._prelude(e, args)

    def _declared(self, a: Abstract, d: s.Type) -> Abstract:
        value = a.value and cast(a.value, d.dtype)
        return Abstract(a.shape, d.dtype, a.items, value, a.symbols, a.whens)

    def _prelude(self, e: s.Call, args: list[Abstract]) -> Abstract:
        name, span = e.name, e.span
        a = args[0] if args else Abstract((), "int")
        if name in FUNCTIONS:
            dtype: Type = args[0].dtype
            for x in args[1:]:
                dtype = join(dtype, x.dtype)
            shape = next((x.shape for x in args if x.rank), ())
            return Abstract(shape, settle(dtype) if settle(dtype).is_float else FLOAT64)
        if name in CASTS:
            items = a.items if not settle(a.dtype).is_float else self._filled(a.shape, INT32)
            return Abstract(a.shape, s.BASES[CASTS[name]], items)
        match name:
            case "shape":
                return Abstract((Lin((), a.rank),), INT32, a.shape)
            case "dim":
                return Abstract((), "int", (Lin((), a.rank),))
            case "sum" | "prod" | "minval" | "maxval":
                dtype = INT32 if a.dtype == BOOL else settle(a.dtype)
                return Abstract((), dtype, (unknown(),))
            case "all" | "any":
                return Abstract((), BOOL, whens=None if a.whens is None else (reduced(name, a.whens),))
            case "iota":
                n = self._extent(a.items[0]) if a.items else unknown()
                items = None if n.number is None else tuple(Lin((), k) for k in range(n.number))
                return Abstract((n,), INT32, items)
            case "genarray":
                shape = (*map(self._extent, self.items_of(a, span)), *args[1].shape)
                return Abstract(shape, args[1].dtype, self._filled(shape, args[1].dtype))
            case "sel":
                return self._select(args[1], [a], span)
            case "take" | "drop":
                counts = (a.items or (unknown(),)) if not a.rank else self.items_of(a, span)
                return taken(counts, args[1], name == "drop", span)
            case "reshape":
                shape = self.items_of(a, span)
                return Abstract(shape, args[1].dtype, self._filled(shape, args[1].dtype))
            case "tile":
                items = self.items_of(a, span)
                return Abstract((*items, *args[2].shape[len(items) :]), args[2].dtype)
            case "transpose":
                return Abstract(tuple(reversed(a.shape)), a.dtype, a.items)
            case "reverse":
                return Abstract(a.shape, a.dtype, None if a.items is None else tuple(reversed(a.items)))
            case "rotate" | "shift":
                return Abstract(args[1].shape, args[1].dtype, self._filled(args[1].shape, args[1].dtype))
            case "where":
                shape = next((x.shape for x in args if x.rank), ())
                dtype = join(args[1].dtype, args[2].dtype, False)
                return Abstract(shape, dtype, self._filled(shape, dtype))
            case _:  # abs min max mod
                dtype = a.dtype
                for x in args[1:]:
                    dtype = join(dtype, x.dtype)
                shape = next((x.shape for x in args if x.rank), ())
                numbers = [x.items[0].number if x.items and not x.rank else None for x in args]
                if not shape and None not in numbers:
                    known = [n for n in numbers if n is not None]
                    value = folded(name, known)
                    return Abstract((), dtype, (Lin((), value),))
                return Abstract(shape, dtype, self._filled(shape, dtype))

    def _extent(self, n: Lin) -> Lin:
        return n if n.number is None or n.number >= 0 else Lin()

    # ---- comprehensions

    @contextmanager
    def tracing(self) -> Generator[Trace]:
        trace, guards = Trace(), self.guards
        self.traces.append(trace)
        self.guards = 0
        try:
            yield trace
        finally:
            self.traces.pop()
            self.guards = guards

    def plan(self, e: s.Comprehension, env: Env) -> Plan:
        *others, last = e.partitions
        final = self._part(last.index, last.body, last.bounds, env, None, True)
        frame = self._frame(final)
        parts = [self._part(p.index, p.body, p.bounds, env, frame, False) for p in others]
        return self._plan([*parts, final], frame, final.body.shape[brought(final) :], e.span)

    def _frame(self, p: Part) -> tuple[Lin, ...]:
        body = iter(p.body.shape)
        return tuple(self._extent(p.end[v]) if v >= 0 else next(body) for v in p.axes)

    def _plan(self, parts: list[Part], frame: tuple[Lin, ...], cell: tuple[Lin, ...], span: Span) -> Plan:
        dtype: Type | None = None
        for p in parts:
            if len(p.axes) != len(frame):
                raise SemanticError("frames differ", span, code="TC0261")
            if len(p.body.shape) - brought(p) != len(cell):
                raise SemanticError("cells differ", span, code="TC0261")
            self.agree(p.body.shape[brought(p) :], cell, span)
            dtype = p.body.dtype if dtype is None else join(dtype, p.body.dtype, False)
        return Plan(tuple(parts), frame, cell, dtype or "int")

    def _side(self, b: s.Exp | s.Dot | None, env: Env, span: Span) -> tuple[Lin, ...] | None:
        if b is None or isinstance(b, s.Dot):
            return None
        a = self.numbers(b, env)
        return (a.items or (unknown(),)) if not a.rank else self.items_of(a, span)

    def _part(
        self,
        index: s.Pattern,
        body: s.Exp,
        bounds: s.Bounds | None,
        env: Env,
        frame: tuple[Lin, ...] | None,
        is_last: bool,
        with_loop: bool = False,
    ) -> Part:
        low = self._side(bounds.lower if bounds else None, env, index.span)
        end = self._side(bounds.upper if bounds else None, env, index.span)
        strict = bounds.strict if bounds else (False, True)
        if low is not None and strict[0]:
            low = tuple(x + Lin((), 1) for x in low)
        if end is not None and not strict[1]:
            end = tuple(x + Lin((), 1) for x in end)
        dots = (isinstance(bounds and bounds.lower, s.Dot), isinstance(bounds and bounds.upper, s.Dot))
        if is_last and dots[1]:
            raise RangeError("'.' bounds the last partition", index.span, code="TC0352")
        n = len(index.variables) if index.name is None else None
        lengths = {len(x) for x in (low, end) if x is not None} | ({n} if n is not None else set())
        if len(lengths) > 1:
            raise SemanticError("bounds of another length", index.span, code="TC0262")
        if lengths:
            n = lengths.pop()
        elif with_loop or (frame is not None and any(dots)):
            n = len(frame or ())
        else:
            n = self._length(index, body, env)
        if low is None and end is not None and not dots[0]:
            low = (Lin(),) * n
        slots = (
            [x.name for x in index.variables]
            if index.name is None
            else [f"{index.name}{k}" for k in range(n)]
        )
        names = tuple(f"{x}#{next(_FRESH)}" for x in slots)
        inner = bound_env(env, index, [Lin(((x, 1),)) for x in names])
        if end is not None:
            for k, x in enumerate(names):
                lo = low[k] if low is not None else Lin()
                self.known[x] = (lo if lo.number is None else Lin((), max(0, lo.number)), end[k])
        with self.tracing() as trace:
            found = self.exp(body, inner)
        if end is None and not dots[1]:
            trace = self._over_indices(body, index, names, env) or trace
            inferred = infer(names, trace, {k: v for k, v in self.known.items() if k not in names})
            if all(x in inferred for x in names):
                end = tuple(inferred[x][1] for x in names)
                if low is None and not dots[0]:
                    low = tuple(inferred[x][0] for x in names)
            elif is_last:
                raise unbounded(next(x for x in names if x not in inferred), index)
        homogeneous(found.shape, names, index.span)
        axes = axes_of(index, found.rank, n, index.span)
        if low is None:
            low = (Lin((), 1 if dots[0] and strict[0] else 0),) * n
        if end is None:
            assert frame is not None
            cut = -1 if with_loop and dots[1] and strict[1] else 0
            places = [d for v in range(n) for d, a in enumerate(axes) if a == v]
            end = tuple(frame[d] + Lin((), cut) if d < len(frame) else Lin() for d in places)
        for x, lo, hi in zip(names, low, end, strict=True):
            self.known[x] = (lo if lo.number is None else Lin((), max(0, lo.number)), hi)
        return Part(names, low, end, found, axes)

    def _over_indices(self, body: s.Exp, index: s.Pattern, names: Sequence[str], env: Env) -> Trace | None:
        """The selections of a body for all sizes and all values of the index variables around it."""
        around = {n: _for_all(a) for n, a in env.items()}
        try:
            with self.tracing() as trace:
                self.exp(body, bound_env(around, index, [Lin(((x, 1),)) for x in names]))
        except Error:  # a length that depends on them
            return None
        return trace

    def _length(self, index: s.Pattern, body: s.Exp, env: Env) -> int:
        """The greatest length of an index vector for which all selections fit."""
        for n in range(9, -1, -1):
            names = [f"?{next(_FRESH)}" for _ in range(n)]
            inner = bound_env(env, index, [Lin(((x, 1),)) for x in names])
            try:
                with self.tracing() as trace:
                    self.exp(body, inner)
            except (SemanticError, PreconditionError):
                if n == 0:
                    raise
                continue
            used = {x for _, i, _ in trace.found for x, _ in i.terms}
            if n == 9 or not used & set(names):
                raise unbounded(index.name or "", index)
            return n
        raise unbounded(index.name or "", index)

    def _written(self, generators: Sequence[s.Generator], env: Env) -> int | None:
        """The length of the index of the first generator that says it."""
        for g in generators:
            if g.index.name is None:
                return len(g.index.variables)
            for b in (g.bounds.lower, g.bounds.upper):
                side = self._side(b, env, g.span)
                if side is not None:
                    return len(side)
        return None

    def with_plan(self, e: s.WithLoop, env: Env) -> Plan:
        base = self.numbers(e.args[0], env)
        default: Abstract | None = None
        if e.operator == "genarray":
            frame = tuple(map(self._extent, self.items_of(base, e.span))) if base.rank else base.items or ()
            default = self.exp(e.args[1], env) if len(e.args) > 1 else None
            cell = default.shape if default is not None else None
        elif e.operator == "modarray":
            k = self._written(e.generators, env)
            k = base.rank if k is None else k
            frame, cell, default = base.shape[:k], base.shape[k:], Abstract(base.shape[k:], base.dtype)
        else:
            frame, cell, default = (), base.shape, base
        parts: list[Part] = []
        for g in e.generators:
            body = g.body if g.body is not None else s.Int(0, g.span)
            p = self._part(g.index, body, g.bounds, env, frame, False, with_loop=True)
            if g.body is None:
                shape = cell if cell is not None else parts[0].body.shape if parts else ()
                p = Part(p.names, p.low, p.end, Abstract(shape, default.dtype if default else "int"), p.axes)
            steps = tuple(x.number or 1 for x in self._side(g.step, env, g.span) or ())
            widths = tuple(x.number or 1 for x in self._side(g.width, env, g.span) or ()) or (1,) * len(steps)
            parts.append(Part(p.names, p.low, p.end, p.body, p.axes, steps, widths))
        if e.operator == "fold":
            dtype = base.dtype
            for p in parts:
                self.agree(p.body.shape, base.shape, e.span)
                dtype = join(dtype, p.body.dtype, False)
            return Plan(tuple(parts), (), base.shape, dtype)
        if cell is None:
            cell = parts[0].body.shape if parts else ()
        found = self._plan(parts, frame, cell, e.span)
        if default is None:
            return found
        dtype = join(default.dtype, found.dtype, False) if parts else default.dtype
        return Plan(found.parts, frame, cell, dtype)


def _for_all(a: Abstract) -> Abstract:
    """What is known of a value for all sizes and indices."""
    if a.symbols:
        return Abstract(a.shape, a.dtype, a.symbols)
    shape = tuple(extent(n.constant) if not n.terms and a.value is not None else n for n in a.shape)
    return Abstract(shape, a.dtype, a.items, a.value)
