"""Calls of the library's operators, and what PyTorch says of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

F: Any = functional


@dataclass(frozen=True)
class Array:
    """Floats, uniform in [low, high), or integers in [0, below)."""

    shape: tuple[int, ...]
    low: float = -1.0
    high: float = 1.0
    below: int | None = None
    dtype: Any = torch.int64
    start: int = 0

    def make(self, g: torch.Generator, dtype: Any) -> torch.Tensor:
        if self.below is not None:
            return torch.randint(self.start, self.below, self.shape, generator=g).to(self.dtype)
        unit = torch.rand(self.shape, generator=g, dtype=torch.float64)
        return (self.low + (self.high - self.low) * unit).to(dtype)


def a(*shape: int) -> Array:
    return Array(shape)


def positive(*shape: int) -> Array:
    return Array(shape, 0.05, 1.0)


def numbers(below: int, *shape: int) -> Array:
    return Array(shape, below=below)


def bytes_(*shape: int) -> Array:
    return Array(shape, below=128, start=-128, dtype=torch.int8)


@dataclass(frozen=True)
class Case:
    """A call.  `expect` takes what the operator takes, tensors of float64, and gives its results.

    `frozen`: tensors of which no gradient is compared, since there is none or PyTorch has none.
    """

    name: str
    arrays: Mapping[str, Array]
    expect: Callable[..., Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()
    tolerance: float = 1.0

    def make(self, dtype: Any, seed: int = 0) -> dict[str, torch.Tensor]:
        g = torch.Generator().manual_seed(seed)
        return {n: x.make(g, dtype) for n, x in self.arrays.items()}


def case(
    name: str,
    expect: Callable[..., Any],
    /,
    *,
    frozen: tuple[str, ...] = (),
    tolerance: float = 1.0,
    **given: Any,
) -> Case:
    arrays = {n: v for n, v in given.items() if isinstance(v, Array)}
    keywords = {n: v for n, v in given.items() if not isinstance(v, Array)}
    return Case(name, arrays, expect, keywords, frozen, tolerance)


def gates(cell: Any, x: Any, *states: Any, w: tuple[Any, ...]) -> Any:
    """A recurrent module of PyTorch with given weights."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    suffix = "" if "Cell" in type(cell).__name__ else "_l0"
    given = {n + suffix: v for n, v in zip(names, w, strict=True)}
    state = states if len(states) > 1 else states[0]
    if suffix:
        state = tuple(s[None] for s in states) if len(states) > 1 else states[0][None]
    return torch.func.functional_call(cell.double(), given, (x, state))


def lstm(x: Any, h0: Any, c0: Any, *w: Any) -> Any:
    y, (h, c) = gates(torch.nn.LSTM(x.shape[2], h0.shape[1]), x, h0, c0, w=w)
    return y, h[0], c[0]


def gru(x: Any, h0: Any, *w: Any) -> Any:
    y, h = gates(torch.nn.GRU(x.shape[2], h0.shape[1]), x, h0, w=w)
    return y, h[0]


def rnn(x: Any, h0: Any, *w: Any) -> Any:
    return gates(torch.nn.RNN(x.shape[2], h0.shape[1]), x, h0, w=w)[0]


def selective_scan(u: Any, delta: Any, a: Any, b: Any, c: Any, skip: Any) -> Any:
    h = torch.zeros(u.shape[0], u.shape[2], a.shape[1], dtype=u.dtype)
    rows = []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * a)
        h = decay * h + delta[:, t, :, None] * b[:, t, None, :] * u[:, t, :, None]
        rows.append((h * c[:, t, None, :]).sum(-1) + skip * u[:, t])
    return torch.stack(rows, 1)


def rope(x: Any, base: float = 10000.0, start: int = 0) -> Any:
    length, half = x.shape[1], x.shape[3] // 2
    angle = (torch.arange(length) + start)[:, None] * base ** (
        -2.0 * torch.arange(half).double() / (2 * half)
    )
    c, s = torch.cos(angle)[:, None], torch.sin(angle)[:, None]
    p, q = x[..., :half], x[..., half:]
    return torch.cat([p * c - q * s, q * c + p * s], -1)


