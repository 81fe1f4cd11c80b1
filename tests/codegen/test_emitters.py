"""Programs as C text and as LLVM IR: results, errors, and the text itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tc.codegen import c_family, llvm_ir
from tc.dtypes import ALL, BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT64, DType
from tc.errors import InternalError
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LT,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    Let,
    Mul,
    Select,
    Sub,
    Variable,
    imm,
)  # fmt: skip
from tc.poly import ast, loop_nest, schedule, scop
from tc.poly.context import isl_context
from tests.codegen.kernels import both, call, in_c, in_llvm, lowered, numpy_dtype
from tests.poly import programs
from tests.poly.programs import Build, axis, box, v


def small(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small integers, exact in every type."""
    low = 0 if not (dtype.is_signed or dtype.is_float) else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("t", [t for t in ALL if not t.is_bool], ids=str)
def test_matmul_in_every_type(t: DType) -> None:
    n = lowered(programs.matmul(t), {"M": 3, "N": 4, "K": 5})
    a, b = small((3, 5), t), small((5, 4), t, 1)
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    for r in both(n, {"A": a, "B": b}):
        assert r.code == 0
        got = r.outputs["C"].astype(np.float64 if t.is_float else np.int64)
        np.testing.assert_array_equal(got, [[t.wrap(int(x)) if t.is_int else x for x in row] for row in want])


def test_sgemm_starts_from_the_callers_values() -> None:
    n = lowered(programs.sgemm(), {"N": 3, "M": 4, "K": 2})
    a, b, c = small((3, 4), FLOAT32), small((4, 2), FLOAT32, 1), small((3, 2), FLOAT32, 2)
    for r in both(n, {"a": 2.0, "b": 3.0, "A": a, "B": b, "C": c}):
        np.testing.assert_array_equal(r.outputs["C"], 3 * c + 2 * (a @ b))


def test_strided_convolution() -> None:
    sizes = {"N": 2, "C": 3, "H": 7, "W": 6, "F": 2, "KH": 3, "KW": 2}
    n = lowered(programs.convolution(), sizes, {"sh": 2, "sw": 3})
    i, w = small((2, 3, 7, 6), FLOAT32), small((2, 3, 3, 2), FLOAT32, 1)
    want = np.zeros((2, 2, 3, 2), np.float32)
    for y in range(3):
        for x in range(2):
            want[:, :, y, x] = np.einsum("ncyx,fcyx->nf", i[:, :, 2 * y : 2 * y + 3, 3 * x : 3 * x + 2], w)
    for r in both(n, {"I": i, "W": w}):
        np.testing.assert_array_equal(r.outputs["O"], want)


def test_softmax_with_a_temporary_in_the_workspace() -> None:
    n = lowered(programs.softmax(), {"N": 3, "D": 5})
    i = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    e = np.exp(i.astype(np.float64) - i.max(1, keepdims=True))
    for r in both(n, {"I": i}):
        np.testing.assert_allclose(r.outputs["O"], e / e.sum(1, keepdims=True), rtol=1e-6)


def lut_inputs() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    return {
        "LUT1": small((5, 4), FLOAT32),
        "2LUT": small((6, 4), FLOAT32, 1),
        "I1": rng.integers(0, 5, (3, 2)).astype(np.int32),
        "I2": rng.integers(0, 6, (3, 3)).astype(np.int32),
    }


LUT_SIZES = {"B": 3, "D": 4, "L1": 2, "E1": 5, "L2": 3, "E2": 6}


def test_checked_subscripts_in_range() -> None:
    n = lowered(programs.lut2(), LUT_SIZES)
    x = lut_inputs()
    for r in both(n, x):
        assert r.code == 0
        assert not r.error.any()
        np.testing.assert_array_equal(r.outputs["O1"], x["LUT1"][x["I1"]].sum(1))
        np.testing.assert_array_equal(r.outputs["O2"], x["2LUT"][x["I2"]].sum(1))


