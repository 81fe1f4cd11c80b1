"""Where the subscripts of a specialised program can lie, by interval arithmetic.

    Interval ::= (int, int)     both ends inclusive; None: not known (a size is still a symbol)

Each occurrence of a variable is bounded on its own.  That is no tighter than Halide's bounds inference: what
is inside a box here is inside it there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tc.ir import expr as x
from tc.ir.expr import INDEX, Expr
from tc.ir.program import Box

# A sum of so many int32 indices does not wrap around: larger arrays have int64 indices.
INT32_SUMMANDS = 4

Interval = tuple[int, int]
Intervals = Mapping[str, "Interval | None"]

INT32: Interval = (-(1 << 31), (1 << 31) - 1)


def within(a: Interval, b: Interval) -> bool:
    """Whether every number of `a` is in `b`."""
    return b[0] <= a[0] and a[1] <= b[1]


def box_interval(box: Box, d: int) -> Interval | None:
    """The coordinates of dimension `d` of a box; None while symbolic.  Ends cross where it is empty."""
    lo, extent = x.constant(box[d].min), x.constant(box[d].extent)
    return None if lo is None or extent is None else (int(lo), int(lo) + int(extent) - 1)


def is_index(e: Expr, names: Intervals) -> bool:
    """Whether an expression is integer arithmetic on index variables and sizes alone, without data."""
    match e:
        case x.IntImm():
            return e.dtype == INDEX
        case x.UIntImm():
            return e.dtype.is_bool
        case x.Variable():
            return e.dtype == INDEX and e.name in names
        case x.Cast():  # an integer scalar of the call that sizes a range
            return e.dtype == INDEX and isinstance(e.value, x.Variable) and e.value.name in names
        case (
            x.Add() | x.Sub() | x.Mul() | x.FloorDiv() | x.FloorMod() | x.Min() | x.Max()
            | x.EQ() | x.NE() | x.LT() | x.LE() | x.GT() | x.GE() | x.And() | x.Or() | x.Not() | x.Select()
        ):  # fmt: skip
            return all(is_index(c, names) for c in x.children(e))
        case _:
            return False


def interval(e: Expr, names: Intervals) -> Interval | None:
    """The values of an `is_index` expression of type `INDEX`."""
    match e:
        case x.IntImm():
            return (e.value, e.value)
        case x.Variable():
            return names[e.name]
        case x.Add() | x.Sub() | x.Mul() | x.Min() | x.Max() | x.FloorDiv() | x.FloorMod():
            a, b = interval(e.a, names), interval(e.b, names)
            return None if a is None or b is None else _binary(e, a, b)
        case x.Select():
            a, b = interval(e.true_value, names), interval(e.false_value, names)
            return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
        case _:
            return None


def _binary(e: Expr, a: Interval, b: Interval) -> Interval | None:
    match e:
        case x.Add():
            return (a[0] + b[0], a[1] + b[1])
        case x.Sub():
            return (a[0] - b[1], a[1] - b[0])
        case x.Mul():
            ends = [p * q for p in a for q in b]
            return (min(ends), max(ends))
        case x.Min():
            return (min(a[0], b[0]), min(a[1], b[1]))
        case x.Max():
            return (max(a[0], b[0]), max(a[1], b[1]))
        case x.FloorDiv() if b[0] > 0:
            ends = [p // q for p in a for q in b]
            return (min(ends), max(ends))
        case x.FloorDiv():
            size = max(abs(a[0]), abs(a[1]))
            return (-size, size)
        case x.FloorMod():
            return (min(b[0] + 1, 0), max(b[1] - 1, 0))
        case _:
            return None


def fits_int32(e: Expr, names: Intervals) -> bool:
    """Whether no part of an `is_index` expression can leave int32; true while sizes are symbols."""
    found = interval(e, names) if e.dtype == INDEX else None
    if found is not None and not within(found, INT32):
        return False
    return all(fits_int32(c, names) for c in x.children(e))


def is_affine(e: Expr, names: Intervals) -> bool:
    """Whether Halide bounds an `is_index` expression exactly: sums and constant multiples of variables."""
    match e:
        case x.IntImm() | x.Variable() | x.Cast():
            return True
        case x.Add() | x.Sub():
            return is_affine(e.a, names) and is_affine(e.b, names)
        case x.Mul():
            fixed = [not any(isinstance(n, x.Variable) for n in x.walk(c)) for c in (e.a, e.b)]
            return any(fixed) and is_affine(e.a, names) and is_affine(e.b, names)
        case _:
            return False


def compared(e: x.LT | x.LE | x.GT | x.GE | x.EQ | x.NE, a: Interval, b: Interval) -> bool | None:
    """The result of a comparison for any numbers of two intervals, if their difference decides it; else
    None."""
    low, high = a[0] - b[1], a[1] - b[0]
    match e:
        case x.LT():
            holds, fails = high < 0, low >= 0
        case x.LE():
            holds, fails = high <= 0, low > 0
        case x.GT():
            holds, fails = low > 0, high <= 0
        case x.GE():
            holds, fails = low >= 0, high < 0
        case x.EQ():
            holds, fails = low == high == 0, low > 0 or high < 0
        case x.NE():
            holds, fails = low > 0 or high < 0, low == high == 0
    return True if holds else False if fails else None


Ends = tuple[int | None, int | None]


def ends(e: Expr, sizes: Collection[str]) -> Ends:
    """The least and the greatest value of an index expression, None where that is not known.  Sizes are not
    negative."""
    match e:
        case x.IntImm():
            return e.value, e.value
        case x.Variable():
            return (0 if e.name in sizes else None), None
        case x.Add() | x.Sub():
            (a, b), (c, d) = ends(e.a, sizes), ends(e.b, sizes)
            if isinstance(e, x.Sub):
                c, d = (None if d is None else -d), (None if c is None else -c)
            return (None if a is None or c is None else a + c), (None if b is None or d is None else b + d)
        case x.Mul(a=a, b=x.IntImm(value=k)) | x.Mul(a=x.IntImm(value=k), b=a) if k >= 0:
            low, high = ends(a, sizes)
            return (None if low is None else k * low), (None if high is None else k * high)
        case x.FloorDiv(a=a, b=x.IntImm(value=k)) if k > 0:
            low, high = ends(a, sizes)
            return (None if low is None else low // k), (None if high is None else high // k)
        case x.Min() | x.Max():
            pairs = list(zip(ends(e.a, sizes), ends(e.b, sizes), strict=True))
            kept = min if isinstance(e, x.Min) else max
            # The end on the side of the extreme is known where either is.
            either, both = (pairs[1], pairs[0]) if isinstance(e, x.Min) else (pairs[0], pairs[1])
            known = [n for n in either if n is not None]
            one = kept(known) if known else None
            other = None if both[0] is None or both[1] is None else kept(both[0], both[1])
            return (other, one) if isinstance(e, x.Min) else (one, other)
        case _:
            return None, None
