# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The oracle of the SaC notation: evaluates a syntax tree on NumPy arrays, one index after another.

It shares nothing with `tc.lang.sac.elaborate` but the tree: the prelude is NumPy here, and bounds are found
from integers (`sac_abstract`).  Floats are computed in float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tc.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from tc.errors import BoundsError, DTypeError, PreconditionError, SemanticError, Span
from tc.interpreter.sac_abstract import CASTS, Shapes
from tc.interpreter.sac_shapes import Abstract, Lin, Part, Plan, choose, of_value
from tc.interpreter.sac_values import (
    FUNCTIONS,
    Array,
    Value,
    binary,
    cast,
    join,
    math,
    negated,
    reduce,
    settle,
    storage,
)
from tc.lang.sac import syntax as s

Env = Mapping[str, Value]
_FOLDS = {"sum": "+", "prod": "*", "minval": "min", "maxval": "max"}


def run(
    program: s.Program, arguments: Mapping[str, tuple[Any, DType]], entry: str | None = None
) -> list[tuple[Array, DType]]:
    """The results of a program: arguments are arrays or numbers with their element types."""
    functions: dict[str, list[s.Function]] = {}
    for f in program.functions:
        functions.setdefault(f.name, []).append(f)
    machine = Machine(functions)
    env = {n: cast(Value(np.asarray(a), t), t) for n, (a, t) in arguments.items()}
    if program.bare is not None:
        found = [machine.exp(program.bare, env)]
    else:
        f = functions[entry][-1] if entry is not None else program.functions[-1]
        found = machine.body(f, [env[p.name] for p in f.params])
    return [(cast(v, settle(v.dtype)).data, settle(v.dtype)) for v in found]


