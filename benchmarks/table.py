"""Aligned tables of text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Lines of columns; the first `left` are aligned left, the others right."""
    lines = [list(header), *[list(r) for r in rows]]
    if any(len(line) != len(header) for line in lines):
        raise ValueError("every row has as many cells as the header")
    widths = [max(len(line[c]) for line in lines) for c in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if c < left else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def duration(seconds: float | None) -> str:
    """Microseconds with three digits or more: 0.214, 21.4, 2140, 214,000."""
    if seconds is None:
        return "–"
    return figure(1e6 * seconds)


def figure(value: float | None) -> str:
    """Three digits at least, none after the point from 1000 on, thousands apart from 10,000."""
    if value is None:
        return "–"
    for bound, digits in ((1, 3), (10, 2), (1000, 1)):
        if abs(value) < bound - 0.5 * 10**-digits:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}" if abs(value) >= 9999.5 else f"{value:.0f}"


def mebibytes(count: float | None) -> str:
    return "–" if count is None else figure(count / 2**20)
