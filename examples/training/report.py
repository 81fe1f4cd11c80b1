"""The command line of a training: progress while it runs, a summary, and the curves as a picture."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from examples.training.race import SPELLINGS, TURN, Curve, Spelling, Training, race

LABELS: dict[Spelling, str] = {"tc": "tc", "torch": "PyTorch"}
COLOURS: dict[Spelling, str] = {"tc": "#c44e52", "torch": "#4c72b0"}


def main(training: Training, argv: Sequence[str] | None = None) -> None:
    """Train by the arguments of the command line; without --save the picture is not drawn."""
    parser = argparse.ArgumentParser(description=training.title)
    parser.add_argument("--steps", type=int, default=600, help="steps of either model (default 600)")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights and the batches")
    parser.add_argument("--save", type=Path, metavar="FILE.png", help="draw the curves")
    parser.add_argument("--threads", type=int, help="threads of either (default: as PyTorch counts)")
    args = parser.parse_args(argv)
    if args.steps < 1 or (args.threads is not None and args.threads < 1):
        parser.error("--steps and --threads are at least 1")
    import torch

    threads = args.threads or torch.get_num_threads()
    said = f"{training.title}, {threads} thread{'s' if threads > 1 else ''}"
    training = dataclasses.replace(training, title=said)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("steps of both", total=2 * args.steps)
        curves = race(training, args.steps, args.seed, threads, done=lambda n: progress.advance(task, n))
    print(summary(training, curves))
    if args.save:
        draw(training, curves, args.save)
        print(f"curves: {args.save}")


def milliseconds(curve: Curve) -> float:
    """The mean of a step in the fastest turn, in ms: what else the machine does disturbs that least."""
    spent = curve.seconds
    turns = [spent[k : k + TURN] for k in range(0, len(spent), TURN)]
    return 1e3 * min(statistics.mean(turn) for turn in turns if len(turn) == len(turns[0]))


def median(curve: Curve) -> float:
    """The median of a step, in ms."""
    return 1e3 * statistics.median(curve.seconds)


def summary(training: Training, curves: Mapping[Spelling, Curve]) -> str:
    """A table of both models, and how far their losses are apart."""
    ours, theirs = curves["tc"], curves["torch"]
    steps = len(ours.losses)
    lines = [f"{training.title}: {steps} steps"]
    lines.append(
        f"{'':10}{'first step':>14}{'median':>14}{'fastest turn':>14}{'last loss':>12}{'accuracy':>10}"
    )
    for s in SPELLINGS:
        c = curves[s]
        lines.append(
            f"{LABELS[s]:10}{1e3 * c.seconds[0]:11.1f} ms{median(c):11.3f} ms{milliseconds(c):11.3f} ms"
            f"{c.losses[-1]:12.5f}{100 * c.accuracy[steps]:8.2f} %"
        )
    apart = max(abs(a - b) for a, b in zip(ours.losses, theirs.losses, strict=True))
    ratio = milliseconds(theirs) / milliseconds(ours)
    lines.append(
        f"losses differ by at most {apart:.1e}; in the fastest turns tc is {ratio:.2f} times as fast"
    )
    return "\n".join(lines)


def draw(training: Training, curves: Mapping[Spelling, Curve], path: Path) -> None:
    """Three panels: losses, accuracy on data held out, and the time of a step."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (loss, accuracy, spent) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for s in SPELLINGS:
        c = curves[s]
        style: dict[str, Any] = {"color": COLOURS[s], "label": LABELS[s]}
        dashed = {"linestyle": "--"} if s == "torch" else {"linewidth": 2.5, "alpha": 0.6}
        loss.plot(range(1, len(c.losses) + 1), c.losses, **style, **dashed)
        accuracy.plot(list(c.accuracy), [100 * a for a in c.accuracy.values()], **style, **dashed)
        spent.bar(LABELS[s], milliseconds(c), color=COLOURS[s])
        spent.annotate(f"{milliseconds(c):.2f}", (LABELS[s], milliseconds(c)), ha="center", va="bottom")
    loss.set(xlabel="step", ylabel="loss", yscale="log")
    accuracy.set(xlabel="step", ylabel="accuracy, %", ylim=(0, 103))
    spent.set(ylabel=f"ms a step, in the fastest turn of {TURN}")
    spent.margins(y=0.15)
    loss.legend()
    accuracy.legend(loc="lower right")
    for panel in (loss, accuracy):
        panel.grid(alpha=0.3)
    figure.suptitle(training.title)
    figure.savefig(path, dpi=110)
    plt.close(figure)