class Machine:
    def __init__(self, functions: Mapping[str, Sequence[s.Function]]) -> None:
        self.functions = functions
        self.shapes = Shapes(functions, self.exp)

    def abstract(self, env: Env) -> dict[str, Abstract]:
        return {n: of_value(v) for n, v in env.items()}

    def exp(self, e: s.Exp, env: Env) -> Value:
        match e:
            case s.Int():
                return Value(np.asarray(e.value), "int" if e.value <= INT32.max else INT64)
            case s.Float():
                value = float(np.float32(e.value)) if e.single else e.value
                return Value(np.asarray(value), FLOAT32 if e.single else "float")
            case s.Bool():
                return Value(np.asarray(e.value), BOOL)
            case s.Name():
                return env[e.id]
            case s.Vector():
                return self._stack([self.exp(x, env) for x in e.items], e.span)
            case s.Select():
                array = self.exp(e.array, env)
                return self._select(array, [self.exp(x, env) for x in e.index], e.span)
            case s.Unary():
                v = self.exp(e.operand, env)
                return Value(np.asarray(~v.data), BOOL) if e.op == "!" else negated(v)
            case s.Binary(op="++"):
                return self._cat(self.exp(e.left, env), self.exp(e.right, env), e.span)
            case s.Binary():
                return binary(e.op, self.exp(e.left, env), self.exp(e.right, env), e.span)
            case s.Ternary():
                c = self.exp(e.condition, env)
                if c.dtype != BOOL or c.shape:
                    raise DTypeError("the condition is no scalar bool", e.span, code="TC0451")
                abstract = self.shapes.exp(e, self.abstract(env))
                return cast(self.exp(e.then if bool(c.data) else e.otherwise, env), abstract.dtype)
            case s.Call():
                return self._call(e, [self.exp(a, env) for a in e.args])
            case s.Comprehension():
                plan = self.shapes.plan(e, self.abstract(env))
                bodies = [p.body for p in e.partitions]
                patterns = [p.index for p in e.partitions]
                return self._filled(plan, bodies, patterns, env, None, e.span)
            case s.WithLoop():
                return self._with(e, env)

    # ---- vectors and selections

    def _stack(self, found: list[Value], span: Span) -> Value:
        if not found:
            return Value(np.zeros(0, np.int64), "int")
        dtype = found[0].dtype
        for v in found[1:]:
            dtype = join(dtype, v.dtype, False)
            if v.shape != found[0].shape:
                raise PreconditionError("the elements of a vector differ in shape", span, code="TC0601")
        return Value(np.stack([cast(v, dtype).data for v in found]), dtype)

    def _cat(self, a: Value, b: Value, span: Span) -> Value:
        if not a.shape or not b.shape or len(a.shape) != len(b.shape):
            raise SemanticError("'++' of these ranks", span, code="TC0254")
        if a.shape[1:] != b.shape[1:]:
            raise PreconditionError("'++' of these shapes", span, code="TC0601")
        dtype = join(a.dtype, b.dtype, False)
        if len(a.shape) == 1 and "int" in (a.dtype, b.dtype) and 0 in (a.shape[0], b.shape[0]):
            dtype = b.dtype if not a.shape[0] and a.dtype == "int" else a.dtype if b.dtype == "int" else dtype
        return Value(np.concatenate([cast(a, dtype).data, cast(b, dtype).data]), dtype)

    def _select(self, array: Value, found: list[Value], span: Span) -> Value:
        if len(found) == 1 and len(found[0].shape) == 1:
            index = [int(i) for i in found[0].data]
        else:
            index = [int(v.data) for v in found]
        if len(index) > len(array.shape):
            raise SemanticError("an index longer than the rank", span, code="TC0254")
        for i, n in zip(index, array.shape, strict=False):
            if not 0 <= i < n:
                raise BoundsError(f"index {i} is out of range", span, code="TC0701")
        return Value(np.asarray(array.data[tuple(index)]), array.dtype)

    # ---- comprehensions and with-loops

    def _inside(self, p: Part, index: tuple[int, ...]) -> tuple[int, ...] | None:
        """The values of a part's variables at an index of the frame, if it is in its set."""
        values = [0] * len(p.names)
        for v, i in zip(p.axes, index, strict=True):
            if v >= 0:
                values[v] = i
        for k, (x, lo, hi) in enumerate(zip(values, p.low, p.end, strict=True)):
            low, end = lo.number, hi.number
            if low is None or end is None or not low <= x < end:
                return None
            if p.step and (x - low) % p.step[k] >= p.width[k]:
                return None
        return tuple(values)

    def _at(self, body: s.Exp, pattern: s.Pattern, p: Part, values: Sequence[int], env: Env) -> Value:
        inner = dict(env)
        if pattern.name is not None:
            inner[pattern.name] = Value(np.array(values, np.int32), INT32, p.names)
        else:
            for x, v, name in zip(pattern.variables, values, p.names, strict=True):
                inner[x.name] = Value(np.asarray(np.int32(v)), INT32, (name,))
        return self.exp(body, inner)

    def _filled(
        self,
        plan: Plan,
        bodies: Sequence[s.Exp | None],
        patterns: Sequence[s.Pattern],
        env: Env,
        default: Array | None,
        span: Span,
    ) -> Value:
        frame, cell = _numbers(plan.frame, span), _numbers(plan.cell, span)
        out = np.zeros((*frame, *cell), storage(plan.dtype))
        if default is not None:
            out[...] = default.astype(out.dtype)
        for index in np.ndindex(*frame):
            for p, body, pattern in zip(plan.parts, bodies, patterns, strict=True):
                values = self._inside(p, index)
                if values is None:
                    continue
                if body is not None:
                    made = cast(self._at(body, pattern, p, values, env), plan.dtype)
                    own = tuple(i for v, i in zip(p.axes, index, strict=True) if v < 0)
                    out[index] = made.data[own]
                break
        return Value(out, plan.dtype)

    def _with(self, e: s.WithLoop, env: Env) -> Value:
        plan = self.shapes.with_plan(e, self.abstract(env))
        bodies = [g.body for g in e.generators]
        patterns = [g.index for g in e.generators]
        if e.operator == "fold":
            return self._fold(e, plan, env)
        default: Array | None = None
        if e.operator == "modarray":
            default = cast(self.exp(e.args[0], env), plan.dtype).data
        elif len(e.args) > 1:
            default = cast(self.exp(e.args[1], env), plan.dtype).data
        return self._filled(plan, bodies, patterns, env, default, e.span)

    def _fold(self, e: s.WithLoop, plan: Plan, env: Env) -> Value:
        start = self.exp(e.args[0], env)
        total = start if start.dtype == BOOL else cast(start, settle(plan.dtype))
        seen: set[tuple[int, ...]] = set()
        for p, g in zip(plan.parts, e.generators, strict=True):
            ranges = [
                range(max(0, lo.number or 0), hi.number or 0) for lo, hi in zip(p.low, p.end, strict=True)
            ]
            for index in itertools.product(*ranges):
                if index in seen or self._inside(p, index) is None:
                    continue
                seen.add(index)
                body = g.body if g.body is not None else e.args[0]
                total = self._folded(e, total, self._at(body, g.index, p, index, env))
        return total

    def _folded(self, e: s.WithLoop, a: Value, b: Value) -> Value:
        if e.function in ("+", "*", "&&", "||"):
            return cast(binary(e.function, a, b, e.span), a.dtype)
        f = choose(self.functions.get(e.function, ()), [(len(v.shape), v.dtype) for v in (a, b)])
        if f is not None:
            return self.body(f, [a, b])[0]
        return cast(_extreme(e.function, [a, b]), a.dtype)

    # ---- calls

    def body(self, f: s.Function, args: Sequence[Value]) -> list[Value]:
        env = {p.name: self._declared(v, p.type, p.span) for p, v in zip(f.params, args, strict=True)}
        for a in f.body:
            env[a.name] = self.exp(a.value, env)
        return [self._declared(self.exp(e, env), d, e.span) for e, d in zip(f.results, f.types, strict=True)]

    def _declared(self, v: Value, d: s.Type, span: Span) -> Value:
        if isinstance(d.dims, tuple):
            for n, m in zip(d.dims, v.shape, strict=True):
                if n is not None and n != m:
                    raise PreconditionError("another extent is declared", span, code="TC0601")
        return cast(v, d.dtype)

    def _call(self, e: s.Call, args: list[Value]) -> Value:
        f = choose(self.functions.get(e.name, ()), [(len(v.shape), v.dtype) for v in args])
        if f is not None:
            return self.body(f, args)[0]
        return prelude(self, e.name, args, e.span)

    select = _select


