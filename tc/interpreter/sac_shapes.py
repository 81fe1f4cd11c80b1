"""What the SaC oracle knows without values: shapes, element types, and integers as sums of index variables.

It is the demand S of the paper's §6: the shape of a body is computed from shapes, so that an empty
generator reads nothing, and bounds of indices are found from the selections that they occur in (§5.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tc.dtypes import BOOL, INT32
from tc.errors import PreconditionError, RangeError, SemanticError, Span
from tc.interpreter.sac_values import Type, Value, settle
from tc.lang.sac import syntax as s

_UNKNOWN = count()


@dataclass(frozen=True, slots=True)
class Lin:
    """A sum of variables times whole numbers, and a whole number.  `#5` is an extent of 5."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    @property
    def number(self) -> int | None:
        """The value where no index is part of it."""
        known = self.constant
        for n, c in self.terms:
            if not n.startswith("#"):
                return None
            known += c * int(n[1:])
        return known

    def __add__(self, other: Lin) -> Lin:
        found = dict(self.terms)
        for n, c in other.terms:
            found[n] = found.get(n, 0) + c
        terms = tuple(sorted((n, c) for n, c in found.items() if c))
        return Lin(terms, self.constant + other.constant)

    def times(self, k: int) -> Lin:
        return Lin(tuple((n, c * k) for n, c in self.terms), self.constant * k) if k else Lin()


def extent(n: int) -> Lin:
    """An extent that is told from the same number in the source, for what has to hold for all sizes."""
    return Lin(((f"#{n}", 1),))


def unknown() -> Lin:
    """A number of which nothing is known."""
    return Lin(((f"?{next(_UNKNOWN)}", 1),))


When = tuple[tuple[Lin, ...], tuple[Lin, ...]]


