"""What expressions read beyond their tensors, and choices that read nothing there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tc.autodiff.fibres import in_box
from tc.autodiff.index_conditions import conjunction, implied, index_formula
from tc.autodiff.tape import Version
from tc.ir.expr import Call, Expr, IfThenElse, Not, children, variables

# Whether all reads of some expressions exist.
Exist = Callable[[Sequence[Expr]], bool]


def reads_exist(
    e: Expr, versions: Mapping[str, Version], known: Sequence[Expr], sizes: Collection[str]
) -> bool:
    """Whether all elements of some versions that an expression reads are in their tensors wherever what is
    `known` holds, as far as isl sees it."""
    if isinstance(e, IfThenElse):  # which evaluates one of its values
        where = index_formula(e.condition)
        met, unmet = ([], []) if where is None else ([where], [Not(where)])
        branches = ((e.condition, ()), (e.then_value, met), (e.else_value, unmet))
        return all(reads_exist(x, versions, [*known, *more], sizes) for x, more in branches)
    if isinstance(e, Call) and e.kind != "intrinsic" and e.name in versions:
        v = versions[e.name]
        if not all(holds(c, known, sizes) for c in in_box(e.args[v.lead :], v.own)):
            return False
    return all(reads_exist(x, versions, known, sizes) for x in children(e))


def holds(condition: Expr, known: Sequence[Expr], sizes: Collection[str]) -> bool:
    """Whether a condition holds wherever what is `known` does: by what is known of its indices alone, or else
    by all, on which isl gives up more often."""
    own = variables(condition) - set(sizes)
    near = [k for k in known if variables(k) & own]
    return (bool(own) and implied(condition, near, sizes)) or implied(condition, known, sizes)


def choice(conditions: Sequence[Expr], value: Expr, otherwise: Expr, exist: Exist) -> Expr:
    """`value` where all of some conditions hold.

    A condition may read what exists only where those before it hold.  It is then tested after them, as `&&`
    evaluates both of its sides.
    """
    if exist(conditions[1:]):
        return IfThenElse(conjunction(conditions), value, otherwise)
    for c in reversed(conditions):
        value = IfThenElse(c, value, otherwise)
    return value
