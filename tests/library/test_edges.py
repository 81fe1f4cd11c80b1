"""Operators of the library where inputs are infinite, NaN, 0 or masked: as PyTorch, also their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc

torch: Any = pytest.importorskip("torch")
F: Any = torch.nn.functional
SDPA: Any = F.scaled_dot_product_attention
library: Any = tc.library
INF, NAN = float("inf"), float("nan")
ROWS = [[-INF] * 3, [INF, 0, 1], [-INF, 0, 1], [NAN, 0, 1], [0, 1, 2], [INF, INF, 0], [INF, -INF, 0], [0] * 3]
VALUES = [-INF, INF, NAN, 0.0, -0.0, 3.0, -3.0, 100.0, -100.0]


def same(ours: Callable[..., Any], theirs: Callable[..., Any], *args: Any, gradients: bool = True) -> None:
    found: list[list[Any]] = []
    for f in (ours, theirs):
        given = [x.detach().clone().requires_grad_() for x in args]
        y = f(*given)
        y.sum().backward()
        found.append([y.detach(), *(x.grad for x in given if gradients)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def tensor(x: Any, dtype: str) -> Any:
    return torch.tensor(x, dtype=getattr(torch, dtype))


TYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


@TYPES
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_rows_with_infinities(name: str, dtype: str) -> None:
    same(getattr(library, name), lambda x: getattr(torch, name)(x, -1), tensor(ROWS, dtype))


@TYPES
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_masked_classes(smoothing: float, dtype: str) -> None:
    for row in ROWS:
        for target in range(3):
            more = {"target": torch.tensor([target]), "label_smoothing": smoothing}
            same(
                lambda x, m=more: library.cross_entropy(x, **m),
                lambda x, m=more: F.cross_entropy(x, **m),
                tensor([row], dtype),
            )


@TYPES
def test_soft_plus_and_its_kin(dtype: str) -> None:
    for name in ("softplus", "silu", "gelu"):
        same(getattr(library, name), getattr(F, name), tensor(VALUES, dtype))


@TYPES
@pytest.mark.parametrize("target", [0.0, 1.0, 0.5])
def test_losses(target: float, dtype: str) -> None:
    t = tensor([target], dtype)

    def kl(x: Any) -> Any:
        return F.kl_div(x[None], t[None], reduction="batchmean")

    for v in VALUES:
        x = tensor([v], dtype)
        same(lambda x: library.bce_with_logits(x, t), lambda x: F.binary_cross_entropy_with_logits(x, t), x)
        same(
            lambda x: library.focal_loss(x, t, gamma=0.0),
            lambda x: F.binary_cross_entropy_with_logits(x, t),
            x,
        )
        same(lambda x: library.huber_loss(x, t), lambda x: F.huber_loss(x, t), x)
        same(lambda x: library.mse_loss(x, t), lambda x: F.mse_loss(x, t), x)
        same(lambda x: library.kl_div(x[None], t[None]), kl, x)


@TYPES
def test_rows_by_their_length(dtype: str) -> None:
    x = tensor(ROWS, dtype)
    same(library.l2_normalize, lambda x: F.normalize(x, dim=-1), x)
    same(library.cosine_similarity, F.cosine_similarity, x, x.flip(0))


@pytest.mark.share(2)
@TYPES
def test_attention_to_nothing(dtype: str) -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 2, 3, n, dtype=getattr(torch, dtype)) for n in (4, 4, 2))
    for m in ([[0, 0, 0], [-INF] * 3, [0, -INF, 0]], [[0, 0, 1], [NAN, 0, 0], [0, -INF, 1]]):
        mask = tensor(m, dtype)
        same(
            lambda q, k, v, m=mask: library.attention(q, k, v, mask=m),
            lambda q, k, v, m=mask: SDPA(q, k, v, attn_mask=m),
            q,
            k,
            v,
        )
    q = torch.full_like(q, -INF)
    for ours, theirs in (
        (library.attention, SDPA),
        (library.causal_attention, lambda q, k, v: SDPA(q, k, v, is_causal=True)),
        (library.grouped_query_attention, SDPA),
        (lambda q, k, v: library.sliding_window_attention(q, k, v, window=3), SDPA),
        (lambda q, k, v: library.alibi_attention(q, k, v, torch.zeros_like(k[0, :, 0, 0])), SDPA),
    ):
        same(ours, theirs, q, k.abs(), v, gradients=False)
        q_zero = q.clone().requires_grad_()
        ours(q_zero, k.abs(), v).sum().backward()
        assert not q_zero.grad.any()


@pytest.mark.share(2)
@TYPES
def test_the_slope_of_what_is_constant(dtype: str) -> None:
    x = torch.ones((1, 4, 5), dtype=getattr(torch, dtype), requires_grad=True)
    y = library.sobel(x)
    y.sum().backward()
    assert not y.any() and not x.grad.any()
    x = tensor([[[0, 0, 0, NAN], [0, 0, 0, 1]]], dtype)
    assert torch.isnan(library.sobel(x)).any()
    for f in (library.ssim, library.bilateral_filter):
        x = torch.zeros((1, 9, 9), dtype=getattr(torch, dtype), requires_grad=True)
        f(x, x, radius=2).sum().backward() if f is library.ssim else f(x, 1.0, 1.0).sum().backward()
        assert torch.isfinite(x.grad).all()


X, W = np.ones((1, 3, 5, 5), np.float32), np.ones((2, 3, 3, 3), np.float32)
LINE, TAPS = X[:, :, 0], W[:, :, 0]
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "conv1d": (LINE, TAPS),
    "conv2d": (X, W),
    "conv3d": (X[:, :, None], W[:, :, None]),
    "conv_transpose1d": (LINE, TAPS.transpose(1, 0, 2)),
    "conv_transpose2d": (X, W.transpose(1, 0, 2, 3)),
    "depthwise_conv2d": (X, W[0]),
    "grouped_conv2d": (X[:, None], W[None]),
    "im2col": (X, 2),
    "avg_pool2d": (X, 2),
    "max_pool2d": (X, 2),
    "max_pool1d": (LINE, 2),
}


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_strides_and_the_like_that_are_none(name: str, framework: str) -> None:
    op = getattr(library, name)
    arrays = CONVOLUTIONS[name]
    if framework == "torch":
        arrays = tuple(torch.tensor(x) if isinstance(x, np.ndarray) else x for x in arrays)
    run = op if framework == "numpy" else getattr(op, framework)
    taken = set(op.__signature__.parameters)
    for argument, value in (
        ("stride", 0),
        ("stride", -1),
        ("padding", -1),
        ("dilation", 0),
        ("output_padding", -1),
        ("kernel", 0),
    ):
        if argument not in taken:
            continue
        given = arrays[:-1] if argument == "kernel" else arrays
        with pytest.raises(tc.ArgumentError, match=f"{name}: {argument} is {value}, and") as e:
            run(*given, **{argument: value})
        assert e.value.code == "TC0534"
    if name == "conv2d":
        with pytest.raises(tc.ArgumentError, match=r"stride is \(1, 0\), and must be at least 1"):
            run(*arrays, stride=(1, 0))


def test_other_numbers_that_are_none() -> None:
    row = np.ones((4, 2), np.float32)
    for call, text in (
        (lambda: library.adaptive_avg_pool2d(X, (2, 0)), "output is (2, 0), and must be at least 1"),
        (lambda: library.gaussian_blur(X[0], 1.0, radius=-1), "radius is -1, and must be at least 0"),
        (
            lambda: library.segment_sum(row, np.zeros(4, np.int32), -1),
            "segments is -1, and must be at least 0",
        ),
    ):
        with pytest.raises(tc.ArgumentError) as e:
            call()
        assert text in str(e.value) and e.value.code == "TC0534"
