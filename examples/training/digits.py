"""A convolutional network that reads digits: 8×8 images that scikit-learn ships.

    python -m examples.training.digits --steps 600 --save digits.png

The network is one def, digits.tc, and its loss is `tc.library.cross_entropy`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import tc
from examples.training.race import Batch, Spelling, Training
from examples.training.report import main

SOURCE = Path(__file__).with_suffix(".tc")
BATCH, HELD_OUT = 64, 397
WIDTHS = (16, 32)  # features of the two blocks


@functools.cache
def images() -> Batch:
    """The 1797 images as floats between 0 and 1, (1797, 1, 8, 8), and what they show, in a random order."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    pixels = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16
    return (pixels[order],), torch.tensor(found.target)[order]


def batches(seed: int) -> Iterator[Batch]:
    """Batches of the images that are not held out."""
    (pixels,), target = images()
    g = torch.Generator().manual_seed(seed)
    while True:
        chosen = torch.randint(HELD_OUT, len(target), (BATCH,), generator=g)
        yield (pixels[chosen],), target[chosen]


def held_out() -> Batch:
    (pixels,), target = images()
    return (pixels[:HELD_OUT],), target[:HELD_OUT]


class Plain(nn.Module):
    """The network in plain PyTorch, with PyTorch's own initial weights."""

    def __init__(self) -> None:
        super().__init__()
        first, second = WIDTHS
        self.one = nn.Conv2d(1, first, 3, padding=1)
        self.two = nn.Conv2d(first, second, 3, padding=1)
        self.last = nn.Linear(second * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.one, self.two):
            x = functional.max_pool2d(functional.relu(layer(x)), 2)
        return self.last(x.flatten(1))


def model(spelling: Spelling, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    plain = Plain()
    if spelling == "torch":
        return plain
    weights = {
        "w1": plain.one.weight,
        "b1": plain.one.bias,
        "w2": plain.two.weight,
        "b2": plain.two.bias,
        "w3": plain.last.weight.reshape(10, -1, 2, 2),
        "b3": plain.last.bias,
    }
    return tc.torch.Module(SOURCE.read_text(encoding="utf-8"), weights)


def loss(spelling: Spelling) -> Callable[..., torch.Tensor]:
    return tc.library.cross_entropy if spelling == "tc" else functional.cross_entropy


def right(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return output.argmax(1) == target


TRAINING = Training("digits, a convolutional network", model, loss, batches, held_out, right)

if __name__ == "__main__":
    main(TRAINING)
