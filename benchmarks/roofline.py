"""The roofline: what each kernel reaches over how much it computes per byte it must move.

    python -m benchmarks.roofline

draws every kernel of the saved results of `benchmarks.cpu` in one plot, benchmarks/results/roofline.png.
Where groups were measured on different processors each has its roofs; those of the second are grey, its
kernels squares.

A kernel that computes nothing, a transposition for instance, is drawn with one operation per element that it
writes; its height is then a quarter of its bandwidth, or so, and its distance from the roof is what counts.
Kernels of one intensity are drawn side by side, up to a sixth away from their place.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peaks import Peaks
from benchmarks.record import RESULTS, written
from benchmarks.workloads import CASES

TABLES = ("cpu_report", "cpu_more")


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel: operations per byte, and 10^9 operations per second of `tc` and of the best peer."""

    label: str
    kind: str
    intensity: float
    ours: float | None
    peer: float | None
    processor: str = ""


COLOURS = {"compute": "#1f6fb4", "memory": "#2b8a3e", "gather": "#b5651d"}


# Of the processors in one plot: the colour of the roofs, the mark of the kernels.
LOOKS = (("black", "o"), ("#999999", "s"), ("#bbbbbb", "^"))


def point(row: Mapping[str, Any], processor: str = "") -> Point:
    """The place of a row of the results of `benchmarks.cpu`."""
    moved = max(1, row["moved_bytes"])
    work = row["flops"]
    if not work:
        case = next(c for c in CASES if c.name == row["workload"])
        work = (moved - case.workload().read_bytes()) / 4

    def rate(name: str | None) -> float | None:
        us = row["contestants"].get(name, {}).get("us")
        return work / us / 1e3 if us else None

    best = row["best_peer"]
    return Point(row["workload"], row["kind"], work / moved, rate("tc"), rate(best), processor)


def of_results(names: Sequence[str] = TABLES) -> tuple[list[Point], dict[str, Peaks]]:
    """The kernels of saved tables, and the peaks of the processors that they were measured on."""
    points: list[Point] = []
    peaks: dict[str, Peaks] = {}
    for name in names:
        found = written(name)
        if found is None:
            continue
        processor, rows = found["machine"]["processor"], found["rows"]
        measured = Peaks(**rows["peaks"])
        peaks[processor] = peaks[processor].better(measured) if processor in peaks else measured
        points += [point(row, processor) for row in rows["workloads"]]
    return points, peaks


def draw_results(path: Path | None = None) -> Path:
    """Draw all that is saved."""
    points, peaks = of_results()
    threads = " or ".join(sorted({f"{p.threads:.0f}" for p in peaks.values()}))
    title = f"{len(points)} kernels on {threads} threads: {', '.join(peaks)}"
    return draw(points, peaks, path or RESULTS / "roofline.png", title)


