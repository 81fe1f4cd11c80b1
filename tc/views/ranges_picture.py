"""The ranges at given sizes as a picture: for each statement the box of each access inside its tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tc.ir.expr import INDEX, Call, Cast, Expr, walk
from tc.ir.intervals import Interval, box_interval, interval
from tc.ir.printer import text
from tc.ir.program import Program, Stage
from tc.support import svg

_MARGIN, _BETWEEN, _SIZE = 18, 26, 12
_WIDE, _HIGH, _BAR, _LEAST = 132.0, 96.0, 12.0, 6.0  # of a drawing, of a bar, of anything drawn
_MOST_TEXT, _MOST_LABEL = 120, 44  # characters of a statement, and of what is below a drawing
_ROW = 1000.0  # width after which the accesses of a statement go on below
_READ, _WRITTEN, _OUTSIDE = "#0969da", "#1a7f37", "#cf222e"


@dataclass(frozen=True, slots=True)
class Access:
    """An access of a stage: per dimension the tensor's coordinates and those that are accessed, both ends
    inclusive; None where data choose them."""

    text: str
    subscripts: tuple[str, ...]
    written: bool
    extents: tuple[Interval, ...]
    box: tuple[Interval | None, ...]


def accesses(program: Program, stage: Stage) -> list[Access]:
    """What a stage of a specialised program writes, then what it reads."""
    names: dict[str, Interval | None] = {}
    for loop in stage.loops:
        trips = interval(loop.trips, names)
        names[loop.name] = None if trips is None else (0, trips[1] - 1)
    for v in stage.domain.vars:  # whose ranges may depend on those loops
        low, end = interval(v.range.min, names), interval(v.range.end, names)
        names[v.name] = None if low is None or end is None else (low[0], end[1] - 1)
    buffers = program.func_buffers

    def access(name: str, subscripts: tuple[Expr, ...], written: bool) -> Access:
        box = program.buffer(buffers.get(name, name)).box
        extents = tuple(box_interval(box, d) or (0, -1) for d in range(len(box)))
        found = tuple(_interval(e, names) for e in subscripts)
        shown = tuple(text(_plain(e)) for e in subscripts)
        return Access(f"{name}({', '.join(shown)})", shown, written, extents, found)

    out = [access(stage.func, stage.args, True)]
    for root in (*stage.args, stage.value):
        reads = (e for e in walk(root) if isinstance(e, Call) and e.kind in ("func", "image"))
        out += [access(e.name, e.args, False) for e in reads]
    return list(dict.fromkeys(out))


def _plain(e: Expr) -> Expr:
    """A subscript without the conversion of data to an index."""
    return e.value if isinstance(e, Cast) and e.dtype == INDEX else e


def _interval(e: Expr, names: dict[str, Interval | None]) -> Interval | None:
    """Where a subscript lies; None where it is not arithmetic on the variables."""
    try:
        return interval(e, names)
    except KeyError:  # a scalar of the call
        return None


def ranges_picture(program: Program, title: str, marks: Callable[[Stage], str] = lambda _: "") -> str:
    """The picture of a specialised program.  Stages that only set neutral elements are left out.  `marks`
    gives the number of a stage's statement, for a page that marks it."""
    y = float(_MARGIN)
    parts = [svg.text(_MARGIN, y + 12, title, size=14, mono=False, font_weight="bold")]
    widest, y = svg.width(title, 14), y + 26
    x = float(_MARGIN)
    for body, wide in _legend():
        parts.append(svg.group(body, transform=f"translate({x:.0f} {y:.0f})"))
        x += wide
    y += 34
    widest = max(widest, x - _MARGIN)
    for stage in program.stages:
        if stage.init:
            continue
        body, right, y = _stage(program, stage, y)
        parts.append(svg.group(body, data_s=marks(stage)))
        widest = max(widest, right)
    return svg.picture(_HATCH + "\n".join(parts), widest + _MARGIN, y, title)


_HATCH = (
    '<defs><pattern id="where-data-say" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="2.5" height="6" fill="#0969da" opacity="0.45"/>'
    "</pattern></defs>"
)


def _legend() -> Iterator[tuple[str, float]]:
    """The parts of the legend with their widths."""
    kinds = (
        ("the tensor", "#eaeef2", "#8c959f"),
        ("what is written", _WRITTEN, _WRITTEN),
        ("what is read", _READ, _READ),
        ("subscripts from data", "url(#where-data-say)", _READ),
        ("outside: only where a condition or mode allows it", _OUTSIDE, _OUTSIDE),
    )
    for label, fill, stroke in kinds:
        opacity = 1 if fill.startswith(("#eaeef2", "url")) else 0.35
        box = svg.rect(0, 0, 14, 14, fill=fill, fill_opacity=opacity, stroke=stroke)
        yield box + svg.text(20, 11.5, label, size=_SIZE, mono=False), 42 + 0.58 * _SIZE * len(label)


