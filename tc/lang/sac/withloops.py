# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""With-loops: genarray, modarray and fold (§2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tc.dtypes import BOOL, INT32
from tc.errors import RangeError, SemanticError
from tc.lang import resolved as r
from tc.lang.sac import syntax as s
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, Region, Type, converted, joined, settled, zero
from tc.lang.sac.comprehend import Piece, assemble, piece_of
from tc.lang.sac.derivation import derivation
from tc.lang.sac.elaborate import Elaborator, Env
from tc.lang.sac.primitives import parts_of
from tc.lang.sac.regions import regions_at
from tc.lang.sac.scalars import arithmetic


def with_loop(el: Elaborator, e: s.WithLoop, env: Env) -> Array:
    if e.operator == "fold":
        return _fold(el, e, env)
    base = el.exp(e.args[0], env)
    if e.operator == "genarray":
        frame = el.items(base, "the shape of genarray") if base.rank else (base.at(()),)
        default = el.exp(e.args[1], env) if len(e.args) > 1 else None
    else:
        lengths = _lengths(el, e, env)
        k = lengths if lengths is not None else base.rank
        if k > base.rank:
            raise SemanticError(
                f"an index of length {k} goes beyond the rank of '{e.args[0].span.text}', {base.rank}",
                e.operator_span,
                code="TC0261",
                help="the index of modarray is at most as long as the rank of its array",
            )
        frame, default = base.shape[:k], base
    mark = len(el.derivation)
    pieces: list[Piece] = []
    conditions: list[Any] = []
    for g in e.generators:
        body = g.body if g.body is not None else None
        if body is None and default is None and not pieces:
            body = s.Int(0, g.span)
        piece = _generator(el, g, body, env, frame, default, e.operator == "modarray", pieces)
        pieces.append(piece)
        conditions.append(_grid(el, g, piece, frame, env))
    if e.operator == "modarray":
        cell = base.shape[len(frame) :]
    elif default is not None:
        cell = default.shape
        d = default
        default = Array((*frame, *d.shape), d.dtype, lambda index: d.at(index[len(frame) :]), d.span)
    else:
        cell = pieces[0].cell if pieces else ()
    frame = tuple(t.greatest(n, t.const(0, e.span)) for n in frame)
    derivation(el, mark, pieces, frame, cell, e.span)
    return assemble(el, pieces, frame, cell, default, e.span, "generator", conditions)


def _lengths(el: Elaborator, e: s.WithLoop, env: Env) -> int | None:
    """The length of the generators' indices, where they say it."""
    for g in e.generators:
        if g.index.name is None:
            return len(g.index.variables)
        for b in s.sides(g.bounds):
            a = el.exp(b, env)
            if a.rank == 1 and t.number(a.shape[0]) is not None:
                return t.number(a.shape[0])
    return None


def _generator(
    el: Elaborator,
    g: s.Generator,
    body: s.Exp | None,
    env: Env,
    frame: tuple[Any, ...],
    default: Array | None,
    modarray: bool,
    earlier: Sequence[Piece],
) -> Piece:
    """`default`: of a genarray its default element, of a modarray the whole array."""
    if g.index.slots and any(x.dot for x in g.index.slots):
        raise SemanticError(
            "dots in an index belong to comprehensions",
            g.index.span,
            code="TC0264",
            help="name every component: ([0, 0] <= [i, j] < shape(A))",
        )
    written = body if body is not None else s.Int(0, g.span)
    piece = piece_of(
        el, g.index, written, g.bounds, env, g.span, frame=frame, length=len(frame), exclusive=True
    )
    if body is None:
        if default is not None:
            skip = len(frame) if modarray else 0
            cell, dtype, source = default.shape[skip:], default.dtype, default
            at = (lambda index: source.at(index)) if skip else None

            def inside(index: tuple[Any, ...]) -> Any:
                if at is None:
                    return source.at(index)
                own = tuple(t.index(n, g.span) for n in piece.names)
                return at((*own, *index))

            piece.body, piece.cell = Array(cell, dtype, inside, g.span), cell
        elif earlier:
            cell, dtype = earlier[0].cell, earlier[0].body.dtype
            piece.body = Array(cell, dtype, lambda _: zero(dtype, g.span), g.span)
            piece.cell = cell
    return piece


def _grid(el: Elaborator, g: s.Generator, p: Piece, frame: tuple[Any, ...], env: Env) -> Any:
    """The conditions of step and width on an index."""
    if g.step is None:
        return None

    def sides(e: s.Exp | None) -> tuple[Any, ...]:
        if e is None:
            return (t.const(1, g.span),) * len(p.names)
        a = el.exp(e, env)
        items = el.items(a, "a step") if a.rank else (a.at(()),) * (1 if len(p.names) == 1 else 0)
        if len(items) != len(p.names):
            raise SemanticError(
                f"a step or width has one number for each of the {len(p.names)} axes of the index",
                e.span,
                code="TC0262",
                help="write a vector: step [2, 2]",
            )
        for x in items:
            if (t.number(x) or 0) < 1:
                raise SemanticError(
                    "a step or width is a positive constant", e.span, code="TC0262", help="write step [2]"
                )
        return items

    steps, widths = sides(g.step), sides(g.width)
    lows = tuple(lo if lo is not None else t.const(p.after[0], g.span) for lo in p.low)

    def conditions(index: tuple[Any, ...]) -> list[Any]:
        out: list[Any] = []
        for i, lo, step, width in zip(index, lows, steps, widths, strict=False):
            if (t.number(width) or 0) < (t.number(step) or 0):
                offset = r.Binary("%", t.minus(i, lo), step, g.span)
                out.append(t.relation("<", offset, width, g.span))
        return out

    return conditions


