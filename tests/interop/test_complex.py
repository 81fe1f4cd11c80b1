"""Operators of complex numbers in PyTorch and JAX: their gradients are those of each framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

torch: Any = pytest.importorskip("torch")
SIGNAL = """def signal(cdouble(N,K) A, cdouble(K) z, double(N) w) -> (y, e) {
  y(n) +=! A(n,k) * conj(z(k))
  y(n) = y(n) * w(n) / (1 + abs(y(n)))
  e +=! real(y(n)) * imag(y(n))
}"""
FUNCTIONS = """def functions(cfloat(N) z, cfloat(N) u, float(N) r) -> (y, a) {
  y(i) = z(i) * r(i) / conj(u(i)) + exp(z(i))
  a(i) = abs(z(i)) * r(i) + imag(z(i) * u(i))
}"""


def signal(a: Any, z: Any, w: Any) -> tuple[Any, Any]:
    y = (a * z.conj()).sum(1)
    y = y * w / (1 + y.abs())
    return y, (y.real * y.imag).sum()


def tensors() -> list[Any]:
    g = torch.Generator().manual_seed(0)
    shapes = (((4, 3), torch.complex128), ((3,), torch.complex128), ((4,), torch.float64))
    return [torch.randn(*s, generator=g, dtype=t, requires_grad=True) for s, t in shapes]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.slow
def test_gradients_and_tangents_in_pytorch() -> None:
    op = tc.torch.op(SIGNAL, backend="reference")
    assert torch.autograd.gradcheck(op, tensors(), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(op, tensors())


def test_a_loss_of_complex_numbers_in_pytorch() -> None:
    op, found = tc.torch.op(SIGNAL), list[Any]()
    for f in (op, signal):
        given = tensors()
        y, e = f(*given)
        (y.abs().sum() + y.conj().imag.sum() + e * e).backward()
        found.append([x.grad for x in given])
    for ours, own in zip(*found, strict=True):
        assert ours.dtype == own.dtype
        torch.testing.assert_close(ours, own)


def test_a_part_of_the_arguments_and_conjugate_views_in_pytorch() -> None:
    op = tc.torch.op(SIGNAL, backend="reference")
    a, z, w = tensors()
    ours, wanted = (torch.autograd.grad(f(a.detach().conj(), z, w.detach())[1], z) for f in (op, signal))
    torch.testing.assert_close(ours, wanted)


def test_a_complex_scalar_in_pytorch() -> None:
    op = tc.torch.op("def f(cfloat s, cfloat(N) x) -> (a) { a +=! s * x(i) * x(i) }", backend="reference")
    x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64, requires_grad=True)
    op(1 - 2j, x).real.backward()
    torch.testing.assert_close(x.grad, (2 * (1 - 2j) * x.detach()).conj())
    found = torch.library.opcheck(op.default, (1 - 2j, x))
    assert set(found.values()) == {"SUCCESS"}


def arrays(jnp: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    z, u = (rng.normal(size=6) + 1j * rng.normal(size=6) for _ in range(2))
    return [jnp.asarray(x) for x in (z.astype("c8"), u.astype("c8"), rng.normal(size=6).astype("f4"))]


@pytest.mark.slow
def test_adjoints_in_jax() -> None:
    jax: Any = pytest.importorskip("jax")
    jnp: Any = pytest.importorskip("jax.numpy")
    given = arrays(jnp)

    def formula(z: Any, u: Any, r: Any) -> tuple[Any, Any]:
        return z * r / jnp.conj(u) + jnp.exp(z), jnp.abs(z) * r + jnp.imag(z * u)

    def adjoints(f: Any, *at: Any) -> Any:
        return jax.vjp(f, *at)[1]((given[1], given[2]))

    def second(f: Any) -> Any:
        def loss(*at: Any) -> Any:
            return sum(jnp.abs(x).sum() for x in adjoints(f, *at))

        return jax.grad(loss, argnums=(0, 1, 2))(*given)

    op = tc.jax.op(FUNCTIONS, backend="reference")
    for ours, wanted in zip(
        (*adjoints(op, *given), *second(op)), (*adjoints(formula, *given), *second(formula)), strict=True
    ):
        assert ours.dtype == wanted.dtype
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)
