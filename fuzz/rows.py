"""Random recurrences along the rows of matrices: sequential loops over columns, whose rows do not depend on
each other.

    python -m fuzz.rows [--count 200] [--seed 0] [--backend NAME …] [--show SEED]

An element is computed from its neighbour in the row, from elements of other matrices in the same row, of
vectors of rows or columns, and of a matrix that is stored the other way round.  Loops go up or down.  In some
programs the sum of a column is subtracted from it.  All
values are whole numbers between -9 and 9, or NaN, in four types, so that an evaluator of its own judges the
results to the bit.  On cpu, programs run with other instruction sets, caches of a few elements, and
sizes that stay dynamic.  The exit code is 1 if anything was found.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tc
from fuzz import by_seeds
from fuzz.isas import available_isas
from fuzz.loops import SMALL, Value

Env = dict[str, Any]  # arrays by name, and the counters `n`, `j`
_TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "int64": np.int64}
_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 40, 71)
_COLUMNS = (3, 4, 5, 8, 9, 10, 11, 17, 18, 19, 26, 33, 35)


@dataclass(frozen=True)
class Rows:
    """A program: its source, its arguments, and what it computes."""

    source: str
    arguments: dict[str, Any]
    results: tuple[str, ...]
    run: Callable[[Env], None]


def rows(seed: int) -> Rows:
    """The program of a seed."""
    return _Maker(random.Random(seed), seed).rows()


class _Maker:
    def __init__(self, rng: random.Random, seed: int) -> None:
        self.rng = rng
        self.type = rng.choice(tuple(_TYPES))
        self.shape = rng.choice(_ROWS), rng.choice(_COLUMNS)
        self.down = rng.random() < 0.3
        self.names = [f"row{k}" for k in range(rng.choice((1, 1, 1, 2, 3)))]
        self.whole = rng.random() < 0.5  # whether all elements are defined before the loop
        self.guarded_start = not self.whole and rng.random() < 0.4  # the loop, by a condition, defines all
        self.numbers = np.random.default_rng(seed)
        self.done: list[str] = []  # what the iteration has computed so far

    def rows(self) -> Rows:
        n, m = self.shape
        columns = range(m - 2, 0, -1) if self.down else range(1, m - 1)
        first = "" if self.whole else (" where j in M-1:M" if self.down else " where j in 0:1")
        before = [f"  {name}(n,j) = x(n,j){first}" for name in self.names if not self.guarded_start]
        body: list[tuple[str, Value]] = []
        for name in self.names:
            body.append((name, self.clamped(self.value(self.rng.randint(1, 3), name))))
            self.done.append(name)
        # Without the first elements the loop must define the last ones, too.
        columns = columns if self.whole else (range(m - 2, -1, -1) if self.down else range(1, m))
        head = {
            (True, True): "M-2:0:-1",
            (True, False): "1:M-1",
            (False, True): "M-2:-1:-1",
            (False, False): "1:M",
        }[self.whole, self.down]
        if self.guarded_start:
            head = "M-1:-1:-1" if self.down else "0:M"
            columns = range(m - 1, -1, -1) if self.down else range(m)
            body = [(name, self.started(v)) for name, v in body]
        lines = [f"    {name}(n,j) = {v.text} where n in 0:N" for name, v in body]
        total = self.names[0] if self.rng.random() < 0.15 else ""  # rows then depend on each other
        if total:
            less = f"max(min({total}(n,j) - z, 9), -9)"
            lines.append(f"    z +=! {total}(n,j)\n    {total}(n,j) = {less} where n in 0:N")
        t = self.type
        params = f"{t}(N,M) x, {t}(N,M) a, {t}(N) c, {t}(M) d, {t}(M,N) e"
        source = "\n".join(
            [
                f"def f({params}) -> ({', '.join(self.names)}) {{",
                *before,
                f"  for j in {head} {{",
                *lines,
                "  }",
                "}",
            ]
        )

        def run(env: Env) -> None:
            for name in self.names:
                env[name] = env["x"].copy()
            for j in columns:
                for row in range(n):
                    env.update(n=row, j=j)
                    for name, v in body:
                        env[name][row, j] = v.of(env)
                if total:
                    column = env[total][:, j]
                    column[:] = np.maximum(np.minimum(column - column.sum(), 9), -9)

        return Rows(source, self.arguments(), tuple(self.names), run)

    def arguments(self) -> dict[str, Any]:
        n, m = self.shape
        shapes = {"x": (n, m), "a": (n, m), "c": (n,), "d": (m,), "e": (m, n)}
        found = {k: self.numbers.integers(-9, 10, s).astype(_TYPES[self.type]) for k, s in shapes.items()}
        if self.type in ("float", "double") and self.rng.random() < 0.3:
            found["a"][self.numbers.random((n, m)) < 0.1] = np.nan
        return found

    def clamped(self, v: Value) -> Value:
        return Value(f"max(min({v.text}, 9), -9)", lambda env: np.maximum(np.minimum(v.of(env), 9), -9))

    def started(self, v: Value) -> Value:
        """The value, but for the first iteration."""
        if self.down:
            last = self.shape[1] - 1
            return Value(
                f"(j < M-1 ? {v.text} : x(n,j))",
                lambda env: v.of(env) if env["j"] < last else env["x"][env["n"], env["j"]],
            )
        return Value(
            f"(j >= 1 ? {v.text} : x(n,j))",
            lambda env: v.of(env) if env["j"] >= 1 else env["x"][env["n"], env["j"]],
        )

    def value(self, depth: int, own: str) -> Value:
        """Of an element of `own`, which its neighbour is part of."""
        rng = self.rng
        a = self.value(depth - 1, own) if depth > 1 else self.neighbour(own)
        b = self.leaf(own)
        kind = rng.choice(("+", "-", "*", "max", "min", "greater", "guard"))
        if kind == "+":
            return Value(f"({a.text} + {b.text})", lambda env: a.of(env) + b.of(env))
        if kind == "-":
            return Value(f"({b.text} - {a.text})", lambda env: b.of(env) - a.of(env))
        if kind == "*":
            return Value(f"(2*{a.text} - {b.text})", lambda env: 2 * a.of(env) - b.of(env))
        if kind == "max":
            return Value(f"max({a.text}, {b.text})", lambda env: np.maximum(a.of(env), b.of(env)))
        if kind == "min":
            return Value(f"min({b.text}, {a.text})", lambda env: np.minimum(a.of(env), b.of(env)))
        if kind == "greater":
            c = self.leaf(own)
            text = f"({b.text} > {c.text} ? {a.text} : {b.text})"
            return Value(text, lambda env: a.of(env) if b.of(env) > c.of(env) else b.of(env))
        far, guard, holds = self.guarded(own)
        text = f"({a.text} + ({guard} ? {far.text} : {b.text}))"
        return Value(text, lambda env: a.of(env) + (far.of(env) if holds(env) else b.of(env)))

    def guarded(self, own: str) -> tuple[Value, str, Callable[[Env], bool]]:
        """An element of the row that need not exist, and the condition under which it does."""
        rng, up = self.rng, self.rng.random() < 0.5
        k = rng.randint(1, 5)
        name = "a"
        if rng.random() < 0.5:  # of what the loop has computed
            name, up, k = own, not self.down, rng.randint(1, 4)
        if up:
            far = Value(f"{name}(n,j-{k})", lambda env: env[name][env["n"], env["j"] - k])
            return far, f"j >= {k}", lambda env: env["j"] >= k
        far = Value(f"{name}(n,j+{k})", lambda env: env[name][env["n"], env["j"] + k])
        return far, f"j < M-{k}", lambda env: env["j"] < env["x"].shape[1] - k

    def neighbour(self, own: str) -> Value:
        back = 1 if self.down else -1
        return Value(f"{own}(n,j{back:+d})", lambda env: env[own][env["n"], env["j"] + back])

    def leaf(self, own: str) -> Value:
        rng, n = self.rng, lambda env: env["n"]
        offset = rng.choice((0, 0, 0, -1, 1 if self.whole else 0))
        if not self.whole and self.down:
            offset = abs(offset)
        at = f"j{offset:+d}" if offset else "j"
        choices = [
            Value(f"x(n,{at})", lambda env: env["x"][n(env), env["j"] + offset]),
            Value(f"x(n,{at})", lambda env: env["x"][n(env), env["j"] + offset]),
            Value(f"a(n,{at})", lambda env: env["a"][n(env), env["j"] + offset]),
            Value("a(n,M-1-j)", lambda env: env["a"][n(env), env["a"].shape[1] - 1 - env["j"]]),
            Value("a(N-1-n,j)", lambda env: env["a"][env["a"].shape[0] - 1 - n(env), env["j"]]),
            Value("c(n)", lambda env: env["c"][n(env)]),
            Value(f"d({at})", lambda env: env["d"][env["j"] + offset]),
            Value(f"e({at},n)", lambda env: env["e"][env["j"] + offset, n(env)]),
        ]
        if self.whole:
            choices.append(Value(f"{own}(n,j)", lambda env: env[own][n(env), env["j"]]))
        for name in self.done:
            choices.append(Value(f"{name}(n,j)", lambda env, name=name: env[name][n(env), env["j"]]))
            choices.append(self.neighbour(name))
        return rng.choice(choices)


def problem(seed: int, backend: str) -> str:
    """What is wrong with the results of the program of a seed; empty if nothing is."""
    made = rows(seed)
    env: Env = dict(made.arguments)
    made.run(env)
    options, dynamic = _options(seed) if backend == "cpu" else ({}, ())
    head = f"seed {seed} on {backend} {options} {dynamic}\n{made.source}\n"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tc.Warning)
            if backend == "interpret":
                found = tc.interpret(made.source, **made.arguments)
            else:
                kernel = tc.compile(made.source, backend, options=options, dynamic=dynamic)
                found = kernel(**made.arguments)
    except tc.Error as e:
        return f"{head}{e}"
    results = found if isinstance(found, tuple) else (found,)
    for name, a in zip(made.results, results, strict=True):
        want = env[name]
        if not np.array_equal(a, want, equal_nan=want.dtype.kind == "f"):
            where = tuple(np.argwhere(~((a == want) | ((a != a) & (want != want))))[0].tolist())
            return f"{head}of {want.shape}, {name}{list(where)} is {a[where]} and not {want[where]}"
    return ""


def _options(seed: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Options, and sizes that stay dynamic."""
    rng = random.Random(seed)
    found: dict[str, Any] = dict(SMALL) if rng.random() < 0.2 else {}
    if rng.random() < 0.35:
        found["isa"] = rng.choice(available_isas())
    return found, rng.choice(((), (), ("N",), ("M",), ("N", "M")))


def main(argv: list[str] | None = None) -> int:
    return by_seeds.main(argv, "rows", __doc__, lambda seed: rows(seed).source, problem, ("cpu",))


if __name__ == "__main__":
    sys.exit(main())
