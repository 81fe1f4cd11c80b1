"""A generator of random programs on whole numbers, with an evaluator of their own: sequential loops, boundary
modes, guards, scatter, gathers, reductions, prefixes and arg-reductions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fuzz.whole_values import COMBINE, MOST, NEUTRAL, SMALL, Array, Axes, Env, Expressions, Tensor, Value, add

Run = Callable[[Env], None]

_EXTENTS = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33, 40, 64)


@dataclass(frozen=True)
class Whole:
    """A program: its source, its arguments, and what it computes: `run` defines tensors in an environment."""

    source: str
    arguments: dict[str, Array]
    results: tuple[str, ...]
    run: Run


def program(seed: int) -> Whole:
    """The program of a seed."""
    return _Maker(random.Random(seed), seed).program()


def without_iterations(seed: int) -> bool:
    """Whether the loops over T of a program have no iterations."""
    return seed % 8 == 5


_DTYPES = {"int": np.int32, "int64": np.int64, "float": np.float32, "double": np.float64}
_INPUTS: Mapping[str, tuple[str, ...]] = {
    "v": ("N",),
    "c": ("M",),
    "b": ("K",),
    "A": ("M", "N"),
    "x": ("T", "N"),
    "p": ("N",),  # of indices into N, M and K
    "s": ("N",),
    "q": ("N",),
}
_RANGES = {"p": "N", "s": "M", "q": "K"}


class _Maker(Expressions):
    def __init__(self, rng: random.Random, seed: int) -> None:
        n, few = rng.choice(_EXTENTS), rng.choice(_EXTENTS[:9])
        sizes = {"N": n, "M": few, "K": rng.choice(_EXTENTS[:11]), "T": rng.randint(1, 5)}
        if without_iterations(seed):
            sizes["T"] = 0
        super().__init__(rng, sizes)
        self.numbers = np.random.default_rng(seed)
        self.type = rng.choice(tuple(_DTYPES))
        self.down = rng.random() < 0.3
        self.most = rng.choice((1, 2, 2, 3))  # statements beside each other
        self.lines: list[str] = []
        self.visible = [Tensor(n, d, SMALL) for n, d in _INPUTS.items() if n not in (*_RANGES, "x")]
        self.indices = [
            (Tensor(n, _INPUTS[n], self.sizes[size] - 1, element=False), size) for n, size in _RANGES.items()
        ]
        self.count = 0

    # ---- the program

    def program(self) -> Whole:
        rng = self.rng
        runs: list[Run] = []
        for _ in range(rng.randint(1, self.most)):
            runs += self.statement()
        for _ in range(rng.choice((0, 1, 1, 1, self.most - 1))):
            runs.append(self.loop())
            for _ in range(rng.randint(0, self.most - 1)):
                runs += self.statement()
        runs.append(self.sizes_read())
        mine = [t.name for t in self.visible if t.name not in _INPUTS]
        mine += [t.name for t, _ in self.indices if t.name not in _INPUTS]
        mine = list(dict.fromkeys(mine))
        results = tuple(n for n in mine if n not in self.read_names or rng.random() < 0.6)
        body = "\n".join(self.lines)
        used = [n for n in _INPUTS if n in self.read_names]
        params = [f"{'int' if n in _RANGES else self.type}({','.join(_INPUTS[n])}) {n}" for n in used]
        source = f"def f({', '.join(params)}) -> ({', '.join(results)}) {{\n{body}\n}}"
        given = {n: self.argument(n) for n in used}

        def run(env: Env) -> None:
            for f in runs:
                f(env)

        return Whole(source, given, results, run)

    def sizes_read(self) -> Run:
        """A statement that reads an input of each size that no other has."""
        used = {d for n in self.read_names for d in _INPUTS.get(n, ())}
        value = Value("v(i)", lambda env: env["v"][env["i"]], SMALL, True)
        self.read_names.add("v")
        inputs = {"M": Tensor("c", ("M",), SMALL), "K": Tensor("b", ("K",), SMALL)}
        inputs["T"] = Tensor("x", ("T", "N"), SMALL)
        for size, x in inputs.items():
            if size not in used:
                value = add(value, self.read(x, {"i": "N"}))
        last = Tensor(self.fresh("y"), ("N",), value.bound)
        self.write(last, ["i"], "=", value, {"i": "N"})
        self.visible.append(last)

        def run(env: Env) -> None:
            env[last.name] = self.points(value, env, {"i": "N"})

        return run

    def argument(self, name: str) -> Array:
        shape = [self.sizes[d] for d in _INPUTS[name]]
        if name in _RANGES:
            return self.numbers.integers(0, self.sizes[_RANGES[name]], shape).astype(np.int32)
        return self.numbers.integers(-SMALL, SMALL + 1, shape).astype(_DTYPES[self.type])

    def loop(self) -> Run:
        """A loop over T around states, rows of which each iteration writes one, and other tensors."""
        rng = self.rng
        states = [t for t in self.visible if t.name not in _INPUTS and t.element and not t.at]
        states = rng.sample(states, min(len(states), rng.randint(1, 2)))
        runs: list[Run] = []
        rows: list[Tensor] = []
        if rng.random() < 0.5 or not states:
            row = Tensor(self.fresh("r"), ("N",), SMALL, at="T" if self.down else "0")
            runs.append(self.assign(row, {"i": "N"}, first=True))
            rows.append(row)
        self.lines.append(f"{self.pad}for t in T-1:-1:-1 {{" if self.down else f"{self.pad}for t in 0:T {{")
        outside, indices = list(self.visible), list(self.indices)
        now, then = ("t+1", "t") if self.down else ("t", "t+1")
        self.pad += "  "
        bounded = {t.name for t in states}
        self.visible = [
            replace(t, bound=max(t.bound, SMALL)) if t.name in bounded else t for t in self.visible
        ]
        self.visible += [Tensor("x", ("N",), SMALL, at="t"), *(replace(r, at=now) for r in rows)]
        body: list[Run] = []
        left: list[Tensor] = [*states, *rows]
        rng.shuffle(left)
        for x in left:
            for _ in range(rng.randint(0, self.most - 1)):
                body += self.statement()
            if x in rows:
                body.append(self.assign(replace(x, at=then), {"i": "N"}, first=True))
                self.visible.append(replace(x, at=then))
            else:
                body.append(self.update(x))
        known = {t.name for t in outside} | {t.name for t in rows} | {"x"}
        unread = [t for t in self.visible if t.name not in known and t.name not in self.read_names]
        arg = [t for t, _ in self.indices if t.name not in _INPUTS and t.name not in self.read_names]
        arg = [t for t in arg if t not in [o for o, _ in indices]]
        given = Tensor(self.fresh("o"), ("N",), 0, at="t")
        if unread or arg or rng.random() < 0.3:
            body.append(self.collect(given, [*unread, *arg]))
            outside.append(Tensor(given.name, ("T", "N"), SMALL))
        self.pad = self.pad[:-2]
        self.lines.append(f"{self.pad}}}")
        # After the loop, states are as the last iteration left them.
        self.visible = [replace(t, bound=max(t.bound, SMALL)) if t.name in bounded else t for t in outside]
        self.visible += [Tensor(r.name, ("(T+1)", "N"), SMALL) for r in rows]
        self.indices = indices
        counts = range(self.sizes["T"])

        def run(env: Env) -> None:
            for x in rows:
                env.setdefault(x.name, np.zeros((self.sizes["T"] + 1, self.sizes["N"]), np.int64))
            env[given.name] = np.zeros((self.sizes["T"], self.sizes["N"]), np.int64)
            for f in runs:
                f(env)
            for t in reversed(counts) if self.down else counts:
                env["t"] = t
                for f in body:
                    f(env)

        return run

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # ---- statements

    def statement(self) -> list[Run]:
        kinds = ("map", "map", "sum", "sum", "arg", "arg", "scatter", "scatter", "prefix", "pieces", "chain")
        return getattr(self, f"make_{self.rng.choice(kinds)}")()

    def axes(self) -> Axes:
        return self.rng.choice(
            ({"i": "N"}, {"i": "N"}, {"m": "M"}, {"m": "M", "i": "N"}, {"i": "N", "m": "M"})
        )

    def make_map(self) -> list[Run]:
        axes = self.axes()
        x = Tensor(self.fresh("a"), tuple(axes.values()), 0)
        return [self.assign(x, axes)]

    def assign(self, x: Tensor, axes: Axes, first: bool = False) -> Run:
        """`x(i) = value` for all elements, or for a row (`first`: in a loop, or before one)."""
        value = self.typed(self.expression(2, axes), axes)
        if first:
            value = self.small(value)
        self.write(x, list(axes), "=", value, axes)
        if not x.at:
            self.visible.append(replace(x, bound=value.bound))

        def run(env: Env) -> None:
            made = self.points(value, env, axes)
            if x.at:
                env.setdefault(x.name, np.zeros((self.sizes["T"] + 1, self.sizes["N"]), np.int64))
                env[x.name][self.row(x.at, env)] = made
            else:
                env[x.name] = made

        return run

    def collect(self, x: Tensor, unread: Sequence[Tensor]) -> Run:
        """`x(t,i) =` an expression that reads these tensors, too."""
        axes = {"i": "N"}
        value = self.typed(self.expression(1, axes), axes)
        for t in unread:
            value = add(self.bounded(value), self.bounded(self.read(t, axes)))
        value = self.small(value)
        self.write(x, list(axes), "=", value, axes)

        def run(env: Env) -> None:
            env[x.name][env["t"]] = self.points(value, env, axes)

        return run

    def update(self, x: Tensor) -> Run:
        """A state is overwritten, whole or in part, or accumulated into."""
        rng = self.rng
        names = ["u", "i"][-len(x.dims) :]
        axes: Axes = dict(zip(names, x.dims, strict=True))
        where = {v: ("0", s) for v, s in axes.items()}
        ranges = {v: (0, self.extent(s)) for v, s in axes.items()}
        if rng.random() < 0.4:
            var = rng.choice(names)
            size, n = axes[var], self.extent(axes[var])
            where[var], ranges[var] = rng.choice(
                (
                    (("0", f"{size}/2"), (0, n // 2)),
                    ((f"{size}/2", size), (n // 2, n)),
                    (("0", f"({size}+1)/2"), (0, (n + 1) // 2)),
                )
            )
        op = rng.choice(("=", "=", "=", "max=", "min="))
        others = self.visible
        self.visible = [t for t in others if t.name != x.name]
        value = self.typed(self.expression(2, axes, own=x if op == "=" else None), axes)
        self.visible = others
        value = self.small(value)
        clauses = ", ".join(f"{v} in {low}:{high}" for v, (low, high) in where.items())
        self.lines.append(f"{self.pad}{x.name}({', '.join(names)}) {op} {value.text} where {clauses}")

        def run(env: Env) -> None:
            made = self.points(value, env, axes, ranges)
            part = env[x.name][tuple(slice(*r) for r in ranges.values())]
            part[...] = made if op == "=" else COMBINE[op[:3]](part, made)

        return run

    def make_sum(self) -> list[Run]:
        """A reduction along one or two variables, perhaps of a part that conditions cut out."""
        rng = self.rng
        axes = self.axes()
        over: Axes = rng.choice(({"k": "N"}, {"k": "N"}, {"e": "M"}, {"k": "N", "e": "M"}))
        every = {**axes, **over}
        op = rng.choice(("+", "+", "max", "min", "*"))
        value = self.typed(self.expression(2, every), every)
        condition = self.condition(every, over) if rng.random() < 0.4 else None
        count = int(np.prod([self.sizes[s] for s in over.values()]))
        if op == "*":
            value = self.small(value, 1)
        elif op == "+" and value.bound * count > 8 * MOST:
            value = self.small(value)
        x = Tensor(self.fresh("b"), tuple(axes.values()), value.bound * (count if op == "+" else 1))
        self.write(x, list(axes), f"{op}=!", value, every, condition)
        self.visible.append(x)

        def run(env: Env) -> None:
            made = self.points(value, env, every)
            if condition is not None:
                made = np.where(self.points(condition, env, every), made, NEUTRAL[op])
            last = tuple(range(len(axes), len(every)))
            env[x.name] = COMBINE[op].reduce(made, axis=last)

        return [run]

    def condition(self, every: Axes, over: Axes) -> Value:
        """One that holds for the first value of the first variable of a reduction, whatever the others."""
        var = next(iter(over))
        other = self.rng.choice([v for v in every if v not in over])
        if self.rng.random() < 0.3:
            return Value(f"{var} * 2 <= {other} + 1", lambda env: env[var] * 2 <= env[other] + 1, 1, False)
        return Value(f"{var} <= {other}", lambda env: env[var] <= env[other], 1, False)

    def make_prefix(self) -> list[Run]:
        """A sum or an extreme of the elements up to one, or from one on."""
        rng = self.rng
        axes: Axes = rng.choice(({"i": "N"}, {"m": "M", "i": "N"}, {"i": "N", "m": "M"}))
        read: Axes = {v: s for v, s in axes.items() if v != "i"} | {"k": "N"}
        value = self.typed(self.expression(2, read), read)
        op = rng.choice(("+", "+", "max", "min"))
        relation = rng.choice(("<=", "<=", ">=") if op != "+" else ("<=", "<=", "<", ">=", ">"))
        if op == "+" and value.bound * self.sizes["N"] > 8 * MOST:
            value = self.small(value)
        bound = value.bound * (self.sizes["N"] if op == "+" else 1)
        x = Tensor(self.fresh("d"), tuple(axes.values()), bound)
        every = {**axes, "k": "N"}
        inside = {"<=": np.less_equal, "<": np.less, ">=": np.greater_equal, ">": np.greater}[relation]
        condition = Value(f"k {relation} i", lambda env: inside(env["k"], env["i"]), 1, False)
        self.write(x, list(axes), f"{op}=!", value, every, condition)
        self.visible.append(x)

        def run(env: Env) -> None:
            made = self.points(value, env, every)
            kept = np.where(self.points(condition, env, every), made, NEUTRAL[op])
            env[x.name] = COMBINE[op].reduce(kept, axis=-1)

        return [run]

    def make_arg(self) -> list[Run]:
        """The place of the first extreme, and perhaps the extreme itself."""
        rng = self.rng
        axes = self.axes()
        var, size = rng.choice((("k", "N"), ("e", "M")))
        over: Axes = {var: size}
        every = {**axes, **over}
        value = self.typed(self.expression(2, every), every)
        if rng.random() < 0.5:
            value = self.small(value, 3)  # equal ones
        condition = self.condition(every, over) if rng.random() < 0.25 else None
        op = rng.choice(("max", "min"))
        x = Tensor(self.fresh("n"), tuple(axes.values()), self.sizes[size] - 1, element=False)
        self.write(x, list(axes), f"arg{op}=!", value, every, condition)
        both = rng.random() < 0.4
        extreme = Tensor(self.fresh("e"), tuple(axes.values()), value.bound)
        if both:
            self.write(extreme, list(axes), f"{op}=!", value, every, condition)
            self.visible.append(extreme)
        self.indices.append((x, size))
        self.visible.append(x)

        def run(env: Env) -> None:
            made = self.points(value, env, every)
            if condition is not None:
                made = np.where(self.points(condition, env, every), made, NEUTRAL[op])
            env[x.name] = (np.argmax if op == "max" else np.argmin)(made, axis=-1)
            env[extreme.name] = COMBINE[op].reduce(made, axis=-1)

        return [run]

    def make_scatter(self) -> list[Run]:
        """A tensor that is defined, and then updated where data say."""
        rng = self.rng
        index, size = rng.choice([(t, s) for t, s in self.indices if "K" not in t.dims and not t.at])
        own = {"N": "i", "M": "m"}
        axes: dict[str, str] = {own[d]: d for d in index.dims}
        if len(axes) < len(index.dims):
            index, size = self.indices[0]
            axes = {"i": "N"}
        wide = len(axes) == 1 and rng.random() < 0.5
        column = ("w", "M") if rng.random() < 0.5 else ("w", "N")
        first = {"h": size} | ({column[0]: column[1]} if wide else {})
        if wide:
            axes = dict([*axes.items(), column] if rng.random() < 0.7 else [column, *axes.items()])
        x = Tensor(self.fresh("g"), tuple(first.values()), 0)
        start = self.small(self.typed(self.expression(1, first), first))
        self.write(x, list(first), "=", start, first)
        value = self.typed(self.expression(2, axes), axes)
        op = rng.choice(("+", "+", "max", "min"))
        count = int(np.prod([self.sizes[s] for s in axes.values()]))
        if op == "+" and value.bound * count > 4 * MOST:
            value = self.small(value)
        names = [own[d] for d in index.dims]
        place = f"{index.name}({', '.join(names)})"
        self.read_names.add(index.name)
        written = f"{x.name}({place}{', w' if wide else ''})"
        where = ", ".join(f"{v} in 0:{s}" for v, s in axes.items())
        self.lines.append(f"{self.pad}{written} {op}= {value.text} where {where}")
        self.visible.append(replace(x, bound=SMALL + value.bound * (count if op == "+" else 1)))

        def run(env: Env) -> None:
            made = self.points(start, env, first)
            terms = self.points(value, env, axes)
            at = self.grid(env, axes)
            places = [np.broadcast_to(env[index.name][tuple(at[n] for n in names)], terms.shape)]
            if wide:
                places.append(np.broadcast_to(at["w"], terms.shape))
            COMBINE[op].at(made, tuple(places), terms)
            env[x.name] = made

        return [run]

    def make_pieces(self) -> list[Run]:
        """A tensor that two statements define, each a part."""
        rng = self.rng
        axes = self.axes()
        x = Tensor(self.fresh("z"), tuple(axes.values()), 0)
        var = rng.choice(list(axes))
        middle = f"{axes[var]}/2"
        values = [self.typed(self.expression(1, axes), axes) for _ in range(2)]
        for ends, value in zip((("0", middle), (middle, axes[var])), values, strict=True):
            where = ", ".join(
                f"{v} in {ends[0]}:{ends[1]}" if v == var else f"{v} in 0:{s}" for v, s in axes.items()
            )
            self.lines.append(f"{self.pad}{x.name}({', '.join(axes)}) = {value.text} where {where}")
        self.visible.append(replace(x, bound=max(v.bound for v in values)))

        def run(env: Env) -> None:
            halves = [self.points(v, env, axes) for v in values]
            at = self.grid(env, axes)[var]
            env[x.name] = np.where(at < self.sizes[axes[var]] // 2, *halves)

        return [run]

    def make_chain(self) -> list[Run]:
        """A recurrence along N, forwards or backwards, perhaps for each row."""
        rng = self.rng
        rows: Axes = rng.choice(({}, {"m": "M"}))
        x = Tensor(self.fresh("c"), (*rows.values(), "N"), SMALL)
        back = rng.random() < 0.3
        begin, before = ("N-1", "j+1") if back else ("0", "j-1")
        start = self.small(self.typed(self.expression(1, rows), rows))
        inner = {**rows, "j": "N"}
        step = self.expression(2, inner)
        last = Value(
            f"{x.name}({''.join(f'{v}, ' for v in rows)}{before})",
            lambda env: env[x.name][..., env["j"] + (1 if back else -1)][tuple(env[v] for v in rows)],
            SMALL,
            True,
        )
        value = self.small(self.combined(rng.choice(("+", "max", "min", "*", "-")), last, step))
        where = "".join(f" where {v} in 0:{s}" for v, s in rows.items())
        name = f"{x.name}({''.join(f'{v}, ' for v in rows)}"
        self.lines += [
            f"{self.pad}{name}{begin}) = {start.text}{where}",
            f"{self.pad}for j in {'N-2:-1:-1' if back else '1:N'} {{ {name}j) = {value.text}{where} }}",
        ]
        self.visible.append(x)
        n = self.sizes["N"]

        def run(env: Env) -> None:
            shape = [self.sizes[s] for s in rows.values()]
            made = env[x.name] = np.zeros((*shape, n), np.int64)
            made[..., n - 1 if back else 0] = self.points(start, env, rows)
            for j in range(n - 2, -1, -1) if back else range(1, n):
                made[..., j] = self.points(value, {**env, "j": j}, rows)

        return [run]

    def write(
        self,
        x: Tensor,
        names: Sequence[str],
        op: str,
        value: Value,
        axes: Axes,
        condition: Value | None = None,
    ) -> None:
        target = f"{x.name}({', '.join(([x.at] if x.at else []) + list(names))})"
        clauses = [f"{v} in 0:{s}" for v, s in axes.items()]
        clauses += [condition.text] if condition is not None else []
        self.lines.append(f"{self.pad}{target} {op} {value.text} where {', '.join(clauses)}")
