"""The decompositions of PyTorch's operators that the backend `tc` asks of AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

from tc.interop.fx.views import aten

torch: Any = import_module("torch")
# Beyond the decompositions to core ATen: operators that are formulas of elements and reductions.
_EXTRA = [
    "native_layer_norm",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "native_batch_norm",
    "batch_norm_backward",
    "gelu",
    "_softmax",
    "_log_softmax",
    "leaky_relu",
    "elu",
    "hardtanh",
    "linalg_vector_norm",
    "std_mean",
]
_KEPT = ("_scaled_dot_product_flash_attention_for_cpu", "embedding_dense_backward", "native_dropout")


@cache
def decompositions() -> dict[Any, Any]:
    decomp: Any = import_module("torch._decomp")
    packets = [getattr(aten, n) for n in _EXTRA if hasattr(aten, n)]
    found = {**decomp.core_aten_decompositions(), **decomp.get_decompositions(packets)}
    kept = {op: d for op, d in found.items() if getattr(op, "_opname", "") not in _KEPT}
    own = {
        aten.native_group_norm.default: _group_norm,
        aten.native_group_norm_backward.default: _group_norm_backward,
        aten.select_backward.default: partial(_select_backward, found[aten.select_backward.default]),
    }
    return {**kept, **own}


def _select_backward(otherwise: Callable[..., Any], dy: Any, sizes: list[Any], d: int, at: Any) -> Any:
    """Gradients that select fixed places stay as they are; `alike` puts them side by side."""
    fixed = all(isinstance(s, int) for s in (*sizes, at))
    return NotImplemented if fixed else otherwise(dy, sizes, d, at)


def _group_norm(
    x: Any, weight: Any, bias: Any, n: Any, channels: Any, inner: Any, groups: int, eps: float
) -> tuple[Any, Any, Any]:
    """Group normalisation by the moments of channels: it merges no dimensions, so x may have any layout.

    The moments of a group are those of its channels put together (Chan, Golub, LeVeque 1983).
    """
    kind = x.dtype
    x = x.to(torch.float32) if kind in (torch.float16, torch.bfloat16) else x
    wide = x.unsqueeze(-1) if x.dim() == 2 else x
    variance, mean = torch.var_mean(wide, list(range(2, wide.dim())), correction=0)
    grouped = (n, groups, channels // groups)
    means, variances = mean.view(grouped), variance.view(grouped)
    of_group = means.mean(2, keepdim=True)
    apart = means - of_group
    rstd = torch.rsqrt((variances + apart * apart).mean(2, keepdim=True) + eps)
    scale = rstd.expand(grouped).clone() if weight is None else rstd * weight.view(1, *grouped[1:])
    shift = -of_group * scale
    if bias is not None:
        shift = shift + bias.view(1, *grouped[1:])
    y = x * _of_channel(scale, x) + _of_channel(shift, x)
    return y.to(kind), of_group.squeeze(2).to(kind), rstd.squeeze(2).to(kind)


def _group_norm_backward(
    dy: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    weight: Any,
    n: Any,
    channels: Any,
    inner: Any,
    groups: int,
    mask: list[bool],
) -> tuple[Any, Any, Any]:
    """The gradients of group normalisation from sums over each channel, as in PyTorch's own decomposition."""
    grouped = (n, groups, channels // groups)
    over = list(range(2, x.dim()))
    products = dy * x
    with_x = (products.sum(over) if over else products).view(grouped)
    alone = (dy.sum(over) if over else dy).view(grouped)
    m, r = mean.unsqueeze(2), rstd.unsqueeze(2)
    dx = d_weight = d_bias = None
    if mask[0]:
        by = None if weight is None else weight.view(1, *grouped[1:])
        a, b = (with_x, alone) if by is None else (with_x * by, alone * by)
        a, b = a.sum(2, keepdim=True), b.sum(2, keepdim=True)
        of_dy = r.expand(grouped).clone() if by is None else r * by
        of_x = (b * m - a) * r * r * r / (inner * grouped[2])
        rest = -of_x * m - b * r / (inner * grouped[2])
        of_x, rest = of_x.expand(grouped).clone(), rest.expand(grouped).clone()
        dx = (dy * _of_channel(of_dy, x) + x * _of_channel(of_x, x) + _of_channel(rest, x)).to(x.dtype)
    if mask[1]:
        d_weight = ((with_x - alone * m) * r).sum(0).reshape(channels)
    if mask[2]:
        d_bias = alone.sum(0).reshape(channels)
    return dx, d_weight, d_bias


def _of_channel(values: Any, x: Any) -> Any:
    """Numbers of groups and of channels in them, along the channels of x."""
    return values.view(x.shape[0], x.shape[1], *(1,) * (x.dim() - 2))