@pytest.mark.parametrize("bad", [-1, 6, 1 << 20, -(1 << 31)])
def test_a_checked_subscript_out_of_range_stops_and_is_recorded(bad: int) -> None:
    n = lowered(programs.lut2(), LUT_SIZES)
    x = lut_inputs()
    x["I2"][1, 2] = bad
    x["I2"][2, 0] = 77
    for r in both(n, x):
        assert r.code == 1
        # site 1, the subscript, three iteration variables i = 1, j = 0, k = 2, and the dimension
        assert list(r.error[:7]) == [2, bad, 3, 1, 0, 2, 0]
        np.testing.assert_array_equal(r.outputs["O1"], x["LUT1"][x["I1"]].sum(1))


def test_nothing_is_read_where_the_table_is_empty() -> None:
    n = lowered(programs.lut2(), LUT_SIZES | {"E1": 0})
    x = lut_inputs() | {"LUT1": np.zeros((0, 4), np.float32)}
    for r in both(n, x):
        assert (r.code, list(r.error[:2])) == (1, [1, int(x["I1"][0, 0])])


def test_triangular_domain_lower_bounds_and_guards() -> None:
    a = small((5, 5), FLOAT32)
    for r in both(lowered(programs.triangle(), {"N": 5}), {"A": a}):
        np.testing.assert_array_equal(r.outputs["R"], np.tril(a).sum(1))
    b = small((6,), FLOAT32)
    for r in both(lowered(programs.shifted(), {"N": 6}), {"B": b}):
        np.testing.assert_array_equal(r.outputs["A"], b + 1)
    for r in both(lowered(programs.padded(), {"N": 6}), {"X": b}):
        np.testing.assert_array_equal(r.outputs["Y"], np.pad(b, 1))


@pytest.mark.parametrize("zero", ["M", "N", "K"])
def test_zero_extents(zero: str) -> None:
    sizes = {"M": 3, "N": 2, "K": 4} | {zero: 0}
    n = lowered(programs.matmul(), sizes)
    a = small((sizes["M"], sizes["K"]), FLOAT32)
    b = small((sizes["K"], sizes["N"]), FLOAT32)
    for r in both(n, {"A": a, "B": b}):
        assert r.code == 0
        np.testing.assert_array_equal(r.outputs["C"], a @ b)


def test_scalars_and_arrays_without_dimensions() -> None:
    b = Build("dot", "N")
    b.scalar("scale", FLOAT64)
    b.input("x", FLOAT64, "N")
    b.input("start", FLOAT64)
    b.tensor("total", FLOAT64)
    b.tensor("half", FLOAT64, role="temporary")
    b.stage("half", (), None, Div(b.read("start"), FloatImm(2.0, FLOAT64)), text="half = start / 2")
    b.stage("total", (), None, b.read("half"), init=True, text="total = half")
    value = Mul(Variable("scale", FLOAT64), b.read("x", "i"))
    b.stage("total", (), "+", value, axis("i", 0, "N", True), text="total += scale * x(i)")
    n = lowered(b.done(), {"N": 4})
    for r in both(n, {"scale": 3.0, "x": [1.0, 2.0, 3.0, 4.0], "start": 10.0}):
        assert r.outputs["total"] == 35.0


def test_the_sizes_left_symbolic_come_in_an_array() -> None:
    p = programs.softmax()
    with isl_context():
        s = scop.build(p)
        n = loop_nest.assemble(p, ast.loops(s, schedule.identity(s)))
    i = small((3, 5), FLOAT32)
    e = np.exp(i.astype(np.float64) - i.max(1, keepdims=True))
    from tc.ir.printer import compile_python

    workspace = compile_python(n.workspace, n.sizes)(3, 5)
    assert workspace == 64
    for function in (in_c(n), in_llvm(n)):
        r = call(function, n, {"I": i, "O": np.zeros((3, 5))}, sizes=(3, 5), workspace=workspace)
        np.testing.assert_allclose(r.outputs["O"], e / e.sum(1, keepdims=True), rtol=1e-6)


