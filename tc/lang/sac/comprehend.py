# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Tensor comprehensions and with-loops: bounds, dots, frames and cells (§4, §5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tc.dtypes import INT32
from tc.errors import Note, RangeError, SemanticError, Span
from tc.lang import resolved as r
from tc.lang.sac import syntax as s
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, Region, Type, converted, joined, scalar, vector, zero
from tc.lang.sac.bounds import infer
from tc.lang.sac.derivation import derivation, derived
from tc.lang.sac.elaborate import Elaborator, Env, Selection, TooLong
from tc.lang.sac.regions import regions_at
from tc.lang.sac.scalars import is_static, t_text

_MOST = 8  # the greatest rank


@dataclass(slots=True)
class Side:
    """A bound: its scalars; None for `.` or one that is not written.  `dot` tells these apart."""

    items: tuple[Any, ...] | None
    dot: bool


@dataclass(slots=True)
class Piece:
    """A partition while it is elaborated: its index variables, body, and bounds one a variable (None: those
    of the result)."""

    names: tuple[str, ...]
    body: Array
    low: tuple[Any | None, ...]
    end: tuple[Any | None, ...]
    order: tuple[int | None, ...]  # for each axis of the frame its variable, or None for one of the body
    cell: tuple[Any, ...]
    span: Span
    after: tuple[int, int] = (0, 0)  # what is added to bounds of the result
    shown: str = ""  # the index as it is written
    why: tuple[str, ...] = ()  # where each bound came from

    def at(self, index: tuple[Any, ...]) -> Any:
        """The element at an index of the frame and the cell."""
        frame, inner = index[: len(self.order)], index[len(self.order) :]
        values = {self.names[v]: i for v, i in zip(self.order, frame, strict=True) if v is not None}
        brought = tuple(i for v, i in zip(self.order, frame, strict=True) if v is None)
        return t.substitute(self.body.at((*brought, *inner)), values)


def comprehension(el: Elaborator, e: s.Comprehension, env: Env) -> Array:
    *others, last = e.partitions
    mark = len(el.derivation)
    final = piece_of(el, last.index, last.body, last.bounds, env, last.span, is_last=True)
    zero_ = t.const(0, e.span)
    shape: list[Any] = []
    brought = iter(final.body.shape)
    for v in final.order:
        extent: Any = next(brought) if v is None else t.greatest(cast("Any", final.end[v]), zero_)
        shape.append(extent)
    frame = tuple(shape)
    pieces = [piece_of(el, p.index, p.body, p.bounds, env, p.span, frame=frame) for p in others]
    derivation(el, mark, [*pieces, final], frame, final.cell, e.span)
    return assemble(el, [*pieces, final], frame, final.cell, None, e.span, "partition")


