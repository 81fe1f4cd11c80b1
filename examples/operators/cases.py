"""What each `.tc` file of this folder is called with, small and large, and what PyTorch says of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import tc
from tc.cli.data import normal
from tc.tuner.data import make_arguments

F: Any = functional
FOLDER = Path(__file__).parent
Reference = Callable[..., Any]
WINOGRAD = {
    "G": [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
    "BT": [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
    "AT": [[1, 1, 1, 0], [0, 1, -1, -1]],
}


@dataclass(frozen=True)
class Case:
    """An operator: sizes and integer scalars of a small and a large call, and the same in PyTorch.

    `same` takes tensors and scalars in the order of the def's parameters and returns what the def returns.
    `fixed` has matrices that are not random.
    """

    name: str
    small: Mapping[str, int]
    large: Mapping[str, int]
    same: Reference
    scalars: Mapping[str, int | float] = field(default_factory=dict[str, int | float])
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def source(self) -> str:
        return (FOLDER / f"{self.name}.tc").read_text(encoding="utf-8")

    def kernel(self, backend: str | None = None) -> Any:
        """The kernel, without the warning that subscripts come from data, which such programs mean."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tc.DataDependentAccess)
            return tc.compile(self.source, backend)

    def arguments(self, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
        """Random arguments as arrays of NumPy: floats are normally distributed, subscripts in range."""
        kernel = self.kernel("reference")
        files = {n: np.array(v, np.float32) for n, v in self.fixed.items()}
        made, buffers = make_arguments(kernel, sizes, self.scalars, files, seed)
        return normal(kernel, files, seed, made, buffers)[0]


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def windowed_attention(W: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    back = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(back >= 0) & (back < W))


def rope(x: Tensor) -> Tensor:
    half = x.shape[3] // 2
    turn = 10000.0 ** (-torch.arange(half) / half)
    angle = (torch.arange(x.shape[1])[:, None] * turn)[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def batch_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, gain, bias, training=True)


def conv1d_causal(x: Tensor, w: Tensor) -> Tensor:
    return F.conv1d(F.pad(x, (2 * (w.shape[2] - 1), 0)), w.flip(2), dilation=2)


def depthwise_conv(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), w[:, None], groups=x.shape[1])


def grouped_conv(x: Tensor, w: Tensor) -> Tensor:
    n, g, c, *image = x.shape
    y = F.conv2d(x.reshape(n, g * c, *image), w.flatten(0, 1), groups=g)
    return y.unflatten(1, (g, -1))


