"""The values of elaboration: arrays whose shapes and elements are expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tc.dtypes import BOOL, FLOAT64, INT32, DType, promote
from tc.errors import Span
from tc.lang import resolved as r
from tc.lang.sac import terms as t
from tc.lang.sac.terms import Exp

Weak = Literal["int", "float"]  # of literals, which adapt to what they meet
Type = DType | Weak
At = Callable[[tuple[Any, ...]], Any]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of an array: a box over its first axes, cut by conditions on `names`, and what it holds.

    `at` takes a whole index.  Of several regions the first that holds an index decides.
    """

    box: tuple[tuple[Any, Any], ...]  # low and end of each of the first axes
    at: At
    conditions: Callable[[tuple[Any, ...]], list[Any]] | None = None


@dataclass(slots=True, eq=False)
class Array:
    """`items`: the elements of a vector whose length is a number (or the one of a scalar).  `tensor`: what it
    is read from.  `regions`: its parts, of which together every index is in one.  `stored`: it is computed
    once, not where it is read."""

    shape: tuple[Any, ...]
    dtype: Type
    at: At
    span: Span
    items: tuple[Any, ...] | None = None
    tensor: r.Tensor | None = None
    regions: tuple[Region, ...] = ()
    stored: bool = False
    name: str = ""
    view: bool = False  # each element is an access of a tensor, of which all axes that are left are its own
    _template: tuple[tuple[str, ...], Any] | None = field(default=None, repr=False)
    _free: set[str] | None = field(default=None, repr=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element(self) -> DType:
        """The type of elements where nothing else decides."""
        return settled(self.dtype)

    def template(self) -> tuple[tuple[str, ...], Any]:
        """Names for an index, and the element there."""
        if self._template is None:
            names = tuple(f"${t.serial()}" for _ in self.shape)
            self._template = names, self.at(tuple(t.index(n, self.span) for n in names))
        return self._template

    def element_at(self, index: tuple[Exp, ...], env: tuple[tuple[str, Exp], ...]) -> Any:
        names, body = self.template()
        return t.substitute(body, {**dict(env), **dict(zip(names, index, strict=True))})

    def free_names(self) -> set[str]:
        """The index variables of comprehensions around it."""
        if self._free is None:
            names, body = self.template()
            self._free = t.free(body) - set(names)
            for e in self.shape:
                self._free |= t.free(e)
            for region in self.regions:
                for lo, hi in region.box:
                    self._free |= t.free(lo) | t.free(hi)
        return self._free


def scalar(value: Any, dtype: Type, span: Span) -> Array:
    return Array((), dtype, lambda _: value, span, items=(value,))


def vector(items: tuple[Any, ...], dtype: Type, span: Span) -> Array:
    """A vector of known elements."""

    def at(index: tuple[Any, ...]) -> Any:
        (i,) = index
        k = t.number(i)
        if k is not None and 0 <= k < len(items):
            return items[k]
        return _chosen(i, list(items), 0, span) if items else zero(dtype, span)

    return Array((t.const(len(items), span),), dtype, at, span, items=items)


def _chosen(i: Any, items: list[Any], first: int, span: Span) -> Any:
    """Item `i - first`: few are asked one by one, many by halves."""
    if len(items) > 8:
        half = len(items) // 2
        test = t.relation("<", i, t.const(first + half, span), span)
        below, above = _chosen(i, items[:half], first, span), _chosen(i, items[half:], first + half, span)
        return r.If(test, below, above, span)
    out: Any = items[-1]
    for n in range(len(items) - 2, -1, -1):
        out = r.If(t.relation("==", i, t.const(first + n, span), span), items[n], out, span)
    return out


def settled(dtype: Type) -> DType:
    return (INT32 if dtype == "int" else FLOAT64) if isinstance(dtype, str) else dtype


def zero(dtype: Type, span: Span) -> Any:
    return t.truth(False, span) if dtype == BOOL else t.const(0, span)


def joined(a: Type, b: Type, arithmetic: bool = True) -> Type:
    """The type of both: literals adapt, `float` ones to no integer type."""
    if isinstance(a, str) and isinstance(b, str):
        return "float" if "float" in (a, b) else "int"
    if isinstance(a, str) or isinstance(b, str):
        weak, typed = (a, b) if isinstance(a, str) else (b, a)
        assert not isinstance(typed, str)
        if weak == "float" and not typed.is_float:
            return FLOAT64
        return promote(typed, typed) if arithmetic else typed
    if a == b and not arithmetic:
        return a
    return promote(a, b)


def converted(value: Any, dtype: Type, target: Type) -> Any:
    """`value` of one type as an operand of another; literals below conditions adapt, too."""
    if isinstance(target, str) or dtype == target:
        return value
    if not isinstance(dtype, str):
        return r.Cast(target, value, True, value.span)
    if isinstance(value, r.If):
        then, otherwise = (converted(x, dtype, target) for x in (value.then, value.otherwise))
        return r.If(value.condition, then, otherwise, value.span)
    if isinstance(value, r.Const) and target != FLOAT64 and not (dtype == "float" and target.is_int):
        return value
    return r.Cast(target, value, True, value.span)
