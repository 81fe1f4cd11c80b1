"""Random programs of complex numbers, right by construction, with an evaluator of their own.

    python -m fuzz.complex_programs --count 200 --seed 0 [--backend cpu …] [--show SEED]

Data are small whole numbers, real and imaginary, of which all results are exact: `tc.interpret` and the
backends must have the evaluator's to the bit.  A program is a text and, for each expression, the NumPy
function that is its meaning; the two share nothing with the compiler.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tc

Array = np.ndarray[Any, Any]
Env = Mapping[str, Array]
LIMIT = 1 << 20  # of parts, so that sums of them are exact in float32


class TooLarge(Exception):
    """A number that float32 might round."""


@dataclass(frozen=True)
class Term:
    """An expression: its text, its meaning on grids of i and j, whether it is complex, what it reads."""

    text: str
    of: Callable[[Env], Array]
    complex: bool


def checked(f: Callable[[Env], Array]) -> Callable[[Env], Array]:
    def of(env: Env) -> Array:
        found = np.asarray(f(env))
        check(found)
        return found

    return of


def check(found: Array) -> None:
    """Raises TooLarge where a part is too large, or no multiple of 1 / LIMIT."""
    for part in (found.real, found.imag):
        if part.size and (np.abs(part).max() > LIMIT or (part * LIMIT % 1).any()):
            raise TooLarge


@dataclass
class Program:
    seed: int
    sizes: dict[str, int]
    arguments: dict[str, Array]
    scalar: complex
    lines: list[str] = field(default_factory=list[str])
    steps: list[Callable[[dict[str, Array]], None]] = field(default_factory=list[Any])
    ranks: dict[str, str] = field(default_factory=dict[str, str])  # the indices of each tensor
    real: set[str] = field(default_factory=set[str])
    given: list[str] = field(default_factory=list[str])

    @property
    def source(self) -> str:
        results = ", ".join(n for n in self.ranks if n.startswith("T"))
        head = "def f(cfloat(N,M) A, cfloat(M,N) B, cfloat(N) x, float(M) w, cfloat s)"
        return f"{head} -> ({results}) {{\n" + "".join(f"  {line}\n" for line in self.lines) + "}\n"

    def expected(self) -> dict[str, Array]:
        tensors = dict(self.arguments)
        for step in self.steps:
            step(tensors)
        return {n: tensors[n] for n in self.ranks if n.startswith("T")}


class Maker:
    """Makes a program from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        n, m = rng.choice([1, 2, 3, 5, 9, 16, 17]), rng.choice([1, 2, 4, 7, 8, 33])
        self.data = np.random.default_rng(seed)

        def whole(*shape: int) -> Array:
            return (self.data.integers(-2, 3, shape) + 1j * self.data.integers(-2, 3, shape)).astype("c8")

        arguments = {
            "A": whole(n, m),
            "B": whole(m, n),
            "x": whole(n),
            "w": self.data.integers(-2, 3, m).astype("f4"),
        }
        scalar = complex(rng.randrange(-1, 2), rng.randrange(-1, 2))
        ranks = {"A": "ij", "B": "ji", "x": "i", "w": "j"}
        self.own = ""  # what the statement in hand writes
        self.p = Program(seed, {"N": n, "M": m}, arguments, scalar, ranks=ranks, real={"w"})

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    # ---- expressions

    def read(self, name: str, names: str, shift: bool = False) -> Term:
        rank = self.p.ranks[name]
        modes = ["wrap", "clamp", "zero"] if rank and shift and name != self.own and self.chance(25) else []
        mode = self.rng.choice(modes) if modes else ""
        subscripts = [f"{v}+1" if mode else v for v in rank]
        text = f"{name}{f'[{mode}]' if mode else ''}({','.join(subscripts)})" if rank else name

        def of(env: Env) -> Array:
            a = env[name]
            if mode:
                how = {"wrap": "wrap", "clamp": "edge", "zero": "constant"}[mode]
                a = np.pad(a, [(0, 1)] * a.ndim, mode=how)[(slice(1, None),) * a.ndim]  # type: ignore[call-overload]
            return spread(a, rank)

        return Term(text, of, name not in self.p.real)

    def leaf(self, names: str) -> Term:
        kind = self.rng.randrange(10)
        if kind == 0:
            v = self.rng.choice(["1j", "2j", "1", "2", "0.5", "-1"])
            return Term(f"({v})", lambda env: np.asarray(complex(v)), v.endswith("j"))
        if kind == 1:
            s = self.p.scalar
            return Term("s", lambda env: np.asarray(s), True)
        readable = [n for n, r in self.p.ranks.items() if set(r) <= set(names)]
        if not readable:
            return Term("(1 + 1j)", lambda env: np.asarray(1 + 1j), True)
        return self.read(self.rng.choice(readable), names, shift=True)

    def condition(self, names: str) -> Term:
        a, b = self.leaf(names), self.leaf(names)
        kind = self.rng.randrange(3)
        if kind == 0:
            op = self.rng.choice(["==", "!="])
            return Term(
                f"{a.text} {op} {b.text}", lambda env: (a.of(env) == b.of(env)) == (op == "=="), False
            )
        if kind == 1 and names:
            v = self.rng.choice(names)
            return Term(f"{v} > 1", lambda env: env[f"#{v}"] > 1, False)
        return Term(f"real({a.text}) > 0", lambda env: a.of(env).real > 0, False)

    def term(self, names: str, depth: int = 3) -> Term:
        if depth == 0 or self.chance(15):
            return self.leaf(names)
        a, b = self.term(names, depth - 1), self.term(names, depth - 1)
        either = a.complex or b.complex
        match self.rng.choice("++--***ncrivs?d"):
            case "+":
                return Term(f"({a.text} + {b.text})", checked(lambda env: a.of(env) + b.of(env)), either)
            case "-":
                return Term(f"({a.text} - {b.text})", checked(lambda env: a.of(env) - b.of(env)), either)
            case "*":
                return Term(f"{a.text} * {b.text}", checked(lambda env: a.of(env) * b.of(env)), either)
            case "n":
                return Term(f"(-{a.text})", lambda env: -a.of(env), a.complex)
            case "c":
                return Term(f"conj({a.text})", lambda env: np.conj(a.of(env)), a.complex)
            case "r":
                return Term(f"real({a.text})", lambda env: a.of(env).real + 0j, False)
            case "i":
                return Term(f"imag({a.text})", lambda env: a.of(env).imag + 0j, False)
            case "v":
                return Term(f"complex64({a.text})", a.of, True)
            case "s":
                c = self.condition(names)
                text = f"select({c.text}, {a.text}, {b.text})"
                return Term(text, lambda env: np.where(c.of(env), a.of(env), b.of(env)), either)
            case "?":
                c = self.condition(names)
                text = f"({c.text} ? {a.text} : {b.text})"
                return Term(text, lambda env: np.where(c.of(env), a.of(env), b.of(env)), either)
            case _:
                v = self.rng.choice(["2", "2j", "(1 + 1j)", "(1 - 1j)"])
                by = complex(v.replace(" ", ""))
                return Term(f"complex64({a.text}) / {v}", lambda env: a.of(env) / by, True)

    # ---- statements

    def statement(self, k: int) -> None:
        p, rng = self.p, self.rng
        again = [n for n in p.ranks if n.startswith("T")]
        name = rng.choice(again) if again and self.chance(40) else f"T{k}"
        known = name in p.ranks
        self.own = name
        rank = p.ranks[name] if known else rng.choice(["", "i", "j", "ij", "ji"])
        op = rng.choice(["=", "=", "+=", "*="] if known else ["=", "+=!", "+=!", "*=!"])
        others = [v for v in "ij" if v not in rank]
        names = rank + ("".join(others) if op != "=" and (not known or self.chance(40)) else "")
        own = {name: p.ranks.pop(name)} if known and set(names) != set(rank) else {}
        value = self.term(names)
        p.ranks |= own
        if not value.complex and (not known or name not in p.real):
            value = Term(f"complex64({value.text})", value.of, True)
        if known and name in p.real and value.complex:
            value = Term(f"real({value.text})", lambda env, v=value: v.of(env).real + 0j, False)
        extents = {"i": "N", "j": "M"}
        where = ", ".join(f"{v} in 0:{extents[v]}" for v in names)
        left = f"{name}({','.join(rank)})" if rank else name
        line = f"{left} {op} {value.text}" + (f" where {where}" if where else "")
        trips = 2 if known and self.chance(25) else 1
        p.lines.append(f"for t in 0:{trips} {{ {line} }}" if trips > 1 else line)
        p.ranks[name] = rank

        def step(tensors: dict[str, Array]) -> None:
            for _ in range(trips):
                tensors[name] = self.run(tensors, value, name, rank, names, op, known)

        p.steps.append(step)

    def run(
        self,
        tensors: Mapping[str, Array],
        value: Term,
        name: str,
        rank: str,
        names: str,
        op: str,
        known: bool,
    ) -> Array:
        n, m = self.p.sizes["N"], self.p.sizes["M"]
        grid = {"#i": np.arange(n)[:, None], "#j": np.arange(m)[None, :]}
        found = np.broadcast_to(value.of({**tensors, **grid}), (n, m)).astype(complex)
        if "i" not in names:
            found = found[:1]
        if "j" not in names:
            found = found[:, :1]
        for axis, v in enumerate("ij"):
            if v in names and v not in rank:
                if op[0] == "+":
                    if np.abs(found.real).sum() + np.abs(found.imag).sum() > LIMIT:
                        raise TooLarge
                    found = found.sum(axis, keepdims=True)
                else:
                    whole = np.maximum(np.abs(found.real) + np.abs(found.imag), 1)
                    if whole.size and np.log2(whole).sum() > 20:
                        raise TooLarge
                    found = found.prod(axis, keepdims=True)
        made = found[tuple(slice(None) if v in rank else 0 for v in "ij")]
        made = made.T if rank == "ji" else made
        if known and op != "=":
            made = tensors[name] + made if op[0] == "+" else tensors[name] * made
        check(made)
        return made


