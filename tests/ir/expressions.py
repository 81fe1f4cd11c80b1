"""Hypothesis strategies for expressions, and an evaluator with the language's arithmetic."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from tc.dtypes import BOOL, FLOAT32, DType
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
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
    imm,
)  # fmt: skip


def affine(names: Sequence[str], small: int = 9) -> st.SearchStrategy[Expr]:
    """Quasi-affine index expressions: sums, products and positive divisors with literals, min, max."""
    leaf = st.sampled_from([Variable(n) for n in names]) | st.integers(-small, small).map(IntImm)

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        literal = st.integers(-4, 4).map(IntImm)
        divisor = st.integers(1, 5).map(IntImm)
        return st.one_of(
            st.builds(Add, inner, inner),
            st.builds(Sub, inner, inner),
            st.builds(Mul, literal, inner),
            st.builds(Mul, inner, literal),
            st.builds(FloorDiv, inner, divisor),
            st.builds(FloorMod, inner, divisor),
            st.builds(Min, inner, inner),
            st.builds(Max, inner, inner),
        )

    return st.recursive(leaf, extend, max_leaves=6)


def conditions(names: Sequence[str]) -> st.SearchStrategy[Expr]:
    """Relations between affine expressions, and their combinations."""
    side = affine(names, 5)
    compare = st.one_of(*(st.builds(c, side, side) for c in (EQ, NE, LT, LE, GT, GE)))

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(st.builds(And, inner, inner), st.builds(Or, inner, inner), st.builds(Not, inner))

    return st.recursive(compare, extend, max_leaves=3)


def typed(t: DType, names: Sequence[str]) -> st.SearchStrategy[Expr]:
    """Arbitrary arithmetic in one element type."""
    if t.is_float:
        special = st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, 3e38, 1e-40])
        literal: st.SearchStrategy[Expr] = special.map(lambda x: FloatImm(_round(t, x), t))
        binary = [Add, Sub, Mul, Div, Min, Max]
    else:
        literal = st.integers(-9, 9).map(lambda x: imm(x, t)) | st.sampled_from(
            [imm(int(t.min), t), imm(int(t.max), t)]
        )
        binary = [Add, Sub, Mul, FloorDiv, FloorMod, Min, Max]
    leaf = literal | st.sampled_from([Variable(n, t) for n in names])

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        truth = st.one_of(*(st.builds(c, inner, inner) for c in (EQ, NE, LT, LE, GT, GE)))
        truth = (
            truth
            | st.builds(And, truth, truth)
            | st.builds(Not, truth)
            | st.sampled_from([imm(0, BOOL), imm(1, BOOL)])
        )
        return st.one_of(
            *(st.builds(b, inner, inner) for b in binary),
            st.builds(Select, truth, inner, inner),
            st.builds(IfThenElse, truth, inner, inner),
            st.builds(lambda v, b: Let(names[0], v, b), inner, inner),
            st.builds(lambda x: Cast(t, Cast(FLOAT32 if not t.is_float else INDEX, x)), inner),
        )

    return st.recursive(leaf, extend, max_leaves=5)


def _round(t: DType, x: float) -> float:
    if t != FLOAT32 or not math.isfinite(x):
        return x
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def value(e: Expr, env: Mapping[str, int | float]) -> int | float:
    """The value of an expression, computed in its types; INDEX wraps in 64 bits."""
    match e:
        case IntImm() | UIntImm() | FloatImm():
            return e.value
        case Variable():
            return env[e.name]
        case Cast():
            x = value(e.value, env)
            if e.dtype.is_bool:
                return int(x != 0)
            if e.dtype == FLOAT32 and isinstance(x, int):
                wide = np.array([x], np.uint64 if x >= 1 << 63 else np.int64)
                return float(wide.astype(np.float32)[0])  # rounded once
            if e.dtype.is_float:
                return _round(e.dtype, float(x))
            if isinstance(x, float):
                if math.isnan(x):
                    return 0
                low, high = int(e.dtype.min), int(e.dtype.max)
                return (high if x > 0 else low) if math.isinf(x) else min(max(math.trunc(x), low), high)
            return e.dtype.wrap(x)
        case Let():
            return value(e.body, {**env, e.name: value(e.value, env)})
        case Select() | IfThenElse():
            yes, no = (e.true_value, e.false_value) if isinstance(e, Select) else (e.then_value, e.else_value)
            return value(yes if value(e.condition, env) else no, env)
        case Not():
            return int(not value(e.a, env))
        case _:
            a, b = value(e.a, env), value(e.b, env)  # type: ignore[union-attr]
            return _binary(e, a, b)


def _binary(e: Expr, a: int | float, b: int | float) -> int | float:
    t = e.dtype
    match e:
        case Add() | Sub() | Mul():
            x = a + b if isinstance(e, Add) else a - b if isinstance(e, Sub) else a * b
            return _round(t, x) if t.is_float else t.wrap(int(x))
        case Div():
            if b == 0:
                return (
                    math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
                )
            return _round(t, a / b)
        case FloorDiv():
            return t.wrap(int(a // b)) if b else 0
        case FloorMod():
            return t.wrap(int(a % b)) if b else 0
        case Min() | Max():
            if math.isnan(a) or math.isnan(b):
                return math.nan
            if t.is_float:  # -0 is less than +0
                a, b = sorted((a, b), key=lambda x: (x, math.copysign(1, x)))
                return a if isinstance(e, Min) else b
            return min(a, b) if isinstance(e, Min) else max(a, b)
        case EQ():
            return int(a == b)
        case NE():
            return int(a != b)
        case LT():
            return int(a < b)
        case LE():
            return int(a <= b)
        case GT():
            return int(a > b)
        case GE():
            return int(a >= b)
        case And():
            return int(bool(a) and bool(b))
        case Or():
            return int(bool(a) or bool(b))
        case _:
            raise AssertionError(e)


def same(a: int | float, b: int | float) -> bool:
    """Equal with the sign of zero; NaNs are equal."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b
