"""Programs that must compute the same as another one: metamorphic relations.

Each relation makes a program of a tree, or nothing where it does not apply: other names, operands the other
way round, `op=!` against a first value and `op=`, and a reduction over a range against reductions over its
parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.differential import Disagreement, Wanted, compare
from fuzz.strategies import Program
from fuzz.tree import (
    Access,
    Binary,
    Call,
    Def,
    Exp,
    Index,
    Invocation,
    Let,
    Local,
    Number,
    Scalar,
    Size,
    Statement,
    Tree,
    Within,
    children,
    dumps,
    loads,
    rebuilt,
    walk,
)

Relation = Callable[[Tree], Tree | None]


def _mapped(s: Statement, f: Callable[[Exp], Exp]) -> Statement:
    """A statement with a function of all its expressions."""
    clauses = tuple(
        replace(c, low=f(c.low), high=f(c.high)) if isinstance(c, Within) else replace(c, value=f(c.value))
        for c in s.clauses
    )
    return replace(s, value=f(s.value), clauses=clauses)


def _everywhere(tree: Tree, f: Callable[[Exp], Exp]) -> Tree:
    def all_of(e: Exp) -> Exp:
        return f(rebuilt(e, tuple(all_of(c) for c in children(e))))

    def of(d: Def) -> Def:
        return replace(d, body=tuple(s if isinstance(s, Invocation) else _mapped(s, all_of) for s in d.body))

    return Tree(tuple(map(of, tree.defs)))


def commuted(tree: Tree) -> Tree | None:
    """Operands of what commutes, the other way round."""

    def f(e: Exp) -> Exp:
        if isinstance(e, Binary) and e.op in ("+", "*", "==", "!=", "&&", "||"):
            return replace(e, a=e.b, b=e.a)
        if isinstance(e, Call) and e.name in ("min", "max", "fmin", "fmax"):
            return replace(e, args=e.args[::-1])
        return e

    out = _everywhere(tree, f)
    return out if out != tree else None


def renamed(tree: Tree) -> Tree | None:
    """Other names, in another alphabetical order; those of parameters stay, which the caller passes."""
    kept = {p.name for d in tree.defs for p in d.params} | {
        n for p in tree.entry.params for n in p.dims or ()
    }

    def name(n: str) -> str:
        return n if n in kept else f"z{''.join(chr(219 - ord(c)) if c.islower() else c for c in n)}_"

    def f(e: Exp) -> Exp:
        match e:
            case Index() | Local() | Size() | Scalar():
                return replace(e, name=name(e.name))
            case Access():
                return replace(e, tensor=name(e.tensor))
            case _:
                return e

    def of(s: Statement | Invocation) -> Statement | Invocation:
        if isinstance(s, Invocation):
            return replace(
                s, tensors=tuple(map(name, s.tensors)), name=name(s.name), args=tuple(map(name, s.args))
            )
        clauses: list[Any] = []
        for c in s.clauses:
            if isinstance(c, Within):
                c = replace(c, index=name(c.index))
            elif isinstance(c, Let):
                c = replace(c, name=name(c.name))
            clauses.append(c)
        targets = tuple(replace(t, index=name(t.index)) for t in s.targets)
        return replace(s, tensor=name(s.tensor), targets=targets, clauses=tuple(clauses))

    inner = _everywhere(tree, f)
    return Tree(
        tuple(
            replace(d, name=name(d.name), returns=tuple(map(name, d.returns)), body=tuple(map(of, d.body)),
                    params=tuple(replace(p, dims=p.dims and tuple(map(name, p.dims))) for p in d.params))
            for d in inner.defs
        )
    )  # fmt: skip


def _statement(tree: Tree, change: Callable[[Statement, bool], tuple[Statement, ...] | None]) -> Tree | None:
    """The tree with the first statement changed that can be; it is told whether it defines its tensor."""
    for number, d in enumerate(tree.defs):
        known: set[str] = set()
        for i, s in enumerate(d.body):
            if isinstance(s, Invocation):
                known |= set(s.tensors)
                continue
            made = change(s, s.tensor not in known)
            known.add(s.tensor)
            if made is not None:
                changed = replace(d, body=(*d.body[:i], *made, *d.body[i + 1 :]))
                return Tree((*tree.defs[:number], changed, *tree.defs[number + 1 :]))
    return None


def _reads_itself(s: Statement) -> bool:
    return any(isinstance(x, Access) and x.tensor == s.tensor for e in s.values() for x in walk(e))


def spelled_out(tree: Tree) -> Tree | None:
    """`s +=! e` as `s = 0` and `s += e`, the ranges of the first from the second."""

    def change(s: Statement, first: bool) -> tuple[Statement, ...] | None:
        if not first or s.op not in ("+=!", "*=!") or _reads_itself(s):
            return None
        if len(set(s.written)) < len(s.targets):
            return None
        start = Statement(s.tensor, s.targets, "=", Number("0" if s.op == "+=!" else "1"))
        return start, replace(s, op=s.op[:-1])

    return _statement(tree, change)


def split(tree: Tree) -> Tree | None:
    """A reduction over `low:high` as two, over its halves."""

    def change(s: Statement, first: bool) -> tuple[Statement, ...] | None:
        if s.op == "=" or _reads_itself(s):
            return None
        for i, c in enumerate(s.clauses):
            if not isinstance(c, Within) or c.index in s.written:
                continue
            if not isinstance(c.low, Number) or not isinstance(c.high, Number):
                continue
            low, high = int(c.low.text), int(c.high.text)
            if high - low < 2:
                continue
            middle = Number(str((low + high) // 2))
            parts = [
                replace(s, clauses=(*s.clauses[:i], x, *s.clauses[i + 1 :]))
                for x in (replace(c, high=middle), replace(c, low=middle))
            ]
            return parts[0], replace(parts[1], op=s.op.rstrip("!"))
        return None

    return _statement(tree, change)


RELATIONS: Mapping[str, Relation] = {
    "commuted": commuted,
    "renamed": renamed,
    "spelled out": spelled_out,
    "split": split,
}


# What the ranges of the parts allow may be refused of the whole, and the other way round.
_SAME_REFUSAL = ("commuted", "renamed")


def related(p: Program, name: str) -> Program | None:
    """The program of a relation."""
    assert p.tree is not None
    made = RELATIONS[name](loads(p.tree))
    return None if made is None else replace(p, source=str(made), tree=dumps(made))


def _alike(first: str | None, second: str | None) -> bool:
    """Whether two refusals are one: what is wrong for all sizes may only be seen for those of a call."""
    if first is None or second is None or first == second:
        return first == second
    at_a_call = any(x.startswith("TC0601") for x in (first, second))
    return at_a_call and all(x.startswith(("TC0601", "TC03")) for x in (first, second))


def check(p: Program, name: str, backends: Sequence[str], options: Mapping[str, Mapping[str, Any]]) -> bool:
    """Compare a program with the one of a relation, each of which is compared with the evaluator on its own;
    whether there is one.  Raises what `compare` does."""
    other = related(p, name)
    if other is None:
        return False
    one, two = (compare(x, backends, options) for x in (p, other))
    if one.refused or two.refused:
        if name in _SAME_REFUSAL and not _alike(one.refused, two.refused):
            raise Disagreement(f"{one.refused}: {p.source}\n{two.refused}, {name}: {other.source}")
        return True
    for a, b in zip(one.wanted, two.wanted, strict=True):
        if a.error is None or b.error is None:
            continue
        both = Wanted(a.of, a.error + b.error)
        if not both.met(b.of if b.of.dtype.kind in "iub" else b.of.astype(np.float64), p):
            raise Disagreement(f"{a.of}\n{p.source}\n{b.of}, {name}\n{other.source}")
    return True
