"""What a tree computes, at given sizes, with NumPy: the generator's own evaluator.

It shares nothing with the compiler or `tc.interpret` but NumPy: statements are evaluated on grids of all
points of their ranges, with bounds on errors (`fuzz.numbers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fuzz import numbers
from fuzz.numbers import FLOATS, NUMPY, Array, Value, common, convert
from fuzz.tree import (
    Access,
    Binary,
    Call,
    Cast,
    Choice,
    Condition,
    Def,
    Exp,
    Index,
    Invocation,
    Let,
    Local,
    Number,
    Scalar,
    Size,
    Statement,
    Tree,
    Unary,
    walk,
)

Box = tuple[tuple[int, int], ...]
"""First and last but one of each dimension."""
Ranges = Mapping[str, tuple[int, int]]


class OutOfBounds(Exception):
    """An element that does not exist is read where data say so."""


class Undefined(Exception):
    """A tree that means nothing here: an element outside of a tensor is read or written."""


class Uncertain(Exception):
    """What is read depends on rounding."""


@dataclass(frozen=True)
class Tensor:
    """Elements from `origin` on."""

    of: Value
    origin: tuple[int, ...] = ()

    @property
    def box(self) -> Box:
        return tuple((o, o + n) for o, n in zip(self.origin, np.shape(self.of.of), strict=True))


@dataclass
class Scope:
    """Inside a definition."""

    sizes: Mapping[str, int]
    scalars: Mapping[str, Value]
    tensors: dict[str, Tensor]
    given: Mapping[str, Array]  # in/out results
    types: Mapping[str, str]  # of all tensors


# Types.  A literal has none before it meets another operand.  `wide` ones do not fit 32 bits.

UNTYPED = ("literal", "wide", "real")


def type_of(e: Exp, types: Mapping[str, str], scalars: Mapping[str, str], lets: Mapping[str, Exp]) -> str:
    """The type of an expression; one of `UNTYPED` if it takes that of other operands."""

    def of(e: Exp) -> str:
        return type_of(e, types, scalars, lets)

    match e:
        case Number():
            return "real" if e.floating else "literal" if int(e.text) < 1 << 31 else "wide"
        case Index() | Size():
            return "int"
        case Scalar():
            return scalars[e.name]
        case Local():
            return of(lets[e.name])
        case Access():
            return types[e.tensor]
        case Cast():
            return e.type
        case Unary():
            return of(e.a) if e.op == "-" else "bool"
        case Binary(op="&&" | "||" | "==" | "!=" | "<" | ">" | "<=" | ">="):
            return "bool"
        case Binary():
            return joined(of(e.a), of(e.b), arithmetic=True)
        case Choice():
            return joined(of(e.a), of(e.b))
        case Call(name="min" | "max" | "abs"):
            return settled(joined(*map(of, e.args)))
        case Call():
            t = joined("float", *map(of, e.args))
            return "float" if t in ("half", "bfloat16") else t


def joined(*types: str, arithmetic: bool = False) -> str:
    """The type that operands take; `arithmetic` on truth values gives integers."""
    typed = [t for t in types if t not in UNTYPED]
    if not typed:
        return next(t for t in UNTYPED[::-1] if t in types)
    if not arithmetic and set(typed) == {"bool"}:
        return "bool"
    t = common(*typed)
    return "float" if "real" in types and t not in FLOATS else t


def settled(t: str) -> str:
    """The type of literals alone."""
    return {"literal": "int", "wide": "int64", "real": "float"}.get(t, t)


def types_of(tree: Tree) -> dict[str, dict[str, str]]:
    """The types of all tensors of each definition: that of the first right-hand side with another operand
    than literals and the tensor itself."""
    out: dict[str, dict[str, str]] = {}

    def definition(d: Def) -> dict[str, str]:
        types = {p.name: p.type for p in d.params if p.dims is not None}
        scalars = {p.name: p.type for p in d.params if p.dims is None}
        weak: dict[str, str] = {}
        before = -1
        while len(types) > before:
            before = len(types)
            weak = {t: x for t, x in weak.items() if t not in types}
            for s in d.body:
                if isinstance(s, Invocation):
                    callee = next(x for x in tree.defs if x.name == s.name)
                    inner = definition(callee)
                    types |= {t: inner[r] for t, r in zip(s.tensors, callee.returns, strict=True)}
                    continue
                lets = {c.name: c.value for c in s.clauses if isinstance(c, Let)}
                read = {x.tensor for e in (s.value, *lets.values()) for x in walk(e) if isinstance(x, Access)}
                if s.tensor in types or read - types.keys() - {s.tensor}:
                    continue
                t = type_of(s.value, {s.tensor: "literal", **types}, scalars, lets)
                if t in UNTYPED:
                    weak.setdefault(s.tensor, settled(t))
                else:
                    types[s.tensor] = "int" if t == "bool" and s.op != "=" else t
            if len(types) == before and weak:  # a literal says it where nothing else does
                first = next(iter(weak))
                types[first] = weak.pop(first)
        out[d.name] = types
        return types

    definition(tree.entry)
    return out


# Values.


@dataclass
class _Grid:
    """All points of a statement's ranges; where a branch is taken only at some, `active` says at which."""

    scope: Scope
    ranges: Ranges
    lets: Mapping[str, Exp]
    active: Array | None = None

    def __post_init__(self) -> None:
        names = list(self.ranges)
        self.points = {
            n: np.arange(*self.ranges[n]).reshape([-1 if i == k else 1 for i in range(len(names))])
            for k, n in enumerate(names)
        }
        self.shape = tuple(max(0, high - low) for low, high in self.ranges.values())

    def type_of(self, e: Exp) -> str:
        scalars = {n: v.type for n, v in self.scope.scalars.items()}
        return type_of(e, self.scope.types, scalars, self.lets)

    def typed(self, e: Exp, t: str) -> Value:
        """A value converted to a type; literals are numbers of it at once."""
        if isinstance(e, Number):
            return _literal(e, t)
        if isinstance(e, Unary) and e.op == "-" and self.type_of(e) in UNTYPED:
            return numbers.negated(self.typed(e.a, t))
        if isinstance(e, Binary | Choice) and self.type_of(e) in UNTYPED:
            return self.value(e, t)
        return convert(self.value(e), t)

    def value(self, e: Exp, wanted: str = "") -> Value:
        """`wanted`: the type of an expression that has none of its own."""
        match e:
            case Number():
                return _literal(e, wanted or settled(self.type_of(e)))
            case Index():
                return Value("int", self.points[e.name].astype(np.int32), np.zeros(()))
            case Size():
                return numbers.exact("int", self.scope.sizes[e.name])
            case Scalar():
                return self.scope.scalars[e.name]
            case Local():
                return self.value(self.lets[e.name], wanted)
            case Access():
                return self.read(e)
            case Cast():
                t = self.type_of(e.a)
                at_once = t in UNTYPED and e.type in FLOATS
                return convert(self.typed(e.a, e.type if at_once else settled(t)), e.type)
            case Unary():
                return numbers.negated(self.value(e.a, wanted))
            case Binary():
                return self.binary(e, wanted)
            case Call():
                t = wanted or settled(self.type_of(e))
                args = [self.typed(a, t) for a in e.args]
                if e.name == "abs":
                    return numbers.absolute(args[0])
                if e.name in ("min", "max", "fmin", "fmax"):
                    out = args[0]
                    for a in args[1:]:
                        out = numbers.extremum(e.name, out, a)
                    return out
                return numbers.function(e.name, args[0])
            case Choice():
                return self.choice(e, wanted)

    def binary(self, e: Binary, wanted: str) -> Value:
        if e.op in ("&&", "||"):
            return numbers.logical(e.op, self.value(e.a), self.value(e.b))
        arithmetic = e.op in "+-*/%"
        t = joined(self.type_of(e.a), self.type_of(e.b), arithmetic=arithmetic)
        if t in UNTYPED and t != "real" and e.op in ("/", "%"):  # of integers, whatever becomes of it
            a, b = self.typed(e.a, settled(t)), self.typed(e.b, settled(t))
            return convert(numbers.arithmetic(e.op, a, b), wanted or settled(t))
        if t in UNTYPED:
            t = wanted if wanted and arithmetic else settled(t)
        a, b = self.typed(e.a, t), self.typed(e.b, t)
        return numbers.arithmetic(e.op, a, b) if arithmetic else numbers.comparison(e.op, a, b)

    def choice(self, e: Choice, wanted: str) -> Value:
        t = wanted or settled(self.type_of(e))
        c = self.value(e.c)
        if not e.lazy:
            return numbers.chosen(c, self.typed(e.a, t), self.typed(e.b, t))
        reads = any(isinstance(x, Access) for b in (e.a, e.b) for x in walk(b))
        if reads and (c.error > 0).any():
            raise Uncertain
        before, outcome = self.active, []
        for branch, taken in ((e.a, c.of), (e.b, ~c.of)):
            self.active = taken if before is None else before & taken
            outcome.append(self.typed(branch, t))
        self.active = before
        return numbers.chosen(c, *outcome)

    def read(self, e: Access) -> Value:
        if e.tensor not in self.scope.tensors:
            raise Undefined(f"{e.tensor} has no elements yet")
        tensor = self.scope.tensors[e.tensor]
        places: list[Array] = []
        filled: list[tuple[str, Array]] = []
        for d, (s, (low, high)) in enumerate(zip(e.subscripts, tensor.box, strict=True)):
            v = self.value(s)
            if (v.error > 0).any():
                raise Uncertain
            at = v.of.astype(np.int64)
            outside = (at < low) | (at >= high)
            mode = e.mode(d)
            if mode == "zero" or mode.startswith("fill"):
                filled.append((mode, outside))
            elif mode != "none":
                if high <= low and 0 not in self.shape:
                    raise Undefined(f"{e.tensor} has no elements, and {mode} needs one")
                at = low + padded(mode, high - low, at - low)
            if mode != "none":
                outside = np.zeros(())
            if self.active is not None:
                outside = outside.astype(bool) & self.active
            if outside.size and np.broadcast_to(outside, self.shape).any():
                # By data, or what a float or a narrow type made of it.
                by_data = any(isinstance(x, Access | Cast) for x in walk(s))
                raise (OutOfBounds if by_data else Undefined)(f"{e.tensor} has no such element")
            places.append(np.clip(at, low, max(low, high - 1)) - low)
        of, error = tensor.of.of, np.broadcast_to(tensor.of.error, tensor.of.of.shape)
        if not places:
            return tensor.of
        if of.size == 0:
            shape = np.broadcast_shapes(*(p.shape for p in places))
            found = Value(tensor.of.type, np.zeros(shape, of.dtype), np.zeros(shape))
        else:
            found = Value(tensor.of.type, of[tuple(places)], error[tuple(places)])
        for mode, outside in reversed(filled):  # the first dimension that is left decides
            value = _literal(Number(mode.partition("=")[2] or "0"), tensor.of.type)
            found = numbers.chosen(Value("bool", outside, np.zeros(())), value, found)
        return found


