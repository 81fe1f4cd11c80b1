"""What programs of a run had to do with: pairs of operators, types, forms of access and transforms.

A bug often needs two things to meet.  A pair is covered once a statement with the one and the other has run,
on the cpu backend where one of them is a transform.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import tc
from fuzz.evaluate import settled, type_of
from fuzz.tree import (
    Access,
    Binary,
    Call,
    Cast,
    Choice,
    Condition,
    Exists,
    Exp,
    Index,
    Let,
    Number,
    Scalar,
    Size,
    Statement,
    Tree,
    Unary,
    Within,
    statements,
    walk,
)

CLASSES = ("operator", "type", "access", "transform")
# What the loop nest of the cpu backend shows.
_TRANSFORMS = {
    "parallel": r"parallel for",
    "vector": r"vector for",
    "unrolled": r"unrolled for",
    "transposed pack": r"transposed for",
    "pack": r"\.pack:",
    "accumulators": r"\.partial:",
    "registers": r"registers ",
    "chunks": r"for task",
    "condition split": r"\n\s+else\n",
    "dynamic size": r"\n  sizes ",
}
Feature = tuple[str, str]


def form(e: Exp) -> str:
    """The form of a subscript."""
    indices = {x.name for x in walk(e) if isinstance(x, Index)}
    match e:
        case Index():
            return "i"
        case _ if any(isinstance(x, Access) for x in walk(e)):
            return "by data" if isinstance(e, Access) else "by data, computed"
        case Number() | Size() | Scalar():
            return "constant"
        case Call():
            return "clamped"
        case Binary(op="/" | "%"):
            return f"i {e.op} n"
        case _ if any(isinstance(x, Scalar) for x in walk(e)):
            return "i + scalar"
        case _ if len(indices) > 1:
            return "i + j"
        case Binary(op="*"):
            return "n * i"
        case Binary(op="-", b=Index()):
            return "n - i"
        case _:
            return "i + n"


def features(s: Statement, types: dict[str, str], scalars: dict[str, str]) -> Iterator[Feature]:
    """What a statement has."""
    lets = {c.name: c.value for c in s.clauses if isinstance(c, Let)}
    yield "operator", s.op
    yield "type", types[s.tensor]
    if any(t.offset for t in s.targets):
        yield "access", "shifted target"
    for c in s.clauses:
        match c:
            case Within():
                yield "operator", "v = [a, b[" if c.brackets else "v in a:b"
            case Let():
                yield "operator", "let"
            case Exists():
                yield "operator", "exists"
            case Condition():
                yield "operator", "where condition"
    for value in s.values():
        for e in walk(value):
            match e:
                case Access():
                    yield "type", types[e.tensor]
                    yield from (("access", form(x)) for x in e.subscripts)
                    yield from (("access", f"[{m.partition('=')[0]}]") for m in e.modes if m != "none")
                    if not e.subscripts:
                        yield "access", "scalar tensor"
                    if e.tensor == s.tensor:
                        yield "access", "own"
                case Binary():
                    yield "operator", e.op
                case Unary():
                    yield "operator", f"unary {e.op}"
                case Call():
                    yield "operator", e.name
                case Choice():
                    yield "operator", "?:" if e.lazy else "select"
                case Cast():
                    yield (
                        "operator",
                        f"cast {_family(settled(type_of(e.a, types, scalars, lets)))} to {_family(e.type)}",
                    )
                case Index():
                    yield "operator", "index as value"
                case _:
                    pass


def _family(t: str) -> str:
    return re.sub(r"\d+|64", "", {"half": "half", "bfloat16": "half", "double": "float"}.get(t, t))


def transforms(kernel: tc.Kernel, values: dict[str, int]) -> Iterator[Feature]:
    """What a kernel of the cpu backend did at these sizes."""
    nest = kernel.inspect("loops", **values)
    for name, pattern in _TRANSFORMS.items():
        if re.search(pattern, nest):
            yield "transform", name


def pairs(found: Iterable[Feature]) -> Iterator[str]:
    """All pairs of two classes."""
    for a, b in itertools.combinations(sorted(set(found)), 2):
        if a[0] != b[0]:
            yield f"{a[0]} {a[1]} × {b[0]} {b[1]}"


def covered(tree: Tree, types: dict[str, str], some: Iterable[Feature]) -> Counter[str]:
    """The pairs of a program that ran with these transforms; `types`: of all tensors of its entry."""
    out: Counter[str] = Counter()
    transforms_ = list(some)
    scalars = {p.name: p.type for p in tree.entry.params if p.dims is None}
    own = {id(s) for s in tree.entry.body}
    for s in statements(tree):
        if id(s) in own:
            out.update(pairs([*features(s, types, scalars), *transforms_]))
    return out


def summary(seen: Counter[str]) -> str:
    """How many pairs there are of what occurred, and how many occurred."""
    names: dict[str, set[str]] = {c: set() for c in CLASSES}
    have: Counter[tuple[str, str]] = Counter()
    for pair in seen:
        sides = [x.split(" ", 1) for x in pair.split(" × ")]
        for kind, name in sides:
            names[kind].add(name)
        have[sides[0][0], sides[1][0]] += 1
    lines: list[str] = []
    for a, b in itertools.combinations(sorted(CLASSES), 2):
        possible = len(names[a]) * len(names[b])
        if possible:
            lines.append(f"  {a} × {b}: {have[a, b]} of {possible}")
    return "pairs that met in a statement:\n" + "\n".join(lines)