@dataclass(frozen=True, slots=True)
class Abstract:
    """`items`: the integers of a scalar or vector, as far as they are known.  `value`: the whole of it, where
    no index is part of it.  `symbols`: the index variables that it is the value of.  `whens`: of conditions
    the integers that are not negative where each is true, and where it is false."""

    shape: tuple[Lin, ...]
    dtype: Type
    items: tuple[Lin, ...] | None = None
    value: Value | None = field(default=None, compare=False, repr=False)
    symbols: tuple[Lin, ...] = field(default=(), compare=False, repr=False)
    whens: tuple[When, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def rank(self) -> int:
        return len(self.shape)


def of_value(v: Value) -> Abstract:
    items = None
    if v.data.dtype.kind in "iu" and v.data.ndim <= 1:
        items = tuple(Lin((), int(x)) for x in v.data.ravel())
    symbols = tuple(Lin(((n, 1),)) for n in v.symbols)
    return Abstract(tuple(Lin((), n) for n in v.shape), v.dtype, items, v, symbols)


Env = Mapping[str, Abstract]


@dataclass(frozen=True, slots=True)
class Part:
    """A partition: names of its variables, its set, its body, and what each axis of the frame is: a
    variable's number, or -1 for one of the body."""

    names: tuple[str, ...]
    low: tuple[Lin, ...]
    end: tuple[Lin, ...]
    body: Abstract
    axes: tuple[int, ...]
    step: tuple[int, ...] = ()
    width: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    parts: tuple[Part, ...]
    frame: tuple[Lin, ...]
    cell: tuple[Lin, ...]
    dtype: Type


@dataclass(slots=True)
class Trace:
    """Selections of a body: extents, subscripts, and 0 where they stand below no condition, 2 where it alone
    keeps them in bounds, 1 below others."""

    found: list[tuple[Lin, Lin, int]] = field(default_factory=list[tuple[Lin, Lin, int]])


Known = Mapping[str, tuple[Lin, Lin]]  # low and end of variables


def extreme(e: Lin, known: Known, upper: bool) -> Lin | None:
    """The greatest or least value of a sum; None where a variable has no range."""
    for _ in range(40):
        open_terms = [(n, c) for n, c in e.terms if n in known]
        if not open_terms:
            return None if any(n.startswith("?") or n.startswith("!") for n, _ in e.terms) else e
        n, c = open_terms[0]
        lo, hi = known[n]
        value = hi + Lin((), -1) if upper == (c > 0) else lo
        e = e + Lin(((n, -c),)) + value.times(c)
    return None


def infer(names: Sequence[str], trace: Trace, known: Known) -> dict[str, tuple[Lin, Lin]]:
    """Intervals of variables, in rounds, as the contract says (§3 of SAC.md)."""
    out: dict[str, tuple[Lin, Lin]] = {}
    for turn in range(3):
        while True:
            new: dict[str, list[tuple[Lin, Lin]]] = {}
            for extent, subscript, below in trace.found:
                if below > turn:
                    continue
                bound = _bound(extent, subscript, names, {**known, **out})
                if bound is not None:
                    new.setdefault(bound[0], []).append(bound[1])
            if not new:
                break
            for n, intervals in new.items():
                lows = [a.number for a, _ in intervals]
                ends = [b.number for _, b in intervals]
                if None in lows or None in ends:
                    out[n] = intervals[0] if len(set(intervals)) == 1 else (Lin(), unknown())
                else:
                    out[n] = (Lin((), max(x or 0 for x in lows)), Lin((), min(x or 0 for x in ends)))
    return out


def _bound(
    extent: Lin, subscript: Lin, names: Sequence[str], known: Known
) -> tuple[str, tuple[Lin, Lin]] | None:
    mine = [n for n, _ in subscript.terms if n in names and n not in known]
    if len(mine) != 1:
        return None
    c = dict(subscript.terms)[mine[0]]
    rest = subscript + Lin(((mine[0], -c),))
    if any(n not in known and not n.startswith("#") for n, _ in rest.terms):
        return None
    least, most = extreme(rest, known, False), extreme(rest, known, True)
    if least is None or most is None:
        return None
    below, above = least.times(-1), extent + Lin((), -1) + most.times(-1)
    if c == 1 and (below.number is None or above.number is None):
        return mine[0], (
            below if below.number is None else Lin((), max(below.number, 0)),
            above + Lin((), 1),
        )
    if below.number is None or above.number is None:
        return None
    lo, hi = below.number, above.number
    if c < 0:
        lo, hi, c = -hi, -lo, -c
    return mine[0], (Lin((), max(0, -(-lo // c))), Lin((), hi // c + 1))


def homogeneous(shape: Sequence[Lin], names: Sequence[str], span: Span) -> None:
    for n in shape:
        for v, _ in n.terms:
            if v in names:
                raise SemanticError("the shape of this body depends on the index", span, code="TC0263")
            if v.startswith("?"):
                raise SemanticError("the shape of this body depends on values", span, code="TC0257")


def unbounded(name: str, index: s.Pattern) -> RangeError:
    return RangeError(f"nothing bounds '{name.split('#')[0]}'", index.span, code="TC0350")


def axes_of(index: s.Pattern, rank: int, n: int, span: Span) -> tuple[int, ...]:
    """For each axis of the frame its variable, or -1 for the next axis of the body."""
    if index.name is not None or not any(x.dot for x in index.slots):
        return tuple(range(n))
    single = sum(x.name == "." for x in index.slots)
    triple = any(x.name == "..." for x in index.slots)
    if rank < single or (not triple and rank != single):
        raise SemanticError("dots without axes", span, code="TC0264")
    out: list[int] = []
    v = 0
    for x in index.slots:
        if not x.dot:
            out.append(v)
            v += 1
        else:
            out += [-1] * (1 if x.name == "." else rank - single)
    return tuple(out)


def choose(functions: Sequence[s.Function], args: Sequence[tuple[int, Type]]) -> s.Function | None:
    """The most specific overload for ranks and types."""
    found: list[tuple[tuple[int, int], s.Function]] = []
    for f in functions:
        if len(f.params) != len(args):
            continue
        score = [0, 0]
        for p, (rank, dtype) in zip(f.params, args, strict=True):
            d = p.type.dims
            if not (d == "*" or (d == "+" and rank) or (p.type.rank == rank)):
                break
            if (settle(dtype) == BOOL) != (p.type.dtype == BOOL):
                break
            if settle(dtype).is_float and not p.type.dtype.is_float:
                break
            score[0] += 3000 if d == "*" else 2000 if d == "+" else sum(n is None for n in d or ())
            score[1] += 0 if dtype == p.type.dtype else 1 + p.type.dtype.bits
        else:
            found.append(((score[0], score[1]), f))
    return min(found, key=lambda x: x[0])[1] if found else None


def brought(p: Part) -> int:
    return sum(v < 0 for v in p.axes)


def folded(name: str, known: Sequence[int]) -> int:
    if name == "mod":
        return known[0] % known[1] if known[1] else 0
    return abs(known[0]) if name == "abs" else min(known) if name == "min" else max(known)


def bound_env(env: Env, index: s.Pattern, values: Sequence[Lin]) -> dict[str, Abstract]:
    out = dict(env)
    if index.name is not None:
        out[index.name] = Abstract((Lin((), len(values)),), INT32, tuple(values))
    else:
        for x, v in zip(index.variables, values, strict=True):
            out[x.name] = Abstract((), INT32, (v,))
    return out


def taken(items: Sequence[Lin], a: Abstract, drops: bool, span: Span) -> Abstract:
    """`take` or `drop` of an array."""
    if len(items) > a.rank:
        raise SemanticError("more counts than axes", span, code="TC0254")
    shape: list[Lin] = []
    start: list[int | None] = []
    for n, extent in zip(items, a.shape, strict=False):
        k, size = n.number, extent.number
        if k is None or (size is None and drops):
            shape.append(unknown())
            start.append(None)
        elif drops:
            shape.append(Lin((), max(0, (size or 0) - abs(k))))
            start.append(max(k, 0))
        else:
            if size is not None and abs(k) > size:
                raise PreconditionError("take beyond the extent", span, code="TC0601")
            shape.append(Lin((), abs(k)))
            start.append(0 if k >= 0 else None if size is None else size + k)
    items_out = None
    if a.rank == 1 and a.items is not None and shape and start[0] is not None and shape[0].number is not None:
        items_out = a.items[start[0] : start[0] + shape[0].number]
    return Abstract((*shape, *a.shape[len(items) :]), a.dtype, items_out)
