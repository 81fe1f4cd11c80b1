"""Gradients of boundary modes whose subscripts are not affine: against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import tc

SUBSCRIPTS = {
    "a narrow type": "int8(i) - 1",
    "data": "X(i) - 2",
    "halves of data": "X(i) / 2 - 1",
    "a float": "int(double(i) * 0.4) - 1",
    "quotients": "i / 2 - 1",
    "remainders": "3 * i % 5",
    "clamped": "max(i - 2, 0) + i",
    "distances": "abs(i - 3)",
    "either": "(i > 2 ? i - 3 : i + 1)",
}


@pytest.mark.share(30)
@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
@pytest.mark.parametrize("mode", ["zero", "fill=2", "clamp", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("subscript", SUBSCRIPTS.values(), ids=list(SUBSCRIPTS))
def test_borders_of_subscripts_that_are_not_affine(mode: str, subscript: str) -> None:
    source = f"""def f(double(N) A, double(M) w, int(M) X) -> (y) {{
      y(i) = A[{mode}]({subscript}) * w(i) * A[{mode}]({subscript}) + X(i)
    }}"""
    rng = np.random.default_rng(2)
    a, w, d_y = rng.uniform(0.5, 1.5, 4), rng.uniform(0.5, 1.5, 7), rng.uniform(0.5, 1.5, 7)
    x = np.arange(7, dtype=np.int32)
    kernel = tc.compile(source, backend="reference")
    d_a, d_w = tc.compile(tc.grad(source), backend="reference")(a, w, x, d_y)
    step = 2.0**-12  # the results are quadratic in `a`, so that central differences are exact
    for k, e in enumerate(np.eye(4) * step):
        slope = (kernel(a + e, w, x) - kernel(a - e, w, x)) @ d_y / (2 * step)
        assert d_a[k] == pytest.approx(slope, abs=1e-10)
    np.testing.assert_allclose(d_w, d_y * (kernel(a, w, x) - x) / w)


@pytest.mark.filterwarnings("ignore::tc.EmptyRange")
@pytest.mark.parametrize("mode", ["wrap", "clamp"])
@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_second_derivatives_where_the_interior_has_no_points(mode: str, size: int) -> None:
    """Ranges of the interior and of the border end where they begin then, inside of their tensor."""
    source = f"""def f(double(M) w, double s) -> (y) {{
      y(j) = (w(j) > 0 ? w[{mode}](j+1) : s) where j in 0:M
      y(j) *= -y(j) * w(j) where j in 0:M
    }}"""
    first = tc.compile(tc.grad(source), backend="reference")
    second = tc.compile(tc.grad(tc.grad(source, wrt=("w",)), wrt=("w",)), backend="reference")
    rng = np.random.default_rng(3)
    w, d_y, v = rng.uniform(0.5, 1.5, (3, size))
    found = second(w, 0.5, d_y, v)

    def along(w: np.ndarray) -> float:
        return float(first(w, 0.5, d_y) @ v)

    step = 1e-5
    for k, e in enumerate(np.eye(size) * step):
        assert found[k] == pytest.approx((along(w + e) - along(w - e)) / (2 * step), rel=1e-6)


@pytest.mark.share(30)
@pytest.mark.parametrize("mode", ["reflect", "symmetric", "wrap"])
@pytest.mark.parametrize(
    "subscript", ["0", "3", "-2", "N + 1", "5 - N", "max(j - 2, 0)", "max(j - 2, 2)", "t + 2", "t/2 - 3"]
)
def test_borders_of_subscripts_without_variables(mode: str, subscript: str) -> None:
    """Which of its pieces a subscript of sizes is in, no range says."""
    source = f"""def f(double(K,N) A, double(T) v) -> (s) {{
      s(i) = 0.0 where i in 0:N
      for t in 0:T {{ s(i) += A[{mode}, none]({subscript}, i) * v(t) where i in 0:N, j in 0:4 }}
    }}"""
    rng = np.random.default_rng(4)
    gradient = tc.compile(tc.grad(source, wrt=("A",)), backend="reference")
    kernel = tc.compile(source, backend="reference")
    for k, n in ((2, 3), (4, 2), (1, 1), (3, 1)):
        a, v, d_s = rng.uniform(-1, 1, (k, n)), rng.uniform(-1, 1, 3), rng.uniform(-1, 1, n)
        found = gradient(a, v, d_s)
        for at in np.ndindex(a.shape):
            step = np.zeros_like(a)
            step[at] = 1.0  # the results are linear
            assert found[at] == pytest.approx((kernel(a + step, v) - kernel(a, v)) @ d_s, abs=1e-10)


@pytest.mark.filterwarnings("ignore::tc.EmptyRange", "ignore::tc.DataDependentAccess")
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_fixed_row_that_only_instances_need(rows: int) -> None:
    """Without rows there are no instances, and the adjoint is zero."""
    source = """def f(double(M,N) A, int(N) p) -> (y) {
      y(k) = A(1, p(k)) * A(k, k) where k in 1:min(M, N)
    }"""
    a, p = np.arange(1.0, 1.0 + 3 * rows).reshape(rows, 3), np.array([2, 0, 1], np.int32)
    d_a = tc.compile(tc.grad(source), backend="reference")(a, p, np.ones(rows - 1))
    wanted = np.zeros_like(a)
    for k in range(1, rows):
        wanted[1, p[k]] += a[k, k]
        wanted[k, k] += a[1, p[k]]
    np.testing.assert_array_equal(d_a, wanted)
