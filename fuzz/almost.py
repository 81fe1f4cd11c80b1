"""Programs that are almost valid: a tree with one thing wrong.

What the error must be is known for most of them; where the change does no harm, the program must run like
any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from fuzz.strategies import Program, programs
from fuzz.tree import (
    Access,
    Binary,
    Cast,
    Condition,
    Def,
    Exp,
    Index,
    Invocation,
    Local,
    Number,
    Statement,
    Target,
    Tree,
    Within,
    children,
    dumps,
    loads,
    rebuilt,
    walk,
)

Change = Callable[[st.DrawFn, Def], Def | None]


@dataclass(frozen=True)
class Almost:
    """`kind` of the fault, and the error codes that it may give; `sound`: it may be none."""

    program: Program
    kind: str
    codes: frozenset[str]
    sound: bool


def _replaced(e: Exp, old: Exp, new: Exp) -> Exp:
    """An expression with one node, by its identity, another."""
    return new if e is old else rebuilt(e, tuple(_replaced(c, old, new) for c in children(e)))


def _one_statement(draw: st.DrawFn, d: Def) -> tuple[int, Statement] | None:
    some = [(i, s) for i, s in enumerate(d.body) if isinstance(s, Statement)]
    return draw(st.sampled_from(some)) if some else None


def _with(d: Def, i: int, *statements: Statement | Invocation) -> Def:
    return replace(d, body=(*d.body[:i], *statements, *d.body[i + 1 :]))


def _in_value(
    draw: st.DrawFn, d: Def, kind: type, change: Callable[[Statement, Exp], Exp | None]
) -> Def | None:
    """One node of a right-hand side changed."""
    found = _one_statement(draw, d)
    if found is None:
        return None
    i, s = found
    nodes = [x for x in walk(s.value) if isinstance(x, kind)]
    if not nodes:
        return None
    node = draw(st.sampled_from(nodes))
    new = change(s, node)
    return None if new is None else _with(d, i, replace(s, value=_replaced(s.value, node, new)))


def _in_access(draw: st.DrawFn, d: Def, change: Callable[[Access], Exp]) -> Def | None:
    """One access with subscripts changed."""

    def f(s: Statement, e: Exp) -> Exp | None:
        return change(e) if isinstance(e, Access) and e.subscripts else None

    return _in_value(draw, d, Access, f)


def _first(e: Access, new: Exp) -> Access:
    return replace(e, subscripts=(new, *e.subscripts[1:]))


def unknown_tensor(draw: st.DrawFn, d: Def) -> Def | None:
    return _in_access(draw, d, lambda e: replace(e, tensor="Z9"))


def rank(draw: st.DrawFn, d: Def) -> Def | None:
    return _in_access(draw, d, lambda e: replace(e, subscripts=(*e.subscripts, Number("0"))))


def far_away(draw: st.DrawFn, d: Def) -> Def | None:
    """Beyond any size of the test, whatever the ranges."""
    return _in_access(draw, d, lambda e: _first(e, Binary("+", e.subscripts[0], Number("1000"))))


def negative(draw: st.DrawFn, d: Def) -> Def | None:
    return _in_access(draw, d, lambda e: _first(e, Binary("-", Number("0"), Number("1"))))


def float_subscript(draw: st.DrawFn, d: Def) -> Def | None:
    return _in_access(draw, d, lambda e: _first(e, Cast("float", e.subscripts[0])))


def huge_factor(draw: st.DrawFn, d: Def) -> Def | None:
    """Range inference must not overflow."""
    factor = draw(st.sampled_from(["2147483647", "4294967295", "1099511627776", "9223372036854775807"]))
    return _in_access(draw, d, lambda e: _first(e, Binary("*", Number(factor), e.subscripts[0])))


def no_cast(draw: st.DrawFn, d: Def) -> Def | None:
    return _in_value(draw, d, Cast, lambda s, e: e.a if isinstance(e, Cast) else None)


def large_literal(draw: st.DrawFn, d: Def) -> Def | None:
    large = ["300", "70000", "4294967296", "9223372036854775808", "99999999999999999999"]
    text = draw(st.sampled_from(large))
    return _in_value(draw, d, Number, lambda s, e: Number(text))


def no_reduction(draw: st.DrawFn, d: Def) -> Def | None:
    """`=` with indices on the right only."""
    found = _one_statement(draw, d)
    if found is None or not set(found[1].indices) - set(found[1].written):
        return None
    return _with(d, found[0], replace(found[1], op="="))


def no_range(draw: st.DrawFn, d: Def) -> Def | None:
    """A statement without its clauses."""
    found = _one_statement(draw, d)
    if found is None or not any(isinstance(c, Within) for c in found[1].clauses):
        return None
    kept = tuple(c for c in found[1].clauses if not isinstance(c, Within))
    return _with(d, found[0], replace(found[1], clauses=kept))


def backwards(draw: st.DrawFn, d: Def) -> Def | None:
    """A range that ends before it begins."""
    found = _one_statement(draw, d)
    if found is None or not found[1].written:
        return None
    s = found[1]
    kept = tuple(c for c in s.clauses if not (isinstance(c, Within) and c.index == s.written[0]))
    return _with(d, found[0], replace(s, clauses=(*kept, Within(s.written[0], Number("3"), Number("1")))))


def to_parameter(draw: st.DrawFn, d: Def) -> Def | None:
    """A parameter is assigned."""
    found = _one_statement(draw, d)
    if found is None:
        return None
    p = draw(st.sampled_from([p for p in d.params if p.dims is not None]))
    assert p.dims is not None
    targets = tuple(Target(v) for v in "ijkl"[: len(p.dims)])
    return _with(
        d,
        found[0],
        found[1],
        Statement(p.name, targets, "=", Access(p.name, tuple(Index(t.index) for t in targets))),
    )


def twice_on_the_left(draw: st.DrawFn, d: Def) -> Def | None:
    found = _one_statement(draw, d)
    if found is None or len(found[1].targets) < 2:
        return None
    first, _, *rest = found[1].targets
    return _with(d, found[0], replace(found[1], targets=(first, first, *rest)))


def another_rank(draw: st.DrawFn, d: Def) -> Def | None:
    """A tensor is written again with one index less."""
    found = _one_statement(draw, d)
    if found is None or not found[1].targets:
        return None
    i, s = found
    less = replace(s, targets=s.targets[1:], op="+=" if s.op == "=" else s.op)
    return _with(d, i, s, less)


def out_of_order(draw: st.DrawFn, d: Def) -> Def | None:
    if len(d.body) < 2:
        return None
    return replace(d, body=d.body[::-1])


def unused(draw: st.DrawFn, d: Def) -> Def | None:
    """A tensor that nobody reads."""
    p = draw(st.sampled_from([p for p in d.params if p.dims]))
    assert p.dims is not None
    s = Statement("lost", (Target("i"),), "=", Access(p.name, (Index("i"),) * len(p.dims)))
    return replace(d, body=(*d.body, s))


def missing_result(draw: st.DrawFn, d: Def) -> Def | None:
    return replace(d, returns=(*d.returns, "nothing"))


def doubled_result(draw: st.DrawFn, d: Def) -> Def | None:
    return replace(d, returns=(*d.returns, d.returns[0]))


def recursive(draw: st.DrawFn, d: Def) -> Def | None:
    p = draw(st.sampled_from([p for p in d.params if p.dims is not None]))
    return replace(
        d, body=(Invocation(("R",), d.name, (p.name,) * len(d.params)), *d.body), returns=(*d.returns, "R")
    )


def index_named_as_a_size(draw: st.DrawFn, d: Def) -> Def | None:
    found = _one_statement(draw, d)
    sizes = [n for p in d.params for n in p.dims or ()]
    if found is None or not found[1].written or not sizes:
        return None
    old, new = found[1].written[0], sizes[0]

    def f(e: Exp) -> Exp:
        e = rebuilt(e, tuple(map(f, children(e))))
        return Index(new) if isinstance(e, Index) and e.name == old else e

    s = found[1]
    targets = tuple(replace(t, index=new) if t.index == old else t for t in s.targets)
    # A size alone would be a point of the tensor.
    named = Within(new, Number("0"), Number("1"))
    return _with(d, found[0], replace(s, targets=targets, value=f(s.value), clauses=(*s.clauses, named)))


def condition_of_data(draw: st.DrawFn, d: Def) -> Def | None:
    """A condition that is not affine."""
    found = _one_statement(draw, d)
    reads = [x for x in walk(found[1].value) if isinstance(x, Access)] if found else []
    if found is None or not reads:
        return None
    c = Condition(Binary("<", reads[0], Number("1")))
    return _with(d, found[0], replace(found[1], clauses=(*found[1].clauses, c)))


def local_of_itself(draw: st.DrawFn, d: Def) -> Def | None:
    """A name of nothing."""
    found = _one_statement(draw, d)
    if found is None:
        return None
    return _with(d, found[0], replace(found[1], value=Binary("+", found[1].value, Local("y"))))


# The codes of the kind of error; those of kinds that are checked before may come first.
_NAMES = frozenset({"TC02"})
KINDS: Mapping[str, tuple[Change, frozenset[str], bool]] = {
    "unknown tensor": (unknown_tensor, _NAMES, False),
    "rank": (rank, _NAMES, False),
    "far away": (far_away, frozenset({"TC02", "TC03", "TC04", "TC06", "TC07"}), True),
    "negative": (negative, frozenset({"TC02", "TC03", "TC04", "TC06", "TC07"}), True),
    "float subscript": (float_subscript, frozenset({"TC02", "TC03", "TC04", "TC06"}), True),
    "no cast": (no_cast, frozenset({"TC02", "TC03", "TC04", "TC06", "TC07"}), True),
    "large literal": (large_literal, frozenset({"TC01", "TC02", "TC03", "TC04", "TC06", "TC07"}), True),
    "huge factor": (huge_factor, frozenset({"TC02", "TC03", "TC04", "TC06", "TC07"}), True),
    "no reduction": (no_reduction, _NAMES, False),
    "no range": (no_range, frozenset({"TC02", "TC03", "TC04", "TC06", "TC07"}), True),
    "backwards": (backwards, frozenset({"TC02", "TC03", "TC04"}), False),
    "to a parameter": (to_parameter, _NAMES, False),
    "twice on the left": (twice_on_the_left, frozenset({"TC02", "TC03", "TC04", "TC06"}), True),
    "another rank": (another_rank, _NAMES, False),
    "out of order": (out_of_order, frozenset({"TC02", "TC03", "TC04", "TC06", "TC07"}), True),
    "unused": (unused, _NAMES, False),
    "missing result": (missing_result, _NAMES, False),
    "doubled result": (doubled_result, _NAMES, False),
    "recursive": (recursive, _NAMES, False),
    "index named as a size": (index_named_as_a_size, _NAMES, False),
    "condition of data": (condition_of_data, frozenset({"TC02", "TC03", "TC04"}), False),
    "unknown local": (local_of_itself, _NAMES, False),
}


@st.composite
def almost_valid(draw: st.DrawFn) -> Almost:
    """Falls back to a program without a fault where the fault does not apply."""
    p = draw(programs())
    kind = draw(st.sampled_from(sorted(KINDS)))
    change, codes, sound = KINDS[kind]
    assert p.tree is not None
    tree: Tree = loads(p.tree)
    made = change(draw, tree.entry)
    if made is None:
        return Almost(p, "none", frozenset({"TC02", "TC03", "TC04", "TC06", "TC07"}), True)
    tree = Tree((*tree.defs[:-1], made))
    return Almost(replace(p, source=str(tree), tree=dumps(tree)), kind, codes, sound)
