"""Expressions, programs and nests as text; index expressions as Python."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import FLOAT32, FLOAT64, INT32, UINT8
from tc.errors import InternalError
from tc.ir.expr import (
    EQ,
    GE,
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
from tc.ir.loops import Block, Compute, For, If, LoopKind, LoopNest
from tc.ir.printer import compile_python, nest_text, program_text, python, text
from tests.ir.expressions import affine, conditions, value
from tests.poly import programs
from tests.poly.programs import v

H, KH, N = v("H"), v("KH"), v("N")
X, Y, Z = (Variable(n, FLOAT32) for n in "xyz")


@pytest.mark.parametrize(
    ("e", "wanted"),
    [
        (FloorDiv(Add(Sub(H, KH), IntImm(1)), IntImm(2)), "(H - KH + 1)/2"),
        (Min(Min(v("I"), v("J")), N), "min(I, J, N)"),
        (Add(Sub(IntImm(-1), v("i")), N), "N - i - 1"),
        (Sub(IntImm(0), v("i")), "-i"),
        (Sub(N, Add(v("i"), v("j"))), "N - i - j"),
        (Mul(v("i"), Add(v("j"), IntImm(1))), "i * (j + 1)"),
        (FloorMod(Mul(IntImm(3), v("i")), N), "3 * i % N"),
        (FloorMod(v("i"), Mul(v("j"), N)), "i % (j * N)"),
        (Sub(X, Sub(Y, Z)), "x - (y - z)"),
        (Add(X, Add(Y, Z)), "x + (y + z)"),
        (Div(X, Mul(Y, Z)), "x / (y * z)"),
        (Mul(X, Div(Y, Z)), "x * (y / z)"),
        (Or(And(LT(v("i"), N), GE(v("i"), IntImm(0))), Not(EQ(v("i"), N))), "i < N && i >= 0 || !(i == N)"),
        (And(Or(TRUE, LE(v("i"), N)), TRUE), "(true || i <= N) && true"),
        (IfThenElse(LT(v("i"), N), X, IfThenElse(TRUE, Y, Z)), "i < N ? x : true ? y : z"),
        (Add(IfThenElse(TRUE, X, Y), Z), "(true ? x : y) + z"),
        (Select(TRUE, X, Y), "select(true, x, y)"),
        (Let("t", Add(X, Y), Mul(Variable("t", FLOAT32), Z)), "let t = x + y in t * z"),
        (Call("exp", (Sub(X, Y),), FLOAT32, "intrinsic"), "exp(x - y)"),
        (Load("A", (v("i"), IntImm(0)), FLOAT32), "A[i, 0]"),
        (Cast(INT32, X), "int32(x)"),
        (FloatImm(0.10000000149011612, FLOAT32), "0.1"),
        (FloatImm(0.1, FLOAT64), "0.1"),
        (FloatImm(-math.inf, FLOAT32), "-inf"),
        (Mul(X, FloatImm(-1.0, FLOAT32)), "x * (-1.0)"),
        (imm(200, UINT8), "200"),
    ],
)
def test_expressions_read_as_the_language_is_written(e: Expr, wanted: str) -> None:
    assert text(e) == wanted


def test_programs() -> None:
    assert program_text(programs.sgemm()) == (
        "program sgemm\n"
        "  sizes N, M, K\n"
        "  scalar float32 a\n"
        "  scalar float32 b\n"
        "  input float32(N, M) A\n"
        "  input float32(M, K) B\n"
        "  inout float32(N, K) C\n"
        "  func C.1 updates C in C\n"
        "  S0: C.1(i, j) = b * C(i, j)   for i in [0, N), j in [0, K)\n"
        "  S1: C.1(i, j) += a * A(i, k) * B(k, j)   for i in [0, N), j in [0, K); reduce k in [0, M)\n"
    )
    assert "  output float32([2, N + 2)) A\n" in program_text(programs.shifted())
    assert "; reduce j in [0, N) where j <= i\n" in program_text(programs.triangle())


def test_nests() -> None:
    body = If(
        LT(v("i"), N),
        Compute("S0", "o", (v("i"),), None, X, (v("i"),), ""),
        Compute("S1", "o", (v("i"),), "max", Y, (v("i"),), ""),
    )
    loop = For("i", IntImm(0), N, 4, LoopKind.PARALLEL, Block((body,)))
    assert nest_text(LoopNest("k", ("o",), ("o",), ("N",), (), (), loop, IntImm(64), ())) == (
        "kernel k(o)\n"
        "  sizes N\n"
        "  workspace 64 bytes\n"
        "  parallel for i in [0, N) by 4\n"
        "    if i < N\n"
        "      S0: o[i] = x\n"
        "    else\n"
        "      S1: o[i] max= y\n"
    )


NAMES = ("in", "2LUT", "lambda")  # none is a Python name


@given(affine(NAMES) | conditions(NAMES), st.integers(-30, 30), st.integers(-30, 30), st.integers(-30, 30))
def test_python_computes_the_value(e: Expr, a: int, b: int, c: int) -> None:
    assert compile_python(e, NAMES)(a, b, c) == value(e, dict(zip(NAMES, (a, b, c), strict=True)))


def test_python_is_exact_and_divides_by_zero_as_the_language_does() -> None:
    e = FloorDiv(Mul(v("M"), v("N")), v("s"))
    assert compile_python(e, ("M", "N", "s"))(10**12, 10**12, 3) == 10**24 // 3
    assert compile_python(e, ("M", "N", "s"))(5, 6, 0) == 0
    assert compile_python(FloorMod(v("N"), IntImm(0)), ("N",))(5) == 0
    assert python(Add(v("N"), IntImm(-1))) == "(N + (-1))"
    assert compile_python(Let("h", Add(N, IntImm(1)), Max(Variable("h"), N)), ("N",))(3) == 4


@pytest.mark.parametrize(
    "e", [FloatImm(1.0, FLOAT32), Load("A", (N,), INDEX), Cast(INDEX, X)], ids=["float", "read", "cast"]
)
def test_python_of_what_is_no_index_arithmetic_is_refused(e: Expr) -> None:
    with pytest.raises(InternalError, match="not index arithmetic"):
        python(e)
