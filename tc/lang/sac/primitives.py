# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""The functions that elaboration knows by itself: those of shapes, reductions and scalar functions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tc.dtypes import BOOL, FLOAT64, INT32, DType
from tc.errors import DTypeError, SemanticError, Span
from tc.lang import resolved as r
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, Region, Type, converted, joined, scalar, settled, vector
from tc.lang.sac.names import CONVERSIONS, MATH
from tc.lang.sac.scalars import arithmetic, is_static
from tc.lang.sac.syntax import BASES

if TYPE_CHECKING:
    from tc.lang.sac.elaborate import Elaborator

FOLDS = {"sum": "+", "prod": "*", "minval": "min", "maxval": "max"}
_NEUTRAL = {"+": 0, "*": 1, "min": INT32.max, "max": INT32.min}


def primitive(el: Elaborator, name: str, args: list[Array], span: Span) -> Array:
    if name in FOLDS:
        return fold(FOLDS[name], args[0], span)
    if name in MATH:
        return _math(el, name, args, span)
    if name in CONVERSIONS:
        target = BASES[CONVERSIONS[name]]
        (a,) = args
        return el.elementwise([a], target, lambda x: _cast(x, a.dtype, target), name, span)
    match name:
        case "shape":
            items = tuple(_placed(x, span) for x in args[0].shape)
            return vector(items, INT32, span)
        case "dim":
            return scalar(t.const(args[0].rank, span), "int", span)
        case "take" | "drop":
            return _take(el, args[0], args[1], name == "drop", span)
        case "reshape":
            return _reshape(el, args[0], args[1], span)
        case "where":
            return _where(el, args, span)
        case "abs":
            return _same(el, name, args, span)
        case "min" | "max":
            return _same(el, name, args, span)
        case _:
            return _mod(el, args, span)


def _placed(e: Any, span: Span) -> Any:
    from dataclasses import replace

    return replace(e, span=span)


def _cast(x: Any, dtype: Type, target: DType) -> Any:
    if isinstance(dtype, str):
        return converted(x, dtype, target)
    return x if dtype == target else r.Cast(target, x, True, x.span)


def _math(el: Elaborator, name: str, args: list[Array], span: Span) -> Array:
    dtype: Type = args[0].dtype
    for a in args[1:]:
        dtype = joined(dtype, a.dtype)
    found = settled(dtype)
    if found == BOOL:
        raise DTypeError(f"'{name}' is for numbers", span, code="TC0453", help="convert it: tod(toi(b))")
    target = found if found.is_float else FLOAT64

    def f(*xs: Any) -> Any:
        inner = tuple(_cast(x, a.dtype, target) for x, a in zip(xs, args, strict=True))
        return r.Apply(name, inner, span)

    return el.elementwise(args, target, f, f"the arguments of '{name}'", span)


def _same(el: Elaborator, name: str, args: list[Array], span: Span) -> Array:
    dtype: Type = args[0].dtype
    for a in args[1:]:
        dtype = joined(dtype, a.dtype)
    if dtype == BOOL:
        raise DTypeError(f"'{name}' is for numbers", span, code="TC0453", help="write && and ||")

    def f(*xs: Any) -> Any:
        if all(isinstance(x, r.Const) for x in xs):
            values = [x.value for x in xs]
            found = abs(values[0]) if name == "abs" else min(values) if name == "min" else max(values)
            return r.Const(found, xs[0].single, span)
        inner = tuple(
            converted(x, a.dtype, dtype) if isinstance(a.dtype, str) else x for x, a in zip(xs, args)
        )
        e = r.Apply(name, inner, span)
        return _placed(t.simplify(e), span) if dtype in ("int", INT32) and _exact(e) else e

    return el.elementwise(args, dtype, f, f"the arguments of '{name}'", span)


def _exact(e: r.Apply) -> bool:
    from tc.lang.sac.scalars import is_static

    return e.function != "abs" and is_static(e)


def _mod(el: Elaborator, args: list[Array], span: Span) -> Array:
    """The remainder with the sign of the divisor; 0 for a divisor of 0."""
    a, b = args
    for x in args:
        el.integer(x, "an argument of 'mod'")
    dtype = joined(a.dtype, b.dtype)

    def f(x: Any, y: Any) -> Any:
        p, q = t.number(x), t.number(y)
        if p is not None and q is not None:
            return t.const(p % q if q else 0, span)
        return r.Binary("%", x, y, span)

    return el.elementwise(args, dtype, f, "the arguments of 'mod'", span)


