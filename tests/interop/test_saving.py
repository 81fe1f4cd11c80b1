"""What the pass forward of an operator keeps for the pass backward."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tc
from tc.autodiff.saving import saving
from tests.share import ALL

torch = pytest.importorskip("torch")

NORM = """
def norm(double(N,D) x, double(D) g) -> (y) {
  m(n) +=! x(n,d)
  v(n) +=! (x(n,d) - m(n) / D) * (x(n,d) - m(n) / D)
  y(n,d) = (x(n,d) - m(n) / D) * rsqrt(v(n) / D + 0.01) * g(d)
}
"""
CELL = """
def cell(double(T,B,I) x, double(H,I) w, double(H,H) u, double(B,H) h0) -> (y, h) {
  h(n,j) = h0(n,j)
  for t in 0:T {
    a(n,j) +=! x(t,n,i) * w(j,i)
    a(n,j) += h(n,k) * u(j,k)
    h(n,j) = tanh(a(n,j))
    y(t,n,j) = h(n,j) * h(n,j)
  }
}
"""
SCORES = """
def scores(double(N,D) q, double(M,D) k, double(M,E) v) -> (o) {
  p(n,m) +=! q(n,d) * k(m,d)
  t(n) max=! p(n,m)
  e(n,m) = exp(p(n,m) - t(n))
  s(n) +=! e(n,m)
  o(n,c) +=! e(n,m) * v(m,c)
  o(n,c) = o(n,c) / s(n)
}
"""


GUARDED = """
def guarded(double(N,D) x, double(D) a) -> (o) {
  for d in 0:D { y(n,d) = a(d) * (d >= 1 ? y(n,d-1) : 0) - 0.5 * (d >= 2 ? y(n,d-2) : 0) + x(n,d) }
  o(n,d) = y(n,d) * y(n,d)
}
"""


CHOLESKY = """
def chol(double(N,N) B) -> (L) {
  A(i,j) +=! B(i,k) * B(j,k)
  A(i,j) += (i == j ? 4.0 : 0.0) where i in 0:N, j in 0:N
  L(i,j) = 0.0 where i in 0:N, j in 0:N
  for j in 0:N {
    s +=! L(j,k) * L(j,k) where k in 0:j
    L(j,j) = sqrt(A(j,j) - s)
    r(i) +=! L(i,k) * L(j,k) where i in j+1:N, k in 0:j
    L(i,j) = (A(i,j) - r(i)) / L(j,j) where i in j+1:N
  }
}
"""
TRIANGLE = "def f(double(N,M) A) -> (y) {{ y(i) = 0.0 where i in 0:N for j in 0:{} {{ {} }} }}"


def tensors(*shapes: tuple[int, ...]) -> list[Any]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=g, dtype=torch.float64, requires_grad=True) for s in shapes]


@pytest.mark.parametrize(
    ("source", "wrt", "kept"),
    [
        (NORM, ["x", "g"], ("m", "v")),
        (CELL, ["x", "w", "u", "h0"], ("h_2", "h_3")),
        (GUARDED, ["x", "a"], ("y",)),
        (SCORES, ["q", "k", "v"], ("t", "s")),  # but not the scores, of which there are more than elements
        ("def f(double(N) x) -> (y) { e(n) = exp(x(n)) y(n) = e(n) * x(n) }", ["x"], None),
        ("def f(double(N,K) x, double(K,M) w) -> (y) { y(n,m) +=! x(n,k) * w(k,m) }", ["x", "w"], None),
    ],
    ids=["statistics", "states", "guards", "attention", "elements", "product"],
)
def test_what_is_kept(source: str, wrt: list[str], kept: tuple[str, ...] | None) -> None:
    found = saving(source, wrt, source.split("(")[0].split()[-1])
    assert (None if found is None else found.saved) == kept


CASES = {
    "norm": (NORM, ((4, 5), (5,))),
    "cell": (CELL, ((3, 2, 4), (5, 4), (5, 5), (2, 5))),
    "scores": (SCORES, ((4, 3), (6, 3), (6, 2))),
    "guarded": (GUARDED, ((3, 5), (5,))),  # `y` is read before it is defined, which no result may be
    # What follows keeps triangles.
    "cholesky": (CHOLESKY, ((4, 4),)),
    "below": (
        TRIANGLE.format("M", "r(i) = A(i,j) * A(i,j) where i in j+1:N y(i) += r(i) * r(i) where i in j+1:N"),
        ((5, 4),),
    ),
    "above": (
        TRIANGLE.format("N", "r(i) = A(i,0) * A(i,1) where i in 0:j y(i) += r(i) * r(i) where i in 0:j"),
        ((5, 4),),
    ),
    "extremes below": (
        TRIANGLE.format(
            "M-1",
            "r(i) max=! A(i,k) * A(i,j) where i in j:N, k in 0:M y(i) += r(i) * r(i) where i in j:N",
        ),
        ((5, 4),),
    ),
    "loops": (
        TRIANGLE.format("N", "for q in j+1:N { r +=! A(q,k) * A(j,k) y(j) += r * r }"),
        ((5, 4),),
    ),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", CASES)
def test_gradients_and_second_derivatives(name: str) -> None:
    source, shapes = CASES[name]
    op, args = tc.torch.op(source), tensors(*shapes)

    def first(*args: Any) -> Any:
        found = op(*args)
        return found[0] if isinstance(found, tuple) else found

    assert torch.autograd.gradcheck(first, args)
    assert torch.autograd.gradgradcheck(first, args)
    assert len(op._saved) == 1
    (kept,) = op._saved.values()
    torch.library.opcheck(kept.default, args)
    with torch.no_grad():
        for a, b in zip(_all(op(*args)), _all(op.default(*args)), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


def _all(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_only_what_requires_gradients_has_one() -> None:
    op = tc.torch.op(NORM)
    x, g = tensors((4, 5), (5,))
    y = op(x.detach(), g)
    y.sum().backward()
    assert x.grad is None
    torch.testing.assert_close(g.grad, torch.autograd.grad(op.default(x.detach(), g).sum(), g)[0])


def test_a_result_that_nothing_reads_has_an_adjoint_of_zeros() -> None:
    op = tc.torch.op(CELL)
    args = tensors(*CASES["cell"][1])
    for k in range(2):
        found = torch.autograd.grad(op(*args)[k].sin().sum(), args)
        wanted = torch.autograd.grad(op.default(*args)[k].sin().sum(), args)
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b)


def test_nothing_is_kept_without_a_pass_backward() -> None:
    op = tc.torch.op(NORM, name="unkept")
    x, g = tensors((4, 5), (5,))
    with torch.no_grad():
        op(x, g)
    op(x.detach(), g.detach())
    assert not op._saved
    assert not tc.torch.op(NORM, backward=None)._saved


def test_under_torch_compile_and_in_copies() -> None:
    op = tc.torch.op(NORM)
    x, g = tensors((4, 5), (5,))
    wanted = torch.autograd.grad(op(x, g).sin().sum(), (x, g))
    compiled = torch.compile(lambda x, g: op(x, g).sin().sum(), fullgraph=True, backend="aot_eager")
    for made in (compiled, lambda x, g: copy.deepcopy(op)(x, g).sin().sum()):
        for a, b in zip(torch.autograd.grad(made(x, g), (x, g)), wanted, strict=True):
            torch.testing.assert_close(a, b)


def test_an_operator_that_scalars_shape() -> None:
    source = """
    def f(double(N) x, int k) -> (y) {
      s(i) +=! x(k*i+j) where i in 0:N/k, j in 0:k
      y(i) = x(i) * s(i/k) where i in 0:(N/k)*k
    }
    """
    op = tc.torch.op(source)
    (x,) = tensors((12,))
    for k in (2, 3):
        assert torch.autograd.gradcheck(lambda x, k=k: op(x, k), (x,))


def test_functions_of_jax() -> None:
    jax = pytest.importorskip("jax")
    source, shapes = CASES["scores"]
    f = tc.jax.op(source.replace("double", "float"))
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=s).astype(np.float32) for s in shapes)

    def plain(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.T, axis=1) @ v

    def loss(f: Any) -> Any:
        return lambda *args: jax.numpy.sin(f(*args)).sum()

    for a, b in zip(*(jax.jit(jax.grad(loss(g), (0, 1, 2)))(q, k, v) for g in (f, plain)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    if ALL:
        second = [jax.jacrev(jax.grad(loss(g)))(q, k, v) for g in (f, plain)]
        np.testing.assert_allclose(*second, rtol=1e-3, atol=1e-4)
    many = jax.vmap(jax.grad(loss(f)), (0, None, None))(np.stack([q, 2 * q]), k, v)
    np.testing.assert_allclose(many[0], jax.grad(loss(plain))(q, k, v), rtol=1e-4, atol=1e-5)


def test_a_guarded_recurrence_in_jax() -> None:
    jax = pytest.importorskip("jax")
    op = tc.jax.op(GUARDED.replace("double", "float"))
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    a = np.linspace(-0.5, 0.5, 5, dtype=np.float32)

    def plain(x: Any, a: Any) -> Any:
        y: list[Any] = []
        for d in range(5):
            one = a[d] * y[d - 1] if d >= 1 else 0.0
            two = 0.5 * y[d - 2] if d >= 2 else 0.0
            y.append(one - two + x[:, d])
        return sum((v * v).sum() for v in y)

    found = jax.grad(lambda x, a: op(x, a).sum(), (0, 1))(x, a)
    for got, want in zip(found, jax.grad(plain, (0, 1))(x, a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
