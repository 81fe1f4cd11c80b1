"""A model written in TCs beside the same model in plain PyTorch: both are trained, in turns.

Either trains in a process of its own, so that the threads of one do not wait on the time of the other.  A
turn is TURN steps; who goes first alternates.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

Spelling = Literal["tc", "torch"]
SPELLINGS: tuple[Spelling, ...] = ("tc", "torch")
TURN = 20
Batch = tuple[tuple[torch.Tensor, ...], torch.Tensor]  # what the model takes, and what it should say


@dataclass(frozen=True)
class Training:
    """What is trained.  The functions are defined at the top of a module, since processes import them.

    `model(spelling, seed)` has the same initial weights in both spellings.  `loss(spelling)` takes what the
    model gives, and the target.  `batches(seed)` goes on for ever.  `held_out()` is what the accuracy is
    measured on, and `right(output, target)` tells for each of it whether the model is right.
    """

    title: str
    model: Callable[[Spelling, int], torch.nn.Module]
    loss: Callable[[Spelling], Callable[..., torch.Tensor]]
    batches: Callable[[int], Iterator[Batch]]
    held_out: Callable[[], Batch]
    right: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    rate: float = 0.05


@dataclass
class Curve:
    """What a training showed: the loss and the seconds of every step, and accuracies by number of steps."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    accuracy: dict[int, float] = field(default_factory=dict)


class Trainee:
    """One of the two models, with its optimiser and its place in the stream of batches."""

    def __init__(self, training: Training, spelling: Spelling, seed: int) -> None:
        self.training = training
        self.model = training.model(spelling, seed)
        self.loss = training.loss(spelling)
        self.optimizer = torch.optim.SGD(self.model.parameters(), training.rate, momentum=0.9)
        self.batches = training.batches(seed)

    def step(self) -> tuple[float, float]:
        """The loss of the next batch, and the seconds of the step: forward, backward and update."""
        inputs, target = next(self.batches)
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.loss(self.model(*inputs), target)
        loss.backward()
        self.optimizer.step()
        return loss.item(), time.perf_counter() - start

    def accuracy(self) -> float:
        """The share of the data held out that the model is right about."""
        inputs, target = self.training.held_out()
        with torch.no_grad():
            return self.training.right(self.model(*inputs), target).double().mean().item()


def _serve(pipe: Any, training: Training, spelling: Spelling, seed: int) -> None:
    trainee = Trainee(training, spelling, seed)
    pipe.send(trainee.accuracy())
    while (steps := pipe.recv()) is not None:
        pipe.send(([trainee.step() for _ in range(steps)], trainee.accuracy()))


def race(
    training: Training,
    steps: int,
    seed: int = 0,
    threads: int = 1,
    done: Callable[[int], None] = lambda n: None,
) -> dict[Spelling, Curve]:
    """Train both models for a number of steps; `done(n)` is told of every n steps of either.

    Either has the given number of threads.
    """
    given = dict.fromkeys(("TC_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    before = {n: os.environ.get(n) for n in given}
    spawn = multiprocessing.get_context("spawn")
    pipes: dict[Spelling, Any] = {}
    children: list[Any] = []
    curves: dict[Spelling, Curve] = {}
    try:
        os.environ.update(given)  # which the processes read when they start
        for spelling in SPELLINGS:
            pipes[spelling], theirs = spawn.Pipe()
            child = spawn.Process(target=_serve, args=(theirs, training, spelling, seed), daemon=True)
            child.start()
            theirs.close()
            children.append(child)
        for spelling in SPELLINGS:
            curves[spelling] = Curve(accuracy={0: pipes[spelling].recv()})
        for k, start in enumerate(range(0, steps, TURN)):
            count = min(TURN, steps - start)
            for spelling in SPELLINGS[:: 1 if k % 2 == 0 else -1]:
                pipes[spelling].send(count)
                made, accuracy = pipes[spelling].recv()
                curve = curves[spelling]
                curve.losses += [loss for loss, _ in made]
                curve.seconds += [spent for _, spent in made]
                curve.accuracy[start + count] = accuracy
                done(count)
        for pipe in pipes.values():
            pipe.send(None)
        for child in children:
            child.join()
    finally:
        for n, value in before.items():
            os.environ.pop(n)
            if value is not None:
                os.environ[n] = value
        for child in children:
            child.kill()
    return curves