def _where(el: Elaborator, args: list[Array], span: Span) -> Array:
    """`where(c, a, b)`: element by element; the condition may be a scalar."""
    el.boolean(args[0], "the condition of 'where'")
    return el.choose(args, span)


# ---- parts of arrays


def _take(el: Elaborator, counts: Array, a: Array, drops: bool, span: Span) -> Array:
    """`take(v, A)` and `drop(v, A)`: from the left, or for a negative count from the right."""
    name = "drop" if drops else "take"
    el.integer(counts, f"the count of '{name}'")
    items = (counts.at(()),) if not counts.rank else el.items(counts, f"the first argument of '{name}'")
    if len(items) > a.rank:
        raise SemanticError(
            f"'{name}' has {len(items)} counts for an array of shape {el.shown(a)}",
            span,
            code="TC0254",
            help="one count an axis, for the first axes",
        )
    starts: list[Any] = []
    shape: list[Any] = []
    for d, n in enumerate(items):
        start, extent = _window(el, n, a.shape[d], drops, span)
        starts.append(start)
        shape.append(extent)
    rest = a.shape[len(items) :]
    if a.items is not None and a.rank == 1 and items:
        lo, size = t.number(starts[0]), t.number(shape[0])
        if lo is not None and size is not None:
            return vector(a.items[lo : lo + size], a.dtype, span)
    if a.regions:
        return _window_of_regions(a, tuple(starts), (*shape, *rest), span)

    def at(index: tuple[Any, ...]) -> Any:
        moved = tuple(t.plus(i, s) for i, s in zip(index, starts, strict=False))
        return a.at((*moved, *index[len(starts) :]))

    return Array((*shape, *rest), a.dtype, at, span)


def _window_of_regions(a: Array, starts: tuple[Any, ...], shape: tuple[Any, ...], span: Span) -> Array:
    """A part of an array, of the parts of its regions."""
    from tc.lang.sac.regions import regions_at

    zero = t.const(0, span)

    def moved(region: Region) -> Region:
        def source(index: tuple[Any, ...]) -> tuple[Any, ...]:
            return (*(t.plus(i, s) for i, s in zip(index, starts, strict=False)), *index[len(starts) :])

        def bounds(d: int, lo: Any, hi: Any) -> tuple[Any, Any]:
            if d >= len(starts):
                return lo, hi
            low, end = t.minus(lo, starts[d]), t.minus(hi, starts[d])
            return t.greatest(low, zero), t.least(end, shape[d])

        of = region.conditions
        box = tuple(bounds(d, lo, hi) for d, (lo, hi) in enumerate(region.box))
        conditions = None if of is None else lambda index: of(source(index))
        return Region(box, lambda index: region.at(source(index)), conditions)

    regions = tuple(map(moved, a.regions))
    return Array(shape, a.dtype, regions_at(regions), span, regions=regions)


def _window(el: Elaborator, n: Any, extent: Any, drops: bool, span: Span) -> tuple[Any, Any]:
    """Start and extent of what a count leaves of an axis."""
    zero = t.const(0, span)
    if any(isinstance(x, (r.Access, t.Pick, t.Reduce)) for x in t.walk(n)):
        raise SemanticError(
            "the shape of this array depends on the values of elements",
            n.span,
            code="TC0257",
            help="shapes are computed from shapes: use shape(A), constants and scalar parameters",
        )
    right = t.minus(zero, n)
    positive, negative = t.not_negative(n, {}), t.not_negative(right, {})
    if not positive and not negative:
        known = t.number(n)
        if known is None:
            # The sign is not known: both cases, told apart by minima and maxima.
            size = t.greatest(n, right)
            if drops:
                return t.greatest(zero, n), t.greatest(zero, t.minus(extent, size))
            _enough(el, size, extent, span)
            # extent + n where n is negative, else 0
            start = t.least(t.plus(extent, n), t.times(extent, t.greatest(zero, right)))
            return t.greatest(zero, start), size
    size = n if positive else right
    if drops:
        left = t.greatest(zero, t.minus(extent, size))
        return (size if positive else zero), left  # beyond the extent there is nothing to start at
    _enough(el, size, extent, span)
    return (zero if positive else t.minus(extent, size)), size


