"""Random tables: nested sequential loops over rows and columns whose elements depend on others near them, as
in dynamic programming and in the method of Gauss and Seidel, for one table or a batch of them.

    python -m fuzz.tables [--count 200] [--seed 0] [--backend NAME …] [--show SEED]

An element is computed from elements a few rows and columns away, before or behind it in the order of the
loops, from data of its row and column, by sums, extremes and choices that data decide.  An evaluator of its
own judges the results, bit for bit for integers.  The exit code is 1 if anything was found.
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
from fuzz.loops import SMALL, Value

Env = dict[str, Any]  # arrays by name, and the counters `b`, `i`, `j`
_ROWS, _COLUMNS = 2, 3  # how far away elements are read, at most
_TOLERANCE = 1e-12  # of float64: sums of a statement may be rounded once less


@dataclass(frozen=True)
class Table:
    """A program: its source, its arguments, and what it computes."""

    source: str
    arguments: dict[str, Any]
    results: tuple[str, ...]
    run: Callable[[Env], None]


def table(seed: int) -> Table:
    """The program of a seed."""
    return _Maker(random.Random(seed), seed).table()


class _Maker:
    def __init__(self, rng: random.Random, seed: int) -> None:
        self.rng = rng
        self.batch = rng.randint(1, 5) if rng.random() < 0.4 else 0
        self.type = rng.choice(("double", "int"))
        self.shape = (rng.randint(5, 30), rng.randint(7, 60))
        self.names = [f"d{k}" for k in range(rng.randint(1, 3))]
        self.numbers = np.random.default_rng(seed)
        self.later = rng.random() < 0.5  # whether elements are read that the loops overwrite later

    def table(self) -> Table:
        rng, b = self.rng, "b," if self.batch else ""
        outer = "B," if self.batch else ""
        begun = [
            Value(f"x({b}i,j) * {k + 1}", lambda env, k=k: _at(env, "x") * (k + 1))
            for k in range(len(self.names))
        ]
        first = [f"  {n}({b}i,j) = {v.text}" for n, v in zip(self.names, begun, strict=True)]
        body: list[tuple[str, Value]] = []
        lines: list[str] = []
        for n in self.names:
            v = self.value(2, n)
            if rng.random() < 0.3:
                lines.append(f"      s{n} = {v.text}")
                v = Value(f"s{n}", v.of)
            body.append((n, v))
            lines.append(f"      {n}({b}i,j) = {v.text}")
        down, back = rng.random() < 0.3, rng.random() < 0.3
        rows = "for i in N-3:1:-1 {" if down else "for i in 2:N-2 {"
        columns = "for j in M-4:2:-1 {" if back else "for j in 3:M-3 {"
        loops = [rows, columns]
        if self.batch:
            loops.insert(rng.choice((0, 0, 1, 2)), "for b in 0:B {")
        source = "\n".join(
            [
                f"def f({self.type}({outer}N,M) x, int(N) p, int(M) q) -> ({', '.join(self.names)}) {{",
                *first,
                "  " + " ".join(loops),
                *lines,
                "  " + "}" * len(loops),
                "}",
            ]
        )
        n, m = self.shape
        order = (
            range(n - 3, 1, -1) if down else range(2, n - 2),
            range(m - 4, 2, -1) if back else range(3, m - 3),
        )

        def run(env: Env) -> None:
            for name, v in zip(self.names, begun, strict=True):
                env[name] = env["x"] * int(v.text.split("*")[1])
            for b in range(max(1, self.batch)):
                for i in order[0]:
                    for j in order[1]:
                        env.update(b=b, i=i, j=j)
                        for name, v in body:
                            _table(env, name)[i, j] = v.of(env)

        return Table(source, self.arguments(), tuple(self.names), run)

    def arguments(self) -> dict[str, Any]:
        shape = (self.batch, *self.shape) if self.batch else self.shape
        draw = self.numbers
        x = (
            draw.integers(-9, 10, shape).astype(np.int32)
            if self.type == "int"
            else draw.uniform(-1, 1, shape)
        )
        p, q = (draw.integers(0, 3, n).astype(np.int32) for n in self.shape)
        return {"x": x, "p": p, "q": q}

    def value(self, depth: int, own: str) -> Value:
        """Of an element of the table `own`."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            return self.leaf(own)
        a, b = (self.value(depth - 1, own) for _ in range(2))
        kind = rng.choice(("+", "-", "max", "min", "match", "greater"))
        if kind in "+-":
            # Halves, so that floating numbers stay small.
            if self.type == "double":
                text = f"(0.5 * {a.text} {kind} 0.5 * {b.text})"
                return Value(text, lambda env: 0.5 * a.of(env) + (0.5 if kind == "+" else -0.5) * b.of(env))
            return Value(f"({a.text} {kind} {b.text})", lambda env: _sum(a.of(env), b.of(env), kind))
        if kind in ("max", "min"):
            pick = np.maximum if kind == "max" else np.minimum
            return Value(f"{kind}({a.text}, {b.text})", lambda env: pick(a.of(env), b.of(env)))
        if kind == "match":
            text = f"(p(i) == q(j) ? {a.text} : {b.text})"
            return Value(
                text, lambda env: a.of(env) if env["p"][env["i"]] == env["q"][env["j"]] else b.of(env)
            )
        c = self.leaf(own)
        text = f"({a.text} > {c.text} ? {a.text} : {b.text})"
        return Value(text, lambda env: a.of(env) if a.of(env) > c.of(env) else b.of(env))

    def leaf(self, own: str) -> Value:
        rng, b = self.rng, "b," if self.batch else ""
        if rng.random() < 0.15:
            return Value(f"x({b}i,j)", lambda env: _at(env, "x"))
        name = rng.choice([own, own, *self.names])
        rows, columns = rng.randint(-_ROWS, _ROWS if self.later else 0), rng.randint(-_COLUMNS, _COLUMNS)
        if rng.random() < 0.4:
            rows, columns = 0, rng.choice((-1, -1, 1, 0))
        text = f"{name}({b}i{rows:+d},j{columns:+d})".replace("+0", "").replace("-0", "")
        return Value(text, lambda env: _table(env, name)[env["i"] + rows, env["j"] + columns])


