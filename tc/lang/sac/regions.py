# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Regions of arrays: which holds an index, and moving and converting them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tc.dtypes import DType
from tc.errors import Span
from tc.lang import resolved as r
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, Region, Type, converted
from tc.lang.sac.scalars import adapted, truth_of


def row(a: Array, n: int, dtype: Type, span: Span) -> Region:
    box = ((t.const(n, span), t.const(n + 1, span)),)
    return Region(box, lambda index: adapted(a.at(index[1:]), a.dtype, dtype))


def shifted(a: Array, by: Any, dtype: Type) -> tuple[Region, ...]:
    """The regions of an array that is moved along its first axis."""
    zero = t.const(0, a.span)
    plain = (Region(((zero, a.shape[0]),), a.at),)

    def moved(region: Region) -> Region:
        (lo, hi), *rest = region.box

        def at(index: tuple[Any, ...]) -> Any:
            return adapted(region.at((t.minus(index[0], by), *index[1:])), a.dtype, dtype)

        return Region(((t.plus(lo, by), t.plus(hi, by)), *rest), at)

    usable = a.regions and all(x.conditions is None and x.box for x in a.regions)
    return tuple(map(moved, a.regions if usable else plain))


def regions_at(regions: Sequence[Region]) -> Callable[[tuple[Any, ...]], Any]:
    """The element of the first region that holds an index; the last holds what is left."""

    def at(index: tuple[Any, ...]) -> Any:
        out: Any = None
        for region in reversed(regions):
            if out is None:
                out = region.at(index)
                continue
            tests = inside(region, index)
            if any(truth_of(c) is False for c in tests):
                continue
            tests = [c for c in tests if truth_of(c) is not True]
            value = region.at(index)
            out = value if not tests else r.If(t.conjunction(tests, value.span), value, out, value.span)
        return out

    return at


def inside(region: Region, index: tuple[Any, ...]) -> list[Any]:
    """The conditions under which an index is in a region."""
    tests: list[Any] = []
    for i, (lo, hi) in zip(index, region.box, strict=False):
        tests += [t.relation("<=", x, i, i.span) for x in _of(lo, "max") if not _at_least(i, x)]
        tests += [t.relation("<", i, x, i.span) for x in _of(hi, "min")]
    return tests + (region.conditions(index) if region.conditions else [])


def _of(bound: Any, function: str) -> tuple[Any, ...]:
    """The operands of a bound that is the extreme of several: conditions that analyses understand."""
    return bound.args if isinstance(bound, r.Apply) and bound.function == function else (bound,)


def _at_least(i: Any, low: Any) -> bool:
    return t.not_negative(t.minus(i, low), {})


def reshaped(a: Array, shape: tuple[Any, ...]) -> Array:
    if shape == a.shape:
        return a
    return Array(shape, a.dtype, a.at, a.span, a.items, a.tensor, a.regions, a.stored, a.name)


def converted_array(a: Array, dtype: Type, target: DType) -> Array:
    """An array with its elements in another type."""
    if dtype == target and a.dtype == target:
        return a
    f = lambda x: converted(x, dtype, target)  # noqa: E731
    regions = tuple(Region(x.box, lambda index, x=x: f(x.at(index)), x.conditions) for x in a.regions)
    items = None if a.items is None else tuple(map(f, a.items))
    return Array(a.shape, target, lambda index: f(a.at(index)), a.span, items=items, regions=regions)
