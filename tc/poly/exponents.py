"""Exponents that are never positive: a value minus the maximum of a set of values that contains it.

Soft-max and the logarithm of a sum of exponentials first subtract the maximum of a row, so that nothing
overflows.  Code for `exp` of such an argument needs neither a test for the upper end nor a second scaling
step.

The argument of `exp(T(...) - M(...))` qualifies if `M` was last written by `M(...) max= T(...)`, if `T` is
not written in between, and if the maximum has compared each pair of elements that the difference is computed
from.  Both may have the same expression of several elements, such as `T(...) * c`, in place of `T(...)`.  In
place of `M` there may be a tensor of `M(...) == -inf ? 0 : M(...)`.

The difference of a number and one that is not smaller never rounds to a positive number; NaN gives NaN, and
infinities give NaN or minus infinity.  If a product and the difference are one operation, the product may be
too large by its rounding error, which changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tc.ir.expr import (
    EQ,
    Call,
    Cast,
    Expr,
    IfThenElse,
    Load,
    Select,
    Sub,
    Variable,
    children,
    constant,
    rebuild,
)
from tc.poly.scop import Access, Scop, Statement
from tc.poly.tiles.builder import loads

if TYPE_CHECKING:
    import islpy as isl

NAME = "exp_nonpositive"  # the new name of a call of `exp`


def nonpositive_exponents(scop: Scop) -> Scop:
    """The program with calls of `exp` renamed where the argument is never positive."""

    def named(s: Statement, e: Expr, access: Callable[[Load], Access]) -> Expr:
        if isinstance(e, Call) and e.kind == "intrinsic" and e.name == "exp":
            (x,) = e.args
            if (
                isinstance(x, Sub)
                and (most := read_of(x.b))
                and _compared(scop, s, x.a, access, access(most))
            ):
                return replace(e, name=NAME)
        return e

    return renamed(scop, named)


def renamed(scop: Scop, change: Callable[[Statement, Expr, Callable[[Load], Access]], Expr]) -> Scop:
    """The program with `change` applied to each expression of a statement, outer ones first; `change` also
    gets the accesses of the statement's loads."""
    bodies = dict(scop.bodies)
    for s in scop.statements:
        bodies[s.stage.name] = _changed(s, bodies[s.stage.name], change)
    return replace(scop, bodies=bodies)


def _changed(
    s: Statement, body: Expr, change: Callable[[Statement, Expr, Callable[[Load], Access]], Expr]
) -> Expr:
    accesses = {id(x): s.reads[i] for i, x in enumerate(loads(body))}

    def visit(e: Expr) -> Expr:
        return rebuild(change(s, e, lambda load: accesses[id(load)]), visit)

    return visit(body)


def read_of(e: Expr) -> Load | None:
    """The read of which a value consists, possibly converted from a narrower type; None for other values."""
    if isinstance(e, Cast) and e.dtype.is_float and isinstance(e.value, Load) and e.value.dtype.is_float:
        e = e.value if e.value.dtype.bits <= e.dtype.bits else e
    return e if isinstance(e, Load) else None


def _compared(scop: Scop, s: Statement, value: Expr, access: Callable[[Load], Access], most: Access) -> bool:
    """Whether an element is the maximum of a set of values that contains a value of `s`."""
    before = [x for x in scop.statements if x.index < s.index]
    last = _last(before, most)
    chosen = None if last is None else _finite(scop, last)
    if last is not None and chosen is not None:
        most = replace(
            most,
            buffer=chosen.buffer,
            map=most.map.apply_range(last.write.map.reverse()).apply_range(chosen.map),
        )
        before = [x for x in before if x.index < last.index]
        last = _last(before, most)
        before = [x for x in scop.statements if x.index < s.index]
    if last is None or last.stage.op != "max" or last.residual or not last.write.must:
        return False
    body = scop.bodies[last.stage.name]
    form = _without_subscripts(value, s)
    if form is None or form != _without_subscripts(body, last):
        return False
    known = {id(x): a for x, a in zip(loads(body), last.reads, strict=False)}
    theirs = [known[id(x)] for x in _outside_loads(body) if isinstance(x, Load)]
    ours = [access(x) for x in _outside_loads(value) if isinstance(x, Load)]
    if not ours or not all(a.must for a in theirs):
        return False
    # `s` has read these elements before it writes them.
    buffers = {a.buffer for a in ours}
    if most.buffer in buffers or any(x.index >= last.index and x.write.buffer in buffers for x in before):
        return False
    return _together(*ours, most).is_subset(_together(*theirs, last.write))


def _last(before: Iterable[Statement], read: Access) -> Statement | None:
    """The statement that has last written the buffer of a read."""
    return max((x for x in before if x.write.buffer == read.buffer), key=lambda x: x.index, default=None)


def _finite(scop: Scop, s: Statement) -> Access | None:
    """The read of M, if a statement is `M == -inf ? 0 : M`: nothing that M has been compared with is above
    this either, and what is not minus infinity has the same difference."""
    body = scop.bodies[s.stage.name]
    if s.stage.op is not None or s.residual or not s.write.must or not s.write.map.is_injective():
        return None
    match body:
        case IfThenElse(condition=EQ(a=Load() as x, b=b), then_value=zero, else_value=Load() as y):
            pass
        case Select(condition=EQ(a=Load() as x, b=b), true_value=zero, false_value=Load() as y):
            pass
        case _:
            return None
    if constant(b) != -math.inf or constant(zero) != 0:
        return None
    known = {id(e): a for e, a in zip(loads(body), s.reads, strict=False)}
    compared, kept = known[id(x)], known[id(y)]
    same = compared.buffer == kept.buffer and compared.map.is_equal(kept.map)
    return compared if same and compared.must else None


def _without_subscripts(e: Expr, s: Statement) -> Expr | None:
    """An expression without the subscripts of its reads; None if it contains variables of its statement
    elsewhere."""
    names = set(s.stage.domain.names)
    if any(isinstance(x, Variable) and x.name in names for x in _outside_loads(e)):
        return None

    def visit(x: Expr) -> Expr:
        if isinstance(x, Cast) and read_of(x) is not None:
            x = x.value
        return replace(x, subscripts=(), checked=(), site=-1) if isinstance(x, Load) else rebuild(x, visit)

    return visit(e)


def _outside_loads(e: Expr) -> Iterator[Expr]:
    yield e
    if not isinstance(e, Load):
        for x in children(e):
            yield from _outside_loads(x)


def _together(*accesses: Access) -> isl.Set:
    """The combinations of elements that instances of a statement touch."""
    first, *others = (a.map for a in accesses)
    for m in others:
        first = first.range_product(m)
    return first.range()
