"""What is checked once all names of a def are known: reductions, reads of a statement's own tensor, and the
warnings about programs that are probably not meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tc.errors import DataDependentAccess, LoneReduction, SemanticError, Warning
from tc.lang import resolved as r
from tc.lang.exact import is_inexact


def warnings(statements: Sequence[r.Statement]) -> Iterator[Warning]:
    """LoneReduction and DataDependentAccess, in the order of the statements."""
    yield from _lone_reductions(statements)
    yield from _data_dependent(statements)


def check_reduction(st: r.Statement) -> None:
    if st.op == "=" and st.reductions:
        v = st.reductions[0]
        raise SemanticError(
            f"the statement has the reduction variable '{v}' but does not specify a reduction",
            st.span_of(v),
            code="TC0225",
            help="write '+=!' instead of '=' to sum over it, or another reduction: *=! min=! max=!",
        )


def check_scatter(st: r.Statement, defined: bool) -> None:
    """Several instances of a scatter may write one element, so only reductions may, into what is there."""
    span = next(s.span for s in st.subscripts if s.data is not None)
    name = st.target.name
    if st.op in ("+=", "*=", "min=", "max=") and defined:
        return
    if st.op == "=":
        what, help = "an assignment", "which of several instances wins is not defined; reduce: += max="
    elif not defined:
        what, help = "the first statement of a tensor", f"define it first: {name}(k) = 0 where k in 0:K"
    else:
        op = st.op.rstrip("!")
        what, help = f"'{st.op}'", f"define it first, {name}(k) = 0 where k in 0:K, and use {op}"
    raise SemanticError(
        f"{what} cannot have a left-hand-side subscript that reads data", span, code="TC0231", help=help
    )


def check_own_reads(st: r.Statement) -> None:
    """Data-dependent reads of the row that a statement writes have no exact legality test."""
    for root in st.roots():
        for a in r.accesses(root):
            if a.tensor.storage is not st.target.storage:
                continue
            if st.scattered:
                raise SemanticError(
                    f"the statement scatters into '{st.target.name}' and reads it",
                    a.span,
                    code="TC0231",
                    help="read a copy that an earlier statement makes",
                )
            data = [_reads_data(r.expand_lets(sub, st)) for sub in a.subscripts]
            # Where the statement writes a single row in a dimension, isl tells whether it reads another one.
            row = any(x.point is not None and not d for x, d in zip(st.subscripts, data, strict=True))
            if any(data) and not row:
                raise SemanticError(
                    f"the statement writes '{st.target.name}' and reads it at a subscript that depends "
                    "on data",
                    a.span,
                    code="TC0226",
                    help="write the result to another tensor",
                )


def _reads_data(e: r.Exp) -> bool:
    return any(isinstance(x, r.Access) for x in r.walk(e))


def structural_scalars(st: r.Statement) -> set[str]:
    """Scalars that shape the iteration domain or an address: they are part of the compile key."""
    roots: list[r.Exp] = [x for g in st.ranges for x in (g.lo, g.hi)]
    roots += [x for loop in st.loops for x in (loop.first, loop.last)]
    roots += [x.offset for x in st.subscripts if x.offset is not None]
    roots += st.scattered
    roots += st.conditions
    for e in (*st.roots(), *st.exists):
        roots += [sub for a in r.accesses(e) for sub in a.subscripts]
    out: set[str] = set()
    for e in roots:
        for x in r.walk(r.expand_lets(e, st)):
            if isinstance(x, r.Scalar) and not (x.declared.is_float or x.declared.is_complex):
                out.add(x.name)
    return out


def _lone_reductions(statements: Iterable[r.Statement]) -> Iterator[Warning]:
    for st in statements:
        ranged = {x.name for x in st.ranges}
        for v in st.reductions:
            if v in ranged:
                continue
            lone = _lone_factor(r.expand_lets(st.value, st), v)
            if lone is not None:
                yield (
                    LoneReduction(
                        f"the reduction variable '{v}' occurs in one access only, "
                        f"a factor that the others do not depend on",
                        lone.span,
                        help=f"if the sum over '{v}' is meant, give it a range: where {v} in 0:…",
                    )
                )


def _data_dependent(statements: Iterable[r.Statement]) -> Iterator[Warning]:
    """Clamped accesses are told apart by range inference, which drops their warnings."""
    for st in statements:
        for e in (*st.roots(), *st.exists):
            for a in r.accesses(e):
                for sub in a.subscripts:
                    full = r.expand_lets(sub, st)
                    if not is_inexact(full):
                        continue
                    data = _reads_data(full)
                    why = "depends on data" if data else "is computed in a type that may change it"
                    yield DataDependentAccess(
                        f"a subscript of '{a.tensor.name}' {why} and is checked when the kernel runs",
                        sub.span,
                        help="clamp it, e.g. max(min(…, N-1), 0), to make it safe without a check",
                    )


def _lone_factor(e: r.Exp, v: str) -> r.Access | None:
    """The only access of a product that mentions `v`, if another factor reads a tensor too.

    Such a sum could be pulled out of the product, which nobody writes on purpose; a row sum or a
    soft-max denominator, where the variable stands in one access as well, is not a product.
    """
    if not (isinstance(e, r.Binary) and e.op == "*"):
        return None
    mentioning = [a for a in r.accesses(e) if _uses(a, v)]
    outside = any(_uses(x, v) for x in r.walk(e) if isinstance(x, r.Index)) and not mentioning
    if len(mentioning) != 1 or outside:
        return None
    for side, other in ((e.left, e.right), (e.right, e.left)):
        if mentioning[0] in list(r.accesses(side)):
            if any(True for _ in r.accesses(other)):
                return mentioning[0]
            return _lone_factor(side, v)
    return None


def _uses(e: r.Exp, v: str) -> bool:
    return any(isinstance(x, r.Index) and x.name == v for x in r.walk(e))