def _fold(el: Elaborator, e: s.WithLoop, env: Env) -> Array:
    """fold: a reduction over all generators, of which the first that has an index decides."""
    op, is_bool = _operator(el, e, env)
    neutral = el.exp(e.args[0], env)
    mark = len(el.derivation)
    pieces: list[Piece] = []
    grids: list[Any] = []
    for g in e.generators:
        if any(isinstance(b, s.Dot) for b in (g.bounds.lower, g.bounds.upper)):
            raise RangeError(
                "a fold has no shape that '.' could be a bound of",
                g.bounds.span,
                code="TC0352",
                help="write both bounds",
            )
        body = g.body if g.body is not None else e.args[0]
        p = piece_of(el, g.index, body, g.bounds, env, g.span)
        pieces.append(p)
        grids.append(_grid(el, g, p, (), env))
    if not pieces:
        return neutral
    derivation(el, mark, pieces, None, (), e.span)
    dtype: Type = neutral.dtype
    shape = neutral.shape
    for p in pieces:
        other = Array(p.cell, p.body.dtype, p.body.at, p.span)
        shape = el.unify(other, neutral, "the neutral element and the bodies of a fold", p.span)
        el.convertible(p.body, dtype)
        dtype = joined(dtype, p.body.dtype, arithmetic=False)

    element = INT32 if is_bool else settled(dtype)
    zero_ = t.const(0, e.span)

    def at(index: tuple[Any, ...]) -> Any:
        regions: list[Region] = []
        for p, grid in zip(pieces, grids, strict=True):
            box = tuple(
                (t.greatest(lo, zero_), hi) for lo, hi in zip(p.low, p.end, strict=True) if lo is not None
            )
            regions.append(
                Region(box, lambda i, p=p: _fold_value(p.at((*i, *index)), p, element, is_bool), grid)
            )
        extents = tuple(hi for hi in pieces[0].end)
        space = Array(extents, element, regions_at(regions), e.span, regions=tuple(regions))
        found: Any = t.Reduce(op, parts_of(space, lambda x: x, op, e.span), element, e.span)
        start = neutral.at(index)
        if is_bool:
            found = r.Binary(">", found, zero_, e.span)  # the greatest of nothing is negative
            return r.Binary("&&" if op == "min" else "||", found, start, e.span)
        if _is_neutral(op, start):
            return found
        start = converted(start, neutral.dtype, element)
        if op in ("min", "max"):
            return r.Apply(op, (found, start), e.span)
        return arithmetic(op, start, found, element, e.span)

    items = (at(()),) if not shape else None
    return Array(shape, BOOL if is_bool else element, at, e.span, items=items)


def _fold_value(x: Any, p: Piece, element: Any, is_bool: bool) -> Any:
    return r.Cast(element, x, True, x.span) if is_bool else converted(x, p.body.dtype, element)


def _is_neutral(op: str, x: Any) -> bool:
    return isinstance(x, r.Const) and ((op == "+" and x.value == 0) or (op == "*" and x.value == 1))


def _operator(el: Elaborator, e: s.WithLoop, env: Env) -> tuple[str, bool]:
    """The reduction that a fold does, and whether it is one of bool."""
    name = e.function
    if name in ("+", "*", "min", "max"):
        return name, False
    if name in ("&&", "||"):
        return ("min" if name == "&&" else "max"), True
    for f in el.names.overloads(name):
        if len(f.params) == 2 and not f.body and len(f.results) == 1:
            names = [p.name for p in f.params]
            match f.results[0]:
                case s.Binary(op="+" | "*" | "&&" | "||") as b if _two(b.left, b.right, names):
                    return (
                        {"&&": "min", "||": "max"}.get(b.op, b.op),
                        b.op in ("&&", "||"),
                    )
                case s.Call(name="min" | "max") as c if len(c.args) == 2 and _two(*c.args, names):
                    return c.name, False
                case _:
                    pass
    known = "+ * min max && ||"
    if not el.names.overloads(name):
        raise SemanticError(
            f"unknown function '{name}' in a fold", e.operator_span, code="TC0252", help=f"there is {known}"
        )
    raise SemanticError(
        f"'{name}' is no reduction: a fold needs an associative and commutative function",
        e.operator_span,
        code="TC0266",
        help=f"those are {known}, and functions of two arguments that are one of them",
    )


def _two(a: s.Exp, b: s.Exp, names: Sequence[str]) -> bool:
    found = [x.id for x in (a, b) if isinstance(x, s.Name)]
    return sorted(found) == sorted(names) and len(found) == 2