def resize_nearest(OH: int, OW: int, x: Tensor) -> Tensor:
    rows = torch.arange(OH) * x.shape[2] // OH
    return x[:, :, rows][:, :, :, torch.arange(OW) * x.shape[3] // OW]


def avg_pool(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)


def embedding_bag(table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    return F.embedding_bag(ids, table, mode="sum", per_sample_weights=weight)


def kl_div(T: float, student: Tensor, teacher: Tensor) -> Tensor:
    s, t = (F.log_softmax(x / T, 1) for x in (student, teacher))
    return F.kl_div(s, t, reduction="batchmean", log_target=True) * T * T


def moe(x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
    best, chosen = (x @ gate.T).topk(2, 1)
    share = best.softmax(1)
    y = torch.zeros(x.shape[0], w.shape[1])
    for e in range(gate.shape[0]):
        rows, k = torch.nonzero(chosen == e, as_tuple=True)
        y.index_add_(0, rows, share[rows, k, None] * (x[rows] @ w[e].T))
    return y


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, wi: Tensor, wh: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    zero = torch.zeros_like(b.flatten())
    return torch.lstm_cell(x, (h, c), wi.flatten(0, 1), wh.flatten(0, 1), b.flatten(), zero)


def gru_cell(x: Tensor, h: Tensor, wi: Tensor, wh: Tensor, bi: Tensor, bh: Tensor) -> Tensor:
    return torch.gru_cell(x, h, wi.flatten(0, 1), wh.flatten(0, 1), bi.flatten(), bh.flatten())


def fft_stage(re: Tensor, im: Tensor) -> tuple[Tensor, Tensor]:
    half = re.shape[1] // 2
    a, b = re[:, :half] + 1j * im[:, :half], re[:, half:] + 1j * im[:, half:]
    y = torch.cat([a + b, (a - b) * torch.exp(-1j * torch.pi * torch.arange(half) / half)], 1)
    return y.real, y.imag


def int8_product(za: int, zb: int, a: Tensor, b: Tensor) -> Tensor:
    length = a.shape[1]
    rows, columns = a.sum(1, dtype=torch.int32)[:, None], b.sum(0, dtype=torch.int32)
    product = torch._int_mm(a, b) if a.shape[0] > 16 else a.int() @ b.int()
    return product - zb * rows - za * columns + length * za * zb


def winograd(x: Tensor, w: Tensor, G: Tensor, BT: Tensor, AT: Tensor) -> Tensor:
    return F.conv2d(x, w)


def gaussian(x: Tensor, g: Tensor) -> Tensor:
    r = len(g) // 2
    padded = F.pad(x[None, None], (r, r, r, r), mode="reflect")
    return F.conv2d(F.conv2d(padded, g[None, None, None]), g[None, None, :, None])[0, 0]


def harris(x: Tensor) -> Tensor:
    sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    d = F.conv2d(x[None, None], torch.stack([sobel, sobel.T])[:, None])[0]
    products = torch.stack([d[0] * d[0], d[0] * d[1], d[1] * d[1]])[:, None]
    xx, xy, yy = F.conv2d(products, torch.ones(1, 1, 3, 3))[:, 0]
    return xx * yy - xy * xy - 0.04 * (xx + yy) ** 2


def bilateral(space: float, value: float, x: Tensor) -> Tensor:
    height, width = x.shape
    padded = F.pad(x[None, None], (3, 3, 3, 3), mode="replicate")
    z = F.unfold(padded, 7).reshape(7, 7, height, width)
    at = torch.arange(-3, 4) ** 2
    far = (at[:, None] + at)[:, :, None, None]
    w = torch.exp(-far / (2 * space * space) - (z - x) ** 2 / (2 * value * value))
    return (w * z).sum((0, 1)) / w.sum((0, 1))


def heat(steps: int, a: float, start: Tensor) -> Tensor:
    u = start
    for _ in range(steps):
        near = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)
        u = u + a * (near - 4 * u)
    return u


HEADS = {"B": 2, "H": 8, "Q": 256, "S": 256, "D": 64}
IMAGES = {"N": 4, "C": 64, "H": 56, "W": 56}
CASES = (
    Case("attention", {"B": 2, "H": 1, "Q": 3, "S": 5, "D": 7}, HEADS, attention),
    Case("causal_attention", {"B": 1, "H": 3, "L": 5, "D": 3}, {"B": 2, "H": 8, "L": 256, "D": 64}, causal_attention),
    Case("grouped_attention", {"B": 1, "H": 6, "G": 2, "Q": 3, "S": 5, "D": 3}, {**HEADS, "G": 2}, grouped_attention),
    Case("windowed_attention", {"B": 1, "H": 3, "L": 7, "D": 3}, {"B": 2, "H": 8, "L": 512, "D": 64},
         windowed_attention, {"W": 5}),
    Case("rope", {"B": 1, "L": 5, "H": 3, "D": 6}, {"B": 4, "L": 256, "H": 8, "D": 64}, rope),
    Case("layer_norm", {"N": 3, "D": 7}, {"N": 2048, "D": 768},
         lambda x, gain, bias: F.layer_norm(x, gain.shape, gain, bias)),
    Case("rms_norm", {"N": 3, "D": 7}, {"N": 2048, "D": 768}, lambda x, gain: F.rms_norm(x, gain.shape, gain, 1e-6)),
    Case("batch_norm", {"N": 3, "C": 2, "H": 5, "W": 3}, {"N": 16, "C": 64, "H": 28, "W": 28}, batch_norm),
    Case("group_norm", {"N": 3, "C": 6, "H": 5, "W": 3}, {"N": 16, "C": 64, "H": 28, "W": 28},
         lambda G, *x: F.group_norm(x[0], G, *x[1:]), {"G": 2}),
    Case("conv2d", {"N": 2, "C": 3, "H": 7, "W": 5, "F": 3, "KH": 3, "KW": 3},
         {**IMAGES, "F": 64, "KH": 3, "KW": 3}, lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1)),
    Case("conv1d_causal", {"N": 2, "C": 3, "T": 11, "F": 3, "K": 3}, {"N": 8, "C": 32, "T": 1024, "F": 64, "K": 5},
         conv1d_causal),
    Case("conv3d", {"N": 1, "C": 3, "D": 5, "H": 4, "W": 7, "F": 2, "K": 3},
         {"N": 1, "C": 16, "D": 16, "H": 28, "W": 28, "F": 32, "K": 3}, F.conv3d),
    Case("depthwise_conv", {"N": 2, "C": 3, "H": 5, "W": 7}, {"N": 4, "C": 96, "H": 56, "W": 56}, depthwise_conv),
    Case("grouped_conv", {"N": 1, "G": 3, "C": 2, "H": 5, "W": 7, "F": 3, "K": 3},
         {"N": 4, "G": 4, "C": 16, "H": 56, "W": 56, "F": 16, "K": 3}, grouped_conv),
    Case("transposed_conv", {"N": 1, "C": 3, "H": 3, "W": 5, "F": 2, "K": 3},
         {"N": 4, "C": 32, "H": 28, "W": 28, "F": 16, "K": 3}, lambda x, w: F.conv_transpose2d(x, w, stride=2)),
    Case("resize_bilinear", {"N": 1, "C": 2, "H": 3, "W": 5}, {"N": 4, "C": 16, "H": 64, "W": 64},
         lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    Case("resize_nearest", {"N": 1, "C": 2, "H": 3, "W": 5, "OH": 7, "OW": 4},
         {"N": 4, "C": 16, "H": 64, "W": 64, "OH": 150, "OW": 90}, resize_nearest),
    Case("max_pool_indices", {"N": 1, "C": 3, "H": 7, "W": 5}, IMAGES,
         lambda x: F.max_pool2d(x, 2, return_indices=True)),
    Case("avg_pool", {"N": 1, "C": 3, "H": 7, "W": 5}, IMAGES, avg_pool),
    Case("embedding_bag", {"E": 11, "D": 5, "B": 3, "L": 7}, {"E": 20000, "D": 64, "B": 512, "L": 32}, embedding_bag),
    Case("cross_entropy", {"N": 3, "C": 7}, {"N": 1024, "C": 4096}, lambda x, t: F.cross_entropy(x, t.long())),
    Case("kl_div", {"N": 3, "C": 7}, {"N": 1024, "C": 1024}, kl_div, {"T": 2.0}),
    Case("moe", {"N": 5, "D": 3, "E": 7, "F": 4}, {"N": 256, "D": 256, "E": 8, "F": 256}, moe),
    Case("lstm_cell", {"B": 3, "I": 5, "H": 7}, {"B": 64, "I": 256, "H": 256}, lstm_cell),
    Case("gru_cell", {"B": 3, "I": 5, "H": 7}, {"B": 64, "I": 256, "H": 256}, gru_cell),
    Case("fft_stage", {"B": 3, "N": 14}, {"B": 256, "N": 4096}, fft_stage),
    Case("int8_product", {"M": 3, "K": 7, "N": 5}, {"M": 256, "K": 512, "N": 256}, int8_product, {"za": 3, "zb": -2}),
    Case("winograd", {"N": 1, "C": 3, "H": 6, "W": 8, "F": 2}, {"N": 4, "C": 64, "H": 58, "W": 58, "F": 64}, winograd,
         fixed=WINOGRAD),
    Case("gaussian", {"H": 7, "W": 9, "K": 5}, {"H": 1024, "W": 1024, "K": 9}, gaussian),
    Case("harris", {"H": 9, "W": 7}, {"H": 1024, "W": 1024}, harris),
    Case("bilateral", {"H": 5, "W": 7}, {"H": 256, "W": 256}, bilateral, {"space": 2.0, "value": 0.5}),
    Case("heat", {"H": 5, "W": 7}, {"H": 512, "W": 512}, heat, {"steps": 3, "a": 0.1}),
)  # fmt: skip
