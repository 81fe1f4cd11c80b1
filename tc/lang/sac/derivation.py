"""How the index sets of partitions came about, in the words of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tc.errors import Span
from tc.lang.resolved import Derived
from tc.lang.sac.scalars import t_text

if TYPE_CHECKING:
    from tc.lang.sac.comprehend import Piece
    from tc.lang.sac.elaborate import Elaborator

_LONGEST = 100  # characters of a source line that is repeated


def derived(
    names: Sequence[str], selections: Mapping[str, str], sides: Sequence[tuple[str, bool, bool]]
) -> tuple[str, ...]:
    """Where the bounds of a partition came from.  `sides`: lower and upper, whether it is written as an
    expression, and whether it is that of the result."""
    if selections and not any(written or of_result for _, written, of_result in sides):
        return tuple(f"bounds of {_plain(n)} by find-shapes from {selections[n]}" for n in names)
    out: list[str] = []
    for side, written, of_result in sides:
        if written:
            out.append(f"{side} bound as written")
        elif of_result:
            out.append(f"{side} bound '.', of the frame")
        elif not selections:
            out.append(f"{side} bound 0, since none is written")
        else:
            out += [f"{side} bound of {_plain(n)} by find-shapes from {selections[n]}" for n in names]
    return tuple(out)


def derivation(
    el: Elaborator,
    mark: int,
    pieces: Sequence[Piece],
    frame: tuple[Any, ...] | None,
    cell: tuple[Any, ...],
    span: Span,
) -> None:
    """Puts what is known of an array before what is known of the arrays in its bodies, which stands from
    `mark` on.  `frame`: None for a fold."""
    lines = [_line(span)]
    if frame is not None:
        lines.append(f"  frame {_shape(frame)}, cell {_shape(cell)}")
    for p in pieces:
        low = _side(p.low, p.after[0])
        end = _side(p.end, None)
        lines.append(f"  {low} <= {p.shown} < {end}" if p.names else f"  {p.shown}: no axes")
        lines += [f"    {note}" for note in p.why]
    inner = [replace(x, text=_indented(x.text)) for x in el.derivation[mark:]]
    el.derivation[mark:] = [Derived("\n".join(lines), span), *inner]


def _side(side: Sequence[Any], missing: int | None) -> str:
    return _shape(side) if all(x is not None for x in side) else str(missing) if missing else "."


def _shape(items: Sequence[Any]) -> str:
    return f"[{', '.join(map(t_text, items))}]"


def _plain(name: str) -> str:
    return name.partition("$")[0]


def _indented(block: str) -> str:
    return "\n".join(f"  {line}" for line in block.split("\n"))


def _line(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
