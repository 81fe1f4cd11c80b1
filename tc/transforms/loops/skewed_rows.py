"""Unroll and jam with a skew: several rows at a time, each some columns behind the row above it.

    for i                                    for i by 4
      for j                                    for j
        y[i, j] = f(y[i, j-1], y[i-1, j+1])      y[i, j]         = …
                                                 y[i + 1, j - s] = …
                                                 y[i + 2, j - 2s] = …

Each element waits for its predecessor in the row, and the rows depend on each other, so that
`tc.transforms.loops.interleaved_rows` cannot take them together.  With a skew of `s` columns they can: a row
reads what earlier iterations computed of the row above it (Wolfe, "Loop skewing: the wavefront method
revisited", 1986).  The first columns of the upper rows and the last columns of the lower rows are computed
before and after that loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from tc.ir.expr import LE, Add, And, Expr, IntImm, Load, Min, Mul, Sub, Variable, constant, variables, walk
from tc.ir.loops import Block, Compute, For, If, LoopKind, Promote, Stmt, flattened
from tc.ir.simplify import linear_terms, simplify
from tc.transforms.loops.carried import recurrences, single, straight
from tc.transforms.loops.interleaved_rows import rows_together
from tc.transforms.loops.substituted import substituted

_FEWER = (4, 2)  # rows at a time, where there are few
_LEAST = 2  # columns of the loop over several rows, for one of those before and after it


def skewed(s: Stmt) -> Stmt:
    """A loop nest in which rows of recurrences that depend on each other are computed several at a time."""
    match s:
        case Block():
            return replace(s, body=tuple(map(skewed, s.body)))
        case If():
            otherwise = None if s.otherwise is None else skewed(s.otherwise)
            return replace(s, then=skewed(s.then), otherwise=otherwise)
        case For(step=1):
            return _several(s) or replace(s, body=skewed(s.body))
        case Promote():
            return replace(s, body=skewed(s.body))
        case _:
            return s


def _several(rows: For) -> Stmt | None:
    """The rows, several at a time; None where that is not legal or does not pay."""
    loop = single(rows.body)
    if rows.kind is not LoopKind.SERIAL or not isinstance(loop, For):
        return None
    if rows.var in variables(loop.lower) | variables(loop.upper):
        return None
    if not all(isinstance(s, Compute) for s in flattened(loop.body)):
        return None
    if not any(s.value.dtype.is_float for s in recurrences(loop)):
        return None  # an operation on integers takes one cycle, so that an iteration hardly waits
    most = rows_together(replace(rows, body=loop))
    skew = _skew(rows.var, loop) if most > 1 else None
    if skew is None:
        return None
    trips, columns = _trips(rows), _trips(loop)
    for count in (most, *(c for c in _FEWER if c < most)):
        least = (1 + _LEAST) * (count - 1) * skew
        if (trips is None or trips >= count) and (columns is None or columns >= least):
            return _blocks(rows, loop, count, skew, least)
    return None


def _blocks(rows: For, loop: For, count: int, skew: int, least: int) -> Stmt:
    """Blocks of rows of at least so many columns.  Rows that are left, and all of fewer columns, are computed
    one after the other."""
    row, column, index = Variable(rows.var), Variable(loop.var), Variable(f"{rows.var}_k")
    some, wide = LE(Add(row, IntImm(count)), rows.upper), LE(IntImm(least), Sub(loop.upper, loop.lower))
    enough = simplify(And(some, wide), exact=True)

    def of(at: Expr, lower: Expr, upper: Expr) -> For:
        body = substituted(loop.body, {rows.var: Add(row, at)})
        return replace(loop, lower=_exact(lower), upper=_exact(upper), body=body)

    def behind(k: Expr) -> Expr:
        return Mul(IntImm(skew), k)

    first = Add(loop.lower, IntImm((count - 1) * skew))
    main = replace(
        loop,
        lower=_exact(first),
        body=Block(
            tuple(
                substituted(
                    loop.body,
                    {rows.var: Add(row, IntImm(k)), loop.var: Sub(column, IntImm(k * skew))},
                )
                for k in range(count)
            )
        ),
    )
    block: list[Stmt] = [main]
    if skew:
        head = of(index, loop.lower, Sub(first, behind(index)))
        tail = of(index, Sub(loop.upper, behind(index)), loop.upper)
        block.insert(0, For(index.name, IntImm(0), IntImm(count - 1), 1, LoopKind.SERIAL, head))
        block.append(For(index.name, IntImm(1), IntImm(count), 1, LoopKind.SERIAL, tail))
    whole = Block(tuple(block))
    trips, columns = _trips(rows), _trips(loop)
    if columns is not None and trips is not None and trips % count == 0:
        return replace(rows, step=count, body=whole)
    one = f"{rows.var}_r"
    last = _exact(Min(Add(row, IntImm(count)), rows.upper))
    rest = For(one, row, last, 1, LoopKind.SERIAL, substituted(loop, {rows.var: Variable(one)}))
    return replace(rows, step=count, body=If(enough, whole, rest))


def _trips(loop: For) -> int | float | None:
    return constant(_exact(Sub(loop.upper, loop.lower)))


def _exact(e: Expr) -> Expr:
    return simplify(e, exact=True)


# ---- dependences


def _skew(row: str, loop: For) -> int | None:
    """How many columns a row must at least be behind the one above it, so that it reads only what earlier
    iterations have stored; None where that is not known."""
    body = straight(loop)
    stored = {s.buffer for s in body}
    accesses = [a for s in body for a in _accesses(s) if a.buffer in stored]
    if any(a.checked or any(isinstance(e, Load) for x in a.subscripts for e in walk(x)) for a in accesses):
        return None
    skew = 0
    for s in body:
        for a in accesses:
            distance = _distance(row, loop.var, s.subscripts, a.subscripts)
            if distance is None:
                return None
            for rows, columns in distance:
                if rows < 0:
                    rows, columns = -rows, -columns
                if rows > 0:
                    skew = max(skew, -columns // rows + 1)
    return skew


def _accesses(s: Compute) -> Iterator[Load]:
    yield Load(s.buffer, s.subscripts, s.value.dtype)
    for e in walk(s.value):
        if isinstance(e, Load):
            yield e


def _distance(
    row: str, column: str, a: Sequence[Expr], b: Sequence[Expr]
) -> tuple[tuple[int, int], ...] | None:
    """By how many rows and columns an iteration whose subscripts are `b` is behind one that accesses the same
    element at `a`; () if none does, None if it is not known or not one distance."""
    equations: list[tuple[int, int, int]] = []
    for x, y in zip(a, b, strict=True):
        p, q = _terms(row, column, x), _terms(row, column, y)
        if p is None or q is None or p[:2] != q[:2] or p[3] != q[3]:
            return None
        equations.append((p[0], p[1], p[2] - q[2]))
    found = {(i, j, c) for i, j, c in equations if i or j}
    if any(c for i, j, c in equations if not (i or j)):
        return ()
    for i, j, c in found:
        for k, m, d in found:
            determinant = i * m - j * k
            if determinant:
                rows, columns = Fraction(c * m - j * d, determinant), Fraction(i * d - c * k, determinant)
                if any(e * rows + f * columns != g for e, f, g in found):
                    return ()
                if rows.denominator != 1 or columns.denominator != 1:
                    return ()
                return ((int(rows), int(columns)),)
    return None


def _terms(row: str, column: str, e: Expr) -> tuple[int, int, int, Mapping[Expr, int]] | None:
    """The factors of two variables, the constant and the other terms of a subscript; None if the variables
    are in these."""
    terms, offset = linear_terms(e)
    rest = dict(terms)
    factors = rest.pop(Variable(row), 0), rest.pop(Variable(column), 0)
    if any(variables(t) & {row, column} for t in rest):
        return None
    return *factors, offset, rest
