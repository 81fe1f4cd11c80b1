"""Arg-reductions (docs/language.md, "Arg-reductions"): where extremes are, ties and NaN as NumPy has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.running import BACKENDS, run

Array = np.ndarray[Any, Any]
OPS = {"argmax": np.argmax, "argmin": np.argmin}


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(len(shape)).integers(-9, 10, shape).astype(dtype)


@pytest.mark.share(54)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float", "double", "half", "int8", "int64", "uint16"])
def test_rows_of_every_type(dtype: str, op: str, backend: str) -> None:
    kind = {"float": "f4", "double": "f8", "half": "f2"}.get(dtype, dtype)
    x = np.abs(numbers(7, 41)).astype(kind) if dtype.startswith("u") else numbers(7, 41, dtype=kind)
    found = run(backend, f"def f({dtype}(N,K) x) -> (i) {{ i(n) {op}=! x(n,k) }}", x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, OPS[op](x, 1))


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 300), (40, 33), (2, 1025)])
def test_rows_and_columns(shape: tuple[int, int], op: str, backend: str) -> None:
    x = numbers(*shape)
    rows = run(backend, f"def f(float(N,K) x) -> (i) {{ i(n) {op}=! x(n,k) }}", x)
    np.testing.assert_array_equal(rows, OPS[op](x, 1))
    columns = run(backend, f"def f(float(N,K) x) -> (i) {{ i(k) {op}=! x(n,k) }}", x)
    np.testing.assert_array_equal(columns, OPS[op](x, 0))


@pytest.mark.share(24)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("read", "where", "low"),
    [
        ("x(n,k+1)", "", -1),
        ("x(n,k+3)", "k in -3:10", -3),
        ("x(n,k-2)", "", 2),
        ("x(n,k/2)", "k in 0:26", 0),
    ],
)
def test_ranges_that_start_elsewhere(read: str, where: str, low: int, op: str, backend: str) -> None:
    x = numbers(6, 13)
    found = run(
        backend, f"def f(float(N,K) x) -> (i) {{ i(n) {op}=! {read} {where and 'where ' + where} }}", x
    )
    at = OPS[op](x, 1)
    np.testing.assert_array_equal(found, 2 * at if "/" in read else at + low)


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_literal_beside_a_choice_of_places(backend: str) -> None:
    """Halide folds constants across choices, and some overflow."""
    x = numbers(4, 9)
    source = """def f(float(N,K) x) -> (a, b) {
      a(n) min=! (x(n,k+2) > 0 ? k : 2147483647)
      b(n) max=! (x(n,k+2) > 0 ? -2147483647 - 1 : k - 5)
    }"""
    k = np.arange(-2, 7)
    a = np.where(x > 0, k, 2**31 - 1).min(1)
    b = np.where(x > 0, -(2**31), k - 5).max(1)
    if backend == "interpret":
        found = tc.interpret(source, x)
    else:
        found = tc.compile(source, backend)(x)
    np.testing.assert_array_equal(found[0], a)
    np.testing.assert_array_equal(found[1], b)


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", OPS)
def test_the_first_nan_is_the_extreme(op: str, backend: str) -> None:
    x = numbers(6, 50)
    x[1, 49] = x[2, 0] = x[3, 7] = x[3, 30] = np.nan
    x[4] = np.nan
    x[5, 3], x[5, 4] = np.inf, -np.inf
    found = run(backend, f"def f(float(N,K) x) -> (i) {{ i(n) {op}=! x(n,k) }}", x)
    np.testing.assert_array_equal(found, OPS[op](x, 1))


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", OPS)
def test_a_computed_value_is_found_however_it_is_rounded(op: str, backend: str) -> None:
    """The value is stored: a product and a sum may be rounded once in one place and twice in another."""
    g = np.random.default_rng(7)
    x, y = g.random((9, 200)).astype("f4"), g.random(200).astype("f4")
    source = f"def f(float(N,K) x, float(K) y) -> (i) {{ i(n) {op}=! x(n,k) * y(k) + x(n,k) * 0.3 }}"
    found = run(backend, source, x, y)
    exact = x.astype("f8") * y + x * 0.3
    best = OPS[op](exact, 1)
    near = np.abs(exact[np.arange(9), found] - exact[np.arange(9), best])
    assert (found < 200).all() and (near < 1e-6).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranges_conditions_and_the_extreme_beside_it(backend: str) -> None:
    x = numbers(20, 20)
    source = """def f(float(N,N) x) -> (i, m, t) {
      i(n) argmax=! x(n,k) where k in 5:15
      m(n) max=! x(n,k) where k in 5:15
      t(n) argmin=! x(n,k) where k <= n
    }"""
    if backend == "interpret":
        i, m, t = tc.interpret(source, x)
    else:
        i, m, t = tc.compile(source, backend)(x)
    np.testing.assert_array_equal(i, 5 + np.argmax(x[:, 5:15], 1))
    np.testing.assert_array_equal(m, np.max(x[:, 5:15], 1))
    np.testing.assert_array_equal(t, [np.argmin(x[n, : n + 1]) for n in range(20)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_many_values_a_condition_leaves_one(backend: str) -> None:
    x = numbers(17)
    source = "def f(float(K) x, float(N) y) -> (i) { i(n) argmin=! x(k) where n in 0:N, k <= n }"
    np.testing.assert_array_equal(run(backend, source, x, np.zeros(1, "f4")), [0])
    source = "def f(float(K) x, float(N) y) -> (i) { i(n) argmax=! x(k) + y(n) where k >= K-1-n }"
    np.testing.assert_array_equal(run(backend, source, x, np.zeros(1, "f4")), [16])


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "halide"])
def test_in_a_loop(backend: str) -> None:
    """The farthest point of all that were chosen, again and again."""
    x = numbers(30, 3)
    source = """def f(float(N,D) x, int S) -> (c) {
      far(n) = 1e30 where n in 0:N
      c(0) = 0
      for s in 0:S {
        d(n) +=! (x(n,k) - x(max(min(c(s), N-1), 0), k)) * (x(n,k) - x(max(min(c(s), N-1), 0), k))
        far(n) = min(far(n), d(n))
        c(s+1) argmax=! far(n)
      }
    }"""
    far, chosen = np.full(30, 1e30, "f4"), [0]
    for _ in range(5):
        far = np.minimum(far, ((x - x[chosen[-1]]) ** 2).sum(1))
        chosen.append(int(np.argmax(far)))
    np.testing.assert_array_equal(run(backend, source, x, 5), chosen)


def test_nothing_to_choose_from() -> None:
    kernel = tc.compile("def f(float(N,K) x) -> (i) { i(n) argmax=! x(n,k) }", "reference")
    with pytest.raises(tc.PreconditionError, match="the place of an extreme of nothing: 'k' has no values"):
        kernel(np.ones((3, 0), "f4"))
    assert kernel(np.ones((0, 0), "f4")).shape == (0,)


@pytest.mark.parametrize(
    ("statement", "found"), [("i(n) argmax=! x(n,k) * y(j)", "'k', 'j'"), ("i(n,k) argmin=! x(n,k)", "none")]
)
def test_other_than_one_reduction_variable(statement: str, found: str) -> None:
    source = f"def f(float(N,K) x, float(M) y) -> (i) {{ {statement} }}"
    with pytest.raises(tc.SemanticError, match=f"one reduction variable, and this one has {found}") as caught:
        tc.compile(source, "reference")
    assert caught.value.code == "TC0230"


BESIDE = ("g(j) max=! 2*x(i,j) - u(i)", "p(j) argmax=! 2*x(i,j) - u(i)")


@pytest.mark.share(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("t", ["float", "half", "int"])
@pytest.mark.parametrize("first", [0, 1])
def test_extremes_beside_an_arg_reduction_are_taken_from_it(first: int, t: str, backend: str) -> None:
    source = f"def f({t}(N,M) x, {t}(N) u) -> (g, p) {{ {BESIDE[first]}\n{BESIDE[1 - first]} }}"
    assert sum("max= " in line for line in str(tc.compile(source).inspect("ir")).splitlines()) == 1
    rng = np.random.default_rng(0)
    dtype = {"float": "f4", "half": "f2", "int": "i4"}[t]
    x, u = rng.integers(-9, 9, (17, 21)).astype(dtype), rng.integers(-3, 3, 17).astype(dtype)
    if t != "int":
        x[3, 4] = np.nan
    g, p = run(backend, source, x, u)
    want = 2 * x.astype("f8") - u.astype("f8")[:, None]
    np.testing.assert_array_equal(np.asarray(g).astype("f8"), want.max(0))
    np.testing.assert_array_equal(p, want.argmax(0))


@pytest.mark.parametrize(
    ("source", "shape", "needed"),
    [
        ("def f(float(T) x) -> (h) { h(0) = x(0) }", (0,), "T >= 1"),
        ("def f(float(N,T) x) -> (h) { h(n,0) = x(n,0) }", (3, 0), "T >= 1 || N == 0"),
        ("def f(float(T) x) -> (h) { h(0) = x(1) }", (1,), "T >= 2"),
    ],
)
def test_a_precondition_that_only_sizes_of_0_break_is_shown(
    source: str, shape: tuple[int, ...], needed: str
) -> None:
    with pytest.raises(tc.PreconditionError) as caught:
        tc.compile(source, "reference")(np.zeros(shape, np.float32))
    assert f"must satisfy {needed}, but" in str(caught.value)


@pytest.mark.parametrize(
    "statements",
    [
        "g(j) max=! x(i,j) v(i) = 2*u(i) p(j) argmax=! x(i,j)",  # not beside it
        "g(j) max=! x(i,j) where i in 0:3 p(j) argmax=! x(i,j)",  # of fewer
        "g(j) min=! x(i,j) p(j) argmax=! x(i,j)",
        "g(j) max=! x(i,j) where i >= j, j in 0:M p(j) argmax=! x(i,j) where i >= j, j in 0:4",
        "g(j) max=! x(i,j) + u(i) p(j) argmax=! x(i,j) - u(i)",
    ],
)
def test_other_extremes_are_reduced_to(statements: str) -> None:
    source = f"def f(float(N,M) x, float(N) u) -> (g, p{', v' * ('v(' in statements)}) {{ {statements} }}"
    program = str(tc.compile(source, "reference").inspect("ir"))
    assert sum("max= " in line or "min= x" in line for line in program.splitlines()) >= 2
    rng = np.random.default_rng(0)
    x, u = rng.integers(-9, 9, (5, 6)).astype("f4"), np.ones(5, "f4")
    found = tc.compile(source, "cpu")(x, u)
    for a, b in zip(found, tc.interpret(source, x, u), strict=True):
        np.testing.assert_array_equal(a, b)


def test_values_lie_as_what_they_are_computed_from() -> None:
    """Lanes along `j` read neighbours; along `i` they read a row each."""
    source = "def f(float(N,M) x, float(N) u) -> (p) { p(j) argmax=! x(i,j) + u(i) }"
    assert "p_value(i, j)" in str(tc.compile(source).inspect("ir"))
    source = "def f(float(N,M) x, float(M) u) -> (p) { p(i) argmax=! x(i,j) + u(j) }"
    assert "p_value(i, j)" in str(tc.compile(source).inspect("ir"))
    source = "def f(float(B,N,M) x, float(N) u) -> (p) { p(j,b) argmax=! x(b,i,j) + u(i) }"
    assert "p_value(b, i, j)" in str(tc.compile(source).inspect("ir"))


def test_gradients_of_extremes_beside_an_arg_reduction() -> None:
    source = f"def f(double(N,M) x, double(N) u) -> (g, p) {{ {BESIDE[0]}\n{BESIDE[1]} }}"
    x = np.random.default_rng(0).standard_normal((5, 4))
    u = np.random.default_rng(1).standard_normal(5)
    dg = np.arange(1.0, 5)
    dx = tc.compile(tc.grad(source, wrt="x"), "cpu")(x, u, dg)
    where = (2 * x - u[:, None]).argmax(0)
    want = np.zeros((5, 4))
    want[where, np.arange(4)] = 2 * dg
    np.testing.assert_allclose(dx, want)


def test_extremes_that_read_themselves_stay_an_error_beside_an_arg_reduction() -> None:
    source = """def f(float(N,M) a, float(M) z) -> (x, p) {
      x(j) = z(j)
      x(j) max=! x(j) * a(i,j) where i in 0:N
      p(j) argmax=! x(j) * a(i,j) where i in 0:N
    }"""
    with pytest.raises(tc.SemanticError) as caught:
        tc.compile(source, "reference")(numbers(5, 7), numbers(7))
    assert caught.value.code == "TC0227"


@pytest.mark.parametrize("backend", BACKENDS)
def test_extremes_of_values_that_an_arg_reduction_changes(backend: str) -> None:
    source = """def f(float(N,M) a, int(M) z) -> (p, y) {
      p(j) = z(j)
      p(j) argmax=! a(i,j) * float(p(j))
      y(j) max=! a(i,j) * float(p(j))
    }"""
    a, z = numbers(5, 7), np.where(np.arange(7) % 2, -1, 1).astype("i4")
    p, y = run(backend, source, a, z)
    np.testing.assert_array_equal(p, (z * a).argmax(0))
    np.testing.assert_array_equal(y, (a * p).max(0))
