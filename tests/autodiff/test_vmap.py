"""Batches of programs: `tc.vmap`, and the methods of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

Array = np.ndarray[Any, Any]
PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]], tuple[str, ...]]] = {
    "a product": (
        "def f(float(N) x, float(M,N) w) -> (y) { y(m) +=! x(n) * w(m,n) }",
        {"x": (5,), "w": (3, 5)},
        ("x",),
    ),
    "temporaries and scalars": (
        """def f(float(N,M) x, float(M) w) -> (y, z) {
             m(i) max=! x(i,j)
             t = w(0) + 1
             y(i) +=! (x(i,j) - m(i)) * w(j) * t
             z(j) = w(j) * 2
           }""",
        {"x": (3, 4), "w": (4,)},
        ("x",),
    ),
    "modes, extents and lets": (
        """def f(float(N,M) x, float(K) w) -> (y) {
             y(i,j) +=! a * w(k) where a = x[none,clamp](i,j+k-1), i in 0:x.0, j in 0:x.1
           }""",
        {"x": (3, 4), "w": (3,)},
        ("x", "w"),
    ),
    "a loop": (
        """def f(float(T,N) x, float(N) h0) -> (h) {
             h(0,j) = h0(j)
             for t in 1:T { h(t,j) = h(t-1,j) * x(t,j) + x(t-1,j) }
           }""",
        {"x": (4, 3), "h0": (3,)},
        ("x",),
    ),
    "calls": (
        """def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }
           def f(float(N) x, float(N) w) -> (z) { u = square(x)  v = square(w)  z(i) = u(i) + v(i) }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
    "an arg-reduction": (
        "def f(float(N,M) x) -> (k) { k(i) argmax=! x(i,j) }",
        {"x": (3, 4)},
        ("x",),
    ),
    "a concat of a part that is batched and one that is not": (
        "def f(float(N) A, float(M) Z) -> (D) { D = concat(A, Z) }",
        {"A": (2,), "Z": (3,)},
        ("A",),
    ),
    "a concat of temporaries, one of a call and one of another origin": (
        """def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }
           def f(float(M,N) x, float(M,N) w) -> (D, E) {
             t(m,i) = w(m,i-1) where i in 1:N
             u(m,i) = x(m,i+1)
             r(m) +=! x(m,i)
             q = square(r)
             p(m) +=! w(m,i)
             v = square(p)
             D = concat(t, x, u, w)
             E = concat(v, q)
           }""",
        {"x": (2, 3), "w": (2, 3)},
        ("x",),
    ),
    "a concat that is batched later": (
        """def f(float(N) x, float(N) w) -> (D) {
             D = concat(w, w)
             D(i) += x(i)
           }""",
        {"x": (2,), "w": (2,)},
        ("x",),
    ),
    "a concat of what is not batched": (
        "def f(float(N) x, float(N) w) -> (D, y) { D = concat(w, w)  y(i) = D(i) * x(i) }",
        {"x": (2,), "w": (2,)},
        ("x",),
    ),
    "a concat in a loop": (
        """def f(float(T,N) x, float(N) w) -> (y) {
             y(i) = 0.0 where i in 0:2*N
             for t in 0:T {
               u(i) = x(t,i)
               c = concat(u, w)
               y(i) = y(i) * 2 + c(i)
             }
           }""",
        {"x": (3, 2), "w": (2,)},
        ("x",),
    ),
    "the result of a call that is batched later": (
        """def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }
           def f(float(N) x, float(N) w) -> (u) { u = square(w)  u(i) += x(i) }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
    "a call with results of which one is batched later": (
        """def both(float(N) x) -> (float(N) y, float z) { y(i) = x(i) * x(i)  z +=! x(i) }
           def f(float(N) x, float(N) w) -> (u, v) { (u, v) = both(w)  u(i) += x(i) }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
    "a call with results of which one depends on what is batched": (
        """def both(float(N) x, float(N) w) -> (y, z) { y(i) = x(i) * x(i)  z(i) = w(i) + 1 }
           def f(float(N) x, float(N) w) -> (u, v, s) {
             (u, v) = both(x, w)
             (v, s) = both(w, v)
             s(i) += v(i)
           }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
    "a call that adds to a batched result": (
        """def add(float(N) x) -> (y) { y(i) += x(i) }
           def more(float(N) x) -> (y) { y = add(x) }
           def f(float(N) x, float(N) w) -> (u) { u(i) = x(i)  u = more(w)  u = add(w)  u = add(x) }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
    "scalars of calls": (
        """def scale(float(N) x, float a, int n) -> (y) { y(i) = x(i) * a + n }
           def f(float(N) x, float(N) w, float s) -> (u, v, z) {
             t +=! x(i)
             u = scale(w, s * 2 + t, x.0)
             v = scale(x, s, w.0)
             z = scale(w, s + 1, x.0)
           }""",
        {"x": (4,), "w": (4,), "s": ()},
        ("x",),
    ),
    "batched scalars of calls": (
        """def scale(float(N) x, double a, int n) -> (y) { y(i) = float(x(i) * a) + n }
           def f(float(N) x, float(N) w, float s) -> (u, v) {
             u = scale(w, s * 2, x.0)
             v = scale(w, s, 1)
           }""",
        {"x": (4,), "w": (4,), "s": ()},
        ("s",),
    ),
    "bounds of loops and ranges": (
        """def f(float(T,N) x, float(N) w) -> (h, n, k) {
             h(0,j) = w(j)
             for t in 1:x.0 { h(t,j) = h(t-1,j) * 2 + w(j) * t }
             n(j) = w(j) * x.0 where j in 0:x.1
             k(j) +=! h(t,j) * x(t,j) where t in 0:x.0
           }""",
        {"x": (4, 3), "w": (3,)},
        ("x",),
    ),
    "state that is batched in the loop only": (
        """def f(float(T,N) x, float(N) w) -> (h, c) {
             h(j) = w(j)
             c(j) = w(j)
             for t in 0:T {
               g(j) = c(j) + w(j)
               h(j) = h(j) + x(t,j) * g(j)
               c(j) = g(j) * 2
             }
           }""",
        {"x": (4, 3), "w": (3,)},
        ("x",),
    ),
    "a tensor that is redefined with what is batched": (
        """def f(float(N) x, float(N) w) -> (y, z) {
             t(i) = w(i) * 2
             y(i) = t(i) + x(i)
             t(i) = x(i) * 3
             z(i) = t(i) + w(i)
           }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
    "arg-reductions of which one is batched": (
        """def f(float(N,M) x, float(N,M) w) -> (k, l, y, z) {
             k(i) argmax=! x(i,j) + w(i,j)
             l(i) argmin=! w(i,j)
             y(i) = x(i,l(i))
             z(i) = w(i,k(i))
           }""",
        {"x": (3, 4), "w": (3, 4)},
        ("x",),
    ),
    "an index with the name of a tensor": (
        """def f(float(N) x, float(N) w) -> (m, y) {
             m +=! x(i)
             y(m) = w(m) where m in 0:N
             y(m) += x(m) * m() where m in 0:N
           }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
    "pieces and rows": (
        """def f(float(T) x, float(T) w) -> (best) {
             best(0,c) = w(0) where c in 0:3
             for t in 0:T { best(t+1,c) = max(best(t,c), c >= 1 ? best(t,c-1) + x(t) : 0) where c in 0:3 }
           }""",
        {"x": (4,), "w": (4,)},
        ("x",),
    ),
}


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess", "ignore::tc.UninitializedReduction")
@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_batch_is_each_of_its_elements(name: str, backend: str) -> None:
    source, shapes, batched = PROGRAMS[name]
    rng = np.random.default_rng(1)
    one, many = tc.compile(source, backend=backend), tc.vmap(source, dict.fromkeys(batched, 0))
    assert tc.vmap(source, [0 if n in batched else None for n in shapes]) == many
    values: dict[str, Array] = {
        n: rng.integers(-3, 4, ((5, *s) if n in batched else s)).astype(np.float32) for n, s in shapes.items()
    }
    found = tc.compile(many, backend=backend)(**values)
    found = found if isinstance(found, tuple) else (found,)
    for k in range(5):
        each = one(**{n: v[k] if n in batched else v for n, v in values.items()})
        each = each if isinstance(each, tuple) else (each,)
        for a, b in zip(found, each, strict=True):
            np.testing.assert_array_equal(a[k] if a.ndim > b.ndim else a, b)


@pytest.mark.parametrize("batched", [("at",), ("w",), ("h",), ("at", "w"), ("w", "h")])
def test_scatters_of_what_is_partly_batched(batched: tuple[str, ...]) -> None:
    source = """def f(int(N) at, float(N) w, float(K) h) -> (c, d) {
                  c(k) = h(k)
                  c(at(i)) += w(i)
                  d(k) = 0 where k in 0:K
                  d(at(i)) += 1
                }"""
    one, many = tc.compile(source, backend="reference"), tc.vmap(source, dict.fromkeys(batched, 0))
    rng = np.random.default_rng(2)
    values: dict[str, Array] = {"at": rng.integers(0, 3, (5, 4), dtype=np.int32)}
    values |= {n: rng.integers(-3, 4, (5, k)).astype(np.float32) for n, k in (("w", 4), ("h", 3))}
    found = tc.compile(many, backend="reference")(
        **{n: v if n in batched else v[0] for n, v in values.items()}
    )
    assert found[1].ndim == (2 if "at" in batched else 1)
    for k in range(5):
        each = one(**{n: v[k if n in batched else 0] for n, v in values.items()})
        for a, b in zip(found, each, strict=True):
            np.testing.assert_array_equal(a[k] if a.ndim > b.ndim else a, b)


def test_results_of_the_caller() -> None:
    source = """def add(float(N) x) -> (y) { y(i) += x(i) }
                def f(float(N) x, float(N) w) -> (float(N) y, float(N) z) {
                  y(i) = y(i) * x(i)
                  y = add(w)
                  z(i) = z(i) + w(i)
                }"""
    kernel = tc.compile(tc.vmap(source, {"x": 0}), backend="reference")
    x, w = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, 2], np.float32)
    y, z = np.ones((3, 2), np.float32), np.ones(2, np.float32)
    kernel(x, w, out=(y, z))
    np.testing.assert_array_equal(y, x + w)
    np.testing.assert_array_equal(z, 1 + w)


