"""Operands computed once."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.ir.evaluate import evaluate
from tc.ir.printer import program_text
from tc.ir.program import Program
from tc.pipeline import equivalence
from tc.transforms.program.guards import restrict
from tc.transforms.program.materialize import Operand, materialize
from tests.backends.cpu_cases import compiled, interpreted
from tests.ir.images import SAME, TRANSPOSED


def specialized(source: str, **sizes: int) -> Program:
    return compiled(source).program(sizes)


def always(program: Program, found: Operand) -> bool:
    return True


def made(source: str, **sizes: int) -> tuple[Program, tuple[str, ...]]:
    return materialize(specialized(source, **sizes), always, {})


def box(program: Program, name: str) -> list[tuple[int, int]]:
    """The least value and the number of values of each dimension."""
    return [(evaluate(r.min, {}), evaluate(r.extent, {})) for r in program.func(name).box]


def test_zeros_around_an_image() -> None:
    program, names = made(SAME, N=2, C=3, F=4, H=6, W=7, KH=3, KW=3)
    assert names == ("O_operand",)
    assert box(program, "O_operand") == [(0, 2), (0, 3), (0, 8), (0, 9)]
    text = program_text(program)
    assert "O_operand(n, c, y + ky, x + kx) * K(f, c, ky, kx)" in text
    assert "I(n, c, y_ky - 1, x_kx - 1)" in text


def test_variables_on_both_sides_of_a_comparison() -> None:
    program, names = made(TRANSPOSED, N=2, C=3, F=4, H=6, W=7, KH=3, KW=2)
    assert names == ("O_operand",)
    assert box(program, "O_operand") == [(0, 2), (0, 4), (-2, 10), (-1, 9)]
    assert "O_operand(n, f, y - ky, x - kx) * K(f, c, ky, kx)" in program_text(program)


def test_an_operand_precedes_the_initial_values_of_results() -> None:
    """Which one nest computes with the sums."""
    program, _ = made(SAME, N=2, C=3, F=4, H=6, W=7, KH=3, KW=3)
    assert [(s.func, s.op, s.init) for s in program.stages] == [
        ("O_operand", None, False),
        ("O", None, True),
        ("O", "+", False),
    ]


def test_a_variable_that_enters_on_its_own_stays() -> None:
    source = """def f(float(N) A, float(M,K) B) -> (O) {
      O(i,j) +=! (i < 3 ? exp(A(i+k)) : 0) * B(j,k) where i in 0:6 }"""
    program, names = made(source, N=12, M=5, K=4)
    assert names == ("O_operand",)
    assert box(program, "O_operand") == [(0, 6), (0, 4)]


def test_functions_and_values_that_are_used_twice() -> None:
    source = "def f(float(M,K) A, float(K,N) B) -> (O) { O(i,j) +=! exp(A(i,k)) * B(k,j) * exp(A(i,k)) }"
    program, names = made(source, M=4, K=5, N=6)
    assert names == ("O_operand",)
    assert [s.func for s in program.stages] == ["O_operand", "O", "O"]


def test_the_largest_part_and_several() -> None:
    source = """def f(float(M,K) A, float(K,N) B, float(K) s) -> (O) {
      O(i,j) +=! ((A(i,k) - 1) * s(k)) * fabs(B(k,j))
    }"""
    program, names = made(source, M=4, K=5, N=6)
    assert names == ("O_operand", "O_operand_")
    assert "O_operand(i, k) * O_operand_(k, j)" in program_text(program)


def test_halves() -> None:
    """Computed as precisely as they were: what is kept is not rounded."""
    source = """def f(half(M,K) A, half(K,N) B) -> (O) {
      O(i,j) +=! (i < 3 ? A(i,k) : 0) * (B(k,j) * B(k,j)) }"""
    program, names = made(source, M=4, K=5, N=6)
    assert [program.func(n).dtype.name for n in names] == ["float32", "float32"]


def test_values_that_depend_on_the_column_only() -> None:
    source = """def f(float(M,N) A, float(N) m, float(N) v) -> (O) {
      O(i,j) = (A(i,j) - m(j)) * rsqrt(v(j) + 1e-5) }"""
    program, names = made(source, M=5, N=7)
    assert names == ("O_operand",) and box(program, "O_operand") == [(0, 7)]
    assert "O(i, j) = (A(i, j) - m(j)) * O_operand(j)" in program_text(program)


def test_values_of_lets() -> None:
    """Values behind where are parts as others, and so is what is made of them."""
    source = """def f(float(M,N) A, float(N) m, float(N) v) -> (O) {
      O(i,j) = (A(i,j) - m(j)) * s * sqrt(fabs(s) + m(j)) + exp(m(j)) where s = rsqrt(v(j) + 1e-5) }"""
    program, names = made(source, M=5, N=7)
    text = program_text(program)
    assert len(names) == 3 and "let" not in text, text
    assert "(A(i, j) - m(j)) * O_operand(j) * O_operand__(j) + O_operand_(j)" in text
    varying = source.replace("v(j) + 1e-5", "A(i,j)").replace(" + exp(m(j))", "")
    assert made(varying, M=5, N=7)[1] == ()
    sums = """def f(float(M,K) A, float(K,N) B, float(K) v) -> (O) {
      O(i,j) +=! A(i,k) * s * B(k,j) where s = exp(v(k)) }"""
    at = {"M": 4, "K": 5, "N": 6}
    assert len(made(sums, **at)[1]) == len(made(sums.replace(" s *", " exp(v(k)) *"), **at)[1]) == 2
    rng = np.random.default_rng(2)
    a, m, v = (rng.random(s, dtype=np.float32) for s in ((600, 300), 300, 300))
    got, (want,) = compiled(source)(a, m, v), interpreted(source, a, m, v)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_parts_of_operands() -> None:
    """Powers for each column, sines for each row of it, for all images the same."""
    source = """def f(float(B,P,D) x) -> (y) {
      y(b,p,d) = x(b,p,d) + sin(float(p) / pow(10000.0, float(d) / 8.0)) }"""
    program, names = made(source, B=3, P=5, D=4)
    assert names == ("y_operand", "y_operand_operand")
    assert [box(program, n) for n in names] == [[(0, 5), (0, 4)], [(0, 4)]]
    assert [s.func for s in program.stages] == ["y_operand_operand", "y_operand", "y"]


def test_operands_follow_the_tensors_that_they_read() -> None:
    source = """def f(float(N,C) x) -> (y) {
      m(c) +=! x(n,c)
      y(n,c) = x(n,c) - m(c) / 5.0
      y(n,c) = y(n,c) * exp(0 - fabs(m(c))) }"""
    program, names = made(source, N=5, C=7)
    assert names == ("y_operand", "y_operand_")
    assert [s.func for s in program.stages] == ["m", "m", "y_operand", "y_operand_", "y", "y"]


# Parameters and a statement.
REFUSED = {
    "what is read as it is": ("float(M,K) A, float(K,N) B", "O(i,j) +=! A(i,k) * B(k,j)"),
    "integers that become wider": ("int8(M,K) A, int8(K,N) B", "O(i,j) +=! int32(A(i,k)) * int32(B(k,j))"),
    "what all loops move": ("float(M,K) A, float(K,N) B", "O(i,j) +=! fabs(A(i,k) - B(k,j))"),
    "what all of a row has": ("float(M) A, float(N) B", "O(i,j) = exp(A(i)) * B(j)"),
    "what all points of a statement without sums need": ("float(M,N) A", "O(i,j) = exp(A(i,j)) + 1"),
    "what one result is made of": ("float(M) A", "O = exp(A(0)) * A(1)"),
    "a check": ("float(M) A, int(K) X, float(N) B", "O(j) +=! exp(A(X(k))) * B(j)"),
    "data that address": (
        "float(M) A, int(K) X, float(N) B",
        "O(j) +=! exp(A(min(max(X(k), 0), M-1))) * B(j)",
    ),
    "elements that conditions keep inside": (
        "float(M) A, float(K,N) B",
        "O(i,j) +=! exp(A(i-k)) * B(k,j) where i in 0:M, k in 0:K, j in 0:N, k <= i",
    ),
    "quotients that no point may need": (
        "int(M,K) A, int(K,N) B",
        "O(i,j) +=! (12 / A(i,k)) * B(k,j) where j < 0",
    ),
    "what only a diagonal needs": (
        "float(M,K) A, float(K,N) B",
        "O(i,j) +=! exp(A(i,k)) * B(k,j) where i == j",
    ),
    "sums with gaps": (
        "float(M) A, float(N,K) B",
        "O(i,j) +=! exp(A(3*i+k)) * B(j,k) where i in 0:2, k in 0:2, j in 0:N",
    ),
    "what data choose": ("float(M,K) A, float(K,N) B", "O(i,j) +=! (B(k,j) > 0 ? exp(A(i,k)) : B(k,j))"),
    "what data decide": ("float(M,K) A, float(K,N) B", "O(i,j) +=! (A(i,k) > 0 ? B(k,j) : 1)"),
}


@pytest.mark.parametrize(("params", "body"), REFUSED.values(), ids=REFUSED)
def test_values_that_are_not_materialized(params: str, body: str) -> None:
    kernel = compiled(f"def f({params}) -> (O) {{ {body} }}")
    program = kernel.program(
        {n: v for n, v in {"M": 6, "K": 5, "N": 14}.items() if n in kernel.front.checked.sizes}
    )
    assert materialize(restrict(program), always, {})[1] == ()


@pytest.mark.parametrize("condition", ["k <= i", "j < i", "j < 0"])
def test_elements_of_inputs_exist_whatever_conditions_say(condition: str) -> None:
    source = f"""def f(float(M,K) A, float(K,N) B) -> (O) {{
      O(i,j) +=! (2 * A(i,k)) * B(k,j) where {condition} }}"""
    kernel = compiled(source)
    program, names = materialize(restrict(kernel.program({"M": 6, "K": 5, "N": 14})), always, {})
    assert names == ("O_operand",)
    assert equivalence.same_results(kernel.program({"M": 6, "K": 5, "N": 14}), program)


def test_results_that_are_read_are_no_operand() -> None:
    source = """def f(float(N) A) -> (O) {
      O(i) = A(i)
      O(i) += exp(O(k)) * A(i) where i in 0:4, k in 4:8 }"""
    assert made(source, N=8)[1] == ()


@pytest.mark.slow
def test_loops_of_dynamic_length_become_coordinates() -> None:
    """Of another one there may be no iteration, and what is read then need not be there."""
    source = "def f(float(M,K) A, float(K,N) B) -> (O) { O(i,j) +=! exp(A(i,k)) * B(k,j) }"
    for dynamic, names in (("M", ("O_operand",)), ("N", ())):
        kernel = tc.compile(source, "cpu", dynamic=(dynamic,))
        program = kernel.specialize(**{n: 8 for n in "MKN" if n != dynamic}).program
        assert materialize(program, always, {dynamic: 8})[1] == names


@pytest.mark.parametrize("source", [SAME, TRANSPOSED], ids=["same", "transposed"])
def test_results(source: str) -> None:
    """Of zeros times what is not finite, too."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 8, 9, 11), dtype=np.float32)
    k = rng.standard_normal((48, 8, 3, 3) if source == SAME else (8, 48, 3, 3), dtype=np.float32)
    k[1, 2, 0, 1], k[2, 3, 2, 2] = np.inf, np.nan
    kernel = compiled(source)
    got, (want,) = kernel(x, k), interpreted(source, x, k)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert np.isnan(got).any() and np.isfinite(got).any()


def test_loops_of_operands_have_names_of_their_own() -> None:
    """Not that of a scalar that the operand reads."""
    source = """def f(float(N) A, float(M,K) B, float i_k) -> (O) {
      O(i,j) +=! (A(i+k) * i_k - 1) * B(j,k) where i in 0:6 }"""
    program, (name,) = made(source, N=12, M=5, K=4)
    (stage,) = program.stages_of(name)
    assert stage.domain.names == ("i_k_",)


@pytest.mark.parametrize("condition", ["i < i", "i + j - j > 1", "2*j >= i + j - i"])
def test_variables_that_cancel_are_no_coordinates(condition: str) -> None:
    """Nor are they left in the value, whose loops do not have them.  (Found by random programs.)"""
    source = f"""def f(float(N,N) A, float(N) B) -> (C) {{
      C(i,j,k) min=! min(B(0), select({condition}, B(1), 0)) + A(i,i) + A(j,j) + A(k,k)
    }}"""
    a, b = np.arange(16, dtype=np.float32).reshape(4, 4), np.array([3, 2, 1, 5], np.float32)
    np.testing.assert_array_equal(tc.compile(source, "cpu")(a, b), tc.interpret(source, a, b))
