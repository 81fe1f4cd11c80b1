"""Arg-reductions, written out: where the extreme is, in reductions that the rest of the compiler knows.

    i(n) argmax=! v(n,k)

becomes, with m for `max` and the same conditions and ranges in all of them,

    value(n,k) = v(n,k)                             unless v is an element as it lies
    m(n) max=! value(n,k)
    i(n) min=! value(n,k) == m(n) || value(n,k) != value(n,k) ? k : the last index

The extreme of values of which one is NaN is NaN, which equals nothing, and then each NaN is a candidate; of
the candidates the first one counts.  A computed value is stored, and no pass may compute it again: rounded
differently it would not be found.
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
        subscripts = (*own, r.Subscript(k, None, span))
        out.append(replace(st, target=held, subscripts=subscripts, op="=", reductions=(), box=None))
        value = r.Access(held, (*index, r.Index(k, span)), span)
    extreme = r.Tensor(fresh(f"{name}_extreme"), len(own), "temporary", None, None, span, kept=True)
    op = OPERATORS[st.op]
    lets = st.lets if not out else ()
    out.append(replace(st, target=extreme, subscripts=own, op=op, value=value, lets=lets, needs=(k,)))
    found_there = r.Binary("==", value, r.Access(extreme, index, span), span)
    is_nan = r.Binary("!=", value, value, span)
    place = r.If(r.Binary("||", found_there, is_nan, span), r.Index(k, span), r.LastIndex(span), span)
    out.append(replace(st, op="min=!", value=place, lets=lets, exists=(), auxiliary=()))
    return out
