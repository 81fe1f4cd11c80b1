"""What operators of PyTorch and JAX make of options, of scalars and of a backward that is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

SQUARES = "def squares(float(N) x) -> (y) { y(i) = x(i) * x(i) }"
GENERIC = "def f<T>(T(N) x) -> (y) { y(i) = x(i) * x(i) }"
HISTOGRAM = """def h(int(N) b, float(N) w) -> (h) {
  h(k) = 0.0 where k in 0:4
  h(b(i)) += w(i) * w(i)
}"""
PLACES = np.array([0, 2, 7, -1, 2], np.int32)


def gradient(framework: str, op: Any, *args: Any) -> np.ndarray[Any, Any]:
    """Of the sum of the result by the last argument."""
    if framework == "jax":
        found = jax.grad(lambda *a: op(*a).sum(), argnums=len(args) - 1)(*map(jax.numpy.asarray, args))
        return np.asarray(found)
    given = [torch.from_numpy(a) for a in args]
    given[-1].requires_grad_()
    op(*given).sum().backward()
    return given[-1].grad.numpy()


def batch(framework: str, op: Any, fixed: Any, many: Any) -> np.ndarray[Any, Any]:
    if framework == "jax":
        return np.asarray(jax.vmap(lambda a: op(fixed, a))(many))
    return torch.func.vmap(lambda a: op(torch.from_numpy(fixed), a))(torch.from_numpy(many)).numpy()


def make(framework: str, *args: Any, **options: Any) -> Any:
    return (tc.jax if framework == "jax" else tc.torch).op(*args, **options)


both = pytest.mark.parametrize("framework", ["torch", "jax"])


@both
def test_what_is_dropped_has_no_gradient(framework: str) -> None:
    op = make(framework, HISTOGRAM, checks="drop")
    w = np.array([1, 2, 3, 4, 5], np.float32)
    np.testing.assert_array_equal(gradient(framework, op, PLACES, w), [2, 4, 0, 0, 10])
    np.testing.assert_array_equal(batch(framework, op, PLACES, np.stack([w, 2 * w]))[1], [4, 0, 116, 0])
    kernel = tc.compile(HISTOGRAM, "reference", checks="drop")
    np.testing.assert_array_equal(kernel.grad()(PLACES, w, np.ones(4, np.float32)), [2, 4, 0, 0, 10])
    _, tangent = kernel.jvp()(PLACES, w, np.ones(5, np.float32))
    np.testing.assert_array_equal(tangent, [2, 0, 14, 0])


@both
def test_gradients_and_batches_of_a_def_of_given_types(framework: str) -> None:
    op = make(framework, GENERIC, types={"T": "float"})
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(gradient(framework, op, x), 2 * x)
    kernel = make(framework, tc.compile(GENERIC, "reference"))
    np.testing.assert_array_equal(gradient(framework, kernel, x), 2 * x)


@both
def test_functions_of_sac_have_no_gradient(framework: str) -> None:
    op = make(framework, "float[.] sq(float[.] A) { return { [i] -> A[i] * A[i] }; }", lang="sac")
    with pytest.raises(tc.ArgumentError, match="this is SaC") as caught:
        gradient(framework, op, np.ones(2, np.float32))
    assert caught.value.code == "TC0528"
    with pytest.raises(tc.ArgumentError, match="are open") as caught:
        make(framework, "{ iv -> A[iv] + 1 }", lang="sac")
    assert caught.value.code == "TC0511"


@both
@pytest.mark.parametrize(
    "backward",
    [
        "def b(float(N) x, float(N) d_y) -> (d_x) { d_x(i) = 100 * d_y(i) + 0 * x(i) }",
        "def b(float(N) d_y, float(N) y) -> (d_x) { d_x(i) = 99 * d_y(i) + y(i) }",
        lambda x, d_y: 100 * d_y + 0 * x,
    ],
    ids=["in order", "by names", "function"],
)
def test_a_backward_that_is_given(backward: Any, framework: str) -> None:
    op = make(framework, SQUARES, backward=backward)
    np.testing.assert_array_equal(gradient(framework, op, np.ones(2, np.float32)), [100, 100])


@both
@pytest.mark.parametrize("backward", [lambda x, d_y: (d_y, d_y), lambda x, d_y: d_y[:1]])
def test_a_backward_of_other_shapes(backward: Any, framework: str) -> None:
    op = make(framework, SQUARES, backward=backward)
    with pytest.raises(tc.ArgumentError, match="the backward of 'squares' returns") as caught:
        gradient(framework, op, np.ones(2, np.float32))
    assert caught.value.code == "TC0524"


def test_a_backward_of_jax_that_is_no_def() -> None:
    with pytest.raises(tc.ParseError):
        tc.jax.op(SQUARES, backward="nonsense")


def test_two_results_and_a_backward_under_jit() -> None:
    """Adjoints come for floating results alone, scalars as numbers."""
    source = "def f(float(N) x, float s) -> (y, k) { y(i) = s * x(i) k argmax=! x(i) }"
    backward = "def b(float(N) x, float s, float(N) d_y) -> (d_x) { d_x(i) = 7 * s * d_y(i) + 0 * x(i) }"
    op = tc.jax.op(source, backward=backward)
    x = jax.numpy.ones(3)
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: op(x, 2.0)[0].sum()))(x), [14, 14, 14])


def test_scalars_of_jax_are_those_of_a_kernel() -> None:
    source = "def f(float(N) x, int8 k, bool b, float a) -> (y) { y(i) = b ? x(i) * k / a : 0.0 }"
    op, kernel = tc.jax.op(source), tc.compile(source, "reference")
    x = np.ones(2, np.float32)
    for given in ((3.7, True, 1.0), ("3", True, 1.0), (1, 2, 1.0), (300, True, 1.0), (1, True, 1e40)):
        messages = []
        for call in (op, kernel):
            with pytest.raises(tc.ArgumentError) as caught:
                call(x, *given)
            assert caught.value.code == "TC0510"
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
    for a in (0.0, -0.0, np.inf, np.nan, np.float64(2), jax.numpy.float32(4)):
        np.testing.assert_array_equal(op(x, 1, True, a), kernel(x, 1, True, np.float32(a)))
    for _ in range(3):
        op(x, 1, True, float("nan"))
    assert len(op._traced) == 6


DENSE = "def dense(float(B,I) x, float(O,I) w, float s) -> (y) { y(n,o) +=! x(n,i) * w(o,i) * s }"


@both
@pytest.mark.parametrize(
    ("args", "named", "code", "message"),
    [
        ((0, 0), {}, "TC0501", r"dense: expected 3 inputs \(x, w, s\), got 2"),
        ((0, 0, 1.0, 2), {}, "TC0501", r"got 4"),
        ((0, 0, 1.0), {"q": 1}, "TC0502", "unknown argument 'q'"),
        ((0, 0), {"w": 0, "s": 1.0}, "TC0502", "w is given by position and by name"),
        ((0,), {"s": 1.0}, "TC0501", "got 2"),
    ],
)
def test_arguments_that_do_not_fit(
    args: tuple[Any, ...], named: dict[str, Any], code: str, message: str, framework: str
) -> None:
    """A 0 stands for a matrix."""
    matrix = np.ones((2, 4), np.float32)
    matrix = torch.from_numpy(matrix) if framework == "torch" else jax.numpy.asarray(matrix)
    op = make(framework, DENSE)
    with pytest.raises(tc.ArgumentError, match=message) as caught:
        op(*(matrix if a == 0 else a for a in args), **{n: matrix if a == 0 else a for n, a in named.items()})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([[1.0, 2.0]], "x is not a tensor but a list"),
        (np.ones((2, 4), np.float32), "x is not a tensor but a ndarray"),
        (torch.ones(2, 4).to_sparse(), "x is a tensor of the layout torch.sparse_coo"),
    ],
    ids=["list", "array", "sparse"],
)
def test_what_is_no_dense_tensor(other: Any, message: str) -> None:
    w = torch.ones(3, 4, requires_grad=True)
    with pytest.raises(tc.ArgumentError, match=message) as caught:
        tc.torch.op(DENSE)(other, w, 1.0)
    assert caught.value.code == "TC0505"
