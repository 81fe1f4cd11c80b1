"""Gradients of programs: against finite differences, and what their sources say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tc
from tc.autodiff.gradient import gradient

Array = np.ndarray[Any, Any]
# Of programs with look-ups, and of their gradients at sizes that leave a border nothing.
LOOK_UPS = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess", "ignore::tc.EmptyRange")

PROGRAMS: dict[str, tuple[str, Mapping[str, Sequence[int]]]] = {
    "layer": (
        """def f(double(B,I) x, double(O,I) w, double(O) b) -> (y) {
             y(n,o) +=! x(n,i) * w(o,i)
             y(n,o) = fmax(y(n,o) + b(o), 0)
           }""",
        {"x": (5, 7), "w": (4, 7), "b": (4,)},
    ),
    "soft-max": (
        """def f(double(N,M) x) -> (y) {
             m(i) max=! x(i,j)
             e(i,j) = exp(x(i,j) - m(i))
             s(i) +=! e(i,j)
             y(i,j) = e(i,j) / s(i)
           }""",
        {"x": (3, 9)},
    ),
    "convolution": (
        """def f(double(N,C,H) I, double(O,C,K) W) -> (y) { y(n,o,h) +=! I(n,c,h+k) * W(o,c,k) }""",
        {"I": (2, 3, 11), "W": (4, 3, 3)},
    ),
    "strided convolution": (
        """def f(double(N,C,H) I, double(O,C,K) W) -> (y) {
             y(n,o,h) +=! I(n,c,3*h+k) * W(o,c,k)
           }""",
        {"I": (2, 3, 17), "W": (4, 3, 5)},
    ),
    "padded convolution": (
        """def f(double(C,H,V) I, double(O,C,3,3) W) -> (y) {
             y(o,h,v) +=! I[zero](c,h+k-1,v+l-1) * W(o,c,k,l) where h in 0:H, v in 0:V
           }""",
        {"I": (2, 6, 5), "W": (3, 2, 3, 3)},
    ),
    "dilated convolution": (
        """def f(double(H) I, double(K) W) -> (y) { y(h) +=! I(h + 3*k) * W(k) }""",
        {"I": (20,), "W": (4,)},
    ),
    "reflected border": (
        """def f(double(H) I) -> (y) { y(h) +=! I[reflect](h+k-2) * (k + 1) where h in 0:H, k in 0:5 }""",
        {"I": (9,)},
    ),
    "written again at an offset": (
        """def f(double(N) a) -> (t) {
             t(i) = a(i) * a(i)
             t(i + 2) = 3 * a(i) where i in 1:N-3
           }""",
        {"a": (9,)},
    ),
    "all started anew at an offset": (
        """def f(double(N) a) -> (t) {
             t(i,j) max=! a(i) * a(j)
             t(i + 1,j) +=! a(i + k) * a(j) where k in 1:2
           }""",
        {"a": (5,)},
    ),
    "a look-up that is at a border for some": (
        """def f(double(N,N) A) -> (T) {
             T(i) +=! A(max(i - 3, 0), int(double(i) * 0.25)) * A(i, i) where j in 0:N
           }""",
        {"A": (5, 5)},
    ),
    "a look-up whose borders a tensor of one element lacks": (
        """def f(double(N,N) A) -> (T) {
             T(i) = A(max(i - 2, 0), select(i * 0.5 < 1, i, 0)) * A(i,i)
           }""",
        {"A": (1, 1)},
    ),
    "a choice that a guard keeps in bounds": (
        """def f(double(N) A) -> (T) { T max=! A(abs(i - 1)) + A(select(i * 0.5 < 1, i, 0)) + A(i) }""",
        {"A": (3,)},
    ),
    "the same for two elements, which no others are": (
        """def f(double(N,N) A) -> (T) {
             T(i) +=! A(max(i - 3, 0), int(double(i) * 0.25)) * A(i, i) where j in 0:N
           }""",
        {"A": (2, 2)},
    ),
    "a reflected border of what is no affine subscript": (
        """def f(double(N,N) A) -> (T) {
             T(i,j) = A[none, reflect](i, int(double(i) * 0.25)) * A(j, j)
           }""",
        {"A": (4, 4)},
    ),
    "started anew in part": (
        """def f(double(N) A, double(M) B) -> (T) {
             T(i) = A(i)
             T(i) +=! B(i) * B(j) where i in 0:M, j in 0:M
           }""",
        {"A": (7,), "B": (4,)},
    ),
    "written again within what sizes leave of it": (
        """def f(double(N,P) A) -> (T) {
             T(i,j) min=! A(i,i) + A(j,j) + A(i,k)
             T(i,j) = A(i,2*j) * A(i,j)
           }""",
        {"A": (3, 5)},
    ),
    "written again within what sizes leave of it, if there are any": (
        """def f(double(M,N) A) -> (T) {
             T(i) = A(i,i) * A(2*i,i)
             T(i) = A(2*i,0) * A(i,i+1) + T(i) * A(i,i)
           }""",
        {"A": (6, 6)},
    ),
    "an extreme of a part": (
        """def f(double(N,N) A) -> (T) {
             T(i,j) = A(i,j) * A(j,i)
             T(i,j) max=! A(i,k) where k in 0:N, j in 0:N/2
           }""",
        {"A": (6, 6)},
    ),
    "clamped border": (
        """def f(double(H) I) -> (y) { y(h) +=! I[clamp](h+k-2) * (k + 1) where h in 0:H, k in 0:5 }""",
        {"I": (9,)},
    ),
    "pool": (
        """def f(double(C,H) x) -> (y) { y(c,h) max=! x(c,2*h+k) where k in 0:3 }""",
        {"x": (2, 12)},
    ),
    "averages": (
        """def f(double(C,H) x) -> (y) { y(c,h) +=! x(c,2*h+k) / 2 where k in 0:2 }""",
        {"x": (2, 12)},
    ),
    "upsampling": (
        """def f(double(C,H) x) -> (y) { y(c,h) = x(c,h/3) where h in 0:3*H }""",
        {"x": (2, 4)},
    ),
    "pixel shuffle": (
        """def f(double(C,H,W) x) -> (y) {
             y(h,w) = x(2*(h%2) + w%2,h/2,w/2) where h in 0:2*H, w in 0:2*W
           }""",
        {"x": (4, 3, 2)},
    ),
    "flips": ("def f(double(N) x) -> (y) { y(i) = x(N-1-i) * x(i) }", {"x": (6,)}),
    "diagonal": ("def f(double(N,N) A) -> (y) { y(i) = A(i,i) * A(0,i) }", {"A": (5, 5)}),
    "transposes": ("def f(double(N,M) A) -> (y) { y(i,j) +=! A(k,i) * A(k,j) }", {"A": (4, 3)}),
    "product": ("def f(double(N,M) x) -> (y) { y(i) *=! x(i,j) }", {"x": (3, 4)}),
    "minimum of all": ("def f(double(N,M,L) x) -> (y) { y min=! x(i,j,k) * x(i,j,k) }", {"x": (3, 4, 2)}),
    "moments": (
        """def f(double(N,M) x) -> (m, v) {
             m(i) +=! x(i,j)
             m(i) = m(i) / M
             v(i) +=! (x(i,j) - m(i)) * (x(i,j) - m(i))
           }""",
        {"x": (3, 8)},
    ),
    "layer norm": (
        """def f(double(N,M) x, double(M) g, double(M) b) -> (y) {
             m(i) +=! x(i,j) / M
             v(i) +=! (x(i,j) - m(i)) * (x(i,j) - m(i)) / M
             y(i,j) = (x(i,j) - m(i)) * rsqrt(v(i) + 0.001) * g(j) + b(j)
           }""",
        {"x": (3, 8), "g": (8,), "b": (8,)},
    ),
    "stencil in two steps": (
        """def f(double(N) x) -> (z) {
             y(i) = x(i-1) + x(i) * x(i+1)
             z(i) = y(i) * y(i+1)
           }""",
        {"x": (9,)},
    ),
    "parts": (
        """def f(double(N) x) -> (y) {
             y(i) = x(i) * x(i)
             y(i) = sin(x(i)) where i in 2:5
             y(i) += x(i) * x(0)
           }""",
        {"x": (8,)},
    ),
    "redefined": (
        """def f(double(N) x) -> (y, z) {
             t(i) = exp(x(i))
             y(i) = t(i) * x(i)
             t(i) = t(i) * t(i)
             z(i) = t(i) + y(i)
           }""",
        {"x": (5,)},
    ),
    "conditions": (
        """def f(double(N) x) -> (y) { y(i) = x(i) > 0 ? log(x(i)) : i > 2 ? x(i) * x(i) : sin(x(i)) }""",
        {"x": (9,)},
    ),
    "called": (
        """def g(double(N) a, double(N) b) -> (c) { c(i) = a(i) * sin(b(i)) }
           def f(double(N) x) -> (y) { (t) = g(x, x) y(i) = t(i) * x(0) }""",
        {"x": (6,)},
    ),
    "box of a result that starts later": (
        """def f(double(N) x) -> (y, s) {
             y(i) = x(i-2) * x(i+1)
             s(i) = y(i) * y(i) where i in 2:N-1
           }""",
        {"x": (9,)},
    ),
    "gamma functions": (
        "def f(double(N) x) -> (y) { y(i) = lgamma(x(i)) * tgamma(x(i)) + digamma(x(i)) }",
        {"x": (9,)},
    ),
    "sum of all": ("def f(double(N,M) x) -> (s) { s +=! x(i,j) * x(i,j) }", {"x": (3, 4)}),
}


def arrays(shapes: Mapping[str, Sequence[int]]) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {n: rng.uniform(0.4, 1.6, s) * rng.choice([-1.0, 1.0], s) for n, s in shapes.items()}


def results(found: Any) -> list[Array]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def differs(
    source: str, inputs: Mapping[str, Array], backend: str, ties: str = "first", rest: Sequence[Any] = ()
) -> float:
    """How far the gradient is from central differences, along a direction, relative to its size."""
    rng = np.random.default_rng(5)
    kernel = tc.compile(source, backend=backend)
    g = gradient(source, ties=ties)
    primal = results(kernel(*inputs.values(), *rest))
    names = list(g.seeds)
    weights = [rng.uniform(-1, 1, x.shape) for x in primal][: len(names)]
    found = results(tc.compile(g.source, backend=backend)(*inputs.values(), *rest, *weights))
    along = {n: rng.uniform(-1, 1, inputs[n].shape) for n in g.wrt}

    def total(t: float) -> float:
        moved = [v + t * along[n] if n in along else v for n, v in inputs.items()]
        return sum(float(np.vdot(x, w)) for x, w in zip(results(kernel(*moved, *rest)), weights, strict=True))

    h = 2.0**-14
    slope = (8 * (total(h) - total(-h)) - (total(2 * h) - total(-2 * h))) / (12 * h)
    told = sum(float(np.vdot(a, along[n])) for n, a in zip(g.wrt, found, strict=True))
    size = sum(float(np.vdot(np.abs(a), np.abs(along[n]))) for n, a in zip(g.wrt, found, strict=True))
    return abs(told - slope) / size


@LOOK_UPS
@pytest.mark.share(24)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_gradients_are_derivatives(name: str, backend: str) -> None:
    source, shapes = PROGRAMS[name]
    assert differs(source, arrays(shapes), backend) < 1e-9


def test_the_gradient_of_a_layer_as_text() -> None:
    head, *lines = tc.grad(PROGRAMS["layer"][0]).strip().splitlines()
    assert head == (
        "def f_grad(double(B,I) x, double(O,I) w, double(O) b, double(B,O) d_y)"
        " -> (double(B,I) d_x, double(O,I) d_w, double(O) d_b) {"
    )
    assert lines == [
        "  y_1(n,o) +=! x(n, i) * w(o, i) where n in 0:B, o in 0:O, i in 0:I",
        "  y(n,o) = fmax(y_1(n, o) + b(o), 0.0) where n in 0:B, o in 0:O",
        "  d_y_1(n,o) = y(n, o) > 0.0 ? d_y(n, o) : 0.0 where n in 0:B, o in 0:O",
        "  d_x(n,i) +=! d_y_1(n, o) * w(o, i) where n in 0:B, i in 0:I, o in 0:O",
        "  d_w(o,i) +=! d_y_1(n, o) * x(n, i) where o in 0:O, i in 0:I, n in 0:B",
        "  d_b(o) +=! y(n, o) > 0.0 ? d_y(n, o) : 0.0 where o in 0:O, n in 0:B",
        "}",
    ]


def test_the_adjoint_of_a_convolution_is_a_gather() -> None:
    _, line, _ = tc.grad(PROGRAMS["strided convolution"][0], wrt="I").strip().splitlines()
    assert line == (
        "  d_I(n,c,u2) +=! d_y(n, o, (u2 - k)/3) * W(o, c, k) where n in 0:N, c in 0:C, u2 in 0:H, o in 0:O, "
        "k in 0:K, (u2 - k) % 3 == 0, (u2 - k)/3 >= 0, (u2 - k)/3 < y2"
    )


def test_what_is_saved_is_not_computed_again() -> None:
    found = gradient(PROGRAMS["soft-max"][0], save=["y", "s"])
    assert found.saved == ("y", "s")
    assert "  s(i) +=!" not in found.source and "double(N) s, double(N,M) d_y" in found.source


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_ties(backend: str) -> None:
    source = "def f(double(N,M) x) -> (y) { y(i) max=! x(i,j) }"
    x = np.array([[1.0, 3, 3, 0], [2, 2, 2, 2]])
    first = tc.compile(tc.grad(source), backend=backend)(x, np.ones(2))
    np.testing.assert_array_equal(first, [[0, 1, 0, 0], [1, 0, 0, 0]])
    split = tc.compile(tc.grad(source, ties="split"), backend=backend)(x, np.ones(2))
    np.testing.assert_array_equal(split, [[0, 0.5, 0.5, 0], [0.25, 0.25, 0.25, 0.25]])
    third = tc.compile(tc.grad(source, ties="split"), backend=backend)(np.ones((1, 3)), np.ones(1))
    np.testing.assert_array_equal(third, np.full((1, 3), 1 / 3))  # in double


@pytest.mark.filterwarnings("ignore::tc.errors.EmptyRange")
@pytest.mark.parametrize("length", [3, 5])
def test_extremes_over_nothing_leave_nothing(length: int) -> None:
    source = """def f(double(N) x, double(M) v) -> (y) {
      y(i) max=! x(j+2) * v(i) * x(k) where j in 0:N-3, k in 0:N
    }"""
    x, v, d_y = np.linspace(1.0, 2.0, length), np.array([2.0, 3.0]), np.array([1.0, 10.0])
    for backend in ("reference", "cpu"):
        d_x, d_v = tc.compile(tc.grad(source), backend=backend)(x, v, d_y)
        along = tc.compile(tc.jvp(source), backend=backend)(x, v, np.ones(length), np.ones(2)).t_y
        if length == 3:
            assert not d_x.any() and not d_v.any() and not along.any()
        else:
            np.testing.assert_allclose(d_x, [0, 0, 0, v @ d_y * x[4], v @ d_y * x[3]])
            np.testing.assert_allclose(d_v, d_y * x[3] * x[4])
            np.testing.assert_allclose(along, v * (x[3] + x[4]) + x[3] * x[4])


def test_second_derivatives_of_extremes_where_a_condition_holds() -> None:
    source = "def f(double(N) x, double(N) y) -> (m) { m(j) max=! x(i) * x(i) * y(j) where i < j, i in 0:N }"
    second = tc.grad(tc.grad(source), wrt="x", of="d_x")
    x, y, d_m, along = np.array([[1.0, 3.0, 2.0], [2.0, 3.0, 4.0], [1.0, 10.0, 100.0], [1.0, 5.0, 7.0]])
    found = tc.compile(second, backend="cpu")(x, y, d_m, along)
    # 2 x(i) y(j) d_m(j) for i = 0 where j is 1, and for i = 1 where j is 2
    np.testing.assert_allclose(found, [2 * 3 * 10 * 1, 2 * 4 * 100 * 5, 0])


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_products_with_zeros(zeros: int) -> None:
    source = "def f(double(N) x) -> (y) { y *=! x(i) }"
    x = np.array([2.0, 3, 4, 5])
    x[:zeros] = 0
    found = tc.compile(tc.grad(source), backend="cpu")(x, 1.0)
    np.testing.assert_allclose(found, [np.prod(np.delete(x, i)) for i in range(4)])


def test_what_a_condition_masks_is_not_computed_with() -> None:
    source = "def f(double(N) x) -> (y) { y(i) = x(i) > 0 ? log(x(i)) : 0 }"
    found = tc.compile(tc.grad(source), backend="cpu")(np.array([0.0, 2.0, -1.0]), np.ones(3))
    np.testing.assert_array_equal(found, [0, 0.5, 0])


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_look_up_is_scattered_back(backend: str) -> None:
    source = "def f(double(N,D) t, int(B,L) at) -> (y) { y(b,d) +=! t(at(b,l),d) }"
    rng = np.random.default_rng(0)
    at = rng.integers(0, 7, (5, 3)).astype(np.int32)
    d_y = rng.integers(-9, 9, (5, 4)).astype(float)
    found = tc.compile(tc.grad(source), backend=backend)(np.zeros((7, 4)), at, d_y)
    wanted = np.zeros((7, 4))
    for b in range(5):
        for k in at[b]:
            wanted[k] += d_y[b]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_what_a_condition_keeps_from_being_read_may_have_any_index() -> None:
    source = """def f(double(N) A, int(M) I, double(M) x) -> (y) { y(i) = x(i) > 0 ? A(I(i)) * x(i) : 0.0 }"""
    g = tc.grad(source, wrt="A")
    args = np.ones(3), np.array([1, 99, -7], np.int32), np.array([2.0, -1.0, -1.0]), np.ones(3)
    for backend in ("reference", "cpu"):
        assert np.array_equal(tc.compile(g, backend=backend)(*args), [0, 2, 0])


def test_a_scatter_at_one_index_twice() -> None:
    source = "def f(double(N,N,N) x) -> (y) { y(i) = x(int(float(i) * 0.5),i,i) * i }"
    g = tc.compile(tc.grad(source), backend="cpu")
    wanted = np.zeros((4, 4, 4))
    for i in range(4):
        wanted[i // 2, i, i] = i
    np.testing.assert_array_equal(g(np.zeros((4, 4, 4)), np.ones(4)), wanted)


def test_second_derivatives() -> None:
    source = "def f(double(N) x) -> (y) { y +=! x(i) * x(i) * x(i) }"
    first = tc.grad(source)
    second = tc.grad(first, wrt="x")
    x = np.array([1.0, 2.0, 3.0])
    found = tc.compile(second, backend="cpu")(x, 1.0, np.array([1.0, 10.0, 100.0]))
    np.testing.assert_allclose(found, 6 * x * [1, 10, 100])


def test_values_before_in_place() -> None:
    g = gradient("def f(double(N) x) -> (y) { y(i) = x(i) * y(i) }", ["x", "y"])
    assert g.before == {"y": "y_1"} and g.wrt == ("x", "y")
    d_x, d_y = tc.compile(g.source, backend="cpu")(np.full(3, 2.0), np.full(3, 5.0), np.ones(3))
    np.testing.assert_array_equal(d_x, np.full(3, 5.0))
    np.testing.assert_array_equal(d_y, np.full(3, 2.0))


def test_other_types() -> None:
    source = "def f(double(N) x, float(N) w) -> (y) { y(i) = sin(x(i)) * double(w(i)) }"
    x, w = np.array([0.5, 1.0]), np.array([2.0, 3.0], "f4")
    d_x, d_w = tc.compile(tc.grad(source), backend="cpu")(x, w, np.ones(2))
    np.testing.assert_allclose(d_x, np.cos(x) * w)
    assert d_w.dtype == np.float32
    np.testing.assert_allclose(d_w, np.sin(x), rtol=1e-6)


def test_empty_tensors() -> None:
    source, _ = PROGRAMS["layer"]
    kernel = tc.compile(tc.grad(source), backend="cpu")
    d_x, d_w, d_b = kernel(np.ones((0, 7)), np.ones((4, 7)), np.ones(4), np.ones((0, 4)))
    assert d_x.shape == (0, 7) and not d_w.any() and not d_b.any()


def test_scalars_that_shape_results() -> None:
    source = "def f(float(N) x, int s) -> (y) { y(i) = x(s*i) * x(s*i) }"
    d_x = tc.compile(tc.grad(source, scalars={"s": 2}), backend="cpu")(np.ones(5, "f4"), 2, np.ones(3, "f4"))
    np.testing.assert_array_equal(d_x, [2, 0, 2, 0, 2])
    with pytest.raises(tc.ArgumentError, match="depends on the value of s") as e:
        tc.grad(source)
    assert e.value.code == "TC0513" and e.value.help == 'pass scalars={"s": …}'


@pytest.mark.parametrize("rows", [0, 2])
def test_a_part_that_is_written_again_may_be_larger_than_a_tensor_without_elements(rows: int) -> None:
    source = """def f(double(M,N) A, double(K) b) -> (T) {
      T(l,i) +=! A(l,i) * A(l,j)
      T(l,i) = T(l,i) * T(l,i) + 2 * b(i) where i in 0:K
    }"""
    columns = 4 if rows else 2  # of 3 that are written
    args = np.ones((rows, columns)), np.ones(3), np.ones((rows, columns))
    d_a, d_b = tc.compile(tc.grad(source), backend="reference")(*args)
    assert d_a.shape == (rows, columns) and np.array_equal(d_b, [2 * rows] * 3)


def test_padding_is_a_condition_of_the_domain() -> None:
    """Which is exact, as the sum of indices is not in 32 bits."""
    source = """def f(double(H) x, double(K) w) -> (y) {
      y(i) +=! x[zero](3*i+2*k-1) * w(k) where i in 0:(H+2-2*(K-1)-1)/3+1
    }"""
    made = tc.grad(source, "w")
    assert "?" not in made and "3 * i + 2 * k - 1 >= 0" in made
    kernel = tc.compile(made, backend="cpu")
    assert not kernel.preconditions
    x, w = np.arange(1.0, 12.0), np.ones(3)
    padded = np.pad(x, 1)
    d_w = kernel(x, w, np.array([1.0, 10.0, 100.0]))
    np.testing.assert_array_equal(
        d_w, [sum(10.0**i * padded[3 * i + 2 * k] for i in range(3)) for k in range(3)]
    )


@LOOK_UPS
@pytest.mark.share(24)
@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents_are_the_transpose_of_gradients(name: str) -> None:
    source, shapes = PROGRAMS[name]
    rng = np.random.default_rng(3)
    g = gradient(source)
    kernel = tc.compile(source, backend="reference")
    params = [p.name for p in kernel.front.checked.params]
    values = {n: rng.uniform(0.4, 1.6, shapes[n]) for n in params if n in shapes}
    if set(params) - set(values) or g.before:
        pytest.skip("integers and in/out tensors are those of fuzz.gradients")
    along = {n: rng.normal(size=values[n].shape) for n in g.wrt}
    found = tc.compile(tc.jvp(source, g.wrt), backend="reference")(
        **values, **{f"t_{n}": v for n, v in along.items()}
    )
    primal = kernel(**values)
    primal = primal if isinstance(primal, tuple) else (primal,)
    for a, b in zip(primal, found, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    weights = {n: rng.normal(size=np.shape(getattr(found, f"t_{n}"))) for n in g.seeds}
    adjoints = tc.compile(g.source, backend="reference")(
        *values.values(), *(w if w.shape else float(w) for w in weights.values())
    )
    adjoints = adjoints if isinstance(adjoints, tuple) else (adjoints,)
    forward = sum(float(np.vdot(getattr(found, f"t_{n}"), w)) for n, w in weights.items())
    backward = sum(float(np.vdot(a, along[n])) for n, a in zip(g.wrt, adjoints, strict=True))
    assert forward == pytest.approx(backward, rel=1e-10)


def test_a_tangent_reads_as_one_would_write_it() -> None:
    assert tc.jvp("def f(double(N,K) A, double(K) x) -> (y) { y(n) +=! A(n,k) * x(k) }", "x") == (
        "def f_jvp(double(N,K) A, double(K) x, double(K) t_x) -> (double(N) y, double(N) t_y) {\n"
        "  y(n) +=! A(n, k) * x(k) where n in 0:N, k in 0:K\n"
        "  t_y(n) +=! A(n, k) * t_x(k) where n in 0:N, k in 0:K\n"
        "}\n"
    )
    with pytest.raises(tc.ArgumentError, match="'z' in wrt is no parameter"):
        tc.jvp("def f(double(N) x) -> (y) { y(n) = x(n) }", "z")
