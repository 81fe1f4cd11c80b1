"""The loops of scatters: statements that update elements at data-dependent subscripts.

Several instances may update the same element.  These keep their order, so that each run gives the same
result.  A loop whose iterations never share an element, such as the loop along the columns of
`y(ids(n),d) += x(n,d)`, may run in any order: in threads, in lanes, and inside of the other loops.  Each
thread updates columns of its own, or a copy of the tensor (`scatter_copies`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tc.ir.expr import GE, LT, ZERO, Add, Expr, IntImm, Load, Mul, Sub, UIntImm, Variable, variables, walk
from tc.ir.loops import Array, Block, Compute, For, If, LoopKind, LoopNest, Stmt, statements
from tc.ir.simplify import linear_terms, simplify

from .scatter_copies import LINE, Scatter, in_copies


@dataclass(frozen=True, slots=True)
class Threads:
    """The number of threads, and the least number of updates of a vector or an element (`work`) for each."""

    count: int
    work: int


def separate(loop: For) -> bool:
    """Whether different iterations of a loop update different elements: in every statement some subscript is
    the loop's variable, or a multiple of it, plus terms that other loops and data do not change."""
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


def scatters_along_rows(nest: LoopNest, lanes: Callable[[int], int], threads: Threads | None) -> LoopNest:
    """A loop nest whose scatters run along rows, in vectors and in `threads`; `lanes` gives the lanes for
    elements of so many bytes.

    Loops of counters stay where they are.
    """
    scatters = _Scatters(nest, lanes, threads)
    return replace(
        nest,
        body=scatters.visit(nest.body),
        arrays=(*nest.arrays, *scatters.added),
        workspace=scatters.workspace,
    )


class _Scatters:
    """The scatters of a nest, and the arrays that their copies add."""

    def __init__(self, nest: LoopNest, lanes: Callable[[int], int], threads: Threads | None) -> None:
        self.arrays = {a.name: a for a in nest.arrays}
        self.counters, self.lanes, self.threads = nest.counters, lanes, threads
        self.added: list[Array] = []
        self.workspace = nest.workspace

    def visit(self, s: Stmt) -> Stmt:
        match s:
            case Block():
                return replace(s, body=tuple(map(self.visit, s.body)))
            case If():
                otherwise = None if s.otherwise is None else self.visit(s.otherwise)
                return replace(s, then=self.visit(s.then), otherwise=otherwise)
            case For(kind=LoopKind.SERIAL) if s.var in self.counters:
                return replace(s, body=self.visit(s.body))
            case For(kind=LoopKind.SERIAL):
                updates = [c for c in statements(s) if isinstance(c, Compute)]
                if not all(any(isinstance(e, Load) for x in c.subscripts for e in walk(x)) for c in updates):
                    return s
                itemsize = max(self.arrays[n].dtype.itemsize for c in updates for n in _arrays(c))
                return self.scatter(s, self.lanes(itemsize), itemsize)
            case _:
                return s

    def scatter(self, s: For, lanes: int, itemsize: int) -> Stmt:
        """A scatter along rows, parallel if there are enough updates.  Whether it uses copies, which may
        change the result, does not depend on the number of threads."""
        if self.threads is None:
            return along_rows(s, lanes)
        found = self.in_copies(s, lanes)
        return _scatter(s, lanes, itemsize, self.threads) if found is None else found

    def in_copies(self, s: For, lanes: int) -> Stmt | None:
        """A scatter of which each part updates a copy; None where that does not pay."""
        found = _rows(s)
        inner = _chain(s) if found is None else (found.inner, found.statement)
        if inner is None or any(a.name.startswith(inner[1].buffer + ".") for a in self.added):
            return None
        loops, c = inner
        columns = 1 if found is None else found.columns[1]
        body: Stmt = c if found is None else _vectors(found.row, *found.columns, c, lanes)

        def row(var: str, count: int, statement: Compute) -> Stmt:
            loop = For(var, ZERO, IntImm(count), 1, LoopKind.SERIAL, statement)
            return _vectors(loop, 0, count, statement, lanes)

        scatter = Scatter(loops, body, c, columns, row)
        made = in_copies(scatter, self.arrays[c.buffer], self.workspace)
        if made is None:
            return None
        out, copies, self.workspace = made
        self.added.append(copies)
        return out


def _chain(s: For) -> tuple[tuple[For, ...], Compute] | None:
    """The loops around a single statement, and the statement."""
    loops: list[For] = []
    body: Stmt = s
    while isinstance(body, For):
        loops.append(body)
        body = body.body
    return (tuple(loops), body) if isinstance(body, Compute) else None


def _arrays(s: Compute) -> set[str]:
    loads = (e.buffer for x in (s.value, *s.subscripts) for e in walk(x) if isinstance(e, Load))
    return {s.buffer, *loads}


def along_rows(body: Stmt, lanes: int) -> Stmt:
    """The statements with the loop along rows innermost, in vectors of so many lanes, wherever a nest has a
    single statement.

    The loop along rows has constant length, and its variable is the last subscript of the updated tensor.
    """
    if isinstance(body, Block):
        return replace(body, body=tuple(along_rows(s, lanes) for s in body.body))
    found = _rows(body)
    if found is None and isinstance(body, For):
        inner = along_rows(body.body, lanes)
        return body if inner is body.body else replace(body, body=inner)
    if found is None:
        return body
    first, count = found.columns
    return found.around(_vectors(found.row, first, count, found.statement, lanes))


