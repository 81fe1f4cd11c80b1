"""Pictures as SVG text: shapes, labels, and the frame around them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

FONT = "DejaVu Sans, Verdana, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_WIDE = 0.602  # width of a character of a monospaced font, of its size
_STYLE = (
    "text { fill: #1f2328 } .paper { fill: #fff } "
    "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .paper { fill: #0d1117 } "
    ".shape text { fill: #1f2328 } }"
)


def width(text: str, size: float) -> float:
    """The width of a text in the monospaced font."""
    return _WIDE * size * len(text)


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def tag(name: str, attributes: Mapping[str, object], body: str | None = None) -> str:
    """An element; numbers are rounded to tenths."""
    shown = "".join(
        f' {k}="{f"{v:.1f}".removesuffix(".0") if isinstance(v, float) else escape(str(v))}"'
        for k, v in attributes.items()
    )
    return f"<{name}{shown}/>" if body is None else f"<{name}{shown}>{body}</{name}>"


def rect(x: float, y: float, w: float, h: float, *, fill: str, radius: float = 0.0, **more: object) -> str:
    """A rectangle with its upper left corner at (x, y); underscores of names become hyphens."""
    named = {k.replace("_", "-"): v for k, v in more.items()}
    corners = {"rx": radius} if radius else {}
    return tag("rect", {"x": x, "y": y, "width": w, "height": h, **corners, "fill": fill, **named})


def text(
    x: float,
    y: float,
    shown: str,
    *,
    size: float = 12,
    mono: bool = True,
    anchor: str = "start",
    **more: object,
) -> str:
    """A label whose baseline begins, ends or has its middle at (x, y)."""
    named = {k.replace("_", "-"): v for k, v in more.items()}
    font = {"font-family": MONO if mono else FONT, "font-size": size}
    place = {"x": x, "y": y} | ({"text-anchor": anchor} if anchor != "start" else {})
    return tag("text", {**place, **font, **named, "xml:space": "preserve"}, escape(shown))


def path(d: str, **more: object) -> str:
    """A line without filling."""
    named = {k.replace("_", "-"): v for k, v in more.items()}
    return tag("path", {"d": d, "fill": "none", **named})


def group(body: str, **attributes: object) -> str:
    """Elements with attributes in common; underscores of names become hyphens."""
    return tag("g", {k.replace("_", "-").lstrip("-"): v for k, v in attributes.items()}, body)


def picture(body: str, w: float, h: float, title: str) -> str:
    """The whole picture, on paper of its own colour."""
    frame = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {w:.0f} {h:.0f}"}
    size = {"width": f"{w:.0f}", "height": f"{h:.0f}", "role": "img"}
    paper = tag("rect", {"class": "paper", "width": "100%", "height": "100%"})
    inner = f"<title>{escape(title)}</title><style>{_STYLE}</style>{paper}\n{body}"
    return tag("svg", {**frame, **size}, inner) + "\n"