def test_a_lazy_branch_reads_nothing_and_a_let_is_eager() -> None:
    """A table is looked up only where the guard holds; a let outside the guard looks it up always."""

    def program(eager: bool) -> Any:
        b = Build("lazy", "N M")
        b.input("T", FLOAT32, "M")
        b.input("P", INT32, "N")
        b.tensor("O", FLOAT32, *box("N"))
        at: Expr = Cast(INDEX, b.read("P", "i"))
        look = b.read("T", at, checked=(0,), text="T(P(i))")
        guard = GE(b.read("P", "i"), imm(0, INT32))
        zero = FloatImm(-1.0, FLOAT32)
        if eager:
            value: Expr = Let("t", look, Let("u", look, IfThenElse(guard, Variable("t", FLOAT32), zero)))
        else:
            value = IfThenElse(
                guard, Let("t", look, Add(Variable("t", FLOAT32), Variable("t", FLOAT32))), zero
            )
        b.stage("O", ("i",), None, value, axis("i", 0, "N"), text="O(i) = P(i) >= 0 ? T(P(i)) : -1")
        return b.done()

    x = {"T": np.array([5, 6, 7], np.float32), "P": np.array([2, -4, 0], np.int32)}
    for r in both(lowered(program(eager=False), {"N": 3, "M": 3}), x):
        assert r.code == 0
        np.testing.assert_array_equal(r.outputs["O"], [14, -1, 10])
    for r in both(lowered(program(eager=True), {"N": 3, "M": 3}), x):
        assert (r.code, list(r.error[:4])) == (1, [1, -4, 1, 1])


def test_a_checked_subscript_that_is_itself_looked_up() -> None:
    b = Build("chain", "N")
    b.input("P", INT64, "N")
    b.tensor("O", INT64, *box("N"))
    once = b.read("P", "i")
    twice = b.read("P", once, checked=(0,), text="P(P(i))")
    b.stage(
        "O",
        ("i",),
        None,
        b.read("P", twice, checked=(0,), text="P(P(P(i)))"),
        axis("i", 0, "N"),
        text="O(i) = P(P(P(i)))",
    )
    n = lowered(b.done(), {"N": 3})
    p = np.array([1, 2, 0])
    for r in both(n, {"P": p}):
        np.testing.assert_array_equal(r.outputs["O"], p[p[p]])
    for r in both(n, {"P": np.array([1, 9, 0])}):
        assert (r.code, list(r.error[:4])) == (1, [2, 9, 1, 0])


def test_the_recorded_subscript_is_the_one_the_source_has() -> None:
    """A tensor that starts at 2: the logical subscript is recorded, not the position in storage."""
    b = Build("origin", "N")
    b.input("p", INT64, "N")
    b.tensor("t", INT64, programs.span(2, Add(v("N"), IntImm(2))), role="temporary")
    b.tensor("o", INT64, *box("N"))
    b.stage("t", ("i",), None, v("i"), axis("i", 2, Add(v("N"), IntImm(2))))
    b.stage("o", ("i",), None, b.read("t", b.read("p", "i"), checked=(0,), text="t(p(i))"), axis("i", 0, "N"))
    n = lowered(b.done(), {"N": 3})
    for r in both(n, {"p": [2, 4, 3]}):
        assert (r.code, list(r.outputs["o"])) == (0, [2, 4, 3])
    for bad in (1, 5):
        for r in both(n, {"p": [2, bad, 3]}):
            assert (r.code, list(r.error[:4])) == (1, [1, bad, 1, 1])


