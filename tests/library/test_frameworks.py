"""The library's operators under PyTorch and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.library.header import extents

torch: Any = pytest.importorskip("torch")
table: Any = pytest.importorskip("tests.library.table")
library: Any = tc.library
CASES = table.CASES
IDS = [f"{k}-{c.name}" for k, c in enumerate(CASES)]


@pytest.mark.slow
def test_a_first_use_under_torch_compile() -> None:
    torch._dynamo.reset()
    x, w = torch.randn(2, 3, 8, 9), torch.randn(4, 3, 3, 3, requires_grad=True)

    def f(x: Any, w: Any) -> Any:
        return library.silu(library.conv2d(x, w, stride=2, padding=1)).sum()

    library.conv2d._operators.clear()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")(x, w)
    plain = f(x, w)
    torch.testing.assert_close(compiled, plain)
    (found,), (wanted,) = torch.autograd.grad(compiled, w), torch.autograd.grad(plain, w)
    torch.testing.assert_close(found, wanted)


@pytest.mark.share(12)
@pytest.mark.parametrize("name", ["linear", "max_pool2d", "attention", "cross_entropy", "segment_max"])
def test_opcheck(name: str) -> None:
    c = next(c for c in CASES if c.name == name)
    given = {n: x.requires_grad_() if x.is_floating_point() else x for n, x in c.make(torch.float64).items()}
    op = library.operators()[name]
    call = op.arguments(**given, **c.keywords)
    found = torch.library.opcheck(op.torch.op(call.dtype, call.variant.name).default, call.values)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.share(18)
@pytest.mark.parametrize("c", CASES, ids=IDS)
def test_shapes_are_as_declared(c: Any) -> None:
    op = library.operators()[c.name]
    call = op.arguments(**c.make(torch.float32), **c.keywords)
    scalars = {p.name: v for p, v in zip(call.variant.params, call.values, strict=True) if not p.type.dims}
    kernel = op.kernel(call.dtype, call.variant.name)
    values = kernel.sizes_of(*(v.numpy() if isinstance(v, torch.Tensor) else v for v in call.values))
    declared = extents(op.header, {**values, **scalars})
    assert declared == kernel.output_shapes(**values)


def test_tensors_of_one_framework() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    y = library.softmax.torch(x)
    torch.testing.assert_close(y, torch.softmax(x, -1))
    assert y.requires_grad and repr(library.softmax.torch) == "<tc.library.softmax.torch>"
    assert library.softmax.torch.op().name.startswith("tc::softmax_")


def test_half_precision() -> None:
    x = torch.randn(4, 6).to(torch.bfloat16)
    y = library.rms_norm(x, torch.ones(6, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16
    wanted = torch.nn.functional.rms_norm(x.float(), (6,), eps=1e-6)
    torch.testing.assert_close(y.float(), wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("ignore:.*JAX calls kernels back:tc.PerformanceNotice")
@pytest.mark.slow
def test_jax() -> None:
    jax: Any = pytest.importorskip("jax")
    jnp = jax.numpy
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 5)).astype("f4"))
    gain = jnp.ones(5)
    y = library.layer_norm(x, gain, gain)
    assert isinstance(y, jax.Array) and y.shape == x.shape

    def plain(x: Any) -> Any:
        m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - m) / jnp.sqrt(v + 1e-5) * gain + gain

    np.testing.assert_allclose(y, plain(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(library.layer_norm)(x, gain, gain), plain(x), rtol=1e-5, atol=1e-5)
    found = jax.grad(lambda x: (library.layer_norm(x, gain, gain) ** 3).sum())(x)
    np.testing.assert_allclose(found, jax.grad(lambda x: (plain(x) ** 3).sum())(x), rtol=1e-3, atol=1e-3)
    assert library.softmax.jax(x).shape == x.shape
