"""Self-contained HTML pages: their skeleton and style, and tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --paper: #fff; --faint: #59636e; --line: #d1d9e0;
  --shade: #f6f8fa; --link: #0969da }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --paper: #0d1117; --faint: #9198a1;
  --line: #3d444d; --shade: #151b23; --link: #4493f8 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: var(--text); background: var(--paper) }
a { color: var(--link) }
table { border-collapse: collapse; width: 100% }
td, th { padding: .2rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { border-bottom: 2px solid var(--faint) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace }
pre { background: var(--shade); padding: .6rem; overflow-x: auto }
img, svg { max-width: 100% }
"""


def page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """An HTML page that needs nothing else; `body` is HTML, `title` is text."""
    scripts = f"<script>{script}</script>\n" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style></head>\n"
        f"<body>\n{body}\n{scripts}</body></html>\n"
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int] = (), id: str = ""
) -> str:
    """A table: `head` are texts, cells are HTML; the columns `numbers` are aligned to the right."""

    def row(cells: Sequence[str], tag: str) -> str:
        kinds = (' class="n"' if i in numbers else "" for i in range(len(cells)))
        inner = "".join(f"<{tag}{k}>{c}</{tag}>" for k, c in zip(kinds, cells, strict=True))
        return f"<tr>{inner}</tr>"

    name = f' id="{id}"' if id else ""
    body = "\n".join(row(r, "td") for r in rows)
    return f"<table{name}><thead>{row([escape(h) for h in head], 'th')}</thead><tbody>{body}</tbody></table>"