def test_names_that_c_reserves() -> None:
    b = Build("double", "int N")
    b.scalar("float", FLOAT32)
    b.input("2in", FLOAT32, "int", "N")
    b.input("exp", FLOAT32, "N")
    b.tensor("while", FLOAT32, *box("int"))
    b.tensor("tc_max_f32", FLOAT32, *box("int"))
    b.tensor("_t", FLOAT32, *box("int"), role="temporary")
    value = Mul(b.read("2in", "for", "args"), Call("exp", (b.read("exp", "args"),), FLOAT32, "intrinsic"))
    b.reduce(
        "_t", ("for",), "max", value, axis("for", 0, "int"), axis("args", 0, "N", True), text="_t */ max=!"
    )
    b.stage(
        "while",
        ("error",),
        None,
        Mul(Variable("float", FLOAT32), b.read("_t", "error")),
        axis("error", 0, "int"),
    )
    b.stage("tc_max_f32", ("args",), None, b.read("_t", "args"), axis("args", 0, "int"), text="x")
    n = lowered(b.done(), {"int": 2, "N": 3})
    x, e = small((2, 3), FLOAT32), small((3,), FLOAT32)
    want = (x * np.exp(e.astype(np.float32))).max(1)
    assert in_c(n, name="double_") is not None
    for r in both(n, {"float": 2.0, "2in": x, "exp": e}):
        np.testing.assert_allclose(r.outputs["while"], 2 * want, rtol=1e-6)
        np.testing.assert_allclose(r.outputs["tc_max_f32"], want, rtol=1e-6)


@pytest.mark.share(18)
@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
@pytest.mark.parametrize("t", [BOOL, INT8, UINT64, FLOAT16, BFLOAT16, FLOAT64], ids=str)
def test_every_reduction(op: Any, t: DType) -> None:
    start = {"+": 0, "*": 1, "min": t.max, "max": t.min}[op]
    b = Build("reduce", "N K")
    b.input("A", t, "N", "K")
    b.tensor("R", t, *box("N"))
    b.reduce(
        "R",
        ("i",),
        op,
        b.read("A", "i", "k"),
        axis("i", 0, "N"),
        axis("k", 0, "K", True),
        neutral=imm(start, t),
    )
    n = lowered(b.done(), {"N": 4, "K": 3})
    a = np.random.default_rng(5).integers(0, 2, (4, 3)).astype(bool) if t.is_bool else small((4, 3), t, 7)
    wide = a.astype(np.float64 if t.is_float else np.int64)
    want = {"+": wide.sum, "*": wide.prod, "min": wide.min, "max": wide.max}[op](1)
    for r in both(n, {"A": a}):
        got = r.outputs["R"].astype(wide.dtype)
        np.testing.assert_array_equal(
            got, want != 0 if t.is_bool else [t.wrap(int(x)) if t.is_int else x for x in want]
        )


def test_truth_values_other_than_0_and_1_are_true() -> None:
    b = Build("truth", "N")
    b.input("A", BOOL, "N")
    b.tensor("O", INT32, *box("N"))
    b.tensor("P", BOOL, *box("N"))
    b.stage("O", ("i",), None, Cast(INT32, b.read("A", "i")), axis("i", 0, "N"))
    b.stage("P", ("i",), None, EQ(b.read("A", "i"), imm(1, BOOL)), axis("i", 0, "N"))
    n = lowered(b.done(), {"N": 3})
    a = np.array([0, 1, 2], np.uint8).view(bool)
    for r in both(n, {"A": a}):
        assert list(r.outputs["O"]) == [0, 1, 1]
        assert list(r.outputs["P"].view(np.uint8)) == [0, 1, 1]


def test_large_literals_in_index_arithmetic() -> None:
    b = Build("large", "N")
    b.tensor("O", INT64, *box("N"))
    value = Add(
        Mul(IntImm(100000), IntImm(100000)), Select(GT(v("i"), IntImm(0)), IntImm(-(2**40)), IntImm(7))
    )
    b.stage("O", ("i",), None, Sub(IntImm(0), Sub(value, v("i"))), axis("i", 0, "N"))
    from tc.poly.bodies import stage_bodies

    p = b.done()
    assert stage_bodies(p)["S0"] == p.stages[0].value
    n = lowered(p, {"N": 2})
    for r in both(n, {}):
        assert list(r.outputs["O"]) == [-(10**10 + 7), -(10**10 - 2**40 - 1)]


