"""Loop interchange: a sequential loop moves inside of a loop whose iterations share no elements.

In `for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) }` no row reads an element that another row writes, so

    for d              for n
      for n      →       for d
        y[n, d]            y[n, d]

accesses each row contiguously, and each thread runs the whole sequential loop on rows of its own, instead of
a single iteration of it.  The interchange is legal where each tensor that the loop writes has a dimension in
which each iteration over `n` has a range of its own, the same for all of its reads and writes.  Parts of the
loop that touch different ranges, such as tiles and a remainder, become separate loops; loops over the same
rows become one.  Several rows are computed together: in lanes (`tc.transforms.loops.rows_in_lanes`), or else
interleaved (`tc.transforms.loops.interleaved_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tc.ir.expr import (
    EQ,
    ONE,
    ZERO,
    Add,
    Expr,
    FloorDiv,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Sub,
    Variable,
    constant,
    variables,
    walk,
)
from tc.ir.loops import Block, Compute, For, If, LoopKind, LoopNest, Stmt, flattened, statements
from tc.ir.simplify import linear_terms, simplify
from tc.transforms.loops.interleaved_rows import interleaved, rows_together
from tc.transforms.loops.rows_in_lanes import RowsInLanes
from tc.transforms.loops.serial_rows import in_rows, lanes_across, rows_pay
from tc.transforms.loops.substituted import substituted
from tc.transforms.loops.unswitch import Interval, values, within

_CHUNKS = 16  # iterations of the parallel loop
_WORK = 1 << 15  # instances from which on the loop is parallel
_NONE = frozenset[str]()


def inward(
    nest: LoopNest,
    ranks: Mapping[str, int],
    operations: Callable[[Expr], float],
    lanes: Callable[[int], int],
) -> LoopNest:
    """A loop nest with sequential loops inside of other loops where that is legal and pays.

    `ranks` has the numbers of dimensions of the program's tensors; `operations` gives the vector instructions
    of a value, `lanes` the elements of a vector by the bytes of one.
    """
    rows = RowsInLanes(lanes, {a.name: a for a in nest.arrays})
    ranges = dict.fromkeys(nest.sizes, (0, 1 << 48))
    body = _Mover(ranks, operations, _Rows(rows)).visit(nest.body, ranges).final
    return nest if body is nest.body else replace(nest, body=body, arrays=(*nest.arrays, *rows.used(body)))


@dataclass(frozen=True, slots=True)
class _Both:
    """A statement with its sequential loops inside: as it stays, and as it may move into other loops, with no
    loops that are parallel or interleaved."""

    final: Stmt
    plain: Stmt


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that share no elements, several at a time: in lanes, or else interleaved."""

    lanes: RowsInLanes

    def go_in_lanes(self, s: Stmt, loop: str) -> bool:
        """Whether all rows of a statement do, along which a loop goes; single rows need not."""
        found = [self.lanes.together(x)[0] for x in statements(s) if isinstance(x, For) and _goes(x, loop)]
        return bool(found) and all(found)

    def chunk(self, rows: For, loop: For) -> Expr:
        """How many rows, along which a loop goes, an iteration of the parallel loop takes."""
        count = constant(simplify(Sub(rows.upper, rows.lower), exact=True))
        lanes, together = self.lanes.together(rows)
        if count is None:
            # As many chunks as for constant numbers, but each with enough work.
            whole = IntImm(together or rows_together(rows))
            most, least = IntImm(_CHUNKS), IntImm(_WORK // _CHUNKS)
            shares = _divided_up(Sub(rows.upper, rows.lower), Mul(most, whole))
            enough = _divided_up(least, Mul(whole, Max(Sub(loop.upper, loop.lower), ONE)))
            return simplify(Mul(Max(shares, enough), whole), exact=True)
        chunk = -(-int(count) // _CHUNKS)
        if lanes:
            whole, least = together if count >= 4 * together else lanes, 2
        else:
            whole, least = rows_together(rows), _CHUNKS // 4
        return IntImm(-(-chunk // whole) * whole if count >= least * whole else chunk)

    def of(self, rows: For) -> Stmt:
        return self.lanes.of(rows) or interleaved(rows)


def _goes(rows: For, loop: str) -> bool:
    """Whether a loop goes along several rows."""
    single = constant(simplify(Sub(rows.upper, rows.lower), exact=True)) == 1
    return isinstance(rows.body, For) and rows.body.var == loop and not single


@dataclass(frozen=True, slots=True)
class _Mover:
    ranks: Mapping[str, int]
    operations: Callable[[Expr], float]
    rows: _Rows

    def visit(self, s: Stmt, ranges: Mapping[str, Interval]) -> _Both:
        match s:
            case Block():
                found = [self.visit(c, ranges) for c in s.body]
                if all(b.plain is c for b, c in zip(found, s.body, strict=True)):
                    return _Both(s, s)
                return _Both(
                    replace(s, body=tuple(b.final for b in found)),
                    replace(s, body=tuple(b.plain for b in found)),
                )
            case For(kind=LoopKind.SERIAL):
                moved = self.moved(s, ranges, self.rows)
                if moved is not None:
                    return _Both(moved, self.moved(s, ranges, None) or moved)
                body = self.visit(s.body, within(ranges, s))
                final, plain = replace(s, body=body.final), replace(s, body=body.plain)
                if body.plain is not s.body:
                    # Rows into which a loop of the body moves may have this loop inside, too.
                    final = _moved(plain, ranges, self.ranks, self.rows) or final
                    plain = _moved(plain, ranges, self.ranks, None) or plain
                    return _Both(final, plain)
                return _Both(s, s)
            case _:
                return _Both(s, s)

    def moved(self, loop: For, ranges: Mapping[str, Interval], rows: _Rows | None) -> Stmt | None:
        """The loops of the body with the sequential loop inside of them; None where that is not legal or does
        not pay."""
        if lanes_across(loop):
            single = replace(loop, body=in_rows(loop.body))
            plain = _moved(single, ranges, self.ranks, None)
            if plain is not None and (
                self.rows.go_in_lanes(plain, loop.var) or rows_pay(loop, self.operations)
            ):
                return _moved(single, ranges, self.ranks, rows)
        return _moved(loop, ranges, self.ranks, rows)


@dataclass(frozen=True, slots=True)
class _Access:
    buffer: str
    subscripts: tuple[Expr, ...]
    ranges: Mapping[str, Interval]


def _moved(
    loop: For,
    outside: Mapping[str, Interval],
    ranks: Mapping[str, int],
    rows: _Rows | None,
    around: frozenset[str] = _NONE,
) -> Stmt | None:
    """The loops of the body, one for each part, with the sequential loop inside; None where that is not legal
    or does not pay.  Without `rows` they stay plain.

    `around` are the variables of the loops into which the sequential loop has been moved already; these share
    its work.
    """
    ranges = within(outside, loop)
    parts = tuple(flattened(loop.body))
    all_of_it = [x for p in parts for x in statements(p)]
    if loop.step != 1 or not all(isinstance(x, Block | For | If | Compute) for x in all_of_it):
        return None
    if any(isinstance(x, Compute) and _checked(x) for x in all_of_it):
        return None  # the error must report the first index that is out of range
    written = {x.buffer for x in all_of_it if isinstance(x, Compute)}
    if not written <= ranks.keys():
        return None
    rest = tuple(p for p in parts if not _may_be_outside(p, loop))
    parts = tuple(p for p in parts if _may_be_outside(p, loop))
    # No loop of the rest can be outside; the sequential loop stays around it, on elements of its own.
    tail = (Block(rest),) if rest else ()
    if not parts:
        return None
    loops = parts
    for fused in (False, True):
        parts = (*(_fused(loops) if fused else loops), *tail)
        dimensions = _own_dimensions(parts, ranges, written, around)
        if dimensions:
            break
    else:
        return None
    along_rows = all(d != ranks[b] - 1 for b, d in dimensions.items())
    parallel = all(isinstance(p, For) and p.kind is LoopKind.PARALLEL for p in parts)
    if not along_rows and not parallel:
        return None
    moved = tuple(_inside(p, loop, outside, ranks, rows, around) for p in parts)
    return moved[0] if len(moved) == 1 else Block(moved)


def _fused(parts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The loops, those next to each other that have the same iterations as one."""
    out = list[Stmt]()
    for p in parts:
        last = out[-1] if out else None
        if (
            isinstance(p, For)
            and isinstance(last, For)
            and replace(p, var=last.var, body=last.body) == last
            and not any(isinstance(x, For) and x.var == last.var for x in statements(p.body))
        ):
            body = substituted(p.body, {p.var: Variable(last.var)})
            out[-1] = replace(last, body=Block((*flattened(last.body), *flattened(body))))
        else:
            out.append(p)
    return tuple(out)


def _own_dimensions(
    parts: Sequence[Stmt],
    ranges: Mapping[str, Interval],
    written: Set[str],
    around: frozenset[str],
) -> Mapping[str, int]:
    """Of each tensor that is `written`, a dimension in which all parts, and all iterations of each, have
    ranges of their own; none where two of them access the same elements."""
    taken: dict[str, list[Interval]] = {}
    places: dict[str, _Place] = {}
    dimensions: dict[str, int] = {}
    for part in parts:
        accesses = [a for a in _accesses(part, ranges) if a.buffer in written]
        if any(isinstance(e, Load) for a in accesses for x in a.subscripts for e in walk(x)):
            return {}
        for buffer in {a.buffer for a in accesses}:
            own = [a for a in accesses if a.buffer == buffer]
            found = _own_dimension(part, own, dimensions.get(buffer), around)
            if found is None:
                return {}
            dimensions[buffer], place, interval = found
            if places.setdefault(buffer, place) != place:
                return {}
            if any(interval[0] <= b[1] and b[0] <= interval[1] for b in taken.get(buffer, ())):
                return {}
            taken.setdefault(buffer, []).append(interval)
    return dimensions


def _checked(s: Compute) -> bool:
    return any(isinstance(e, Load) and e.checked for v in (s.value, *s.subscripts) for e in walk(v))


def _may_be_outside(part: Stmt, loop: For) -> bool:
    if not isinstance(part, For) or part.step != 1:
        return False
    if part.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL):
        return False
    return loop.var not in variables(part.lower) | variables(part.upper)


def _accesses(s: Stmt, ranges: Mapping[str, Interval]) -> Iterator[_Access]:
    """All reads and writes, each with the ranges of the variables around it."""
    match s:
        case Block():
            for c in s.body:
                yield from _accesses(c, ranges)
        case For():
            yield from _reads((s.lower, s.upper), ranges)
            yield from _accesses(s.body, within(ranges, s))
        case If():
            yield from _reads((s.condition,), ranges)
            yield from _accesses(s.then, ranges)
            if s.otherwise is not None:
                yield from _accesses(s.otherwise, ranges)
        case Compute():
            yield _Access(s.buffer, s.subscripts, ranges)
            yield from _reads((s.value, *s.subscripts), ranges)
        case _:
            raise AssertionError(s)


def _reads(values_: Sequence[Expr], ranges: Mapping[str, Interval]) -> Iterator[_Access]:
    for e in values_:
        for x in walk(e):
            if isinstance(x, Load):
                yield _Access(x.buffer, x.subscripts, ranges)


_Place = frozenset[tuple[Expr, int]]  # terms of a subscript that are constant while a loop runs


def _own_dimension(
    part: Stmt, accesses: Sequence[_Access], known: int | None, around: frozenset[str]
) -> tuple[int, _Place, Interval] | None:
    """A dimension in which an iteration of a part has a range of its own in all accesses to a buffer; the
    terms of the subscripts there that the loops `around` fix; and the range that all iterations have relative
    to these."""
    var = part.var if isinstance(part, For) else ""
    candidates = range(len(accesses[0].subscripts)) if known is None else (known,)
    for d in candidates:
        found = {_range_of(var, a.subscripts[d], a.ranges, around) for a in accesses}
        if None in found or not found:
            continue
        some = [f for f in found if f is not None]
        factor, place = some[0][0], some[0][1]
        low, high = min(x for *_, x, _ in some), max(x for *_, x in some)
        if any(p != place for _, p, _, _ in some):
            continue
        if not var:
            return d, place, (low, high)
        outer = accesses[0].ranges.get(var)
        if outer is None or factor <= 0 or high - low >= factor or any(f != factor for f, *_ in some):
            continue
        return d, place, (factor * outer[0] + low, factor * outer[1] + high)
    return None


def _range_of(
    var: str, e: Expr, ranges: Mapping[str, Interval], around: frozenset[str]
) -> tuple[int, _Place, int, int] | None:
    """The factor of a variable in a subscript, the terms of the variables `around`, and the range of the
    other terms."""
    terms, offset = linear_terms(e)
    low = high = offset
    factor = 0
    place: set[tuple[Expr, int]] = set()
    for t, c in terms.items():
        if t == Variable(var):
            factor = c
            continue
        if var in variables(t):
            return None
        if variables(t) and variables(t) <= around:
            place.add((t, c))
            continue
        found = values(t, ranges)
        if found is None:
            return None
        ends = (c * found[0], c * found[1])
        low, high = low + min(ends), high + max(ends)
    return factor, frozenset(place), low, high


def _inside(
    part: Stmt,
    loop: For,
    outside: Mapping[str, Interval],
    ranks: Mapping[str, int],
    rows: _Rows | None,
    around: frozenset[str],
) -> Stmt:
    """A part with the sequential loop inside; in parallel where there is enough work."""
    if not isinstance(part, For):
        return replace(loop, body=part)
    inside = within(outside, part)

    def further(s: Stmt) -> Stmt | None:
        if not any(isinstance(x, For) and x.kind is LoopKind.SERIAL for x in flattened(s)):
            return None
        return _moved(replace(loop, body=s), inside, ranks, rows, around | {part.var})

    inner = further(part.body)
    if inner is None and (found := _one_iteration_apart(part)) is not None:
        condition, *halves = found
        moved = [further(h) for h in halves]
        if any(moved):
            one, others = (m or replace(loop, body=h) for m, h in zip(moved, halves, strict=True))
            inner = If(condition, one, others)
    body = replace(part, body=inner or replace(loop, body=part.body))
    ranges = within(outside, loop)
    if part.kind is LoopKind.PARALLEL or rows is None:
        return body
    if around or _instances(replace(loop, body=part), ranges) < _WORK:
        return rows.of(body)
    return _in_chunks(body, loop, rows)


def _in_chunks(body: For, loop: For, rows: _Rows) -> Stmt:
    """Rows with a sequential loop inside, in parallel: chunks of rows one after the other."""
    count = constant(simplify(Sub(body.upper, body.lower), exact=True))
    if count is not None and count < 2:
        return rows.of(body)
    name, size = f"{body.var}_c", f"{body.var}_size"
    length = rows.chunk(body, loop)
    each = length if isinstance(length, IntImm) else Variable(size)
    first = Add(body.lower, Mul(each, Variable(name)))
    some = replace(body, lower=first, upper=Min(Add(first, each), body.upper))
    number = simplify(_divided_up(Sub(body.upper, body.lower), each), exact=True)
    found = For(name, ZERO, number, 1, LoopKind.PARALLEL, rows.of(some))
    if each is length:
        return found
    return For(size, length, Add(length, ONE), 1, LoopKind.SERIAL, found)


def _divided_up(a: Expr, b: Expr) -> Expr:
    """`a / b` rounded up."""
    return FloorDiv(Sub(Add(a, b), ONE), b)


def _one_iteration_apart(part: For) -> tuple[Expr, Stmt, Stmt] | None:
    """The condition that holds in one iteration of a loop, such as that of a remainder behind the tiles of
    the last one, its body there, and that of the other iterations; None where there is no such condition."""
    parts = tuple(flattened(part.body))
    var = Variable(part.var)
    for s in parts:
        if isinstance(s, If) and isinstance(s.condition, EQ) and s.condition.a == var:
            c = s.condition
            if isinstance(c.b, IntImm):
                one = Block(tuple(s.then if x is s else x for x in parts))
                rest = [s.otherwise if x is s else x for x in parts]
                others = Block(tuple(x for x in rest if x is not None))
                return c, substituted(one, {part.var: c.b}), others
    return None


def _instances(s: Stmt, ranges: Mapping[str, Interval]) -> int:
    """An upper bound of the instances of a statement; 0 where none is known."""
    match s:
        case Block():
            return max((_instances(c, ranges) for c in s.body), default=0)
        case For():
            return _most(s, ranges) * _instances(s.body, within(ranges, s))
        case If():
            return _instances(s.then, ranges)
        case _:
            return 1


def _most(s: For, ranges: Mapping[str, Interval]) -> int:
    """An upper bound of the trip count of a loop; 0 where none is known."""
    low, high = values(s.lower, ranges), values(s.upper, ranges)
    return 0 if low is None or high is None else max(0, high[1] - low[0])