def assemble(
    el: Elaborator,
    pieces: Sequence[Piece],
    frame: tuple[Any, ...],
    cell: tuple[Any, ...],
    default: Array | None,
    span: Span,
    what: str,
    conditions: Sequence[Any] = (),
) -> Array:
    """The array of several pieces over one frame; `default` is what no piece covers, zeros if it is None."""
    dtype: Type | None = None if default is None else default.dtype
    for p in pieces:
        if len(p.order) != len(frame):
            raise SemanticError(
                f"the index of this {what} has {len(p.order)} axes, the frame "
                f"[{', '.join(map(t_text, frame))}] has {len(frame)}",
                p.span,
                code="TC0261",
                help=f"every {what} has an index of the length of the frame",
            )
        inner = Array(p.cell, p.body.dtype, p.body.at, p.span)
        outer = Array(cell, p.body.dtype, p.body.at, p.span)
        if len(p.cell) != len(cell):
            raise SemanticError(
                f"the cell of this {what} has shape {el.shown(inner)}, and of the result {el.shown(outer)}",
                p.span,
                code="TC0261",
                help=f"the bodies of all {what}s have one shape",
            )
        cell = el.unify(inner, outer, f"the cells of the {what}s", p.span)
        dtype = p.body.dtype if dtype is None else joined(dtype, p.body.dtype, arithmetic=False)
    dtype = dtype or "int"
    for a in (*(p.body for p in pieces), *(() if default is None else (default,))):
        el.convertible(a, dtype)
    n0 = t.const(0, span)
    regions: list[Region] = []
    complete = False
    for k, p in enumerate(pieces):
        box: list[tuple[Any, Any]] = []
        for v, extent in zip(p.order, frame, strict=True):
            if v is None:
                box.append((n0, extent))
                continue
            lo, hi = p.low[v], p.end[v]
            lo = t.const(p.after[0], span) if lo is None else t.greatest(lo, n0)
            hi = t.plus(extent, t.const(min(p.after[1], 0), span)) if hi is None else t.least(hi, extent)
            box.append((lo, hi))
        at = lambda index, p=p: converted(p.at(index), p.body.dtype, dtype)  # noqa: E731
        extra = conditions[k] if conditions else None
        regions.append(Region(tuple(box), at, extra))
        full = all(t.same(lo, n0) and t.same(hi, n) for (lo, hi), n in zip(box, frame, strict=True))
        if full and extra is None:
            complete = True
            break
    if not complete:

        def rest(index: tuple[Any, ...]) -> Any:
            if default is None:
                return converted(zero(dtype, span), dtype, dtype)
            return converted(default.at(index), default.dtype, dtype)

        regions.append(Region(tuple((n0, n) for n in frame), rest))
    at = regions[0].at if len(regions) == 1 else regions_at(regions)
    shape = (*frame, *cell)
    items = (at(()),) if not shape else None
    n = t.number(shape[0]) if len(shape) == 1 else None
    if n is not None and n <= 16 and not any(map(_is_computed, _probe(at, span))):
        values = tuple(at((t.const(k, span),)) for k in range(n))
        if all(is_static(v) for v in values):
            items = values
    return Array(shape, dtype, at, span, items=items, regions=tuple(regions) if len(regions) > 1 else ())


def _is_computed(e: Any) -> bool:
    """Whether an element takes more than the items of a vector."""
    return isinstance(e, t.Reduce) or (isinstance(e, t.Pick) and (e.array.stored or e.array.items is None))


def _probe(at: Any, span: Span) -> list[Any]:
    return list(t.walk(at((t.index("$probe", span),))))


# ---- one partition


def piece_of(
    el: Elaborator,
    index: s.Pattern,
    body: s.Exp,
    bounds: s.Bounds | None,
    env: Env,
    span: Span,
    frame: tuple[Any, ...] | None = None,
    is_last: bool = False,
    length: int | None = None,
    exclusive: bool = False,
) -> Piece:
    """A partition with its bounds inferred and its dots filled; `exclusive`: as in with-loops, `< .` leaves
    the largest index out."""
    count = len(index.variables) if index.name is None else None
    lower = _side(el, bounds.lower if bounds else None, env, count, index)
    upper = _side(el, bounds.upper if bounds else None, env, count, index)
    lengths = [len(x.items) for x in (lower, upper) if x.items is not None]
    if len(set(lengths)) > 1 or (count is not None and any(n != count for n in lengths)):
        shown = index.span.text
        raise SemanticError(
            f"the bounds of {shown} have lengths {' and '.join(map(str, lengths))}"
            + (f", and the index has length {count}" if count is not None else ""),
            bounds.span if bounds else span,
            code="TC0262",
            help="lower bound, index and upper bound have one length",
        )
    if count is None:
        count = lengths[0] if lengths else length
    # What is written is known before the body is looked at.
    if count is None and frame is not None and (lower.dot or upper.dot):
        count = len(frame)
    strict = bounds.strict if bounds else (False, True)
    low, end = _settled(lower, strict[0], 1), _settled(upper, not strict[1], 1)
    if is_last and upper.dot:
        raise RangeError(
            "the upper bound of the last partition is the shape of the result, and cannot be '.'",
            bounds.span if bounds else span,
            code="TC0352",
            help="write the shape: | iv < shape(A)",
        )
    if low is None and end is not None and not lower.dot:
        low = tuple(t.const(0, span) for _ in end)
    found, names, result, selections = _body(el, index, body, env, count, low, end, span)
    if end is None and not upper.dot:
        if all(n in found for n in names):
            inferred = tuple(found[n] for n in names)
            if low is None and not lower.dot:
                low = tuple(lo for lo, _ in inferred)
            end = tuple(hi for _, hi in inferred)
        elif is_last:
            raise _unbounded(index, body, [n for n in names if n not in found], names, span)
    lows = tuple(low) if low is not None else (None,) * len(names)
    ends = tuple(end) if end is not None else (None,) * len(names)
    for n, lo, hi in zip(names, lows, ends, strict=True):
        if hi is not None:
            el.ranges[n] = (t.greatest(lo, t.const(0, span)) if lo is not None else t.const(0, span), hi)
    for e in result.shape:
        _homogeneous(e, names, result)
    order, cell = _dots(el, index, result, len(names))
    after = (1 if lower.dot and strict[0] else 0, -1 if exclusive and upper.dot and strict[1] else 0)
    sides = [("lower", lower, low is not None), ("upper", upper, end is not None)]
    notes = derived(names, selections, [(n, s.items is not None, s.dot or not k) for n, s, k in sides])
    shown = index.name or index.span.text
    return Piece(names, result, lows, ends, order, cell, span, after, shown, notes)