def padded(mode: str, n: int, at: Array) -> Array:
    """The elements of n that stand at these places of what `numpy.pad` makes."""
    name = {"clamp": "edge"}.get(mode, mode)
    if n <= 0 or at.size == 0:
        return np.zeros_like(at)
    before, behind = max(0, -int(at.min())), max(0, int(at.max()) - n + 1)
    if before + behind > 1 << 20:
        raise Uncertain
    return np.pad(np.arange(n), (before, behind), mode=name)[at + before]  # type: ignore[call-overload]


def _literal(e: Number, t: str) -> Value:
    number = float(e.text) if e.floating else int(e.text)
    if t in FLOATS:
        # A literal of a narrow type is rounded to it, or kept.
        return numbers.rounded(t, np.asarray(float(number)), np.zeros(()))
    return numbers.exact(t, number)


# Statements.


def execute(s: Statement, scope: Scope, ranges: Ranges, box: Box) -> None:
    """Run a statement over the ranges of its indices; `box` is that of its tensor."""
    lets = {c.name: c.value for c in s.clauses if isinstance(c, Let)}
    order = list(dict.fromkeys((*s.written, *s.indices)))
    grid = _Grid(scope, {n: ranges[n] for n in order}, lets)
    t = scope.types[s.tensor]
    first = s.tensor not in scope.tensors
    met = np.ones(grid.shape, bool)
    # What `op=!` sets: all that the left-hand side covers, also where there is nothing to reduce.
    covered = np.ones(grid.shape[: len(s.targets)], bool)
    for c in s.clauses:
        if isinstance(c, Condition):
            holds = grid.value(c.value).of
            met &= holds
            if {x.name for x in walk(c.value) if isinstance(x, Index)} <= set(s.written):
                covered &= holds.reshape(holds.shape[: len(s.targets)])
    conditional = any(isinstance(c, Condition) for c in s.clauses)
    if first:
        _begin(s, scope, t, box)
    grid.active = met if conditional else None
    v = grid.typed(s.value, t)
    of = np.broadcast_to(v.of, grid.shape)
    error = np.broadcast_to(v.error, grid.shape)
    old = scope.tensors[s.tensor]
    place = tuple(
        slice(ranges[x.index][0] + x.offset - o, ranges[x.index][1] + x.offset - o)
        for x, o in zip(s.targets, old.origin, strict=True)
    )
    for x, at, n in zip(s.targets, place, np.shape(old.of.of), strict=True):
        if met.size and (at.start < 0 or at.stop > n):
            inside = range(max(0, -at.start), min(at.stop, n) - at.start)
            axis = order.index(x.index)
            reached = covered if s.op.endswith("!") else met
            if np.delete(reached, list(inside), axis).any():
                raise Undefined(f"{s.tensor} is written outside of its range")
            # The conditions hold at no point outside: the others are all there is.
            low = ranges[x.index][0]
            execute(
                s, scope, {**ranges, x.index: (low + inside.start, low + max(inside.stop, inside.start))}, box
            )
            return
    if any(at.start < 0 or at.stop > n for at, n in zip(place, np.shape(old.of.of), strict=True)):
        return  # of no points
    place = tuple(slice(max(0, at.start), max(0, at.start, at.stop)) for at in place)
    kept, unsure = np.array(old.of.of), np.array(np.broadcast_to(old.of.error, np.shape(old.of.of)))
    inner = tuple(range(len(s.targets), len(order)))
    op = s.op.rstrip("!").rstrip("=")
    if op:
        of = np.where(met, of, np.asarray(numbers.neutral(op, t)).astype(of.dtype))
        error = np.where(met, error, 0.0)
        start = Value(t, kept[place], unsure[place])
        if s.op.endswith("!"):
            fresh = np.full(np.shape(start.of), numbers.neutral(op, t), start.of.dtype)
            start = Value(t, np.where(covered, fresh, start.of), np.where(covered, 0.0, start.error))
        out = numbers.reduced(op, Value(t, of, error), inner, start)
        kept[place], unsure[place] = out.of, out.error
    else:
        kept[place] = np.where(met, of, kept[place])
        unsure[place] = np.where(met, error, unsure[place])
    scope.tensors[s.tensor] = Tensor(Value(t, kept, unsure), old.origin)