def _numbers(shape: Sequence[Lin], span: Span) -> tuple[int, ...]:
    found = tuple(n.number for n in shape if n.number is not None)
    if len(found) < len(shape):
        raise SemanticError("this shape depends on an index", span, code="TC0257")
    return found


def _extreme(name: str, args: Sequence[Value]) -> Value:
    dtype = args[0].dtype
    for v in args[1:]:
        dtype = join(dtype, v.dtype)
    data = [cast(v, dtype).data for v in args]
    f = {"min": np.minimum, "max": np.maximum, "abs": np.abs}[name]
    with np.errstate(all="ignore"):
        return Value(np.asarray(f(*data)), dtype)


def prelude(m: Machine, name: str, args: Sequence[Value], span: Span) -> Value:
    """The functions of the prelude, in NumPy."""
    a = args[0]
    data = a.data
    if name in FUNCTIONS:
        return math(name, args, span)
    if name in CASTS:
        return cast(a, s.BASES[CASTS[name]])
    if name in _FOLDS:
        return reduce(_FOLDS[name], a)
    match name:
        case "shape":
            return Value(np.array(data.shape, np.int32), INT32)
        case "dim":
            return Value(np.asarray(data.ndim), "int")
        case "all" | "any":
            return Value(np.asarray(getattr(np, name)(data)), BOOL)
        case "iota":
            return Value(np.arange(max(0, int(data)), dtype=np.int32), INT32)
        case "genarray":
            shape = (*(max(0, int(n)) for n in data), *args[1].shape)
            return Value(np.broadcast_to(args[1].data, shape).copy(), args[1].dtype)
        case "sel":
            return m.select(args[1], [a], span)
        case "take" | "drop":
            return _take(name == "drop", args, span)
        case "reshape":
            if int(np.prod(data)) != args[1].data.size:
                raise PreconditionError("another number of elements", span, code="TC0601")
            return Value(args[1].data.reshape(tuple(int(n) for n in data)), args[1].dtype)
        case "tile":
            at = tuple(slice(int(o), int(o) + int(n)) for n, o in zip(data, args[1].data, strict=True))
            for n, o, extent in zip(data, args[1].data, args[2].shape, strict=False):
                if n and (o < 0 or o + n > extent):
                    raise BoundsError("a tile out of bounds", span, code="TC0701")
            return Value(args[2].data[at], args[2].dtype)
        case "transpose":
            return Value(np.ascontiguousarray(data.T).reshape(data.T.shape), a.dtype)
        case "reverse":
            return Value(data[::-1], a.dtype)
        case "rotate":
            by = tuple(int(n) for n in np.atleast_1d(data))
            return Value(np.roll(args[1].data, by, axis=tuple(range(len(by)))), args[1].dtype)
        case "shift":
            return _shift(np.atleast_1d(data), args[1])
        case "where":
            dtype = join(args[1].dtype, args[2].dtype, False)
            shape = next((v.shape for v in args if v.shape), ())
            if any(v.shape not in ((), shape) for v in args):
                raise PreconditionError("the shapes differ", span, code="TC0601")
            return Value(np.where(data, cast(args[1], dtype).data, cast(args[2], dtype).data), dtype)
        case "mod":
            dtype = join(a.dtype, args[1].dtype)
            x, y = cast(a, dtype).data, cast(args[1], dtype).data
            with np.errstate(all="ignore"):
                return Value(np.asarray(np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y)))), dtype)
        case _:
            return _extreme(name, args)


def _take(drops: bool, args: Sequence[Value], span: Span) -> Value:
    counts, a = args
    at: list[slice] = []
    for n, extent in zip(np.atleast_1d(counts.data), a.shape, strict=False):
        k = int(n)
        if not drops and abs(k) > extent:
            raise PreconditionError("take beyond the extent", span, code="TC0601")
        if drops:
            at.append(slice(k, None) if k >= 0 else slice(0, max(0, extent + k)))
        else:
            at.append(slice(0, k) if k >= 0 else slice(extent + k, extent))
    return Value(a.data[tuple(at)], a.dtype)


def _shift(by: Array, a: Value) -> Value:
    out = np.zeros_like(a.data)
    for index in np.ndindex(a.data.shape[: len(by)]):
        at = tuple(int(i - n) for i, n in zip(index, by, strict=True))
        if all(0 <= i < k for i, k in zip(at, a.data.shape, strict=False)):
            out[index] = a.data[at]
    return Value(out, a.dtype)
