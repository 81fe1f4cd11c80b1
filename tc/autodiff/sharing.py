"""Values in which parts that occur several times have names.

A part is named if it is computed whatever the conditions of the value say: the language computes what has a
name before it computes the value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from tc.ir.expr import Call, Cast, Expr, IfThenElse, Variable, children, rebuild, walk, without_sites

_LEAST = 4  # nodes of a part that is worth a name


def shared(e: Expr, fresh: Callable[[str], str]) -> tuple[Expr, list[tuple[str, Expr]]]:
    """A value with names, which `fresh` makes, for parts that occur several times; and these, each of which
    may name the ones before it."""
    e = without_sites(e)
    uses: Counter[Expr] = Counter()
    order: list[Expr] = []
    seen: set[Expr] = set()

    def count(x: Expr) -> None:
        seen.add(x)
        for c in children(x):
            uses[c] += 1
            if c not in seen:
                count(c)
        order.append(x)

    count(e)
    always = set(_computed(e))
    names: dict[Expr, str] = {}
    lets: list[tuple[str, Expr]] = []

    def named(x: Expr) -> Expr:
        return Variable(names[x], x.dtype) if x in names else rebuild(x, named)

    for x in order:
        if uses[x] > 1 and x in always and _is_worth_a_name(x):
            value = rebuild(x, named)
            names[x] = fresh("e")
            lets.append((names[x], value))
    return named(e), lets


def _computed(e: Expr) -> Iterator[Expr]:
    """The parts that are computed whatever conditions say."""
    yield e
    for c in (e.condition,) if isinstance(e, IfThenElse) else children(e):
        yield from _computed(c)


def _is_worth_a_name(e: Expr) -> bool:
    """Whether it is a floating or complex result of some operations on data."""
    if not e.dtype.is_inexact or isinstance(e, Cast) or (isinstance(e, Call) and e.kind != "intrinsic"):
        return False
    parts = list(walk(e))
    return len(parts) >= _LEAST and any(isinstance(x, Call) and x.kind != "intrinsic" for x in parts)
