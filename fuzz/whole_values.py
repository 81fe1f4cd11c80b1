"""Random expressions on whole numbers: reads at subscripts of any kind, arithmetic, choices.

Every value is a whole number small enough that float32 holds it and its partial sums, so results are equal to
the bit in any order of a reduction.  All points of a statement are evaluated at once, in NumPy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.evaluate import padded
from fuzz.strategies import MODES

Array = np.ndarray[Any, Any]
Env = dict[str, Any]  # tensors, and the variables of a statement as arrays that broadcast together
Axes = Mapping[str, str]  # the variables of a statement, and the sizes that bound them

MOST = 1_000_000  # of an absolute value within a statement; sums have up to eight times as much
SMALL = 9
COMBINE: Mapping[str, Any] = {"+": np.add, "max": np.maximum, "min": np.minimum, "*": np.multiply}
NEUTRAL: Mapping[str, int] = {"+": 0, "*": 1, "max": -MOST, "min": MOST}
MARGIN = "  "  # before a statement that is in no loop


@dataclass(frozen=True)
class Value:
    """An expression: its text, its values, and a bound on their sizes; `element` says whether it has the type
    of the program's elements and not that of indices."""

    text: str
    of: Callable[[Env], Any]
    bound: int
    element: bool


@dataclass(frozen=True)
class Tensor:
    """What may be read: an input, a tensor, or the row `at` of one, such as `t+1`."""

    name: str
    dims: tuple[str, ...]
    bound: int
    element: bool = True
    at: str = ""


@dataclass(frozen=True)
class Subscript:
    text: str
    of: Callable[[Env], Any]
    mode: str = "none"
    guard: str = ""  # the condition under which it is inside


