"""Random comprehensions and with-loops: partitions, bounds that are written or left away, dots and steps."""
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence

from fuzz.sac import tree as s
from fuzz.sac.scope import Context, Names, Variable

Box = tuple[tuple[int, int], ...]


class Loops(Names):
    # ---- bounds

    def bound(self, values: Sequence[int], c: Context, fixed: bool = False) -> s.Node:
        """An integer vector with these elements."""
        k = len(values)
        plain = s.Vector((k,), "int", tuple(self._item(v, fixed) for v in values))
        if fixed or not k or min(values) < 0 or self.chance(0.5):
            return plain
        way = self.rng.randrange(6)
        if way == 0 and k <= 4:
            return self.shape_of(values)
        if way == 1 and k <= 4:
            return s.Binary((k,), "int", "-", self.shape_of([v + 1 for v in values]), self.literal(1, "int"))
        if way == 2 and k < 4:
            more = self.shape_of([*values, self.rng.randint(0, 3)])
            take = (
                self.literal(k, "int")
                if self.chance(0.5)
                else s.Vector((1,), "int", (self.literal(k, "int"),))
            )
            return s.Call((k,), "int", "take", (take, more))
        if way == 3 and k < 4:
            count = s.Vector((1,), "int", (self.literal(-1, "int"),))
            return s.Call((k,), "int", "drop", (count, self.shape_of([*values, self.rng.randint(0, 3)])))
        if way == 4:
            at = self.rng.randint(0, k)
            parts = [
                s.Vector((len(x),), "int", tuple(self._item(v, fixed) for v in x))
                for x in (values[:at], values[at:])
            ]
            return s.Binary((k,), "int", "++", *parts)
        if not any(values) and k <= 4:
            return s.Binary(
                (k,), "int", "*", self.literal(0, "int"), self.shape_of([self.rng.randint(0, 3)] * k)
            )
        return plain

    def _item(self, v: int, fixed: bool) -> s.Node:
        if fixed or v < 0 or self.chance(0.7):
            return self.literal(v, "int")
        halved = self.chance(0.2)
        array = self.parameter((2 * v + 1 if halved else v, *self.shape(most=1)), "int")
        whole = s.Call((len(array.shape),), "int", "shape", (array,))
        extent = s.Select((), "int", whole, (self.literal(0, "int"),))
        if not halved:
            return extent
        return s.Binary((), "int", "/", self.shifted(extent, -1), self.literal(2, "int"))

    def shape_of(self, values: Sequence[int]) -> s.Node:
        return s.Call((len(values),), "int", "shape", (self.parameter(tuple(values), "int"),))

    def _side(self, values: Sequence[int], upper: bool, c: Context, vector: str = "") -> s.Bound:
        strict = self.chance(0.75) == upper
        by = 0 if strict == upper else -1
        shifted = [v + by for v in values]
        if len(values) == 1 and not vector and self.chance(0.2):
            return s.Bound(self._item(shifted[0], False), strict)
        return s.Bound(self.bound(shifted, c), strict)

    # ---- comprehensions

    def comprehension(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        if self.chance(0.05):
            return self._of_no_axes(shape, type, c, depth)
        axes = len(shape) if self.chance(0.6) else self.rng.randint(1, len(shape))
        dotted = axes == len(shape) and self.chance(0.35)
        others = self.rng.choice((0, 0, 0, 1, 1, 2, 3))
        parts = [self.partition(shape, axes, type, c, depth - 1, False, dotted) for _ in range(others)]
        parts.append(self.partition(shape, axes, type, c, depth - 1, True, dotted))
        if axes < len(shape) or not others:
            return s.Comprehension(shape, type, tuple(parts), axes)
        return s.Comprehension(shape, type, tuple(parts), axes)

    def _of_no_axes(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        name = self.fresh("iv")
        body = self.array(shape, type, c.within(Variable(name, (), True)), depth - 1)
        part = s.Part(name, (), s.Bound(None, False), s.Bound(s.Vector((0,), "int", ()), True), (), body)
        return s.Comprehension(shape, type, (part,), 0)

    def partition(
        self, shape: s.Shape, axes: int, type: str, c: Context, depth: int, last: bool, dotted: bool
    ) -> s.Part:
        frame, cell = shape[:axes], shape[axes:]
        slots, chosen = self._slots(axes, dotted and self.chance(0.7))
        extents = [frame[a] for a in chosen]
        body_shape = tuple(frame[a] for a in range(axes) if a not in chosen) + cell
        vector = "" if dotted and len(chosen) < axes else (self.fresh("iv") if self.chance(0.45) else "")
        names = tuple(self.fresh("i") if x == "" else x for x in slots)
        way = self.rng.choices(("both", "upper", "lower", "none"), (4, 3, 2, 4))[0]
        if not chosen:
            way, vector = "both", ""
        box = self._box(extents, last, way)
        if not last and way in ("lower", "none") and self.chance(0.4):
            return self._whole(vector, names, way, extents, box, body_shape, type, c, depth)
        if not last and self.chance(0.15):
            return self._dots_as_bounds(vector, names, extents, body_shape, type, c, depth)
        cut = tuple((max(lo, 0), min(hi, n)) for (lo, hi), n in zip(box, extents, strict=True))
        inner = c.within(*self._variables(vector, names, cut))
        body = self.array(body_shape, type, inner, depth)
        if way in ("lower", "none"):
            body = self._anchored(body, vector, names, box, way, type)
        low = (
            self._side([lo for lo, _ in box], False, c, vector)
            if way in ("both", "lower")
            else s.Bound(None, False)
        )
        high = (
            self._side([hi for _, hi in box], True, c, vector)
            if way in ("both", "upper")
            else s.Bound(None, True)
        )
        return s.Part(vector, () if vector else names, low, high, box, body)

    def _slots(self, axes: int, dots: bool) -> tuple[tuple[str, ...], list[int]]:
        """Slots with "" for a variable, and which axes the variables are."""
        if not dots:
            return ("",) * axes, list(range(axes))
        chosen = sorted(self.rng.sample(range(axes), self.rng.randint(1, axes)))
        slots = ["" if a in chosen else "." for a in range(axes)]
        if self.chance(0.5):
            runs = [
                (a, b)
                for a in range(axes + 1)
                for b in range(a, axes + 1)
                if all(x == "." for x in slots[a:b])
            ]
            a, b = self.rng.choice(runs)
            slots[a:b] = ["..."]
        return tuple(slots), chosen

    def _box(self, extents: Sequence[int], last: bool, way: str) -> Box:
        out: list[tuple[int, int]] = []
        for n in extents:
            low = 0 if self.chance(0.6) else self.rng.randint(-1 if way == "both" else 0, max(0, n))
            high = n if last else self.rng.randint(0, n + 2)
            if way == "upper":
                low = 0
            if way == "none":
                low = min(low, high, 2)
            out.append((low, high))
        return tuple(out)

    def _variables(self, vector: str, names: Sequence[str], box: Box, hidden: bool = False) -> list[Variable]:
        if vector:
            return [Variable(vector, box, True, hidden)]
        own = [x for x in names if x not in (".", "...")]
        return [Variable(n, (b,), False, hidden) for n, b in zip(own, box, strict=True)]

    def _anchored(
        self, body: s.Node, vector: str, names: Sequence[str], box: Box, way: str, type: str
    ) -> s.Node:
        """The body with a selection that bounds its variables as the box says."""
        items: list[s.Node] = []
        extents: list[int] = []
        for k, (lo, hi) in enumerate(box):
            own = [x for x in names if x not in (".", "...")]
            at: s.Node = s.Name((), "int", own[k]) if not vector else s.Literal((), "int", 0)
            if not vector and self.chance(0.25):
                index, extent = self._backwards_or_strided(at, lo, hi)
                items.append(index)
                extents.append(extent)
                continue
            by = 0
            if way == "none":
                by = -lo
            elif not vector and self.chance(0.3):
                by = self.rng.choice((1, 2, -1))
                by = max(by, -hi)
            if way == "lower" and lo + by < 0:
                by = 0
            extents.append(max(0, hi + by))
            items.append(self.shifted(at, by))
        kind = "bool" if type == "bool" else self.rng.choice(("int", type))
        if vector:
            same = {-lo if way == "none" else 0 for lo, _ in box}
            whole: s.Node = s.Name((len(box),), "int", vector)
            if len(same) == 1:
                index = (self.shifted(whole, same.pop()),)
            else:
                by = s.Vector((len(box),), "int", tuple(self.literal(lo, "int") for lo, _ in box))
                index = (s.Binary(whole.shape, "int", "-", whole, by),)
        else:
            index = tuple(items)
        anchor = s.Select((), kind, self.parameter(tuple(extents), kind), index)
        if type == "bool":
            return s.Binary(body.shape, "bool", self.rng.choice(("&&", "||")), body, anchor)
        return s.Binary(body.shape, type, self.rng.choice("+-*"), body, anchor)

    def _backwards_or_strided(self, at: s.Node, lo: int, hi: int) -> tuple[s.Node, int]:
        """A subscript that bounds the variable `at` to [lo, hi), and the extent of its axis."""
        if lo == 0 and self.chance(0.4):
            return s.Binary((), "int", "*", self.literal(2, "int"), at), max(
                0, 2 * hi - self.rng.randint(0, 1)
            )
        last = self.shifted(self._item(hi, False), -1)
        return s.Binary((), "int", "-", last, at), max(0, hi - lo)

    def _whole(
        self,
        vector: str,
        names: tuple[str, ...],
        way: str,
        extents: Sequence[int],
        box: Box,
        body_shape: s.Shape,
        type: str,
        c: Context,
        depth: int,
    ) -> s.Part:
        """A partition that nothing bounds above: it goes as far as the result does."""
        if vector and way == "none":
            vector, names = "", tuple(self.fresh("i") for _ in extents)
        lows = [lo if way == "lower" else 0 for lo, _ in box]
        whole = tuple(zip(lows, extents, strict=True))
        inner = c.within(*self._variables(vector, names, whole, hidden=True))
        body = self.array(body_shape, type, inner, depth)
        low = self._side(lows, False, c, vector) if way == "lower" else s.Bound(None, False)
        return s.Part(vector, () if vector else names, low, s.Bound(None, True), whole, body)

    def _dots_as_bounds(
        self,
        vector: str,
        names: tuple[str, ...],
        extents: Sequence[int],
        body_shape: s.Shape,
        type: str,
        c: Context,
        depth: int,
    ) -> s.Part:
        strict = self.chance(0.3)
        whole = tuple((int(strict), n) for n in extents)
        inner = c.within(*self._variables(vector, names, whole))
        body = self.array(body_shape, type, inner, depth)
        low, high = s.Bound(".", strict), s.Bound(".", self.chance(0.5))
        return s.Part(vector, () if vector else names, low, high, whole, body)

    # ---- with-loops

    def with_loop(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        axes = len(shape) if self.chance(0.6) else self.rng.randint(1, len(shape))
        frame, cell = shape[:axes], shape[axes:]
        modarray = self.chance(0.4)
        count = self.rng.choice((1, 1, 1, 2, 2, 3))
        default = modarray or self.chance(0.6)
        # A modarray whose generators have dots alone takes the whole rank.
        said = modarray and axes < len(shape)
        parts = tuple(
            self.generator(frame, cell, type, c, depth - 1, default or k > 0, k > 0 or not said)
            for k in range(count)
        )
        if modarray:
            args: tuple[s.Node, ...] = (self.array(shape, type, c, depth - 2),)
        else:
            args = (self.bound(frame, c),)
            if default:
                args = (*args, self.array(cell, type, c, depth - 2))
        return s.WithLoop(shape, type, parts, "modarray" if modarray else "genarray", "", args, axes)

    def generator(
        self, frame: s.Shape, cell: s.Shape, type: str, c: Context, depth: int, bare: bool, dots: bool
    ) -> s.Part:
        vector = self.fresh("iv") if self.chance(0.5) else ""
        names = () if vector else tuple(self.fresh("i") for _ in frame)
        box: Box = tuple(
            sorted((self.rng.randint(0 if not dots else -1, n + 1), self.rng.randint(0, n + 1)))
            for n in frame
        )  # type: ignore[assignment]
        if self.chance(0.4):
            box = tuple((0, n) for n in frame)
        low, high = (
            self._side([lo for lo, _ in box], False, c, vector),
            self._side([hi for _, hi in box], True, c, vector),
        )
        if dots and self.chance(0.25):
            low = s.Bound(".", self.chance(0.3))
            box = tuple((int(low.strict), hi) for _, hi in box)
        if dots and self.chance(0.25):
            high = s.Bound(".", self.chance(0.3))
            box = tuple((lo, n - int(high.strict)) for (lo, _), n in zip(box, frame, strict=True))
        cut = box  # of a fold, that no frame cuts
        if dots:
            cut = tuple((max(lo, 0), min(hi, n)) for (lo, hi), n in zip(box, frame, strict=True))
        body = None
        if not (bare and self.chance(0.1)):
            body = self.array(cell, type, c.within(*self._variables(vector, names, cut)), depth)
        step = tuple(self.rng.randint(1, 3) for _ in frame) if self.chance(0.25) else ()
        width = tuple(self.rng.randint(1, n) for n in step) if self.chance(0.5) else ()
        return s.Part(vector, names, low, high, box, body, step, width)

    def fold(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        frame = tuple(self.rng.randint(0, 4) for _ in range(self.rng.choice((1, 1, 2))))
        parts = tuple(
            self.generator(frame, shape, type, c, depth - 1, False, False)
            for _ in range(self.rng.choice((1, 1, 2)))
        )
        op = self.rng.choice(("&&", "||") if type == "bool" else ("+", "+", "*", "min", "max"))
        neutral = self.array(shape, type, c, 0)
        return s.WithLoop(shape, type, parts, "fold", op, (neutral,), 0)

    def triangle(self, type: str, c: Context, depth: int) -> s.Node:
        """A comprehension as long as an index says, which only a reduction may take."""
        variables = [v for v in c.variables if not v.vector]
        if not variables:
            return self.array((self.rng.randint(0, 4),), type, c, depth)
        v = self.rng.choice(variables)
        hi = v.box[0][1]
        extra = self.rng.randint(0, 2)
        most = max(0, hi - 1 + extra)
        at = self.shifted(s.Name((), "int", v.name), extra)
        name = self.fresh("i")
        inner = c.within(Variable(name, ((0, most),), False))
        body = self.array((), type, inner, depth)
        high = s.Bound(s.Vector((1,), "int", (at,)), True)
        part = s.Part("", (name,), s.Bound(None, False), high, ((0, most),), body)
        return s.Comprehension((-1,), type, (part,), 1)