def _settled(side: Side, adjust: bool, by: int) -> tuple[Any, ...] | None:
    if side.items is None or not adjust:
        return side.items
    return tuple(t.plus(x, t.const(by, x.span)) for x in side.items)


def _side(el: Elaborator, b: s.Exp | s.Dot | None, env: Env, count: int | None, index: s.Pattern) -> Side:
    if b is None or isinstance(b, s.Dot):
        return Side(None, b is not None)
    a = el.exp(b, env)
    if not a.rank and count == 1:
        el.integer(a, "a bound")
        items: tuple[Any, ...] = (a.at(()),)
    elif not a.rank:
        raise SemanticError(
            f"a bound of {index.span.text} is a vector, and this is a scalar",
            b.span,
            code="TC0262",
            help="write it for every axis: [0, 0], or 0 * shape(A)",
        )
    else:
        items = el.items(a, "a bound")
    for x in items:
        if any(isinstance(y, (r.Access, t.Pick, t.Reduce)) for y in t.walk(x)):
            raise SemanticError(
                "this bound depends on the values of elements",
                b.span,
                code="TC0257",
                help="bounds are computed from shapes, constants, indices and scalar parameters",
            )
    return Side(tuple(t.simplify(x) for x in items), False)


def _body(
    el: Elaborator,
    index: s.Pattern,
    body: s.Exp,
    env: Env,
    count: int | None,
    low: tuple[Any, ...] | None,
    end: tuple[Any, ...] | None,
    span: Span,
) -> tuple[dict[str, tuple[Any, Any]], tuple[str, ...], Array, dict[str, str]]:
    """The body for index variables, and how far the selections in it let them go."""
    if count is None:
        count = _length(el, index, body, env, span)
    slots = (
        [x.name for x in index.variables]
        if index.name is None
        else [f"{index.name}[{k}]" for k in range(count)]
    )
    names = tuple(f"{x}${t.serial()}" for x in slots)
    places = [x.span for x in index.variables] if index.name is None else [index.span] * count
    variables = [t.index(n, place) for n, place in zip(names, places, strict=True)]
    inner = dict(env)
    if index.name is None:
        for x, v in zip(index.variables, variables, strict=True):
            inner[x.name] = scalar(v, INT32, v.span)
    else:
        inner[index.name] = vector(tuple(variables), INT32, index.span)
    if end is not None:
        for k, n in enumerate(names):
            lo = low[k] if low is not None else t.const(0, span)
            el.ranges[n] = (t.greatest(lo, t.const(0, span)), end[k])
    trace: list[Selection] = []
    el.traces.append(trace)
    guards, el.guards = el.guards, 0
    try:
        result = el.exp(body, inner)
    finally:
        el.traces.pop()
        el.guards = guards
    if end is not None:
        return {}, names, result, {}
    found, why = infer(names, trace, {n: b for n, b in el.ranges.items() if n not in names})
    return found, names, result, why


