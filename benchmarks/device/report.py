# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""What came back from a device, as tables, as files in `benchmarks/results`, and as a plot."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS
from benchmarks.record import save as save_rows

Line = Mapping[str, Any]


def lines(path: Path) -> list[Line]:
    """The lines of a phase; the last one of each key."""
    if not path.exists():
        return []
    found = (json.loads(x) for x in path.read_text(encoding="utf-8").splitlines() if x)
    return list({x["key"]: x for x in found}.values())


def peers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Microseconds of everyone who is right, by name."""
    return {n: x["cold_us"]["p50"] for n, x in row["rows"].items() if "cold_us" in x}


def ratio(row: Mapping[str, Any]) -> float | None:
    """The time of the best of PyTorch, Inductor and Triton by ours; above 1 ours is faster."""
    times = peers_of(row)
    ours, others = times.pop("tc", None), times
    return min(others.values()) / ours if ours and others else None


def geometric_mean(numbers: Iterable[float]) -> float:
    logs = [math.log(n) for n in numbers]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def brief(folder: Path) -> str:
    """A few tables in at most some 10,000 characters."""
    out: list[str] = []
    for x in lines(folder / "sanity.jsonl"):
        shown = (f"{k} {_short(v)}" for k, v in x.items() if k not in ("key", "program"))
        out += [f"sanity: {', '.join(shown)}"]
    found = lines(folder / "conformance.jsonl")
    bad = [x for x in found if not x["ok"]]
    out.append(f"conformance: {len(found) - len(bad)} of {len(found)} right")
    out += [f"  {x['key']}: {x['wrong'][:160]}" for x in bad[:20]]
    if (folder / "sanitizer.json").exists():
        for x in json.loads((folder / "sanitizer.json").read_text(encoding="utf-8")):
            summary = next((t for t in reversed(x["lines"]) if "SUMMARY" in t), str(x["lines"][-1:]))
            out.append(f"{x['tool']}: {x['ran']} of {x['of']} ran, status {x['status']}, {summary}")
    found = lines(folder / "timing.jsonl")
    bad = [x for x in found if not x["ok"]]
    out.append(f"maps: {len(found) - len(bad)} of {len(found)} right")
    out += [f"  {x['key']}: {x['wrong'][:160]}" for x in bad[:12]]
    out += [race_text(lines(folder / "race.jsonl"))]
    if (folder / "phases.json").exists():
        for x in json.loads((folder / "phases.json").read_text(encoding="utf-8")):
            out.append(" ".join(f"{k} {str(v)[:200]}" for k, v in x.items()))
    return "\n".join(out)


def race_text(found: Sequence[Line]) -> str:
    """Microseconds of everyone; `ratio` is the best of the others by ours."""
    heads = ("tc", "model", "torch", "+", "inductor", "+", "max", "triton")
    out = [f"{'program':34}{''.join(f'{h:>9}' for h in heads)} ratio"]
    names = ("torch", "torch+", "inductor", "inductor+", "inductor-max", "triton")
    ratios: list[float] = []
    for x in found:
        if "rows" not in x:
            out.append(f"{x.get('program', x['key'])[:33]:34} {x['wrong'][:80]}")
            continue
        times = peers_of(x)
        r = ratio(x)
        if r:
            ratios.append(r)
        shown = "".join(f"{_short(times.get(n)):>9}" for n in names)
        ours = _short(times.get("tc")) if "tc" in times else "wrong"
        out.append(f"{x['program'][:33]:34}{ours:>9}{_short(x['predicted_us']):>9}{shown} {_short(r):>5}")
    out.append(f"geometric mean of {len(ratios)} ratios: {geometric_mean(ratios):.2f}")
    return "\n".join(out)


def _short(x: Any) -> str:
    if x is None:
        return "-"
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def save(folder: Path) -> None:
    """The lines of the phases as tables of `benchmarks/results`, and a plot of predicted against measured."""
    (sanity,) = lines(folder / "sanity.jsonl")
    for name in ("conformance", "timing", "race"):
        found = lines(folder / f"{name}.jsonl")
        if name == "conformance":
            bad = [x for x in found if not x["ok"]]
            rows: Any = {
                "device": sanity,
                "programs": len(found),
                "right": len(found) - len(bad),
                "wrong": bad,
            }
            if (folder / "sanitizer.json").exists():
                rows["sanitizer"] = json.loads((folder / "sanitizer.json").read_text(encoding="utf-8"))
        else:
            rows = {"device": sanity, "rows": found}
        save_rows(f"device_{name}", rows)
    plot([x for x in lines(folder / "timing.jsonl") if x["ok"]], sanity["device"])


def plot(rows: Sequence[Line], device: str) -> Path:
    """Predicted against measured time of kernels; a line between the maps of a program would be rising."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 6))
    for first, mark, label in ((True, "o", "the map that is taken"), (False, ".", "other maps")):
        kernels = [k for x in rows if (x["map"] == 0) == first for k in x["kernels"]]
        axes.loglog(
            [k["predicted_us"] for k in kernels],
            [k["cold_us"] for k in kernels],
            mark,
            label=label,
            alpha=0.6,
        )
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], "k-", linewidth=0.8)
    axes.set(xlabel="predicted, microseconds", ylabel="measured, microseconds", title=f"kernels on {device}")
    axes.legend()
    path = RESULTS / "device_model.png"
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path
