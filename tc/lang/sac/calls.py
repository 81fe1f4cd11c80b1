# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Calls: overloads, inlining, declared types, and what is computed once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tc.dtypes import BOOL
from tc.errors import DTypeError, SemanticError, Span
from tc.lang import resolved as r
from tc.lang.sac import habits
from tc.lang.sac import syntax as s
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, scalar, settled
from tc.lang.sac.names import PRELUDE, PRIMITIVES
from tc.lang.sac.overloads import fits, generality, heavy, takes, weights
from tc.lang.sac.regions import converted_array, reshaped

if TYPE_CHECKING:
    from tc.lang.sac.elaborate import Elaborator

_CONVERT = {
    "bool": "x != 0 of",
    "byte": "tob",
    "short": "tos",
    "int": "toi",
    "long": "tol",
    "float": "tof",
    "double": "tod",
}


def call(el: Elaborator, e: s.Call, args: list[Array]) -> Array:
    for overloads in (el.names.functions.get(e.name, ()), el.names.prelude.get(e.name, ())):
        f = _most_specific(overloads, args)
        if f is not None and f.span.source.name == PRELUDE and e.name in ("all", "any") and args[0].items:
            return scalar(_joined("&&" if e.name == "all" else "||", args[0].items, e.span), BOOL, e.span)
        if f is not None:
            results = _inlined(el, f, args, e.span)
            if len(results) != 1:
                raise SemanticError(
                    f"'{e.name}' returns {len(results)} values, and one is needed here",
                    e.span,
                    code="TC0258",
                    help="only the entry may return several",
                )
            return results[0]
    if PRIMITIVES.get(e.name) == len(args):
        from tc.lang.sac.primitives import primitive

        return primitive(el, e.name, args, e.span)
    raise _no_overload(el, e, args)


def _joined(op: str, items: Sequence[Any], span: Span) -> Any:
    """Conditions on the elements of a vector as one, which may guard a selection."""
    return functools.reduce(lambda x, y: r.Binary(op, x, y, span), items)


def _inlined(el: Elaborator, f: s.Function, args: list[Array], span: Span) -> list[Array]:
    """A call; the body of a function of the prelude stands where it is called."""
    if f.span.source.name != PRELUDE:
        return inline(el, f, args)
    return [replace(a, span=span) for a in inline(el, f, args, span)]


def _no_overload(el: Elaborator, e: s.Call, args: list[Array]) -> SemanticError:
    from tc.lang.sac.format import signature

    given = ", ".join(f"{settled(a.dtype)}{el.shown(a)}" for a in args)
    known = [signature(f) for f in el.names.overloads(e.name)]
    if e.name in PRIMITIVES:
        n = PRIMITIVES[e.name]
        known.append(f"{e.name} with {n} argument{'s' * (n != 1)}")
    help = habits.ARGUMENTS.get((e.name, len(args))) or "there is " + "; ".join(known)
    return SemanticError(f"no '{e.name}' takes ({given})", e.span, code="TC0258", help=help)


def _most_specific(overloads: Sequence[s.Function], args: list[Array]) -> s.Function | None:
    usable = [f for f in overloads if fits(f, args)]
    return min(usable, key=lambda f: generality(f, args)) if usable else None


def inline(el: Elaborator, f: s.Function, args: list[Array], at: Span | None = None) -> list[Array]:
    """The results of a function; `at` is where all of its body is said to stand."""
    if el.inlining > 60:
        raise SemanticError(
            "calls are nested deeper than 60", f.name_span, code="TC0265", help="inline some by hand"
        )
    el.inlining += 1
    if id(f) not in el.weights:
        el.weights[id(f)] = weights(f)
    of_params, of_body = el.weights[id(f)]
    env: dict[str, Array] = {}
    for p, a in zip(f.params, args, strict=True):
        value = declared(el, a, p.type, f"'{p.name}'", a.span)
        env[p.name] = named(el, p.name, value, of_params.get(p.name, 0))
    body, written = (f.body, f.results) if at is None else s.placed((f.body, f.results), at)
    for a, weight in zip(body, of_body, strict=True):
        env[a.name] = named(el, a.name, el.exp(a.value, env), weight)
    results = [el.exp(e, env) for e in written]
    el.inlining -= 1
    out: list[Array] = []
    for a, kind, e in zip(results, f.types, written, strict=True):
        a = declared(el, a, kind, f"what '{f.name}' returns", e.span)
        out.append(a)
    return out


def named(el: Elaborator, name: str, a: Array, weight: int) -> Array:
    """A value under a name: one that costs something and is used again is computed once."""
    if a.tensor is not None or not a.rank or a.items is not None or a.stored or weight < 2:
        return a
    _, body = a.template()
    if not heavy(body):
        return a
    kept = Array(a.shape, a.element, a.at, a.span, regions=a.regions, stored=True, name=name)
    if isinstance(a.dtype, str):
        kept = converted_array(kept, a.dtype, kept.element)
        kept.stored, kept.name = True, name
    return Array(a.shape, kept.dtype, lambda index: t.Pick(kept, index, (), a.span, None), a.span, name=name)


def declared(el: Elaborator, a: Array, d: s.Type, what: str, span: Span) -> Array:
    """A value of a declared type: rank and extents fit, and the elements are converted."""
    if (d.rank is not None and a.rank != d.rank) or (d.dims == "+" and not a.rank):
        raise SemanticError(
            f"{what} has shape {el.shown(a)}, which is no {d.span.text}",
            span,
            code="TC0259",
            help=f"declared as {d.span.text}",
        )
    shape = a.shape
    if isinstance(d.dims, tuple) and any(n is not None for n in d.dims):
        wanted = (x if n is None else t.const(n, span) for x, n in zip(shape, d.dims, strict=True))
        shape = tuple(
            el.equal(x, y, f"{what} is declared {d.span.text}", span)
            for x, y in zip(shape, wanted, strict=True)
        )
    if d.base == "_T" or a.dtype == d.dtype:
        return a if shape == a.shape else reshaped(a, shape)
    if not takes(a.dtype, d.dtype):
        raise DTypeError(
            f"{what} is {settled(a.dtype)}, which does not become {d.dtype} by itself",
            span,
            code="TC0454",
            help=f"convert it: {_CONVERT.get(d.base, 'toi')}(…), or declare {d.base} otherwise",
        )
    return converted_array(reshaped(a, shape), a.dtype, d.dtype)


# ---- text
