"""Random programs with sequential loops: their results against an evaluator of their own, and their gradients
and tangents against finite differences.

    python -m fuzz.loops [--count 200] [--seed 0] [--backend NAME …] [--no-gradients] [--show SEED]

A program has a loop over T, up or down, around statements on vectors of N elements: states that are
overwritten (whole or half, or added to), rows of which each iteration writes one, tensors of an iteration,
sums and maxima over another vector, sums over the rows so far, and sometimes a loop over elements; behind
it one whose iterations do not depend on each other.  On the cpu backend every fifth program is compiled for
all sizes, too, with all oracles.  The exit code is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import tc
from fuzz import gradients
from fuzz.strategies import Program
from tc.support.settings import verifying

Array = np.ndarray[Any, Any]
Env = dict[str, Any]  # tensors by name, and the counters `t`, `i`, `j`, `k`
TOLERANCE = 1e-9  # of float64, for results that are about 1
# Caches that hold no state: loops are tiled, and updates wait for the end of blocks of iterations.
SMALL: Mapping[str, Any] = {"machine": {"l1": 64, "l2": 1024, "l3": 64}}


@dataclass(frozen=True)
class Value:
    """An expression: as text, and as what it is for tensors and counters."""

    text: str
    of: Callable[[Env], float]


@dataclass(frozen=True)
class Random:
    """A program: its source, its sizes, and what it computes: `run` defines tensors in an environment."""

    source: str
    sizes: Mapping[str, int]
    results: tuple[str, ...]
    run: Callable[[Env], None]


@dataclass
class Found:
    """What became of programs."""

    ran: int = 0
    right: int = 0  # gradients
    others: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


def program(seed: int) -> Random:
    """The program of a seed."""
    return _Maker(random.Random(seed)).program()


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes = {"T": rng.randint(1, 4), "N": rng.randint(1, 4)}
        self.down = rng.random() < 0.3
        self.lines: list[str] = []
        self.vectors: list[str] = ["v"]  # that may be read, by what is before the element: `h(`, `x(t,`
        self.count = 0

    def program(self) -> Random:
        rng = self.rng
        n_states, n_rows = rng.randint(0, 2), rng.randint(0, 2)
        states = [f"h{k}" for k in range(n_states + (n_states + n_rows == 0))]
        rows = [f"r{k}" for k in range(n_rows)]
        first = "T" if self.down else "0"
        begun = [*states, *(f"{name}@{first}" for name in rows)]
        runs = [self.vector(name, self.expression(1), "") for name in begun]
        self.lines.append("  for t in T-1:-1:-1 {" if self.down else "  for t in 0:T {")
        now, then = ("t+1", "t") if self.down else ("t", "t+1")
        self.vectors += ["x@t", *states, *(f"{name}@{now}" for name in rows)]
        body: list[Callable[[Env], None]] = []
        left = [*states, *rows]
        rng.shuffle(left)
        for name in left:
            body += [self.local() for _ in range(rng.randint(0, 2))]
            if name in rows:
                body.append(self.vector(f"{name}@{then}", self.expression(2), "  "))
                self.vectors.append(f"{name}@{then}")
            else:
                body.append(self.state(name))
        unread = [n for n in (f"l{k + 1}" for k in range(self.count)) if not self.is_read(n)]
        given = bool(unread) or rng.random() < 0.5
        if given:
            value = self.expression(2)
            for name in unread:
                value = _sum(value, _element(name, "i"))
            body.append(self.vector("o@t", value, "  "))
        self.lines.append("  }")
        runs.append(self.loop(body))
        kept = [n for n in left if rng.random() < 0.8] or left[:1]
        results = [*kept, *(["o"] if given else [])]
        if states and rng.random() < 0.4:
            self.vectors = ["v", *states]
            runs.append(self.vector("z", self.expression(2), ""))
            results.append("z")
        results += [n for n in left if n not in results and not self.is_read(n)]
        if rng.random() < 0.3:
            runs.append(self.independent())
            results.append("q")
        head = "def f(double(T,N) x, double(N) v, double(N,N) w) -> (" + ", ".join(results) + ") {"
        shapes = {**dict.fromkeys(rows, ("T+1", "N")), "o": ("T", "N")}

        def run(env: Env) -> None:
            sizes = {"T": self.sizes["T"], "T+1": self.sizes["T"] + 1, "N": self.sizes["N"]}
            for name, shape in shapes.items():
                env[name] = np.zeros([sizes[s] for s in shape])
            for f in runs:
                f(env)

        return Random("\n".join([head, *self.lines, "}"]), self.sizes, tuple(results), run)

    def is_read(self, name: str) -> bool:
        """Whether another statement than those that define it reads a tensor."""
        return any(f"{name}(" in right for line in self.lines for right in self._read_by(line, name))

    def _read_by(self, line: str, name: str) -> Iterator[str]:
        for statement in line.split("{")[-1].split(";"):
            left, _, right = statement.partition("=")
            if not left.strip().startswith(f"{name}("):
                yield right

    def loop(self, body: Sequence[Callable[[Env], None]]) -> Callable[[Env], None]:
        counts = range(self.sizes["T"])

        def run(env: Env) -> None:
            for t in reversed(counts) if self.down else counts:
                env["t"] = t
                for f in body:
                    f(env)

        return run

    def independent(self) -> Callable[[Env], None]:
        """A loop whose iterations do not depend on each other; it has none where there are no rows."""
        order = "T-1:0:-1" if self.rng.random() < 0.5 else "1:T"
        self.lines.append("  q(e,i) = x(e,i)")
        self.lines.append(f"  for e in {order} {{ q(e,i) = 2 * x(e-1,i) + v(i) where i in 0:N }}")

        def run(env: Env) -> None:
            env["q"] = np.concatenate([env["x"][:1], 2 * env["x"][:-1] + env["v"]])

        return run

    # ---- statements

    def fresh(self) -> str:
        self.count += 1
        return f"l{self.count}"

    def vector(
        self, target: str, value: Value, pad: str, half: bool = False, op: str = "="
    ) -> Callable[[Env], None]:
        """`target(i) = value` for all elements, or for the first half of them."""
        where = "i in 0:N/2" if half else "i in 0:N"
        self.lines.append(f"  {pad}{_element(target, 'i').text} {op} {value.text} where {where}")
        n = self.sizes["N"] // 2 if half else self.sizes["N"]

        def run(env: Env) -> None:
            made = [value.of({**env, "i": i}) for i in range(n)]
            for i, e in enumerate(made):
                at = _place(target, env, i)
                tensor = env.setdefault(at[0], np.zeros(self.sizes["N"]))
                tensor[at[1]] = e + (tensor[at[1]] if op == "+=" else 0)

        return run

    def state(self, name: str) -> Callable[[Env], None]:
        kind = self.rng.random()
        if kind < 0.2:
            self.vectors = [v for v in self.vectors if v != name]
            made = self.vector(name, self.expression(1), "  ", op="+=")
            self.vectors.append(name)
            return made
        return self.vector(name, self.expression(2, own=name), "  ", half=kind < 0.45)

    def local(self) -> Callable[[Env], None]:
        kind = self.rng.random()
        if kind < 0.35:
            name = self.fresh()
            made = self.vector(name, self.expression(2), "  ")
        elif kind < 0.65 and (rows := self.rows_before()):
            name = self.fresh()
            made = self.history(name, self.rng.choice(rows))
        elif kind < 0.85:
            name = self.fresh()
            made = self.reduction(name)
        else:
            name = self.fresh()
            made = self.chain(name)
        self.vectors.append(name)
        return made

    def reduction(self, name: str) -> Callable[[Env], None]:
        """A sum, a maximum or a product over another vector."""
        op = self.rng.choice(["+", "+", "max", "*"])
        other = _element(self.rng.choice(self.vectors), "j")
        value = Value(f"w(i,j) * {other.text}", lambda env: env["w"][env["i"], env["j"]] * other.of(env))
        self.lines.append(f"    {name}(i) {op}=! {value.text} where i in 0:N, j in 0:N")
        combine = {"+": np.sum, "max": np.max, "*": np.prod}[op]

        def run(env: Env) -> None:
            n = self.sizes["N"]
            env[name] = np.array(
                [combine([value.of({**env, "i": i, "j": j}) for j in range(n)]) for i in range(n)]
            )

        return run

    def rows_before(self) -> list[str]:
        """The tensors of which each iteration writes a row."""
        now = "t+1" if self.down else "t"
        return [n for n, _, row in (v.partition("@") for v in self.vectors) if n[0] == "r" and row == now]

    def history(self, name: str, rows: str) -> Callable[[Env], None]:
        """A sum over all rows that earlier iterations have written, and the first one."""
        where = "k in t+1:T+1" if self.down else "k in 0:t+1"
        value = f"{rows}(k,i) * x(t,i) / (k + t + 1)"
        self.lines.append(f"    {name}(i) +=! {value} where i in 0:N, {where}")

        def run(env: Env) -> None:
            t, x = env["t"], env["x"]
            places = range(t + 1, len(x) + 1) if self.down else range(t + 1)
            terms = (env[rows][k] * x[t] / (k + t + 1) for k in places)
            env[name] = sum(terms, np.zeros(self.sizes["N"]))

        return run

    def chain(self, name: str) -> Callable[[Env], None]:
        """A recurrence over the elements of a vector, in a loop of its own."""
        a, b = (self.rng.choice(self.vectors) for _ in range(2))
        first, now, before = _element(a, "0"), _element(a, "k"), _element(b, "k-1")
        self.lines += [
            f"    {name}(0) = {first.text}",
            f"    for k in 1:N {{ {name}(k) = tanh({name}(k-1) * {now.text} + {before.text}) }}",
        ]

        def run(env: Env) -> None:
            q = env[name] = np.zeros(self.sizes["N"])
            q[0] = first.of(env)
            for k in range(1, self.sizes["N"]):
                at = {**env, "k": k}
                q[k] = np.tanh(q[k - 1] * now.of(at) + before.of(at))

        return run

    # ---- expressions

    def expression(self, depth: int, own: str | None = None) -> Value:
        """Of the element `i`; a state that is overwritten (`own`) is read there only."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return self.leaf(own)
        kind = rng.choice(["+", "-", "*", "*", "tanh", "sigmoid", "fmax", "t"])
        a = self.expression(depth - 1, own)
        if kind == "tanh":
            return Value(f"tanh({a.text})", lambda env: np.tanh(a.of(env)))
        if kind == "sigmoid":
            return Value(f"sigmoid({a.text})", lambda env: 1 / (1 + np.exp(-a.of(env))))
        if kind == "t" and any("@t" in v for v in self.vectors):
            return Value(f"({a.text}) / (t + 1)", lambda env: a.of(env) / (env["t"] + 1))
        b = self.expression(depth - 1, own)
        if kind == "fmax":
            return Value(f"fmax({a.text}, {b.text})", lambda env: np.fmax(a.of(env), b.of(env)))
        if kind in ("+", "t"):
            return _sum(a, b)
        if kind == "-":
            return Value(f"({a.text} - {b.text})", lambda env: a.of(env) - b.of(env))
        return Value(f"{_factor(a)} * {_factor(b)}", lambda env: a.of(env) * b.of(env))

    def leaf(self, own: str | None) -> Value:
        if self.rng.random() < 0.1:
            number = self.rng.choice([0.5, 2.0, -1.5])
            return Value(f"double({number})", lambda env: number)
        name = self.rng.choice(self.vectors)
        if name != own and self.rng.random() < 0.25:
            return _element(name, "N-1-i")
        return _element(name, "i")