def _stage(program: Program, stage: Stage, y: float) -> tuple[str, float, float]:
    """A statement's heading and its accesses; the right and the lower end."""
    heading = svg.shortened(f"{stage.name}: {stage.text}", _MOST_TEXT)
    out = [svg.text(_MARGIN, y + 12, heading, size=13)]
    right = _MARGIN + svg.width(heading, 13)
    y += 20
    if stage.domain.conditions:
        note = svg.shortened(f"where {', '.join(map(text, stage.domain.conditions))}", _MOST_TEXT)
        out.append(svg.text(_MARGIN, y + 11, note, size=_SIZE))
        y += 18
    x, low = float(_MARGIN), y
    for a in accesses(program, stage):
        body, w, h = _access(a)
        if x > _MARGIN and x + w > _ROW:
            x, y = float(_MARGIN), low + 12
        out.append(svg.group(body, transform=f"translate({x:.1f} {y + 8:.1f})"))
        x += w + _BETWEEN
        right, low = max(right, x - _BETWEEN), max(low, y + 8 + h)
    return "".join(out), right, low + 30


def _access(a: Access) -> tuple[str, float, float]:
    """An access at the origin, its width and height."""
    out: list[str] = []
    y = 0.0
    rank = len(a.extents)
    for d in range(max(rank - 2, 0)):
        out.append(_part(a, d, None, 0.0, y, _WIDE, _BAR))
        y += _BAR + 6
    if rank >= 2:
        w, h = _scaled(_length(a, rank - 1), _length(a, rank - 2))
        out.append(_part(a, rank - 1, rank - 2, 0.0, y, w, h))
        y += h
    elif rank == 1:
        out.append(_part(a, 0, None, 0.0, y, _WIDE, _BAR))
        y += _BAR
    else:
        out.append(svg.rect(0.0, y, _BAR, _BAR, fill=_colour(a), fill_opacity=0.35, stroke=_colour(a)))
        y += _BAR
    lines = [a.text]
    lines += [f"{a.subscripts[d]}: {_range_text(a.extents[d], a.box[d])}" for d in range(rank)]
    for i, line in enumerate(lines):
        y += 16
        weight = "normal" if i else "bold"
        out.append(svg.text(0.0, y, svg.shortened(line, _MOST_LABEL), size=_SIZE, font_weight=weight))
    wide = max([_WIDE, *(svg.width(svg.shortened(line, _MOST_LABEL), _SIZE) for line in lines)])
    return "".join(out), wide, y


def _colour(a: Access) -> str:
    return _WRITTEN if a.written else _READ


def _span(a: Access, d: int) -> Interval:
    """The coordinates that are drawn of a dimension."""
    low, high = a.extents[d]
    found = a.box[d]
    return (low, high) if found is None else (min(low, found[0]), max(high, found[1]))


def _length(a: Access, d: int) -> int:
    low, high = _span(a, d)
    return max(1, high - low + 1)


def _scaled(columns: int, rows: int) -> tuple[float, float]:
    """The size of a drawing of so many columns and rows, of their proportions where these are not extreme."""
    by = min(_WIDE / columns, _HIGH / rows)
    return max(columns * by, 3 * _LEAST), max(rows * by, 3 * _LEAST)


def _part(a: Access, across: int, down: int | None, x: float, y: float, w: float, h: float) -> str:
    """One dimension as a bar, or two as a rectangle."""

    def place(d: int | None, ends: Interval, length: float) -> tuple[float, float]:
        if d is None:
            return 0.0, length
        low, _ = _span(a, d)
        each = length / _length(a, d)
        return (ends[0] - low) * each, max((ends[1] - ends[0] + 1) * each, 0.0)

    def rectangle(of: Callable[[int], Interval], **look: object) -> str:
        left, wide = place(across, of(across), w)
        top, high = place(down, of(down), h) if down is not None else (0.0, h)
        return svg.rect(x + left, y + top, max(wide, 1.5), max(high, 1.5), **look)  # type: ignore[arg-type]

    def accessed(d: int) -> Interval:
        return a.box[d] or a.extents[d]

    dims = [d for d in (across, down) if d is not None]
    out = ""
    if any(accessed(d) != _inside(a, d) for d in dims):
        out += rectangle(accessed, fill=_OUTSIDE, fill_opacity=0.25, stroke=_OUTSIDE, stroke_dasharray="3 2")
    out += rectangle(lambda d: a.extents[d], fill="#eaeef2", stroke="#8c959f")
    if any(a.box[d] is None for d in dims):
        return out + rectangle(accessed, fill="url(#where-data-say)", stroke=_colour(a))
    if all(lo <= hi for lo, hi in (_inside(a, d) for d in dims)):
        out += rectangle(
            lambda d: _inside(a, d), fill=_colour(a), fill_opacity=0.35, stroke=_colour(a), stroke_width=1.5
        )
    return out


def _inside(a: Access, d: int) -> Interval:
    """The accessed coordinates that the tensor has."""
    low, high = a.extents[d]
    found = a.box[d] or (low, high)
    return max(low, found[0]), min(high, found[1])


def _range_text(extents: Interval, box: Interval | None) -> str:
    low, high = extents
    if high < low:
        return "no elements"
    if box is None:
        return f"where data say, of {low} … {high}"
    if box == extents:
        return f"all of {low} … {high}" if high > low else f"all of {low}"
    shown = f"{box[0]} … {box[1]}" if box[1] > box[0] else f"{box[0]}"
    return f"{shown} of {low} … {high}"
