"""Random SaC programs that are right by construction, for shapes and element types that are asked for."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from fuzz.sac import tree as s
from fuzz.sac.functions import Functions
from fuzz.sac.loops import Loops
from fuzz.sac.scope import Context, Variable

TYPES = ("int", "int", "int", "double", "double", "long", "bool")


class Maker(Loops, Functions):
    """Nodes by shape and type."""

    # ---- what a node may be

    def array(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        if not shape:
            return self.scalar(type, c, depth)
        self.left -= 1
        if depth <= 0 or self.left <= 0:
            return self.leaf(shape, type, c)
        rank, n = len(shape), shape[0]
        ways: list[tuple[float, Callable[[], s.Node]]] = [
            (2, lambda: self.leaf(shape, type, c)),
            (6, lambda: self.comprehension(shape, type, c, depth)),
            (3, lambda: self.with_loop(shape, type, c, depth)),
            (3, lambda: self.elementwise(shape, type, c, depth)),
            (1, lambda: self.where(shape, type, c, depth)),
            (1.5, lambda: self.moved(shape, type, c, depth)),
            (1.5, lambda: self.part(shape, type, c, depth)),
            (1, lambda: self.joined(shape, type, c, depth)),
            (1, lambda: self.called(shape, type, c, depth)),
            (1, lambda: self.ternary(shape, type, c, depth)),
            (0.7, lambda: self.reshaped(shape, type, c, depth)),
            (0.5, lambda: self.fold(shape, type, c, depth)),
        ]
        if 0 < n <= 4:
            ways.append((1, lambda: self.stacked(shape, type, c, depth)))
        if rank == 1 and type == "int":
            ways.append((1, lambda: s.Call(shape, "int", "iota", (self.literal(n, "int"),))))
            ways.append((1, lambda: self.vector_of_shape(shape, c)))
        return self.chosen(ways)

    def scalar(self, type: str, c: Context, depth: int) -> s.Node:
        self.left -= 1
        if depth <= 0 or self.left <= 0:
            return self.leaf((), type, c)
        ways: list[tuple[float, Callable[[], s.Node]]] = [
            (2, lambda: self.leaf((), type, c)),
            (3, lambda: self.elementwise((), type, c, depth)),
            (3, lambda: self.picked(type, c, depth)),
            (1, lambda: self.ternary((), type, c, depth)),
            (1, lambda: self.called((), type, c, depth)),
            (1, lambda: self.fold((), type, c, depth)),
            (2, lambda: self.reduced(type, c, depth)),
        ]
        return self.chosen(ways)

    def chosen(self, ways: list[tuple[float, Callable[[], s.Node]]]) -> s.Node:
        (way,) = self.rng.choices([w for _, w in ways], [p for p, _ in ways])
        return way()

    # ---- the simplest

    def leaf(self, shape: s.Shape, type: str, c: Context) -> s.Node:
        fitting = [a for a in c.arrays if (a.shape, a.type) == (shape, type)]
        if fitting and self.chance(0.6):
            return self.rng.choice(fitting)
        if not shape:
            variables = [v for v in c.variables if not v.vector or v.box]
            if variables and type != "bool" and self.chance(0.5):
                return self.converted(self.component(self.rng.choice(variables)), type)
            if self.chance(0.6):
                return self.literal(self.rng.randint(-3, 5), type)
        elif len(shape) <= 3 and self.chance(0.4):
            lead = tuple(self.rng.randint(1, 3) for _ in range(self.rng.randint(1, 4 - len(shape))))
            return self.selected((*lead, *shape), type, len(lead), c)
        elif self.chance(0.1):
            return s.Call(shape, type, "genarray", (self.bound(shape, c), self.literal(2, type)))
        return self.parameter(shape, type)

    def literal(self, value: int, type: str) -> s.Node:
        if type == "bool":
            return s.Literal((), "bool", value % 2 == 0)
        if type == "long":
            return s.Call((), "long", "tol", (self.literal(value, "int"),))
        return s.Literal((), type, float(value) if type == "double" else value)

    def component(self, v: Variable) -> s.Node:
        if not v.vector:
            return s.Name((), "int", v.name)
        vector = s.Name((len(v.box),), "int", v.name)
        return s.Select((), "int", vector, (self.literal(self.rng.randrange(len(v.box)), "int"),))

    def converted(self, e: s.Node, type: str) -> s.Node:
        if e.type == type:
            return e
        return s.Call(e.shape, type, {"int": "toi", "long": "tol", "double": "tod"}[type], (e,))

    # ---- element by element

    def elementwise(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        def operand(t: str, scalar: bool = False) -> s.Node:
            return self.array(() if scalar else shape, t, c, depth - 1)

        if type == "bool":
            if self.chance(0.3):
                return s.Unary(shape, "bool", "!", operand("bool"))
            if self.chance(0.4):
                return s.Binary(
                    shape, "bool", self.rng.choice(("&&", "||")), operand("bool"), operand("bool")
                )
            t, op = self.rng.choice(("int", "double")), self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
            return s.Binary(shape, "bool", op, operand(t), operand(t, self.chance(0.4)))
        if self.chance(0.15):
            return s.Unary(shape, type, "-", operand(type))
        if self.chance(0.2):
            names = ("abs", "min", "max") if type == "double" else ("abs", "min", "max", "mod")
            name = self.rng.choice(names)
            args = (operand(type), *((operand(type, self.chance(0.3)),) if name != "abs" else ()))
            return s.Call(shape, type, name, args)
        if self.chance(0.1):
            source = self.rng.choice([t for t in ("int", "long", "double") if t != type])
            return self.converted(operand(source), type)
        op = self.rng.choice(("+", "-", "*", *(("/", "%") if type != "double" else ())))
        other = {"long": ("int", "long"), "double": ("int", "double"), "int": ("int",)}[type]
        left, right = operand(type, self.chance(0.2)), operand(self.rng.choice(other))
        if self.chance(0.5):
            left, right = right, left
        if self.chance(0.3) and shape and left.shape:
            right = self.array((), right.type, c, depth - 1)
        if type not in (left.type, right.type):
            left = self.converted(left, type)
        return s.Binary(shape, type, op, left, right)

    def where(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        args = (
            self.array(() if self.chance(0.2) else shape, "bool", c, depth - 1),
            self.array(shape, type, c, depth - 1),
            self.array(() if self.chance(0.3) else shape, type, c, depth - 1),
        )
        return s.Call(shape, type, "where", args)

    def ternary(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        guarded = self.guarded(shape, type, c)
        if guarded is not None and self.chance(0.5):
            condition, then = guarded
        else:
            condition, then = self.scalar("bool", c, depth - 1), self.array(shape, type, c, depth - 1)
        return s.Ternary(shape, type, condition, then, self.array(shape, type, c, depth - 1))

    def guarded(self, shape: s.Shape, type: str, c: Context) -> tuple[s.Node, s.Node] | None:
        """A selection that may be out of bounds, below a condition that says when it is not."""
        variables = [v for v in c.variables if not v.vector and not v.hidden]
        if not variables or len(shape) > 2:
            return None
        v, n, k = self.rng.choice(variables), self.rng.randint(1, 4), self.rng.randint(-2, 2)
        a = self.parameter((n, *shape), type)
        index = self.shifted(s.Name((), "int", v.name), k)
        extent = s.Select(
            (), "int", s.Call((1 + len(shape),), "int", "shape", (a,)), (self.literal(0, "int"),)
        )
        low = s.Binary((), "bool", ">=", index, self.literal(0, "int"))
        high = s.Binary((), "bool", "<", index, extent if self.chance(0.5) else self.literal(n, "int"))
        return s.Binary((), "bool", "&&", low, high), s.Select(shape, type, a, (index,))

    def shifted(self, e: s.Node, k: int) -> s.Node:
        if not k:
            return e
        return s.Binary(e.shape, "int", "+" if k > 0 else "-", e, self.literal(abs(k), "int"))

    # ---- selections

    def selected(self, shape: s.Shape, type: str, k: int, c: Context, array: s.Node | None = None) -> s.Node:
        """The first `k` axes of an array away, by indices that are in bounds."""
        array = self.parameter(shape, type) if array is None else array
        rest = shape[k:]
        vectors = [
            v
            for v in c.variables
            if v.vector and not v.hidden and len(v.box) == k
            and all(lo >= 0 and hi <= n for (lo, hi), n in zip(v.box, shape, strict=False))
        ]  # fmt: skip
        if vectors and self.chance(0.7):
            return s.Select(rest, type, array, (s.Name((k,), "int", self.rng.choice(vectors).name),))
        items = tuple(self.index(n, c, array, d) for d, n in enumerate(shape[:k]))
        if any(x is None for x in items):
            return self.parameter(rest, type)
        found = tuple(x for x in items if x is not None)
        if self.chance(0.3):
            whole: s.Node = s.Vector((k,), "int", found)
            if k == 1 and self.chance(0.5) and len(rest) < 3:
                return s.Call(rest, type, "sel", (found[0], array))
            if self.chance(0.4):
                at = self.rng.randint(0, k)
                parts = (s.Vector((at,), "int", found[:at]), s.Vector((k - at,), "int", found[at:]))
                whole = s.Binary((k,), "int", "++", *parts)
            return s.Select(rest, type, array, (whole,))
        return s.Select(rest, type, array, found)

    def index(self, n: int, c: Context, array: s.Node, axis: int) -> s.Node | None:
        """A scalar that is an index of an axis of extent `n`; None where there is none."""
        ways: list[tuple[float, Callable[[], s.Node]]] = []
        for v in c.variables:
            if v.hidden:
                continue
            for d, (lo, hi) in enumerate(v.box):
                at: s.Node = s.Name((), "int", v.name)
                if v.vector:
                    whole = s.Name((len(v.box),), "int", v.name)
                    at = s.Select((), "int", whole, (self.literal(d, "int"),))
                ways += self._from(at, lo, hi, n, array, axis)
        if n > 0:
            ways.append((0.3, lambda: self.literal(self.rng.randrange(n), "int")))
            ways.append((0.2, lambda: self._wrapped(n, c)))
            if not self.scope.inner:
                ways.append((0.05, lambda: self.parameter((), "int", n)))
                ways.append((0.2, lambda: self._gathered(n, c)))
        return self.chosen(ways) if ways else None

    def _from(
        self, at: s.Node, lo: int, hi: int, n: int, array: s.Node, axis: int
    ) -> list[tuple[float, Callable[[], s.Node]]]:
        out: list[tuple[float, Callable[[], s.Node]]] = []
        shifts = [k for k in range(-3, 4) if lo + k >= 0 and hi + k <= n]
        if shifts:
            out.append((4, lambda: self.shifted(at, self.rng.choice(shifts))))
        if lo >= 0 and hi <= n:
            out.append((2, lambda: at))
            shape = s.Call((len(array.shape),), "int", "shape", (array,))
            extent = s.Select((), "int", shape, (self.literal(axis, "int"),))
            last = self.shifted(extent if self.chance(0.5) else self.literal(n, "int"), -1)
            out.append((0.7, lambda: s.Binary((), "int", "-", last, at)))
        if lo >= 0 and 2 * hi - 1 <= n:
            out.append((1, lambda: s.Binary((), "int", "*", self.literal(2, "int"), at)))
        return out

    def _wrapped(self, n: int, c: Context) -> s.Node:
        visible = Context(tuple(v for v in c.variables if not v.hidden), ())
        e = self.leaf((), "int", visible)
        if self.chance(0.5):
            return s.Call((), "int", "mod", (e, self.literal(n, "int")))
        least = s.Call((), "int", "min", (e, self.literal(n - 1, "int")))
        return s.Call((), "int", "max", (least, self.literal(0, "int")))

    def _gathered(self, n: int, c: Context) -> s.Node:
        extent = self.rng.randint(1, 4)
        x = self.parameter((extent,), "int", n)
        index = self.index(extent, Context(c.variables), x, 0)
        return s.Select((), "int", x, (index if index is not None else self.literal(0, "int"),))

    def picked(self, type: str, c: Context, depth: int) -> s.Node:
        """A scalar out of an array."""
        rank = self.rng.choice((1, 1, 2, 2, 3))
        boxes = [(lo, hi) for v in c.variables if not v.hidden for lo, hi in v.box]
        shape = tuple(
            max(1, self.rng.choice(boxes)[1]) if boxes and self.chance(0.6) else self.rng.randint(1, 4)
            for _ in range(rank)
        )
        array = self.array(shape, type, c, depth - 1) if self.chance(0.3) else None
        return self.selected(shape, type, rank, c, array)

    # ---- the prelude

    def reduced(self, type: str, c: Context, depth: int) -> s.Node:
        shape = self.shape(most=3)
        if type == "bool":
            inner = self.array(shape or (3,), "bool", c, depth - 1)
            return s.Call((), "bool", self.rng.choice(("all", "any")), (inner,))
        if self.chance(0.4) and c.variables:
            inner = self.triangle(type, c, depth - 1)
        elif type == "int" and self.chance(0.1):
            inner = self.array(shape, "bool", c, depth - 1)
        else:
            inner = self.array(shape, type, c, depth - 1)
        name = self.rng.choice(("sum", "sum", "sum", "prod", "minval", "maxval"))
        return s.Call((), type, name, (inner,))

    def moved(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        name = self.rng.choice(("reverse", "rotate", "shift", "transpose"))
        source = shape[::-1] if name == "transpose" else shape
        array = self.array(source, type, c, depth - 1)
        if name in ("reverse", "transpose") or type == "bool":
            return s.Call(shape, type, "transpose" if name == "transpose" else "reverse", (array,))
        return s.Call(shape, type, name, (self.literal(self.rng.randint(-5, 5), "int"), array))

    def part(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        k = self.rng.randint(1, len(shape))
        name = self.rng.choice(("take", "drop", "tile"))
        more = [self.rng.randint(0, 2) for _ in range(k)]
        source = tuple(n + m for n, m in zip(shape, (*more, *[0] * len(shape)), strict=False))
        array = self.array(source, type, c, depth - 1)
        if name == "tile":
            offset = tuple(self.rng.randint(0, m) for m in more)
            vectors = s.Vector((k,), "int", tuple(self.literal(o, "int") for o in offset))
            return s.Call(shape, type, "tile", (self.bound(shape[:k], c), vectors, array))
        amounts = shape[:k] if name == "take" else tuple(more)
        counts = tuple(n * self.rng.choice((1, -1)) for n in amounts)
        if k == 1 and self.chance(0.5):
            return s.Call(shape, type, name, (self.literal(counts[0], "int"), array))
        vector = s.Vector((k,), "int", tuple(self.literal(n, "int") for n in counts))
        return s.Call(shape, type, name, (vector, array))

    def joined(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        n = self.rng.randint(0, shape[0])
        left, right = (self.array((m, *shape[1:]), type, c, depth - 1) for m in (n, shape[0] - n))
        return s.Binary(shape, type, "++", left, right)

    def stacked(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        items = tuple(self.array(shape[1:], type, c, depth - 1) for _ in range(shape[0]))
        return s.Vector(shape, type, items)

    def reshaped(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        size = int(np.prod(shape))
        options = [(size,), *((a, size // a) for a in (1, 2, 3) if size % a == 0 and size), shape]
        array = self.array(self.rng.choice(options), type, c, depth - 1)
        return s.Call(shape, type, "reshape", (self.bound(shape, c, fixed=True), array))

    def vector_of_shape(self, shape: s.Shape, c: Context) -> s.Node:
        array = self.parameter(self.shape(rank=shape[0]) if shape[0] <= 4 else (2,) * shape[0], "int")
        return s.Call(shape, "int", "shape", (array,))

    def shape(self, most: int = 4, rank: int | None = None) -> s.Shape:
        ranks = self.rng.choices(range(5), (2, 5, 5, 3, 1))[0] if rank is None else rank
        extents = self.rng.choices(
            (0, 1, 2, 3, 4, 5), (1, 2, 4, 5, 3, 2), k=min(ranks, most) if rank is None else rank
        )
        return tuple(n if sum(extents) < 11 else min(n, 3) for n in extents)


def program(seed: int) -> s.Program:
    """The program of a seed."""
    rng = random.Random(seed)
    maker = Maker(rng)
    return maker.whole(maker.shape(), rng.choice(TYPES), rng.choice((2, 3, 3, 4)))
