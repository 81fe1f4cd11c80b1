"""A line that says how far a search is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tc.tuned.target import CostUnit, cost_text
from tc.tuner.trials import Progress

Show = Callable[[Progress], None]


@contextmanager
def display(show: Show | bool | None, name: str, unit: CostUnit = "cycles") -> Generator[Show]:
    """What a search calls with its progress: the caller's function, nothing, or a line on stderr, by rich
    where it is installed and stderr is a terminal."""
    if show is not True:
        yield show or (lambda _: None)
        return
    if not sys.stderr.isatty():
        yield _Lines(name, unit)
        return
    try:
        from rich.console import Console  # pyright: ignore[reportMissingImports]
        from rich.live import Live  # pyright: ignore[reportMissingImports]
        from rich.text import Text  # pyright: ignore[reportMissingImports]
    except ImportError:
        yield _Lines(name, unit)
        return
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield lambda p: live.update(Text(line(name, p, unit)))


def line(name: str, p: Progress, unit: CostUnit = "cycles") -> str:
    """A line of progress."""
    of = f" of {p.budget:.0f} s" if p.budget is not None else " s"
    count = f"{p.tried} of {p.trials}" if p.trials is not None else f"{p.tried}"
    parts = [f"{name}: {p.elapsed:.0f}{of}, {count} candidates"]
    if p.failed:
        parts.append(f"{p.failed} failed")
    if p.default and p.best:
        parts.append(f"best {p.best / 1e3:.1f} us, {p.default / p.best:.2f} times the default")
    if p.bound is not None:
        parts.append(f"predicted bound {cost_text(p.bound, unit)}")
    return ", ".join(parts)


class _Lines:
    """A line whenever the best changes, for logs."""

    def __init__(self, name: str, unit: CostUnit) -> None:
        self.name, self.best = name, 0.0
        self.unit: CostUnit = unit

    def __call__(self, p: Progress) -> None:
        if p.best and p.best != self.best:
            self.best = p.best
            print(line(self.name, p, self.unit), file=sys.stderr, flush=True)  # noqa: T201