def masked(q: Any, k: Any, v: Any, mask: Any, **more: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **more)


def distance(n: int) -> Any:
    """How far position j is behind position i, as -(i - j)."""
    return torch.arange(n)[None] - torch.arange(n)[:, None]


def band(n: int, window: int) -> Any:
    return (distance(n) <= 0) & (distance(n) > -window)


def blur(x: Any, sigma: float, radius: int) -> Any:
    k = torch.exp(-0.5 * (torch.arange(-radius, radius + 1).double() / sigma) ** 2)
    k = k / k.sum()
    padded = torch.cat([x[:, :radius].flip(1), x, x[:, -radius:].flip(1)], 1)
    x = sum(k[i] * padded[:, i : i + x.shape[1]] for i in range(2 * radius + 1))
    padded = torch.cat([x[..., :radius].flip(2), x, x[..., -radius:].flip(2)], 2)
    return sum(k[i] * padded[..., i : i + x.shape[2]] for i in range(2 * radius + 1))


def windows(x: Any, radius: int) -> Any:
    """Neighbours of each pixel, (N, rows and columns of the window, H, W)."""
    padded = F.pad(x[:, None], [radius] * 4, mode="replicate")[:, 0]
    r = range(2 * radius + 1)
    return torch.stack([padded[:, i : i + x.shape[1], j : j + x.shape[2]] for i in r for j in r], 1)


def sobel(x: Any) -> Any:
    n = windows(x, 1)
    gx = n[:, 2] - n[:, 0] + 2 * (n[:, 5] - n[:, 3]) + n[:, 8] - n[:, 6]
    gy = n[:, 6] - n[:, 0] + 2 * (n[:, 7] - n[:, 1]) + n[:, 8] - n[:, 2]
    return torch.sqrt(gx * gx + gy * gy)


def bilateral(x: Any, sigma_space: float, sigma_value: float, radius: int) -> Any:
    n, at = windows(x, radius), torch.arange(-radius, radius + 1).double()
    space = torch.exp(-0.5 * (at[:, None] ** 2 + at**2) / sigma_space**2).reshape(-1, 1, 1)
    w = space * torch.exp(-0.5 * ((n - x[:, None]) / sigma_value) ** 2)
    return (w * n).sum(1) / w.sum(1)


def ssim(x: Any, y: Any, sigma: float = 1.5, radius: int = 5, peak: float = 1.0) -> Any:
    g = torch.exp(-0.5 * (torch.arange(-radius, radius + 1).double() / sigma) ** 2)
    w = (g[:, None] * g / g.sum() ** 2)[None, None]

    def mean(z: Any) -> Any:
        return F.conv2d(z[:, None], w)[:, 0]

    c, d = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    s = (2 * mx * my + c) * (2 * cov + d) / ((mx * mx + my * my + c) * (vx + vy + d))
    return s.mean((1, 2))


def focal(x: Any, target: Any, gamma: float = 2.0) -> Any:
    p = torch.sigmoid(x)
    wrong = p * (1 - target) + (1 - p) * target
    return (F.binary_cross_entropy_with_logits(x, target, reduction="none") * wrong**gamma).mean()


def grouped(x: Any, w: Any, **more: Any) -> Any:
    n, g, c, h, v = x.shape
    y = F.conv2d(x.reshape(n, g * c, h, v), w.reshape(-1, c, *w.shape[3:]), groups=g, **more)
    return y.reshape(n, g, -1, *y.shape[2:])


def im2col(x: Any, kernel: Any, **more: Any) -> Any:
    n, c = x.shape[:2]
    y = F.unfold(x, kernel, **more)
    whole = F.max_pool2d(x, kernel, more["stride"], more["padding"], more["dilation"])
    return y.reshape(n, c, *kernel, *whole.shape[2:])


def into(start: float, reduce: str) -> Callable[..., Any]:
    def reduced(x: Any, ids: Any, segments: int) -> Any:
        y = torch.full((segments, x.shape[1]), start, dtype=x.dtype)
        at = ids[:, None].expand(-1, x.shape[1])
        return y.scatter_reduce(0, at, x, reduce, include_self=reduce != "mean")

    return reduced