def _length(el: Elaborator, index: s.Pattern, body: s.Exp, env: Env, span: Span) -> int:
    """The length of an index vector without bounds: the greatest for which every selection fits."""
    name = index.name or ""
    first: SemanticError | None = None
    kept = (len(el.equalities), len(el.derivation), dict(el.ranges), set(el.used))
    guess = _written_length(el, name, body, env)
    for n in (guess,) if guess is not None else range(_MOST + 1, -1, -1):
        trace: list[Selection] = []
        inner = dict(env)
        marks = [f"${t.serial()}" for _ in range(n)]
        inner[name] = vector(tuple(t.index(m, index.span) for m in marks), INT32, index.span)
        el.traces.append(trace)
        guards, el.guards = el.guards, 0
        try:
            el.exp(body, inner)
        except SemanticError as e:
            first = first or e
            if not isinstance(e, TooLong) and guess is None:
                continue
            if guess is not None:
                raise
            continue
        finally:
            el.traces.pop()
            el.guards = guards
            del el.equalities[kept[0] :], el.derivation[kept[1] :]
            el.ranges, el.used = dict(kept[2]), set(kept[3])
        selects = any(isinstance(y, r.Index) and y.name in marks for x in trace for y in t.walk(x.subscript))
        if (guess is None and n > _MOST) or not selects:
            raise _unbounded(index, body, [name], (), span)
        return n
    assert first is not None
    raise first


def _written_length(el: Elaborator, name: str, body: s.Exp, env: Env) -> int | None:
    """The least rank of what `iv` alone selects from, where a variable says it."""
    ranks: list[int] = []
    for e in s.walk(body):
        if isinstance(e, s.Select) and len(e.index) == 1 and isinstance(e.array, s.Name):
            i = e.index[0]
            while isinstance(i, s.Binary) and i.op in "+-":
                i = i.left
            if isinstance(i, s.Name) and i.id == name and e.array.id in env and e.array.id != name:
                ranks.append(env[e.array.id].rank)
    return min(ranks) if ranks else None


def _unbounded(
    index: s.Pattern, body: s.Exp, open_names: Sequence[str], names: Sequence[str], span: Span
) -> RangeError:
    name = index.name or index.variables[list(names).index(open_names[0])].name
    places = [e.span for e in s.walk(body) if isinstance(e, s.Name) and e.id == name]
    where = next((x.span for x in index.variables if x.name == name), index.span)
    return RangeError(
        f"nothing bounds '{name}': it selects from no array alone, and this partition gives the shape",
        where,
        code="TC0350",
        notes=[Note(f"'{name}' occurs here", places[0])] if places else (),
        help=f"write a bound: | {_shown(index)} < …",
    )


def _shown(index: s.Pattern) -> str:
    return index.name or f"[{', '.join(x.name for x in index.variables)}]"


def _homogeneous(e: Any, names: Sequence[str], result: Array) -> None:
    for x in t.walk(e):
        if isinstance(x, r.Index) and x.name in names:
            raise SemanticError(
                f"the shape of this body depends on the index: axis of extent {t_text(e)}",
                result.span,
                code="TC0263",
                help="all elements of an array have one shape (demand S of §6.1: the shape needs the value "
                "of an index variable)",
            )
        if isinstance(x, (r.Access, t.Pick, t.Reduce)):
            raise SemanticError(
                "the shape of this body depends on the values of elements",
                result.span,
                code="TC0257",
                help="demand F of §6.1: shapes are computed from shapes alone",
            )


def _dots(
    el: Elaborator, index: s.Pattern, body: Array, count: int
) -> tuple[tuple[int | None, ...], tuple[Any, ...]]:
    """Which axis of the frame is which variable, and the cell."""
    if index.name is not None or not any(x.dot for x in index.slots):
        return tuple(range(count)), body.shape
    single = sum(x.name == "." for x in index.slots)
    triple = any(x.name == "..." for x in index.slots)
    if body.rank < single or (not triple and body.rank != single):
        least = "at least " if triple else ""
        raise SemanticError(
            f"the dots of {index.span.text} stand for {least}{single} axes, and the body has shape "
            f"{el.shown(body)}",
            index.span,
            code="TC0264",
            help="'.' is one axis of the body, '...' all that are left",
        )
    order: list[int | None] = []
    v = 0
    for x in index.slots:
        if x.name == "...":
            order += [None] * (body.rank - single)
        elif x.name == ".":
            order.append(None)
        else:
            order.append(v)
            v += 1
    return tuple(order), ()
