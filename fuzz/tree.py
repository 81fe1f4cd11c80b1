"""Random programs as trees of our own: what is drawn, printed, evaluated and changed without the compiler.

The compiler sees the text only.  Trees know nothing of its parser, its types or its ranges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Number:
    """A literal as it is written; a float literal has a point or an exponent."""

    text: str

    @property
    def floating(self) -> bool:
        return any(c in self.text for c in ".eE")


@dataclass(frozen=True)
class Index:
    """The value of an index variable."""

    name: str


@dataclass(frozen=True)
class Size:
    name: str


@dataclass(frozen=True)
class Scalar:
    """A scalar parameter."""

    name: str


@dataclass(frozen=True)
class Local:
    """A name that a `where` clause gives to a value."""

    name: str


@dataclass(frozen=True)
class Access:
    """An element of a tensor; `modes`, one for all dimensions or one for each, say what lies outside."""

    tensor: str
    subscripts: tuple[Exp, ...] = ()
    modes: tuple[str, ...] = ()

    def mode(self, d: int) -> str:
        return "none" if not self.modes else self.modes[d if len(self.modes) > 1 else 0]


@dataclass(frozen=True)
class Binary:
    op: str
    a: Exp
    b: Exp


@dataclass(frozen=True)
class Unary:
    op: str
    a: Exp


@dataclass(frozen=True)
class Cast:
    type: str
    a: Exp


@dataclass(frozen=True)
class Call:
    """A built-in function, `select` apart."""

    name: str
    args: tuple[Exp, ...]


@dataclass(frozen=True)
class Choice:
    """`c ? a : b`, of which one is evaluated, or `select(c, a, b)`, where both are."""

    c: Exp
    a: Exp
    b: Exp
    lazy: bool


Exp = Number | Index | Size | Scalar | Local | Access | Binary | Unary | Cast | Call | Choice


@dataclass(frozen=True)
class Within:
    """`v in low:high`, or `v = [low, high[`."""

    index: str
    low: Exp
    high: Exp
    brackets: bool = False


@dataclass(frozen=True)
class Let:
    name: str
    value: Exp


@dataclass(frozen=True)
class Exists:
    value: Exp


@dataclass(frozen=True)
class Condition:
    value: Exp


Clause = Within | Let | Exists | Condition


@dataclass(frozen=True)
class Target:
    """An index of a left-hand side, and what is added to it."""

    index: str
    offset: int = 0


@dataclass(frozen=True)
class Statement:
    tensor: str
    targets: tuple[Target, ...]
    op: str
    value: Exp
    clauses: tuple[Clause, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(t.index for t in self.targets)

    @property
    def indices(self) -> tuple[str, ...]:
        """All index variables: those of the left-hand side, then the others as they occur."""
        found = dict.fromkeys(self.written)
        for c in self.clauses:
            if isinstance(c, Within):
                found[c.index] = None
        for e in self.values():
            found |= dict.fromkeys(x.name for x in walk(e) if isinstance(x, Index))
        return tuple(found)

    def values(self) -> Iterator[Exp]:
        """The right-hand side, and the expressions of clauses but for ranges."""
        yield self.value
        for c in self.clauses:
            if not isinstance(c, Within):
                yield c.value


@dataclass(frozen=True)
class Invocation:
    """`(a, b) = f(x, y)`."""

    tensors: tuple[str, ...]
    name: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Param:
    name: str
    type: str
    dims: tuple[str, ...] | None = None  # None: a scalar


@dataclass(frozen=True)
class Def:
    name: str
    params: tuple[Param, ...]
    returns: tuple[str, ...]
    body: tuple[Statement | Invocation, ...]


@dataclass(frozen=True)
class Tree:
    """Definitions; the last one is called."""

    defs: tuple[Def, ...]

    @property
    def entry(self) -> Def:
        return self.defs[-1]

    def __str__(self) -> str:
        return "\n".join(map(definition, self.defs))


# Structure.


def children(e: Exp) -> tuple[Exp, ...]:
    match e:
        case Access():
            return e.subscripts
        case Binary():
            return e.a, e.b
        case Unary() | Cast():
            return (e.a,)
        case Call():
            return e.args
        case Choice():
            return e.c, e.a, e.b
        case _:
            return ()


def walk(e: Exp) -> Iterator[Exp]:
    """An expression and all in it, from the outside in."""
    yield e
    for c in children(e):
        yield from walk(c)


def rebuilt(e: Exp, parts: tuple[Exp, ...]) -> Exp:
    """The same node of other parts."""
    match e:
        case Access():
            return replace(e, subscripts=parts)
        case Binary():
            return replace(e, a=parts[0], b=parts[1])
        case Unary() | Cast():
            return replace(e, a=parts[0])
        case Call():
            return replace(e, args=parts)
        case Choice():
            return replace(e, c=parts[0], a=parts[1], b=parts[2])
        case _:
            return e


def statements(tree: Tree) -> Iterator[Statement]:
    for d in tree.defs:
        for s in d.body:
            if isinstance(s, Statement):
                yield s


# Text.

_LEVEL = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 3,
    ">": 3,
    "<=": 3,
    ">=": 3,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}


def text(e: Exp, level: int = 0) -> str:
    """An expression with the parentheses that it needs where operators bind more loosely than `level`."""
    match e:
        case Number():
            return f"({e.text})" if e.text.startswith("-") else e.text
        case Index() | Size() | Scalar() | Local():
            return e.name
        case Access():
            modes = f"[{', '.join(e.modes)}]" if e.modes else ""
            return f"{e.tensor}{modes}({_list(e.subscripts)})" if e.subscripts else e.tensor
        case Binary():
            own = _LEVEL[e.op]
            out = f"{text(e.a, own)} {e.op} {text(e.b, own + 1)}"
            return f"({out})" if own < level else out
        case Unary():
            return f"({e.op}{text(e.a, 6)})"
        case Cast():
            return f"{e.type}({text(e.a)})"
        case Call():
            return f"{e.name}({_list(e.args)})"
        case Choice() if e.lazy:
            out = f"{text(e.c, 1)} ? {text(e.a, 1)} : {text(e.b)}"
            return f"({out})" if level else out
        case Choice():
            return f"select({_list((e.c, e.a, e.b))})"


def _list(args: tuple[Exp, ...]) -> str:
    return ", ".join(map(text, args))


def clause(c: Clause) -> str:
    match c:
        case Within(brackets=True):
            return f"{c.index} = [{text(c.low)}, {text(c.high)}["
        case Within():
            return f"{c.index} in {text(c.low)}:{text(c.high)}"
        case Let():
            return f"{c.name} = {text(c.value)}"
        case Exists():
            return f"exists {text(c.value)}"
        case Condition():
            return text(c.value)


def statement(s: Statement | Invocation) -> str:
    if isinstance(s, Invocation):
        left = f"({', '.join(s.tensors)})" if len(s.tensors) > 1 else s.tensors[0]
        return f"{left} = {s.name}({', '.join(s.args)})"
    targets = ",".join(
        t.index + (f" {'+-'[t.offset < 0]} {abs(t.offset)}" if t.offset else "") for t in s.targets
    )
    where = f" where {', '.join(map(clause, s.clauses))}" if s.clauses else ""
    return f"{s.tensor}{f'({targets})' if targets else ''} {s.op} {text(s.value)}{where}"


def definition(d: Def) -> str:
    params = ", ".join(map(_param, d.params))
    # A statement that begins with a parenthesis would continue the one before.
    body = "\n".join(f"  {statement(s)};" for s in d.body)
    return f"def {d.name}({params}) -> ({', '.join(d.returns)}) {{\n{body}\n}}"


def _param(p: Param) -> str:
    return f"{p.type} {p.name}" if p.dims is None else f"{p.type}({','.join(p.dims)}) {p.name}"


# Files.

_KINDS: Mapping[str, type] = {
    k.__name__: k
    for k in (
        *(Number, Index, Size, Scalar, Local, Access, Binary, Unary, Cast, Call, Choice),
        *(Within, Let, Exists, Condition, Target, Statement, Invocation, Param, Def, Tree),
    )
}  # fmt: skip


def dumps(x: Any) -> str:
    """A tree as JSON: a list of the kind and the fields for each node."""

    def plain(x: Any) -> Any:
        if is_dataclass(x):
            return {"is": type(x).__name__} | {f.name: plain(getattr(x, f.name)) for f in fields(x)}
        return [plain(y) for y in x] if isinstance(x, tuple) else x

    return json.dumps(plain(x))


def loads(source: str) -> Any:
    """The inverse of `dumps`.  Raises KeyError, TypeError or ValueError for what is none."""

    def node(x: Any) -> Any:
        if isinstance(x, dict):
            return _KINDS[x["is"]](**{k: node(v) for k, v in x.items() if k != "is"})
        return tuple(node(y) for y in x) if isinstance(x, list) else x

    return node(json.loads(source))
