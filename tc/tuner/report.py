"""`python -m tc tune report`: records as an HTML page that needs nothing else, and as PNGs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tc.tuned.pairs import Paired
from tc.tuned.queries import groups, winner
from tc.tuned.records import Record, Scan
from tc.tuner.plots import plots, png

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { padding: .2rem .6rem; text-align: left }
th { border-bottom: 2px solid #888 } td { border-bottom: 1px solid #ddd; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums } code { font-size: 90% }
img { max-width: 100% } pre { background: #f4f4f4; padding: .6rem; overflow-x: auto }
"""


def write_report(scan: Scan, target: Path) -> None:
    """Write the page."""
    target.write_text(page(scan), encoding="utf-8")


def page(scan: Scan) -> str:
    """The page: a table of winners, and for each program at each place its plots and failures."""
    found = list(groups(scan.records).values())
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Tuning</title>',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Tuning</h1>",
        f"<p>{len(scan.records)} records of {len(found)} programs and sizes. {escape(scan.skipped)}</p>",
        _winners(found),
    ]
    for i, rows in enumerate(found):
        parts.append(_section(i, rows))
    parts.append("</body></html>")
    return "\n".join(parts)


def title(rows: Sequence[Record]) -> str:
    """What records are about, in a line."""
    r = rows[-1]
    at = " ".join(f"{n}={v}" for n, v in r.sizes.items())
    return f"{r.entry or r.program[:12]} {at} on {r.backend}, machine {r.machine[:8]}"


def gain(rows: Sequence[Record], best: Record | None) -> float | None:
    """How many times as fast as the default the winner is, by their rounds, else by medians."""
    if best is None:
        return None
    if dict(best.options) == dict(best.fixed):
        return 1.0
    if best.ref_ns and dict(best.ref) == dict(best.fixed):
        return 1.0 / Paired(best.ns, best.ref_ns).ratio
    default = next((r.median for r in reversed(rows) if r.origin == "default" and r.median), None)
    return default / best.median if default and best.median else None


def _winners(found: Sequence[Sequence[Record]]) -> str:
    rows: list[str] = []
    for i, records in enumerate(found):
        best = winner(records)
        if best is None or best.median is None:
            continue
        ratio = gain(records, best)
        cells = [
            f'<td><a href="#p{i}">{escape(title(records))}</a></td>',
            f'<td class="n">{best.median / 1e3:.1f}</td>',
            f'<td class="n">{f"{ratio:.2f}" if ratio is not None else ""}</td>',
            f"<td><code>{escape(json.dumps(dict(best.options)))}</code></td>",
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if not rows:
        return "<p>No winners yet.</p>"
    head = "<tr><th>program</th><th>µs a call</th><th>times as fast as the default</th><th>options</th></tr>"
    return f'<h2>Winners</h2><table id="winners">{head}{"".join(rows)}</table>'


def _section(number: int, rows: Sequence[Record]) -> str:
    parts = [f'<h2 id="p{number}">{escape(title(rows))}</h2>']
    source = next((r.source for r in rows if r.source), "")
    if source:
        parts.append(f"<pre>{escape(source.strip())}</pre>")
    counts = {s: sum(r.status == s for r in rows) for s in dict.fromkeys(r.status for r in rows)}
    parts.append(f"<p>{', '.join(f'{n} {s}' for s, n in counts.items())}</p>")
    for name, figure in plots(rows).items():
        data = base64.b64encode(png(figure)).decode()
        heading = escape(name.capitalize())
        parts.append(f'<h3>{heading}</h3><img alt="{heading}" src="data:image/png;base64,{data}">')
    failed = [r for r in rows if r.status not in ("ok", "pruned")]
    if failed:
        lines = "".join(
            f"<tr><td>{r.status}</td><td>{escape(r.problem)}</td>"
            f"<td><code>{escape(json.dumps(dict(r.options)))}</code></td></tr>"
            for r in failed[:50]
        )
        head = "<tr><th>verdict</th><th>problem</th><th>options</th></tr>"
        parts.append(f"<h3>Failures</h3><table>{head}{lines}</table>")
    return "\n".join(parts)


def write_pngs(scan: Scan, folder: Path) -> list[Path]:
    """Write the plots as files; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    out: list[Path] = []
    for i, rows in enumerate(groups(scan.records).values()):
        name = re.sub(r"\W+", "-", f"{rows[-1].entry or 'program'}-{i}")
        for kind, figure in plots(rows).items():
            path = folder / f"{name}-{kind.replace(' ', '-')}.png"
            path.write_bytes(png(figure))
            out.append(path)
    return out
