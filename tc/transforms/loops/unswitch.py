"""Loop unswitching: a condition that has one value at all points of a tile is tested once for the tile.

Many conditions matter at few points only: at the edges of an image, on the diagonal of a triangle.  A
condition over affine forms of loop variables holds at all points of an inner loop nest if the least or
greatest values of its forms satisfy it, and at none if they violate it; these values are affine in the outer
variables.  So a nest of inner loops becomes

    if (the condition holds at all points)      the loops without it
    else if (it holds at none)                  the loops without what it guards, or nothing
    else                                        the loops as they were

(Allen and Cocke, 1971, on intervals instead of invariants.)  The test is placed inside of the serial loops
that the condition varies with, and outside of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tc.ir.expr import (
    EQ,
    FALSE,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    TRUE,
    Add,
    And,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
    constant,
    rebuild,
    variables,
    walk,
)
from tc.ir.loops import Block, Compute, For, If, LoopKind, Promote, Stmt, statements
from tc.ir.simplify import from_terms, simplify

Interval = tuple[int, int]

_SERIAL = (LoopKind.SERIAL, LoopKind.PARALLEL)
_LARGEST = 1 << 48  # a size; sums of a few do not wrap around in 64 bits
_ANY: Interval = (-_LARGEST, _LARGEST)
_PRODUCT = " * "  # joins two variables, such as a tile's number and its length, to one term of a form
_NAMES = ""  # a key of ranges: loops of one iteration, which only name a value, have an unbounded range
_MOST_COPIES = 512  # emitted statements, beyond which conditions on tiles of unknown length stay
_MOST = 2  # tests that are decided one by one, each by up to three copies of a loop


def unswitch(s: Stmt, sizes: Sequence[str] = ()) -> Stmt:
    """A loop nest that tests conditions once for all points of inner loops, where that is possible; `sizes`
    are symbolic.  Conditions on tiles of unknown length are left where they would need too much code."""
    ranges = dict.fromkeys(sizes, (0, _LARGEST))
    found = _visit(s, {**ranges, _NAMES: _ANY})
    return found if _copies(found) <= _MOST_COPIES else _visit(s, ranges)


def _visit(s: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
    """Outer loops, down to where elements are promoted or no loop is serial."""
    match s:
        case Block():
            return replace(s, body=tuple(_visit(c, ranges) for c in s.body))
        case If():
            otherwise = None if s.otherwise is None else _visit(s.otherwise, ranges)
            return replace(s, then=_visit(s.then, ranges), otherwise=otherwise)
        case For() if _serial(s) or any(isinstance(x, Promote) or _serial(x) for x in statements(s)):
            return replace(s, body=_visit(s.body, _below(ranges, s)))
        case _:
            return _split(s, ranges)


def _below(ranges: Mapping[str, Interval], s: For) -> dict[str, Interval]:
    """The ranges inside a loop.  A loop of one iteration only names a value, which may be any."""
    found = within(ranges, s)
    once = s.upper == simplify(Add(s.lower, IntImm(1)), exact=True) or s.upper == Add(s.lower, IntImm(1))
    if s.var not in found and once and _NAMES in ranges:
        found[s.var] = _ANY
    return found


def _serial(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind in _SERIAL


def _split(s: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
    """The loops of `s`, with tests of conditions above the loops that these do not vary with."""
    inner = [x for x in statements(s) if isinstance(x, For)]
    known = dict(ranges)
    lost: set[str] = set()
    for x in inner:
        known = {**_below(known, x), **within(known, x, known.get(x.var))}
        lost |= {x.var} - set(known)
    known = {v: r for v, r in known.items() if v not in lost}
    found = _conditions(s, known)
    if not inner or not found:
        return s
    used = {v for c in found for v in variables(c)}
    for x in reversed(inner):  # a loop varies with the variables in its bounds
        if x.var in used:
            used |= variables(x.lower) | variables(x.upper)
    if any(_serial(x) and x.var in used for x in inner):
        match s:
            case Block():
                return replace(s, body=tuple(_split(c, ranges) for c in s.body))
            case For():
                return replace(s, body=_split(s.body, _below(ranges, s)))
            case Promote():
                return replace(s, body=_split(s.body, ranges))
            case _:
                return s
    return _interior(s, found, _Box(tuple(inner), known))


def _copies(s: Stmt) -> int:
    """The number of statements in the emitted code, with unrolled loops written out."""
    match s:
        case Block():
            return sum(map(_copies, s.body))
        case For():
            trips = constant(simplify(Sub(s.upper, s.lower), exact=True))
            unrolled = s.kind is LoopKind.UNROLLED and isinstance(trips, int)
            return _copies(s.body) * (max(0, -(-int(trips or 0) // s.step)) if unrolled else 1)
        case If():
            return _copies(s.then) + (0 if s.otherwise is None else _copies(s.otherwise))
        case Promote():
            return _copies(s.body)
        case _:
            return 1


def _interior(s: Stmt, conditions: Sequence[Expr], box: _Box) -> Stmt:
    """`s` with tests of conditions: of each, or of all of them together where there are more than `_MOST` and
    all of them may hold.  Conditions that the same tests decide count as one.

    The interior of an image then needs one test, however many neighbours each point has.
    """
    alike = _alike(conditions, box)
    if len(alike) > _MOST:
        whole: Expr = TRUE
        for c in conditions:
            whole = And(whole, box.verdict(c)[0])
        whole = simplify(whole, exact=True)
        if whole != FALSE:
            return _if(whole, _all_assuming(s, conditions, TRUE), s)
    return _versioned(s, alike[:_MOST], box)


def _alike(conditions: Sequence[Expr], box: _Box) -> list[tuple[Expr, ...]]:
    """The conditions in groups that the same tests decide: those of several statements on one diagonal."""
    groups: dict[object, tuple[Expr, ...]] = {}
    for c in conditions:
        verdict = box.verdict(c)
        undecided = verdict == (FALSE, FALSE) or variables(c).isdisjoint(x.var for x in box.inner)
        key: object = c if undecided else verdict
        groups[key] = (*groups.get(key, ()), c)
    return list(groups.values())


def _versioned(s: Stmt, groups: Sequence[tuple[Expr, ...]], box: _Box) -> Stmt:
    """Copies of `s` in which the conditions of these groups are known, where the bounds of their forms decide
    them."""
    if not groups:
        return s
    group, later = groups[0], groups[1:]
    assumed = {v: _versioned(_all_assuming(s, group, v), later, box) for v in (TRUE, FALSE)}
    if not variables(group[0]) & {x.var for x in box.inner}:
        return _if(group[0], assumed[TRUE], assumed[FALSE])
    whole, none = box.verdict(group[0])
    # A similar condition on other loops may have the same bounds.
    yes = assuming(assumed[TRUE], whole, TRUE)
    return _if(whole, yes, assuming(_if(none, assumed[FALSE], _versioned(s, later, box)), whole, FALSE))


def _all_assuming(s: Stmt, conditions: Sequence[Expr], value: Expr) -> Stmt:
    for c in conditions:
        s = assuming(s, c, value)
    return s


def _if(condition: Expr, then: Stmt, otherwise: Stmt) -> Stmt:
    if condition == TRUE or then == otherwise:
        return then
    if condition == FALSE:
        return otherwise
    if then == Block(()):
        return If(simplify(Not(condition), exact=True), otherwise)
    return If(condition, then, None if otherwise == Block(()) else otherwise)


# Conditions.


def _conditions(s: Stmt, known: Mapping[str, Interval]) -> list[Expr]:
    """The conditions under a statement over loop variables alone, each once."""
    out: dict[Expr, None] = {}
    for x in statements(s):
        if isinstance(x, If):
            out[x.condition] = None
        elif isinstance(x, Compute):
            out.update((e.condition, None) for e in walk(x.value) if isinstance(e, IfThenElse | Select))
    return [c for c in out if variables(c) and variables(c) <= set(known) and not _reads(c)]


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in walk(e))


def assuming(s: Stmt, condition: Expr, value: Expr) -> Stmt:
    """A statement under the assumption that a condition has a value; empty loops are removed."""

    def of(e: Expr) -> Expr:
        e = value if e == condition else rebuild(e, of)
        match e:
            case IfThenElse(condition=UIntImm() as c):
                return e.then_value if c.value else e.else_value
            case Select(condition=UIntImm() as c) if not _reads(e.false_value if c.value else e.true_value):
                return e.true_value if c.value else e.false_value
            case _:
                return e

    match s:
        case Block():
            parts = tuple(p for p in (assuming(c, condition, value) for c in s.body) if p != Block(()))
            return parts[0] if len(parts) == 1 else Block(parts)
        case For() | Promote():
            body = assuming(s.body, condition, value)
            return body if body == Block(()) else replace(s, body=body)
        case If():
            then = assuming(s.then, condition, value)
            otherwise = Block(()) if s.otherwise is None else assuming(s.otherwise, condition, value)
            return _if(of(s.condition), then, otherwise)
        case Compute():
            return replace(s, value=of(s.value))
        case _:
            return s


# Bounds.


@dataclass(frozen=True, slots=True)
class _Form:
    """`sum(factor * variable) + constant`.  A product of two variables counts as one."""

    terms: Mapping[str, int]
    constant: int

    def plus(self, other: _Form, factor: int = 1) -> _Form:
        terms = dict(self.terms)
        for v, f in other.terms.items():
            terms[v] = terms.get(v, 0) + factor * f
        return _Form({v: f for v, f in terms.items() if f}, self.constant + factor * other.constant)


@dataclass(frozen=True, slots=True)
class _Box:
    """Inner loops, outermost first, whose points are decided together; the ranges of all variables."""

    inner: tuple[For, ...]
    ranges: Mapping[str, Interval]

    def verdict(self, c: Expr) -> tuple[Expr, Expr]:
        """Sufficient conditions, on variables outside, for a condition to hold at all points inside, and at
        none."""
        match c:
            case And() | Or():
                (a, not_a), (b, not_b) = self.verdict(c.a), self.verdict(c.b)
                both, either = (And, Or) if isinstance(c, And) else (Or, And)
                return simplify(both(a, b), exact=True), simplify(either(not_a, not_b), exact=True)
            case Not():
                whole, none = self.verdict(c.a)
                return none, whole
            case LT() | LE() | GT() | GE() | EQ() | NE():
                return self._comparison(c)
            case UIntImm():
                return (TRUE, FALSE) if c.value else (FALSE, TRUE)
            case _:
                return FALSE, FALSE

    def _comparison(self, c: LT | LE | GT | GE | EQ | NE) -> tuple[Expr, Expr]:
        a, b = _form(c.a, self.ranges), _form(c.b, self.ranges)
        if a is None or b is None:
            return FALSE, FALSE
        difference = a.plus(b, -1) if isinstance(c, GT | GE) else b.plus(a, -1)
        inside = {x.var for x in self.inner}
        if any(_PRODUCT in v and not inside.isdisjoint(v.split(_PRODUCT)) for v in difference.terms):
            return FALSE, FALSE
        low, high = self._end(difference, least=True), self._end(difference, least=False)
        if low is None or high is None:
            return FALSE, FALSE
        if isinstance(c, EQ | NE):
            same = simplify(And(self._at_least(low, 0), self._at_most(high, 0)), exact=True)
            apart = simplify(Or(self._at_least(low, 1), self._at_most(high, -1)), exact=True)
            return (same, apart) if isinstance(c, EQ) else (apart, same)
        least = 1 if isinstance(c, LT | GT) else 0
        return self._at_least(low, least), self._at_most(high, least - 1)

    def _at_least(self, f: _Form, bound: int) -> Expr:
        low, high = _interval(f, self.ranges)
        if low >= bound or high < bound:
            return TRUE if low >= bound else FALSE
        return GE(_expression(_Form(f.terms, f.constant - bound)), IntImm(0))

    def _at_most(self, f: _Form, bound: int) -> Expr:
        return self._at_least(_Form({}, 0).plus(f, -1), -bound)

    def _end(self, f: _Form, *, least: bool) -> _Form | None:
        """The least or greatest value over the points inside, as a form of the variables outside."""
        for loop in reversed(self.inner):  # bounds of inner loops may contain variables of outer ones
            factor = f.terms.get(loop.var, 0)
            if not factor:
                continue
            low, high = self._bounds(loop)
            if low is None or high is None:
                return None
            end = low if (factor > 0) == least else high.plus(_Form({}, -1))
            f = _Form({v: x for v, x in f.terms.items() if v != loop.var}, f.constant).plus(end, factor)
        return f

    def _bounds(self, loop: For) -> tuple[_Form | None, _Form | None]:
        """The bounds of a loop as forms; constant ones if several loops share its name."""
        if sum(x.var == loop.var for x in self.inner) > 1:
            low, high = self.ranges[loop.var]
            return _Form({}, low), _Form({}, high + 1)
        return _form(loop.lower, self.ranges), _form(loop.upper, self.ranges)


def _form(e: Expr, ranges: Mapping[str, Interval]) -> _Form | None:
    """An integer expression as a form, if it is computed without wrapping around."""
    out: _Form | None = None
    match e:
        case IntImm() | UIntImm():
            return _Form({}, e.value)
        case Variable() if e.name in ranges:
            out = _Form({e.name: 1}, 0)
        case Add() | Sub():
            a, b = _form(e.a, ranges), _form(e.b, ranges)
            if a is not None and b is not None:
                out = a.plus(b, 1 if isinstance(e, Add) else -1)
        case Mul():
            a, b = _form(e.a, ranges), _form(e.b, ranges)
            if isinstance(e.a, Variable) and isinstance(e.b, Variable) and e.dtype == INDEX:
                # Index arithmetic is exact.
                return None if a is None or b is None else _Form({f"{e.a.name}{_PRODUCT}{e.b.name}": 1}, 0)
            if a is not None and b is not None and not (a.terms and b.terms):
                a, b = (b, a) if b.terms else (a, b)
                out = _Form({}, 0).plus(a, b.constant)
        case Cast() if e.dtype.kind in ("int", "uint") and e.value.dtype.kind in ("int", "uint"):
            out = _form(e.value, ranges)
        case _:
            pass
    if out is None:
        return None
    low, high = _interval(out, ranges)
    bits = e.dtype.bits
    least, most = (0, 1 << bits) if e.dtype.kind == "uint" else (-(1 << (bits - 1)), 1 << (bits - 1))
    return out if least <= low and high < most else None


def _interval(f: _Form, ranges: Mapping[str, Interval]) -> Interval:
    """The range of a form over all loops."""
    low = high = f.constant
    for v, factor in f.terms.items():
        ends = [factor * x for x in (_ANY if _PRODUCT in v else ranges[v])]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _expression(f: _Form) -> Expr:
    return from_terms({_term(v): x for v, x in f.terms.items()}, f.constant)


def _term(v: str) -> Expr:
    names = v.split(_PRODUCT)
    return Variable(v) if len(names) == 1 else Mul(Variable(names[0]), Variable(names[1]))


def within(ranges: Mapping[str, Interval], s: For, also: Interval | None = None) -> dict[str, Interval]:
    """The ranges inside a loop, or inside another of the same name with the range `also`; without its
    variable if its bounds are unknown."""
    low, high = values(s.lower, ranges), values(s.upper, ranges)
    if low is None or high is None or high[1] <= low[0]:
        return {v: r for v, r in ranges.items() if v != s.var}
    least, last = low[0], high[1] - 1
    if also is not None:
        least, last = min(least, also[0]), max(last, also[1])
    return {**ranges, s.var: (least, last)}


def values(e: Expr, ranges: Mapping[str, Interval]) -> Interval | None:
    """The range of an expression such as a loop's bound; None if it is unknown."""
    match e:
        case Min() | Max():
            a, b = values(e.a, ranges), values(e.b, ranges)
            if a is None or b is None:
                return None
            pick = min if isinstance(e, Min) else max
            return pick(a[0], b[0]), pick(a[1], b[1])
        case FloorDiv(b=IntImm(value=k)) if k > 0:
            a = values(e.a, ranges)
            return None if a is None else (a[0] // k, a[1] // k)
        case FloorMod(b=IntImm(value=k)) if k > 0:
            return 0, k - 1
        case _:
            if (f := _form(e, ranges)) is not None:
                return _interval(f, ranges)
    if isinstance(e, Add):  # of what is not affine
        a, b = values(e.a, ranges), values(e.b, ranges)
        if a is not None and b is not None:
            return a[0] + b[0], a[1] + b[1]
    return None
