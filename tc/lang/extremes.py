"""Arg-reductions, written out: where the extreme is, in reductions that the rest of the compiler knows.

    i(n) argmax=! v(n,k)

becomes, with m for `max` and the same conditions and ranges in all of them,

    value(n,k) = v(n,k)                             unless v is an element as it lies
    m(n) max=! value(n,k)
    i(n) min=! value(n,k) == m(n) || value(n,k) != value(n,k) ? k : the last index

The extreme of values of which one is NaN is NaN, which equals nothing, and then each NaN is a candidate; of
the candidates the first one counts.  A computed value is stored, and no pass may compute it again: rounded
differently it would not be found.

The extreme itself, `e(n) max=! v(n,k)`, is m(n) where it stands beside the arg-reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tc.errors import SemanticError
from tc.lang import resolved as r

OPERATORS = {"argmax=!": "max=!", "argmin=!": "min=!"}


def written_out(st: r.Statement, fresh: Callable[[str], str]) -> list[r.Statement]:
    """The statements that an arg-reduction stands for; `fresh` makes names of temporaries.

    Raises SemanticError, code TC0230, unless it has one reduction variable.
    """
    if len(st.reductions) != 1:
        found = ", ".join(f"'{v}'" for v in st.reductions) or "none"
        raise SemanticError(
            f"an arg-reduction has one reduction variable, and this one has {found}",
            st.span,
            code="TC0230",
            help="its result is the value of that variable; reduce in two statements, or collapse two "
            "dimensions: x(n, k/W, k%W)",
        )
    (k,) = st.reductions
    span, name = st.value.span, st.target.name
    own = tuple(r.Subscript(v, None, span) for v in st.indices)
    index = tuple(r.Index(v, span) for v in st.indices)
    out: list[r.Statement] = []
    value = st.value
    if not isinstance(value, r.Access) or value.modes:
        held = r.Tensor(fresh(f"{name}_value"), len(own) + 1, "temporary", None, None, span, kept=True)
        order = _order(st, k)
        subscripts = tuple(r.Subscript(v, None, span) for v in order)
        out.append(replace(st, target=held, subscripts=subscripts, op="=", reductions=(), box=None))
        value = r.Access(held, tuple(r.Index(v, span) for v in order), span)
    extreme = r.Tensor(fresh(f"{name}_extreme"), len(own), "temporary", None, None, span, kept=True)
    op = OPERATORS[st.op]
    lets = st.lets if not out else ()
    out.append(replace(st, target=extreme, subscripts=own, op=op, value=value, lets=lets, needs=(k,)))
    found_there = r.Binary("==", value, r.Access(extreme, index, span), span)
    is_nan = r.Binary("!=", value, value, span)
    place = r.If(r.Binary("||", found_there, is_nan, span), r.Index(k, span), r.LastIndex(span), span)
    out.append(replace(st, op="min=!", value=place, lets=lets, exists=(), auxiliary=()))
    return out


def has_extreme_of(beside: r.Statement, st: r.Statement) -> bool:
    """Whether a statement is the reduction to the extremes that an arg-reduction finds, over all there is.
    Neither changes what the other reads."""
    written = {beside.target.storage, st.target.storage}
    values = (st.value, *(b.value for b in st.lets))
    conditional = (*st.conditions, *st.exists, *beside.conditions, *beside.exists)
    return (
        beside.op == OPERATORS[st.op]
        and not conditional
        and not any(a.tensor.storage in written for e in values for a in r.accesses(e))
        and beside.box is None
        and beside.loops == st.loops
        and not beside.scattered
        and beside.indices == st.indices
        and beside.reductions == st.reductions
        and (beside.value, beside.ranges, beside.lets) == (st.value, st.ranges, st.lets)
    )


def taken_from(beside: r.Statement, extreme: r.Statement) -> r.Statement:
    """A reduction to extremes (`has_extreme_of`) that takes them from an arg-reduction's."""
    index = tuple(r.Index(v, beside.span) for v in beside.indices)
    ranges = tuple(x for x in beside.ranges if x.name in beside.indices)
    value = r.Access(extreme.target, index, beside.value.span)
    return replace(beside, op="=", value=value, reductions=(), auxiliary=(), ranges=ranges, lets=())


def _order(st: r.Statement, k: str) -> tuple[str, ...]:
    """The dimensions of the values of an arg-reduction over `k`, in the order in which most of what they are
    computed from lies: neighbours in memory are neighbours there."""
    reads = [x for e in (st.value, *(b.value for b in st.lets)) for x in r.accesses(e)]
    most = max(reads, key=lambda x: len(x.subscripts), default=None)
    last = _indices(most.subscripts[-1]) if most is not None and most.subscripts else set[str]()
    along = [v for v in st.indices if v in last]
    if k in last or not along or most is None or not any(k in _indices(x) for x in most.subscripts):
        return (*st.indices, k)
    return (*(v for v in st.indices if v != along[-1]), k, along[-1])


def _indices(e: r.Exp) -> set[str]:
    return {x.name for x in r.walk(e) if isinstance(x, r.Index)}
