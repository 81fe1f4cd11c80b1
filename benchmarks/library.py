"""Operators of tc.library and PyTorch's own in eager mode: forward, and forward with backward.

    python -m benchmarks library [--rounds 31] [--budget 0.01] [--only conv2d …] [--no-save]

Each contestant has a process of its own for each row, with two threads.  They are timed in turn, so that
neither's threads spin on the other's time; a turn lasts for `--budget` seconds of calls.  A ratio is
PyTorch's time over that of tc, so more than 1 is faster: of the best turns of either, which others on the
machine disturb least, and the median over rounds with its interval.  Results and gradients are compared
before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.contestants import THREADS, Contestant, difference, in_turns, serve
from benchmarks.quiet import Others
from benchmarks.record import save
from benchmarks.stats import geometric_mean, paired_ratio
from benchmarks.table import aligned, duration

CALLS = ("forward", "both")
HEADER = ("operator", "arguments", *("tc us", "torch us", "ratio", "median", "95 %") * 2)


@dataclass(frozen=True, slots=True)
class Row:
    """`shapes` are of floats; `numbers` of integers, with the number that they stay below.  `other` computes
    the same in PyTorch."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    other: Callable[..., Any]
    keywords: dict[str, Any]
    numbers: dict[str, tuple[tuple[int, ...], int]]
    varied: tuple[str, ...]

    @property
    def text(self) -> str:
        given = [f"{n} {'×'.join(map(str, s))}" for n, s in self.shapes.items()]
        return ", ".join([*given, *(f"{n}={v}" for n, v in self.keywords.items())])


def row(
    name: str, other: Callable[..., Any], /, *, varied: tuple[str, ...] | None = None, **given: Any
) -> Row:
    shapes = {n: v for n, v in given.items() if isinstance(v, tuple) and n not in ("kernel", "size")}
    numbers = {n: v for n, v in given.items() if isinstance(v, list)}
    keywords = {n: v for n, v in given.items() if n not in shapes and n not in numbers}
    some = {n: (tuple(v[0]), v[1]) for n, v in numbers.items()}
    return Row(name, shapes, other, keywords, some, tuple(shapes) if varied is None else varied)


def rows() -> list[Row]:
    import torch
    from torch.nn import functional

    f: Any = functional
    heads = dict.fromkeys("qkv", (4, 8, 256, 64))
    return [
        row("matmul", torch.matmul, a=(512, 512), b=(512, 512)),
        row("bmm", torch.bmm, a=(64, 64, 64), b=(64, 64, 64)),
        row("linear", f.linear, x=(256, 1024), w=(1024, 1024), b=(1024,)),
        row(
            "conv1d",
            lambda x, w, **k: f.conv1d(x, w, **k),
            x=(8, 32, 1024),
            w=(64, 32, 5),
            stride=2,
            padding=2,
        ),
        row("conv2d", lambda x, w, **k: f.conv2d(x, w, **k), x=(4, 64, 56, 56), w=(64, 64, 3, 3), padding=1),
        row(
            "conv2d",
            lambda x, w, **k: f.conv2d(x, w, **k),
            x=(4, 64, 56, 56),
            w=(128, 64, 3, 3),
            stride=2,
            padding=1,
        ),
        row(
            "depthwise_conv2d",
            lambda x, w, **k: f.conv2d(x, w[:, None], groups=x.shape[1], **k),
            x=(8, 96, 56, 56),
            w=(96, 3, 3),
            padding=1,
        ),
        row(
            "conv_transpose2d",
            lambda x, w, **k: f.conv_transpose2d(x, w, **k),
            x=(4, 32, 28, 28),
            w=(32, 16, 3, 3),
            stride=2,
            padding=1,
        ),
        row(
            "max_pool2d",
            lambda x, kernel, **k: f.max_pool2d(x, kernel, return_indices=True, **k),
            x=(8, 64, 56, 56),
            kernel=3,
            stride=2,
            padding=1,
        ),
        row("avg_pool2d", lambda x, kernel: f.avg_pool2d(x, kernel), x=(8, 64, 56, 56), kernel=2),
        row("softmax", lambda x: torch.softmax(x, -1), x=(1024, 1024)),
        row(
            "layer_norm",
            lambda x, gain, bias: f.layer_norm(x, gain.shape, gain, bias),
            x=(2048, 768),
            gain=(768,),
            bias=(768,),
        ),
        row("rms_norm", lambda x, gain: f.rms_norm(x, gain.shape, gain, 1e-6), x=(2048, 768), gain=(768,)),
        row(
            "batch_norm",
            lambda x, gain, bias: (f.batch_norm(x, None, None, gain, bias, training=True),),
            x=(16, 64, 28, 28),
            gain=(64,),
            bias=(64,),
        ),
        row(
            "group_norm",
            lambda x, gain, bias, groups: f.group_norm(x, groups, gain, bias),
            x=(16, 64, 28, 28),
            gain=(64,),
            bias=(64,),
            groups=8,
        ),
        row("gelu", f.gelu, x=(1 << 20,)),
        row("swiglu", lambda gate, value: f.silu(gate) * value, gate=(1 << 20,), value=(1 << 20,)),
        row("attention", f.scaled_dot_product_attention, **heads),
        row(
            "causal_attention",
            lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
            **heads,
        ),
        row("cross_entropy", f.cross_entropy, x=(1024, 4096), target=[(1024,), 4096]),
        row(
            "embedding_bag",
            lambda ids, table: f.embedding_bag(ids, table, mode="sum"),
            table=(20000, 64),
            ids=[(512, 32), 20000],
        ),
        row(
            "lstm",
            _lstm,
            x=(32, 16, 128),
            h0=(16, 128),
            c0=(16, 128),
            w_ih=(512, 128),
            w_hh=(512, 128),
            b_ih=(512,),
            b_hh=(512,),
        ),
        row(
            "resize_bilinear",
            lambda x, size: f.interpolate(x, size, mode="bilinear"),
            x=(4, 16, 64, 64),
            size=(128, 128),
        ),
        row("segment_sum", _segments, x=(20000, 64), ids=[(20000,), 500], segments=500),
        row("huber_loss", f.huber_loss, x=(1 << 20,), target=(1 << 20,)),
    ]


