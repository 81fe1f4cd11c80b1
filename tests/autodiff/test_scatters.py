"""Gradients of scatters: sums, minima, maxima and products into elements that data choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tc
from tc.autodiff.gradient import gradient
from tests.autodiff.test_gradients import LOOK_UPS, differs, results

Array = np.ndarray[Any, Any]
K = 4
PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]], list[tuple[int, ...]]]] = {
    "segments": (
        """def f(double(N,C) x, int(N) p, int K) -> (m) {
             m(k,c) = -inf where k in 0:K, c in 0:C
             m(p(n),c) max= x(n,c) * x(n,c)
             m(k,c) = m(k,c) > -9 ? m(k,c) : 0
           }""",
        {"x": (7, 3)},
        [(7,)],
    ),
    "onto values": (
        "def f(double(N) x, double(L) y, int(N) p, int K) -> (m) {"
        " m(k) = y(k) * y(k) where k in 0:K  m(p(n)) max= x(n) * x(n) }",
        {"x": (9,), "y": (5,)},
        [(9,)],
    ),
    "two places and two indices": (
        """def f(double(N,C) x, int(N,C) p, int(C) q, int K) -> (m) {
             m(k,l) = 2 where k in 0:K, l in 0:K
             m(p(n,c),q(c)) min= x(n,c) * x(n,c) * x(0,c) where n in 1:N
           }""",
        {"x": (5, 4)},
        [(5, 4), (4,)],
    ),
    "a product": (
        "def f(double(N) x, double(L) y, int(N) p, int K) -> (m) {"
        " m(k) = y(k) * y(k) where k in 0:K  m(p(n)) *= x(n) }",
        {"x": (9,), "y": (5,)},
        [(9,)],
    ),
    "read and added to": (
        """def f(double(N) x, double(L) y, int(N) p, int K) -> (m, z) {
             m(k) = y(k) * y(k) where k in 0:K
             m(p(n)) max= x(n) * x(n)
             z(k) = m(k) * y(k) where k in 0:K
             m(p(n)) += x(n) * z(p(n))
           }""",
        {"x": (9,), "y": (5,)},
        [(9,)],
    ),
    "in a loop": (
        """def f(double(T,N) x, int(T,N) p, int K) -> (h, s) {
             h(k) = 0 where k in 0:K
             s(t) = 0 where t in 0:T
             for t in 0:T {
               h(p(t,i)) max= x(t,i) * x(t,i)
               s(t) = h(1) * h(2)
             }
           }""",
        {"x": (3, 5)},
        [(3, 5)],
    ),
    "a product in a loop": (
        """def f(double(T,N) x, int(T,N) p, int K) -> (h) {
             h(k) = 1 where k in 0:K
             for t in 0:T { h(p(t,i)) *= x(t,i) }
           }""",
        {"x": (3, 5)},
        [(3, 5)],
    ),
}


def _values(shapes: dict[str, tuple[int, ...]], places: Sequence[tuple[int, ...]]) -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(2)
    inputs = {n: rng.uniform(0.4, 1.6, s) * rng.choice([-1.0, 1.0], s) for n, s in shapes.items()}
    return inputs, [*(rng.integers(0, K, s).astype(np.int32) for s in places), K]


@LOOK_UPS
@pytest.mark.parametrize("ties", ["first", "split"])
@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_derivatives(name: str, backend: str, ties: str) -> None:
    source, shapes, places = PROGRAMS[name]
    inputs, rest = _values(shapes, places)
    assert differs(source, inputs, backend, ties, rest) < 1e-9


@LOOK_UPS
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_have_gradients_and_tangents(name: str) -> None:
    source, shapes, places = PROGRAMS[name]
    inputs, rest = _values(shapes, places)
    g = gradient(source)
    rng = np.random.default_rng(0)
    primal = results(tc.compile(source, "reference")(*inputs.values(), *rest))
    weights = [rng.uniform(-1, 1, x.shape) for x in primal]
    named = dict(zip(g.seeds.values(), weights, strict=True))
    assert differs(g.source, inputs | _named(source, rest) | named, "reference") < 1e-8
    along = {n: rng.uniform(-1, 1, v.shape) for n, v in inputs.items()}
    found = tc.compile(tc.jvp(source, tuple(inputs)), "reference")(
        *inputs.values(), *rest, **{f"t_{n}": v for n, v in along.items()}
    )
    adjoints = results(tc.compile(g.source, "reference")(*inputs.values(), *rest, *weights))
    tangents = [getattr(found, f"t_{n}") for n in g.seeds]
    forward = sum(float(np.vdot(t, w)) for t, w in zip(tangents, weights, strict=True))
    backward = sum(float(np.vdot(a, along[n])) for n, a in zip(g.wrt, adjoints, strict=True))
    assert forward == pytest.approx(backward, rel=1e-10)


def _named(source: str, rest: Sequence[Any]) -> dict[str, Any]:
    names = [p.name for p in tc.compile(source, "reference").front.checked.params]
    return dict(zip(names[-len(rest) :], rest, strict=True))


@LOOK_UPS
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_ties(backend: str) -> None:
    source = """def f(double(N) x, int(N) p, double(K) y) -> (m) {
      m(k) = y(k)
      m(p(n)) max= x(n)
    }"""
    x, p = np.array([2.0, 5, 5, 1, 5, 3]), np.array([0, 1, 1, 0, 1, 2], np.int32)
    y, seed = np.array([0.0, 1, 3, 7]), np.array([1.0, 10, 100, 1000])
    d_x, d_y = tc.compile(tc.grad(source), backend)(x, p, y, seed)
    np.testing.assert_array_equal(d_x, [1, 10, 0, 0, 0, 50])  # `max` of two that are equal
    np.testing.assert_array_equal(d_y, [0, 0, 50, 1000])
    d_x, d_y = tc.compile(tc.grad(source, ties="split"), backend)(x, p, y, 3 * seed)
    np.testing.assert_array_equal(d_x, [3, 10, 10, 0, 10, 150])
    np.testing.assert_array_equal(d_y, [0, 0, 150, 3000])


@LOOK_UPS
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_products_with_zeros(zeros: int) -> None:
    source = "def f(double(N) x, int(N) p) -> (m) { m(k) = 1 where k in 0:2  m(p(n)) *= x(n) }"
    x, p = np.array([2.0, 3, 5, 7, 4]), np.array([0, 1, 0, 0, 1], np.int32)
    x[[0, 2][:zeros]] = 0
    d_x = tc.compile(tc.grad(source), "reference")(x, p, np.array([1.0, 10]))
    first = [np.prod(np.delete(x[[0, 2, 3]], k)) for k in range(3)]
    np.testing.assert_array_equal(d_x, [first[0], 40, first[1], first[2], 30])


@LOOK_UPS
def test_segments_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    source = """def f(float(N,C) x, int64(N) p, int K) -> (m) {
      m(k,c) = -inf where k in 0:K, c in 0:C
      m(p(n),c) max= x(n,c)
    }"""
    rng = np.random.default_rng(1)
    x = rng.integers(-3, 3, (20, 3)).astype(np.float32)
    p = np.r_[0:5, rng.integers(0, 5, 15)]
    seed = rng.normal(size=(5, 3)).astype(np.float32)
    t = torch.tensor(x, requires_grad=True)
    at = torch.tensor(p)[:, None].expand(20, 3)
    m = torch.full((5, 3), -torch.inf).scatter_reduce(0, at, t, "amax", include_self=False)
    (expected,) = torch.autograd.grad(m, t, torch.tensor(seed))
    found = tc.compile(tc.grad(source, ties="split"), "cpu")(x, p, 5, seed)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


def test_a_scatter_before_a_loop_that_writes_the_same_tensor() -> None:
    source = """
    def f(double(N) x, int(N) p, int K) -> (y) {
      y(i) = x(N-1-i)
      y(p(i)) += x(i) * x(i)
      for t in 0:K { y(t) = 2 * x(t) }
    }
    """
    rng = np.random.default_rng(3)
    x, p, g = rng.normal(size=5), np.array([1, 1, 4, 0, 2], np.int32), rng.normal(size=5)
    found = np.asarray(tc.interpret(tc.grad(source, scalars={"K": 2}), x, p, 2, g))
    left = np.where(np.arange(5) < 2, 0, g)  # what the loop does not overwrite
    np.testing.assert_allclose(found, left[::-1] + 2 * x * left[p] + 2 * (g - left))
