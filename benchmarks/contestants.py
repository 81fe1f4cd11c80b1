"""Contestants of a row, each in a process of its own, that are timed in turn.

A module that has contestants runs itself with `--worker NAME ROW`; there it calls `serve`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tc.support import contestants
from tc.support.contestants import in_turns

__all__ = ["THREADS", "Contestant", "difference", "in_turns", "serve"]

THREADS = 2


def serve(calls: Mapping[str, Callable[[], Any]], results: Callable[[], Iterable[Any]]) -> None:
    """Answer one JSON line per line: save the tensors of `results`, or time one of the calls for a while."""
    import torch

    contestants.serve(calls, lambda file: torch.save([x.detach() for x in results()], file))


class Contestant(contestants.Contestant):
    """A process that serves a row of a module."""

    def __init__(self, module: str, name: str, row: int) -> None:
        super().__init__(["-m", module, "--worker", name, str(row)], THREADS)
        self.wait()


def difference(contestants: Mapping[str, Contestant], one: str, other: str) -> str:
    """Empty, or how the results of two differ."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        files = {n: f"{folder}/{n}.pt" for n in contestants}
        for n, c in contestants.items():
            c.ask(file=files[n])
        found = {n: torch.load(f) for n, f in files.items()}
    for a, b in zip(found[one], found[other], strict=True):
        error = float((a - b).abs().max()) / max(1.0, float(b.abs().max()))
        if error > 1e-4:
            return f"differs by {error:.1e}"
    return ""
