"""`python -m tc tune report`: records as an HTML page that needs nothing else, and as PNGs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tc.support import html
from tc.tuned.pairs import Paired
from tc.tuned.queries import groups, winner
from tc.tuned.records import Record, Scan
from tc.tuner.plots import plots, png


def write_report(scan: Scan, target: Path) -> None:
    """Write the page."""
    target.write_text(page(scan), encoding="utf-8")


def page(scan: Scan) -> str:
    """The page: a table of winners, and for each program at each place its plots and failures."""
    found = list(groups(scan.records).values())
    what = "program" if len(found) == 1 else "programs and sizes"
    parts = [
        "<h1>Tuning</h1>",
        f"<p>{len(scan.records)} records of {len(found)} {what}. {escape(scan.skipped)}</p>",
        _winners(found),
    ]
    for i, rows in enumerate(found):
        parts.append(_section(i, rows))
    return html.page("Tuning", "\n".join(parts))


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
    rows: list[list[str]] = []
    for i, records in enumerate(found):
        best = winner(records)
        if best is None or best.median is None:
            continue
        ratio = gain(records, best)
        rows.append(
            [
                f'<a href="#p{i}">{escape(title(records))}</a>',
                f"{best.median / 1e3:.1f}",
                f"{ratio:.2f}" if ratio is not None else "",
                f"<code>{escape(json.dumps(dict(best.options)))}</code>",
            ]
        )
    if not rows:
        return "<p>No winners yet.</p>"
    head = ("program", "µs a call", "times as fast as the default", "options")
    return f"<h2>Winners</h2>{html.table(head, rows, numbers=(1, 2), id='winners')}"


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
        lines = (
            (r.status, escape(r.problem), f"<code>{escape(json.dumps(dict(r.options)))}</code>")
            for r in failed[:50]
        )
        parts.append(f"<h3>Failures</h3>{html.table(('verdict', 'problem', 'options'), lines)}")
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
