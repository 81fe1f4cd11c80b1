"""A program of the battery as those keep it who must not import the compiler before it is changed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Kept:
    """A pickled `battery.Trial`, the seconds that it takes, the digest of its code, and the lines that it
    runs of each file, whose path is relative to the root."""

    trial: bytes
    seconds: float
    code: bytes
    lines: Mapping[str, frozenset[int]]

    def reaches(self, path: str, lines: range | None) -> bool:
        """Whether it runs one of these lines of a file; of none in particular, any."""
        run = self.lines.get(path, frozenset())
        return bool(run) if lines is None else not run.isdisjoint(lines)


def reaching(
    battery: Sequence[Kept], path: str, lines: range | None, seconds: float, seed: int
) -> list[Kept]:
    """Of those that run the lines some at random that take about so many seconds, the quickest first."""
    found = [k for k in battery if k.reaches(path, lines)]
    random.Random(seed).shuffle(found)
    chosen: list[Kept] = []
    for k in found:
        if seconds <= 0:
            break
        seconds -= k.seconds
        chosen.append(k)
    return sorted(chosen, key=lambda k: k.seconds)
