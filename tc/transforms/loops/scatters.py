"""The loops of statements that update elements which data choose.

Several instances may update one element, and the result is to be the same in every run: the instances that
meet keep their order.  A loop of which no two iterations meet an element, as that along the columns of
`y(ids(n),d) += x(n,d)`, may run in any order, in threads, in lanes, and inside of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tc.ir.expr import Add, Expr, IntImm, Load, Mul, Variable, variables, walk
from tc.ir.loops import Block, Compute, For, If, LoopKind, LoopNest, Stmt, statements
from tc.ir.simplify import linear_terms


def separate(loop: For) -> bool:
    """Whether iterations of a loop update different elements: in every statement some subscript is the
    loop's variable, or a multiple of it, plus what other loops and data do not change."""
    inner = list(statements(loop.body))
    own = {s.var for s in inner if isinstance(s, For)}
    found = [s for s in inner if isinstance(s, Compute)]
    return bool(found) and all(any(_decides(e, loop.var, own) for e in c.subscripts) for c in found)


def _decides(e: Expr, var: str, others: set[str]) -> bool:
    if any(isinstance(x, Load) for x in walk(e)) or variables(e) & others:
        return False
    terms, _ = linear_terms(e)
    mine = [c for t, c in terms.items() if t == Variable(var)]
    rest = [t for t in terms if t != Variable(var) and var in variables(t)]
    return len(mine) == 1 and mine[0] != 0 and not rest


def scatters_along_rows(nest: LoopNest, lanes: Callable[[int], int]) -> LoopNest:
    """A loop nest whose scatters go along rows, in vectors; `lanes` are those of elements of so many bytes.
    The loops of counters stay where they are."""
    sizes = {a.name: a.dtype.itemsize for a in nest.arrays}

    def of(s: Stmt) -> Stmt:
        match s:
            case Block():
                return replace(s, body=tuple(map(of, s.body)))
            case If():
                return replace(s, then=of(s.then), otherwise=None if s.otherwise is None else of(s.otherwise))
            case For(kind=LoopKind.SERIAL) if s.var in nest.counters:
                return replace(s, body=of(s.body))
            case For(kind=LoopKind.SERIAL):
                updates = [c for c in statements(s) if isinstance(c, Compute)]
                if not all(any(isinstance(e, Load) for x in c.subscripts for e in walk(x)) for c in updates):
                    return s
                return along_rows(s, lanes(max(sizes[n] for c in updates for n in _arrays(c))))
            case _:
                return s

    return replace(nest, body=of(nest.body))


def _arrays(s: Compute) -> set[str]:
    loads = (e.buffer for x in (s.value, *s.subscripts) for e in walk(x) if isinstance(e, Load))
    return {s.buffer, *loads}


def along_rows(body: Stmt, lanes: int) -> Stmt:
    """Each nest of one statement with its loop along rows innermost, in vectors of so many lanes.

    That is an outermost loop of constant length whose variable is the last subscript of what is updated.
    """
    if isinstance(body, Block):
        return replace(body, body=tuple(along_rows(s, lanes) for s in body.body))
    if not isinstance(body, For):
        return body
    inner: list[For] = []
    s = body.body
    while isinstance(s, For):
        inner.append(s)
        s = s.body
    if not isinstance(s, Compute) or not inner or not _moves_in(body, inner, s):
        return body
    out = _vectors(body, s, lanes)
    for loop in reversed(inner):
        out = replace(loop, body=out)
    return out


def _moves_in(row: For, inner: list[For], s: Compute) -> bool:
    numbers = isinstance(row.lower, IntImm) and isinstance(row.upper, IntImm) and row.step == 1
    bounds = {v for x in inner for e in (x.lower, x.upper) for v in variables(e)}
    last = bool(s.subscripts) and s.subscripts[-1] == Variable(row.var)
    return numbers and row.kind is LoopKind.SERIAL and row.var not in bounds and last and separate(row)


def _vectors(row: For, s: Compute, lanes: int) -> Stmt:
    """The loop along rows around a statement: whole vectors, and what is left in one of less."""
    assert isinstance(row.lower, IntImm) and isinstance(row.upper, IntImm)
    first, count = row.lower.value, max(0, row.upper.value - row.lower.value)
    whole = count // lanes
    out: list[Stmt] = []
    if whole:
        part = f"{row.var}_v"
        at: Expr = Add(IntImm(first), Mul(IntImm(lanes), Variable(part)))
        vector = For(row.var, at, Add(at, IntImm(lanes)), 1, LoopKind.VECTOR, s, lanes)
        out.append(
            For(
                part,
                IntImm(0),
                IntImm(whole),
                1,
                LoopKind.UNROLLED if whole <= 4 else LoopKind.SERIAL,
                vector,
            )
        )
    if count % lanes:
        rest = IntImm(first + whole * lanes)
        out.append(For(row.var, rest, row.upper, 1, LoopKind.VECTOR, s))
    return out[0] if len(out) == 1 else Block(tuple(out))