def spread(a: Array, rank: str) -> Array:
    """An array of indices `rank` on the grid of i and j."""
    if rank == "ji":
        return a.T
    return a[:, None] if rank == "i" else a[None, :] if rank == "j" else a


def program(seed: int) -> Program:
    """The program of a seed, whose results float32 holds."""
    for attempt in range(100):
        maker = Maker(seed * 1000 + attempt)
        for k in range(maker.rng.randint(1, 4)):
            maker.statement(k)
        try:
            maker.p.expected()
        except TooLarge:
            continue
        return maker.p
    raise AssertionError(f"no program for the seed {seed}")


def difference(p: Program, backend: str) -> str:
    """What a backend, or "interpret", makes differently; empty if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        arguments = [*p.arguments.values(), p.scalar]
        run = tc.interpret if backend == "interpret" else tc.compile(p.source, backend=backend)
        made: Any = run(*((p.source,) if backend == "interpret" else ()), *arguments)  # type: ignore[operator]
    expected = p.expected()
    several: Sequence[Any] = made if len(expected) > 1 else (made,)
    for (name, right), found in zip(expected.items(), several, strict=True):
        if found.shape != right.shape or not np.array_equal(found, right):
            return f"{name} is\n{found}\nand should be\n{right}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.complex_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", action="append")
    parser.add_argument("--show", type=int)
    args = parser.parse_args(arguments)
    if args.show is not None:
        sys.stdout.write(program(args.show).source)
        return 0
    wrong = 0
    for seed in range(args.seed, args.seed + args.count):
        p = program(seed)
        for backend in args.backend or ["interpret", "reference", "cpu"]:
            try:
                found = difference(p, backend)
            except tc.Error as e:
                found = str(e)
            if found:
                wrong += 1
                sys.stdout.write(f"seed {seed} on {backend}:\n{p.source}{found}\n\n")
    sys.stdout.write(f"{args.count} programs, {wrong} found\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
