"""Plots of records, by matplotlib: best over time, options against time, predicted against measured."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tc.errors import BackendError
from tc.tuned.queries import winner
from tc.tuned.records import Record

KINDS = ("best over time", "options against time", "predicted against measured")
_MOST_LINES = 300  # candidates of a plot of options


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BackendError(
            "plots need matplotlib, which is not installed",
            code="TC0822",
            help="pip install 'tensor-comprehensions[tune]'",
        ) from None
    return Figure(figsize=(8, 4), layout="constrained")


def plots(rows: Sequence[Record]) -> dict[str, Any]:
    """The plots of the records of one program at one place, as figures of matplotlib, by `KINDS`; those for
    which there is no data are left out."""
    measured = [r for r in rows if r.median is not None]
    made = {
        KINDS[0]: _over_time(measured),
        KINDS[1]: _parallel(measured),
        KINDS[2]: _predicted([r for r in measured if r.predicted is not None]),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def png(figure: Any) -> bytes:
    """A figure as a PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return out.getvalue()


def _us(r: Record) -> float:
    return (r.median or 0.0) / 1e3


def _over_time(rows: Sequence[Record]) -> Any:
    """Times of candidates in the order in which they were measured, and the best until then."""
    tried = [r for r in rows if r.origin != "confirm"]
    if not tried:
        return None
    figure = _figure()
    axes = figure.subplots()
    times = [_us(r) for r in tried]
    axes.plot(range(len(times)), times, ".", color="tab:gray", markersize=4, label="candidates")
    best = [min(times[: i + 1]) for i in range(len(times))]
    axes.step(range(len(times)), best, where="post", color="tab:blue", label="fastest")
    default = next((_us(r) for r in tried if r.origin == "default"), None)
    if default is not None:
        axes.axhline(default, color="tab:orange", linestyle="--", label="default")
    found = winner(rows)
    if found is not None:
        axes.axhline(_us(found), color="tab:green", linestyle=":", label="winner, by rounds")
    axes.set_xlabel("candidate")
    axes.set_ylabel("µs a call")
    axes.set_yscale("log")
    axes.legend()
    return figure


def genes(rows: Sequence[Record]) -> dict[str, list[Any]]:
    """The options that differ among records, a number of a tuple each, and the value of each record."""
    flat = [dict(_flat(r.options)) for r in rows]
    names = list(dict.fromkeys(n for f in flat for n in f))
    out = {n: [f.get(n) for f in flat] for n in names}
    return {n: v for n, v in out.items() if len(set(map(repr, v))) > 1}


def _flat(options: Mapping[str, Any]) -> Any:
    for name, value in options.items():
        if isinstance(value, (list, tuple)) and name != "order":
            yield from ((f"{name}.{i}", v) for i, v in enumerate(cast("Sequence[int]", value)))
        else:
            yield name, str(cast("list[int]", value)) if isinstance(value, list) else value


def _parallel(rows: Sequence[Record]) -> Any:
    """Parallel coordinates: a line a candidate through its options, coloured by its time."""
    rows = sorted((r for r in rows if r.origin != "confirm"), key=_us, reverse=True)[-_MOST_LINES:]
    columns = genes(rows)
    if not columns or len(rows) < 2:
        return None
    figure = _figure()
    axes = figure.subplots()
    times = [_us(r) for r in rows]
    low, high = math.log(min(times)), math.log(max(times))
    from matplotlib import colormaps  # pyright: ignore[reportMissingImports]

    colors = colormaps["viridis_r"]
    levels = {n: sorted(set(map(repr, v)), key=_level) for n, v in columns.items()}
    for i, t in enumerate(times):
        share = (math.log(t) - low) / (high - low) if high > low else 0.0
        ys = [levels[n].index(repr(v[i])) / max(1, len(levels[n]) - 1) for n, v in columns.items()]
        axes.plot([*range(len(ys)), len(ys)], [*ys, share], color=colors(1 - share), alpha=0.5, linewidth=1)
    for x, values in enumerate(levels.values()):
        for k in {0, len(values) - 1}:
            text = "model" if values[k] == "None" else values[k].strip("'")
            axes.text(x, k / max(1, len(values) - 1), text, fontsize=7, ha="center", va="bottom")
    axes.text(len(levels), 0, f"{min(times):.3g} µs", fontsize=7, ha="center", va="bottom")
    axes.text(len(levels), 1, f"{max(times):.3g} µs", fontsize=7, ha="center", va="bottom")
    axes.set_xticks(range(len(levels) + 1), [*levels, "time"], rotation=30, ha="right")
    axes.set_yticks([])
    return figure


def _level(text: str) -> tuple[int, float, str]:
    """None first, then numbers by size, then words."""
    try:
        return (1, float(text), "")
    except ValueError:
        return (0 if text == "None" else 2, 0.0, text)


def _predicted(rows: Sequence[Record]) -> Any:
    """What the model predicted against what was measured."""
    rows = [r for r in rows if r.predicted and r.origin != "confirm"]
    if len(rows) < 2:
        return None
    figure = _figure()
    axes = figure.subplots()
    axes.plot([r.predicted for r in rows], [_us(r) for r in rows], ".", color="tab:blue", markersize=5)
    for r in rows:
        if r.origin == "default":
            axes.plot([r.predicted], [_us(r)], "s", color="tab:orange", label="default")
            axes.legend()
            break
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("predicted cost (in the model's unit)")
    axes.set_ylabel("measured, µs a call")
    return figure
