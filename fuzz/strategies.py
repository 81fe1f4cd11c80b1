"""Random TC programs as hypothesis strategies: they shrink to short ones.

Programs are well typed; a part of them is refused for its ranges, which every backend must do alike.  Along
with each expression goes a bound on the magnitude of everything in it: small integers are exact below the
precision of the type, whatever the order of operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from fuzz.memory import LAYOUTS, Layout

FLOATS = ("float", "double", "half", "bfloat16")
INTEGERS = ("int", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
TYPES = (*FLOATS, *INTEGERS, "bool")
# Up to here all integers are numbers of the type.
EXACT = {"float": 2.0**24, "double": 2.0**53, "half": 2.0**11, "bfloat16": 2.0**8}
EXTENTS = (3, 1, 2, 4, 5, 8, 9, 17)
LARGEST = 20.0  # iterations of a loop
VARIABLES = "ijkl"
INDEX_LIMIT = 3  # values of the parameter that subscripts


@dataclass(frozen=True)
class Program:
    """`data`: small integers or hard values.  `bound`: of the magnitude of all values, if data are small."""

    source: str
    type: str
    sizes: Mapping[str, int]
    data: Literal["small", "hard"]
    bound: float
    seed: int = 0
    scalars: Mapping[str, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        return self.type not in EXACT or self.bound < EXACT[self.type]


@dataclass
class _Scope:
    """What may be read: ranks and bounds of tensors."""

    type: str
    ranks: dict[str, int]
    bounds: dict[str, float]
    indirect: bool = False
    scalar: bool = False
    largest: float = 0.0

    def note(self, bound: float) -> float:
        self.largest = max(self.largest, bound)
        return bound


Exp = tuple[str, float]


def power(x: float, n: float) -> float:
    try:
        return x**n
    except OverflowError:
        return float("inf")


def chance(draw: st.DrawFn, percent: int) -> bool:
    """True that often; False is the simpler case."""
    return draw(st.integers(0, 99)) >= 100 - percent


@st.composite
def subscripts(draw: st.DrawFn, pool: str, indirect: bool) -> str:
    v = draw(st.sampled_from(pool))
    kind = draw(st.sampled_from(["v"] * 9 + ["+", "-", "*", "++", "/", "%", "max", "n-", "X"]))
    n = draw(st.integers(1, 3))
    match kind:
        case "+" | "-":
            return f"{v}{kind}{n}"
        case "*":
            return f"{n + 1}*{v}"
        case "++":
            return f"{v}+{draw(st.sampled_from(pool))}"
        case "/" | "%":
            return f"{v}{kind}{n + 1}"
        case "max":
            return f"max({v}-{n},0)"
        case "n-":
            return f"{n + 5}-{v}"
        case "X" if indirect:
            return f"X({v})"
        case _:
            return v


@st.composite
def accesses(draw: st.DrawFn, s: _Scope, pool: str, containing: str = "") -> Exp:
    """An element of a tensor; `containing`: a plain one with this index."""
    names = [n for n in s.ranks if not containing or s.ranks[n]]
    name = draw(st.sampled_from(names))
    if containing:
        subs = [containing] * s.ranks[name]
    else:
        subs = [draw(subscripts(pool, s.indirect)) for _ in range(s.ranks[name])]
    return (f"{name}({','.join(subs)})" if subs else name), s.bounds[name]


@st.composite
def conditions(draw: st.DrawFn, s: _Scope, pool: str, depth: int) -> str:
    relation = draw(st.sampled_from(["<", ">=", "==", "!="]))
    kind = draw(st.integers(0, 3))
    if kind < 2:
        return f"{draw(st.sampled_from(pool))} {relation} {draw(st.integers(0, 4))}"
    if kind == 2:
        return f"{draw(st.sampled_from(pool))} {relation} {draw(st.sampled_from(pool))}"
    a, b = draw(expressions(s, pool, depth - 1)), draw(expressions(s, pool, depth - 1))
    return f"{a[0]} {relation} {b[0]}"


@st.composite
def expressions(draw: st.DrawFn, s: _Scope, pool: str, depth: int = 2) -> Exp:
    """An expression of the program's type, in parentheses where it needs them."""
    if depth <= 0 or chance(draw, 35):
        if s.type != "bool" and chance(draw, 10):
            n = draw(st.integers(0, 3))
            return str(n), float(n)
        return draw(accesses(s, pool))
    a, x = draw(expressions(s, pool, depth - 1))
    b, y = draw(expressions(s, pool, depth - 1))
    if s.type == "bool":
        kind = draw(st.sampled_from(["&&", "||", "!", "==", "?"]))
        if kind == "?":
            return f"({draw(conditions(s, pool, 0))} ? {a} : {b})", 1.0
        return (f"(!{a})" if kind == "!" else f"({a} {kind} {b})"), 1.0
    floating = s.type in FLOATS
    kinds = ["+", "-", "*", "min", "max", "?", "select", "abs", "cast", "index"]
    kinds += ["fmin", "fmax"] if floating else ["/", "%"]
    if s.scalar:
        kinds.append("scalar")
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "+" | "-":
            return f"({a} {kind} {b})", s.note(x + y)
        case "*":
            return f"({a} * {b})", s.note(x * y)
        case "/" | "%":
            return f"({a} {kind} {b})", max(x, y)
        case "min" | "max" | "fmin" | "fmax":
            return f"{kind}({a}, {b})", max(x, y)
        case "?":
            return f"({draw(conditions(s, pool, depth))} ? {a} : {b})", max(x, y)
        case "select":
            return f"select({draw(conditions(s, pool, depth))}, {a}, {b})", max(x, y)
        case "abs":
            return f"abs({a})", x
        case "cast":
            through = draw(st.sampled_from(["int", "int8", "uint16"]))
            return f"{s.type}({through}({a}) % {through}(5))", s.note(max(x, 5.0))
        case "index":
            return f"({a} + {s.type}({draw(st.sampled_from(pool))}))", s.note(x + LARGEST + 9)
        case _:
            return f"({a} + {s.type}(s))", s.note(x + 2)


