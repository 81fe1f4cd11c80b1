"""The report's production model (Figure 15) on a task like a recommender's, made of scikit-learn's digits.

    python -m examples.training.production_model --steps 1000 --save production_model.png

A user and an item are each an image.  What is known of either is a bag of 24 ids, which are looked up: the
darkest pixels, and whether each is very dark.  Beside the ids are values, the means of rows and columns of
both.  The user clicks where both images show the same digit.

The model is one def, production_model.tc, which looks up, concatenates and has all layers; its loss is
`tc.library.bce_with_logits`.
"""

from __future__ import annotations

import functools
import itertools
import warnings
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
BATCH, BAG, HELD_OUT = 256, 24, 397
LEVELS, PIXELS = 2, 64
IDS = LEVELS * PIXELS  # rows of a table
D, WY = 32, 32  # columns of a table; values after the product C3
LAYERS = (128, 64, 64, 32)


@functools.cache
def people() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of each image the ids (1797, 24), the values (1797, 16) and the digit (1797), in a random order."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    pixels = torch.tensor(found.images, dtype=torch.int64)[order]
    flat = pixels.flatten(1)
    darkest = torch.argsort(flat, dim=1, descending=True, stable=True)[:, :BAG]
    ids = darkest * LEVELS + (flat.gather(1, darkest) - 1).clamp(0) * LEVELS // 16
    values = torch.cat([pixels.double().mean(1), pixels.double().mean(2)], 1) / 16
    return ids.int(), values.float(), torch.tensor(found.target)[order]


def pairs(start: int, stop: int, count: int, g: torch.Generator) -> Batch:
    """Users and items among the images from `start` to `stop`; every other item shows the user's digit."""
    ids, values, digit = people()
    user = torch.randint(start, stop, (count,), generator=g)
    item = torch.randint(start, stop, (count,), generator=g)
    for k in range(0, count, 2):
        same = torch.nonzero(digit[start:stop] == digit[user[k]])[:, 0]
        item[k] = start + same[torch.randint(len(same), (1,), generator=g)]
    clicks = (digit[user] == digit[item]).float()
    return (ids[user], ids[item], torch.cat([values[user], values[item]], 1)), clicks


def batches(seed: int) -> Iterator[Batch]:
    """Batches of pairs of images that are not held out."""
    g = torch.Generator().manual_seed(seed)
    while True:
        yield pairs(HELD_OUT, len(people()[2]), BATCH, g)


def held_out() -> Batch:
    return pairs(0, HELD_OUT, 2000, torch.Generator().manual_seed(1))


class Plain(nn.Module):
    """The model in plain PyTorch, with PyTorch's own initial weights."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.EmbeddingBag(IDS, D, mode="sum")
        self.items = nn.EmbeddingBag(IDS, D, mode="sum")
        for bag in (self.users, self.items):
            nn.init.normal_(bag.weight, std=BAG**-0.5)
        self.c3 = nn.Linear(32, WY, bias=False)
        widths = (2 * D + WY, *LAYERS)
        self.layers = nn.ModuleList(nn.Linear(m, n) for m, n in itertools.pairwise(widths))
        self.last = nn.Linear(LAYERS[-1], 1)

    def forward(self, users: torch.Tensor, items: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.users(users), self.items(items), self.c3(values)], 1)
        for layer in self.layers:
            x = functional.relu(layer(x))
        return self.last(x)[:, 0]


class InTC(nn.Module):
    """The model as one operator; parameters and their initial values are those of a plain one."""

    def __init__(self, plain: Plain) -> None:
        super().__init__()
        weights = {"LUT1": plain.users.weight, "LUT2": plain.items.weight, "W": plain.c3.weight}
        for n, layer in enumerate(plain.layers, 1):
            weights |= {f"W{n}": layer.weight, f"B{n}": layer.bias}
        weights |= {"W5": plain.last.weight[0], "B5": plain.last.bias}
        with warnings.catch_warnings():  # that ids come from data is what the program means
            warnings.simplefilter("ignore", tc.DataDependentAccess)
            self.clicks = tc.torch.Module(SOURCE.read_text(encoding="utf-8"), weights)

    def forward(self, users: torch.Tensor, items: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return self.clicks(users, items, values)


def model(spelling: Spelling, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    plain = Plain()
    return plain if spelling == "torch" else InTC(plain)


def loss(spelling: Spelling) -> Callable[..., torch.Tensor]:
    in_torch = functional.binary_cross_entropy_with_logits
    return tc.library.bce_with_logits if spelling == "tc" else in_torch


def right(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output > 0) == (target > 0.5)


TRAINING = Training("production model of the report, clicks", model, loss, batches, held_out, right, rate=0.2)

if __name__ == "__main__":
    main(TRAINING)