def _begin(s: Statement, scope: Scope, t: str, box: Box) -> None:
    """A tensor's elements before its first statement: the caller's, neutral, or none that may be seen."""
    shape = tuple(max(0, high - low) for low, high in box)
    origin = tuple(low for low, _ in box)
    dtype = np.float64 if t in FLOATS else NUMPY[t]
    given = scope.given.get(s.tensor)
    if given is not None:
        start = np.asarray(given).astype(dtype).reshape(shape)
    elif s.op == "=":
        start = np.zeros(shape, dtype)
    else:
        start = np.full(shape, numbers.neutral(s.op.rstrip("!").rstrip("="), t), dtype)
    missing = s.op == "=" and given is None
    scope.tensors[s.tensor] = Tensor(Value(t, start, np.full(shape, np.inf if missing else 0.0)), origin)


def run(
    tree: Tree,
    name: str,
    arguments: Mapping[str, Tensor | Value],
    sizes: Mapping[str, int],
    given: Mapping[str, Array],
    ranges: Sequence[tuple[Ranges, Box]],
) -> dict[str, Tensor]:
    """The results of a definition; `ranges`: those of each statement and of its tensor, in the order in which
    statements run, those of called definitions in their place."""
    found, types = iter(ranges), types_of(tree)

    def call(
        d: Def, arguments: Mapping[str, Tensor | Value], sizes: Mapping[str, int], given: Mapping[str, Array]
    ) -> dict[str, Tensor]:
        tensors = {n: a for n, a in arguments.items() if isinstance(a, Tensor)}
        scalars = {n: a for n, a in arguments.items() if isinstance(a, Value)}
        scope = Scope(sizes, scalars, tensors, given, types[d.name])
        for s in d.body:
            if isinstance(s, Invocation):
                callee = next(x for x in tree.defs if x.name == s.name)
                passed = [Tensor(x.of, (0,) * len(x.origin)) for x in (scope.tensors[a] for a in s.args)]
                inner: dict[str, int] = {}
                for p, x in zip(callee.params, passed, strict=True):
                    inner |= dict(zip(p.dims or (), np.shape(x.of.of), strict=True))
                results = call(
                    callee, dict(zip((p.name for p in callee.params), passed, strict=True)), inner, {}
                )
                for target, r in zip(s.tensors, callee.returns, strict=True):
                    x = results[r]
                    scope.tensors[target] = Tensor(x.of, (0,) * len(x.origin))
            else:
                execute(s, scope, *next(found))
        return {r: scope.tensors[r] for r in d.returns}

    return call(next(d for d in tree.defs if d.name == name), arguments, sizes, given)
