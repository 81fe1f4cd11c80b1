"""The schedule tree as a picture: the root to the left, each node right of the one above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tc.poly.tree_nodes import Node, Tree
from tc.support import svg

# Fill and border of each kind of node.
_COLOURS = {
    "domain": ("#eaeef2", "#6e7781"),
    "band": ("#ddf4ff", "#0969da"),
    "sequence": ("#fff8c5", "#9a6700"),
    "set": ("#fff8c5", "#9a6700"),
    "filter": ("#dafbe1", "#1a7f37"),
    "mark": ("#ffeff7", "#bf3989"),
}
_OTHER = ("#fbefff", "#8250df")
_SIZE = 12  # of letters
_HIGH, _GAP, _BETWEEN = 24, 8, 34  # of a node, between nodes, between columns
_MARGIN = 18
_MOST_LABEL, _MOST_TEXT = 34, 90  # characters


@dataclass(slots=True)
class _Placed:
    node: Node
    depth: int
    y: float
    children: list[_Placed]


def schedule_picture(
    found: Sequence[Tree], texts: Mapping[str, str], title: str, marks: Callable[[Node], str] = lambda _: ""
) -> str:
    """The picture of schedule trees, one below the other.

    `texts` says what each stage does; it stands behind the leaves.  `marks` gives the numbers of a node's
    statements, for a page that marks them.
    """
    y = float(_MARGIN)
    parts: list[str] = []
    widest = svg.width(title, 14) + 2 * _MARGIN
    parts.append(svg.text(_MARGIN, y + 12, title, size=14, mono=False, font_weight="bold"))
    y += 32
    for tree in found:
        if tree.title:
            parts.append(svg.text(_MARGIN, y + 10, tree.title, size=_SIZE, mono=False))
            y += 24
        placed, y = _place(tree.root, 0, y)
        body, right = _drawn(placed, texts, marks)
        parts.append(body)
        widest, y = max(widest, right + _MARGIN), y + 2 * _GAP
    return svg.picture("\n".join(parts), widest, y + _MARGIN - 2 * _GAP, title)


def _place(node: Node, depth: int, y: float) -> tuple[_Placed, float]:
    """A node in the middle of those below it, and where the next one may begin."""
    children: list[_Placed] = []
    start = y
    for c in node.children:
        below, y = _place(c, depth + 1, y)
        children.append(below)
    if not children:
        return _Placed(node, depth, start, []), start + _HIGH + _GAP
    return _Placed(node, depth, (children[0].y + children[-1].y) / 2, children), y


def _label(node: Node) -> str:
    if node.kind == "filter" or not node.label:
        return svg.shortened(node.label or node.kind, _MOST_LABEL)
    if node.kind == "domain":
        return f"domain: {len(node.stages)} statement{'s' if len(node.stages) != 1 else ''}"
    return svg.shortened(f"{node.kind} {node.label}", _MOST_LABEL)


def _drawn(root: _Placed, texts: Mapping[str, str], marks: Callable[[Node], str]) -> tuple[str, float]:
    """The elements of a tree, and its right end."""
    everything: list[_Placed] = []

    def collect(p: _Placed) -> None:
        everything.append(p)
        for c in p.children:
            collect(c)

    collect(root)
    wide = {id(p): svg.width(_label(p.node), _SIZE) + 16 for p in everything}
    columns: dict[int, float] = {}
    for p in everything:
        columns[p.depth] = max(columns.get(p.depth, 0.0), wide[id(p)])
    left: dict[int, float] = {0: float(_MARGIN)}
    for d in range(1, len(columns)):
        left[d] = left[d - 1] + columns[d - 1] + _BETWEEN
    leaves = [p for p in everything if not p.children]
    behind = max(left[p.depth] + wide[id(p)] for p in leaves) + 16
    out: list[str] = []
    right = behind
    for p in everything:
        x, middle = left[p.depth], p.y + _HIGH / 2
        for c in p.children:
            end, to = left[c.depth], c.y + _HIGH / 2
            bend = end - _BETWEEN / 2
            line = f"M{x + wide[id(p)]:.1f} {middle:.1f} H{bend - 6:.1f} "
            line += f"C{bend + 6:.1f} {middle:.1f} {bend - 6:.1f} {to:.1f} {end:.1f} {to:.1f}"
            out.append(svg.path(line, stroke="#8c959f", stroke_width=1.2))
    for p in everything:
        fill, stroke = _COLOURS.get(p.node.kind, _OTHER)
        x = left[p.depth]
        shape = svg.rect(x, p.y, wide[id(p)], _HIGH, fill=fill, radius=6.0, stroke=stroke)
        label = svg.text(x + 8, p.y + 16, _label(p.node), size=_SIZE)
        out.append(svg.group(shape + label, _class="shape", data_s=marks(p.node)))
    for p in leaves:
        lines = [f"{s}: {texts[s]}" for s in p.node.stages if s in texts]
        if lines:
            shown = svg.shortened("; ".join(lines), _MOST_TEXT)
            y = p.y + 16
            out.append(
                svg.path(
                    f"M{left[p.depth] + wide[id(p)] + 4:.1f} {p.y + _HIGH / 2:.1f} H{behind - 6:.1f}",
                    stroke="#8c959f",
                    stroke_width=0.8,
                    stroke_dasharray="1 3",
                )
            )
            out.append(svg.group(svg.text(behind, y, shown, size=_SIZE), data_s=marks(p.node)))
            right = max(right, behind + svg.width(shown, _SIZE))
    return "\n".join(out), right
