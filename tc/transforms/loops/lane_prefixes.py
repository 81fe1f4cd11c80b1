"""Prefixes of vectors: each lane combines the elements up to its own, in log2(lanes) steps.

    for q: vector for d: if q <= d % w: y(d) op= e(q, d/w)     w steps for a vector of w lanes
    vector for d: prefix for q: the same                       log2(w) shuffles and combinations

The loop of a prefix is the innermost one.  Its kind tells the emitter that lane i, which starts a chunk at
lane 0, combines `e` of q = 0 to i (or to i - 1, where the condition is `q < d % w`), so that it may combine
neighbours first, then pairs of neighbours, and so on (Kogge and Stone, "A parallel algorithm for the
efficient solution of a general class of recurrence equations", 1973).  This reassociates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tc.ir.expr import (
    LE,
    LT,
    ZERO,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Sub,
    Variable,
    children,
    substitute,
    variables,
    walk,
)
from tc.ir.loops import Block, Compute, For, If, LoopKind, Promote, Stmt
from tc.ir.simplify import linear_terms, simplify

from .substituted import substituted

_OPERATIONS = ("+", "*", "min", "max")


def lane_prefixes(s: Stmt) -> Stmt:
    """A loop nest whose vectors compute their prefixes in log2(lanes) steps."""
    match s:
        case Block():
            return replace(s, body=tuple(lane_prefixes(c) for c in s.body))
        case For():
            found = _prefix(s)
            return replace(s, body=lane_prefixes(s.body)) if found is None else found
        case Promote():
            return replace(s, body=lane_prefixes(s.body))
        case If():
            otherwise = None if s.otherwise is None else lane_prefixes(s.otherwise)
            return replace(s, then=lane_prefixes(s.then), otherwise=otherwise)
        case _:
            return s


@dataclass(frozen=True, slots=True)
class _Counter:
    """The variables of one or two loops that count from 0 to before `end`, as `width * outer + inner`."""

    outer: str | None
    inner: str
    width: int
    end: int

    def is_counted(self, e: Expr) -> bool:
        """Whether an index is the number that the two loops count."""
        terms, constant = linear_terms(e)
        own = {Variable(self.inner): 1}
        if self.outer is not None:
            own[Variable(self.outer)] = self.width
        return constant == 0 and terms == own

    def counts_in(self, e: Expr) -> bool:
        """Whether an expression contains the variables only as that number."""
        names = {self.inner, self.outer} - {None}
        if self.outer is None or not names & variables(e):
            return True
        if isinstance(e, Load):
            return all(self.counts_in(x) for x in e.subscripts)
        if e.dtype.is_int and not isinstance(e, Cast):
            terms, _ = linear_terms(e)
            outer, inner = (terms.get(Variable(n), 0) for n in (self.outer, self.inner))
            others = [t for t in terms if not (isinstance(t, Variable) and t.name in names)]
            if others != [e]:
                return outer == self.width * inner and all(self.counts_in(t) for t in others)
        return not isinstance(e, Variable) and all(self.counts_in(x) for x in children(e))


def _counters(s: For) -> list[tuple[_Counter, Stmt]]:
    """The counters that one loop, or two nested ones, may be, each with the statement inside."""
    out: list[tuple[_Counter, Stmt]] = []
    if not _counts(s):
        return out
    assert isinstance(s.upper, IntImm)
    inner = s.body
    if isinstance(inner, For) and _counts(inner):
        assert isinstance(inner.upper, IntImm)
        width = inner.upper.value
        out.append((_Counter(s.var, inner.var, width, s.upper.value * width), inner.body))
    out.append((_Counter(None, s.var, 1, s.upper.value), inner))
    return out


def _counts(s: For) -> bool:
    kinds = (LoopKind.SERIAL, LoopKind.UNROLLED)
    return s.kind in kinds and s.lower == ZERO and s.step == 1 and isinstance(s.upper, IntImm)


def _prefix(s: For) -> Stmt | None:
    """The vector loops of a loop that combines the elements of their prefixes one by one; None for other
    loops."""
    for counter, body in _counters(s):
        found = _vectors(body, counter)
        if found is not None:
            return found
    return None


def _vectors(s: Stmt, counter: _Counter) -> Stmt | None:
    """The statement with the loop of the counter moved inside of its vector loops; None unless it consists of
    such vector loops alone."""
    match s:
        case Block():
            parts = [_vectors(c, counter) for c in s.body]
            whole = [p for p in parts if p is not None]
            return replace(s, body=tuple(whole)) if len(whole) == len(parts) else None
        case For(kind=LoopKind.UNROLLED):
            body = _vectors(s.body, counter)
            return None if body is None else replace(s, body=body)
        case For(kind=LoopKind.VECTOR, body=If(then=Compute(), otherwise=None) as branch):
            if not _is_prefix(s, branch, counter):
                return None
            q = Variable(counter.inner)
            values: dict[str, Expr] = {} if counter.outer is None else {counter.outer: ZERO}
            inside = substituted(branch, values)
            return replace(s, body=For(q.name, ZERO, IntImm(counter.end), 1, LoopKind.PREFIX, inside))
        case _:
            return None


def _is_prefix(s: For, branch: If, counter: _Counter) -> bool:
    """Whether the lanes of a vector loop combine the elements up to their own number, by the counter."""
    c, condition = branch.then, branch.condition
    assert isinstance(c, Compute)
    own = {counter.inner} if counter.outer is None else {counter.inner, counter.outer}
    if not isinstance(condition, LE | LT) or not isinstance(condition.b, FloorMod):
        return False
    width = condition.b.b
    if not isinstance(width, IntImm) or not counter.is_counted(condition.a) or own & variables(condition.b):
        return False
    lanes = _lanes(s)
    reached = counter.end >= lanes - isinstance(condition, LT)  # by the last lane
    written = set[str]().union(*(variables(x) for x in c.subscripts))
    return (
        1 < lanes <= width.value
        and reached
        and s.step == 1
        and _starts_a_chunk(s, condition.b.a, width.value)
        and c.op in _OPERATIONS
        and s.var in written
        and not own & written
        and not any(isinstance(x, Load) and x.buffer == c.buffer for x in walk(c.value))
        and counter.counts_in(c.value)
        and _is_same_in_a_chunk(s, c.value, width.value)
        and all(counter.counts_in(x) for x in c.point)
    )


def _is_same_in_a_chunk(s: For, e: Expr, width: int) -> bool:
    """Whether a value is the same in all lanes: it contains the variable only in the number of the chunk."""
    if s.var not in variables(e):
        return True
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0 and e.b.value % width == 0:
        return _starts_a_chunk(s, e.a, width)
    return not isinstance(e, Variable) and all(_is_same_in_a_chunk(s, x, width) for x in children(e))


def _lanes(s: For) -> int:
    """The width of a vector loop; 0 if that is not known."""
    trips = simplify(Sub(s.upper, s.lower), exact=True)
    if s.lanes or not isinstance(trips, IntImm):
        return s.lanes
    return 1 << max(0, trips.value - 1).bit_length()


def _starts_a_chunk(s: For, place: Expr, width: int) -> bool:
    """Whether lane 0 is the first of `width` elements of a chunk, and lane i the i-th."""
    terms, _ = linear_terms(place)
    if {t: f for t, f in terms.items() if s.var in variables(t)} != {Variable(s.var): 1}:
        return False
    first, constant = linear_terms(simplify(substitute(place, {s.var: s.lower}), exact=True))
    return constant % width == 0 and all(f % width == 0 for f in first.values())
