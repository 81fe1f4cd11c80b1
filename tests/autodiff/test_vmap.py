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
}


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
