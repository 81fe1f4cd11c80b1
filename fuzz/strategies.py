"""Random programs as hypothesis strategies: trees (`fuzz.tree`) that shrink to short ones.

They are well typed and well formed; a part of them is refused for its ranges, which every backend must do
alike.  `fuzz.almost` makes programs that are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from fuzz.evaluate import joined, settled, type_of
from fuzz.memory import LAYOUTS, Layout
from fuzz.numbers import BITS, FLOATS, FUNCTIONS, INTEGERS, TYPES
from fuzz.subscripts import number, subscripts
from fuzz.tree import (
    Access,
    Binary,
    Call,
    Cast,
    Choice,
    Clause,
    Condition,
    Def,
    Exists,
    Exp,
    Index,
    Invocation,
    Let,
    Local,
    Number,
    Param,
    Scalar,
    Size,
    Statement,
    Target,
    Tree,
    Unary,
    Within,
    dumps,
    statements,
    walk,
)
from tc import registry
from tc.options import MAPPED
from tc.pipeline.front import Front

EXTENTS = (3, 1, 2, 4, 5, 7, 8, 9, 16, 17, 33, 0)
_SMALL = (3, 1, 2, 4, 5)  # where many loops are nested
VARIABLES = "ijklmn"
INDEX_LIMIT = 3  # values of the parameter that subscripts
SHIFT = 2  # the scalar that subscripts


@dataclass(frozen=True)
class Program:
    """`data`: small integers, hard values, or floats of all magnitudes with hard ones among them.  `tree`: of
    the source, as `fuzz.tree.dumps` has it; of a program without one, `bound` is one of all magnitudes, and
    its floats have this type."""

    source: str
    sizes: Mapping[str, int]
    data: Literal["small", "hard", "wide"]
    seed: int = 0
    scalars: Mapping[str, complex] = field(default_factory=dict)
    tree: str | None = None
    type: str = "float"
    bound: float = 0.0


@dataclass
class _Scope:
    """What may be read: ranks and types of tensors; `indirect`: X subscripts."""

    type: str
    ranks: dict[str, int]
    types: dict[str, str]
    scalars: dict[str, str]
    sizes: tuple[str, ...] = ()
    indirect: bool = False
    lets: dict[str, Exp] = field(default_factory=dict[str, Exp])
    own: Access | None = None  # what the statement writes, if it may be read

    def type_of(self, e: Exp) -> str:
        return type_of(e, self.types, self.scalars, self.lets)


def chance(draw: st.DrawFn, percent: int) -> bool:
    """True that often; False is the simpler case."""
    return draw(st.integers(0, 99)) >= 100 - percent


MODES = ("zero", "clamp", "reflect", "symmetric", "wrap", "fill=2")


def _modes(rank: int) -> st.SearchStrategy[tuple[str, ...]]:
    each = st.tuples(*[st.sampled_from(("none", *MODES))] * rank)
    return each | st.tuples(st.sampled_from(MODES))


@st.composite
def accesses(draw: st.DrawFn, s: _Scope, pool: str, t: str, containing: str = "") -> Exp:
    """An element of a type; `containing`: a plain one with this index."""
    names = [n for n in s.ranks if not containing or s.ranks[n]]
    right = [n for n in names if s.types[n] == t]
    name = draw(st.sampled_from(right if right and not chance(draw, 8) else names))
    if s.own is not None and name == s.own.tensor and not containing and not chance(draw, 10):
        # Other elements of it are hardly ever to be had.
        return s.own if s.types[name] == t else Cast(t, s.own)
    if containing:
        names = [n for n in names if s.own is None or n != s.own.tensor]
        name = name if name in names else draw(st.sampled_from(names))
        subs: list[Exp] = [Index(containing)] * s.ranks[name]
    else:
        subs = [draw(subscripts(s.scalars, s.indirect, pool)) for _ in range(s.ranks[name])]
    modes: tuple[str, ...] = ()
    if not containing and subs and s.types[name] != "bool" and chance(draw, 8):
        modes = draw(_modes(len(subs)))
    found = Access(name, tuple(subs), modes)
    return found if s.types[name] == t else Cast(t, found)


@st.composite
def conditions(draw: st.DrawFn, s: _Scope, pool: str, depth: int) -> Exp:
    relation = draw(st.sampled_from(["<", ">=", "==", "!=", "<=", ">"]))
    kind = draw(st.integers(0, 6))
    v: Exp = Index(draw(st.sampled_from(pool)))
    if kind < 2:
        return Binary(relation, v, number(draw(st.integers(0, 4))))
    if kind == 2:
        return Binary(relation, v, Index(draw(st.sampled_from(pool))))
    if kind == 3 and depth > 0:
        op = draw(st.sampled_from(["&&", "||", "!"]))
        a, b = draw(conditions(s, pool, 0)), draw(conditions(s, pool, 0))
        return Unary("!", a) if op == "!" else Binary(op, a, b)
    if kind == 4 and s.sizes:
        return Binary(relation, Binary("+", v, number(1)), Size(draw(st.sampled_from(s.sizes))))
    if kind == 6:  # of lanes that take turns
        moved = draw(st.sampled_from(["", "+", "-", "/"]))
        turn = Binary(moved, v, number(draw(st.integers(2, 3)))) if moved else v
        every = Binary("%", turn, number(draw(st.sampled_from([2, 4, 3]))))
        return Binary(draw(st.sampled_from(["==", "!=", "<"])), every, number(draw(st.integers(0, 2))))
    t = s.type
    a, b = draw(expressions(s, pool, t, depth - 1)), draw(expressions(s, pool, t, depth - 1))
    if t == "bool":
        relation = "==" if relation in ("<", ">=", "==") else "!="
    return Binary(relation, a, b)


def _leaf(draw: st.DrawFn, s: _Scope, pool: str, t: str) -> Exp:
    if t != "bool" and chance(draw, 12):
        if t in FLOATS and chance(draw, 40):
            return Number(draw(st.sampled_from(["0.5", "1.5", "2.", "1e0"])))
        return number(draw(st.integers(0, 3)))
    if s.lets and chance(draw, 60):
        name = draw(st.sampled_from(sorted(s.lets)))
        found = s.type_of(Local(name))
        return Local(name) if found in (t, "literal", "wide") else Cast(t, Local(name))
    return draw(accesses(s, pool, t))


@st.composite
def expressions(draw: st.DrawFn, s: _Scope, pool: str, t: str, depth: int = 2) -> Exp:
    """An expression of a type, or of literals that take it."""
    if depth <= 0 or chance(draw, 35):
        return _leaf(draw, s, pool, t)
    a, b = (draw(expressions(s, pool, t, depth - 1)) for _ in range(2))
    if t == "bool":
        kind = draw(st.sampled_from(["&&", "||", "!", "==", "?", "<"]))
        match kind:
            case "?":
                return Choice(draw(conditions(s, pool, 0)), a, b, True)
            case "!":
                return Unary("!", a)
            case "<":
                other = draw(st.sampled_from(sorted(set(s.types.values()) - {"bool"}) or ["int"]))
                x, y = (draw(accesses(s, pool, other)) for _ in range(2))
                return Binary("<", x, y)
            case _:
                return Binary(kind, a, b)
    floating = t in FLOATS
    kinds = ["+", "-", "*"] * 2 + ["min", "max", "?", "select", "abs", "cast", "index", "neg", "mixed"]
    kinds += ["fmin", "fmax", "/", "f"] if floating else ["/", "%"]
    if s.scalars:
        kinds.append("scalar")
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "min" | "max" | "fmin" | "fmax":
            if t in ("half", "bfloat16") and kind[0] == "f":
                return Cast(t, Call(kind, (a, b)))
            return Call(kind, (a, b))
        case "?" | "select":
            return Choice(draw(conditions(s, pool, depth)), a, b, kind == "?")
        case "abs":
            return Call("abs", (a,))
        case "neg":
            return Unary("-", a)
        case "cast":
            through = draw(st.sampled_from(TYPES))
            return Cast(t, Cast(through, a))
        case "index":
            v = Index(draw(st.sampled_from(pool)))
            return Binary("+", a, v if joined(t, "int") == t else Cast(t, v))
        case "scalar":
            name = draw(st.sampled_from(sorted(s.scalars)))
            return Binary("*", a, Scalar(name) if joined(t, s.scalars[name]) == t else Cast(t, Scalar(name)))
        case "mixed":  # with a narrower type
            narrower = [
                u
                for u in TYPES
                if u not in ("bool", t) and not {u, t} <= {"half", "bfloat16"} and joined(t, u) == t
            ]
            if not narrower:
                return Binary("+", a, b)
            return Binary(draw(st.sampled_from("+*")), a, Cast(draw(st.sampled_from(narrower)), b))
        case "f":
            called = Call(draw(st.sampled_from(sorted(FUNCTIONS))), (a,))
            return Cast(t, called) if t in ("half", "bfloat16") else called
        case _:
            return Binary(kind, a, b)


def _ranged(draw: st.DrawFn, s: _Scope, v: str) -> Within:
    low = draw(st.integers(0, 2))
    size = s.sizes and chance(draw, 25)
    high: Exp = Size(draw(st.sampled_from(s.sizes))) if size else number(low + draw(st.integers(1, 4)))
    if s.scalars.get("s") == "int" and chance(draw, 20):
        divides = size and chance(draw, 40)
        high = Binary("/" if divides else "+", high, Scalar("s"))
    return Within(v, number(0 if size else low), high, chance(draw, 50))


@st.composite
def assignments(draw: st.DrawFn, s: _Scope, name: str, rank: int, known: bool) -> Statement:
    """`name` gets a value; afterwards it may be read."""
    names = VARIABLES[: max(4, rank)]
    lhs = "".join(draw(st.permutations(names))[:rank]) if chance(draw, 30) else names[:rank]
    others = [v for v in VARIABLES if v not in lhs]
    pool = (lhs + "".join(others[: draw(st.sampled_from([0, 0, 0, 1, 1, 1, 2, 3, 4]))]))[:6] or "i"
    t = s.types.get(name) if known else None
    wanted = t or (s.type if not chance(draw, 15) else draw(st.sampled_from(sorted(set(s.types.values())))))
    initial = ["+=!", "+=!", "max=!", "min=!", "*=!"]
    continuing = [o[:-1] for o in initial]
    if wanted == "bool":
        pool, op = lhs or "i", "="
        if not lhs:
            return _constant(draw, s, name, known)
    elif len(pool) > rank:
        op = draw(st.sampled_from(initial * 2 + continuing))
    else:
        op = draw(st.sampled_from(["=", "=", "=", "=", *continuing, *initial]))
    clauses: list[Clause] = []
    s.lets = {}
    s.own = Access(name, tuple(Index(v) for v in lhs)) if known else None
    if wanted != "bool" and chance(draw, 15):
        value = draw(expressions(s, pool, wanted, 1))
        clauses.append(Let("x", value))
        s.lets = {"x": value}
    e = draw(expressions(s, pool, wanted))
    if known and op == "=" and rank and chance(draw, 20):
        e = Binary("+", e, Access(name, tuple(Index(v) for v in lhs))) if wanted != "bool" else e
    for v in pool:
        # A plain access gives each index a range.
        if chance(draw, 12):
            clauses.append(_ranged(draw, s, v))
        elif not any(isinstance(x, Index) and x.name == v for x in walk(e)) or chance(draw, 40):
            read = draw(accesses(s, pool, wanted, v))
            e = Binary("||" if wanted == "bool" else "+", e, read)
    nothing = {"+": 0, "*": 1}.get(op[0])  # what a reduction combines where a condition does not hold
    if op != "=" and nothing is not None and wanted != "bool" and chance(draw, 15):
        e = Choice(draw(conditions(s, pool, 1)), e, number(nothing), chance(draw, 80))
    if op != "=" and len(pool) > 1 and chance(draw, 15):
        relation = draw(st.sampled_from(["<=", "<", "!="]))
        clauses.append(Condition(Binary(relation, Index(pool[0]), Index(pool[1]))))
    if chance(draw, 5):
        clauses.append(Exists(draw(accesses(s, pool, wanted, pool[0]))))
    if s.lets and not any(isinstance(x, Local) for x in walk(e)):
        clauses = [c for c in clauses if not isinstance(c, Let)]
    found = s.type_of(e)
    if known and t is not None and found not in (t, "literal", "wide"):
        e = Cast(t, e)
    elif not known:
        wanted = settled(found)
        s.types[name] = "int" if wanted == "bool" and op != "=" else wanted
    s.ranks[name] = rank
    s.lets, s.own = {}, None
    targets = tuple(Target(v, draw(st.integers(1, 2)) if chance(draw, 6) else 0) for v in lhs)
    return Statement(name, targets, op, e, tuple(clauses))


def _constant(draw: st.DrawFn, s: _Scope, name: str, known: bool) -> Statement:
    """A truth value without an index."""
    s.ranks[name], s.types[name] = 0, "bool"
    a, b = (number(draw(st.integers(0, 1))) for _ in range(2))
    return Statement(name, (), "=", Cast("bool", Binary("<", a, b)) if known else Binary("<", a, b))


@st.composite
def bodies(draw: st.DrawFn, s: _Scope, prefix: str, count: int) -> tuple[list[Statement], list[str]]:
    """Statements, and the tensors they define."""
    made: list[Statement] = []
    names: list[str] = []
    for k in range(count):
        again = bool(names) and chance(draw, 35)
        name = draw(st.sampled_from(names)) if again else f"{prefix}{k}"
        rank = s.ranks[name] if again else draw(st.sampled_from([1, 2, 0, 3, 4]))
        made.append(draw(assignments(s, name, rank, again)))
        if name not in names:
            names.append(name)
    return made, names


@st.composite
def programs(draw: st.DrawFn, types: tuple[str, ...] = TYPES, others: tuple[str, ...] = TYPES) -> Program:
    """A program on tensors of one of `types`, some of them of one of `others`."""
    t = draw(st.sampled_from(types))
    second = [u for u in others if {t, u} != {"half", "bfloat16"}]
    other = draw(st.sampled_from(second)) if chance(draw, 30) else t
    inputs = {f"A{k}": draw(st.sampled_from([1, 2, 3])) for k in range(draw(st.integers(1, 3)))}
    own = {n: other if k and chance(draw, 50) else t for k, n in enumerate(inputs)}
    dims = {n: draw(st.lists(st.sampled_from("NMKP"), min_size=r, max_size=r)) for n, r in inputs.items()}
    used = tuple(sorted({d for x in dims.values() for d in x}))
    params = [Param(n, own[n], tuple(dims[n])) for n in inputs]
    s = _Scope(t, dict(inputs), dict(own), {}, used)
    if chance(draw, 25):
        s.indirect = True
        params.append(Param("X", draw(st.sampled_from(["int", "int64", "uint8"])), ("Q",)))
        s.types["X"] = params[-1].type
    if t != "bool" and chance(draw, 20):
        s.scalars["s"] = draw(st.sampled_from(["int", "int", "float", "double"]))
        if s.scalars["s"] != "int" and t not in ("float", "double"):
            s.scalars["s"] = "int"
        params.append(Param("s", s.scalars["s"]))
    body: list[Statement | Invocation] = []
    names: list[str] = []
    defs: list[Def] = []
    if chance(draw, 15):
        called = draw(st.sampled_from(sorted(inputs)))
        inner = _Scope(
            own[called], {"G": inputs[called]}, {"G": own[called]}, {}, tuple("abc"[: inputs[called]])
        )
        statements_, results = draw(bodies(inner, "g", draw(st.integers(1, 2))))
        given = Param("G", own[called], tuple("abc"[: inputs[called]]))
        defs.append(Def("g", (given,), tuple(results), tuple(statements_)))
        outs = [f"C{k}" for k in range(len(results))]
        body.append(Invocation(tuple(outs), "g", (called,)))
        for o, r in zip(outs, results, strict=True):
            s.ranks[o], s.types[o] = inner.ranks[r], inner.types[r]
        names += outs
    made, new = draw(bodies(s, "T", draw(st.integers(1, 5))))
    body += made
    names += new
    # What another statement reads may be a temporary.
    read = {
        x.tensor
        for y in made
        for e in y.values()
        for x in walk(e)
        if isinstance(x, Access) and x.tensor != y.tensor
    }
    hidden = [n for n in names if n in read and chance(draw, 25)]
    returned = [n for n in names if n not in hidden] or names[-1:]
    defs.append(Def("f", tuple(params), tuple(returned), tuple(body)))
    tree = Tree(tuple(defs))
    deepest = max((len(x.indices) for x in statements(tree)), default=0)
    extents = EXTENTS if deepest <= 3 else _SMALL
    # Sizes that have nothing to do with each other are ruled out by most programs.
    usual = draw(st.sampled_from(extents))
    sizes = {n: draw(st.sampled_from(extents)) if chance(draw, 30) else usual for n in "NMKPQ"}
    hard = t != "bool" and chance(draw, 25)
    scalars: dict[str, float] = {}
    if "s" in s.scalars:
        scalars["s"] = SHIFT if s.scalars["s"] == "int" else 1.5
    return Program(
        str(tree), sizes, "hard" if hard else "small", draw(st.integers(0, 1 << 16)), scalars, dumps(tree)
    )


def placements() -> st.SearchStrategy[list[Layout]]:
    """Layouts of the arguments, in turn."""
    return st.lists(st.sampled_from(LAYOUTS), max_size=4)


COUNTS = st.sampled_from([1, 2, 3, 4, 5, 8, 12, 16, 17, 32, 64])
# Caches that make tiles, packs and blocks of small arrays.
MACHINES = ((("l1", 2048), ("l2", 8192), ("l3", 65536)), (("cores", 4),), (("l1", 4096), ("l2", 16384)))
# GPUs on which few blocks, much arithmetic or little traffic are best.
DEVICES = ((("units", 1),), (("dram", 1.5), ("l2", 4096)), (("registers", 4096), ("units", 500)))


# `fast_math` is left out: it has other bounds on errors.
def _block(threads: list[int]) -> tuple[int, ...]:
    """As many dimensions of a block as a GPU has threads for."""
    while math.prod(threads) > 1024:
        threads = threads[:-1]
    return tuple(threads)


_OPTIONS: Mapping[str, st.SearchStrategy[Any]] = {
    "strict": st.booleans(),
    "fusion": st.sampled_from(["max", "preserve3coincident", "min"]),
    "intra_tile_fusion": st.sampled_from(["max", "preserve3coincident", "min"]),
    "tile": st.lists(COUNTS, min_size=1, max_size=3).map(tuple),
    "register_tile": st.lists(COUNTS.filter(lambda n: n <= 17), min_size=1, max_size=3).map(tuple),
    "vector": st.integers(-1, 3),
    "unroll": st.integers(1, 9),
    "unroll_copy_shared": st.booleans(),
    "atomics": st.booleans(),
    "pack": st.booleans(),
    "order": st.permutations(range(4)).flatmap(lambda p: st.integers(1, 4).map(lambda n: tuple(p[:n]))),
    "parallel": st.booleans(),
    "prefetch": st.booleans(),
    "nontemporal": st.booleans(),
    "machine": st.sampled_from(MACHINES),
    "threads": st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 16, 32]), min_size=1, max_size=3).map(_block),
    "blocks": st.lists(COUNTS, min_size=1, max_size=3).map(tuple),
    "use_shared_memory": st.booleans(),
    "use_private_memory": st.booleans(),
    "max_shared_memory": st.sampled_from([16, 200, 1 << 14]),
    "mapping": st.sampled_from([None, None, "identity"]),
    "autoschedule": st.sampled_from([None, None, None, "Mullapudi2016", "Adams2019", "Li2018"]),
}


def options_of(used: AbstractSet[str], isas: tuple[str, ...] = ()) -> st.SearchStrategy[dict[str, Any]]:
    """Valid options of a backend that uses these, most of them left to it."""
    known = {n: s for n, s in _OPTIONS.items() if n in used}
    if "threads" in used and "machine" in used:
        known["machine"] = st.sampled_from(DEVICES)
    if "isa" in used and isas:
        known["isa"] = st.sampled_from(isas)
    return st.fixed_dictionaries({}, optional=known).map(_consistent)


def _consistent(options: dict[str, Any]) -> dict[str, Any]:
    """Without what the identity mapping leaves nothing to do for, which is refused."""
    identity = options.get("mapping") == "identity"
    return {n: v for n, v in options.items() if not (identity and n in MAPPED)}


def all_options(
    backends: Sequence[str], isas: tuple[str, ...]
) -> st.SearchStrategy[dict[str, dict[str, Any]]]:
    """Options of each backend, by what it says that it uses."""
    used = {b: frozenset(getattr(registry.get(b), "options_used", ())) for b in backends}
    return st.fixed_dictionaries({b: options_of(u, isas) for b, u in used.items()})


def fitting(options: Mapping[str, Any], front: Front) -> dict[str, Any]:
    """The options with tiles of as many loops as a statement has, lanes along one and an order of these: more
    are refused."""
    most = front.checked.loops
    cut = {n: options[n][:most] for n in ("tile", "register_tile") if n in options}
    if "order" in options:
        cut["order"] = tuple(n for n in options["order"] if n < most)
    lanes = options.get("vector", 0)
    left = {n: v for n, v in options.items() if n != "vector" or lanes < most}
    return {n: v for n, v in {**left, **cut}.items() if v or n not in cut}


def cpu_options(isas: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return options_of(frozenset(getattr(registry.get("cpu"), "options_used", ())), isas)


__all__ = [
    "BITS",
    "FLOATS",
    "INTEGERS",
    "TYPES",
    "Program",
    "all_options",
    "cpu_options",
    "fitting",
    "options_of",
    "placements",
    "programs",
]
