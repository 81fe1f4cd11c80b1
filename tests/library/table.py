"""The calls, at least one for each def of the library."""

from __future__ import annotations

from typing import Any

import torch

from tests.library.cases import (
    Case,
    F,
    a,
    band,
    bilateral,
    blur,
    bytes_,
    case,
    distance,
    focal,
    gates,
    grouped,
    gru,
    im2col,
    into,
    lstm,
    masked,
    numbers,
    positive,
    rnn,
    rope,
    selective_scan,
    sobel,
    ssim,
)

W = {"w_ih": a(12, 3), "w_hh": a(12, 4), "b_ih": a(12), "b_hh": a(12)}
W4 = {"w_ih": a(16, 3), "w_hh": a(16, 4), "b_ih": a(16), "b_hh": a(16)}
QKV = {"q": a(2, 3, 5, 4), "k": a(2, 3, 5, 4), "v": a(2, 3, 5, 2)}
SDPA: Any = F.scaled_dot_product_attention

CASES: list[Case] = [
    # ---- products
    case("matmul", torch.matmul, a=a(5, 7), b=a(7, 3)),
    case("matmul_nt", lambda a, b: a @ b.T, a=a(5, 7), b=a(3, 7)),
    case("matmul_tn", lambda a, b: a.T @ b, a=a(7, 5), b=a(7, 3)),
    case("matvec", torch.mv, a=a(5, 7), x=a(7)),
    case("bmm", torch.bmm, a=a(3, 5, 7), b=a(3, 7, 2)),
    case("linear", F.linear, x=a(5, 7), w=a(3, 7)),
    case("linear", F.linear, x=a(2, 5, 7), w=a(3, 7), b=a(3)),
    case(
        "grouped_matmul",
        lambda x, w, group: torch.einsum("ni,nio->no", x, w[group]),
        x=a(9, 5),
        w=a(3, 5, 4),
        group=numbers(3, 9),
    ),
    case(
        "qmatmul",
        lambda a, b, a_zero, b_zero: (a.int() - a_zero) @ (b.int() - b_zero),
        a=bytes_(5, 7),
        b=bytes_(7, 3),
        a_zero=3,
        b_zero=-4,
    ),
    case(
        "qlinear",
        lambda x, w, w_scale, x_scale, x_zero: F.linear(
            x_scale * (x.double() - x_zero), w_scale[:, None] * w.double()
        ),
        x=bytes_(5, 7),
        w=bytes_(3, 7),
        w_scale=positive(3),
        x_scale=0.125,
        x_zero=3,
    ),
    case("outer", torch.outer, a=a(5), b=a(3)),
    case("kronecker", torch.kron, a=a(2, 3), b=a(4, 5)),
    case("bilinear", F.bilinear, x=a(5, 3), z=a(5, 4), w=a(2, 3, 4)),
    case(
        "mttkrp", lambda x, b, c: torch.einsum("ijk,jr,kr->ir", x, b, c), x=a(3, 4, 5), b=a(4, 2), c=a(5, 2)
    ),
    case("distances", lambda x, y: ((x[:, None] - y) ** 2).sum(-1), x=a(5, 3), y=a(4, 3)),
    case("cosine_similarity", F.cosine_similarity, x=a(5, 3), y=a(5, 3)),
    # ---- convolutions
    case("conv1d", lambda x, w, **k: F.conv1d(x, w, **k), x=a(2, 3, 11), w=a(4, 3, 3), stride=2, padding=1),
    case(
        "conv1d", lambda x, w, b, **k: F.conv1d(x, w, b, **k), x=a(2, 3, 11), w=a(4, 3, 3), b=a(4), dilation=2
    ),
    case("conv2d", F.conv2d, x=a(2, 3, 6, 5), w=a(4, 3, 3, 3)),
    case(
        "conv2d",
        lambda x, w, b, **k: F.conv2d(x, w, b, **k),
        x=a(2, 3, 7, 6),
        w=a(4, 3, 3, 2),
        b=a(4),
        stride=(2, 1),
        padding=(1, 2),
        dilation=(1, 2),
    ),
    case(
        "conv3d",
        lambda x, w, **k: F.conv3d(x, w, **k),
        x=a(1, 2, 5, 4, 5),
        w=a(3, 2, 2, 3, 2),
        stride=(2, 1, 2),
        padding=1,
    ),
    case("grouped_conv2d", grouped, x=a(2, 3, 2, 5, 6), w=a(3, 4, 2, 3, 3), padding=1),
    case(
        "depthwise_conv2d",
        lambda x, w, **k: F.conv2d(x, w[:, None], groups=x.shape[1], **k),
        x=a(2, 3, 6, 5),
        w=a(3, 3, 3),
        stride=2,
        padding=1,
    ),
    case(
        "conv_transpose1d",
        lambda x, w, **k: F.conv_transpose1d(x, w, **k),
        x=a(2, 3, 5),
        w=a(3, 4, 3),
        stride=2,
        padding=1,
        output_padding=1,
    ),
    case(
        "conv_transpose2d",
        lambda x, w, **k: F.conv_transpose2d(x, w, **k),
        x=a(2, 3, 4, 3),
        w=a(3, 2, 3, 2),
        stride=(2, 1),
        padding=1,
        dilation=(1, 2),
        output_padding=(1, 0),
    ),
    case("im2col", im2col, x=a(2, 3, 6, 5), kernel=(3, 2), stride=2, padding=1, dilation=1),
    # ---- pooling
    case(
        "max_pool2d",
        lambda x, kernel, **k: F.max_pool2d(x, kernel, return_indices=True, **k),
        x=a(2, 3, 7, 6),
        kernel=(3, 2),
        stride=2,
        padding=1,
    ),
    case(
        "max_pool2d",
        lambda x, kernel: F.max_pool2d(x, kernel, return_indices=True),
        x=a(2, 3, 7, 6),
        kernel=2,
    ),
    case(
        "max_pool1d", lambda x, kernel, **k: F.max_pool1d(x, kernel, **k), x=a(2, 3, 9), kernel=3, padding=1
    ),
    case(
        "avg_pool2d",
        lambda x, kernel, **k: F.avg_pool2d(x, kernel, **k),
        x=a(2, 3, 7, 6),
        kernel=3,
        stride=2,
        padding=1,
    ),
    case(
        "adaptive_avg_pool2d",
        lambda x, output: F.adaptive_avg_pool2d(x, output),
        x=a(2, 3, 7, 5),
        output=(3, 4),
    ),
    case("global_avg_pool2d", lambda x: x.mean((2, 3)), x=a(2, 3, 4, 5)),
    # ---- normalisation
    case("softmax", lambda x: torch.softmax(x, -1), x=a(5, 7)),
    case("log_softmax", lambda x: torch.log_softmax(x, -1), x=a(2, 3, 7)),
    case("logsumexp", lambda x: torch.logsumexp(x, -1), x=a(2, 3, 7)),
    case(
        "layer_norm",
        lambda x, gain, bias: F.layer_norm(x, gain.shape, gain, bias),
        x=a(2, 3, 7),
        gain=a(7),
        bias=a(7),
    ),
    case(
        "rms_norm", lambda x, gain, eps: F.rms_norm(x, gain.shape, gain, eps), x=a(5, 7), gain=a(7), eps=1e-5
    ),
    case(
        "add_rms_norm",
        lambda x, residual, gain: (F.rms_norm(x + residual, gain.shape, gain, 1e-6), x + residual),
        x=a(5, 7),
        residual=a(5, 7),
        gain=a(7),
    ),
    case(
        "batch_norm",
        lambda x, gain, bias: (
            F.batch_norm(x, None, None, gain, bias, training=True),
            x.mean((0, 2, 3)),
            x.var((0, 2, 3), correction=0),
        ),
        x=a(3, 2, 4, 5),
        gain=a(2),
        bias=a(2),
    ),
    case(
        "batch_norm_inference",
        lambda x, mean, var, gain, bias: F.batch_norm(x, mean, var, gain, bias),
        x=a(3, 2, 4, 5),
        mean=a(2),
        var=positive(2),
        gain=a(2),
        bias=a(2),
        frozen=("mean", "var"),
    ),
    case(
        "instance_norm",
        lambda x, gain, bias: F.instance_norm(x, weight=gain, bias=bias),
        x=a(3, 2, 4, 5),
        gain=a(2),
        bias=a(2),
    ),
    case(
        "group_norm",
        lambda x, gain, bias, groups: F.group_norm(x, groups, gain, bias),
        x=a(2, 6, 3, 2),
        gain=a(6),
        bias=a(6),
        groups=3,
    ),
    case("moments", lambda x: (x.mean(-1), x.var(-1, correction=0)), x=a(2, 3, 7)),
    case("l2_normalize", lambda x: F.normalize(x, dim=-1), x=a(5, 7)),
    case("cumsum", lambda x: torch.cumsum(x, -1), x=a(5, 7)),
    case("argmax", lambda x: torch.argmax(x, -1), x=a(5, 7)),
    # ---- activations
    case("gelu", F.gelu, x=a(3, 5, 2)),
    case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), x=a(9)),
    case("silu", F.silu, x=a(9)),
    case("softplus", F.softplus, x=a(9)),
    case("swiglu", lambda gate, value: F.silu(gate) * value, gate=a(3, 5), value=a(3, 5)),
    case("geglu", lambda gate, value: F.gelu(gate) * value, gate=a(9), value=a(9)),
    case(
        "swiglu_layer",
        lambda x, gate, value: F.silu(x @ gate.T) * (x @ value.T),
        x=a(5, 7),
        gate=a(3, 7),
        value=a(3, 7),
    ),
    # ---- attention
    case("attention", SDPA, q=a(2, 3, 5, 4), k=a(2, 3, 7, 4), v=a(2, 3, 7, 2)),
    case("attention", masked, q=a(2, 3, 5, 4), k=a(2, 3, 7, 4), v=a(2, 3, 7, 2), mask=a(5, 7), scale=0.25),
    case("causal_attention", lambda q, k, v: SDPA(q, k, v, is_causal=True), **QKV),
    case(
        "grouped_query_attention",
        lambda q, k, v: SDPA(q, k, v, enable_gqa=True),
        q=a(2, 4, 5, 3),
        k=a(2, 2, 6, 3),
        v=a(2, 2, 6, 2),
    ),
    case(
        "sliding_window_attention", lambda q, k, v, window: masked(q, k, v, band(5, window)), **QKV, window=2
    ),
    case(
        "alibi_attention",
        lambda q, k, v, slope: masked(
            q, k, v, torch.where(distance(5) <= 0, slope[:, None, None] * distance(5), float("-inf"))
        ),
        **QKV,
        slope=positive(3),
    ),
    case("rope", rope, x=a(2, 5, 3, 6), base=100.0, start=2),
    # ---- lookups
    case("embedding", lambda ids, table: table[ids], ids=numbers(7, 2, 3), table=a(7, 4)),
    case(
        "embedding_bag",
        lambda ids, table: F.embedding_bag(ids, table, mode="sum"),
        ids=numbers(7, 5, 3),
        table=a(7, 4),
    ),
    case(
        "embedding_bag",
        lambda ids, table, weights: F.embedding_bag(ids, table, mode="sum", per_sample_weights=weights),
        ids=numbers(7, 5, 3),
        table=a(7, 4),
        weights=a(5, 3),
    ),
    case(
        "moe_combine",
        lambda x, slot, gate: (x[slot] * gate[..., None]).sum(1),
        x=a(9, 4),
        slot=numbers(9, 5, 2),
        gate=a(5, 2),
    ),
    case("segment_sum", into(0.0, "sum"), x=a(9, 4), ids=numbers(3, 9), segments=5),
    case("segment_mean", into(0.0, "mean"), x=a(9, 4), ids=numbers(3, 9), segments=5),
    case("segment_max", into(float("-inf"), "amax"), x=a(9, 4), ids=numbers(2, 9), segments=2),
    case(
        "histogram", lambda x, bins: torch.bincount(x.reshape(-1), minlength=bins), x=numbers(5, 3, 9), bins=7
    ),
    # ---- recurrent
    case(
        "lstm_cell",
        lambda x, h, c, *w: gates(torch.nn.LSTMCell(3, 4), x, h, c, w=w),
        x=a(2, 3),
        h=a(2, 4),
        c=a(2, 4),
        **W4,
    ),
    case("gru_cell", lambda x, h, *w: gates(torch.nn.GRUCell(3, 4), x, h, w=w), x=a(2, 3), h=a(2, 4), **W),
    case("lstm", lstm, x=a(5, 2, 3), h0=a(2, 4), c0=a(2, 4), **W4),
    case("gru", gru, x=a(5, 2, 3), h0=a(2, 4), **W),
    case("rnn", rnn, x=a(5, 2, 3), h0=a(2, 4), w_ih=a(4, 3), w_hh=a(4, 4), b_ih=a(4), b_hh=a(4)),
    case(
        "selective_scan",
        selective_scan,
        u=a(2, 5, 3),
        delta=positive(2, 5, 3),
        a=a(3, 4),
        b=a(2, 5, 4),
        c=a(2, 5, 4),
        skip=a(3),
    ),
    # ---- images
    case(
        "resize_nearest", lambda x, size: F.interpolate(x, size, mode="nearest"), x=a(2, 3, 4, 6), size=(8, 3)
    ),
    case(
        "resize_bilinear",
        lambda x, size: F.interpolate(x, size, mode="bilinear"),
        x=a(2, 3, 4, 5),
        size=(7, 3),
    ),
    case("pixel_shuffle", lambda x, factor: F.pixel_shuffle(x, factor), x=a(2, 8, 3, 2), factor=2),
    case("pixel_unshuffle", lambda x, factor: F.pixel_unshuffle(x, factor), x=a(2, 3, 4, 6), factor=2),
    case("sobel", sobel, x=a(2, 5, 4)),
    case("gaussian_blur", blur, x=a(2, 7, 6), sigma=0.8, radius=3),
    case("bilateral_filter", bilateral, x=a(2, 5, 4), sigma_space=1.0, sigma_value=0.5, radius=1),
    case("ssim", ssim, x=positive(2, 9, 8), y=positive(2, 9, 8), radius=3),
    # ---- losses
    case(
        "cross_entropy",
        lambda x, target, label_smoothing: F.cross_entropy(x, target, label_smoothing=label_smoothing),
        x=a(5, 7),
        target=numbers(7, 5),
        label_smoothing=0.1,
    ),
    case("mse_loss", F.mse_loss, x=a(3, 5), target=a(3, 5)),
    case(
        "huber_loss",
        lambda x, target, delta: F.huber_loss(x, target, delta=delta),
        x=a(9),
        target=a(9),
        delta=0.5,
    ),
    case(
        "kl_div",
        lambda x, target: F.kl_div(x, target, reduction="batchmean"),
        x=a(3, 5),
        target=positive(3, 5),
    ),
    case(
        "dice_loss",
        lambda x, target: 1 - (2 * (x * target).sum(1) + 1) / (x.sum(1) + target.sum(1) + 1),
        x=positive(3, 5),
        target=positive(3, 5),
    ),
    case("bce_with_logits", F.binary_cross_entropy_with_logits, x=a(9), target=positive(9)),
    case("focal_loss", focal, x=a(9), target=positive(9)),
]
