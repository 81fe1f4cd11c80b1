"""Pictures: schedule trees as data, boxes of accesses, and what is drawn of them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import tc
from tc.poly.tree_nodes import trees, walk
from tc.views.panels import schedule_trees
from tc.views.ranges_picture import accesses, ranges_picture
from tc.views.schedule_picture import schedule_picture

CONV = """
def conv(float(N,C,H,W) x, float(O,C,KH,KW) w) -> (y) {
  y(n,o,h,v) +=! x[none,none,zero,zero](n,c,h+i-1,v+j-1) * w(o,c,i,j) where h in 0:H, v in 0:W
}
"""
LOOKUP = """
def f(float(R,D) T, int32(N) ids, int s) -> (y, z) {
  y(n,d) = T(ids(n),d)
  z(i) = y(i+1,s) - y(i-1,s)
}
"""
LOOP = """
def scan(float(T,N) x, float(N) b) -> (h) {
  h(0,j) = b(j)
  for t in 1:T { h(t,j) = h(t-1,j) + x(t,j) }
}
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_the_boxes_of_accesses() -> None:
    program = tc.compile(CONV, "reference").program(
        {"N": 2, "C": 3, "H": 6, "W": 7, "O": 4, "KH": 3, "KW": 3}
    )
    written, x, w = accesses(program, program.stages[1])
    assert written.written and written.box == written.extents == ((0, 1), (0, 3), (0, 5), (0, 6))
    # Outside by one on each side, where the mode gives zeros.
    assert x.text == "x(n, c, h + i - 1, v + j - 1)"
    assert x.box == ((0, 1), (0, 2), (-1, 6), (-1, 7)) and x.extents == ((0, 1), (0, 2), (0, 5), (0, 6))
    assert w.box == w.extents == ((0, 3), (0, 2), (0, 2), (0, 2))

    program = tc.compile(LOOKUP, "reference").program({"R": 5, "D": 8, "N": 9, "s": 3})
    _, table, ids = accesses(program, program.stages[0])
    assert table.text == "T(ids(n), d)" and table.box == (None, (0, 7)) and table.extents == ((0, 4), (0, 7))
    assert ids.box == ((0, 8),)
    written, after, before = accesses(program, program.stages[1])
    assert written.box == written.extents == ((1, 7),), "the tensor begins at 1"
    assert (after.box, before.box) == (((2, 8), (3, 3)), ((0, 6), (3, 3)))

    program = tc.compile(LOOP, "reference").program({"T": 5, "N": 4})
    written, before, x = accesses(program, program.stages[-1])
    assert (written.box[0], before.box[0], x.box[0]) == ((1, 4), (0, 3), (1, 4))


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_what_is_outside_and_what_data_choose_is_drawn_so() -> None:
    def fills(source: str, **sizes: int) -> list[str]:
        picture = ranges_picture(tc.compile(source, "reference").program(sizes), "a < b")
        root = ElementTree.fromstring(picture)
        assert root.findtext(f"{SVG}title") == "a < b"
        shapes = [g for g in root.iter(f"{SVG}g") if g.get("data-s") is not None]
        return [str(r.get("fill")) for g in shapes for r in g.iter(f"{SVG}rect")]

    conv = fills(CONV, N=2, C=3, H=6, W=7, O=4, KH=3, KW=3)
    assert conv.count("#cf222e") == 1 and "url(#where-data-say)" not in conv
    lookup = fills(LOOKUP, R=5, D=8, N=9, s=3)
    assert lookup.count("url(#where-data-say)") == 1 and "#cf222e" not in lookup


def test_the_nodes_of_a_schedule_tree() -> None:
    source = "def f(float(N) x) -> (s, y) { s +=! x(i)  y(i) = x(i) / s }"
    for backend in ("cpu", "cuda", "reference"):
        kernel = tc.compile(source, backend)
        (tree,) = trees(kernel.inspect("schedule", N=40))
        kinds = {n.kind for n, _ in walk(tree.root)}
        assert {"domain", "band", "sequence", "filter"} <= kinds and "leaf" not in kinds
        assert tree.root.stages == ("S0", "S1", "S2")
        assert ("band", "i") in {(n.kind, n.label.split(" ")[0]) for n, _ in walk(tree.root)}
        for n, _ in walk(tree.root):
            below = {s for c in n.children for s in c.stages}
            assert below <= {*n.stages}, "a node schedules what is below it"
    # One for each part of a program with sequential loops, and for each variant of a dynamic size.
    kernel = tc.compile(LOOP, "cpu")
    assert [t.root.stages for t in trees(kernel.inspect("schedule", T=4, N=8))] == [("S0",), ("S1",)]


def test_the_picture_of_a_schedule_tree() -> None:
    source = "def f(float(N,M) x) -> (s, y) { s(i) +=! x(i,j)  y(i,j) = x(i,j) < s(i) ? 1 : 0 }"
    kernel = tc.compile(source, "cpu")
    found, _, texts = schedule_trees(kernel, {"N": 40, "M": 64})
    root = ElementTree.fromstring(schedule_picture(found, texts, "f"))
    shown = [str(t.text) for t in root.iter(f"{SVG}text")]
    boxes = [g for g in root.iter(f"{SVG}g") if g.get("class") == "shape"]
    assert len(boxes) == len(list(walk(found[0].root)))
    assert "S0: s(i) = 0.0" in shown and "S1: s(i) += x(i, j)" in shown
    # Nothing is drawn over anything else.
    rects = [r for g in boxes for r in g.iter(f"{SVG}rect")]
    places = [[float(str(r.get(k))) for k in ("x", "y", "width", "height")] for r in rects]
    for i, (x, y, w, h) in enumerate(places):
        for x2, y2, w2, h2 in places[i + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    width, height = (float(str(root.get(k))) for k in ("width", "height"))
    assert all(x + w <= width and y + h <= height for x, y, w, h in places)
