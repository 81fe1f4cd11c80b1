"""A recurrent network that tells the next character of a text, the documentation that comes with Python.

    python -m examples.training.characters --steps 1000 --save characters.png

The network is one def with a sequential loop, characters.tc; `tc.grad` derives the loop back in time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import tc
from examples.training.race import Batch, Spelling, Training
from examples.training.report import main

SOURCE = Path(__file__).with_suffix(".tc")
BATCH, LENGTH, HELD_OUT = 32, 48, 4096
ROW, STATE = 24, 128  # numbers for a character, and in the state
SYMBOLS = "\n" + "".join(map(chr, range(32, 127)))  # others are blanks


@functools.cache
def text() -> torch.Tensor:
    """The texts of `help()`, as numbers of symbols."""
    from pydoc_data.topics import topics

    number = {c: k for k, c in enumerate(SYMBOLS)}
    found = "".join(topics[name] for name in sorted(topics))
    return torch.tensor([number.get(c, number[" "]) for c in found], dtype=torch.int32)


def _pieces(starts: torch.Tensor) -> Batch:
    at = starts[:, None] + torch.arange(LENGTH + 1)
    found = text()[at]
    return (found[:, :-1].contiguous(),), found[:, 1:].contiguous()


def batches(seed: int) -> Iterator[Batch]:
    """Pieces of the text, but for its end, and what comes one character later."""
    g = torch.Generator().manual_seed(seed)
    last = len(text()) - HELD_OUT - LENGTH - 1
    while True:
        yield _pieces(torch.randint(last, (BATCH,), generator=g))


def held_out() -> Batch:
    start = len(text()) - HELD_OUT
    return _pieces(torch.arange(start, len(text()) - LENGTH, LENGTH))


class Plain(nn.Module):
    """The network in plain PyTorch, with PyTorch's own initial weights."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(len(SYMBOLS), ROW)
        self.cell = nn.GRU(ROW, STATE, batch_first=True)
        self.last = nn.Linear(STATE, len(SYMBOLS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(self.table(x))
        return self.last(states)


def model(spelling: Spelling, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    plain = Plain()
    if spelling == "torch":
        return plain
    weights = {
        "table": plain.table.weight,
        "w": plain.cell.weight_ih_l0,
        "u": plain.cell.weight_hh_l0,
        "bw": plain.cell.bias_ih_l0,
        "bu": plain.cell.bias_hh_l0,
        "out": plain.last.weight,
        "b": plain.last.bias,
    }
    return tc.torch.Module(SOURCE.read_text(encoding="utf-8"), weights)


def _ours(score: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return tc.library.cross_entropy(score.flatten(0, 1), target.flatten())


def _theirs(score: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(score.flatten(0, 1), target.flatten().long())


def loss(spelling: Spelling) -> Callable[..., torch.Tensor]:
    return _ours if spelling == "tc" else _theirs


def right(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return output.argmax(-1) == target


TRAINING = Training("characters, a recurrent network", model, loss, batches, held_out, right, rate=0.5)

if __name__ == "__main__":
    main(TRAINING)