def test_conditions_isl_cannot_express_are_tested_when_an_instance_runs() -> None:
    b = Build("ring", "N")
    b.tensor("O", FLOAT32, *box("N", "N"))
    one = FloatImm(1.0, FLOAT32)
    i, j = axis("i", 0, "N"), axis("j", 0, "N")
    b.stage("O", ("i", "j"), None, FloatImm(0.0, FLOAT32), i, j, init=True)
    b.stage("O", ("i", "j"), "+", one, i, j, conditions=(LT(Mul(v("i"), v("j")), v("N")),))
    n = lowered(b.done(), {"N": 5})
    at = np.arange(5)
    for r in both(n, {}):
        np.testing.assert_array_equal(r.outputs["O"], np.outer(at, at) < 5)


MATMUL_C = """\
/* mm: made by tc. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

int32_t mm(void *const *args);
int32_t mm(void *const *args) {
  const float (*A)[4] = args[0];
  const float (*B)[3] = args[1];
  float (*C)[3] = args[2];
  for (int64_t i = 0; i < 2; i++) {
    for (int64_t j = 0; j < 3; j++) {
      /* S0: C(i, j) +=! A(i, k) * B(k, j) */
      C[i][j] = 0.0f;
    }
  }
  for (int64_t i = 0; i < 2; i++) {
    for (int64_t j = 0; j < 3; j++) {
      for (int64_t k = 0; k < 4; k++) {
        /* S1: C(i, j) +=! A(i, k) * B(k, j) */
        C[i][j] += A[i][k] * B[k][j];
      }
    }
  }
  return 0;
}
"""


def test_the_text_of_matmul() -> None:
    n = lowered(programs.matmul(), {"M": 2, "N": 3, "K": 4})
    assert c_family.emit(n) == MATMUL_C
    assert c_family.emit(n) == c_family.emit(n)
    assert llvm_ir.emit(n) == llvm_ir.emit(n)


def test_the_text_of_a_checked_access() -> None:
    text = c_family.emit(lowered(programs.lut2(), LUT_SIZES))
    assert "int32_t v_2LUT(void *const *args)" in text
    assert (
        """\
        /* S3: O2(i, j) +=! 2LUT(I2(i, k), j) */
        {
          const int64_t at = (int64_t)I2[i][k];
          if (at < 0 || at >= 6)
            return tc_fail(error, 1, at, 0, 3, (const int64_t[]){i, j, k});
          O2[i][j] += v_2LUT1[at][j];
        }
"""
        in text
    )


def test_a_nest_that_uses_what_nothing_defines_is_refused() -> None:
    b = Build("broken", "N")
    b.tensor("O", FLOAT32, *box("N"))
    b.stage("O", ("i",), None, Variable("ghost", FLOAT32), axis("i", 0, "N"))
    n = lowered(b.done(), {"N": 1})
    for emit in (c_family.emit, llvm_ir.emit):
        with pytest.raises(InternalError, match="ghost"):
            emit(n)


def test_infinities_and_guards_on_sizes() -> None:
    b = Build("edge", "N")
    b.tensor("O", FLOAT32, *box("N"))
    inside = And(GT(v("i"), IntImm(0)), LT(v("i"), Sub(v("N"), IntImm(1))))
    value = IfThenElse(inside, FloatImm(math.inf, FLOAT32), FloatImm(math.nan, FLOAT32))
    b.stage("O", ("i",), None, value, axis("i", 0, "N"))
    for r in both(lowered(b.done(), {"N": 3}), {}):
        np.testing.assert_array_equal(r.outputs["O"], [math.nan, math.inf, math.nan])
