"""Conditions whose value in each lane is known at compile time, such as `i % 2 == 0` in a vector of `i` that
starts at an even index.

Each side is computed in its own lanes only, whose addresses are then known at compile time as well; a shuffle
puts both sides together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    Variable,
    walk,
)

from . import load_by_shuffle
from .index_forms import compares
from .values import LIKELY, Value, type_text

if TYPE_CHECKING:
    from .expressions import Env, ExpressionEmitter

_INT32_MAX = (1 << 31) - 1
_COMPARISONS = EQ | NE | LT | LE | GT | GE
_PARTS = _COMPARISONS | And | Or | Not | Cast | IntImm | Variable | Add | Sub | Mul | FloorDiv | FloorMod


def may_be_known(condition: Expr) -> bool:
    """Whether a condition is one of remainders or quotients of indices."""
    parts = list(walk(condition))
    return all(isinstance(x, _PARTS) for x in parts) and any(
        isinstance(x, FloorDiv | FloorMod) for x in parts
    )


def choose(e: ExpressionEmitter, choice: IfThenElse, env: Env) -> Value | None:
    """The value of a choice whose condition is known for each active lane; None for other choices."""
    active = e.known_lanes()
    if not e.lanes or active is None or not env.varies(choice.condition):
        return None
    yes: list[int] = []
    for i in active:
        holds = _holds(e, choice.condition, env.at_lane(i))
        if holds is None:
            return None
        yes += [i] * holds
    no = [i for i in active if i not in yes]
    if not (yes and no):
        return e.value(choice.then_value if yes else choice.else_value, env)
    sides: list[Value] = []
    for lanes, side in ((yes, choice.then_value), (no, choice.else_value)):
        with e.under(e.lanes, e.mask_of(lanes)):
            sides.append(e.widen(e.value(side, env), e.lanes))
    return e.select(e.mask_of(yes), *sides)


def mostly_all(e: ExpressionEmitter, choice: IfThenElse, c: Value, env: Env) -> Value | None:
    """The value of a choice whose condition `c` holds in most vectors, as inside of an image with a border.

    A branch tests whether it holds in all lanes.  If so, the addresses are known, and no mask and no gather
    is needed.  None where that gains nothing.
    """
    sides = (choice.then_value, choice.else_value)
    reads = [x for side in sides for x in walk(side) if isinstance(x, Load)]
    if not any(load_by_shuffle.nonaffine_subscripts(e, x, env) for x in reads):
        return None
    everywhere = _is_everywhere(e, choice, env)
    if e.mask is not None:
        return e.value(choice.else_value, env) if everywhere else None
    whole = e.pure(f"bitcast <{c.lanes} x i1> {c.text} to i{c.lanes}")
    every = e.pure(f"icmp eq i{c.lanes} {whole}, -1")
    inside, border, after = e.label("inside"), e.label("border"), e.label("chosen")
    e.do(f"br i1 {every}, label %{inside}, label %{border}, {LIKELY}")
    ends: list[str] = []
    dtype = choice.dtype
    for label in (inside, border):
        e.start(label)
        with e.scope():
            if label == inside:
                v = e.value(choice.then_value, env)
            elif everywhere:
                v = e.value(choice.else_value, env)
            else:
                v = e.by_lanes(choice, c, env)
            v, dtype = e.widen(v, e.lanes), v.dtype
        ends.append(f"[ {v.text}, %{e.fn.block} ]")
        e.do(f"br label %{after}")
    e.start(after)
    return Value(e.op(f"phi {type_text(dtype, e.lanes)} {', '.join(ends)}"), dtype, e.lanes)


def _is_everywhere(e: ExpressionEmitter, choice: IfThenElse, env: Env) -> bool:
    """Whether the second side of a choice has the right value in all lanes: it reads the same element as the
    first side, with subscripts that are clamped or wrapped and so unchanged inside of the array."""
    inside, border = choice.then_value, choice.else_value
    if not (isinstance(inside, Load) and isinstance(border, Load) and inside.buffer == border.buffer):
        return False
    extents = e.arrays[inside.buffer].shape
    return all(
        _leaves_alone(e, i, b, n, env)
        for i, b, n in zip(inside.subscripts, border.subscripts, extents, strict=True)
    )


def _leaves_alone(e: ExpressionEmitter, subscript: Expr, mapped: Expr, extent: Expr, env: Env) -> bool:
    """Whether a subscript inside a dimension is mapped to itself."""
    if mapped == subscript:
        return True
    match mapped:
        case Max(a=inner, b=IntImm() as least):
            return least.value <= 0 and _leaves_alone(e, subscript, inner, extent, env)
        case Min(a=inner, b=bound):
            room = 1
        case FloorMod(a=inner, b=bound):
            room = 0
        case _:
            return False
    a, n = e.form(bound, env), e.form(extent, env)
    if a is None or n is None or (n - a).terms or (n - a).constant > room:
        return False
    return _leaves_alone(e, subscript, inner, extent, env)


def _holds(e: ExpressionEmitter, c: Expr, env: Env) -> bool | None:
    """Whether a condition holds at a point; None where that is not known."""
    match c:
        case Not():
            a = _holds(e, c.a, env)
            return None if a is None else not a
        case And() | Or():
            a, b = _holds(e, c.a, env), _holds(e, c.b, env)
            decides = isinstance(c, Or)
            if decides in (a, b):
                return decides
            return None if a is None or b is None else not decides
        case EQ() | NE() | LT() | LE() | GT() | GE():
            left, right = (_as_index(e, x, env) for x in (c.a, c.b))
            a, b = (None if x is None else e.form(x, env) for x in (left, right))
            if a is None or b is None or (a - b).terms:
                return None
            return compares(type(c), (a - b).constant)
        case _:
            return None


def _as_index(e: ExpressionEmitter, x: Expr, env: Env) -> Expr | None:
    """An integer expression in index arithmetic; None where it may wrap around."""
    match x:
        case _ if x.dtype == INDEX and not isinstance(x, Cast):
            return x
        case IntImm():
            return IntImm(x.value)
        case Cast() if x.value.dtype.is_int and x.dtype.is_int:
            inner = _as_index(e, x.value, env)
            return inner if inner is not None and _fits(e, inner, x, env) else None
        case FloorDiv() | FloorMod() if isinstance(x.b, IntImm) and x.b.value > 0:
            a = _as_index(e, x.a, env)
            return None if a is None else type(x)(a, IntImm(x.b.value))
        case Add() | Sub() | Mul():
            a, b = _as_index(e, x.a, env), _as_index(e, x.b, env)
            if a is None or b is None:
                return None
            made = type(x)(a, b)
            return made if _fits(e, made, x, env) else None
        case _:
            return None


def _fits(e: ExpressionEmitter, x: Expr, typed: Expr, env: Env) -> bool:
    """Whether the type of an expression holds an index."""
    a = e.form(x, env)
    if a is None or typed.dtype.bits < 32:
        return False
    least, greatest = e.value_range(a)
    return (-_INT32_MAX if typed.dtype.is_signed else 0) <= least and greatest <= _INT32_MAX
