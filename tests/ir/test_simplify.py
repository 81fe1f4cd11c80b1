"""Simplification keeps every value, in exact and in wrapping arithmetic, and finds the obvious."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tc.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, UINT64, DType
from tc.ir.expr import (
    EQ,
    FALSE,
    INDEX,
    LE,
    LT,
    TRUE,
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
    Variable,
    imm,
)  # fmt: skip
from tc.ir.printer import text
from tc.ir.simplify import conjunction, is_pure, simplify
from tests.ir.expressions import affine, conditions, same, typed, value
from tests.share import examples

I, J, N = Variable("i"), Variable("j"), Variable("N")  # noqa: E741
NAMES = ("i", "j", "N")
INTS = st.integers(-20, 20)


@given(affine(NAMES) | conditions(NAMES), INTS, INTS, INTS)
def test_exact_simplification_keeps_the_value(e: Expr, i: int, j: int, n: int) -> None:
    env = {"i": i, "j": j, "N": n}
    out = simplify(e, exact=True)
    assert out.dtype == e.dtype
    assert value(out, env) == value(e, env)


@pytest.mark.share(18)
@pytest.mark.parametrize("t", [INT8, INT32, INT64, UINT8, UINT64, FLOAT32, FLOAT64], ids=str)
@given(data=st.data())
@settings(max_examples=examples(40, 2), deadline=None)
def test_simplification_keeps_wrapped_values_nan_and_the_sign_of_zero(t: DType, data: st.DataObject) -> None:
    e = data.draw(typed(t, ("x", "y")))
    if t.is_float:
        draw = st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan])
    else:
        draw = st.sampled_from([0, 1, 3, int(t.max), int(t.min), int(t.max) // 2])
    env = {"x": data.draw(draw), "y": data.draw(draw)}
    out = simplify(e)
    assert out.dtype == e.dtype
    assert same(value(out, env), value(e, env)), text(out)


@pytest.mark.parametrize(
    ("e", "wanted"),
    [
        (Sub(Add(I, IntImm(1)), IntImm(1)), "i"),
        (Sub(Add(I, N), I), "N"),
        (Add(Mul(IntImm(2), I), Mul(I, IntImm(3))), "5 * i"),
        (FloorDiv(Add(Mul(IntImm(4), I), IntImm(7)), IntImm(2)), "2 * i + 3"),
        (FloorMod(Add(Mul(IntImm(4), I), IntImm(7)), IntImm(4)), "3"),
        (Min(Add(I, IntImm(2)), Add(I, IntImm(5))), "i + 2"),
        (LE(Add(I, IntImm(1)), Add(I, IntImm(1))), "true"),
        (LT(Sub(N, IntImm(1)), N), "true"),
        (Mul(IntImm(0), Add(I, J)), "0"),
        (And(TRUE, EQ(I, J)), "i == j"),
        (Or(TRUE, EQ(I, J)), "true"),
        (Not(Not(EQ(I, J))), "i == j"),
        (IfThenElse(FALSE, I, J), "j"),
        (Select(EQ(I, I), N, J), "N"),
        (Let("l", IntImm(3), Add(Variable("l"), I)), "i + 3"),
        (Cast(INDEX, imm(-5, INT32)), "-5"),
        (Call("abs", (imm(-5, INT32),), INT32, "intrinsic"), "5"),
        (Call("abs", (imm(-128, INT8),), INT8, "intrinsic"), "-128"),
    ],
)
def test_the_obvious(e: Expr, wanted: str) -> None:
    assert text(simplify(e, exact=True)) == wanted


def test_division_through_a_sum_only_in_exact_arithmetic() -> None:
    e = FloorDiv(Mul(IntImm(2), I), IntImm(2))
    assert simplify(e, exact=True) == I
    assert simplify(e) == e  # 2 * i may wrap
    e = Min(Add(I, IntImm(1)), I)
    assert simplify(e, exact=True) == I
    assert simplify(e) == e


def test_arithmetic_on_data_wraps_in_a_subscript_too() -> None:
    read = Load("P", (I,), INDEX)
    for e in (FloorDiv(Mul(IntImm(2), read), IntImm(2)), LT(read, Add(read, IntImm(1)))):
        assert simplify(e, exact=True) == e


def test_checked_reads_are_not_dropped() -> None:
    read = Load("A", (I,), INT64, checked=(0,), site=0)
    assert not is_pure(read)
    for e in (
        Mul(read, IntImm(0)),
        Select(TRUE, I, read),
        And(FALSE, EQ(read, I)),
        FloorMod(read, IntImm(1)),
        Sub(read, read),
        Add(I, Sub(read, read)),
        Select(EQ(read, I), J, J),
    ):
        assert any(x == read for x in _parts(simplify(e))), text(e)
    assert simplify(IfThenElse(FALSE, read, I)) == I  # lazy: it was never read


def test_a_checked_read_times_zero_is_zero() -> None:
    """Of a type that is no index: the product stays, it is not the read."""
    read = Load("A", (I,), INT32, checked=(0,), site=0)
    for e in (Mul(read, imm(0, INT32)), Mul(imm(0, INT32), read)):
        assert simplify(e) == e


def _parts(e: Expr) -> list[Expr]:
    from tc.ir.expr import walk

    return list(walk(e))


def test_a_let_is_not_moved_under_a_let_that_hides_it() -> None:
    inner = Let("y", IntImm(5), Add(Variable("x"), Variable("y")))
    e = Let("x", Variable("y"), Let("y", Call("f", (), INDEX, "func"), inner.body))
    out = simplify(e)
    env = {"y": 7}
    assert out == e or value(out, env) == 12
    assert value(simplify(Let("x", Variable("y"), inner)), env) == 12


def test_half_literals_are_left_alone() -> None:
    for t in (FLOAT16, BFLOAT16):
        e = Cast(t, FloatImm(0.1, FLOAT32))
        assert simplify(e) == e


def test_floats_are_rounded_as_they_would_be() -> None:
    third = Div(FloatImm(1.0, FLOAT32), FloatImm(3.0, FLOAT32))
    assert simplify(third) == FloatImm(0.3333333432674408, FLOAT32)
    for a, b in ((1.0, -0.0), (-1.0, 0.0), (1.0, 0.0), (-1.0, -0.0)):
        limit = math.copysign(math.inf, a * math.copysign(1.0, b))
        assert simplify(Div(FloatImm(a, FLOAT32), FloatImm(b, FLOAT32))) == FloatImm(limit, FLOAT32)
    big = Mul(FloatImm(3e38, FLOAT32), FloatImm(10.0, FLOAT32))
    assert simplify(big) == FloatImm(math.inf, FLOAT32)
    assert simplify(Cast(FLOAT32, FloatImm(1e39, FLOAT64))) == FloatImm(math.inf, FLOAT32)
    assert simplify(Cast(BOOL, FloatImm(math.nan, FLOAT64))) == TRUE
    assert simplify(Cast(INT8, FloatImm(-1000.5, FLOAT32))) == imm(-128, INT8)


def test_conjunction() -> None:
    assert conjunction([]) == TRUE
    assert conjunction([TRUE, EQ(I, J)]) == EQ(I, J)
    assert conjunction([FALSE, EQ(I, J)]) == FALSE


@pytest.mark.parametrize("kind", [Min, Max])
@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 2.0), (2.0, 1.0), (-1.0, 2.0), (-0.0, 0.0), (0.0, -0.0), (-1.0, -2.0)]
)
def test_extrema_of_float_literals(kind: type[Min | Max], a: float, b: float) -> None:
    """-0 is less than +0."""
    order = sorted((a, b), key=lambda x: (x, math.copysign(1.0, x)))
    found = value(simplify(kind(FloatImm(a, FLOAT32), FloatImm(b, FLOAT32))), {})
    wanted = order[0 if kind is Min else 1]
    assert (found, math.copysign(1.0, found)) == (wanted, math.copysign(1.0, wanted))


def test_maximum_of_literals() -> None:
    assert simplify(Max(IntImm(3), IntImm(4))) == IntImm(4)
    assert math.isnan(value(simplify(Max(FloatImm(math.nan, FLOAT32), FloatImm(1.0, FLOAT32))), {}))
