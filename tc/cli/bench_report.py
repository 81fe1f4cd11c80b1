"""What `python -m tc bench` shows: a table, a plot, and a bar while it runs."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tc.errors import ArgumentError, BackendError
from tc.tuned.pairs import Paired

OURS = "tc"


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of a call in each round; `ratio` has them beside those of the kernel."""

    name: str
    seconds: tuple[float, ...]
    ratio: Paired | None

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def rows_of(times: Mapping[str, Sequence[float]]) -> list[Row]:
    """A row for each contestant, from the seconds of a call in each round; ours is `OURS`."""
    ours = times[OURS]
    rows: list[Row] = []
    for name, theirs in times.items():
        pairs = Paired()
        for a, b in zip(theirs, ours, strict=True):
            pairs = pairs.plus([round(1e9 * a)], [max(1, round(1e9 * b))])
        rows.append(Row(name, tuple(theirs), None if name == OURS else pairs))
    return rows


def report(
    kernel: Any, rows: Sequence[Row], sizes: Mapping[str, int], threads: int, rounds: int
) -> dict[str, Any]:
    """The rows and what was measured as plain data, times in microseconds."""

    def described(row: Row) -> dict[str, Any]:
        out: dict[str, Any] = {"name": row.name, "best_us": 1e6 * row.best, "median_us": 1e6 * row.median}
        if row.ratio is not None:
            low, high = row.ratio.interval
            out |= {"ratio": row.ratio.ratio, "low": low, "high": high}
        return out

    return {
        "kernel": kernel.name,
        "backend": kernel.backend,
        "sizes": dict(sizes),
        "threads": threads,
        "rounds": rounds,
        "rows": [described(x) for x in rows],
    }


def table(report: Mapping[str, Any]) -> str:
    """The times of each, and how many times as long as the kernel a spelling takes."""
    sizes = "".join(f", {n}={v}" for n, v in report["sizes"].items())
    threads = f"{report['threads']} thread{'s' if report['threads'] > 1 else ''}"
    lines: list[list[str]] = [["", "best us", "median us", "times ours", "95 %"]]
    for row in report["rows"]:
        name = f"tc on {report['backend']}" if row["name"] == OURS else _short(row["name"])
        line = [name, f"{row['best_us']:.2f}", f"{row['median_us']:.2f}", "", ""]
        if "ratio" in row:
            line[3:] = [f"{row['ratio']:.2f}", f"{row['low']:.2f} to {row['high']:.2f}"]
        lines.append(line)
    widths = [max(len(line[c]) for line in lines) for c in range(5)]
    text = [f"{report['kernel']}{sizes}: {threads}, {report['rounds']} rounds"]
    for name, *rest in lines:
        cells = [x.rjust(w) for x, w in zip(rest, widths[1:], strict=True)]
        text.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(text)


def _short(name: str) -> str:
    return name if len(name) <= 50 else f"{name[:49]}…"


def new_figure(inches: tuple[float, float]) -> Any:
    """A figure of matplotlib; BackendError TC0822 without it."""
    try:
        from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BackendError(
            "plots need matplotlib, which is not installed",
            code="TC0822",
            help="pip install 'tensor-comprehensions[tune]'",
        ) from None
    return Figure(figsize=inches, layout="constrained")


def draw(title: str, rows: Sequence[Row], path: Path) -> None:
    """A bar for each median and a dot for each round; BackendError TC0822 without matplotlib."""
    figure = new_figure((8, 1.2 + 0.5 * len(rows)))
    axes = figure.subplots()
    names = [_short(row.name) for row in rows]
    places = list(range(len(rows)))
    axes.barh(places, [1e6 * row.median for row in rows], color=["#c44e52", *["#4c72b0"] * (len(rows) - 1)])
    for at, row in zip(places, rows, strict=True):
        axes.plot([1e6 * s for s in row.seconds], [at] * len(row.seconds), "k.", markersize=3, alpha=0.5)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(xlabel="µs a call: median, and each round", title=title, xlim=(0, None))
    try:
        figure.savefig(path, dpi=110)
    except ValueError as e:  # of a suffix that is no format
        raise ArgumentError(f"--plot {path}: {e}", code="TC0515", help="write FILE.png") from None


@contextmanager
def progress(total: int) -> Generator[Callable[[], None]]:
    """A bar on stderr where that is a terminal and rich is installed; `done` is called for each step."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from rich.console import Console  # pyright: ignore[reportMissingImports]
        from rich.progress import Progress  # pyright: ignore[reportMissingImports]
    except ImportError:
        yield lambda: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("timing", total=total)
        yield lambda: bar.advance(task)