OPERATORS = {"bool": ["max=!", "min=!"]}


@st.composite
def statements(draw: st.DrawFn, s: _Scope, name: str, rank: int, known: bool) -> str:
    """`name` gets a value; afterwards it may be read."""
    lhs = "".join(draw(st.permutations(VARIABLES))[:rank]) if chance(draw, 30) else VARIABLES[:rank]
    others = [v for v in VARIABLES if v not in lhs]
    pool = lhs + "".join(others[: draw(st.sampled_from([0, 0, 1, 1, 2]))])
    pool = pool or "i"
    initial = OPERATORS.get(s.type, ["+=!", "max=!", "min=!", "*=!"])
    continuing = [o[:-1] for o in initial]
    if len(pool) > rank:
        op = draw(st.sampled_from(initial * 2 + continuing))
    else:
        op = draw(st.sampled_from(["=", "=", "=", *continuing, *initial]))
    e, bound = draw(expressions(s, pool))
    where: list[str] = []
    if s.type != "bool" and chance(draw, 15):
        x, y = draw(expressions(s, pool, 1))
        where.append(f"x = {x}")
        e, bound = f"{e} - x", s.note(bound + y)
    for v in pool:
        # A plain access gives each index a range.
        if chance(draw, 12):
            low = draw(st.integers(0, 2))
            high = low + draw(st.integers(1, 4))
            where.append(f"{v} in {low}:{high}" if chance(draw, 50) else f"{v} = [{low}, {high}[")
        elif v not in e.replace(name, "") or chance(draw, 40):
            a, y = draw(accesses(s, pool, v))
            if s.type == "bool":
                e = f"({e} || {a})"
            else:
                e, bound = f"{e} + {a}", s.note(bound + y)
    if len(pool) > 1 and chance(draw, 12):
        where.append(f"{pool[0]} {draw(st.sampled_from(['<=', '<', '!=']))} {pool[1]}")
    if chance(draw, 5):
        where.append(f"exists {draw(accesses(s, pool, pool[0]))[0]}")
    old = s.bounds.get(name, 3.0) if known or not op.endswith("!") else 0.0
    iterations = LARGEST ** (len(pool) - rank)
    if op.startswith("+"):
        bound = bound * iterations + old
    elif op.startswith("*"):
        bound = power(max(1.0, bound), iterations) * max(1.0, old)
    else:
        bound = max(bound, old)
    s.note(bound)
    target = name
    if rank:
        shifted = [f"{v}+{draw(st.integers(1, 2))}" if chance(draw, 5) else v for v in lhs]
        target = f"{name}({','.join(shifted)})"
    s.ranks[name], s.bounds[name] = rank, bound
    clauses = f" where {', '.join(where)}" if where else ""
    return f"  {target} {op} {e}{clauses}"


