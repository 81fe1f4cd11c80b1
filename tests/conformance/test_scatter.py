"""Scatter (docs/language.md, "Scatter"): updates of elements that data choose, against NumPy's `ufunc.at`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.running import run

Array = np.ndarray[Any, Any]
BACKENDS = ["interpret", "reference", "cpu", "opencl"]
UFUNCS: dict[str, np.ufunc] = {"+=": np.add, "*=": np.multiply, "min=": np.minimum, "max=": np.maximum}


def integers(*shape: int, low: int = 0, high: int = 8, dtype: Any = np.int32) -> Array:
    return np.random.default_rng(len(shape)).integers(low, high, shape).astype(dtype)


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("dtype", ["float", "double", "int", "int8", "half"])
def test_every_reduction_and_type(dtype: str, op: str, backend: str) -> None:
    kind = {"float": "f4", "double": "f8", "half": "f2", "int": "i4"}.get(dtype, dtype)
    at, x = integers(30), integers(30, low=-1, high=3, dtype=kind)
    source = f"""def f(int(N) at, {dtype}(N) x) -> ({dtype} h) {{
      h(k) = 1 where k in 0:8
      h(at(i)) {op} x(i)
    }}"""
    want = np.ones(8, np.float32 if kind == "f2" else kind)
    UFUNCS[op].at(want, at, x.astype(want.dtype))
    np.testing.assert_array_equal(run(backend, source, at, x), want.astype(kind))


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_a_table(backend: str) -> None:
    ids, dy = integers(6, 5, high=11), integers(6, 7, low=-3, high=4, dtype=np.float32)
    source = """def f(int(N,L) ids, float(N,D) dy, int V) -> (g) {
      g(v,d) = 0.0 where v in 0:V, d in 0:D
      g(ids(n,l), d) += dy(n,d)
    }"""
    want = np.zeros((11, 7), np.float32)
    np.add.at(want, ids.reshape(-1), np.repeat(dy, 5, 0))
    np.testing.assert_array_equal(run(backend, source, ids, dy, 11), want)


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("index", ["int8", "uint8", "int16", "int64"])
def test_computed_subscripts_of_any_integer_type(index: str, backend: str) -> None:
    """Two of them, with conditions, among statements that other loops compute."""
    a, b = integers(40, dtype=index), integers(40, high=5, dtype=index)
    w = integers(40, low=-3, high=4, dtype=np.float32)
    source = """def f(int(N) a, int(N) b, float(N) w) -> (m, t) {
      h(p,q) = 0.0 where p in 0:8, q in 0:9
      s(i) = w(i) * w(i)
      h(7 - a(i), 2*b(i)) += s(i) + 1 where i < 30
      m(p,q) = 2 * h(p,q)
      t +=! m(p,q)
    }"""
    h = np.zeros((8, 9), np.float32)
    np.add.at(h, (7 - a[:30].astype(int), 2 * b[:30].astype(int)), w[:30] ** 2 + 1)
    if backend == "interpret":
        m, t = tc.interpret(source, a, b, w)
    else:
        m, t = tc.compile(source, backend)(a, b, w)
    np.testing.assert_array_equal(m, 2 * h)
    assert t == 2 * h.sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_callers_buffer(backend: str) -> None:
    at = integers(50)
    source = "def f(int(N) at, int(K) z) -> (int(K) h) { h(at(i)) += 1 }"
    start = np.arange(8, dtype=np.int32)
    want = start + np.bincount(at, minlength=8)
    if backend == "interpret":
        found = tc.interpret(source, at, start, out=start)
    else:
        with pytest.warns(tc.UninitializedReduction):
            kernel = tc.compile(source, backend)
        found = kernel(at, start, out=start.copy())
        np.testing.assert_array_equal(kernel(at, start), np.bincount(at, minlength=8))
    np.testing.assert_array_equal(found, want)


@pytest.mark.share(4)
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_a_loop(backend: str) -> None:
    """Cluster means, twice: each point is added to the mean that is nearest."""
    x = integers(40, 2, low=-9, high=10, dtype=np.float32)
    source = """def f(float(N,D) x, float(K,D) c0, int S) -> (c) {
      c(k,d) = c0(k,d)
      for s in 0:S {
        e(n,k) +=! (x(n,d) - c(k,d)) * (x(n,d) - c(k,d))
        near(n) argmin=! e(n,k)
        count(k) = 0.0 where k in 0:c.0
        sum(k,d) = 0.0 where k in 0:c.0, d in 0:D
        count(near(n)) += 1.0
        sum(near(n), d) += x(n,d)
        c(k,d) = sum(k,d) / fmax(count(k), 1)
      }
    }"""
    c = x[:4].copy()
    for _ in range(2):
        near = ((x[:, None] - c[None]) ** 2).sum(2).argmin(1)
        count, total = np.zeros(4, "f4"), np.zeros((4, 2), "f4")
        np.add.at(count, near, 1)
        np.add.at(total, near, x)
        c = total / np.maximum(count, 1)[:, None]
    np.testing.assert_allclose(run(backend, source, x, x[:4], 2), c, rtol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
def test_dynamic_sizes(backend: str) -> None:
    source = "def f(int(N) at, int(K) z) -> (h) { h(k) = z(k) h(at(i)) += 1 }"
    kernel = tc.compile(source, backend, dynamic=("N", "K"))
    for n, k in ((3, 5), (100, 7), (64, 64)):
        at = integers(n, high=k)
        np.testing.assert_array_equal(kernel(at, np.zeros(k, "i4")), np.bincount(at, minlength=k))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", [8, -1, 2**31 - 1])
def test_a_subscript_out_of_range(wrong: int, backend: str) -> None:
    at = integers(20)
    at[11] = wrong
    source = "def f(int(N) at) -> (h) { h(k) = 0 where k in 0:8 h(at(i)) += 1 }"
    with pytest.raises(tc.BoundsError, match=str(wrong)) as caught:
        run(backend, source, at)
    assert caught.value.code == "TC0701"
    if backend != "interpret":
        assert "of 'h' (0 to 7), at i = 11" in str(caught.value)


def test_halide_refuses_it_by_name() -> None:
    source = "def f(int(N) at) -> (h) { h(k) = 0 where k in 0:8 h(at(i)) += 1 }"
    with pytest.raises(tc.BackendError, match="h\\(at\\(i\\)\\) \\+= 1"):
        tc.compile(source, "halide").specialize(N=10)


def test_a_launch_has_threads_over_what_no_two_instances_share() -> None:
    source = """def g(int(N,L) ids, float(N,D) dy, float(V,D) z) -> (g) {
      g(v,d) = z(v,d)
      g(ids(n,l),d) += dy(n,d)
    }"""
    kernel = tc.compile(source, "cuda", options={"isa": "sm_90"})
    loops = kernel.inspect("loops", N=50, L=3, D=70, V=100)
    assert "blocks d_b < 2, threads d_t < 64" in loops and "for d in [64 * d_b + d_t, min(" in loops
    assert "if (inside)" in kernel.inspect("code", N=50, L=3, D=70, V=100)
    one = tc.compile("def f(int(N) at, int(K) z) -> (h) { h(k) = z(k) h(at(i)) += 1 }", "opencl")
    assert "blocks 1, threads 1\n" in one.inspect("loops", N=50, K=8)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("h(k) = 0 where k in 0:8 h(at(i)) = 1", "an assignment cannot have"),
        ("h(k) = 0 where k in 0:8 h(at(i)) +=! 1", "'\\+=!' cannot have"),
        ("p argmax=! at(i) h(p) = at(p)", "an assignment cannot have"),
        ("h(at(i)) += 1", "the first statement of a tensor cannot have"),
        ("h(k) = 0 where k in 0:8 h(at(i)) += h(0)", "scatters into 'h' and reads it"),
    ],
)
def test_scatters_that_are_refused(body: str, message: str) -> None:
    with pytest.raises(tc.SemanticError, match=message) as caught:
        tc.compile(f"def f(int(N) at) -> (h) {{ {body} }}", "reference")
    assert caught.value.code == "TC0231"


@pytest.mark.filterwarnings("ignore:.*TC1003")
@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
def test_the_name_of_a_tensor_without_dimensions_is_its_value(backend: str) -> None:
    """On both sides; on the left it had been a new index, which silently counted all elements."""
    source = """def f(float(M) v) -> (p, m) {
      m(j) = 0.0 where j in 0:M
      p argmax=! v(j)
      m(p) += v(p) + 1
    }"""
    v = np.array([1, 5, 2], np.float32)
    p, m = tc.interpret(source, v) if backend == "interpret" else tc.compile(source, backend)(v)
    assert p == 1
    np.testing.assert_array_equal(m, [0, 6, 0])


def test_an_index_with_a_range_may_have_the_name_of_such_a_tensor() -> None:
    source = "def f(float(M) v) -> (p, m) { p argmax=! v(j) m(p) = v(p) where p in 0:M }"
    found = tc.compile(source, "reference")(np.array([1, 5, 2], np.float32))
    np.testing.assert_array_equal(found[1], [1, 5, 2])


DROPPED = {
    "+=": (np.add.at, 0.0),
    "max=": (np.maximum.at, -2.0),
    "min=": (np.minimum.at, 2.0),
    "*=": (np.multiply.at, 1.0),
}


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
@pytest.mark.parametrize("op", DROPPED)
def test_what_lies_outside_is_dropped(op: str, backend: str) -> None:
    update, start = DROPPED[op]
    source = f"""def f(int(N) at, float(N,D) x, float(K) z) -> (y) {{
      y(k,d) = {start} where k in 0:z.0, d in 0:x.1
      y(at(i),d) {op} x(i,d)
    }}"""
    kernel = tc.compile(source, backend=backend, checks="drop")
    rng = np.random.default_rng(2)
    for k in (0, 1, 4):
        at, x = rng.integers(-3, 7, 40).astype(np.int32), rng.integers(-2, 3, (40, 3)).astype(np.float32)
        wanted = np.full((k, 3), start, np.float32)
        inside = (at >= 0) & (at < k)
        with np.errstate(over="ignore"):
            update(wanted, at[inside], x[inside])
        np.testing.assert_array_equal(kernel(at, x, np.zeros(k, np.float32)), wanted)
        if not inside.all():
            with pytest.raises(tc.BoundsError):
                tc.compile(source, backend=backend)(at, x, np.zeros(k, np.float32))