def test_what_is_no_program_is_refused_as_it_is_by_compile() -> None:
    source = "def g(float(N) x) -> (y) { y = f(x) }  def f(float(N) x) -> (y) { y = g(x) }"
    with pytest.raises(tc.SemanticError) as e:
        tc.vmap(source)
    assert e.value.code == "TC0222"


def test_a_scatter() -> None:
    source = """def f(int(N) at) -> (c) { c(k) = 0 where k in 0:4  c(at(i)) += 1 }"""
    at = np.array([[0, 1, 1], [3, 3, 3]], np.int32)
    found = tc.compile(tc.vmap(source), backend="reference")(at)
    assert found.tolist() == [[1, 2, 0, 0], [0, 0, 0, 3]]


def test_a_batch_of_a_batch_and_a_scalar() -> None:
    source = "def f(float(N) x, float s) -> (y) { y(i) = s * x(i) }"
    twice = tc.vmap(tc.vmap(source, {"x": 0, "s": 0}), {"x": 0}, size="A")
    assert twice.startswith("def f_vmap_vmap(float(A,B,N) x, float(B) s) -> (y)")
    x, s = np.arange(12, dtype=np.float32).reshape(2, 3, 2), np.array([1, 2, 3], np.float32)
    found = tc.compile(twice, backend="reference")(x, s)
    np.testing.assert_array_equal(found, x * s[None, :, None])