def _table(env: Env, name: str) -> Any:
    found = env[name]
    return found[env["b"]] if found.ndim == 3 else found


def _at(env: Env, name: str) -> Any:
    return _table(env, name)[env["i"], env["j"]]


def _sum(a: Any, b: Any, op: str) -> np.int32:
    """A sum or difference that wraps."""
    total = int(a) + int(b) if op == "+" else int(a) - int(b)
    return np.int32((total + (1 << 31)) % (1 << 32) - (1 << 31))


def problem(seed: int, backend: str) -> str:
    """What is wrong with the results of the program of a seed; empty if nothing is."""
    made = table(seed)
    env: Env = dict(made.arguments)
    made.run(env)
    small = SMALL if backend == "cpu" and seed % 2 else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tc.Warning)
            if backend == "interpret":
                found = tc.interpret(made.source, **made.arguments)
            else:
                found = tc.compile(made.source, backend, options=small)(**made.arguments)
    except tc.Error as e:
        return f"seed {seed} on {backend}\n{made.source}\n{e}"
    results = found if isinstance(found, tuple) else (found,)
    for name, a in zip(made.results, results, strict=True):
        want = env[name]
        exact = want.dtype == np.int32
        if not (np.array_equal(a, want) if exact else np.allclose(a, want, rtol=_TOLERANCE, atol=_TOLERANCE)):
            where = np.argwhere(~np.isclose(a, want, rtol=_TOLERANCE, atol=_TOLERANCE))[0].tolist()
            there = f"{name}{where} is {a[tuple(where)]} and not {want[tuple(where)]}"
            sizes = dict(zip("NM", want.shape[-2:], strict=True))
            return f"seed {seed} on {backend}\n{made.source}\nat {sizes}: {there}"
    return ""


def main(argv: list[str] | None = None) -> int:
    return by_seeds.main(argv, "tables", __doc__, lambda seed: table(seed).source, problem, ("cpu",))


if __name__ == "__main__":
    sys.exit(main())
