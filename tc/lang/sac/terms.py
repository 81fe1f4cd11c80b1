"""Scalar expressions while a SaC program is elaborated, and arithmetic on extents and indices.

They are those of `tc.lang.resolved` and two more: an element of an array that is not read from memory
(`Pick`) and a reduction (`Reduce`).  Index variables have names of their own throughout a program, so that
substitution captures nothing.  Extents, bounds and subscripts are exact integers; `simplify` brings them to
a sum of products of whole numbers with atoms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from tc.dtypes import BOOL, INT32, DType
from tc.errors import Span
from tc.lang import resolved as r

if TYPE_CHECKING:
    from tc.lang.sac.arrays import Array


@dataclass(frozen=True, slots=True)
class Pick:
    """Element `index` of an array, with `env` for names that are free in the array."""

    array: Array
    index: tuple[Exp, ...]
    env: tuple[tuple[str, Exp], ...] = ()
    span: Span = field(compare=False, repr=False, default=cast("Any", None))
    dtype: DType | None = field(compare=False, repr=False, default=None)


@dataclass(frozen=True, slots=True)
class Part:
    """The instances of a reduction: a box of variables `(name, low, end)`, cut by conditions."""

    variables: tuple[tuple[str, Exp, Exp], ...]
    conditions: tuple[Exp, ...]
    value: Exp


@dataclass(frozen=True, slots=True)
class Reduce:
    op: str  # + * min max
    parts: tuple[Part, ...]
    element: DType
    span: Span = field(compare=False, repr=False, default=cast("Any", None))
    dtype: DType | None = field(compare=False, repr=False, default=None)


Exp = r.Exp | Pick | Reduce


def children(e: Exp) -> tuple[Exp, ...]:
    match e:
        case Pick():
            return (*e.index, *(v for _, v in e.env))
        case Reduce():
            return tuple(x for p in e.parts for x in _of_part(p))
        case _:
            return r.children(e)


def _of_part(p: Part) -> tuple[Exp, ...]:
    return (p.value, *p.conditions, *(b for _, lo, hi in p.variables for b in (lo, hi)))


def rebuild(e: Exp, f: Callable[[Any], Any]) -> Any:
    match e:
        case Pick():
            env = tuple((n, f(v)) for n, v in e.env)
            return replace(e, index=tuple(map(f, e.index)), env=env)
        case Reduce():
            return replace(e, parts=tuple(_rebuilt(p, f) for p in e.parts))
        case _:
            return r.rebuild(e, f)


def _rebuilt(p: Part, f: Callable[[Any], Any]) -> Part:
    variables = tuple((n, f(lo), f(hi)) for n, lo, hi in p.variables)
    return Part(variables, tuple(map(f, p.conditions)), f(p.value))


def walk(e: Exp) -> Iterator[Exp]:
    left = [e]
    while left:
        e = left.pop()
        yield e
        left += reversed(children(e))


def free(e: Exp) -> set[str]:
    """The names of index variables in an expression, those of its own reductions left out."""
    out: set[str] = set()
    bound: set[str] = set()
    seen: set[int] = set()
    left = [e]
    while left:
        x = left.pop()
        match x:
            case r.Index():
                out.add(x.name)
            case Pick():
                known = {n for n, _ in x.env}
                out |= x.array.free_names() - known
                left += children(x)
            case Reduce():
                if id(x) not in seen:
                    seen.add(id(x))
                    bound |= {n for p in x.parts for n, _, _ in p.variables}
                    left += children(x)
            case _:
                left += children(x)
    return out - bound


def substitute(e: Exp, values: Mapping[str, Exp]) -> Any:
    """`e` with index variables replaced."""
    if not values:
        return e
    match e:
        case r.Index():
            return values.get(e.name, e)
        case r.Const() | r.Size() | r.Scalar():
            return e
        case Pick():
            inner = {n: substitute(v, values) for n, v in e.env}
            outside = e.array.free_names()
            inner |= {n: v for n, v in values.items() if n in outside and n not in inner}
            index = tuple(substitute(i, values) for i in e.index)
            if e.array.items is not None and len(index) == 1 and not e.array.stored:
                k = number(simplify(index[0]))
                if k is not None and 0 <= k < len(e.array.items):
                    return substitute(e.array.items[k], inner)
            return replace(e, index=index, env=tuple(sorted(inner.items(), key=lambda kv: kv[0])))
        case _:
            return rebuild(e, lambda c: substitute(c, values))


_SERIAL = count()


def serial() -> int:
    """A number for a new name."""
    return next(_SERIAL)


# ---- exact integers


def const(value: int | float, span: Span) -> r.Const:
    return r.Const(value, False, span)


def number(e: Exp) -> int | None:
    """The value of an expression that is a whole number."""
    return e.value if isinstance(e, r.Const) and type(e.value) is int else None


_LOCAL = threading.local()


@contextmanager
def remembering() -> Generator[None]:
    """Minima and maxima, which nest in one another, are simplified once in the body."""
    outer = getattr(_LOCAL, "extremes", None)
    _LOCAL.extremes = {}
    try:
        yield
    finally:
        _LOCAL.extremes = outer


Linear = tuple[tuple[tuple[Any, int], ...], int]  # ((atom, coefficient), …), constant


def linear(e: Exp) -> tuple[dict[Any, int], int]:
    """An integer expression as a sum of atoms times whole numbers, and a whole number."""
    match e:
        case r.Const() if type(e.value) is int:
            return {}, e.value
        case r.Unary(op="-"):
            return _scaled(linear(e.operand), -1)
        case r.Binary(op="+" | "-"):
            return _sum(linear(e.left), _scaled(linear(e.right), 1 if e.op == "+" else -1))
        case r.Binary(op="*"):
            a, b = linear(e.left), linear(e.right)
            if not a[0] or not b[0]:
                return _scaled(b, a[1]) if not a[0] else _scaled(a, b[1])
            return {_product(a, b, e.span): 1}, 0
        case r.Apply(function="min" | "max"):
            known: dict[Any, tuple[dict[Any, int], int]] | None = getattr(_LOCAL, "extremes", None)
            if known is None:
                return _extreme(e)
            found = known.get(e)
            if found is None:
                found = known[e] = _extreme(e)
            return dict(found[0]), found[1]
        case r.Binary(op="/" | "%"):
            a, b = simplify(e.left), simplify(e.right)
            x, y = number(a), number(b)
            if x is not None and y is not None:
                return {}, 0 if y == 0 else x // y if e.op == "/" else x % y
            if y == 1:
                return linear(a) if e.op == "/" else ({}, 0)
            return {replace(e, left=a, right=b): 1}, 0
        case r.Binary(op="quo" | "rem"):
            return linear(truncated("/" if e.op == "quo" else "%", e.left, e.right, e.span))
        case _:
            return {e: 1}, 0


def truncated(op: str, x: Any, y: Any, span: Span) -> Any:
    """A quotient or remainder of exact integers towards zero, from those that round down; by 0 it is 0."""
    if not_negative(x, {}) and not_negative(y, {}):
        return r.Binary(op, x, y, span)
    zero = const(0, span)

    def quotient(divisor: Any) -> Any:
        up, down = (r.Binary("/", greatest(s, zero), divisor, span) for s in (x, minus(zero, x)))
        return r.Binary("-", up, down, span)

    if not_negative(y, {}):
        found, size = quotient(y), y
    else:
        left, right = greatest(y, zero), greatest(minus(zero, y), zero)
        found, size = r.Binary("-", quotient(left), quotient(right), span), greatest(left, right)
    if op == "/":
        return found
    known = number(y)
    dividend = x if known else times(x, least(size, const(1, span)))
    return r.Binary("-", dividend, r.Binary("*", found, y, span), span)


def _product(a: tuple[dict[Any, int], int], b: tuple[dict[Any, int], int], span: Span) -> Any:
    left, right = sorted((written(*a, span), written(*b, span)), key=repr)
    return r.Binary("*", left, right, span)


def _extreme(e: r.Apply) -> tuple[dict[Any, int], int]:
    """min or max: folded where the operands differ by a known number or by what is known not to be
    negative."""
    least = e.function == "min"
    kept: list[Any] = []
    for a in map(simplify, e.args):
        if isinstance(a, r.Apply) and a.function == e.function:
            new = list(a.args)
        else:
            new = [a]
        for x in new:
            if any(_at_most(k, x) if least else _at_most(x, k) for k in kept):
                continue
            kept = [k for k in kept if not (_at_most(x, k) if least else _at_most(k, x))]
            kept.append(x)
    if len(kept) == 1:
        return linear_atom(kept[0])
    return {r.Apply(e.function, tuple(sorted(kept, key=repr)), e.span): 1}, 0


def linear_atom(e: Exp) -> tuple[dict[Any, int], int]:
    return ({e: 1}, 0) if isinstance(e, r.Apply) else linear(e)


def _at_most(a: Exp, b: Exp) -> bool:
    return not_negative(minus(b, a), {})


def _scaled(a: tuple[dict[Any, int], int], k: int) -> tuple[dict[Any, int], int]:
    return ({x: c * k for x, c in a[0].items()} if k else {}), a[1] * k


def _sum(a: tuple[dict[Any, int], int], b: tuple[dict[Any, int], int]) -> tuple[dict[Any, int], int]:
    out = dict(a[0])
    for x, c in b[0].items():
        out[x] = out.get(x, 0) + c
        if not out[x]:
            del out[x]
    return out, a[1] + b[1]


def written(terms: Mapping[Any, int], k: int, span: Span) -> Any:
    """The expression of a sum."""
    out: Any = None
    for x, c in terms.items():
        term = x if abs(c) == 1 else r.Binary("*", const(abs(c), span), x, span)
        if out is None:
            out = term if c > 0 else r.Unary("-", term, span)
        else:
            out = r.Binary("+" if c > 0 else "-", out, term, span)
    if out is None:
        return const(k, span)
    if k:
        out = r.Binary("+" if k > 0 else "-", out, const(abs(k), span), span)
    return out


def simplify(e: Exp) -> Any:
    return e if isinstance(e, r.Const | r.Index | r.Size) else written(*linear(e), e.span)


def plus(a: Exp, b: Exp) -> Any:
    return simplify(r.Binary("+", cast("r.Exp", a), cast("r.Exp", b), a.span))


def minus(a: Exp, b: Exp) -> Any:
    return simplify(r.Binary("-", cast("r.Exp", a), cast("r.Exp", b), a.span))


def times(a: Exp, b: Exp) -> Any:
    return simplify(r.Binary("*", cast("r.Exp", a), cast("r.Exp", b), a.span))


def least(*es: Exp) -> Any:
    return es[0] if len(es) == 1 else simplify(r.Apply("min", cast("Any", es), es[0].span))


def greatest(*es: Exp) -> Any:
    return es[0] if len(es) == 1 else simplify(r.Apply("max", cast("Any", es), es[0].span))


def same(a: Exp, b: Exp) -> bool:
    """Whether two extents are equal for all sizes."""
    return a == b or number(minus(a, b)) == 0


Ranges = Mapping[str, tuple[Exp, Exp]]  # of index variables: low and end


def not_negative(e: Exp, ranges: Ranges, depth: int = 6) -> bool:
    """Whether an integer is shown to be at least 0 for all sizes and all values of the variables; what is not
    in `ranges` is an index or a size, and at least 0."""
    terms, k = linear(e)
    if not terms:
        return k >= 0
    if k >= 0 and all(c > 0 and _natural(x) for x, c in terms.items()):
        return True
    if depth == 0:
        return False
    for x, c in terms.items():
        rest = written(*_sum((terms, k), ({x: -c}, 0)), e.span)

        def holds(a: Exp, c: int = c, rest: Any = rest) -> bool:
            return not_negative(plus(rest, times(const(c, e.span), a)), ranges, depth - 1)

        match x:
            case r.Apply(function="min" | "max"):
                every = (x.function == "min") == (c > 0)
                if (all if every else any)(map(holds, x.args)):
                    return True
            case r.Index() if x.name in ranges:
                lo, hi = ranges[x.name]
                if holds(lo if c > 0 else minus(hi, const(1, e.span))):
                    return True
            case _:
                pass
    return False


def _natural(x: Any) -> bool:
    match x:
        case r.Index() | r.Size():
            return True
        case r.Apply(function="min"):
            return all(not_negative(a, {}) for a in x.args)
        case r.Apply(function="max"):
            return any(not_negative(a, {}) for a in x.args)
        case r.Binary(op="*"):
            return not_negative(x.left, {}) and not_negative(x.right, {})
        case r.Binary(op="/"):
            return not_negative(x.left, {}) and not_negative(x.right, {})
        case r.Binary(op="%"):
            return not_negative(x.right, {})
        case _:
            return False


def extreme(e: Exp, ranges: Ranges, upper: bool, names: set[str] | None = None, loose: bool = False) -> Any:
    """The greatest or least value of an integer over the variables in `ranges` (or `names` of them), where
    it is a sum of them, minima and maxima; None where it is more.  `loose`: a bound on it will do, so that
    quotients and remainders may be among them."""
    for _ in range(40):
        terms, k = linear(e)
        inside = [
            (x, c)
            for x, c in terms.items()
            if any(
                isinstance(y, r.Index) and y.name in ranges and (names is None or y.name in names)
                for y in walk(x)
            )
        ]
        if not inside:
            return e
        x, c = inside[0]
        rest = written(*_sum((terms, k), ({x: -c}, 0)), e.span)
        up = upper == (c > 0)
        value: Any = None
        match x:
            case r.Index():
                lo, hi = ranges[x.name]
                value = minus(hi, const(1, e.span)) if up else lo
            case r.Apply(function="min" | "max"):
                bounds = [extreme(a, ranges, up, names, loose) for a in x.args]
                if None in bounds:
                    return None
                value = least(*bounds) if x.function == "min" else greatest(*bounds)
            case r.Binary(op="/") if (number(x.right) or 0) > 0:
                inner = extreme(x.left, ranges, up, names, loose)
                if inner is None:
                    return None
                value = simplify(replace(x, left=inner))
            case r.Binary(op="%") if loose and not_negative(x.right, {}) and not free(x.right):
                zero = const(0, e.span)
                value = greatest(minus(x.right, const(1, e.span)), zero) if up else zero
            case r.Binary(op="/") if loose and not_negative(x.right, {}):
                # A quotient by what is at least 1 lies between 0 and its dividend; one by 0 is 0.
                inner = extreme(x.left, ranges, up, names, loose)
                if inner is None:
                    return None
                value = (greatest if up else least)(inner, const(0, e.span))
            case _:
                return None
        e = plus(rest, times(const(c, e.span), value))
    return None


def relation(op: str, a: Any, b: Any, span: Span) -> r.Binary:
    return r.Binary(op, a, b, span)


def conjunction(conditions: list[Any], span: Span) -> Any:
    out: Any = None
    for c in conditions:
        out = c if out is None else r.Binary("&&", out, c, span)
    return r.Const(1, False, span) if out is None else out


def index(name: str, span: Span) -> r.Index:
    return r.Index(name, span, INT32)


def truth(value: bool, span: Span) -> r.Exp:
    return r.Cast(BOOL, const(int(value), span), True, span)