def draw(points: Sequence[Point], peaks: Mapping[str, Peaks], path: Path, title: str) -> Path:
    """Write the plot; each kernel has a number, and the list beside the plot says which it is.  `peaks` are
    by processor."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = sorted((p for p in points if p.ours or p.peer), key=lambda p: (p.intensity, p.label))
    columns = 1 + (len(shown) > 40)
    # The list of names needs some height of its own; the plot grows with it.
    height = max(7.0, 1.4 + 0.2 * (len(shown) / columns))
    figure, (axes, names) = plt.subplots(
        1, 2, figsize=(11 + 3.2 * columns, height), width_ratios=[11, 3.2 * columns], layout="constrained"
    )
    low = min([p.intensity for p in shown], default=0.1) / 2
    high = max([p.intensity for p in shown], default=100.0) * 2
    looks = dict(zip(peaks, LOOKS))
    for processor, found in peaks.items():
        of = f" ({processor})" if len(peaks) > 1 else ""
        _roofs(axes, found, low, high, looks[processor][0], of)
    positions: dict[tuple[int, int], int] = {}
    for number, (point, x) in enumerate(zip(shown, _places(shown), strict=True), 1):
        _, mark = looks.get(point.processor, LOOKS[0])
        _point(axes, point, x, number, mark, positions)
    axes.set(xscale="log", yscale="log", xlim=(low, high), title=title)
    axes.set_xlabel("operations per byte that must move")
    axes.set_ylabel("10⁹ operations per second")
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    _legend(axes)
    names.axis("off")
    per = -(-len(shown) // columns) if shown else 1
    for number, point in enumerate(shown, 1):
        column, row = divmod(number - 1, per)
        names.text(
            column / columns,
            1 - (row + 0.5) / max(per, 25),
            f"{number:>2}  {point.label}",
            color=COLOURS.get(point.kind, "black"),
            fontsize=8,
            family="monospace",
            va="center",
            transform=names.transAxes,
        )
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _roofs(axes: Any, peaks: Peaks, low: float, high: float, colour: str, of: str) -> None:
    """Compute peaks as flat lines, bandwidths as slopes up to where they meet the highest."""
    for peak, text, style in (
        (peaks.fma_f32, f"float32 multiply-add {peaks.fma_f32:.0f} GF/s", "-"),
        (peaks.fma_f64, f"float64 {peaks.fma_f64:.0f} GF/s", ":"),
    ):
        axes.plot([low, high], [peak, peak], style, color=colour, linewidth=1)
        axes.text(high / 1.1, peak * 1.05, text + of, ha="right", va="bottom", fontsize=8, color=colour)
    for bandwidth, text, style in (
        (peaks.bandwidth, f"copy {peaks.bandwidth:.0f} GB/s", "-"),
        (peaks.read, f"read {peaks.read:.0f} GB/s", ":"),
        (peaks.gather, f"gather of random rows {peaks.gather:.0f} GB/s", "--"),
    ):
        knee = peaks.fma_f32 / bandwidth
        axes.plot([low, knee], [low * bandwidth, peaks.fma_f32], style, color=colour, linewidth=1)
        axes.annotate(
            text + of,
            (low * 1.15, low * 1.15 * bandwidth),
            color=colour,
            xytext=(0, 4),
            textcoords="offset points",
            rotation=0,
            fontsize=8,
            ha="left",
            va="bottom",
        )


def _places(points: Sequence[Point]) -> list[float]:
    """Where each point is drawn along the axis: those within a tenth of each other are spread a little."""
    out: list[float] = []
    at = 0
    while at < len(points):
        end = at
        while end < len(points) and points[end].intensity <= 1.1 * points[at].intensity:
            end += 1
        step = min(0.03, 0.13 / max(1, end - at - 1))
        middle = (at + end - 1) / 2
        out.extend(points[i].intensity * 10 ** (step * (i - middle)) for i in range(at, end))
        at = end
    return out


def _point(
    axes: Any, point: Point, x: float, number: int, mark: str, taken: dict[tuple[int, int], int]
) -> None:
    import math

    colour = COLOURS.get(point.kind, "black")
    if point.ours and point.peer:
        axes.plot([x] * 2, [point.ours, point.peer], "-", color=colour, linewidth=0.7, alpha=0.6)
    if point.peer:
        axes.plot(x, point.peer, mark, markersize=5, markerfacecolor="white", color=colour)
    top = point.ours or point.peer
    if point.ours:
        axes.plot(x, point.ours, mark, markersize=5.5, color=colour)
    assert top is not None
    # Numbers of points that lie close together fan out around them.
    cell = (round(6 * math.log10(x)), round(6 * math.log10(top)))
    turn = taken.get(cell, 0)
    taken[cell] = turn + 1
    offset = [(6, 3), (6, -9), (-14, 3), (-14, -9), (-4, 8), (-4, -14)][turn % 6]
    axes.annotate(
        str(number),
        (x, top),
        xytext=offset,
        textcoords="offset points",
        fontsize=8,
        color=colour,
    )


def _legend(axes: Any) -> None:
    from matplotlib.lines import Line2D

    def mark(colour: str, face: str, label: str) -> Line2D:
        return Line2D([], [], marker="o", linestyle="", color=colour, markerfacecolor=face, label=label)

    axes.legend(
        handles=[
            mark("black", "black", "tc"),
            mark("black", "white", "best peer"),
            *(mark(colour, colour, kind) for kind, colour in COLOURS.items()),
        ],
        loc="lower right",
        fontsize=8,
    )


def main(argv: list[str] | None = None) -> int:
    sys.stdout.write(f"drawn in benchmarks/results/{draw_results().name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
