"""Models under torch.compile(backend="tc"), in eager mode and under Inductor: forward, and a training step.

    python -m benchmarks torch_models [--rounds 15] [--budget 0.05] [--only unet …] [--no-save]

Each contestant has a process of its own for each model, with two threads, and they are timed in turn, as in
`benchmarks/library.py`.  A ratio is the time of the other over that of tc, of the best turns of either.
Results and gradients are compared with eager mode before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

from benchmarks.contestants import THREADS, Contestant, difference, in_turns, serve
from benchmarks.quiet import Others
from benchmarks.record import save
from benchmarks.stats import geometric_mean, paired_ratio
from benchmarks.table import aligned, duration

NAMES = ("tc", "eager", "inductor")
CALLS = ("forward", "step")
HEADER = ("model", *("tc us", "eager us", "inductor us", "to eager", "to inductor") * 2)
MODELS = ("resnet", "transformer", "mixer", "lstm", "unet")


def model(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model and what it takes."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Resnet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(2))
            self.m, self.n = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.m(self.a(x)))
            return torch.relu(self.n(self.b(y)) + x)

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.m, self.n = nn.LayerNorm(256), nn.LayerNorm(256)
            self.tokens = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
            self.channels = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))

        def forward(self, x: Any) -> Any:
            x = x + self.tokens(self.m(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.n(x))

    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5000, 128)
            self.cell = nn.LSTMCell(128, 128)
            self.out = nn.Linear(128, 10)

        def forward(self, ids: Any) -> Any:
            x = self.table(ids)
            h = c = x.new_zeros(ids.shape[0], 128)
            for t in range(ids.shape[1]):
                h, c = self.cell(x[:, t], (h, c))
            return self.out(h).log_softmax(-1)

    class Unet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.deep = nn.Conv2d(16, 32, 3, 2, 1), nn.Conv2d(32, 32, 3, 1, 1)
            self.up, self.out = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(32, 16, 3, 1, 1)
            self.m, self.n = nn.GroupNorm(8, 32), nn.GroupNorm(4, 16)

        def forward(self, x: Any) -> Any:
            y = nn.functional.silu(self.m(self.down(x)))
            y = self.up(nn.functional.silu(self.deep(y)))
            return nn.functional.silu(self.n(self.out(torch.cat([x, y], 1))))

    if name == "resnet":
        return Resnet(), (torch.randn(4, 64, 28, 28),)
    if name == "transformer":
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True)
        return layer, (torch.randn(4, 128, 256),)
    if name == "mixer":
        return Mixer(), (torch.randn(8, 64, 256),)
    if name == "lstm":
        return Lstm(), (torch.randint(0, 5000, (32, 16)),)
    return Unet(), (torch.randn(4, 16, 64, 64),)


def work(name: str, at: int) -> None:
    """Serve as the contestant `name` of a model."""
    import torch

    import tc

    assert tc.torch  # which knows the backend
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    made, given = model(MODELS[at])
    run = made if name == "eager" else torch.compile(made, backend=name)
    parameters = list(made.parameters())

    def forward() -> Any:
        with torch.no_grad():
            return run(*given)

    def step() -> Any:
        return torch.autograd.grad(run(*given).square().mean(), parameters)

    serve({"forward": forward, "step": step}, lambda: (forward(), *step()))


def measure(at: int, rounds: int, budget: float) -> dict[str, Any]:
    some = {name: Contestant("benchmarks.torch_models", name, at) for name in NAMES}
    try:
        out: dict[str, Any] = {"wrong": difference(some, "tc", "eager")}
        for call, times in in_turns(some, CALLS, rounds, budget).items():
            out[call] = {f"{n}_s": min(t) for n, t in times.items()}
            for other in NAMES[1:]:
                ratio = paired_ratio(times[other], times["tc"])
                out[call][other] = min(times[other]) / min(times["tc"])
                out[call][f"{other}_ratio"] = [ratio.median, ratio.low, ratio.high]
        return out
    finally:
        for c in some.values():
            c.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks torch_models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=0.05, help="seconds of calls in a turn")
    parser.add_argument("--only", nargs="+", choices=MODELS, help="these models")
    parser.add_argument("--save", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        work(args.worker[0], int(args.worker[1]))
        return 0
    others = Others()
    found: list[dict[str, Any]] = []
    lines: list[tuple[str, ...]] = []
    for at, name in enumerate(MODELS):
        if args.only and name not in args.only:
            continue
        one = measure(at, args.rounds, args.budget)
        found.append({"model": name, **one})
        cells: list[str] = []
        for call in CALLS:
            cells += [duration(one[call][f"{n}_s"]) for n in NAMES]
            cells += [f"{one[call][n]:.2f}" for n in NAMES[1:]]
        lines.append((name, *cells))
        print(f"{name}: {' '.join(cells)} {one['wrong']}", file=sys.stderr, flush=True)
    print(aligned(HEADER, lines, left=1))
    for call in CALLS:
        means = [f"{geometric_mean([x[call][n] for x in found]):.2f} to {n}" for n in NAMES[1:]]
        print(f"{call}: geometric mean {', '.join(means)}")
    share = others.share()
    if share is not None:
        print(f"others used {100 * share:.0f} % of the processors meanwhile")
    if args.save and not args.only:
        print(f"written to benchmarks/results/{save('torch_models', found).name}")
    return 0 if not any(x["wrong"] for x in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