def test_what_is_refused() -> None:
    source = "def f(float(N) x, float s) -> (y) { y(i) = s * x(i) }"
    for axes, text in (
        ({"z": 0}, "'z' in in_axes is no parameter"),
        ([0], "1 entries, and 'f' 2 parameters"),
        ({"x": 1}, "gives axis 1 for 'x'"),
        ([None, None], "no parameter of 'f' is batched"),
    ):
        with pytest.raises(tc.ArgumentError, match=text) as e:
            tc.vmap(source, axes)  # type: ignore[arg-type]
        assert e.value.code == "TC0527"


def test_kernels_have_them_as_methods() -> None:
    kernel = tc.compile("def f<T>(T(N) x) -> (y) { y(i) = x(i) * x(i) }", backend="reference").at(T="double")  # type: ignore[attr-defined]
    x = np.array([1.0, 2.0, 3.0])
    assert kernel.grad()(x, np.ones(3)).tolist() == [2, 4, 6]
    assert kernel.jvp("x")(x, np.ones(3)).t_y.tolist() == [2, 4, 6]
    assert kernel.vmap()(np.stack([x, x])).tolist() == [[1, 4, 9], [1, 4, 9]]
    assert kernel.grad().grad("x")(x, np.ones(3), np.ones(3)).tolist() == [2, 2, 2]
    sac: Any = tc.compile(
        "double[.] f(double[.] A) { return { iv -> A[iv] }; }", lang="sac", backend="reference"
    )
    with pytest.raises(tc.ArgumentError, match="grad is for programs in the notation of tensor comp") as e:
        sac.grad()
    assert e.value.code == "TC0528"
