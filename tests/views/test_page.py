"""The page of a compile, looked at in a browser, and what its lines are of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.ir.lines import joined
from tc.views.panels import panels
from tc.views.statements import Statements
from tests.browser import Page, browser

NORM = """
def square(float(N,D) x) -> (y) { y(n,d) = x(n,d) * x(n,d) }

def norm(float(N,D) x, float(D) w) -> (z) {
  s = square(x)
  r(n) +=! s(n,d)
  z(n,d) = x(n,d) / sqrt(r(n)) * w(d)
}
"""
SCAN = """
def scan(float(T,N) x, float(N) b) -> (h) {
  h(0,j) = b(j) * 2
  for t in 1:T { h(t,j) = fmax(h(t-1,j), x(t,j)) }
}
"""
SAC = """
double[.] f(double[.,.] A) {
  s = { [i] -> sum({ [j] -> A[i,j] }) };
  return { [i] -> s[i] * 2.0 + 1.0 };
}
"""
PANELS = ("source", "ranges", "ir", "schedule", "loops", "code", "choice")
PICTURES = ("schedule-picture", "ranges-picture")
# Backend, source, notation, sizes, the panels in which no statement is marked.
CASES: dict[str, tuple[str, str, str, dict[str, int], tuple[str, ...]]] = {
    "cpu": ("cpu", NORM, "tc", {"N": 3, "D": 16}, ()),
    "reference": ("reference", NORM, "tc", {"N": 5, "D": 6}, ("choice",)),
    "opencl": ("opencl", NORM, "tc", {"N": 2, "D": 16}, ()),
    "cuda": ("cuda", NORM, "tc", {"N": 2, "D": 16}, ()),
    "halide": ("halide", NORM, "tc", {"N": 5, "D": 6}, ("schedule", "choice", "schedule-picture")),
    "loops": ("cpu", SCAN, "tc", {"T": 4, "N": 16}, ()),
    "sac": ("cpu", SAC, "sac", {"A_0": 3, "A_1": 16}, ()),
}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as p:
        yield p


def kernel_of(case: str) -> tuple[Any, dict[str, int]]:
    backend, source, lang, sizes, _ = CASES[case]
    return tc.compile(source, backend, lang=lang), sizes


def marked(page: Page, kind: str = ".m") -> dict[str, list[str]]:
    """The texts that are marked in each panel."""
    found = page.value(
        "JSON.stringify(Object.fromEntries([...document.querySelectorAll('main > section')]"
        f".map(s => [s.id, [...s.querySelectorAll('{kind}')].map(e => e.textContent)])))"
    )
    return json.loads(found)


@pytest.mark.share(6)
@pytest.mark.parametrize("case", CASES)
def test_a_statement_is_marked_in_all_panels(case: str, page: Page, tmp_path: Path) -> None:
    kernel, sizes = kernel_of(case)
    file = tmp_path / "page.html"
    file.write_text(kernel.inspect("html", **sizes), encoding="utf-8")
    page.problems.clear()
    page.requests.clear()
    page.open(file)
    statements = page.value("document.querySelectorAll('#source .s').length")
    assert statements == len({s.span.start for s in kernel.front.checked.statements})
    exempt = CASES[case][4]
    seen: set[str] = set()
    for i in range(statements):
        page.point_at(f'#source .s[data-s="{i}"]')
        found = marked(page)
        around = marked(page, ".o")
        assert len(found["source"]) == 1
        for name in (*PANELS, *PICTURES):
            if found.get(name) or around.get(name):
                seen.add(name)
            if name in ("ranges", "ir"):
                assert found[name], (i, name)
        hue = page.value("getComputedStyle(document.querySelector('#ir .m')).backgroundColor")
        assert hue not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 255)")
    assert seen == {*PANELS, *PICTURES} - {*exempt}
    assert page.problems == []
    assert page.requests == [file.resolve().as_uri()], "a page loads nothing"


def test_marks_follow_mouse_keyboard_and_clicks(page: Page, tmp_path: Path) -> None:
    kernel, sizes = kernel_of("cpu")
    file = tmp_path / "page.html"
    file.write_text(kernel.inspect("html", **sizes), encoding="utf-8")
    page.open(file, height=700)
    assert not any(marked(page).values())
    # From any panel, and the panels scroll to what is marked.
    page.point_at("#ir .l[data-s='2']")
    assert marked(page)["source"] == ["z(n,d) = x(n,d) / sqrt(r(n)) * w(d)"]
    places = "(() => { const a = document.querySelector('#code .m').getBoundingClientRect(),"
    places += "b = document.querySelector('#code .body').getBoundingClientRect();"
    assert page.value(places + "return b.top <= a.top && a.top < b.bottom })()")
    page.point_at("h1")
    assert not any(marked(page).values()), "where there is no statement nothing is marked"
    # A click keeps the marks, Escape removes them.
    page.point_at('#source .s[data-s="1"]')
    page.click()
    page.point_at("h1")
    assert marked(page)["source"] == ["r(n) +=! s(n,d)"]
    page.press("Escape")
    assert not any(marked(page).values())
    # The keyboard reaches all statements in the order of the source.
    page.value("document.activeElement.blur()")
    for text in ("y(n,d) = x(n,d) * x(n,d)", "r(n) +=! s(n,d)", "z(n,d) = x(n,d) / sqrt(r(n)) * w(d)"):
        page.press("Tab")
        assert marked(page)["source"] == [text]


@pytest.mark.parametrize("case", CASES)
def test_lines_are_the_text_that_is_shown(case: str) -> None:
    kernel, sizes = kernel_of(case)
    one = kernel.specialize(**sizes)
    for stage in ("loops", "code", "choice"):
        if case == "halide" and stage == "choice":
            continue
        lines = one.lines(stage)
        texts = (joined(lines), one.artifact(stage))
        # Halide numbers its variables anew each time that it is asked.
        again, shown = (re.sub(r"t\d+", "t", t).rstrip("\n") for t in texts)
        assert again == shown, stage
        named = {s for line in lines for s in line.stages | line.around}
        assert named <= one.origins.keys()
        if stage == "code":  # every stage that has loops has code
            assert named >= {s for line in one.lines("loops") for s in line.stages}


def test_what_is_computed_where_it_is_read_is_marked_there() -> None:
    source = """def f(float(H,W) x) -> (y) {
      t(i,j) = x(i,j) + x(i,j+1)
      u(i,j) = t(i,j) * 2
      y(i,j) = u(i,j) + u(i+1,j)
    }"""
    kernel, sizes = tc.compile(source, "cpu"), {"H": 1000, "W": 2000}
    assert "computed where they are read: u, t\n" in kernel.inspect("choice", **sizes)
    found = {p.name: p.rows for p in panels(kernel, sizes, Statements.of(kernel))}
    row = next(r for r in found["loops"] if r.text.lstrip().startswith("S2: "))
    assert row.own == (2,) and set(row.around) == {0, 1}
    assert all({0, 1, 2} <= {n for r in found[s] for n in (*r.own, *r.around)} for s in ("schedule", "code"))
    assert not any(r.around for r in found["ir"])
    # What is read by a statement that is gone itself is where that one is.
    program, statements = kernel.program(sizes), Statements.of(kernel)
    only = {"S2": program.origins["S2"]}
    assert statements.compiled(program, only).inlined == {2: {0, 1}}
    assert statements.compiled(program, program.origins).inlined == {}


def test_a_page_without_sizes_says_what_is_missing() -> None:
    html = tc.compile(NORM, "cpu").inspect("html", N=3)
    assert "needs --size D=…" in html and "<svg" not in html
    assert "r(n) +=! s(n,d)" in html and "reduce d in [0, D)" in html


def test_texts_of_a_source_are_escaped() -> None:
    source = "def f(float(N) A) -> (B) { B(i) = A(i) < 2 && i < 1 ? 1 : 0 } # </pre><script>"
    html = tc.compile(source, "reference").inspect("html", N=3)
    assert html.count("<script>") == 1 and "A(i) &lt; 2 &amp;&amp; i &lt; 1" in html