@st.composite
def bodies(draw: st.DrawFn, s: _Scope, prefix: str, count: int) -> tuple[list[str], list[str]]:
    """Statements, and the tensors they define."""
    lines: list[str] = []
    names: list[str] = []
    for k in range(count):
        again = bool(names) and chance(draw, 35)
        name = draw(st.sampled_from(names)) if again else f"{prefix}{k}"
        rank = s.ranks[name] if again else draw(st.sampled_from([1, 2, 0, 3]))
        lines.append(draw(statements(s, name, rank, again)))
        if name not in names:
            names.append(name)
    return lines, names


def start(t: str) -> float:
    """The largest magnitude of small data."""
    return 1.0 if t in ("half", "bfloat16", "bool") else 2.0


@st.composite
def programs(draw: st.DrawFn, types: tuple[str, ...] = TYPES) -> Program:
    t = draw(st.sampled_from(types))
    inputs = {f"A{k}": draw(st.sampled_from([1, 2, 3])) for k in range(draw(st.integers(1, 3)))}
    dims = {n: draw(st.lists(st.sampled_from("NMKP"), min_size=r, max_size=r)) for n, r in inputs.items()}
    s = _Scope(t, dict(inputs), dict.fromkeys(inputs, start(t)))
    s.indirect, s.scalar = chance(draw, 25), t != "bool" and chance(draw, 20)
    params = [f"{t}({','.join(dims[n])}) {n}" for n in inputs]
    if s.indirect:
        params.append(f"{draw(st.sampled_from(['int', 'int64', 'uint8']))}(Q) X")
    if s.scalar:
        params.append("int s")
    s.note(start(t))
    lines: list[str] = []
    names: list[str] = []
    helper = ""
    if chance(draw, 15):
        called = draw(st.sampled_from(sorted(inputs)))
        inner = _Scope(t, {"G": inputs[called]}, {"G": start(t)})
        body, results = draw(bodies(inner, "g", draw(st.integers(1, 2))))
        sizes = ",".join("abc"[: inputs[called]])
        joined = "\n".join(body)
        helper = f"def g({t}({sizes}) G) -> ({', '.join(results)}) {{\n{joined}\n}}\n"
        outs = [f"C{k}" for k in range(len(results))]
        left = f"({', '.join(outs)})" if len(outs) > 1 else outs[0]
        lines.append(f"  {left} = g({called})")
        for o, r in zip(outs, results):
            s.ranks[o], s.bounds[o] = inner.ranks[r], inner.bounds[r]
        s.note(inner.largest)
        names += outs
    made, new = draw(bodies(s, "T", draw(st.integers(1, 4))))
    lines += made
    names += new
    text = "\n".join(lines)
    # What another statement reads may be a temporary.
    used = [n for n in names if text.count(n) > 1]
    hidden = [n for n in used if chance(draw, 25)]
    returned = [n for n in names if n not in hidden] or names[-1:]
    source = f"{helper}def f({', '.join(params)}) -> ({', '.join(returned)}) {{\n{text}\n}}"
    sizes = {n: draw(st.sampled_from(EXTENTS)) for n in "NMKPQ"}
    hard = t != "bool" and chance(draw, 25)
    return Program(
        source,
        t,
        sizes,
        "hard" if hard else "small",
        s.largest,
        draw(st.integers(0, 1 << 16)),
        {"s": 2} if s.scalar else {},
    )


def placements() -> st.SearchStrategy[list[Layout]]:
    """Layouts of the arguments, in turn."""
    return st.lists(st.sampled_from(LAYOUTS), max_size=4)


COUNTS = st.sampled_from([1, 2, 3, 4, 5, 8, 12, 16, 17, 32, 64])


def cpu_options(isas: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Valid options of the cpu backend, most of them left to its model."""
    return st.fixed_dictionaries(
        {},
        optional={
            "isa": st.sampled_from(isas),
            "fusion": st.sampled_from(["max", "preserve3coincident", "min"]),
            "tile": st.lists(COUNTS, min_size=1, max_size=3).map(tuple),
            "register_tile": st.lists(COUNTS.filter(lambda n: n <= 17), min_size=1, max_size=3).map(tuple),
            "vector": st.integers(-1, 3),
            "unroll": st.integers(1, 9),
            "pack": st.booleans(),
            "parallel": st.booleans(),
        },
    )
