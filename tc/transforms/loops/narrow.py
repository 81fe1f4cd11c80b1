"""Narrow index arithmetic, and integers for compilers without -fwrapv.

Index arithmetic means exact integers and is int64 in a loop nest.  Where intervals prove that nothing in an
expression leaves int32, it becomes int32: a GPU multiplies that in one instruction and has 32-bit registers.
Where they prove no division of a negative number, it becomes C's own, the intrinsics `/` and `%`.  Other
arithmetic on signed integers, which wraps, is made unsigned unless it is proved not to overflow.

Intervals are inclusive; loop iterators have those of their bounds, loads those of their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tc.dtypes import INT32, INT64, UINT16, UINT32, UINT64, DType
from tc.errors import InternalError, unreachable
from tc.ir.divisions import remainder, shorter
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
)
from tc.ir.loops import (
    MOST_BLOCKS,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
)

Interval = tuple[int, int]

# No array has more elements along a dimension that is not empty.
_LARGEST_SIZE = 1 << 48


def narrow(nest: LoopNest) -> LoopNest:
    """The same nest; a loop whose iterator has become int32 has a lower bound of that type."""
    env = {n: _Known(INT64, (0, _LARGEST_SIZE)) for n in nest.sizes}
    return replace(nest, body=_statement(nest.body, env))


@dataclass(frozen=True, slots=True)
class _Known:
    dtype: DType
    interval: Interval


_Env = Mapping[str, _Known]


def _statement(s: Stmt, env: _Env) -> Stmt:
    match s:
        case Block():
            return Block(tuple(_statement(c, env) for c in s.body))
        case For():
            lower, low = _integer(s.lower, env)
            upper, high = _integer(s.upper, env)
            last = high[1] - 1
            small = lower.dtype == INT32 and last + s.step <= INT32.max
            known = _Known(INT32 if small else INT64, (low[0], max(low[0], last)))
            if not small:
                lower = _as(lower, INT64)
            return replace(s, lower=lower, upper=upper, body=_statement(s.body, {**env, s.var: known}))
        case If():
            otherwise = None if s.otherwise is None else _statement(s.otherwise, env)
            return If(_expr(s.condition, env), _statement(s.then, env), otherwise)
        case Compute():
            subscripts = tuple(_integer(x, env)[0] for x in s.subscripts)
            point = tuple(_integer(x, env)[0] for x in s.point)
            return replace(s, subscripts=subscripts, value=_expr(s.value, env), point=point)
        case Promote():
            return replace(s, body=_statement(s.body, env))
        case Launch():
            inner = {**env, **{v: _Known(INT32, (0, n - 1)) for v, n in s.threads}}
            extents = [_integer(n, env) for _, n in s.blocks]
            inner |= {
                v: _Known(INT32, (0, min(max(1, i[1]), MOST_BLOCKS) - 1))
                for (v, _), (_, i) in zip(s.blocks, extents, strict=True)
            }
            blocks = tuple((v, _as(n, INT32)) for (v, _), (n, _) in zip(s.blocks, extents, strict=True))
            return replace(s, blocks=blocks, body=_statement(s.body, inner))
        case Prefetch() | Combine() | Sync():
            return s
        case _:
            unreachable(s)


def _expr(e: Expr, env: _Env) -> Expr:
    """An expression of the same type."""
    return _as(_rewritten(e, env)[0], e.dtype)


def _integer(e: Expr, env: _Env) -> tuple[Expr, Interval]:
    """An integer, int32 if that is wide enough for an int64."""
    made, interval = _rewritten(e, env)
    if interval is None:
        raise InternalError(f"a subscript or bound of type {e.dtype}")
    return made, interval


def _rewritten(e: Expr, env: _Env) -> tuple[Expr, Interval | None]:
    """An expression of the same type, or int32 for int64; and of integers the values it may have."""
    match e:
        case IntImm() | UIntImm():
            v = e.dtype.wrap(e.value) if e.dtype.is_int else e.value
            small = e.dtype == INT64 and _within((v, v), INT32)
            return (IntImm(v, INT32) if small else e), (v, v)
        case FloatImm():
            return e, None
        case Variable():
            known = env.get(e.name)
            return (e, _full(e.dtype)) if known is None else (Variable(e.name, known.dtype), known.interval)
        case Cast():
            return _cast(e, env)
        case Sub() if (left := remainder(e, lambda x: _integer(x, env)[1])) is not None:
            return _rewritten(left, env)
        case Add() | Sub() | Mul():
            return _arithmetic(e, env)
        case FloorDiv() if (less := shorter(e, lambda x: _integer(x, env)[1])) is not None:
            return _rewritten(less, env)
        case FloorDiv() | FloorMod():
            return _division(e, env)
        case Div():
            return Div(_expr(e.a, env), _expr(e.b, env)), None
        case Min() | Max():
            a, b, (i, j) = _alike(e.a, e.b, env)
            f = min if isinstance(e, Min) else max
            return type(e)(a, b), None if i is None or j is None else (f(i[0], j[0]), f(i[1], j[1]))
        case EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or():
            a, b, _ = _alike(e.a, e.b, env)
            return type(e)(a, b), _full(e.dtype)
        case Not():
            return Not(_expr(e.a, env)), _full(e.dtype)
        case Select():
            a, b, both = _alike(e.true_value, e.false_value, env)
            return Select(_expr(e.condition, env), a, b), _union(*both)
        case IfThenElse():
            a, b, both = _alike(e.then_value, e.else_value, env)
            return IfThenElse(_expr(e.condition, env), a, b), _union(*both)
        case Let():
            value, interval = _rewritten(e.value, env)
            known = {} if interval is None else {e.name: _Known(value.dtype, interval)}
            hidden = {n: k for n, k in env.items() if n != e.name}
            body, of_body = _rewritten(e.body, hidden | known)
            return Let(e.name, value, body), of_body
        case Call():
            return replace(e, args=tuple(_expr(a, env) for a in e.args)), _full(e.dtype)
        case Load():
            subscripts = tuple(_integer(x, env)[0] for x in e.subscripts)
            return replace(e, subscripts=subscripts), _full(e.dtype)
        case _:
            unreachable(e)


def _full(t: DType) -> Interval | None:
    """All values of a type, None if they are no integers."""
    return (0, 1) if t.is_bool else (int(t.min), int(t.max)) if t.is_int else None


def _within(interval: Interval, t: DType) -> bool:
    return t.min <= interval[0] and interval[1] <= t.max


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _as(e: Expr, t: DType) -> Expr:
    """An integer as another type."""
    if e.dtype == t:
        return e
    if isinstance(e, (IntImm, UIntImm)):
        v = t.wrap(e.value)
        return IntImm(v, t) if t.is_signed else UIntImm(v, t)
    if isinstance(e, Cast) and e.value.dtype.is_int and e.dtype.is_int and e.dtype.bits == t.bits:
        e = e.value  # the same bits
    return e if e.dtype == t else Cast(t, e)


def _alike(a: Expr, b: Expr, env: _Env) -> tuple[Expr, Expr, tuple[Interval | None, Interval | None]]:
    """Two operands, both narrowed or neither."""
    (x, i), (y, j) = _rewritten(a, env), _rewritten(b, env)
    if x.dtype != y.dtype:
        x, y = _as(x, a.dtype), _as(y, b.dtype)
    return x, y, (i, j)


def _cast(e: Cast, env: _Env) -> tuple[Expr, Interval | None]:
    x, i = _rewritten(e.value, env)
    t = e.dtype
    if not t.is_int:
        return Cast(t, x), _full(t)
    if i is None or not _within(i, t):
        return Cast(t, x), _full(t)
    if t == INT64 and _within(i, INT32):
        t = INT32
    return _as(x, t), i


def _arithmetic(e: Add | Sub | Mul, env: _Env) -> tuple[Expr, Interval | None]:
    a, b, (i, j) = _alike(e.a, e.b, env)
    t = e.dtype
    if i is None or j is None or not t.is_int:
        return type(e)(a, b), None if not t.is_int else _full(t)
    exact = _exact(e, i, j)
    if _within(exact, a.dtype):
        return type(e)(a, b), exact
    if _within(exact, t):
        return type(e)(_as(a, t), _as(b, t)), exact
    if t == UINT16 or (t.is_signed and t.bits >= 32):  # uint16 is multiplied as C's int
        u = UINT64 if t.bits == 64 else UINT32
        return Cast(t, type(e)(_as(a, u), _as(b, u))), _full(t)
    return type(e)(_as(a, t), _as(b, t)), _full(t)


def _exact(e: Add | Sub | Mul, i: Interval, j: Interval) -> Interval:
    match e:
        case Add():
            return i[0] + j[0], i[1] + j[1]
        case Sub():
            return i[0] - j[1], i[1] - j[0]
        case Mul():
            corners = [x * y for x in i for y in j]
            return min(corners), max(corners)


def _division(e: FloorDiv | FloorMod, env: _Env) -> tuple[Expr, Interval | None]:
    a, b, (i, j) = _alike(e.a, e.b, env)
    t = e.dtype
    if i is None or j is None:
        raise InternalError(f"an integer division of {t}")
    quotient = isinstance(e, FloorDiv)
    if j[0] > 0:
        result = (i[0] // j[0 if i[0] < 0 else 1], i[1] // j[0 if i[1] >= 0 else 1])
        if not quotient:
            result = (0, min(i[1], j[1] - 1)) if i[0] >= 0 else (0, j[1] - 1)
        if i[0] >= 0:
            return Call("/" if quotient else "%", (a, b), a.dtype, "intrinsic"), result
        return type(e)(a, b), result
    most = max(abs(i[0]), abs(i[1])) if quotient else max(abs(j[0]), abs(j[1]))
    result = (-most, most)
    if _within(result, a.dtype):
        return type(e)(a, b), result
    return type(e)(_as(a, t), _as(b, t)), result if _within(result, t) else _full(t)
