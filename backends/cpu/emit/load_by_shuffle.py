"""Loads of lanes without a constant stride whose addresses depend on indices only.

Each element of `x(i/2)` serves two lanes, four elements of `x(i%4)` serve all, and every other lane of
`x(i%2, i/2)` moves on in another row.  Where the addresses are known at compile time, contiguous elements are
loaded once and shuffled into the lanes; no element is read that no lane needs.

Where they are not, as in `x((i+1)%n)`, lanes are contiguous nearly everywhere.  They take one load, if the
last lane is as many elements after the first as there are lanes between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tc.codegen.llvm_expr import storage_type
from tc.dtypes import INT64
from tc.ir.expr import (
    Add,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Select,
    Sub,
    walk,
)
from tc.ir.loops import Array
from tc.ir.simplify import linear_terms

from .affine import LANE, Affine
from .border_loads import load_apart
from .values import Value, type_text

if TYPE_CHECKING:
    from .expressions import Env, ExpressionEmitter
    from .promotion import PromotionEmitter

_NONAFFINE = FloorDiv | FloorMod | Min | Max | Call
_MAX_RUNS = 4  # runs of contiguous elements; for more, single loads are as fast


def is_nonaffine(load: Load) -> bool:
    """Whether a subscript may be non-affine although it depends on indices only."""
    return any(isinstance(x, _NONAFFINE) for s in load.subscripts for x in walk(s))


def nonaffine_subscripts(e: ExpressionEmitter, load: Load, env: Env) -> list[Expr]:
    """The subscripts that differ between lanes; none unless one of them is non-affine within a vector, all
    are made of indices only, and the active lanes are known."""
    if not e.lanes or e.known_lanes() is None:
        return []
    varying = [s for s in load.subscripts if env.varies(s)]
    if all(e.form(s, env) is not None for s in varying):
        return []  # as the subscripts of packs, of which a vector is part of one row
    parts = [x for s in varying for x in walk(s)]
    if any(isinstance(x, Load | Let | IfThenElse | Select) for x in parts):
        return []
    return varying if any(isinstance(x, _NONAFFINE) for x in parts) else []


def load_by_shuffle(
    e: ExpressionEmitter, array: Array, load: Load, varying_subscripts: Sequence[Expr], env: Env
) -> Value | None:
    """The elements of lanes whose addresses are known at compile time; None if they are not."""
    promotion = e.promotion_of(array)
    if promotion is not None and array.name in promotion.written:
        return None
    # Lane by lane, every varying subscript has a form, and only the constants may differ.
    varying = [t for s in varying_subscripts for t in linear_terms(s)[0] if env.varies(t)]
    found: list[Affine] = []
    places = e.known_lanes() or ()
    for i in places:
        here = env.at_lane(i)
        all_affine = all(e.form(t, here) is not None for t in varying)
        address = e.address(array, load.subscripts, here) if all_affine else None
        if address is None or address.terms != (found or [address])[0].terms:
            return None
        found.append(address)
    offsets = {i: a.constant - found[0].constant for i, a in zip(places, found, strict=True)}
    step, leading = offsets.get(1, 0), places == range(len(places))
    if promotion is None and leading and 0 <= step <= 1 and all(p == i * step for i, p in offsets.items()):
        return e.load(array, found[0] + Affine.of(LANE) * step)
    return _shuffled(e, array, found[0], offsets)


def load_contiguous(
    e: ExpressionEmitter, array: Array, load: Load, varying_subscripts: Sequence[Expr], env: Env
) -> Value | None:
    """The elements of lanes that are loaded as one vector if they are contiguous, and gathered otherwise: a
    branch decides.  None where the distance of the last lane does not prove that all are contiguous."""
    places, subscript = e.known_lanes() or (), load.subscripts[-1]
    last = len(places) - 1
    single = (
        last > 0
        and places == range(len(places))
        and list(varying_subscripts) == [subscript]
        and e.promotion_of(array) is None
    )
    if not single or not _steps_at_most_one(e, subscript, env):
        return None
    first = e.address(array, load.subscripts, env.at_lane(0))
    low, high = (e.cast(e.value(subscript, env.at_lane(i)), INT64) for i in (0, last))
    if first is None or low.lanes or high.lanes:
        return None
    steps = e.pure(f"sub i64 {high.text}, {low.text}")
    near, far, after = e.label("neighbours"), e.label("apart"), e.label("read")
    e.do(f"br i1 {e.pure(f'icmp eq i64 {steps}, {last}')}, label %{near}, label %{far}")
    incoming: list[str] = []
    for label in (near, far):
        e.start(label)
        e.open()
        if label == near:
            v = e.load(array, first + Affine.of(LANE))
        else:
            v = load_apart(e, array, load, env)
        incoming.append(f"[ {v.text}, %{e.fn.block} ]")
        e.close()
        e.do(f"br label %{after}")
    e.start(after)
    return Value(e.op(f"phi {type_text(v.dtype, v.lanes)} {', '.join(incoming)}"), v.dtype, v.lanes)


def _steps_at_most_one(e: ExpressionEmitter, s: Expr, env: Env) -> bool:
    """Whether a subscript grows by at most one from lane to lane."""
    if not env.varies(s):
        return True
    a = e.form(s, env)
    if a is not None:
        return a.lane <= 1
    match s:
        case Cast():
            return s.value.dtype.is_int and _steps_at_most_one(e, s.value, env)
        case Add():
            return (
                not (env.varies(s.a) and env.varies(s.b))
                and _steps_at_most_one(e, s.a, env)
                and _steps_at_most_one(e, s.b, env)
            )
        case Sub():
            return not env.varies(s.b) and _steps_at_most_one(e, s.a, env)
        case Min() | Max():
            return _steps_at_most_one(e, s.a, env) and _steps_at_most_one(e, s.b, env)
        case FloorMod() if isinstance(s.b, IntImm) and s.b.value >= 2 * e.lanes:
            return _slope(e, s.a, env) == 1
        case Call(name="abs"):
            return abs(_slope(e, s.args[0], env)) == 1
        case _:
            return False


def _slope(e: ExpressionEmitter, s: Expr, env: Env) -> int:
    """The step of a subscript from lane to lane; 0 if it is not known."""
    if isinstance(s, Cast) and s.value.dtype.is_int:
        return _slope(e, s.value, env)
    if isinstance(s, Add | Sub) and e.form(s, env) is None:
        if env.varies(s.a) and not env.varies(s.b):
            return _slope(e, s.a, env)
        return _slope(e, s.b, env) * (1 if isinstance(s, Add) else -1) if not env.varies(s.a) else 0
    a = e.form(s, env)
    return a.lane if a is not None else 0


def _shuffled(e: PromotionEmitter, array: Array, first: Affine, offsets: Mapping[int, int]) -> Value | None:
    """The elements at `offsets` from `first`, by lanes, and 0 in all others; None where they are in too many
    runs."""
    runs = _runs(sorted(set(offsets.values())), e.lanes)
    if len(runs) > _MAX_RUNS:
        return None
    vector, beyond = f"<{e.lanes} x {storage_type(array.dtype)}>", len(offsets) < e.lanes
    out, filled = "zeroinitializer" if beyond else "poison", beyond
    for low, count in runs:
        # Two overlapping loads of this width cover the run, if one does not.
        width = 1 << (count.bit_length() - 1)
        for start in dict.fromkeys((low, low + count - width)):
            own = {i: p - start for i, p in offsets.items() if start <= p < start + width}
            whole = _widened(e, array, first + start, width)
            order = [e.lanes + own[i] if i in own else i if filled else None for i in range(e.lanes)]
            out, filled = e.shuffled(vector, out, whole, order), True
    return e.from_storage(array.dtype, out, e.lanes)


def _runs(places: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Offsets in ascending order as runs of at most `most` contiguous ones: the start and the
    length of each."""
    out: list[tuple[int, int]] = []
    for p in places:
        low, count = out[-1] if out else (p, 0)
        if out and p == low + count and count < most:
            out[-1] = low, count + 1
        else:
            out.append((p, 1))
    return out


def _widened(e: PromotionEmitter, array: Array, address: Affine, width: int) -> str:
    """Contiguous elements, at the start of a vector of all lanes."""
    st, lanes = storage_type(array.dtype), e.lanes
    p = e.pointer(array, address)
    if width == 1:
        v = e.op(f"load {st}, ptr {p}, align {array.dtype.itemsize}")
        return e.op(f"insertelement <{lanes} x {st}> poison, {st} {v}, i64 0")
    v = e.op(f"load <{width} x {st}>, ptr {p}, align {array.dtype.itemsize}")
    if width == lanes:
        return v
    order = [i if i < width else None for i in range(lanes)]
    return e.shuffled(f"<{width} x {st}>", v, "poison", order)