def _sum(a: Value, b: Value) -> Value:
    return Value(f"({a.text} + {b.text})", lambda env: a.of(env) + b.of(env))


def _factor(v: Value) -> str:
    return f"({v.text})" if " / " in v.text or v.text.startswith("-") else v.text


def _element(name: str, at: str) -> Value:
    """The read of an element of `h`, or of the row of `h@row` that is named."""
    tensor, _, row = name.partition("@")

    def of(env: Env) -> float:
        i = {"i": "i", "j": "j", "k": "k"}.get(at)
        n = len(env["v"])
        place = env[i] if i else {"0": 0, "k-1": env.get("k", 0) - 1, "N-1-i": n - 1 - env.get("i", 0)}[at]
        return env[tensor][_row(row, env), place] if row else env[tensor][place]

    return Value(f"{tensor}({row},{at})" if row else f"{tensor}({at})", of)


def _row(row: str, env: Env) -> int:
    return {"0": 0, "T": len(env["x"]), "t": env.get("t", 0), "t+1": env.get("t", 0) + 1}[row]


def _place(name: str, env: Env, i: int) -> tuple[str, Any]:
    tensor, _, row = name.partition("@")
    return (tensor, (_row(row, env), i)) if row else (tensor, i)


def compared(seed: int, backends: Sequence[str], found: Found, differentiate: bool = True) -> None:
    """Run the program of a seed, and note in `found` what came of it."""
    p = program(seed)
    rng = np.random.default_rng(seed)
    t, n = p.sizes["T"], p.sizes["N"]
    given = {"x": gradients.floats(rng, (t, n)), "v": gradients.floats(rng, (n,))}
    given["w"] = gradients.floats(rng, (n, n)) / n
    env: Env = dict(given)
    with np.errstate(all="ignore"):  # exp of large numbers
        p.run(env)
    wanted = [env[name] for name in p.results]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        for backend in backends:
            try:
                small = SMALL if backend == "cpu" and seed % 2 else None
                run: Any = partial(tc.interpret, p.source)
                if backend != "interpret":
                    run = tc.compile(p.source, backend=backend, options=small)
                made = run(**given)
                if backend == "cpu" and seed % 5 == 0:  # the oracles run it for sizes of 0, too
                    with verifying():
                        tc.compile(p.source, backend=backend, dynamic=True)(**given)
            except tc.Error as e:
                found.wrong.append(f"seed {seed} on {backend}\n{p.source}\nat {dict(p.sizes)}\n{e}")
                return
            results = made if isinstance(made, tuple) else (made,)
            for name, a, b in zip(p.results, results, wanted, strict=True):
                if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE):
                    what = f"{name} is {np.asarray(a).tolist()}, wanted {b.tolist()}"
                    found.wrong.append(f"seed {seed} on {backend}\n{p.source}\nat {dict(p.sizes)}\n{what}")
                    return
        found.ran += 1
        if not differentiate:
            return
        on = next((b for b in backends if b != "interpret"), "reference")
        try:
            kind = gradients.check(
                Program(p.source, p.sizes, "small", seed), on, ("first", "split")[seed % 2], strict=True
            )
        except gradients.WrongGradient as e:
            found.wrong.append(f"seed {seed}, gradient on {on}\n{e}")
            return
        found.right += kind == "right"
        if kind != "right":
            found.others[kind] += 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.loops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", action="append", help="default: interpret and reference")
    parser.add_argument("--no-gradients", action="store_true")
    parser.add_argument("--show", type=int)
    chosen = parser.parse_args(argv)
    if chosen.show is not None:
        p = program(chosen.show)
        print(p.source, dict(p.sizes), sep="\n")
        return 0
    found = Found()
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        known = len(found.wrong)
        compared(seed, chosen.backend or ("interpret", "reference"), found, not chosen.no_gradients)
        for text in found.wrong[known:]:
            print(text, flush=True)
    print(
        f"{found.ran} programs ran right, {found.right} gradients right, {len(found.wrong)} finds", end="; "
    )
    print(f"gradients not compared: {dict(found.others)}")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
