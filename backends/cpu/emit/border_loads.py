"""Loads of lanes at the border of an array, where the last subscript is clamped, wrapped or reflected.

Such lanes are a few runs of contiguous elements, but where one run ends and the next begins is known only at
run time.  Each run is one load under a mask.

    min(max(s, 0), n - 1)     the element of the first lane, then s, then the element of the last lane
    s % p                     s + p, then s, then s - p
    min(s % p, q - s % p)     q - p - s, then s, then q - s (a reflection)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tc.dtypes import INT32, INT64
from tc.ir.expr import Expr, FloorMod, IntImm, Load, Max, Min
from tc.ir.loops import Array
from tc.ir.simplify import linear_terms

from .affine import Affine
from .values import LIKELY, Value, type_text

if TYPE_CHECKING:
    from .expressions import Env, ExpressionEmitter

_LESS, _AT_MOST = ("olt", "slt", "ult"), ("ole", "sle", "ule")
_INT32_MAX = (1 << 31) - 1


def load_apart(e: ExpressionEmitter, array: Array, load: Load, env: Env) -> Value:
    """The elements of lanes at arbitrary addresses: by runs at a border, otherwise by a gather."""
    if e.lanes and _has_masked_loads(e, array) and _is_row(e, array, load, env):
        for found in (_clamped, _folded):
            if (v := found(e, array, load, env)) is not None:
                return v
    return e.load_gathered(array, load, env)


def _has_masked_loads(e: ExpressionEmitter, array: Array) -> bool:
    """Whether the machine has an instruction that loads such elements under a mask."""
    return e.isa.vector_bytes == 64 or (e.isa.vector_bytes == 32 and array.dtype.itemsize >= 4)


def _is_row(e: ExpressionEmitter, array: Array, load: Load, env: Env) -> bool:
    """Whether all lanes read one row of an array in memory."""
    return (
        len(load.subscripts) > 0
        and e.strides[array.name][-1] == 1
        and not any(env.varies(s) for s in load.subscripts[:-1])
        and e.promotion_of(array) is None
    )


# ---- clamped


def _clamped(e: ExpressionEmitter, array: Array, load: Load, env: Env) -> Value | None:
    """The elements of lanes whose last subscript is clamped; None for other subscripts.

    The lanes below the subscript of the first lane read the same element as that lane, the lanes above the
    subscript of the last lane the same as the last one; no other lane is clamped.
    """
    places, subscript = e.known_lanes() or (), load.subscripts[-1]
    inner = _inside_clamp(e, subscript, env)
    if inner is None or not places or places != range(len(places)):
        return None
    ends: list[tuple[Affine, Affine]] = []
    for i in (0, len(places) - 1):
        here = env.at_lane(i)
        v, address = e.cast(e.value(subscript, here), INT64), e.address(array, load.subscripts, here)
        if v.lanes or address is None:
            return None
        ends.append((Affine.of(v.text) if v.constant is None else Affine((), int(v.constant)), address))
    (low, first), (high, last) = ends
    lanes = e.steps(INT32, e.lanes, 1)
    below = e.compare(_LESS, lanes, _lane(e, low - inner.uniform))
    above = e.compare(_LESS, _lane(e, high - inner.uniform), lanes)
    # Elements of lanes that are not clamped are as far from that of the first lane as their subscripts.
    with e.where(e.negate(e.logical("or", below, above))):
        v = e.load(array, first - low + inner)
    v = e.select(above, e.widen(e.load(array, last), e.lanes), v)
    return e.select(below, e.widen(e.load(array, first), e.lanes), v)


def _inside_clamp(e: ExpressionEmitter, s: Expr, env: Env) -> Affine | None:
    """The subscript that `min` and `max` clamp between bounds that all lanes share; None unless it is that
    of contiguous elements."""
    match s:
        case Min() | Max() if env.varies(s.a) != env.varies(s.b):
            return _inside_clamp(e, s.a if env.varies(s.a) else s.b, env)
        case _:
            a = e.form(s, env)
            return a if a is not None and a.lane == 1 else None


# ---- wrapped or reflected


@dataclass(frozen=True, slots=True)
class _Fold:
    """A map of the subscript `inner`.  With m = `inner` modulo `period`, it yields `offset + m`; with a
    `mirror`, `mirror - m`; with `least`, `offset` plus the lesser of m and `mirror - m`."""

    inner: Affine
    period: Affine
    offset: Affine
    mirror: Affine | None = None
    least: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    """Where a subscript s is at least `start` and less than `end`, a map yields `offset + sign * s`."""

    start: Affine
    end: Affine
    sign: int
    offset: Affine


def _folded(e: ExpressionEmitter, array: Array, load: Load, env: Env) -> Value | None:
    """The elements of lanes whose last subscript is wrapped or reflected; None for other subscripts.  Lanes
    more than a period away from the array are gathered."""
    fold = _fold(e, load.subscripts[-1], env)
    row = None if fold is None else e.address(array, (*load.subscripts[:-1], IntImm(0)), env)
    if fold is None or row is None:
        return None
    first, pieces = fold.inner.uniform, _pieces(e, fold)
    before, beyond = pieces[0].start - first, first + e.lanes - pieces[-1].end
    pieces = [p for p in pieces if _may_be_in(e, fold.inner, p)]
    if not pieces:
        return None
    if e.value_range(before)[1] <= 0 and e.value_range(beyond)[1] <= 0:
        return _in_pieces(e, array, row, fold.inner, pieces)
    zero = e.integer(0, INT64)
    within = e.logical(
        "and",
        e.compare(_AT_MOST, e.index_value(before), zero),
        e.compare(_AT_MOST, e.index_value(beyond), zero),
    )
    near, far, after = e.label("folded"), e.label("far"), e.label("read")
    e.do(f"br i1 {within.text}, label %{near}, label %{far}, {LIKELY}")
    incoming: list[str] = []
    e.start(near)
    with e.scope():
        v = _in_pieces(e, array, row, fold.inner, pieces)
        incoming.append(f"[ {v.text}, %{e.fn.block} ]")
    e.do(f"br label %{after}")
    e.start(far)
    with e.scope():
        v = e.load_gathered(array, load, env)
        incoming.append(f"[ {v.text}, %{e.fn.block} ]")
    e.do(f"br label %{after}")
    e.start(after)
    return Value(e.op(f"phi {type_text(v.dtype, v.lanes)} {', '.join(incoming)}"), v.dtype, v.lanes)


def _fold(e: ExpressionEmitter, s: Expr, env: Env) -> _Fold | None:
    """How a subscript is wrapped or reflected; None where it is neither."""
    terms, constant = linear_terms(s)
    rest = Affine((), constant)
    inner: tuple[Expr, int] | None = None
    for t, factor in terms.items():
        if isinstance(t, FloorMod | Min) and env.varies(t):
            if inner is not None:
                return None
            inner = t, factor
            continue
        a = e.form(t, env)
        if a is None or a.lane:
            return None
        rest += a * factor
    match inner:
        case (FloorMod() as m, (1 | -1) as sign):
            a, p = e.form(m.a, env), e.form(m.b, env)
            if a is None or p is None or a.lane != 1 or p.lane:
                return None
            return _Fold(a, p, rest) if sign == 1 else _Fold(a, p, Affine(), rest)
        case (Min() as m, 1):
            for x, y in ((m.a, m.b), (m.b, m.a)):
                a, b = _fold(e, x, env), _fold(e, y, env)
                if a is None or b is None or a.mirror is not None or a.offset != Affine():
                    continue
                if b.mirror is None or b.least or (a.inner, a.period) != (b.inner, b.period):
                    continue
                if b.mirror - b.period in (
                    Affine(),
                    Affine((), -1),
                ):  # the axis of reflection is an element, or lies between two
                    return replace(b, offset=rest, least=True)
            return None
        case _:
            return None


def _pieces(e: ExpressionEmitter, fold: _Fold) -> list[_Piece]:
    """The pieces of a map, in ascending order and without gaps, up to one period outside of the array."""
    p, q, offset, zero = fold.period, fold.mirror, fold.offset, Affine()
    if q is None:
        starts = (p * -1, zero, p, p * 2)
        return [_Piece(starts[i], starts[i + 1], 1, offset + p * (1 - i)) for i in range(3)]
    if not fold.least:
        starts = (p * -1, zero, p, p * 2)
        return [_Piece(starts[i], starts[i + 1], -1, q + p * (i - 1)) for i in range(3)]
    # The lesser one is the remainder up to q/2, and the mirror from there on; so it is from q/2 - p to 0.
    center, start = _half(e, q) + 1, _half(e, q + 1) - p
    return [
        _Piece(start, zero, -1, offset + q - p),
        _Piece(zero, center, 1, offset),
        _Piece(center, p, -1, offset + q),
    ]


def _half(e: ExpressionEmitter, a: Affine) -> Affine:
    """Half of a form, rounded down."""
    if not a.terms:
        return Affine((), a.constant // 2)
    return Affine.of(e.pure(f"ashr i64 {e.materialize(a)}, 1"))


def _may_be_in(e: ExpressionEmitter, inner: Affine, piece: _Piece) -> bool:
    """Whether some lane may be in a piece."""
    return e.value_range(inner - piece.start)[1] >= 0 and e.value_range(inner - piece.end)[0] < 0


def _in_pieces(
    e: ExpressionEmitter, array: Array, row: Affine, inner: Affine, pieces: Sequence[_Piece]
) -> Value:
    """The elements of a row, with one load under a mask for each piece."""
    lanes, out = e.steps(INT32, e.lanes, 1), list[tuple[Value, Value]]()
    for x in pieces:
        here = e.logical(
            "and",
            e.compare(_AT_MOST, _lane(e, x.start - inner.uniform), lanes),
            e.compare(_LESS, lanes, _lane(e, x.end - inner.uniform)),
        )
        with e.where(here):
            out.append((here, e.load(array, row + x.offset + inner * x.sign)))
    (_, v), *others = out
    for here, other in others:
        v = e.select(here, other, v)
    return v


def _lane(e: ExpressionEmitter, number: Affine) -> Value:
    """A lane number in 32 bits: -1 stands for all numbers below 0, the number of lanes for all that are
    larger."""
    v = e.index_value(number)
    least, greatest = e.value_range(number)
    if least < -_INT32_MAX or greatest > _INT32_MAX:
        v = e.extremum(v, e.integer(e.lanes, INT64), True)
        v = e.extremum(v, e.integer(-1, INT64), False)
    return e.cast(v, INT32)