class Expressions:
    """What expressions are made of: `visible` tensors, `indices` (tensors of whole numbers, each with the
    size that these are below), and sizes.  `read_names` are the tensors that expressions have read."""

    def __init__(self, rng: random.Random, sizes: Mapping[str, int]) -> None:
        self.rng = rng
        self.sizes = sizes
        self.visible: list[Tensor] = []
        self.indices: list[tuple[Tensor, str]] = []
        self.read_names: set[str] = set()
        self.pad = MARGIN

    # ---- evaluation

    def grid(self, env: Env, axes: Axes, ranges: Mapping[str, tuple[int, int]] | None = None) -> Env:
        """The environment with the variables of a statement as arrays, each along a dimension of its own."""
        out = dict(env)
        for d, (v, s) in enumerate(axes.items()):
            low, high = (ranges or {}).get(v, (0, self.extent(s)))
            out[v] = np.arange(low, high).reshape([-1 if e == d else 1 for e in range(len(axes))])
        return out

    def points(
        self, value: Value, env: Env, axes: Axes, ranges: Mapping[str, tuple[int, int]] | None = None
    ) -> Array:
        at = self.grid(env, axes, ranges)
        shape = [at[v].size for v in axes]
        return np.array(np.broadcast_to(value.of(at), shape))

    def extent(self, size: str) -> int:
        return self.sizes["T"] + 1 if size == "(T+1)" else self.sizes[size]

    def row(self, at: str, env: Env) -> int:
        if at in ("0", "T"):
            return 0 if at == "0" else self.sizes["T"]
        return int(env["t"]) + at.count("+1")

    # ---- expressions

    def typed(self, v: Value, axes: Axes) -> Value:
        """The same with the type of elements."""
        if v.element:
            return v
        x = self.rng.choice([t for t in self.visible if t.element])
        return add(self.bounded(v), self.bounded(self.read(x, axes)))

    def small(self, v: Value, most: int = SMALL) -> Value:
        """The value between two small numbers."""
        if v.bound <= most:
            return v
        return Value(
            f"max(min({v.text}, {most}), -{most})",
            lambda env: np.clip(v.of(env), -most, most),
            most,
            v.element,
        )

    def bounded(self, v: Value) -> Value:
        return v if v.bound <= MOST // 2 else self.small(v)

    def expression(self, depth: int, axes: Axes, own: Tensor | None = None) -> Value:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return self.leaf(axes, own)
        a = self.expression(depth - 1, axes, own)
        kind = rng.choice(("+", "-", "*", "max", "min", "abs", "choice", "choice"))
        if kind == "abs":
            return Value(f"abs({a.text})", lambda env: np.abs(a.of(env)), a.bound, a.element)
        b = self.expression(depth - 1, axes, own)
        if kind == "choice":
            return self.choice(a, b, axes, own)
        return self.combined(kind, a, b)

    def combined(self, kind: str, a: Value, b: Value) -> Value:
        element = a.element or b.element
        if kind in ("max", "min"):
            pick, bound = COMBINE[kind], max(a.bound, b.bound)
            return Value(
                f"{kind}({a.text}, {b.text})", lambda env: pick(a.of(env), b.of(env)), bound, element
            )
        if kind == "*":
            if a.bound * b.bound > MOST:
                a, b = self.small(a), self.small(b)
            x, y = a, b
            return Value(
                f"{x.text} * {y.text}", lambda env: x.of(env) * y.of(env), x.bound * y.bound, element
            )
        a, b = self.bounded(a), self.bounded(b)
        if kind == "+":
            return add(a, b)
        return Value(f"({a.text} - {b.text})", lambda env: a.of(env) - b.of(env), a.bound + b.bound, element)

    def choice(self, a: Value, b: Value, axes: Axes, own: Tensor | None) -> Value:
        rng = self.rng
        variables = [*axes, *(["t"] if self.pad != MARGIN else [])]
        kind = rng.choice(("data", "parity", "half", "order"))
        if kind == "parity" and variables:
            var = rng.choice(variables)
            text, holds = f"{var} % 2 == 0", lambda env: env[var] % 2 == 0
        elif kind == "half" and axes:
            var = rng.choice(list(axes))
            size = axes[var]
            text, holds = f"{var} < {size}/2", lambda env: env[var] < self.extent(size) // 2
        elif kind == "order" and len(variables) > 1:
            one, two = rng.sample(variables, 2)
            text, holds = f"{one} <= {two}", lambda env: env[one] <= env[two]
        else:
            c, d = self.leaf(axes, own), self.leaf(axes, own)
            text, holds = f"{c.text} > {d.text}", lambda env: c.of(env) > d.of(env)
        return Value(
            f"({text} ? {a.text} : {b.text})",
            lambda env: np.where(holds(env), a.of(env), b.of(env)),
            max(a.bound, b.bound),
            a.element or b.element,
        )

    def leaf(self, axes: Axes, own: Tensor | None = None) -> Value:
        rng = self.rng
        kind = rng.random()
        if kind < 0.08:
            number = rng.randint(0, 5)
            return Value(str(number), lambda env: number, number, False)
        if kind < 0.14 and axes:
            var = rng.choice(list(axes))
            return Value(var, lambda env: env[var], self.extent(axes[var]), False)
        if own is not None and kind < 0.45:
            names = list(axes)
            text = f"{own.name}({', '.join(names)})"
            return Value(text, lambda env: env[own.name][tuple(env[v] for v in names)], SMALL, True)
        return self.read(rng.choice(self.visible), axes)

    def read(self, x: Tensor, axes: Axes) -> Value:
        """An element of a tensor, at subscripts of any kind."""
        self.read_names.add(x.name)
        subs = [self.subscript(d, axes) for d in x.dims]
        modes = ["none"] * bool(x.at) + [s.mode for s in subs]
        brackets = "" if set(modes) == {"none"} else f"[{', '.join(modes)}]"
        if len(set(modes)) == 1 and brackets and self.rng.random() < 0.5:
            brackets = f"[{modes[0]}]"
        texts = ([x.at] if x.at else []) + [s.text for s in subs]
        text = f"{x.name}{brackets}({', '.join(texts)})"
        guards = [s.guard for s in subs if s.guard]
        if guards:
            text = f"({' && '.join(guards)} ? {text} : 3)"

        def of(env: Env) -> Any:
            tensor = env[x.name][self.row(x.at, env)] if x.at else env[x.name]
            places: list[Any] = []
            outside: list[tuple[Any, int]] = []
            for s, n in zip(subs, tensor.shape, strict=True):
                at = np.asarray(s.of(env))
                beyond = (at < 0) | (at >= n)
                if s.guard:
                    outside.insert(0, (beyond, 3))
                elif s.mode == "zero" or s.mode.startswith("fill"):
                    outside.append((beyond, int(s.mode.partition("=")[2] or 0)))
                elif s.mode != "none":
                    at = padded(s.mode, n, at)
                places.append(np.clip(at, 0, n - 1) if s.guard or s.mode != "none" else at)
            found = tensor[tuple(places)]
            for beyond, value in reversed(outside):  # the first dimension that is left decides
                found = np.where(beyond, value, found)
            return found

        return Value(text, of, max(x.bound, 3), x.element)

    def subscript(self, size: str, axes: Axes) -> Subscript:
        rng = self.rng
        n = self.extent(size)
        same = [v for v, s in axes.items() if s == size]
        if same and rng.random() < 0.5:
            var = rng.choice(same)
            return Subscript(var, lambda env: env[var])
        kinds = ["end", "mode", "mode", "mode", "guard", "clamped"]
        kinds += ["reversed", "half"] if same else []
        found = [
            t for t, s in self.indices if s == size and not t.at and all(d in axes.values() for d in t.dims)
        ]
        kinds += ["gather", "gather"] if found else []
        kind = rng.choice(kinds)
        if kind == "reversed":
            var = rng.choice(same)
            return Subscript(f"{size}-1-{var}", lambda env: n - 1 - env[var])
        if kind == "half":
            var = rng.choice(same)
            return Subscript(f"{var}/2", lambda env: env[var] // 2)
        if kind == "gather":
            t = rng.choice(found)
            names = [rng.choice([v for v, s in axes.items() if s == d]) for d in t.dims]
            self.read_names.add(t.name)
            return Subscript(
                f"{t.name}({', '.join(names)})", lambda env: env[t.name][tuple(env[v] for v in names)]
            )
        if kind == "end" or not axes:
            if rng.random() < 0.5:
                return Subscript("0", lambda env: 0)
            return Subscript(f"{size}-1", lambda env: n - 1)
        var, offset = rng.choice(list(axes)), rng.choice((-3, -2, -1, -1, 0, 1, 1, 2, 3))
        factor = rng.choice((1, 1, 1, 1, 2, -1))
        other = rng.choice([v for v in axes if v != var] or [""]) if rng.random() < 0.3 else ""
        text = {1: var, 2: f"2*{var}", -1: f"-{var}"}[factor] + (f"+{other}" if other else "")
        text += f"{offset:+d}" if offset else ""

        def of(env: Env) -> Any:
            return factor * env[var] + (env[other] if other else 0) + offset

        if kind == "clamped":
            return Subscript(f"max(min({text}, {size}-1), 0)", lambda env: np.clip(of(env), 0, n - 1))
        if kind == "guard":
            return Subscript(text, of, guard=f"{text} >= 0 && {text} < {size}")
        return Subscript(text, of, rng.choice(MODES))


def add(a: Value, b: Value) -> Value:
    text = f"({a.text} + {b.text})"
    return Value(text, lambda env: a.of(env) + b.of(env), a.bound + b.bound, a.element or b.element)