def _scatter(s: For, lanes: int, itemsize: int, threads: Threads) -> Stmt:
    """A scatter along rows.  With enough updates it is parallel: threads share out its outermost loop, or its
    columns in parts of at least a cache line."""
    serial = along_rows(s, lanes)
    if threads.count < 2:
        return serial
    found = _rows(s)
    if found is None:
        apart = _is_counted(s) and separate(s)
        parallel = replace(serial, kind=LoopKind.PARALLEL) if apart and isinstance(serial, For) else None
        loops = [x for x in _loops(serial) if x.kind is not LoopKind.VECTOR]
    else:
        first, count = found.columns
        width = max(-(-count // threads.count), LINE // itemsize)
        width = -(-width // lanes) * lanes
        parallel = _column_parts(found, first, count, width, lanes) if width < count else None
        loops = [*found.inner, replace(found.row, upper=IntImm(first + -(-count // lanes)))]
    if parallel is None:
        return serial
    updates: Expr = IntImm(1)
    for x in loops:
        updates = Mul(updates, Sub(x.upper, x.lower))
    enough = simplify(GE(updates, IntImm(threads.count * threads.work)), exact=True)
    if isinstance(enough, IntImm | UIntImm):
        return parallel if enough.value else serial
    own = {x.var for x in loops}
    return serial if own & variables(enough) else If(enough, parallel, serial)


def _column_parts(found: _Rows, first: int, count: int, width: int, lanes: int) -> Stmt:
    """A scatter in parallel parts of so many columns, and the remaining columns."""
    whole, rest = divmod(count, width)
    part = f"{found.row.var}_part"
    low = Add(IntImm(first), Mul(IntImm(width), Variable(part)))
    body = found.around(_vectors(found.row, low, width, found.statement, lanes))
    if rest:
        last = found.around(_vectors(found.row, first + whole * width, rest, found.statement, lanes))
        body = If(LT(Variable(part), IntImm(whole)), body, last)
    return For(part, ZERO, IntImm(whole + (rest > 0)), 1, LoopKind.PARALLEL, body)


def _is_counted(s: For) -> bool:
    return s.kind is LoopKind.SERIAL and s.lower == ZERO and s.step == 1


def _loops(s: Stmt) -> list[For]:
    return [x for x in statements(s) if isinstance(x, For)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A nest of one statement with its outermost loop along rows."""

    row: For
    inner: tuple[For, ...]
    statement: Compute

    @property
    def columns(self) -> tuple[int, int]:
        """The first one, and how many there are."""
        assert isinstance(self.row.lower, IntImm) and isinstance(self.row.upper, IntImm)
        return self.row.lower.value, max(0, self.row.upper.value - self.row.lower.value)

    def around(self, s: Stmt) -> Stmt:
        """The inner loops around a statement."""
        for loop in reversed(self.inner):
            s = replace(loop, body=s)
        return s


def _rows(body: Stmt) -> _Rows | None:
    if not isinstance(body, For):
        return None
    inner: list[For] = []
    s = body.body
    while isinstance(s, For):
        inner.append(s)
        s = s.body
    if not isinstance(s, Compute) or not inner or not _moves_in(body, inner, s):
        return None
    return _Rows(body, tuple(inner), s)


def _moves_in(row: For, inner: list[For], s: Compute) -> bool:
    numbers = isinstance(row.lower, IntImm) and isinstance(row.upper, IntImm) and row.step == 1
    bounds = {v for x in inner for e in (x.lower, x.upper) for v in variables(e)}
    along = bool(s.subscripts) and s.subscripts[-1] == Variable(row.var)
    along = along and not any(row.var in variables(e) for e in s.subscripts[:-1])
    return numbers and row.kind is LoopKind.SERIAL and row.var not in bounds and along and separate(row)


def _vectors(row: For, first: Expr | int, count: int, s: Compute, lanes: int) -> Stmt:
    """The loop along rows around a statement, for `count` columns: whole vectors, then a shorter one."""
    low = IntImm(first) if isinstance(first, int) else first
    whole = count // lanes
    out: list[Stmt] = []
    if whole:
        part = f"{row.var}_v"
        at: Expr = Add(low, Mul(IntImm(lanes), Variable(part)))
        vector = For(row.var, at, Add(at, IntImm(lanes)), 1, LoopKind.VECTOR, s, lanes)
        kind = LoopKind.UNROLLED if whole <= 4 else LoopKind.SERIAL
        out.append(For(part, ZERO, IntImm(whole), 1, kind, vector))
    if count % lanes:
        rest = simplify(Add(low, IntImm(whole * lanes)), exact=True)
        end = simplify(Add(low, IntImm(count)), exact=True)
        out.append(For(row.var, rest, end, 1, LoopKind.VECTOR, s))
    return out[0] if len(out) == 1 else Block(tuple(out))
