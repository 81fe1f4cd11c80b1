"""The guide's chapter on GPUs, whose code runs on the stand-in."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import tc
from tests.docs.markdown import ROOT, blocks

if TYPE_CHECKING:
    import pytest

    from tests.simt.fakes import Torch
    from tests.simt.machine import Machine


def test_the_guide(machine: Machine, on_torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    def ones(*shape: int, device: str) -> torch.Tensor:
        assert device == "cuda"
        made = on_torch.tensor(np.ones(shape, np.float32))
        made.fill_ = lambda x: on_torch.allocator.put(  # type: ignore[method-assign]
            made.as_subclass(torch.Tensor).numpy(), x
        )
        return made

    class Stream:
        def __init__(self) -> None:
            self.stream = machine.new_stream(0)
            machine.drain_all(0)  # what a program would have to wait for

        def synchronize(self) -> None:
            machine.drain(self.stream)

    @contextmanager
    def stream(given: Stream) -> Any:
        with on_torch.allocator.on(given.stream):
            yield

    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    page = [b for b in blocks(ROOT / "docs/guide.md") if b.heading == "On a GPU"]
    assert len(page) == 3 and not any(b.language for b in page)
    names: dict[str, Any] = {"tc": tc}
    for block in page:
        exec(compile(block.text, block.place, "exec"), names)
    c, d = (on_torch.read(names[n]) for n in "CD")
    assert (c == 64).all() and (d == 32).all()
    assert SimpleNamespace(**names).step.results is names["C"]
