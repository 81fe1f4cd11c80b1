"""Defs as functions of JAX."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tc

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")
check_grads: Any = pytest.importorskip("jax.test_util").check_grads

LAYER = """def layer(float(B,I) x, float(O,I) w, float(O) b) -> (y) {
  y(n,o) +=! x(n,i) * w(o,i)
  y(n,o) = tanh(y(n,o) + b(o))
}"""
TWO = "def both(float(N) x) -> (y, s) { y(i) = x(i) * x(i)  s +=! y(i) * x(i) }"


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=s).astype(np.float32)) for s in shapes]


def plain(x: Any, w: Any, b: Any) -> Any:
    return jnp.tanh(x @ w.T + b)


@pytest.mark.parametrize("t", ["float", "T"])
def test_functions_are_copied_and_pickled(t: str) -> None:
    source = f"def f{'<T>' if t == 'T' else ''}({t}(N) x) -> (y) {{ y(i) = x(i) * x(i) }}"
    op = tc.jax.op(source, ties="split")
    for other in (copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        np.testing.assert_array_equal(jax.grad(lambda x, f=other: f(x).sum())(jnp.arange(3.0)), [0, 2, 4])


def test_the_same_as_in_jax() -> None:
    op = tc.jax.op(LAYER)
    x, w, b = arrays((5, 7), (4, 7), (4,))
    np.testing.assert_allclose(op(x, b=b, w=w), plain(x, w, b), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(op)(x, w, b), plain(x, w, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit", [False, True])
def test_gradients(jit: bool) -> None:
    op = tc.jax.op(LAYER)
    given = arrays((5, 7), (4, 7), (4,))

    def loss(f: Any) -> Any:
        found = jax.grad(lambda *a: (f(*a) ** 2).sum(), argnums=(0, 1, 2))
        return jax.jit(found) if jit else found

    for f, g in zip(loss(op)(*given), loss(plain)(*given), strict=True):
        np.testing.assert_allclose(f, g, rtol=1e-4, atol=1e-5)


def test_second_derivatives() -> None:
    check_grads(tc.jax.op(LAYER), arrays((2, 3), (2, 3), (2,)), order=2, modes=["rev"], rtol=2e-2, atol=2e-2)


def test_several_results_and_rank_0() -> None:
    op = tc.jax.op(TWO)
    (x,) = arrays((6,))
    y, s = op(x)
    assert y.shape == (6,) and s.shape == ()
    np.testing.assert_allclose(jax.grad(lambda x: op(x)[1])(x), 3 * x * x, rtol=1e-5)
    check_grads(op, (x,), order=1, modes=["rev"], rtol=1e-2, atol=1e-2)


def test_vmap_and_scan() -> None:
    op = tc.jax.op(TWO)
    (x,) = arrays((3, 6))
    y, s = jax.vmap(op)(x)
    np.testing.assert_allclose(y, x * x, rtol=1e-6)
    np.testing.assert_allclose(s, (x**3).sum(1), rtol=1e-5)
    carry, _ = jax.lax.scan(lambda c, row: (op(c + row)[0], None), jnp.zeros(6), x)
    wanted = jnp.zeros(6)
    for row in x:
        wanted = (wanted + row) ** 2
    np.testing.assert_allclose(carry, wanted, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_integers_get_no_gradients() -> None:
    op = tc.jax.op("def f(float(N,D) table, int(L) at) -> (y) { y(l,d) = table(at(l),d) }")
    (table,) = arrays((5, 2))
    at = jnp.asarray([1, 4, 1], dtype=jnp.int32)
    found = jax.grad(lambda t: op(t, at).sum())(table)
    np.testing.assert_array_equal(found, [[0, 0], [2, 2], [0, 0], [0, 0], [1, 1]])


def test_scalars_are_numbers() -> None:
    op = tc.jax.op("def f(float(N) x, float s) -> (y) { y(i) = s * x(i) * x(i) }")
    (x,) = arrays((4,))
    np.testing.assert_allclose(jax.grad(lambda x: op(x, 1.5).sum())(x), 3 * x, rtol=1e-6)
    with pytest.raises(tc.ArgumentError, match="the scalar s is traced"):
        jax.jit(op)(x, 1.5)


def test_what_does_not_fit() -> None:
    op = tc.jax.op(LAYER)
    x, w, b = arrays((5, 7), (4, 6), (4,))
    with pytest.raises(tc.ArgumentError, match="dimension 1 of w has another extent than I"):
        op(x, w, b)
    with pytest.raises(tc.DTypeError, match="x has type int32, not float32"):
        op(x.astype(jnp.int32), w, b)
    with pytest.raises(tc.ArgumentError, match="arrays of JAX do not change"):
        tc.jax.op("def f(float(N) x) -> (y) { y(i) = y(i) + x(i) }")


def test_scalars_that_shape_results() -> None:
    op = tc.jax.op("def f(float(N) x, int s) -> (y) { y(i) = x(s*i) * x(s*i) }")
    (x,) = arrays((5,))
    wanted = 2 * x * jnp.asarray([1, 0, 1, 0, 1])
    np.testing.assert_allclose(jax.grad(lambda x: op(x, 2).sum())(x), wanted, rtol=1e-6)


def test_gradients_of_a_loop() -> None:
    op = tc.jax.op("def f(float(N) x) -> (y) { y(0) = x(0) for t in 1:N { y(t) = y(t-1) * x(t) } }")
    (x,) = arrays((5,))
    found = jax.grad(lambda x: op(x).sum())(x)
    np.testing.assert_allclose(found, jax.grad(lambda x: jnp.cumprod(x).sum())(x), rtol=1e-5)


def test_a_batch_is_a_kernel_and_no_loop() -> None:
    op = tc.jax.op("def f(float(N) x, float(M,N) w) -> (y) { y(m) +=! tanh(x(n)) * w(m,n) }")
    x, w = arrays((4, 5), (3, 5))

    def plain(x: Any, w: Any) -> Any:
        return w @ jnp.tanh(x)

    for transform in (lambda f: f, jax.jit, lambda f: jax.grad(lambda x, w: f(x, w).sum())):
        found = jax.vmap(transform(op), (0, None))(x, w)
        np.testing.assert_allclose(found, jax.vmap(transform(plain), (0, None))(x, w), rtol=1e-5, atol=1e-6)
    outer = jax.grad(lambda x, w: jax.vmap(op, (0, None))(x, w).sum())(x, w)
    np.testing.assert_allclose(
        outer, jax.grad(lambda x, w: jax.vmap(plain, (0, None))(x, w).sum())(x, w), rtol=1e-5
    )
    assert ("x",) in op._batches