def _enough(el: Elaborator, size: Any, extent: Any, span: Span) -> None:
    """`take` beyond the extent is an error."""
    if t.not_negative(t.minus(extent, size), {}):
        return
    a, b = t.number(size), t.number(extent)
    if a is not None and b is not None:
        from tc.lang.sac.scalars import t_text

        raise SemanticError(
            f"'take' of {t_text(size)} elements from an axis of {t_text(extent)}",
            span,
            code="TC0260",
            help="at most the extent can be taken, from either end",
        )
    el.require_at_least(extent, size, "'take' beyond the extent", span)


def _reshape(el: Elaborator, shape: Array, a: Array, span: Span) -> Array:
    """`reshape(shp, A)`: the elements in row-major order."""
    items = tuple(map(t.simplify, el.items(shape, "the shape of 'reshape'")))
    old, new = _product(a.shape, span), _product(items, span)
    el.equal(new, old, "'reshape' keeps the number of elements", span)

    def at(index: tuple[Any, ...]) -> Any:
        flat: Any = t.const(0, span)
        for i, n in zip(index, items, strict=True):
            flat = t.plus(t.times(flat, n), i)
        found: list[Any] = []
        for n in reversed(a.shape[1:]):
            found.append(t.simplify(r.Binary("%", flat, n, span)))
            flat = t.simplify(r.Binary("/", flat, n, span))
        return a.at((flat, *reversed(found)) if a.rank else ())

    return Array(items, a.dtype, at, span)


def _product(items: tuple[Any, ...], span: Span) -> Any:
    out: Any = t.const(1, span)
    for n in items:
        out = t.times(out, n)
    return out


# ---- reductions


def fold(op: str, a: Array, span: Span, start: Any = None) -> Array:
    """All elements of an array with an operator; `start` where there are none."""
    if a.dtype == BOOL:
        source, dtype = BOOL, INT32
    else:
        source, dtype = a.dtype, a.element

    def value(x: Any) -> Any:
        return _cast(x, source, dtype)

    if not a.rank:
        return scalar(value(a.at(())), dtype, span)
    if a.items is not None and dtype == INT32 and source != BOOL and all(map(is_static, a.items)):
        start = t.const(_NEUTRAL[op], span)
        items = a.items or (start,)
        return scalar(functools.reduce(lambda x, y: _combined(op, x, y, span), items), dtype, span)
    reduced = t.Reduce(op, parts_of(a, value, op, span), dtype, span)
    return scalar(reduced, dtype, span)


def _combined(op: str, x: Any, y: Any, span: Span) -> Any:
    """Of two numbers made of indices and sizes."""
    if op in ("min", "max"):
        return (t.least if op == "min" else t.greatest)(x, y)
    return arithmetic(op, x, y, INT32, span)


def parts_of(a: Array, value: Any, op: str, span: Span) -> tuple[t.Part, ...]:
    """What a reduction of an array goes over: its regions, the later without the earlier."""
    from tc.lang.sac.regions import inside

    zero = t.const(0, span)
    regions = a.regions or (Region((), a.at),)
    parts: list[t.Part] = []
    for k, region in enumerate(regions):
        names = tuple(f"${t.serial()}" for _ in a.shape)
        index = tuple(t.index(n, span) for n in names)
        box = [*region.box, *((zero, n) for n in a.shape[len(region.box) :])]
        variables = tuple((n, lo, hi) for n, (lo, hi) in zip(names, box, strict=True))
        conditions = list(region.conditions(index)) if region.conditions else []
        ranges = {n: (lo, hi) for n, lo, hi in variables}
        empty = False
        for earlier in regions[:k]:
            tests = inside(earlier, index)
            open_tests = [c for c in tests if not _always(c, ranges)]
            if not open_tests:
                empty = True
            elif not any(_never(c, ranges) for c in open_tests):
                conditions.append(r.Unary("!", t.conjunction(open_tests, span), span))
        if empty:
            continue
        body = value(region.at(index))
        if op == "+" and t.number(body) == 0:
            continue
        parts.append(t.Part(variables, tuple(conditions), body))
    return tuple(parts)


def _always(c: Any, ranges: t.Ranges) -> bool:
    match c:
        case r.Binary(op="<="):
            return t.not_negative(t.minus(c.right, c.left), ranges)
        case r.Binary(op="<"):
            return t.not_negative(t.plus(t.minus(c.right, c.left), t.const(-1, c.span)), ranges)
        case _:
            return False


def _never(c: Any, ranges: t.Ranges) -> bool:
    match c:
        case r.Binary(op="<="):
            return _always(r.Binary("<", c.right, c.left, c.span), ranges)
        case r.Binary(op="<"):
            return _always(r.Binary("<=", c.right, c.left, c.span), ranges)
        case _:
            return False