def _lstm(x: Any, h0: Any, c0: Any, *weights: Any) -> Any:
    import torch

    y, h, c = torch.lstm(x, (h0[None], c0[None]), weights, True, 1, 0.0, False, False, False)
    return y, h[0], c[0]


def _segments(x: Any, ids: Any, segments: int) -> Any:
    return x.new_zeros((segments, x.shape[1])).index_add(0, ids, x)


# ---- a contestant


def work(name: str, at: int) -> None:
    """Serve as the contestant `name` of a row."""
    import torch

    import tc

    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    r = rows()[at]
    g = torch.Generator().manual_seed(1)
    given: dict[str, Any] = {}
    operator = tc.library.operators()[r.name]
    for n in operator.signature.strip("()").split(", "):
        n = n.partition("=")[0]
        if n in r.shapes:
            given[n] = torch.randn(r.shapes[n], generator=g) / (4 if n.startswith("w_") else 1)
        elif n in r.numbers:
            shape, below = r.numbers[n]
            given[n] = torch.randint(0, below, shape, generator=g)
    values = tuple(given.values())
    run: Callable[..., Any] = operator if name == "tc" else r.other
    varied = [given[n] for n in given if n in r.varied]

    def first(found: Any) -> Any:
        return found[0] if isinstance(found, tuple) else found

    seed = torch.randn(first(run(*values, **r.keywords)).shape, generator=g)

    def forward() -> Any:
        with torch.no_grad():
            return run(*values, **r.keywords)

    def both() -> Any:
        for v in varied:
            v.requires_grad_()
        y = first(run(*values, **r.keywords))
        found = torch.autograd.grad(y, varied, seed)
        for v in varied:
            v.requires_grad_(False)
        return found

    serve({"forward": forward, "both": both}, lambda: (first(forward()), *both()))


def measure(at: int, rounds: int, budget: float) -> dict[str, Any]:
    pair = {name: Contestant("benchmarks.library", name, at) for name in ("tc", "torch")}
    try:
        out: dict[str, Any] = {"wrong": difference(pair, "tc", "torch")}
        for call, times in in_turns(pair, CALLS, rounds, budget).items():
            ratio = paired_ratio(times["torch"], times["tc"])
            out[call] = {
                "tc_s": min(times["tc"]),
                "torch_s": min(times["torch"]),
                "best": min(times["torch"]) / min(times["tc"]),
                "ratio": [ratio.median, ratio.low, ratio.high],
            }
        return out
    finally:
        for c in pair.values():
            c.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks library",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--budget", type=float, default=0.01, help="seconds of calls in a turn")
    parser.add_argument("--only", nargs="+", help="these operators")
    parser.add_argument("--save", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        work(args.worker[0], int(args.worker[1]))
        return 0
    others = Others()
    found: list[dict[str, Any]] = []
    lines: list[tuple[str, ...]] = []
    for at, r in enumerate(rows()):
        if args.only and r.name not in args.only:
            continue
        one = measure(at, args.rounds, args.budget)
        found.append({"row": r.name, "arguments": r.text, **one})
        cells: list[str] = []
        for call in CALLS:
            median, low, high = one[call]["ratio"]
            cells += [duration(one[call]["tc_s"]), duration(one[call]["torch_s"])]
            cells += [f"{one[call]['best']:.2f}", f"{median:.2f}", f"{low:.2f}..{high:.2f}"]
        lines.append((r.name, r.text, *cells))
        print(f"{r.name}: {cells[2]}, {cells[7]} {one['wrong']}", file=sys.stderr, flush=True)
    print(aligned(HEADER, lines, left=2))
    for call in CALLS:
        print(f"{call}: geometric mean {geometric_mean([x[call]['best'] for x in found]):.2f}")
    share = others.share()
    if share is not None:
        print(f"others used {100 * share:.0f} % of the processors meanwhile")
    if args.save and not args.only:
        print(f"written to benchmarks/results/{save('library', found).name}")
    return 0 if not any(x["wrong"] for x in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
